//! Pages of differences: the cluster beside what is installed, and a revision beside the one before.

use kube::ResourceExt as _;
use rukpak_crds::{BundleDeployment, Revision};
use serde_json::Value;

use super::super::html::{Cell, badge, escaped, page, table};
use super::{list, paragraph, text};
use crate::args::{CertProvider, ServiceArgs};
use crate::cluster::Cluster;
use crate::diff;
use crate::diff::revisions::{Files, asked};
use crate::failure::Failure;
use crate::history::{revisions, source};

/// What has drifted. It is not asked for again by itself: each look is a dry run of every object.
pub(in super::super) async fn diff(
    cluster: &Cluster,
    name: &str,
    certificates: Option<CertProvider>,
    service: &ServiceArgs,
) -> Result<String, Failure> {
    let report = diff::drift(cluster, name, certificates, service).await?;
    let unchanged = report["unchanged"].as_u64().unwrap_or_default();
    let unknown = list(&report, "unknown").count();
    let otherwise = if unknown == 0 {
        format!("Nothing has drifted: {unchanged} objects are as the bundle has them.")
    } else {
        format!("{unchanged} objects are as the bundle has them. What else there is could not be compared.")
    };
    let mut main = back(name, "../");
    main.push_str(&differences(&report, "What the controller would do", &otherwise));
    Ok(page(&format!("Drift of {name}"), "../../", false, &main))
}

/// What a revision has changed.
pub(in super::super) async fn revision(
    cluster: &Cluster,
    name: &str,
    number: i64,
    certificates: Option<CertProvider>,
    service: &ServiceArgs,
) -> Result<String, Failure> {
    let deployment = cluster.existing(name).await?;
    let (newer, older) = chosen(&deployment, number)?;
    let mut main = back(name, "../../");
    let outcome = format!("{:?}", newer.result);
    let badge = badge(&outcome, !newer.result.is_failure(), newer.result.is_failure()).into_html();
    main.push_str(&paragraph(&format!("{badge} {}", escaped(&newer.message))));
    let title = match older {
        None => {
            main.push_str(&paragraph("No revision before this one is known."));
            format!("Revision {number} of {name}")
        }
        Some(older) => {
            let files = Files { cluster, deployment: &deployment, certificates, service };
            main.push_str(&what_changed(&files, older, newer).await);
            format!("Revision {number} of {name}, after revision {}", older.revision)
        }
    };
    Ok(page(&title, "../../../", false, &main))
}

/// The revision of this number, and the one that was installed when it came.
fn chosen(deployment: &BundleDeployment, number: i64) -> Result<(&Revision, Option<&Revision>), Failure> {
    let mut all = revisions(deployment).iter();
    let Some(newer) = all.find(|revision| revision.revision == number) else {
        let name = deployment.name_any();
        return Err(Failure::no(format!("bundledeployment {name:?} has no revision {number}"))
            .hint(format!("rukpakctl history {name}")));
    };
    Ok((newer, all.find(|revision| !revision.result.is_failure())))
}

async fn what_changed(files: &Files<'_>, older: &Revision, newer: &Revision) -> String {
    let was = older.source.as_ref().map(source).unwrap_or_default();
    let asked = asked(older, newer);
    let fields = asked.as_array().into_iter().flatten();
    let rows = fields.map(|change| {
        let side = |key: &str| change.get(key).map(Value::to_string).unwrap_or_default();
        vec![text(change, "path").into(), side("before").into(), side("after").into()]
    });
    let same = format!("The same was asked for: {was}");
    let mut html = table("What was asked for", &["Field", "Before", "Then"], rows.collect(), &same);
    match files.between(older, newer).await {
        Ok(report) => {
            let unchanged = report["unchanged"].as_u64().unwrap_or_default();
            let otherwise = format!("None differs: {unchanged} objects are the same.");
            html.push_str(&differences(&report, "What has become of it", &otherwise));
        }
        Err(failure) => html.push_str(&table("Differences", &[], Vec::new(), &failure.text)),
    }
    html
}

fn back(name: &str, root: &str) -> String {
    let name = escaped(name);
    paragraph(&format!(r#"<a href="{root}{name}">Back to {name}</a>"#))
}

/// The objects of a report that differ, and what it remarks.
fn differences(report: &Value, action: &str, otherwise: &str) -> String {
    let rows = list(report, "changes").map(|change| {
        let action = text(change, "action");
        let fields: Vec<String> = list(change, "fields").map(field).collect();
        vec![
            text(change, "name").into(),
            text(change, "kind").into(),
            text(change, "namespace").into(),
            badge(action, action == "create", matches!(action, "delete" | "refuse")),
            text(change, "reason").into(),
            Cell::Html(format!("<pre>{}</pre>", fields.join("\n"))),
        ]
    });
    let heading = ["Name", "Kind", "Namespace", action, "Why", "Fields"];
    let mut html = table("Differences", &heading, rows.collect(), otherwise);
    for remark in list(report, "unknown").chain(list(report, "remarks")) {
        html.push_str(&paragraph(&escaped(remark.as_str().unwrap_or_default())));
    }
    html
}

fn field(change: &Value) -> String {
    let side = |sign: &str, key: &str| {
        let value = change.get(key)?;
        Some(escaped(&format!("{sign} {}: {value}", text(change, "path"))))
    };
    [side("-", "before"), side("+", "after")].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revision_is_compared_with_what_was_installed_when_it_came() {
        let revision = |(number, result): (i64, &str)| json!({"revision": number, "contentDigest": "d", "result": result, "time": "2026-01-01T00:00:00Z"});
        let history = [(4, "Failed"), (3, "Failed"), (2, "Healthy"), (1, "Healthy")].map(revision);
        let deployment: BundleDeployment = serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump"},
            "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p",
                     "source": {"type": "image", "image": {"ref": "a"}}}}},
            "status": {"history": history},
        }))
        .unwrap();
        let before = |number| chosen(&deployment, number).map(|(_, older)| older.map(|older| older.revision));
        assert_eq!([before(4), before(3), before(2), before(1)], [Ok(Some(2)), Ok(Some(2)), Ok(Some(1)), Ok(None)]);
        assert!(before(7).unwrap_err().text.ends_with("has no revision 7"));
    }
}
