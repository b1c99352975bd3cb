//! Plans that wait for an answer, and one Plan with what it would do.

use jiff::Timestamp;
use kube::ResourceExt as _;
use rukpak_crds::{Plan, PlanApproval, PlanPhase};

use super::super::html::{badge, escaped, link, page, table, time};
use super::paragraph;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::plan;

/// The Plans that wait for an answer, the oldest first: all, or those of a BundleDeployment. Where the kind is not served, or may not be
/// listed, there are none.
pub(super) async fn waiting(cluster: &Cluster, deployment: Option<&str>) -> Vec<Plan> {
    let mut plans = cluster.list::<Plan>(None).await.unwrap_or_default();
    plans.retain(|plan| {
        let is_waiting = plan.status.as_ref().is_some_and(|status| status.phase == PlanPhase::Waiting);
        is_waiting && deployment.is_none_or(|name| plan.spec.deployment.name == name)
    });
    plans.sort_by_key(|plan| plan.metadata.creation_timestamp.clone());
    plans
}

/// A table of them; nothing if there are none. `root` leads to the first page.
pub(super) fn table_of(plans: &[Plan], root: &str, now: Timestamp) -> String {
    if plans.is_empty() {
        return String::new();
    }
    let rows = plans.iter().map(|plan| {
        let name = plan.name_any();
        let since = plan.metadata.creation_timestamp.as_ref();
        vec![
            link(&format!("{root}plans/{name}"), &name),
            plan.spec.deployment.name.as_str().into(),
            since.map_or_else(|| "".into(), |since| time(since.0, now)),
            plan.status.as_ref().map(|status| status.summary.as_str()).unwrap_or_default().into(),
        ]
    });
    table("Plans that wait for an answer", &["Name", "For", "Since", "What it would do"], rows.collect(), "")
}

/// A Plan. With `takes_answers` it has two buttons.
pub(in super::super) async fn plan(cluster: &Cluster, name: &str, takes_answers: bool) -> Result<String, Failure> {
    let plan = plan::existing(cluster, name).await?;
    let phase = plan::phase(&plan);
    let is_waiting = plan.status.as_ref().is_some_and(|status| status.phase == PlanPhase::Waiting);
    let state = badge(&phase, phase == "Applied", matches!(phase.as_str(), "Rejected" | "Expired")).into_html();
    let of = escaped(&plan.spec.deployment.name);
    let mut main = paragraph(&format!(r#"{state} for <a href="../deployments/{of}">{of}</a>"#));
    main.extend(["<pre>", &escaped(&plan::shown(&plan)), "</pre>"]);
    if is_waiting && takes_answers {
        let (name, uid) = (escaped(name), escaped(&plan.uid().unwrap_or_default()));
        main.push_str(r#"<div class="answers">"#);
        for (verb, word) in [("approve", "Approve"), ("reject", "Reject")] {
            let form = format!(r#"<form method="post" action="{name}/{uid}/{verb}"><button>{word}</button></form>"#);
            main.push_str(&form);
        }
        main.push_str("</div>");
    } else if is_waiting {
        let command = escaped(&format!("rukpakctl plan approve {name}"));
        main.push_str(&paragraph(&format!("To answer it: <code>{command}</code>, or <code>reject</code>.")));
    }
    Ok(page(&format!("Plan {name}"), "../", true, &main))
}

/// Answers a Plan, if it is the one that was looked at.
pub(in super::super) async fn answer(
    cluster: &Cluster,
    name: &str,
    uid: &str,
    approval: PlanApproval,
) -> Result<(), Failure> {
    let plan = plan::existing(cluster, name).await?;
    if plan.uid().as_deref() != Some(uid) {
        return Err(Failure::no(format!("plan {name:?} was made anew since it was looked at: look at it again")));
    }
    plan::give(cluster, &plan, approval).await.map(drop)
}
