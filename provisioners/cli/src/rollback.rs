//! `rukpakctl rollback`: an earlier revision, installed in place of the template.

use rukpak_crds::names::ROLLBACK_TO;
use rukpak_crds::{BundleDeployment, Revision};
use serde_json::json;

use crate::answer::changed;
use crate::args::RollbackArgs;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::history::revisions;
use crate::wait::{self, Wait};

/// Sets `spec.rollbackTo`, and waits.
pub async fn run(arguments: &RollbackArgs) -> Result<Exit, Failure> {
    let name = &arguments.name;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let existing = cluster.existing(name).await?;
    let revision = choose(&existing, arguments.to_revision)?;
    // The annotation wins nothing: of two answers to one question, the one of this command is to hold.
    let patch = json!({"metadata": {"annotations": {ROLLBACK_TO: null}}, "spec": {"rollbackTo": revision}});
    let written = cluster.merge(name, &patch).await?;
    let form = arguments.output.form;
    if !arguments.wait.wait {
        return Ok(changed(form, &written, &format!("is to be rolled back to revision {revision}"), Exit::Yes));
    }
    let goes_on = format!("the rollback of bundledeployment {name:?} to revision {revision} goes on");
    let wait = Wait { name, timeout: arguments.wait.timeout, goal: "rolled back and healthy", goes_on: &goes_on };
    let ready = wait::until_ready(&cluster, &wait, written.metadata.generation, None).await?;
    Ok(changed(form, &ready, &format!("rolled back to revision {revision}"), Exit::Yes))
}

/// The revision that was asked for, else the newest before the last one that did not fail.
fn choose(deployment: &BundleDeployment, asked: Option<i64>) -> Result<i64, Failure> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let revisions = revisions(deployment);
    let found = match asked {
        Some(asked) => revisions.iter().find(|revision| revision.revision == asked),
        None => revisions.iter().skip(1).find(|revision| !revision.result.is_failure()),
    };
    if let Some(found) = found {
        return Ok(found.revision);
    }
    let what = match asked {
        Some(asked) => format!("has no revision {asked}: {}", known(revisions)),
        None => format!("has no revision to go back to: {}", known(revisions)),
    };
    Err(Failure::no(format!("bundledeployment {name:?} {what}")).hint(format!("rukpakctl history {name}")))
}

fn known(revisions: &[Revision]) -> String {
    let numbers: Vec<String> = revisions.iter().map(|revision| revision.revision.to_string()).collect();
    if numbers.is_empty() {
        "its history is empty".to_owned()
    } else {
        format!("its history has {}", numbers.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(history: &[(i64, &str)]) -> BundleDeployment {
        let revision = |(number, result): &(i64, &str)| json!({"revision": number, "contentDigest": "d", "result": result, "time": "2026-01-01T00:00:00Z"});
        let history: Vec<_> = history.iter().map(revision).collect();
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump"},
            "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p",
                     "source": {"type": "image", "image": {"ref": "a"}}}}},
            "status": {"history": history},
        }))
        .unwrap()
    }

    #[test]
    fn the_revision_before_is_chosen_unless_a_number_is_given() {
        let choose = |history: &[(i64, &str)], asked| choose(&deployment(history), asked);
        let three = [(3, "Healthy"), (2, "Installed"), (1, "Healthy")];
        assert_eq!(choose(&three, None), Ok(2));
        assert_eq!(choose(&three, Some(1)), Ok(1));
        // What failed is left for what came back in its place; what failed earlier is nothing to go back to.
        assert_eq!(choose(&[(2, "Failed"), (1, "Healthy")], None), Ok(1));
        assert_eq!(choose(&[(3, "Healthy"), (2, "Failed"), (1, "Healthy")], None), Ok(1));
        // After a rollback its revision is the newest.
        assert_eq!(choose(&[(1, "Healthy"), (2, "Healthy")], None), Ok(2));
    }

    #[test]
    fn what_is_not_in_the_history_is_refused_with_what_is() {
        let missing = choose(&deployment(&[(2, "Healthy"), (1, "Healthy")]), Some(7)).unwrap_err();
        assert_eq!(missing.text, "bundledeployment \"pump\" has no revision 7: its history has 2, 1");
        assert_eq!(missing.hint.as_deref(), Some("rukpakctl history pump"));
        let only = choose(&deployment(&[(1, "Healthy")]), None).unwrap_err();
        assert_eq!(only.text, "bundledeployment \"pump\" has no revision to go back to: its history has 1");
        let none = choose(&deployment(&[]), None).unwrap_err();
        assert!(none.text.ends_with("its history is empty"), "{}", none.text);
    }
}
