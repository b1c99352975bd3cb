//! The pages: what `status`, `extension list`, `tree`, `history`, `diff`, `plan` and `examples` answer, and events.
//!
//! ```text
//! deployment   one BundleDeployment: what runs and what is wanted, objects, history, conditions, events
//! changes      what has drifted, and what a revision has changed            plans   what waits for a yes
//! ```

mod changes;
mod deployment;
mod plans;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt as _;
use rukpak_crds::olm::{ClusterExtension, deployment_name};
use serde_json::Value;

pub(super) use self::changes::{diff, revision};
pub(super) use self::deployment::deployment;
pub(super) use self::plans::{answer, plan};
use super::html::{Cell, badge, beside, escaped, link, page, short, table};
use super::said::Said;
use crate::args::ServiceArgs;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::documents;
use crate::table::count;
use crate::{examples, extension, status};

/// What a page has said of each name. Of another one it is said again: a search may hide the first.
type SaidOf = BTreeMap<String, Said>;

/// All BundleDeployments, PlatformOperators and ClusterExtensions; what is not as it should be comes first.
pub(super) async fn overview(cluster: &Cluster) -> Result<String, Failure> {
    let status = status::answer(cluster, None).await?;
    let plans = plans::waiting(cluster, None).await;
    let mut said = SaidOf::new();
    let mut lines: Vec<&Value> = list(&status, "bundleDeployments").collect();
    lines.sort_by_key(|line| text(line, "ready") == "True");
    let unready = lines.iter().filter(|line| text(line, "ready") != "True").count();
    let mut main = paragraph(&summary(lines.len(), unready, plans.len()));
    main.push_str(&plans::table_of(&plans, "", Timestamp::now()));
    let rows = lines.into_iter().map(|line| deployment_row(line, &mut said)).collect();
    let heading = ["Name", "Ready", "Reason", "Source", "Message"];
    main.push_str(&table("BundleDeployments", &heading, rows, "There are none."));
    if status.get("message").is_some() {
        let rows = list(&status, "platformOperators").map(|line| operator_row(line, &mut said)).collect();
        let heading = ["Name", "Package", "Version", "Installed", "Reason", "Message", "Upgrade"];
        main.push_str(&table("PlatformOperators", &heading, rows, "There are none."));
    }
    // Clusters without the kind have no such table.
    if let Ok(extensions) = cluster.list::<ClusterExtension>(None).await {
        let deployments: BTreeSet<&str> = list(&status, "bundleDeployments").map(|line| text(line, "name")).collect();
        let lines = extension::lines(&extensions);
        let rows = extensions.iter().zip(&lines).map(|(found, line)| {
            let deployment = deployment_name(&found.name_any());
            let deployment = deployments.get(deployment.as_str()).copied();
            extension_row(line, deployment, extension::upgrade(found), &mut said)
        });
        let rows = rows.collect();
        let heading = ["Name", "Package", "Version", "Settled", "Reason", "Message", "Upgrade"];
        main.push_str(&table("ClusterExtensions", &heading, rows, "There are none."));
    }
    Ok(page("Installed bundles", "./", true, &main))
}

/// The one sentence that somebody looks for who looks again.
fn summary(all: usize, unready: usize, plans: usize) -> String {
    let state = match (all, unready) {
        (0, _) => String::new(),
        (_, 0) => ", all of them ready".to_owned(),
        (_, unready) => format!(", {unready} not ready"),
    };
    let plans = match plans {
        0 => String::new(),
        1 => "; 1 Plan waits for an answer".to_owned(),
        plans => format!("; {plans} Plans wait for an answer"),
    };
    format!("{}{state}{plans}", count(all, "BundleDeployment"))
}

fn deployment_row(line: &Value, said: &mut SaidOf) -> Vec<Cell> {
    let name = text(line, "name");
    let said = said.entry(name.to_owned()).or_default();
    let suspended = if line["isSuspended"] == true { badge("suspended", false, false) } else { "".into() };
    vec![
        link(&format!("deployments/{name}"), name),
        beside([condition(line, "ready", "Ready"), suspended]),
        text(line, "reason").into(),
        short(text(line, "source")),
        said.once(text(line, "message")),
    ]
}

