//! Helm's releases of a deployment that RukPak v0.16 installed, `sh.helm.release.v1.NAME.vN` in the system namespace. Nothing reads
//! them once everything is taken over, and RukPak could not come back without them: so they are deleted on request only.

use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use rukpak_plan::Identity;
use rukpak_runtime::events::{EventType, News};

use crate::cluster::{self, Deleted, Propagation};
use crate::deployment::observe::Run;

/// Reason of the Event that names what was deleted.
const HELM_RELEASES_DELETED: &str = "HelmReleasesDeleted";

/// Selects the releases of a deployment, as Helm labels them.
pub(super) fn selector(deployment: &str) -> String {
    format!("owner=helm,name={deployment}")
}

/// Deletes the releases, and says so.
pub(in crate::deployment) async fn delete_all(run: &mut Run) -> Result<(), cluster::Error> {
    let deleted = delete(run).await?;
    run.view.memory.has_no_helm_releases = true;
    tell(run, &deleted);
    Ok(())
}

async fn delete(run: &Run) -> Result<Vec<String>, cluster::Error> {
    let Some(secrets) = run.view.reads.kinds.get("v1", "Secret").await? else { return Ok(Vec::new()) };
    let namespace = &run.view.reads.settings.system_namespace;
    let params = ListParams::default().labels(&selector(&run.view.owner.name));
    let list = run.view.reads.reader.list_metadata(&secrets.resource, Some(namespace), &params).await?;
    // Whoever copies Helm's labels has another name.
    let prefix = format!("sh.helm.release.v1.{}.v", run.view.owner.name);
    let mut deleted = Vec::new();
    for release in list.items.into_iter().filter(|release| release.name_any().starts_with(&prefix)) {
        let name = release.name_any();
        let identity = Identity { kind: secrets.clone(), namespace: Some(namespace.clone()), name: name.clone() };
        // With the rights of the deployment's ServiceAccount, if it names one.
        if run.objects.delete(&identity, &release.metadata, Propagation::Background).await? != Deleted::Absent {
            deleted.push(name);
        }
    }
    Ok(deleted)
}

fn tell(run: &Run, deleted: &[String]) {
    if deleted.is_empty() {
        return;
    }
    let (names, namespace) = (deleted.join(", "), &run.view.reads.settings.system_namespace);
    tracing::info!(deployment = %run.view.owner.name, secrets = names, namespace, "Helm releases of RukPak v0.16 deleted");
    let message = format!("Deleted on request, in namespace {namespace:?}: Helm's releases {names}");
    let news = News { type_: EventType::Normal, reason: HELM_RELEASES_DELETED.to_owned(), message };
    run.context.events.tell(run.view.observed.deployment.object_ref(&()), &news);
}
