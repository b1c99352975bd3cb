//! What the reads at the beginning of a reconcile have shown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rukpak_content::Digest;
use rukpak_crds::config::SEVERAL_NAMESPACES;
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus, DeletionPolicy, Inventory, Pin, Revision};
use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::Release;
use crate::kind::is_crd;
use crate::retry::Class;

/// So many revisions are kept where the deployment does not say.
const DEFAULT_HISTORY: usize = 5;

/// Everything that decisions about a BundleDeployment are made from, beside what is remembered of it. What a later read shows takes the
/// place of an earlier one, and so does the answer to a write; nothing else changes it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The BundleDeployment; its status may be older than [`Self::status`].
    pub deployment: Arc<BundleDeployment>,
    /// The status as it was read, or written since.
    pub status: BundleDeploymentStatus,
    /// The Bundle that the template asks for.
    pub desired: Desired,
    /// The BundleDeployments that must be ready first.
    pub dependencies: Dependencies,
    /// The BundleDeployments that depend on this one, and that it does not depend on in turn.
    pub dependants: Vec<String>,
    /// Bundles that claim to be generated for the deployment and are not.
    pub foreign_bundles: Vec<String>,
    /// Objects that may have drifted, by the watches.
    pub drifted: BTreeSet<ObjectKey>,
    /// Somebody else than us wrote the BundleDeployment since we did.
    pub is_touched: bool,
    /// Something came that it was waiting for: a kind is served, an object that was in the way is gone.
    pub is_unblocked: bool,
    /// Kinds of its objects that the API server refuses to list or watch, each with its words.
    pub unwatched: Vec<String>,
    /// Whether `Healthy` is reported, and old Bundles wait for it.
    pub health_gate: bool,
    /// Stands for the proxy that operators are told of; `None`: there is none.
    pub proxy: Option<Digest>,
}

/// How far the desired Bundle is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Desired {
    /// It could not be found out or made.
    Unknown {
        /// Why.
        message: String,
        /// When it is worth trying again.
        class: Class,
    },
    /// There is none yet: it has to be created.
    Absent {
        /// Its name.
        bundle: String,
        /// Hash of the template.
        hash: String,
    },
    /// It is neither unpacked nor failing yet.
    Waiting {
        /// Its name.
        bundle: String,
        /// What it waits for, if it tells.
        why: Option<String>,
        /// Whether somebody has to do something: its content was uploaded once, and is lost.
        is_stalled: bool,
    },
    /// It could not be unpacked.
    Failed {
        /// Its name.
        bundle: String,
        /// Why, if it tells.
        message: Option<String>,
    },
    /// It is unpacked.
    Ready {
        /// Its name.
        bundle: String,
        /// Hash of the template.
        hash: String,
        /// What it resolved to.
        pin: Pin,
        /// What it installs.
        release: Release,
    },
}

impl Desired {
    /// The Bundle's name, where it is known.
    pub fn bundle(&self) -> Option<&str> {
        match self {
            Self::Unknown { .. } => None,
            Self::Absent { bundle, .. }
            | Self::Waiting { bundle, .. }
            | Self::Failed { bundle, .. }
            | Self::Ready { bundle, .. } => Some(bundle),
        }
    }

    /// Whether nothing is known of the Bundle `name` but that it is there.
    pub(crate) fn is_just_created(&self, name: &str) -> bool {
        matches!(self, Self::Waiting { bundle, why: None, is_stalled: false } if bundle == name)
    }
}

/// Whether the BundleDeployments that this one depends on are ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Dependencies {
    /// They are, or there are none.
    #[default]
    Ready,
    /// Some are not, or do not exist. In words.
    NotReady(String),
    /// They wait for one another: the names from this deployment back to it.
    Cycle(Vec<String>),
}

