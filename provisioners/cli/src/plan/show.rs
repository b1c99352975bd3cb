//! What a Plan would do, for people.

use std::io::{self, Write};

use rukpak_crds::Plan;
use rukpak_crds::plan::{
    ChangedImage, ChangedVersion, GrownRight, Listing, PlanStatus, PlannedDependency, PlannedObject,
};

use super::phase;
use crate::table;

/// Writes what the Plan says, a line for each thing that changes.
pub(super) fn text(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let status = plan.status.clone().unwrap_or_default();
    let phase = match (phase(plan), status.message.as_str()) {
        (phase, "") => phase,
        (phase, message) => format!("{phase}: {message}"),
    };
    table::facts(
        out,
        &[
            ("deployment", vec![plan.spec.deployment.name.clone()]),
            ("phase", vec![phase]),
            ("summary", vec![status.summary.clone()]),
            ("digest", vec![plan.spec.digest.clone()]),
        ],
    )?;
    dependencies(out, &plan.spec.binds.dependencies)?;
    changes(out, &status)
}

/// Writes which packages would be installed, and for whom.
pub(super) fn dependencies(out: &mut dyn Write, all: &[PlannedDependency]) -> io::Result<()> {
    for dependency in all {
        writeln!(out, "\n{:8} {}", "install", table::one_line(&named(dependency)))?;
        for why in &dependency.needed_by {
            writeln!(out, "{:8} {}", "", table::one_line(why))?;
        }
    }
    Ok(())
}

/// Writes what would become of objects, rights, images and versions.
pub(super) fn changes(out: &mut dyn Write, status: &PlanStatus) -> io::Result<()> {
    lines(out, "create", &status.created, object)?;
    lines(out, "change", &status.changed, object)?;
    lines(out, "orphan", &status.orphaned, object)?;
    lines(out, "delete", &status.deleted, object)?;
    lines(out, "grant", &status.rights, right)?;
    lines(out, "image", &status.images, image)?;
    lines(out, "version", &status.versions, version)
}

fn lines<T>(out: &mut dyn Write, verb: &str, list: &Listing<T>, line: impl Fn(&T) -> String) -> io::Result<()> {
    if list.count == 0 {
        return Ok(());
    }
    writeln!(out)?;
    for item in &list.items {
        writeln!(out, "{verb:8} {}", table::one_line(&line(item)))?;
    }
    match list.omitted() {
        0 => Ok(()),
        omitted => writeln!(out, "{verb:8} {omitted} more, which the Plan does not list"),
    }
}

/// `wells 1.2.0 (wells.v1.2.0, channel stable of catalog community)`.
fn named(dependency: &PlannedDependency) -> String {
    let PlannedDependency { package, version, bundle, channel, catalog, .. } = dependency;
    format!("{package} {version} ({bundle}, channel {channel} of catalog {catalog})")
}

fn object(object: &PlannedObject) -> String {
    let PlannedObject { group, kind, namespace, name, note } = object;
    let kind = if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") };
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    format!("{kind} {namespace}{name}{note}")
}

fn right(GrownRight { holder, rule, escalation }: &GrownRight) -> String {
    let mark = if *escalation { "escalation! " } else { "" };
    format!("{mark}{rule} to {holder}")
}

fn image(ChangedImage { object, container, from, to }: &ChangedImage) -> String {
    let from = if from.is_empty() { "new" } else { from };
    format!("{object}, container {container}: {from} -> {to}")
}

fn version(ChangedVersion { definition, added, removed }: &ChangedVersion) -> String {
    let signed = |sign: &str, versions: &[String]| {
        versions.iter().map(|version| [" ", sign, version].concat()).collect::<Vec<_>>().concat()
    };
    format!("{definition}:{}{}", signed("+", added), signed("-", removed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tells_everything_that_changes_and_how_much_is_left_out() {
        let plan: Plan = serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Plan", "metadata": {"name": "pump-1"},
            "spec": {"deployment": {"name": "pump", "uid": "u"}, "digest": "sha256:0", "binds": {
                "content": "c", "objects": "o", "actions": "a", "dependencies": [{"package": "wells", "version": "1.2.0",
                "bundle": "wells.v1.2.0", "channel": "stable", "catalog": "community", "neededBy": ["pump needs it"]}]}},
            "status": {"phase": "Waiting", "message": "", "summary": "installs it",
                "changed": {"count": 0, "items": []}, "orphaned": {"count": 0, "items": []},
                "created": {"count": 3, "items": [{"group": "apps", "kind": "Deployment", "namespace": "n", "name": "d"}]},
                "deleted": {"count": 1, "items": [{"kind": "Namespace", "name": "n", "note": "unless something is in it"}]},
                "rights": {"count": 1, "items": [{"holder": "User \"u\"", "rule": "* pods", "escalation": true}]},
                "images": {"count": 1, "items": [{"object": "Deployment", "container": "main", "to": "a:2"}]},
                "versions": {"count": 1, "items": [{"definition": "pumps", "added": ["v2"], "removed": ["v1"]}]}},
        }))
        .unwrap();
        let mut out = Vec::new();
        text(&mut out, &plan).unwrap();
        let wanted = "\
deployment: pump
phase:      Waiting
summary:    installs it
digest:     sha256:0

install  wells 1.2.0 (wells.v1.2.0, channel stable of catalog community)
         pump needs it

create   Deployment.apps n/d
create   2 more, which the Plan does not list

delete   Namespace n (unless something is in it)

grant    escalation! * pods to User \"u\"

image    Deployment, container main: new -> a:2

version  pumps: +v2 -v1
";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
