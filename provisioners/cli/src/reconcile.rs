//! `rukpakctl reconcile`: what failed is tried again at once, whatever its back-off.

use jiff::Timestamp;
use rukpak_crds::names::RECONCILE_REQUESTED_AT;
use rukpak_crds::{BundleDeployment, Conditions as _, condition};
use serde_json::json;

use crate::answer::changed;
use crate::args::WaitingArgs;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::one_line;
use crate::wait::{self, Progress, Step, Wait};

/// Annotates the BundleDeployment, and waits until its status says that it was looked at.
pub async fn run(arguments: &WaitingArgs) -> Result<Exit, Failure> {
    let name = &arguments.name;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    cluster.existing(name).await?;
    let request = Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {RECONCILE_REQUESTED_AT: request}}});
    let written = cluster.merge(name, &patch).await?;
    let form = arguments.output.form;
    if !arguments.wait.wait {
        return Ok(changed(form, &written, "is to be reconciled", Exit::Yes));
    }
    let goes_on = format!("the reconcile of bundledeployment {name:?} goes on");
    let wait = Wait { name, timeout: arguments.wait.timeout, goal: "reconciled", goes_on: &goes_on };
    let found = wait::watch(&cluster, &wait, |found| step(name, found, &request)).await?;
    let found = found.ok_or_else(|| Failure::no_deployment(name))?;
    let (what, exit) = outcome(&found);
    Ok(changed(form, &found, &what, exit))
}

/// Whether the request, or a later one, was answered.
fn step(name: &str, found: Option<&BundleDeployment>, request: &str) -> Step {
    let Some(found) = found else { return Step::Give(Failure::no_deployment(name)) };
    let handled = found.status.as_ref().and_then(|status| status.last_handled_reconcile_at.as_deref());
    // Somebody else may have asked meanwhile: that is answered together with ours.
    let asked = found.metadata.annotations.as_ref().and_then(|all| all.get(RECONCILE_REQUESTED_AT));
    if handled == Some(request) || (handled.is_some() && handled == asked.map(String::as_str)) {
        return Step::Done;
    }
    let class = &found.spec.provisioner_class_name;
    Step::Wait(format!("waiting for a controller of class {class:?} to answer the request"))
}

/// What the BundleDeployment is like after it.
fn outcome(found: &BundleDeployment) -> (String, Exit) {
    let ready = found.status.as_ref().and_then(|status| status.conditions.find(condition::READY));
    let said = ready.map(|ready| one_line(&format!("{}: {}", ready.reason, ready.message))).unwrap_or_default();
    match Progress::of(found, found.metadata.generation) {
        Progress::Stalled { .. } => (format!("reconciled, and not ready: {said}"), Exit::No),
        Progress::Ready => (format!("reconciled: {said}"), Exit::Yes),
        Progress::Working(line) => (format!("reconciled, and not ready yet: {}", one_line(&line)), Exit::No),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(asked: &str, handled: Option<&str>, ready: (&str, &str)) -> BundleDeployment {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": ready.1, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let mut conditions = vec![condition("Ready", ready.0)];
        if ready.0 == "False" {
            conditions.push(condition("Stalled", "True"));
        }
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
            "metadata": {"name": "pump", "generation": 1, "annotations": {RECONCILE_REQUESTED_AT: asked}},
            "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p",
                     "source": {"type": "image", "image": {"ref": "a"}}}}},
            "status": {"observedGeneration": 1, "lastHandledReconcileAt": handled, "conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn the_request_or_a_later_one_is_waited_for() {
        let is_done = |asked: &str, handled| {
            matches!(step("pump", Some(&deployment(asked, handled, ("True", "Succeeded"))), "2"), Step::Done)
        };
        assert!(is_done("2", Some("2")));
        assert!(is_done("3", Some("3")), "somebody else asked meanwhile");
        assert!(is_done("3", Some("2")));
        assert!(!is_done("2", Some("1")) && !is_done("2", None));
        assert!(matches!(step("pump", None, "2"), Step::Give(_)));
    }

    #[test]
    fn what_came_of_it_is_said() {
        let of = |ready| outcome(&deployment("1", Some("1"), ready));
        assert_eq!(of(("True", "Succeeded")), ("reconciled: Succeeded: m".to_owned(), Exit::Yes));
        assert_eq!(
            of(("False", "InstallFailed")),
            ("reconciled, and not ready: InstallFailed: m".to_owned(), Exit::No)
        );
        let unknown = "reconciled, and not ready yet: Unhealthy: m".to_owned();
        assert_eq!(of(("Unknown", "Unhealthy")), (unknown, Exit::No));
    }
}
