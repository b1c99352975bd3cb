//! Doing what was decided. Every write to the cluster for a deployment, but for its status and what follows from that, is made below
//! this folder.
//!
//! ```text
//! install   prepare -> members -> rights -> check -> (approval, operator, window) -> (intent) -> (hooks) -> migrate -> apply
//!             -> (hooks) -> prune -> Applied
//! repair    prepare -> rights -> apply again
//! resume    watches -> Applied
//! ```

mod apply;
pub(super) mod approval;
mod bases;
mod bundle;
mod check;
pub(crate) mod collect;
mod collision;
pub(super) mod health;
mod hooks;
mod manifests;
mod members;
mod migrate;
mod prepare;
mod prune;
mod put;
mod remove;
mod repair;
mod rights;

use std::collections::BTreeSet;

use bases::Bases;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use members::Members;
use prepare::{Prepared, Unprepared};
use rukpak_crds::InventoryKind;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::Applied;
use rukpak_plan::decide::Decision;
use rukpak_plan::kind::MissingKind;
use rukpak_plan::memory::{Differences, Installation, Problem, Stage};
use rukpak_plan::prune::Pruning;
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::Class;
use rukpak_plan::{Format, Plan, Release, hold};
use rukpak_runtime::error::Chain;

use super::Error;
use super::observe::{Run, Superseded, View, can_refetch};
use crate::render_memory::Purpose;

pub(super) use bundle::delete_old;
pub(super) use manifests::forget as forget_manifests;
pub(super) use members::helm_releases;
pub(super) use prune::look_at_released;
pub(super) use remove::{follow_policy, leftovers, let_go, remove};

/// Has up to `most` futures under way, each made of an item when its turn has come: one that waits is some kilobytes, and a bundle
/// may have ten thousands of objects.
fn fill<T, F: Future>(
    under_way: &mut FuturesUnordered<F>,
    most: usize,
    items: &mut impl Iterator<Item = T>,
    make: impl Fn(T) -> F,
) {
    while under_way.len() < most {
        let Some(item) = items.next() else { break };
        under_way.push(make(item));
    }
}

/// Why an installation did not end with everything applied.
pub(super) enum Stopped {
    Failed(Problem),
    /// Content has to be fetched again first.
    Refetching,
    /// The deployment was changed or deleted meanwhile: the next reconcile knows more.
    Superseded,
    /// It could not be written down what is about to be done. Nothing else was written.
    Unreported(Error),
}

impl From<Superseded> for Stopped {
    fn from(Superseded: Superseded) -> Self {
        Self::Superseded
    }
}

impl From<Superseded> for Error {
    fn from(Superseded: Superseded) -> Self {
        Self::Superseded
    }
}

/// Does what was decided. What came of it is in the run's memory afterwards.
///
/// # Errors
/// Only if the status that has to be written first cannot be written.
pub(super) async fn execute(run: &mut Run, decision: Decision) -> Result<(), Error> {
    match decision {
        // What is being deleted is not converged.
        Decision::Report | Decision::Remove | Decision::LetGo => Ok(()),
        Decision::CreateBundle { name, hash } => {
            run.view.observed.desired = bundle::create(run, &name, &hash).await;
            run.view.memory.learn_created(name, run.view.reads.now());
            Ok(())
        }
        Decision::Resume(release) => {
            repair::resume(&mut run.view, &release).await;
            Ok(())
        }
        Decision::Install { release, why } => install(run, release, why).await,
        Decision::Repair { release, objects } => {
            let has_condition = objects.iter().any(hold::is_operator_condition);
            match repair::repair(run, &release, objects).await {
                repair::Ended::Done => {}
                repair::Ended::NeedsInstall(why) => install(run, release, why).await?,
                repair::Ended::Superseded => return Err(Error::Superseded),
            }
            // After the repair, so that one change has it asked once. While the operator says no, the upgrade waits as long as before.
            if has_condition && approval::ask_operator(&run.view).await.is_ok() {
                run.view.memory.learn_condition_changed();
            }
            Ok(())
        }
        Decision::Discover(release) => discover(run, release).await,
        Decision::Prune(release) => {
            prune::again(run, &release).await?;
            Ok(())
        }
    }
}

