//! One BundleDeployment: how it is and what it waits for, what runs beside what is wanted, objects, history, conditions, events.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt as _;
use rukpak_crds::names::CLASS_REGISTRY;
use rukpak_crds::{BundleDeployment, Revision};
use serde_json::Value;

use super::super::html::{Cell, badge, beside, escaped, link, page, quiet, short, table, time};
use super::super::said::Said;
use super::{list, paragraph, plans, text};
use crate::cluster::{Cluster, EventLine};
use crate::failure::Failure;
use crate::history::{installed, revisions, source};
use crate::tree;

/// Where Events about objects without a namespace are.
const DEFAULT_NAMESPACE: &str = "default";
/// In so many namespaces events of objects are looked for.
const NAMESPACES: usize = 10;
/// Kinds that make objects named after them: `pump-5d8f9c7b6-x2x4q` for the Deployment `pump`.
const WORKLOADS: [&str; 6] = ["CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"];

pub(in super::super) async fn deployment(cluster: &Cluster, name: &str) -> Result<String, Failure> {
    let now = Timestamp::now();
    let deployment = cluster.existing(name).await?;
    let tree = serde_json::to_value(tree::gather(cluster, &deployment).await?).unwrap_or_default();
    let waiting = plans::waiting(cluster, Some(name)).await;
    let warnings = warnings(cluster, &tree).await;
    let events = cluster.events(name).await;

    let mut said = Said::default();
    let mut main = headline(&deployment, &tree, &mut said);
    main.push_str(&plans::table_of(&waiting, "../", now));
    main.push_str(&sides(&deployment, &tree, now));
    main.push_str(&objects(&tree, &warnings, (&mut said, now)));
    main.push_str(&history(&deployment, (&mut said, now)));
    main.push_str(&conditions(&deployment, &mut said));
    main.push_str(&match events {
        Ok(events) => {
            let rows = events.into_iter().map(|line| event(line, (&mut said, now))).collect();
            table("Events", &["Last seen", "Reason", "Times", "Message"], rows, "There are none.")
        }
        // Who may not list events sees the rest.
        Err(error) => table("Events", &[], Vec::new(), &error.to_string()),
    });
    Ok(page(name, "../", true, &main))
}

