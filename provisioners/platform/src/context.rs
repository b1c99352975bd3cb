//! What every pass over a PlatformOperator is handed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_runtime::failures::Failures;
use rukpak_runtime::lock::lock;
use rukpak_runtime::status::WrittenVersions;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::catalogs::{self, Catalogs};
use super::cluster_extension;
use super::cluster_object_set;
use super::dependencies::{Dependencies, Dependent};
use super::events::Events;
use super::olmv0;
use super::single_flight::SingleFlight;

/// The reason of one whose package another PlatformOperator has (additive).
pub(crate) const PACKAGE_NOT_UNIQUE: &str = "PackageNotUnique";

/// Handed to every pass; cheap to share.
pub(crate) struct Context {
    /// For everything that is read and written.
    pub client: Client,
    /// All PlatformOperators, as last seen.
    pub operators: Store<PlatformOperator>,
    /// All BundleDeployments, as last seen.
    pub deployments: Store<BundleDeployment>,
    /// Told of each change in them.
    pub seen: watch::Sender<()>,
    /// Cancelled when both of them have been filled for the first time.
    pub filled: CancellationToken,
    /// Where packages come from.
    pub catalogs: Arc<Catalogs>,
    pub wake: Wake,
    /// Failures in a row, per object.
    pub failures: Failures,
    /// Until when catalogs are not asked again, per object.
    pub holds: Backoffs,
    /// What catalogs are asked just now, by the object that it is about.
    pub questions: SingleFlight<Question, Answer>,
    /// Whether what a bundle depends on is installed.
    pub dependencies: Arc<Dependencies>,
    /// Who is to have which package.
    pub claims: Reservations,
    /// Who has made a BundleDeployment that the watch has not shown yet.
    pub unseen: Unseen,
    /// Resource versions of our own writes, per object.
    pub written: Arc<WrittenVersions>,
    /// Tells people what happened.
    pub events: Arc<Events>,
}

/// What catalogs are asked about a PlatformOperator, and in which state: the same answer would come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub generation: Option<i64>,
    /// The catalog that the status names, if it matters.
    pub origin: Option<String>,
    pub epoch: u64,
}

/// The package, if a catalog has it.
pub(crate) type Answer = Result<catalogs::Found, catalogs::Error>;

/// Keeps what failed, and what nobody tells the end of, from being tried again at each event: that of our own status write
/// would come at once.
#[derive(Default)]
pub(crate) struct Backoffs(Mutex<HashMap<String, Backoff>>);

/// A wait, and what ends it early.
struct Backoff {
    until: Instant,
    generation: Option<i64>,
    epoch: u64,
}

impl Backoffs {
    /// The object with this UID waits, unless its spec or a catalog changes.
    pub fn set(&self, uid: &str, delay: Duration, generation: Option<i64>, epoch: u64) {
        lock(&self.0).insert(uid.to_owned(), Backoff { until: Instant::now() + delay, generation, epoch });
    }