async fn install(run: &mut Run, release: Release, why: Why) -> Result<(), Error> {
    tracing::debug!(deployment = %run.view.owner.name, content = %release.content, ?why, "installing");
    match attempt(run, &release, why).await {
        Ok(()) => {}
        Err(Stopped::Failed(problem)) => {
            // The wait for the next attempt begins now: an attempt may take longer than it.
            let release = release.rendered_in(&run.view.observed.status);
            run.view.memory.learn_failed(&run.view.observed, (release, why), problem, run.view.reads.now());
        }
        Err(Stopped::Refetching) => run.view.memory.learn_refetching(),
        Err(Stopped::Superseded) => {
            tracing::info!(deployment = %run.view.owner.name, "changed or deleted in the middle of an installation; starting over");
            return Err(Error::Superseded);
        }
        Err(Stopped::Unreported(error)) => return Err(error),
    }
    Ok(())
}

/// Installs `release`, whatever is installed now.
async fn attempt(run: &mut Run, release: &Release, why: Why) -> Result<(), Stopped> {
    if run.view.memory.is_held_by_operator(release) {
        // Days may pass: all else is looked at when there is no more objection.
        approval::hold_up(&run.view, release, why).await.map_err(Stopped::Failed)?;
    }
    check::still_missing(&mut run.view, release, why).await?;
    let Prepared { mut plan, objects, memory: _memory } = match prepare::plan(run, release, why, Purpose::Install).await
    {
        Ok(prepared) => prepared,
        Err(error) => return Err(unprepared(run, &error, release).await),
    };

    run.view.memory.declare(&run.view.owner.name, &plan);
    run.view.tracker.tracked().missing_groups = plan.missing_groups();
    check::refuse_missing(&mut run.view, &plan, why)?;
    hooks::leave_out_run(&run.view, &mut plan, why).await?;

    let mut bases = bases(run, &plan, why).await?;
    let kinds = run.view.kinds();
    let members = members::before(&run.view, &kinds, why, &plan).await;
    if run.view.observed.was_applied(release) {
        plan.leave_out_finished(|key| members.fingerprint(key, &run.view.owner).is_some());
    }
    bases.settled = members::settled(&run.view, &plan, &members, &bases);

    rights::check(run, &plan, &members).await.map_err(Stopped::Failed)?;
    let dropping = check::check(run, &plan, why, &members, &bases).await?;
    approval::ask(run, (&plan, objects.as_ref()), why, &members, &bases).await?;
    approval::hold_up(&run.view, &plan.release, why).await.map_err(Stopped::Failed)?;
    let is_resumed = run.view.observed.pending().is_some_and(|(pending, _)| pending == plan.release);

    let used: BTreeSet<InventoryKind> = kinds.into_iter().chain(plan.inventory()).collect();
    // What was listed above may have been written for a newer spec by another controller. A status write fails if there is one, and
    // who writes an object from now on changes its version.
    if !intend(run, used, &plan).await.map_err(Stopped::Unreported)? {
        run.confirm().await?;
    }
    manifests::keep(run, &plan).await;

    begin(&mut run.view, &plan);
    hooks::run_all(run, &plan, true, &bases).await?;
    migrate::migrate(run, (&plan, why), (&members, &bases), &dropping, is_resumed).await?;
    let done = apply::apply(run, &plan, why, &members, &bases).await.map_err(|error| unapplied(error, &bases))?;
    run.view.reads.dependents.ensure(&plan.kinds());
    hooks::run_all(run, &plan, false, &bases).await?;
    finish(run, &plan, members, (&bases, why), done).await
}

