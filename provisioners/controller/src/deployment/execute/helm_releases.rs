//! Helm's releases of a deployment that RukPak v0.16 installed, `sh.helm.release.v1.NAME.vN` in the system namespace. Nothing reads
//! them once everything is taken over, and RukPak could not come back without them: so they are deleted on request only.

use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use rukpak_crds::names::DELETE_HELM_RELEASES;
use rukpak_plan::Identity;
use rukpak_plan::memory::Installation;
use rukpak_plan::prune::Pruning;
use rukpak_runtime::events::{EventType, News};

use crate::cluster::{self, Deleted, Propagation};
use crate::deployment::observe::Run;

/// Reason of the Event that names what was deleted.
const HELM_RELEASES_DELETED: &str = "HelmReleasesDeleted";

/// Selects the releases of a deployment, as Helm labels them.
pub(super) fn selector(deployment: &str) -> String {
    format!("owner=helm,name={deployment}")
}

/// Deletes the releases if the deployment's annotation asks for it and all that Helm installed is taken over: everything is applied,
/// and what left the bundle is gone.
pub(in crate::deployment) async fn delete_requested(run: &mut Run) -> Result<(), cluster::Error> {
    let is_requested =
        run.observed.deployment.annotations().get(DELETE_HELM_RELEASES).is_some_and(|value| value == "true");
    if !is_requested {
        run.memory.has_no_helm_releases = false;
        return Ok(());
    }
    let is_complete = match &run.memory.installation {
        Installation::Applied { applied, pruning, .. } => *pruning == Pruning::Done && applied.missing().is_empty(),
        Installation::Unknown | Installation::Partial { .. } => false,
    };
    if is_complete && !run.memory.has_no_helm_releases {
        let deleted = delete(run).await?;
        run.memory.has_no_helm_releases = true;
        tell(run, &deleted);
    }
    Ok(())
}

async fn delete(run: &Run) -> Result<Vec<String>, cluster::Error> {
    let Some(secrets) = run.context.cluster.kinds.get("v1", "Secret").await? else { return Ok(Vec::new()) };
    let namespace = &run.context.system_namespace;
    let params = ListParams::default().labels(&selector(&run.owner.name));
    let list = run.context.cluster.reader.list_metadata_in(&secrets.resource, Some(namespace), &params).await?;
    // Whoever copies Helm's labels has another name.
    let prefix = format!("sh.helm.release.v1.{}.v", run.owner.name);
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
    let (names, namespace) = (deleted.join(", "), &run.context.system_namespace);
    tracing::info!(deployment = %run.owner.name, secrets = names, namespace, "Helm releases of RukPak v0.16 deleted");
    let message = format!("Deleted on request, in namespace {namespace:?}: Helm's releases {names}");
    let news = News { type_: EventType::Normal, reason: HELM_RELEASES_DELETED.to_owned(), message };
    run.context.events.tell(run.observed.deployment.object_ref(&()), &news);
}
