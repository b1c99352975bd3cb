//! Putting drifted objects back, without fighting over fields that somebody insists on.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::StreamExt;
use rukpak_crds::names::{self, FIELD_MANAGER};
use rukpak_plain::ObjectKey;
use rukpak_plan::drift::Drift;
use rukpak_plan::{Phase, fields};

use super::Pass;
use super::apply::{Failed, note, put_once_served, served};
use super::plan::{Plan, Step};
use super::put::{self, Outcome, keep_scale, keep_stored};
use crate::cluster::Written;

const PARALLEL: usize = 16;

/// Whether any suspect really drifted. Those that did not are no suspects any more.
pub(crate) fn any(pass: &Pass) -> bool {
    let suspects: Vec<ObjectKey> = pass.installation.state().suspects.iter().cloned().collect();
    let cleared: Vec<ObjectKey> = suspects.into_iter().filter(|key| !is_real(pass, key)).collect();
    let mut state = pass.installation.state();
    state.suspects.retain(|key| !cleared.contains(key));
    !state.suspects.is_empty()
}

/// Repairs every suspect, in the order of applying: a namespace may have gone with all that was in it.
pub(crate) async fn repair(pass: &Pass, plan: &Plan) -> Result<(), Failed> {
    let mut suspects: BTreeSet<ObjectKey> = std::mem::take(&mut pass.installation.state().suspects);
    for phase in Phase::ALL {
        let drifted: Vec<&Step> = plan.phase(phase).filter(|step| suspects.remove(&step.key)).collect();
        if let Err(failed) = repair_phase(pass, &drifted).await {
            let mut state = pass.installation.state();
            state.suspects.append(&mut suspects);
            // Something that is not ours, and that no watch shows, went with it: all has to be applied.
            state.complete &= !failed.is_not_found();
            return Err(failed);
        }
        if phase == Phase::Definitions && !drifted.is_empty() {
            served(pass, &drifted).await;
        }
    }
    Ok(())
}

async fn repair_phase(pass: &Pass, drifted: &[&Step]) -> Result<(), Failed> {
    let repairs: Vec<_> = drifted.iter().map(|step| async move { (step.key.clone(), one(pass, step).await) }).collect();
    let results = futures::stream::iter(repairs).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    let mut failed = Vec::new();
    for (key, result) in results {
        if let Err(error) = result {
            // Still a suspect: the next pass looks at it again.
            pass.installation.state().suspects.insert(key);
            failed.push(error);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failed(failed)) }
}

/// Whether what a watch saw last still differs from what was applied last.
fn is_real(pass: &Pass, key: &ObjectKey) -> bool {
    let state = pass.installation.state();
    let Some(applied) = state.objects.get(key) else { return false };
    let observed = pass.context.dependents.get(key);
    observed.is_none_or(|observed| observed.owner != pass.owner || applied.mark.drift(&observed.mark) != Drift::None)
}

async fn one(pass: &Pass, step: &Step) -> Result<(), put::Error> {
    let refused = |source| put::Error::Refused { what: step.identity.to_string(), origin: step.origin.clone(), source };
    let live = pass.context.cluster.writer.get(&step.identity).await.map_err(refused)?;
    let uid = live.as_ref().and_then(|live| live.metadata.uid.clone());
    let known = pass.installation.state().objects.get(&step.key).map(|applied| applied.mark.uid.clone());
    // The same object, whatever marks it lost; another one of that name has to show whose it is.
    let uid = uid.filter(|uid| Some(uid) == known.as_ref());
    let step = live.as_ref().map_or_else(|| step.clone(), |live| contested(pass, step, live));
    match put_once_served(pass, &step, uid.as_deref()).await? {
        Outcome::Applied(written) => {
            tracing::info!(deployment = %pass.owner.name, object = %step.identity, "drift repaired");
            remember(pass, &step, &written);
            note(pass, &step, &written);
        }
        Outcome::Used => {}
    }
    Ok(())
}

/// The step without the fields that are left to others, and with the replicas that were scaled to.
fn contested(pass: &Pass, step: &Step, live: &Written) -> Step {
    let (step, _) = keep_stored(step, live);
    let mut step = keep_scale(&step, live, None);
    let mut state = pass.installation.state();
    let contest = state.contests.entry(step.key.clone()).or_default();
    if let Some(set) = &contest.set {
        let mut taken = fields::taken(set, &live.metadata, FIELD_MANAGER);
        taken.retain(|field| field.subresource.is_empty() && !is_mark(&field.path));
        for field in contest.count(taken, Instant::now()) {
            tracing::warn!(deployment = %pass.owner.name, object = %step.identity, field = %field.words(),
                manager = %field.manager, "retaken again and again; left to that manager");
        }
    }
    for field in &contest.yielded {
        fields::remove(&mut step.body, &field.path);
    }
    step
}

/// Whether the path leads to what shows whose the object is: that is never left to others, or pruning would forget it.
fn is_mark(path: &[String]) -> bool {
    let [metadata, field, rest @ ..] = path else { return false };
    metadata == "f:metadata"
        && match field.as_str() {
            "f:ownerReferences" => true,
            "f:labels" | "f:annotations" => rest.iter().any(|key| {
                [names::OWNER_KIND, names::OWNER_NAME, names::OWNER_UID]
                    .iter()
                    .any(|name| key.strip_prefix("f:") == Some(name))
            }),
            _ => false,
        }
}

fn remember(pass: &Pass, step: &Step, written: &Written) {
    let set = fields::applied(&written.metadata, FIELD_MANAGER).cloned();
    pass.installation.state().contests.entry(step.key.clone()).or_default().set = set;
}

/// Everything that is left to others, in words.
pub(crate) fn yielded(pass: &Pass) -> Vec<String> {
    let state = pass.installation.state();
    state
        .contests
        .iter()
        .flat_map(|(key, contest)| {
            contest.yielded.iter().map(move |field| {
                format!("{key}: {} is left to {:?}, which keeps changing it", field.words(), field.manager)
            })
        })
        .collect()
}
