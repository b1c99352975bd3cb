//! Writes the records of releases: ControllerRevisions in the system namespace. What they say is decided by [`rukpak_plan::record`].

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use rukpak_crds::BundleDeploymentStatus;
use rukpak_crds::names::{FIELD_MANAGER, OBJECT_STATES, OWNER_NAME};
use rukpak_plan::record::{Due, Record, Recorded, due};
use rukpak_runtime::error::Chain;
use serde_json::{Value, json};

use super::observe::{Run, View};
use crate::cluster::Error;

/// Brings the records up to the status, which was `before`. A record that cannot be written fails nothing: it is tried again when
/// there is something to report.
pub(super) async fn write(run: &mut Run, before: &BundleDeploymentStatus) {
    let Due { record, change, obsolete } = {
        let tracked = run.view.tracker.tracked();
        due(&run.view.owner.name, &mut run.view.memory, &tracked.objects, before, &run.view.observed.status)
    };
    let api: Api<ControllerRevision> =
        Api::namespaced(run.context.client.clone(), &run.view.reads.settings.system_namespace);
    if let Some(Record { name, data, recorded }) = record {
        match create(&run.view, &api, &name, &data, &recorded).await {
            Ok(()) => {
                run.view.memory.declared = None;
                run.view.memory.recorded.insert(name, recorded);
            }
            Err(error) => warn(&run.view, &name, &error),
        }
    }
    if let Some((name, recorded)) = change {
        match change_recorded(&api, &name, &recorded).await {
            Ok(()) => drop(run.view.memory.recorded.insert(name, recorded)),
            Err(error) => warn(&run.view, &name, &error),
        }
    }
    for name in obsolete {
        match api.delete(&name, &DeleteParams::default()).await.map_err(Error::from) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => warn(&run.view, &name, &error),
        }
    }
}

fn warn(view: &View, name: &str, error: &Error) {
    tracing::warn!(deployment = %view.owner.name, record = name, error = %Chain(error), "cannot write the record of a release");
}

async fn create(
    view: &View,
    api: &Api<ControllerRevision>,
    name: &str,
    data: &Value,
    recorded: &Recorded,
) -> Result<(), Error> {
    let body = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        // Without the label of the owner's kind: it is no object of the bundle.
        "metadata": {"name": name, "labels": {OWNER_NAME: view.owner.name}, "annotations": annotations(recorded),
            "ownerReferences": [view.owner.reference()]},
        "revision": recorded.revision,
        "data": data,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(name, &parameters, &Patch::Apply(&body)).await.map_err(Error::from);
    match applied {
        // Nobody can change what is declared: an earlier version has read the content in another way.
        Err(error) if error.is_invalid() => {
            api.delete(name, &DeleteParams::default()).await.map_err(Error::from)?;
            api.patch(name, &parameters, &Patch::Apply(&body)).await.map_err(Error::from)?;
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Changes what may change. There is none where an earlier version has installed the release: it comes with the next installation.
async fn change_recorded(api: &Api<ControllerRevision>, name: &str, recorded: &Recorded) -> Result<(), Error> {
    let patch = json!({"metadata": {"annotations": annotations(recorded)}, "revision": recorded.revision});
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch(name, &parameters, &Patch::Merge(&patch)).await.map_err(Error::from) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn annotations(recorded: &Recorded) -> Value {
    match &recorded.standing {
        Some(standing) => json!({OBJECT_STATES: json!(standing).to_string()}),
        None => json!({}),
    }
}