    /// What is left of the wait.
    pub fn left(&self, uid: &str, generation: Option<i64>, epoch: u64) -> Option<Duration> {
        let holds = lock(&self.0);
        let hold = holds.get(uid).filter(|hold| hold.generation == generation && hold.epoch == epoch)?;
        hold.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// It succeeded, or is gone.
    pub fn clear(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

/// Packages and the UIDs of those that are about to install them: what the watches show comes too late to keep two passes
/// apart.
#[derive(Default)]
pub(crate) struct Reservations(Mutex<HashMap<String, String>>);

impl Reservations {
    /// `uid` claims `package`, and gives up what it claimed before. The UID of whoever has it already, if that `stands`.
    pub fn claim(&self, package: &str, uid: &str, stands: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut claims = lock(&self.0);
        match claims.get(package) {
            Some(other) if other != uid && stands(other) => Err(other.clone()),
            _ => {
                claims.retain(|_, of| of != uid);
                claims.insert(package.to_owned(), uid.to_owned());
                Ok(())
            }
        }
    }

    /// `uid` claims nothing any more. Returns whether it did.
    pub fn give_up(&self, uid: &str) -> bool {
        let mut claims = lock(&self.0);
        let before = claims.len();
        claims.retain(|_, of| of != uid);
        claims.len() < before
    }
}

/// UIDs of PlatformOperators whose BundleDeployment may have been created and is not in the store yet: they count as those
/// that have one.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<HashSet<String>>);

impl Unseen {
    /// `uid` is about to create its BundleDeployment.
    pub fn add(&self, uid: &str) {
        lock(&self.0).insert(uid.to_owned());
    }

    /// The store shows what has the name, the API server has refused it, or `uid` is gone.
    pub fn remove(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }

    /// Whether `uid` may have one that the store does not show.
    pub fn contains(&self, uid: &str) -> bool {
        lock(&self.0).contains(uid)
    }
}

#[derive(Clone)]
pub(crate) struct Wake {
    pub operators: UnboundedSender<ObjectRef<PlatformOperator>>,
    /// A pass over the ClusterOperator.
    pub cluster_operator: Arc<Notify>,
    /// A count of them.
    pub counted: Arc<Notify>,
    pub extensions: cluster_extension::Wake,
    pub sets: cluster_object_set::Wake,
    pub subscribed: olmv0::Wake,
}

impl Wake {
    /// A pass over the PlatformOperator `name`.
    pub fn operator(&self, name: &str) {
        // The receiver is dropped only when the process ends.
        let _ = self.operators.send(ObjectRef::new(name));
    }

    /// What all of them say together may be something else now.
    pub fn aggregate(&self) {
        self.cluster_operator.notify_one();
        self.counted.notify_one();
    }

    /// A pass over each that waits for another one's package.
    pub fn duplicates(&self, operators: &Store<PlatformOperator>) {
        for operator in operators.state() {
            if operator.failing_reason() == Some(PACKAGE_NOT_UNIQUE) {
                self.operator(&operator.name_any());
            }
        }
    }

    /// A pass over an object whose bundle depended on what was not installed.
    pub fn dependent(&self, dependent: &Dependent) {
        match dependent {
            Dependent::Operator(name) => self.operator(name),
            Dependent::Extension(name) => self.extensions.extension(name),
            Dependent::Subscription(namespace, name) => self.subscribed.dependent(namespace, name),
            // Nothing is installed for it.
            Dependent::Deployment(_) => {}
        }
    }

    /// A pass over each of them.
    pub fn all(&self, operators: &Store<PlatformOperator>) {
        for operator in operators.state() {
            let _ = self.operators.send(ObjectRef::from_obj(&*operator));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_ends_by_itself_or_with_a_change() {
        let holds = Backoffs::default();
        assert_eq!(holds.left("a", Some(1), 0), None);
        holds.set("a", Duration::from_mins(1), Some(1), 0);
        assert!(holds.left("a", Some(1), 0).is_some());
        assert_eq!(holds.left("a", Some(2), 0), None, "another spec");
        assert_eq!(holds.left("a", Some(1), 1), None, "another catalog");
        holds.set("a", Duration::ZERO, Some(1), 0);
        assert_eq!(holds.left("a", Some(1), 0), None);
    }

    #[test]
    fn one_has_a_package_until_it_gives_it_up() {
        let (claims, stands) = (Reservations::default(), |_: &str| true);
        assert_eq!(claims.claim("p", "a", stands), Ok(()));
        assert_eq!(claims.claim("p", "a", stands), Ok(()));
        assert_eq!(claims.claim("p", "b", stands), Err("a".to_owned()));
        assert_eq!(claims.claim("q", "a", stands), Ok(()), "and gives up the other");
        assert_eq!(claims.claim("p", "b", stands), Ok(()));
        assert_eq!(claims.claim("p", "c", |_| false), Ok(()), "who is gone has nothing");
        assert!(claims.give_up("c") && !claims.give_up("c"));
    }
}
