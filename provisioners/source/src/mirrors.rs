//! Where else an image may be pulled from: `registries.conf`, as podman, CRI-O and OpenShift nodes read it. No I/O.
//!
//! Source of the rules: containers-registries.conf(5), format 2. Read are `[[registry]]` with `prefix`, `location`,
//! `insecure`, `blocked` and `mirror-by-digest-only`, and `[[registry.mirror]]` with `location`, `insecure` and
//! `pull-from-mirror`. Other tables concern short names and credential helpers, which have no meaning here, and are passed
//! over; a misspelled key in those two is refused.

mod config;

use oci_client::Reference;

pub use config::Error;

/// The registries of a `registries.conf`. Without any, every image is pulled from where its name says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    registries: Vec<Registry>,
}

/// What holds for the images whose name begins with `prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registry {
    prefix: String,
    /// What takes the place of the prefix; `None` leaves the name alone.
    location: Option<String>,
    insecure: bool,
    blocked: bool,
    mirrors: Vec<Mirror>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    location: String,
    insecure: bool,
    use_for: UseFor,
}

/// Which references a mirror serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UseFor {
    All,
    Digests,
    Tags,
}

/// A place that may hold an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageLocation {
    /// What to ask for there.
    pub(crate) reference: Reference,
    /// Whether a certificate of no known authority will do, or no TLS at all.
    pub(crate) insecure: bool,
    /// Whether it is a mirror; otherwise it is the registry itself.
    pub(crate) is_mirror: bool,
}

impl Mirrors {
    /// Reads the text of a `registries.conf`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        config::parse(text)
    }

    /// Whether every image is pulled from where its name says.
    pub fn is_empty(&self) -> bool {
        self.registries.is_empty()
    }

    /// The places to ask for `reference`, in order, never none: the mirrors, then the registry itself.
    ///
    /// A place whose own name is blocked is left out. That is how OpenShift writes "never contact the source": a blocked registry
    /// with mirrors is pulled from the mirrors alone.
    pub(crate) fn places(&self, reference: &Reference) -> Result<Vec<ImageLocation>, Error> {
        let name = name(reference);
        let Some((registry, matched)) = self.registry(&name) else {
            return Ok(vec![ImageLocation { reference: reference.clone(), insecure: false, is_mirror: false }]);
        };
        let by_digest = reference.digest().is_some();
        let wanted = |mirror: &&Mirror| match mirror.use_for {
            UseFor::All => true,
            UseFor::Digests => by_digest,
            UseFor::Tags => !by_digest,
        };
        let rest = &name[matched..];
        let mut places = Vec::new();
        for mirror in registry.mirrors.iter().filter(wanted) {
            let reference = moved(&mirror.location, rest, reference)?;
            places.push(ImageLocation { insecure: mirror.insecure, is_mirror: true, reference });
        }
        let own = match &registry.location {
            Some(location) => moved(location, rest, reference)?,
            None => reference.clone(),
        };
        places.push(ImageLocation { reference: own, insecure: registry.insecure, is_mirror: false });
        places.retain(|place| !self.blocks(&place.reference));
        if places.is_empty() {
            return Err(Error::Blocked { name: reference.whole(), prefix: registry.prefix.clone() });
        }
        Ok(places)
    }

    fn blocks(&self, reference: &Reference) -> bool {
        self.registry(&name(reference)).is_some_and(|(registry, _)| registry.blocked)
    }

    /// The registry with the longest prefix of `name`, and how much of the name the prefix stands for.
    fn registry(&self, name: &str) -> Option<(&Registry, usize)> {
        let matching = self.registries.iter().filter_map(|registry| Some((registry, matched(name, &registry.prefix)?)));
        matching.max_by_key(|(registry, _)| registry.prefix.len())
    }
}

/// What prefixes are compared with: registry, repository, and tag or digest as given.
fn name(reference: &Reference) -> String {
    let tag = reference.tag().map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = reference.digest().map(|digest| format!("@{digest}")).unwrap_or_default();
    format!("{}/{}{tag}{digest}", reference.registry(), reference.repository())
}

/// How many bytes of `name` the prefix stands for, if it is one. `*.` stands for one or more labels of the host.
fn matched(name: &str, prefix: &str) -> Option<usize> {
    let host_bytes = name.find('/').unwrap_or(name.len());
    let end = match prefix.strip_prefix('*') {
        None if name.starts_with(prefix) => prefix.len(),
        None => return None,
        Some(suffix) => {
            let (host, path) = suffix.split_at(suffix.find('/').unwrap_or(suffix.len()));
            let matches = name[..host_bytes].ends_with(host) && name[host_bytes..].starts_with(path);
            if !matches || host_bytes <= host.len() {
                return None;
            }
            host_bytes + path.len()
        }
    };
    match name.as_bytes().get(end) {
        None | Some(b'/' | b'@') => Some(end),
        // Behind a host stands its port, which makes it another host; behind a repository stands the tag.
        Some(b':') if end > host_bytes => Some(end),
        Some(_) => None,
    }
}

/// The image of the same tag or digest at `location` with `rest`, which is what its name has behind the prefix.
fn moved(location: &str, rest: &str, reference: &Reference) -> Result<Reference, Error> {
    // A prefix may reach into the tag or the digest; the location then says where the repository is.
    let folders = rest.split(['@', ':']).next().unwrap_or_default();
    let whole = format!("{location}{folders}");
    let Some((registry, repository)) = whole.split_once('/').filter(|(_, repository)| !repository.is_empty()) else {
        return Err(Error::NoRepository { location: location.to_owned(), name: reference.whole() });
    };
    let (registry, repository) = (registry.to_owned(), repository.to_owned());
    let tag = reference.tag().unwrap_or("latest").to_owned();
    Ok(match reference.digest() {
        // What was asked for by digest may have no tag there.
        Some(digest) => Reference::with_digest(registry, repository, digest.to_owned()),
        None => Reference::with_tag(registry, repository, tag),
    })
}

#[cfg(test)]
mod tests;
