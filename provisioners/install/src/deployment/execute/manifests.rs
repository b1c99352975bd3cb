//! The manifests of a release, kept in Secrets of the system namespace where the BundleDeployment asks for it. The manager of
//! ClusterExtensions shows by them what a revision holds: it needs neither the content nor rights on the objects.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use rukpak_crds::names::{FIELD_MANAGER, KEEP_MANIFESTS, MANIFESTS_TYPE};
use rukpak_plan::{Plan, Step, manifests, record};
use rukpak_runtime::error::Chain;

use crate::cluster;
use crate::deployment::observe::{Run, View};

/// Keeps those of a plan that is about to be applied, once the status names its release: so they go with it, also if this process ends
/// here. What cannot be kept fails nothing: it is not shown.
pub(super) async fn keep(run: &Run, plan: &Plan) {
    let deployment = &run.view.owner.name;
    if !are_kept(&run.view) {
        return;
    }
    let Some(parts) = manifests::pack(plan.steps.values().map(Step::body)) else {
        tracing::warn!(deployment = %deployment, "the manifests of the release are too large to be kept");
        return;
    };

    let record = record::name(deployment, &plan.release.record());
    for (number, part) in parts.into_iter().enumerate() {
        let name = manifests::name(&record, number);
        if let Err(error) = write(run, &name, part).await {
            tracing::warn!(deployment = %deployment, secret = name, error = %Chain(&error), "cannot keep the manifests of the release");
            return;
        }
    }
}

/// Removes those of a release that has left the history, by the name of its record.
pub(in crate::deployment) async fn forget(run: &Run, record: &str) {
    if !are_kept(&run.view) {
        return;
    }
    let secrets = secrets(run);
    for number in 0..manifests::PARTS {
        let name = manifests::name(record, number);
        match secrets.delete(&name, &DeleteParams::default()).await.map_err(cluster::Error::from) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => return,
            Err(error) => {
                let deployment = &run.view.owner.name;
                tracing::warn!(deployment = %deployment, secret = name, error = %Chain(&error), "cannot remove the manifests of a release");
                return;
            }
        }
    }
}

/// Whether the BundleDeployment asks for it. For one that names an account nothing is written with other rights than that account's.
fn are_kept(view: &View) -> bool {
    let observed = &view.observed;
    observed.annotation(KEEP_MANIFESTS) == Some("true") && observed.deployment.spec.service_account.is_none()
}

fn secrets(run: &Run) -> Api<Secret> {
    Api::namespaced(run.context.client.clone(), &run.view.reads.settings.system_namespace)
}

/// The BundleDeployment takes it along when it goes. A Secret of another type has the name by chance, and is refused by the API server.
async fn write(run: &Run, name: &str, part: Vec<u8>) -> Result<(), cluster::Error> {
    let mut secret = Secret {
        data: Some(BTreeMap::from([(manifests::KEY.to_owned(), ByteString(part))])),
        type_: Some(MANIFESTS_TYPE.to_owned()),
        ..Secret::default()
    };
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.owner_references = Some(vec![run.view.owner.reference()]);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    secrets(run).patch(name, &parameters, &Patch::Apply(&secret)).await?;
    Ok(())
}
