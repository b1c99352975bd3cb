//! Objects that are in the cluster, and the proof that all of a release are.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rukpak_crds::Inventory;
use rukpak_plain::ObjectKey;

use crate::health::{self, Health};
use crate::kind::Identity;
use crate::{Fingerprint, Plan, Release, fingerprint};

/// An object as we applied it.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// Where it is.
    pub identity: Identity,
    /// Its fingerprint after the apply.
    pub fingerprint: Fingerprint,
    /// Its health when last read.
    pub health: Health,
    /// Whether that is of the object as it is now: it has not moved since, and was read.
    pub is_read: bool,
    /// When it was last read for its health.
    pub read_at: Timestamp,
}

/// Every object that was applied for a deployment.
pub type Objects = BTreeMap<ObjectKey, Tracked>;

/// The proof that every object of a release is in the cluster: the only thing that a status calls installed.
///
/// It is made from the fingerprints that the API server's answers gave, one for each step of the plan, or from a cluster in which
/// every fingerprint is as the status says that it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    release: Release,
    digest: String,
    objects: usize,
}

impl Applied {
    /// All steps of `plan` are among `objects`, but for those that are `used`: Namespaces of somebody else. `None` if one is not.
    pub fn by(plan: &Plan, renderer: &str, objects: &Objects, used: impl Fn(&ObjectKey) -> bool) -> Option<Self> {
        let is_whole = plan.steps.keys().all(|key| objects.contains_key(key) || used(key));
        is_whole.then(|| Self::of(plan.release.clone(), renderer, objects))
    }

    /// The cluster is as the inventory says that it was left. `None` if it is not.
    pub fn resumed(inventory: &Inventory, release: &Release, renderer: &str, objects: &Objects) -> Option<Self> {
        let applied = Self::of(release.clone(), renderer, objects);
        (inventory.applied_digest.as_ref() == Some(&applied.digest)).then_some(applied)
    }

    fn of(release: Release, renderer: &str, objects: &Objects) -> Self {
        let fingerprints = objects.iter().map(|(key, tracked)| (key, &tracked.fingerprint));
        let digest = fingerprint::digest(&release.content.to_string(), renderer, fingerprints);
        Self { digest, objects: objects.len(), release }
    }

    /// The same after repairs: some fingerprints have changed.
    #[must_use]
    pub fn again(&self, renderer: &str, objects: &Objects) -> Self {
        Self::of(self.release.clone(), renderer, objects)
    }

    /// What is installed.
    pub fn release(&self) -> &Release {
        &self.release
    }

    /// Says so in an inventory.
    pub fn write(&self, inventory: &mut Inventory) {
        self.release.install_in(inventory);
        inventory.pending = None;
        inventory.applied_digest = Some(self.digest.clone());
        inventory.objects = i64::try_from(self.objects).ok();
    }
}

/// What is not healthy, a line an object, in the form of upstream.
pub fn complaints(objects: &Objects) -> Vec<String> {
    lines(objects.iter().filter(|(_, tracked)| !tracked.health.is_healthy()))
}

/// The same of what was read as it is now.
pub fn known_complaints(objects: &Objects) -> Vec<String> {
    lines(objects.iter().filter(|(_, tracked)| tracked.is_read && !tracked.health.is_healthy()))
}

/// Whether all objects were read as they are now, and are healthy.
pub fn are_healthy(objects: &Objects) -> bool {
    objects.values().all(|tracked| tracked.is_read && tracked.health.is_healthy())
}

fn lines<'a>(unhealthy: impl Iterator<Item = (&'a ObjectKey, &'a Tracked)>) -> Vec<String> {
    unhealthy
        .map(|(key, tracked)| {
            let version = &tracked.identity.kind.resource.version;
            health::line(&key.group, version, &key.kind, key.namespace.as_deref(), &key.name, &tracked.health)
        })
        .collect()
}
