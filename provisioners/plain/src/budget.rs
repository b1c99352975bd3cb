//! What one bundle may cost: counted over all its files, while they are read and rendered.

use rukpak_content::{Limit, LimitExceeded, Limits};

use crate::Object;
use crate::warning::{Few, Warning};

/// What reading one bundle has used of its [`Limits`], and what it warns of.
///
/// One value goes through everything that is read for one bundle, so that many small files cost no less than a large one.
#[derive(Debug)]
pub struct Budget<'a> {
    limits: &'a Limits,
    used: Used,
    /// Copies that go when their document ends: what aliases are copied from.
    held: Cost,
    warnings: Few<Warning>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    parsed: Cost,
    file_bytes: u64,
    objects: u64,
}

/// What a value costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Collections, keys and scalars.
    pub nodes: u64,
    /// Of keys and text.
    pub bytes: u64,
}

/// What the values of a bundle cost so far, for a [`Budget`] that goes on later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent(Cost);

/// A state to go back to, where something is read a second time.
#[derive(Clone, Copy)]
pub(crate) struct Checkpoint {
    used: Used,
    warnings: (usize, u64),
}

impl<'a> Budget<'a> {
    /// Nothing is used so far.
    pub fn new(limits: &'a Limits) -> Self {
        Self { limits, used: Used::default(), held: Cost::default(), warnings: Few::default() }
    }

    /// Goes on where another budget of the same bundle ended, for what is made of its values. Files and objects count again.
    pub fn after(limits: &'a Limits, spent: Spent) -> Self {
        Self { used: Used { parsed: spent.0, ..Used::default() }, ..Self::new(limits) }
    }

    /// What [`Budget::after`] takes.
    pub fn spent(&self) -> Spent {
        Spent(self.used.parsed)
    }

    /// The limits.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// A file of `size_bytes` is read: [`Limits::manifest_bytes`], [`Limits::text_bytes`].
    pub fn add_file(&mut self, file: &str, size_bytes: u64) -> Result<(), LimitExceeded> {
        Limit::ManifestBytes.check(size_bytes, self.limits.manifest_bytes, || file.to_owned())?;
        self.used.file_bytes = self.used.file_bytes.saturating_add(size_bytes);
        Limit::TextBytes.check(self.used.file_bytes, self.limits.text_bytes, || file.to_owned())
    }

    /// An object was found: [`Limits::objects`].
    pub fn add_object(&mut self, place: impl FnOnce() -> String) -> Result<(), LimitExceeded> {
        self.used.objects += 1;
        Limit::Objects.check(self.used.objects, self.limits.objects, place)
    }

    /// `copies` of `value` are made: [`Limits::yaml_nodes`], [`Limits::text_bytes`].
    pub fn add_copies(
        &mut self,
        value: &serde_json::Value,
        copies: u64,
        place: impl FnOnce() -> String,
    ) -> Result<(), LimitExceeded> {
        let Cost { nodes, bytes } = Cost::of(value);
        self.add(Cost { nodes: nodes.saturating_mul(copies), bytes: bytes.saturating_mul(copies) }, place)
    }

    /// A copy of an object is made: as [`Budget::add_copies`].
    pub fn add_object_copy(&mut self, object: &Object) -> Result<(), LimitExceeded> {
        self.add(Cost::of_map(object.as_map()), || object.origin().to_string())
    }

    /// Counts what is about to be made.
    pub(crate) fn add(&mut self, cost: Cost, place: impl FnOnce() -> String) -> Result<(), LimitExceeded> {
        self.used.parsed = self.used.parsed.plus(cost);
        self.check(place)
    }

    /// Counts what is kept until [`Budget::release`].
    pub(crate) fn hold(&mut self, cost: Cost, place: impl FnOnce() -> String) -> Result<(), LimitExceeded> {
        self.held = self.held.plus(cost);
        self.check(place)
    }

    /// What was held is gone.
    pub(crate) fn release(&mut self) {
        self.held = Cost::default();
    }

    fn check(&self, place: impl FnOnce() -> String) -> Result<(), LimitExceeded> {
        let Cost { nodes, bytes } = self.used.parsed.plus(self.held);
        if nodes > self.limits.yaml_nodes {
            return Limit::YamlNodes.check(nodes, self.limits.yaml_nodes, place);
        }
        Limit::TextBytes.check(bytes, self.limits.text_bytes, place)
    }

    /// Keeps a warning, if it is one of the first.
    pub fn warn(&mut self, make: impl FnOnce() -> Warning) {
        self.warnings.push_with(make);
    }

    /// Keeps a warning for each of `some`, if it is one of the first.
    pub fn warn_all<T>(&mut self, some: Few<T>, make: impl Fn(T) -> Warning) {
        let more = some.more();
        some.into_iter().for_each(|one| self.warn(|| make(one)));
        self.skip_warnings(more);
    }

    /// So many warnings were not made.
    pub(crate) fn skip_warnings(&mut self, count: u64) {
        self.warnings.skip(count);
    }

    /// The warnings so far; none are left.
    pub fn take_warnings(&mut self) -> Few<Warning> {
        std::mem::take(&mut self.warnings)
    }

    pub(crate) fn mark(&self) -> Checkpoint {
        Checkpoint { used: self.used, warnings: self.warnings.mark() }
    }

    pub(crate) fn rewind(&mut self, mark: Checkpoint) {
        self.used = mark.used;
        self.warnings.rewind(mark.warnings);
        self.release();
    }
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        Self { nodes: self.nodes.saturating_add(other.nodes), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn of_map(map: &serde_json::Map<String, serde_json::Value>) -> Self {
        map.iter().fold(Self { nodes: 1, bytes: 0 }, |cost, (key, value)| {
            cost.plus(Self { nodes: 1, bytes: key.len() as u64 }).plus(Self::of(value))
        })
    }

    /// Of a whole value. The depth of the recursion is that of the value, which its reader has bounded.
    pub(crate) fn of(value: &serde_json::Value) -> Self {
        let start = Self { nodes: 1, bytes: 0 };
        match value {
            serde_json::Value::String(text) => Self { nodes: 1, bytes: text.len() as u64 },
            serde_json::Value::Array(items) => items.iter().map(Self::of).fold(start, Self::plus),
            serde_json::Value::Object(map) => Self::of_map(map),
            _ => start,
        }
    }
}