/// Applies everything again once a kind that was missing is served, and not before: a release may have thousands of objects.
async fn discover(run: &mut Run, release: Release) -> Result<(), Error> {
    let missing = match run.view.memory.installation() {
        Installation::Applied { applied, .. } => applied.missing().to_vec(),
        Installation::Unknown | Installation::Partial { .. } => Vec::new(),
    };
    for MissingKind { api_version, kind } in missing.iter().map(|missing| &missing.kind) {
        // Without an answer it is as it was, and is asked again.
        if let Ok(Some(_)) = run.view.reads.kinds.get(api_version, kind).await {
            return install(run, release, Why::Resync).await;
        }
    }
    run.view.memory.learn_missing(release, &missing, run.view.reads.now());
    Ok(())
}

async fn unprepared(run: &Run, error: &Unprepared, release: &Release) -> Stopped {
    if let Unprepared::Lost(why) = error
        && can_refetch(run, &release.content)
    {
        prepare::refetch(run, &release.content, why).await;
        return Stopped::Refetching;
    }
    if matches!(error, Unprepared::Lost(_)) && prepare::refetch_revision(run, &release.content).await {
        return Stopped::Refetching;
    }
    Stopped::Failed(error.problem())
}

/// What else decides about the bodies: what is installed, and what was begun in place of it.
async fn bases(run: &Run, plan: &Plan, why: Why) -> Result<Bases, Stopped> {
    let mut bases = Bases::default();
    let Some(other) = run.view.memory.release_before(&run.view.observed, &plan.release, why) else {
        return Ok(bases);
    };
    let prepared = prepare::plan(run, &other, Why::Resync, Purpose::Basis).await.map(|prepared| {
        bases.memory = prepared.memory;
        prepared.plan
    });
    match (prepared, why) {
        (Ok(plan), Why::WayBack) => bases.begun = Some(plan),
        // Nothing tells what the failed release said.
        (Err(_), Why::WayBack) => {}
        (Ok(plan), _) => bases.installed = Some(plan),
        (Err(Unprepared::Lost(why)), _) if can_refetch(run, &other.content) => {
            prepare::refetch(run, &other.content, &why).await;
            return Err(Stopped::Refetching);
        }
        (Err(error), _) if error.is_temporary() => {
            return Err(Stopped::Failed(Problem { stage: Stage::Ask, ..error.problem() }));
        }
        (Err(error), _) => {
            tracing::warn!(deployment = %run.view.owner.name, error = %Chain(&error),
                "cannot load the installed content: this upgrade cannot be rolled back");
        }
    }
    Ok(bases)
}

/// Writes ahead: the kinds that will be used, and what is about to be installed in place of what is. Returns whether that was news.
async fn intend(run: &mut Run, kinds: BTreeSet<InventoryKind>, plan: &Plan) -> Result<bool, Error> {
    let mut status = run.view.draft.clone();
    let inventory = status.inventory.get_or_insert_default();
    inventory.kinds = kinds.into_iter().collect();
    let since = run.view.reads.now();
    // What is begun there goes on there, even if this is never applied whole.
    if inventory.namespace.is_none() {
        inventory.namespace.clone_from(&plan.namespace);
    }
    plan.release.begin_in(inventory, Timestamp::from_second(since.as_second()).unwrap_or(since));
    run.write(status).await
}

fn begin(view: &mut View, plan: &Plan) {
    view.memory.learn_begun(&view.observed, plan);
    let mut tracked = view.tracker.tracked();
    tracked.drifted.clear();
    tracked.declined.clear();
}

