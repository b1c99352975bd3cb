//! The pages: what `status`, `extension list`, `tree`, `history`, `diff` and `examples` answer, and events.

use rukpak_crds::names::CLASS_REGISTRY;
use rukpak_crds::{BundleDeployment, ConditionStatus};
use serde_json::Value;

use super::html::{Cell, badge, escaped, link, page, table};
use crate::args::{CertProvider, ServiceArgs};
use crate::cluster::{Cluster, EventLine};
use crate::failure::Failure;
use crate::history::{installed, revisions, source};
use crate::output::documents;
use crate::{diff, examples, extension, status, tree};

/// All BundleDeployments, PlatformOperators and ClusterExtensions.
pub(super) async fn overview(cluster: &Cluster) -> Result<String, Failure> {
    let status = status::answer(cluster, None).await?;
    let rows = list(&status, "bundleDeployments").map(|line| {
        let name = text(line, "name");
        let suspended = if line["isSuspended"] == true { "suspended" } else { "" };
        vec![
            link(&format!("deployments/{name}"), name),
            condition(line, "ready", "Ready"),
            text(line, "reason").into(),
            suspended.into(),
            text(line, "source").into(),
            text(line, "message").into(),
        ]
    });
    let heading = ["Name", "Ready", "Reason", "Suspended", "Source", "Message"];
    let mut main = table("BundleDeployments", &heading, rows.collect(), "There are none.");
    let rows = list(&status, "platformOperators").map(|line| {
        let name = text(line, "name");
        vec![
            // Its BundleDeployment has its name.
            link(&format!("deployments/{name}"), name),
            text(line, "package").into(),
            text(line, "version").into(),
            condition(line, "installed", "Installed"),
            text(line, "reason").into(),
            text(line, "message").into(),
        ]
    });
    if status.get("message").is_some() {
        let heading = ["Name", "Package", "Version", "Installed", "Reason", "Message"];
        main.push_str(&table("PlatformOperators", &heading, rows.collect(), "There are none."));
    }
    // Clusters without the kind have no such table.
    if let Ok(extensions) = cluster.extensions(None).await {
        let rows = extension::lines(&extensions).iter().map(extension_row).collect();
        let heading = ["Name", "Package", "Version", "Settled", "Reason", "Message"];
        main.push_str(&table("ClusterExtensions", &heading, rows, "There are none."));
    }
    Ok(page("Installed bundles", "./", true, &main))
}

fn extension_row(line: &Value) -> Vec<Cell> {
    let settled = if line["isSettled"] == true { badge("Yes", true, false) } else { badge("No", false, true) };
    vec![
        text(line, "name").into(),
        text(line, "package").into(),
        text(&line["installed"], "version").into(),
        settled,
        text(line, "reason").into(),
        text(line, "message").into(),
    ]
}