/// How it is, and where to look further.
fn headline(deployment: &BundleDeployment, tree: &Value, said: &mut Said) -> String {
    let ready = if tree["ready"] == true { badge("Ready", true, false) } else { badge("Not ready", false, true) };
    let suspended = if deployment.spec.suspend { badge("suspended", false, false) } else { "".into() };
    let why = said.once(text(tree, "message")).into_html();
    let mut html = paragraph(&beside([ready, suspended, Cell::Html(why)]).into_html());
    let name = escaped(&deployment.name_any());
    let mut links = vec![format!(r#"<a href="{name}/diff">Show what has drifted</a>"#)];
    if deployment.spec.template.spec.provisioner_class_name == CLASS_REGISTRY {
        links.push(format!(r#"<a href="{name}/examples">Show examples of its kinds</a>"#));
    }
    html.push_str(&paragraph(&links.join(" · ")));
    for (list_name, what) in [("neededBy", "Needed by"), ("needs", "Needs")] {
        let names: Vec<&str> = list(tree, list_name).filter_map(Value::as_str).collect();
        if !names.is_empty() {
            html.push_str(&paragraph(&format!("{what} {}", escaped(&names.join(", ")))));
        }
    }
    html
}

/// What runs beside what is wanted.
fn sides(deployment: &BundleDeployment, tree: &Value, now: Timestamp) -> String {
    let all = revisions(deployment);
    let (runs, newest) = (installed(all), all.first());
    let (active, others): (Vec<&Value>, Vec<&Value>) =
        list(tree, "bundles").partition(|bundle| bundle["isActive"] == true);
    let active = active.first().copied();
    let wanted = others.first().copied().or(active);
    let bundle = |bundle: Option<&Value>| match bundle {
        Some(bundle) => beside([short(text(bundle, "name")), phase(text(bundle, "phase"))]),
        None => "".into(),
    };
    let running = runs.and_then(|revision| revision.source.as_ref()).map(source);
    let running = running.or_else(|| active.map(|active| text(active, "source").to_owned()));
    let wish = deployment.spec.rollback_to.map_or_else(
        || source(&deployment.spec.template.spec.source),
        |revision| format!("revision {revision}, to which it is rolled back"),
    );
    let revision = |revision: Option<&Revision>| match revision {
        Some(found) => {
            let is_failure = found.result.is_failure();
            let result = badge(&format!("{:?}", found.result), !is_failure, is_failure);
            beside([found.revision.to_string().into(), result, time(found.time, now)])
        }
        None => "".into(),
    };
    let rows = vec![
        vec!["Source".into(), short(&running.unwrap_or_default()), short(&wish)],
        vec!["Bundle".into(), bundle(active), bundle(wanted)],
        vec!["Revision".into(), revision(runs), revision(newest)],
    ];
    table("What runs and what is wanted", &["", "Runs", "Wanted"], rows, "")
}

fn phase(phase: &str) -> Cell {
    badge(phase, phase == "Unpacked", phase == "Failing")
}

fn objects(tree: &Value, warnings: &BTreeMap<usize, EventLine>, (said, now): (&mut Said, Timestamp)) -> String {
    let rows = list(tree, "objects").enumerate().map(|(index, object)| {
        let health = text(object, "health");
        let message = said.once(text(object, "message"));
        let told = warnings.get(&index).map(|line| {
            let when = line.time.map_or_else(|| "".into(), |at| time(at, now));
            beside([badge(&line.reason, false, true), said.once(&line.message), when])
        });
        vec![
            text(object, "name").into(),
            text(object, "kind").into(),
            text(object, "namespace").into(),
            badge(health, health == "Current", matches!(health, "Failed" | "NotFound" | "Unknown")),
            message,
            told.unwrap_or_else(|| "".into()),
        ]
    });
    let heading = ["Name", "Kind", "Namespace", "Health", "Message", "Last warning"];
    let mut html = table("Objects", &heading, rows.collect(), "Nothing is installed yet.");
    for unknown in list(tree, "unknown") {
        html.push_str(&paragraph(&escaped(unknown.as_str().unwrap_or_default())));
    }
    html
}

/// The last warning about each object that is not healthy, by its place in the tree; also about what a workload has made. Where events
/// may not be listed there are none.
async fn warnings(cluster: &Cluster, tree: &Value) -> BTreeMap<usize, EventLine> {
    let namespaces: BTreeSet<String> = unhealthy(tree).map(|(_, object)| namespace_of(object).to_owned()).collect();
    let mut told = Vec::new();
    for namespace in namespaces.into_iter().take(NAMESPACES) {
        let lines = cluster.warnings(&namespace).await.unwrap_or_default();
        told.extend(lines.into_iter().map(|line| (namespace.clone(), line)));
    }
    by_object(tree, told)
}

fn by_object(tree: &Value, told: Vec<(String, EventLine)>) -> BTreeMap<usize, EventLine> {
    let mut found = BTreeMap::new();
    for (namespace, line) in told {
        let about = unhealthy(tree).filter(|(_, object)| namespace_of(object) == namespace && is_about(&line, object));
        // `pump` and `pump-two` both begin the name of a Pod of the latter.
        let index = about.max_by_key(|(_, object)| text(object, "name").len()).map(|(index, _)| index);
        if let Some(index) = index {
            found.entry(index).or_insert(line);
        }
    }
    found
}

/// The objects that are not healthy, with their places in the tree.
fn unhealthy(tree: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list(tree, "objects").enumerate().filter(|(_, object)| text(object, "health") != "Current")
}

fn namespace_of(object: &Value) -> &str {
    Some(text(object, "namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
}

/// Whether a warning is about an object, or about what it has made.
fn is_about(line: &EventLine, object: &Value) -> bool {
    let (kind, name) = (text(object, "kind"), text(object, "name"));
    if line.kind == kind && line.name == name {
        return true;
    }
    let made = line.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    // A ReplicaSet adds one part to the name, its Pod another.
    WORKLOADS.contains(&kind) && made.is_some_and(|made| made.split('-').count() <= 2)
}

fn history(deployment: &BundleDeployment, (said, now): (&mut Said, Timestamp)) -> String {
    let all = revisions(deployment);
    let current = installed(all).map(|revision| revision.revision);
    let name = deployment.name_any();
    let rows = all.iter().map(|revision| {
        let is_failure = revision.result.is_failure();
        let result = badge(&format!("{:?}", revision.result), !is_failure, is_failure);
        let is_current = if current == Some(revision.revision) { quiet("installed") } else { "".into() };
        let number = revision.revision;
        vec![
            number.to_string().into(),
            beside([result, is_current]),
            time(revision.time, now),
            short(&revision.source.as_ref().map(source).unwrap_or_default()),
            link(&format!("{name}/revisions/{number}"), "what it changed"),
            said.once(&revision.message),
        ]
    });
    let heading = ["Revision", "Result", "Since", "Source", "Changes", "Message"];
    table("History", &heading, rows.collect(), "There are no revisions yet.")
}

fn conditions(deployment: &BundleDeployment, said: &mut Said) -> String {
    let found = deployment.status.iter().flat_map(|status| &status.conditions);
    let rows = found.map(|found| {
        let status = format!("{:?}", found.status);
        vec![found.type_.as_str().into(), status.into(), found.reason.as_str().into(), said.once(&found.message)]
    });
    table("Conditions", &["Type", "Status", "Reason", "Message"], rows.collect(), "There are none yet.")
}

fn event(event: EventLine, (said, now): (&mut Said, Timestamp)) -> Vec<Cell> {
    let at = event.time.map_or_else(|| "".into(), |at| time(at, now));
    vec![at, event.reason.into(), event.count.to_string().into(), said.once(&event.message)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warning(kind: &str, name: &str) -> EventLine {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        EventLine { kind, name, time: None, reason: "Failed".to_owned(), count: 1, message: String::new() }
    }

    #[test]
    fn a_warning_about_a_pod_is_one_about_its_workload() {
        let object = |kind: &str, name: &str| json!({"kind": kind, "name": name});
        let pod = warning("Pod", "pump-5d8f9c7b6-x2x4q");
        assert!(is_about(&pod, &object("Deployment", "pump")));
        assert!(is_about(&warning("Service", "pump"), &object("Service", "pump")));
        for (kind, name) in [("ConfigMap", "pump"), ("Deployment", "pum"), ("Deployment", "pump-5d8f9c7b6-x2x4q-1")] {
            assert!(!is_about(&pod, &object(kind, name)), "{kind} {name}");
        }
        let other = warning("Pod", "pump-two-5d8f9c7b6-x2x4q");
        assert!(!is_about(&other, &object("Deployment", "pump")), "it is one of pump-two");
        assert!(is_about(&other, &object("Deployment", "pump-two")));
    }

    #[test]
    fn the_last_warning_is_told_at_the_object_with_the_longest_name() {
        let object = |name: &str, namespace: &str, health: &str| json!({"kind": "StatefulSet", "name": name, "namespace": namespace, "health": health});
        let tree = json!({"objects": [
            object("pump", "pumps", "InProgress"), object("pump-two", "pumps", "Failed"), object("pump-two", "others", "Failed"),
            object("pump-two-0", "pumps", "Current"),
        ]});
        let told = ["pump-two-0", "pump-two-1"].map(|name| ("pumps".to_owned(), warning("Pod", name)));
        let found = by_object(&tree, told.into());
        let names: Vec<(usize, &str)> = found.iter().map(|(index, line)| (*index, line.name.as_str())).collect();
        assert_eq!(names, [(1, "pump-two-0")], "the first that was listed is the last that was seen");
    }
}
