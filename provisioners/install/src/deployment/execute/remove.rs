//! The end of a deployment whose objects are deleted in order: by the same passes that prune what left a bundle.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::names::{DELETION_IN_ORDER, FIELD_MANAGER};
use rukpak_plan::decide;
use rukpak_plan::prune::{Leaving, Pass};
use rukpak_plan::resolve::Why;
use serde_json::json;

use super::{Superseded, members, prune};
use crate::cluster::Error;
use crate::deployment::observe::{Run, View};

/// So many objects are named that are waited for.
const NAMED: usize = 5;

/// Deletes everything that the deployment controls, as far as it goes now. Returns what is waited for, a line an object.
///
/// # Errors
/// If its objects are not to be deleted any more, or not by this controller.
pub(in crate::deployment) async fn remove(run: &mut Run) -> Result<Vec<String>, Superseded> {
    let members = members::list(&run.view, &run.view.kinds(), Why::Resync).await;
    // What cannot be seen may have to go first.
    if let Some(why) = members.why {
        return Ok(vec![why]);
    }
    // What outlives the deployment has no owner reference.
    let controls = |object: &Leaving| run.view.owner.is_controller(&object.metadata);
    let objects: Vec<Leaving> = members.objects.into_values().filter(controls).collect();
    run.view.reads.dependents.ensure(objects.iter().map(|object| &object.identity.kind));
    if !objects.is_empty() {
        run.confirm().await?;
    }
    let pass = Pass::whole(run.view.owner.clone(), objects);
    let outcome = prune::pass(run, pass).await;
    if outcome.is_superseded {
        return Err(Superseded);
    }
    run.view.tracker.tracked().leaving = outcome.waiting.iter().map(|(key, _)| key.clone()).collect();
    let mut lines = outcome.failed;
    let more = outcome.waiting.len().saturating_sub(NAMED);
    lines.extend(outcome.waiting.into_iter().take(NAMED).map(|(_, why)| why));
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    Ok(lines)
}

/// Has the finalizer on the deployment exactly if its policy needs it. Whether that took a write, which ends the reconcile: the
/// deployment is another version by then.
pub(in crate::deployment) async fn follow_policy(run: &Run) -> Result<bool, Error> {
    let Some(is_needed) = decide::finalizer(&run.view.observed) else { return Ok(false) };
    if is_needed {
        let others = run.view.observed.deployment.finalizers().iter().cloned();
        let with_it = others.chain([DELETION_IN_ORDER.to_owned()]).collect();
        write(run, with_it).await?;
    } else {
        let_go(run).await?;
    }
    Ok(true)
}

/// Takes the finalizer off, and leaves those of others.
pub(in crate::deployment) async fn let_go(run: &Run) -> Result<(), Error> {
    let finalizers = run.view.observed.deployment.finalizers().iter();
    write(run, finalizers.filter(|finalizer| *finalizer != DELETION_IN_ORDER).cloned().collect()).await
}

async fn write(run: &Run, finalizers: Vec<String>) -> Result<(), Error> {
    let version = run.view.observed.deployment.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let api: Api<BundleDeployment> = Api::all(run.context.client.clone());
    match api.patch(&run.view.owner.name, &params, &Patch::Merge(patch)).await.map_err(Error::from) {
        Ok(written) => {
            run.context.written.record(&written);
            Ok(())
        }
        // With its last finalizer it is gone.
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Objects that a deployment in deletion still waits for: each with what holds it up.
pub(in crate::deployment) async fn leftovers(view: &View) -> Vec<String> {
    let observed = view.reads.dependents.of(&view.owner);
    let mut lines = Vec::new();
    for (key, observed) in &observed {
        if lines.len() == NAMED {
            lines.push("and others".to_owned());
            break;
        }
        let identity = observed.identity(key);
        let Ok(Some(metadata)) = view.reads.reader.metadata(&identity).await else { continue };
        lines.push(match metadata.deletion_timestamp {
            None => format!("{identity} is not deleted yet"),
            Some(_) => rukpak_plan::prune::waits(&identity, &metadata),
        });
    }
    lines
}