/// Each BundleDeployment with whether it is ready and the names of those that it depends on.
pub type DependencyGraph<'a> = BTreeMap<&'a str, (bool, Vec<&'a str>)>;

impl Dependencies {
    /// What holds `name` up.
    pub fn of(name: &str, graph: &DependencyGraph<'_>) -> Self {
        if let Some(cycle) = cycle(name, graph) {
            return Self::Cycle(cycle);
        }
        let needed = graph.get(name).map(|(_, needed)| needed.as_slice()).unwrap_or_default();
        let lines: Vec<String> = needed
            .iter()
            .filter_map(|needed| match graph.get(needed) {
                Some((true, _)) => None,
                Some((false, _)) => Some(format!("BundleDeployment {needed:?} is not ready")),
                None => Some(format!("BundleDeployment {needed:?} does not exist")),
            })
            .collect();
        if lines.is_empty() { Self::Ready } else { Self::NotReady(lines.join(", ")) }
    }
}

/// The shortest way from `name` back to itself.
fn cycle(name: &str, graph: &DependencyGraph<'_>) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut paths = VecDeque::from([vec![name]]);
    while let Some(path) = paths.pop_front() {
        let last = *path.last()?;
        for next in graph.get(last).map(|(_, needed)| needed.as_slice()).unwrap_or_default() {
            let way = path.iter().copied().chain([*next]);
            if *next == name {
                return Some(way.map(str::to_owned).collect());
            }
            if seen.insert(*next) {
                paths.push_back(way.collect());
            }
        }
    }
    None
}

impl Observed {
    /// Whether the health of the objects is read.
    pub fn is_health_known(&self) -> bool {
        self.health_gate || self.deployment.spec.progress_deadline.is_some()
    }

    /// What the deployment has put into the cluster.
    pub fn inventory(&self) -> Inventory {
        self.status.inventory.clone().unwrap_or_default()
    }

    /// The release that the status says is installed.
    pub fn installed(&self) -> Option<Release> {
        Release::installed(self.status.inventory.as_ref()?)
    }

    /// Whether the status says that everything of `release` was applied, and nothing else was begun.
    pub fn was_applied(&self, release: &Release) -> bool {
        let inventory = self.status.inventory.as_ref();
        inventory.is_some_and(|inventory| inventory.applied_digest.is_some() && inventory.pending.is_none())
            && self.installed().as_ref() == Some(release)
    }

    /// The release that was begun in place of it and has not ended, and since when.
    pub fn pending(&self) -> Option<(Release, Timestamp)> {
        let pending = self.status.inventory.as_ref()?.pending.as_ref()?;
        Some((Release::read(&pending.release)?, pending.since))
    }

    /// The revision that somebody asks for in place of the template: by the spec, or else by the annotation.
    pub fn rollback_to(&self) -> Option<Result<i64, String>> {
        if let Some(revision) = self.deployment.spec.rollback_to {
            return Some(Ok(revision));
        }
        let text = self.annotation(rukpak_crds::names::ROLLBACK_TO)?;
        Some(text.parse().map_err(|_| text.to_owned()))
    }

    /// The revision of that number.
    pub fn revision(&self, number: i64) -> Option<&Revision> {
        self.status.history.iter().find(|revision| revision.revision == number)
    }

    /// Whether somebody asks for a reconcile that has not been answered yet.
    pub(crate) fn is_requested(&self) -> bool {
        let requested = self.annotation(rukpak_crds::names::RECONCILE_REQUESTED_AT);
        requested.is_some() && requested != self.status.last_handled_reconcile_at.as_deref()
    }

    /// Whether the object is a CRD that installations have in common.
    pub fn is_in_common(&self, key: &ObjectKey) -> bool {
        let config = self.deployment.spec.config.as_ref();
        is_crd(key) && config.is_some_and(|config| config.get(SEVERAL_NAMESPACES) == Some(&Value::Bool(true)))
    }

    /// How many revisions are kept.
    pub fn history_limit(&self) -> usize {
        let limit = self.deployment.spec.revision_history_limit.and_then(|limit| usize::try_from(limit).ok());
        limit.unwrap_or(DEFAULT_HISTORY).max(1)
    }

    /// How long an upgrade may take until it is healthy.
    pub fn progress_deadline(&self) -> Option<Duration> {
        let text = self.deployment.spec.progress_deadline.as_ref()?;
        duration(text).filter(|duration| !duration.is_zero())
    }

    /// Whether the deployment has this finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.deployment.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == name)
    }

    /// Whether the deletion policy needs our finalizer.
    pub(crate) fn needs_finalizer(&self) -> bool {
        self.deployment.spec.deletion_policy == Some(DeletionPolicy::InOrder)
    }

    /// An annotation of the deployment.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.deployment.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Numbers with units in any order, each with a fraction or not, as Go reads them and the schema of the field allows: `1.5h30m`. What
/// is longer than can be counted is the longest time. `None` if it is no duration.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|next: char| !next.is_ascii_digit() && next != '.')?);
        let end = after.find(|next: char| next.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds);
        sum = sum.saturating_add(part.unwrap_or(Duration::MAX));
        rest = next;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
impl Observed {
    /// A deployment about which nothing else is known, for tests of what is decided about it.
    pub(crate) fn of(deployment: BundleDeployment, status: BundleDeploymentStatus, desired: Desired) -> Self {
        Self {
            deployment: Arc::new(deployment),
            status,
            desired,
            dependencies: Dependencies::Ready,
            dependants: Vec::new(),
            foreign_bundles: Vec::new(),
            drifted: BTreeSet::new(),
            is_touched: false,
            is_unblocked: false,
            unwatched: Vec::new(),
            health_gate: false,
            proxy: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_the_schema_allows_them() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("10m"), Some(600_000));
        assert_eq!(millis("1.5h30m"), Some(7_200_000));
        assert_eq!(millis("30m1h"), Some(5_400_000));
        assert_eq!(millis("1h2m3s4ms"), Some(3_723_004));
        assert_eq!(duration("99999999999999999999999h"), Some(Duration::MAX));
        for wrong in ["", "10", "soon", "1d", "-1m", "1..5h", "m"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dependencies_that_are_missing_unready_or_circular_are_named() {
        let graph: DependencyGraph<'_> = [
            ("app", (false, vec!["db", "cache", "gone"])),
            ("db", (true, vec![])),
            ("cache", (false, vec!["app-config"])),
            ("app-config", (true, vec![])),
            ("a", (false, vec!["b"])),
            ("b", (false, vec!["c"])),
            ("c", (false, vec!["a"])),
            ("self", (true, vec!["self"])),
            ("outside", (false, vec!["a"])),
        ]
        .into();
        let words = "BundleDeployment \"cache\" is not ready, BundleDeployment \"gone\" does not exist";
        assert_eq!(Dependencies::of("app", &graph), Dependencies::NotReady(words.into()));
        assert_eq!(Dependencies::of("db", &graph), Dependencies::Ready);
        let path = |names: &[&str]| Dependencies::Cycle(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(Dependencies::of("b", &graph), path(&["b", "c", "a", "b"]));
        assert_eq!(Dependencies::of("self", &graph), path(&["self", "self"]));
        assert!(
            matches!(Dependencies::of("outside", &graph), Dependencies::NotReady(_)),
            "it is not part of the cycle"
        );
        assert_eq!(Dependencies::of("unknown", &graph), Dependencies::Ready);
    }
}
