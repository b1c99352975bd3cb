//! What an approval is for, in digests.

use std::collections::BTreeMap;

use rukpak_content::Digest;
use rukpak_crds::plan::{PlanBinding, ReplacedRelease};
use rukpak_plain::Object;
use serde_json::json;

use super::Changes;
use crate::Release;
use crate::observed::Observed;

/// Digests all objects of a bundle as they were rendered. The order of manifests makes no difference.
pub fn digest_objects(objects: &[Object]) -> Digest {
    let each: BTreeMap<String, String> = objects
        .iter()
        .map(|object| {
            let name = format!("{} {}", object.api_version(), object.key());
            (name, Digest::sha256(object.as_value().to_string().as_bytes()).to_string())
        })
        .collect();
    Digest::sha256(json!(each).to_string().as_bytes())
}

/// Returns what is approved with an installation of `release`, whose objects have the digest `objects`.
pub fn bind(observed: &Observed, release: &Release, objects: &Digest, changes: &Changes) -> PlanBinding {
    let account = observed.deployment.spec.service_account.as_ref();
    PlanBinding {
        content: content(release),
        config: config(release),
        account: account.map(rukpak_crds::ServiceAccountReference::user_name),
        objects: objects.to_string(),
        actions: Digest::sha256(changes.text().as_bytes()).to_string(),
        replaces: observed.installed().map(|installed| replaced(observed, &installed)),
    }
}

/// Returns whether a plan is for `release`, by whatever account and whatever it does.
pub fn is_of_release(binds: &PlanBinding, release: &Release) -> bool {
    binds.content == content(release) && binds.config == config(release)
}

/// Returns the digest of a plan. The UID makes it one of this deployment and of no other.
pub(super) fn digest(uid: &str, binds: &PlanBinding) -> Digest {
    Digest::sha256(json!({"deployment": uid, "binds": binds}).to_string().as_bytes())
}

fn content(release: &Release) -> String {
    format!("{} {}", release.content, release.format)
}

fn config(release: &Release) -> Option<String> {
    let config = release.config.as_ref()?;
    Some(Digest::sha256(json!(config).to_string().as_bytes()).to_string())
}

/// The installed release, by its revision: one that comes back later is another, so that an approval is good for one upgrade.
fn replaced(observed: &Observed, installed: &Release) -> ReplacedRelease {
    let mut history = observed.status.history.iter();
    let revision = history.find(|revision| Release::read(&revision.release).as_ref() == Some(installed));
    ReplacedRelease {
        content: content(installed),
        revision: revision.map(|revision| revision.revision),
        since: revision.map(|revision| revision.time),
    }
}