fn operator_row(line: &Value, said: &mut SaidOf) -> Vec<Cell> {
    let name = text(line, "name");
    let said = said.entry(name.to_owned()).or_default();
    let upgrade = ["upgradeAvailable", "upgradeUnknown"].into_iter().find_map(|key| line.get(key));
    vec![
        // Its BundleDeployment has its name.
        link(&format!("deployments/{name}"), name),
        text(line, "package").into(),
        text(line, "version").into(),
        condition(line, "installed", "Installed"),
        text(line, "reason").into(),
        said.once(text(line, "message")),
        said.once(upgrade.map(|note| text(note, "message")).unwrap_or_default()),
    ]
}

/// The name leads to the BundleDeployment, if there is one. `upgrade` is why a newer version is not installed.
fn extension_row(line: &Value, deployment: Option<&str>, upgrade: &str, said: &mut SaidOf) -> Vec<Cell> {
    let name = text(line, "name");
    let said = said.entry(name.to_owned()).or_default();
    let settled = if line["isSettled"] == true { badge("Yes", true, false) } else { badge("No", false, true) };
    vec![
        deployment.map_or_else(|| name.into(), |deployment| link(&format!("deployments/{deployment}"), name)),
        text(line, "package").into(),
        text(&line["installed"], "version").into(),
        settled,
        text(line, "reason").into(),
        said.once(text(line, "message")),
        said.once(upgrade),
    ]
}

/// Objects of an operator's kinds, ready for `kubectl apply`.
pub(super) async fn examples(cluster: &Cluster, name: &str, service: &ServiceArgs) -> Result<String, Failure> {
    let objects = examples::of_deployment(cluster, name, service).await?;
    let mut main = format!(r#"<p><a href="../{name}">Back to {name}</a></p>"#, name = escaped(name));
    let command = format!("rukpakctl examples {name} KIND | kubectl apply -f -");
    main.push_str(&paragraph(&format!("To create one: <code>{}</code>", escaped(&command))));
    if let Some(initial) = objects.iter().find(|object| examples::is_initial(object)) {
        main.push_str(&paragraph(&escaped(&format!("The operator needs {} first.", initial.key()))));
    }
    for object in &objects {
        let mut text = Vec::new();
        documents(&mut text, std::slice::from_ref(object)).map_err(|error| Failure::unknown(error.to_string()))?;
        let title = escaped(&format!("{} {}", object.kind(), object.name()));
        let text = escaped(&String::from_utf8_lossy(&text));
        main.extend(["<h2>", &title, "</h2><pre>", &text, "</pre>"]);
    }
    Ok(page(&format!("Examples of {name}"), "../../", false, &main))
}

/// Why there is no page. `root` leads from it to the first one.
pub(super) fn failure(failure: &Failure, root: &str) -> String {
    let hint = failure.hint.as_ref().map(|hint| format!("<p>Try <code>{}</code></p>", escaped(hint)));
    page(
        "There is nothing to see",
        root,
        false,
        &format!("<p>{}</p>{}", escaped(&failure.text), hint.unwrap_or_default()),
    )
}

/// A paragraph of HTML that was made here.
fn paragraph(html: &str) -> String {
    format!("<p>{html}</p>")
}

/// A condition of a list as a word.
fn condition(line: &Value, key: &str, word: &str) -> Cell {
    match text(line, key) {
        "True" => badge(word, true, false),
        "False" => badge(&format!("Not {}", word.to_lowercase()), false, true),
        _ => badge("Unknown", false, false),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_extension_leads_to_its_deployment_and_says_why_its_upgrade_waits() {
        let line = json!({"name": "pump", "package": "pump-operator", "isSettled": true});
        let html = |deployment, upgrade| {
            let row = extension_row(&line, deployment, upgrade, &mut SaidOf::new());
            row.into_iter().map(Cell::into_html).collect::<Vec<_>>()
        };
        let row = html(Some("pump-1f"), "Version 2.0.0 is <left out>");
        assert_eq!(row[0], r#"<a href="deployments/pump-1f">pump</a>"#);
        assert_eq!(row[6], "Version 2.0.0 is &lt;left out&gt;");
        let row = html(None, "");
        assert_eq!((row[0].as_str(), row[6].as_str()), ("pump", ""));
    }
}