/// Everything is applied: what is in no release any more goes.
async fn finish(
    run: &mut Run,
    plan: &Plan,
    members: Members,
    (bases, why): (&Bases, Why),
    done: apply::Done,
) -> Result<(), Stopped> {
    run.view.tracker.tracked().objects.retain(|key, _| plan.steps.contains_key(key));
    let unlisted = members.unlisted.clone();
    let declared = plan.declared(&run.view.reads.settings.system_namespace);
    let pruning = prune::prune(run, members, bases, &declared, why).await?;
    note_taken_back(&mut run.view, plan);
    forget_kinds(&mut run.view, plan, &unlisted, &pruning);
    let used: Vec<String> = done.used.iter().map(used_name).collect();
    let renderer = run.view.renderer_using(&plan.release, &used);
    let applied = Applied::by(plan, &renderer, &run.view.tracker.tracked().objects, |key| done.is_left(key));
    for (key, set) in &done.own {
        run.view.memory.learn_own(key, set);
    }
    match applied {
        Some(applied) => {
            run.view.reads.trackers.unblock(&run.view.owner.name);
            // The end of what is used is drift.
            for key in &done.used {
                run.view.reads.trackers.block(&run.view.owner.name, key);
            }
            let differences = Differences {
                used,
                kept: done.kept,
                paused: done.paused,
                policy: run.view.observed.deployment.spec.deletion_policy.unwrap_or_default(),
                account: run.view.observed.deployment.spec.service_account.clone().map(Box::new),
                ignored: run.view.observed.deployment.spec.ignore_differences.clone(),
                proxy: run.view.observed.proxy.clone().filter(|_| plan.release.format == Format::Registry),
            };
            run.view.memory.learn_applied(applied, pruning, differences, run.view.reads.now());
            Ok(())
        }
        // Every write was answered; this would be a mistake of this program, and must not be reported as installed.
        None => Err(Stopped::Failed(Problem {
            stage: Stage::Apply,
            message: "not every object was applied".to_owned(),
            class: Class::Transient,
            can_go_back: bases.installed.is_some(),
        })),
    }
}

/// How a Namespace or CRD of somebody else is told of.
fn used_name(key: &ObjectKey) -> String {
    format!("{} {:?}", key.kind, key.name)
}

/// What the release has taken back is not left in the cluster unowned.
fn note_taken_back(view: &mut View, plan: &Plan) {
    let is_back = |object: &rukpak_crds::ReleasedObject| {
        plan.steps.keys().any(|key| {
            (key.group.as_str(), key.kind.as_str(), key.name.as_str())
                == (object.group.as_str(), object.kind.as_str(), object.name.as_str())
                && key.namespace.as_deref().unwrap_or_default() == object.namespace
        })
    };
    view.memory.forget_released(is_back);
    if let Some(inventory) = &mut view.draft.inventory {
        inventory.released.retain(|object| !is_back(object));
    }
}

/// Kinds of which nothing is left are not asked for again. What is declared and could not be planned is left.
fn forget_kinds(view: &mut View, plan: &Plan, unlisted: &[InventoryKind], pruning: &Pruning) {
    if *pruning != Pruning::Done {
        return;
    }
    let used = plan.inventory();
    let is_missing = |kind: &InventoryKind| {
        plan.missing.iter().any(|missing| missing.kind.group() == kind.group && missing.kind.kind == kind.kind)
    };
    if let Some(inventory) = &mut view.draft.inventory {
        inventory.kinds.retain(|kind| used.contains(kind) || unlisted.contains(kind) || is_missing(kind));
    }
}

/// Returns what ended the installation where its objects could not be applied.
fn unapplied(error: apply::Error, bases: &Bases) -> Stopped {
    match error {
        apply::Error::Superseded => Stopped::Superseded,
        apply::Error::Failed(failed) => {
            let mut message = failed.message();
            if failed.is_not_found() {
                message.insert_str(0, "required resource not found: ");
                message.push_str(&failed.hint());
            }
            Stopped::Failed(Problem {
                stage: if failed.is_not_found() { Stage::Missing } else { Stage::Apply },
                message,
                class: failed.class(),
                can_go_back: bases.installed.is_some(),
            })
        }
    }
}
