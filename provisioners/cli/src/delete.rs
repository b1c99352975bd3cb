//! `rukpakctl delete`: a BundleDeployment and all that it installed, with what holds that up.

use kube::api::DeleteParams;
use rukpak_crds::{BundleDeployment, Conditions as _, DeletionPolicy};

use crate::answer::changed;
use crate::args::WaitingArgs;
use crate::cluster::{self, Cluster};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::wait::{self, Step, Wait};

/// The condition that names what is waited for.
const DELETING: &str = "Deleting";

/// Asks for the deletion, and waits until everything is gone.
pub async fn run(arguments: &WaitingArgs) -> Result<Exit, Failure> {
    let name = &arguments.name;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let existing = cluster.existing(name).await?;
    let uid = existing.metadata.uid.as_deref();
    // In the foreground, garbage collection would delete everything at once.
    let is_in_order = existing.spec.deletion_policy == Some(DeletionPolicy::InOrder);
    let params = if is_in_order { DeleteParams::background() } else { DeleteParams::foreground() };
    match cluster.delete(name, &params).await {
        // Somebody else was faster.
        Err(cluster::Error::Refused(status)) if status.code == 404 => {}
        deleted => deleted?,
    }
    let form = arguments.output.form;
    if !arguments.wait.wait {
        return Ok(changed(form, &existing, "is being deleted", Exit::Yes));
    }
    let goes_on = format!("the deletion of bundledeployment {name:?} goes on");
    let wait = Wait { name, timeout: arguments.wait.timeout, goal: "gone", goes_on: &goes_on };
    wait::watch(&cluster, &wait, |found| step(found, uid)).await?;
    Ok(changed(form, &existing, "deleted", Exit::Yes))
}

/// Whether the BundleDeployment that was deleted is gone; another one may have its name.
fn step(found: Option<&BundleDeployment>, uid: Option<&str>) -> Step {
    let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == uid) else { return Step::Done };
    let status = found.status.as_ref();
    let deleting = status.and_then(|status| status.conditions.find(DELETING)).map(|found| found.message.clone());
    Step::Wait(deleting.unwrap_or_else(|| "waiting until its objects are gone".to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(conditions: &serde_json::Value) -> BundleDeployment {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump", "uid": "1"},
            "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p",
                     "source": {"type": "image", "image": {"ref": "a"}}}}},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn what_holds_it_up_is_told_until_it_is_gone() {
        let held = "waiting until these objects are gone: ConfigMap default/a waits for its finalizers: b/c";
        let condition = json!({"type": "Deleting", "status": "True", "reason": "Deleting", "message": held, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let said = |conditions: &serde_json::Value, uid| match step(Some(&deployment(conditions)), Some(uid)) {
            Step::Wait(line) => line,
            other => format!("{other:?}"),
        };
        assert_eq!(said(&json!([condition]), "1"), held);
        assert_eq!(said(&json!([]), "1"), "waiting until its objects are gone");
        assert_eq!(said(&json!([]), "0"), "Done", "another one has its name by now");
        assert!(matches!(step(None, Some("1")), Step::Done));
    }
}
