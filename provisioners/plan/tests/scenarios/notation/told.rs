//! What is decided and reported, as files write it.

use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::{BundleDeploymentStatus, Condition, Inventory, Revision};
use rukpak_plan::Release;
use rukpak_plan::decide::{Decision, decide, next};
use rukpak_plan::observed::Observed;
use rukpak_plan::resolve::Why;
use rukpak_plan::status::status;
use serde_json::{Map, Value, json};

use super::deployment::Scene;
use super::world;

/// Everything that the crate says of a scene. A status is written only when there is nothing else to do.
pub fn outcome(scene: &Scene) -> Value {
    let Scene { observed, memory, objects, now } = scene;
    let mut told = Map::new();
    let decided = decide(observed, memory, *now);
    told.insert("decision".into(), decision(&decided, scene).into());
    if decided != Decision::Report {
        return Value::Object(told);
    }
    if let Some(until) = memory.silent_until(observed, *now) {
        told.insert("silent".into(), after(*now, until).into());
        return Value::Object(told);
    }
    if observed.deployment.metadata.deletion_timestamp.is_some() {
        return Value::Object(told);
    }
    let report = status(observed, &observed.status, memory, objects, *now);
    let reported = Observed { status: report.status.clone(), ..observed.clone() };
    told.insert("next".into(), next(&reported, memory, *now).map_or("news".into(), |next| after(*now, next)).into());
    told.insert("settled".into(), report.is_settled.into());
    told.insert("status".into(), status_told(&report.status, observed.deployment.metadata.generation, *now));
    Value::Object(told)
}

fn decision(decision: &Decision, scene: &Scene) -> String {
    match decision {
        Decision::Report => "Report".to_owned(),
        Decision::CreateBundle { name, hash } => format!("CreateBundle {name} of {hash}"),
        Decision::Resume(release) => format!("Resume {}", world::name(release)),
        Decision::Install { release, why } => {
            format!("Install {} ({why:?}{})", world::name(release), circumstances(scene, release, *why))
        }
        Decision::Repair { release, objects } => {
            let names: Vec<&str> = objects.iter().map(|key| key.name.as_str()).collect();
            format!("Repair {}: {}", world::name(release), names.join(", "))
        }
        Decision::Discover(release) => format!("Discover {}", world::name(release)),
        Decision::Remove => "Remove".to_owned(),
        Decision::LetGo => "LetGo".to_owned(),
        Decision::Prune(release) => format!("Prune {}", world::name(release)),
    }
}

/// What else decides about the objects: what the way back leads from, and whether clients trust what is to be served next.
fn circumstances(scene: &Scene, release: &Release, why: Why) -> String {
    let Scene { observed, memory, .. } = scene;
    match (why, memory.release_before(observed, release, why)) {
        (Why::WayBack, Some(begun)) => format!(" from {}", world::name(&begun)),
        (Why::Renewal, _) if memory.has_published(observed, release) => ", authorities published".to_owned(),
        _ => String::new(),
    }
}

/// `in 1m`, `now` for what is past.
fn after(now: Timestamp, then: Timestamp) -> String {
    if then == Timestamp::MAX {
        return "never".to_owned();
    }
    match Duration::try_from(then.duration_since(now)) {
        Ok(wait) if !wait.is_zero() => format!("in {}", short(wait)),
        _ => "now".to_owned(),
    }
}

fn short(wait: Duration) -> String {
    let millis = wait.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let whole = units.into_iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit));
    whole.map_or_else(
        || if millis > 1000 { format!("{}s", wait.as_secs_f64()) } else { format!("{millis}ms") },
        |(unit, name)| format!("{}{name}", millis / unit),
    )
}

fn status_told(status: &BundleDeploymentStatus, generation: Option<i64>, now: Timestamp) -> Value {
    let conditions: Map<String, Value> =
        status.conditions.iter().map(|told| (told.type_.clone(), condition(told, generation).into())).collect();
    let mut told = Map::new();
    told.insert("conditions".into(), conditions.into());
    told.insert("observedGeneration".into(), json!(status.observed_generation));
    if let Some(active) = &status.active_bundle {
        told.insert("activeBundle".into(), json!(active));
    }
    if let Some(inventory) = &status.inventory {
        told.insert("inventory".into(), inventory_told(inventory, now));
    }
    if !status.history.is_empty() {
        let lines: Vec<String> = status.history.iter().map(|known| revision(known, now)).collect();
        told.insert("history".into(), json!(lines));
    }
    if let Some(handled) = &status.last_handled_reconcile_at {
        told.insert("lastHandledReconcileAt".into(), json!(handled));
    }
    Value::Object(told)
}

/// `False UpgradeFailed: why`; with the generation that it was set for, where that is not the present one.
fn condition(told: &Condition, generation: Option<i64>) -> String {
    let Condition { status, reason, message, observed_generation, .. } = told;
    let old = match observed_generation {
        Some(_) if *observed_generation == generation => String::new(),
        Some(of) => format!(" (of generation {of})"),
        None => " (of no generation)".to_owned(),
    };
    format!("{status:?} {reason}{old}: {message}")
}

fn inventory_told(inventory: &Inventory, now: Timestamp) -> Value {
    let mut told = Map::new();
    if let Some(installed) = Release::installed(inventory) {
        told.insert("installed".into(), world::name(&installed).into());
    }
    if let Some(objects) = inventory.objects {
        told.insert("objects".into(), objects.into());
    }
    if let Some(pending) = &inventory.pending {
        let release = Release::read(&pending.release).map(|release| world::name(&release)).unwrap_or_default();
        told.insert("pending".into(), format!("{release} {}", ago(now, pending.since)).into());
    }
    if let Some(due) = inventory.certificates_renewal {
        told.insert("renewal".into(), after(now, due).into());
    }
    let released: Vec<String> =
        inventory.released.iter().map(|one| format!("{} {}: {}", one.kind, one.name, one.reason)).collect();
    let contested: Vec<String> = inventory
        .contested
        .iter()
        .map(|one| format!("{} {} {}", one.name, one.path.join(".").replace("f:", ""), one.manager))
        .collect();
    let unlisted: Vec<String> = inventory.unlisted.iter().map(|kind| kind.kind.clone()).collect();
    let missing: Vec<String> = inventory
        .missing
        .iter()
        .map(|one| format!("{} {}{}", one.kind, one.name, if one.optional { " (optional)" } else { "" }))
        .collect();
    let paused = inventory.paused.iter().map(|one| one.name.clone()).collect();
    let all = [
        ("released", released),
        ("contested", contested),
        ("unlisted", unlisted),
        ("missing", missing),
        ("paused", paused),
    ];
    for (key, lines) in all {
        if !lines.is_empty() {
            told.insert(key.into(), json!(lines));
        }
    }
    Value::Object(told)
}

/// `2 v2 Failed -5m: why`; with `unpinned` if it could not be fetched again.
fn revision(known: &Revision, now: Timestamp) -> String {
    let release = Release::read(&known.release).map(|release| world::name(&release)).unwrap_or_default();
    let pin = if known.pin.is_some() { "" } else { " unpinned" };
    let message = if known.message.is_empty() { String::new() } else { format!(": {}", known.message) };
    format!("{} {release} {:?} {}{pin}{message}", known.revision, known.result, ago(now, known.time))
}

fn ago(now: Timestamp, then: Timestamp) -> String {
    match Duration::try_from(now.duration_since(then)) {
        Ok(wait) if wait.is_zero() => "0s".to_owned(),
        Ok(wait) => format!("-{}", short(wait)),
        Err(_) => after(now, then),
    }
}