pub(super) async fn deployment(cluster: &Cluster, name: &str) -> Result<String, Failure> {
    let deployment = cluster.existing(name).await?;
    let tree = serde_json::to_value(tree::gather(cluster, &deployment).await?).unwrap_or_default();
    // Who may not list events sees the rest.
    let events = cluster.events(name).await;
    let state = if tree["ready"] == true { badge("Ready", true, false) } else { badge("Not ready", false, true) };
    let Cell::Html(state) = state else { return Err(Failure::unknown("a badge is HTML")) };
    let mut main = paragraph(&format!("{state} {}", escaped(text(&tree, "message"))));
    let of = escaped(&source(&deployment.spec.template.spec.source));
    main.push_str(&paragraph(&format!(r#"{of} <a href="{}/diff">Show what has drifted</a>"#, escaped(name))));
    if deployment.spec.template.spec.provisioner_class_name == CLASS_REGISTRY {
        main.push_str(&paragraph(&format!(r#"<a href="{}/examples">Show examples of its kinds</a>"#, escaped(name))));
    }
    for (list_name, said) in [("neededBy", "Needed by"), ("needs", "Needs")] {
        let names: Vec<&str> = list(&tree, list_name).filter_map(Value::as_str).collect();
        if !names.is_empty() {
            main.push_str(&paragraph(&format!("{said} {}", escaped(&names.join(", ")))));
        }
    }
    main.push_str(&tree_tables(&tree));
    main.push_str(&conditions(&deployment));
    main.push_str(&history(&deployment));
    main.push_str(&match events {
        Ok(events) => table(
            "Events",
            &["Last seen", "Reason", "Times", "Message"],
            events.into_iter().map(event).collect(),
            "There are none.",
        ),
        Err(error) => table("Events", &[], Vec::new(), &error.to_string()),
    });
    Ok(page(name, "../", true, &main))
}

fn tree_tables(tree: &Value) -> String {
    let bundles = list(tree, "bundles").map(|bundle| {
        let phase = text(bundle, "phase");
        let active = if bundle["isActive"] == true { "installed" } else { "" };
        vec![
            text(bundle, "name").into(),
            badge(phase, phase == "Unpacked", phase == "Failing"),
            active.into(),
            text(bundle, "source").into(),
        ]
    });
    let objects = list(tree, "objects").map(|object| {
        let health = text(object, "health");
        vec![
            text(object, "name").into(),
            text(object, "kind").into(),
            text(object, "namespace").into(),
            badge(health, health == "Current", matches!(health, "Failed" | "NotFound" | "Unknown")),
            text(object, "message").into(),
        ]
    });
    let mut html = table("Bundles", &["Name", "Phase", "State", "Source"], bundles.collect(), "There are none yet.");
    let heading = ["Name", "Kind", "Namespace", "Health", "Message"];
    html.push_str(&table("Objects", &heading, objects.collect(), "Nothing is installed yet."));
    for unknown in list(tree, "unknown") {
        html.push_str(&paragraph(&escaped(unknown.as_str().unwrap_or_default())));
    }
    html
}

fn conditions(deployment: &BundleDeployment) -> String {
    let found = deployment.status.iter().flat_map(|status| &status.conditions);
    let rows = found.map(|found| {
        let status = match found.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        vec![found.type_.as_str().into(), status.into(), found.reason.as_str().into(), found.message.as_str().into()]
    });
    table("Conditions", &["Type", "Status", "Reason", "Message"], rows.collect(), "There are none yet.")
}

fn history(deployment: &BundleDeployment) -> String {
    let all = revisions(deployment);
    let current = installed(all).map(|revision| revision.revision);
    let rows = all.iter().map(|revision| {
        let is_failure = revision.result.is_failure();
        let installed = if current == Some(revision.revision) { "installed" } else { "" };
        vec![
            revision.revision.to_string().into(),
            badge(&format!("{:?}", revision.result), !is_failure, is_failure),
            installed.into(),
            revision.time.to_string().into(),
            revision.bundle.clone().unwrap_or_default().into(),
            revision.message.clone().into(),
        ]
    });
    let heading = ["Revision", "Result", "State", "Since", "Bundle", "Message"];
    table("History", &heading, rows.collect(), "There are no revisions yet.")
}

fn event(event: EventLine) -> Vec<Cell> {
    vec![event.time.into(), event.reason.into(), event.count.to_string().into(), event.message.into()]
}

/// What has drifted. It is not asked for again by itself: each look is a dry run of every object.
pub(super) async fn diff(
    cluster: &Cluster,
    name: &str,
    certificates: Option<CertProvider>,
    service: &ServiceArgs,
) -> Result<String, Failure> {
    let report = diff::drift(cluster, name, certificates, service).await?;
    let rows = list(&report, "changes").map(|change| {
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
    let heading = ["Name", "Kind", "Namespace", "What the controller would do", "Why", "Fields"];
    let unchanged = report["unchanged"].as_u64().unwrap_or_default();
    let unknown = list(&report, "unknown").count();
    let otherwise = if unknown == 0 {
        format!("Nothing has drifted: {unchanged} objects are as the bundle has them.")
    } else {
        format!("{unchanged} objects are as the bundle has them. What else there is could not be compared.")
    };
    let mut main = format!(r#"<p><a href="../{name}">Back to {name}</a></p>"#, name = escaped(name));
    main.push_str(&table("Differences", &heading, rows.collect(), &otherwise));
    for remark in list(&report, "unknown").chain(list(&report, "remarks")) {
        main.push_str(&paragraph(&escaped(remark.as_str().unwrap_or_default())));
    }
    Ok(page(&format!("Drift of {name}"), "../../", false, &main))
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

fn field(change: &Value) -> String {
    let side = |sign: &str, key: &str| {
        let value = change.get(key)?;
        Some(escaped(&format!("{sign} {}: {value}", text(change, "path"))))
    };
    [side("-", "before"), side("+", "after")].into_iter().flatten().collect::<Vec<_>>().join("\n")
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
