//! Hooks of a chart, one after another: before the first object of a release is written, and after the last one is.
//!
//! While a Job or Pod among them runs, the attempt is over: a watch asks for the next one, which finds the hooks that were begun in the
//! status, or by the annotation on their objects. So nothing is held meanwhile, and who goes on after a restart runs none again.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use rukpak_crds::{HookRun, Pending};
use rukpak_plan::hook::{self, Hook, Next};
use rukpak_plan::memory::{Problem, Stage, later};
use rukpak_plan::resolve::{Basis, Live, Why};
use rukpak_plan::retry::Class;
use rukpak_plan::{Plan, Step};
use rukpak_runtime::error::Chain;

use super::apply::{self, Failed};
use super::bases::Bases;
use super::members::helm_releases;
use super::put::{self, Mode, Outcome, put};
use super::{Stopped, unapplied};
use crate::cluster::{Error, Propagation};
use crate::deployment::observe::{Run, View};

/// What is done about one hook in one attempt: the object of an earlier run goes, another is made, and is over. Some more where others
/// change it.
const STEPS: usize = 6;

/// Runs the hooks that come before the first object, or those that come after the last. Stops while one of them runs.
pub(super) async fn run_all(run: &mut Run, plan: &Plan, is_before: bool, bases: &Bases) -> Result<(), Stopped> {
    let hooks: Vec<&Hook> = plan.hooks.iter().filter(|hook| hook.event.is_before() == is_before).collect();
    if hooks.is_empty() {
        return Ok(());
    }
    for hook in &hooks {
        run_one(run, hook, bases).await?;
    }

    // Before any of them goes: who finds one gone, and does not know that it is over, runs it again.
    say(run).await?;
    for hook in hooks.into_iter().rev().filter(|hook| hook.goes_when_succeeded) {
        remove(run, hook).await;
    }
    Ok(())
}

/// Leaves out the hooks of a first release whose chart RukPak v0.16 has installed: Helm has run them.
pub(super) async fn leave_out_run(view: &View, plan: &mut Plan, why: Why) -> Result<(), Stopped> {
    if why != Why::First || plan.hooks.is_empty() {
        return Ok(());
    }
    let found = helm_releases(view, Some(1)).await;
    let found = found.map_err(|error| {
        Stopped::Failed(Problem::unanswered(format!(
            "whether Helm has run the hooks cannot be read: {}",
            Chain(&error)
        )))
    })?;
    if !found.is_empty() {
        plan.hooks.clear();
    }
    Ok(())
}

async fn run_one(run: &mut Run, hook: &Hook, bases: &Bases) -> Result<(), Stopped> {
    for _ in 0..STEPS {
        let Some(pending) = pending(run) else { return Ok(()) };
        let (id, known) = (hook.run(&run.view.owner.name, pending), hook.known(pending).cloned());
        if known.as_ref().is_some_and(|known| known.succeeded == Some(true)) {
            return Ok(());
        }

        let live = run.view.reads.reader.get(&hook.step.identity).await.map_err(|error| unanswered(hook, &error))?;
        let seen = live.as_ref().map(|live| Live { metadata: &live.metadata, body: &live.body });
        let next = hook.next(&run.view.owner, &id, known.as_ref(), seen);
        let metadata = live.map(|live| live.metadata).unwrap_or_default();
        match next {
            Next::Create => create(run, &hook.made_for(&id), hook, bases).await?,
            Next::Replace => {
                run.confirm().await?;
                let deleted = run.objects.delete(&hook.step.identity, &metadata, Propagation::Background).await;
                deleted.map_err(|error| unanswered(hook, &error))?;
            }
            Next::Wait => return Err(wait(run, hook, metadata, bases).await),
            Next::Over => {
                note(run, hook, metadata.uid.or(known.map(|known| known.uid)), Some(true));
                return Ok(());
            }
            Next::Failed(why) => return Err(fail(run, hook, metadata, &why, bases).await),
        }
    }
    let message = format!("{hook} is changed again and again by others");
    Err(Stopped::Failed(Problem::unanswered(message)))
}

/// The installation that was begun.
fn pending(run: &Run) -> Option<&Pending> {
    run.view.draft.inventory.as_ref()?.pending.as_ref()
}

async fn create(run: &mut Run, step: &Step, hook: &Hook, bases: &Bases) -> Result<(), Stopped> {
    match put(run, step, None, &Basis::plain(Why::First, None), Mode::Real).await {
        Ok(Outcome::Applied(written, _)) => {
            tracing::info!(deployment = %run.view.owner.name, %hook, "hook begun");
            note(run, hook, written.metadata.uid.clone(), None);
            Ok(())
        }
        // A Namespace or CRD of somebody else, or what says that it is left as it is.
        Ok(Outcome::Used | Outcome::Replaceable | Outcome::Paused(_)) => {
            note(run, hook, None, Some(true));
            Ok(())
        }
        Err(put::Error::Superseded) => Err(Stopped::Superseded),
        Err(error) => Err(unapplied(apply::Error::Failed(Failed(vec![error])), bases)),
    }
}

/// Ends the attempt until the hook is over, or the object of an earlier run is gone.
async fn wait(run: &mut Run, hook: &Hook, metadata: ObjectMeta, bases: &Bases) -> Stopped {
    let (limit, now) = (hook::limit(&run.view.observed), run.view.reads.now());
    let since = metadata.deletion_timestamp.as_ref().or(metadata.creation_timestamp.as_ref());
    let until = later(since.map_or(now, |since| since.0), limit);
    if until <= now {
        return fail(run, hook, metadata, &format!("it was not over after {} s", limit.as_secs()), bases).await;
    }
    follow(run, hook, metadata.uid);
    stopped(Stage::Running(until), format!("waiting until {hook} is over"), bases)
}

/// Has the deployment reconciled when the wait for the object with this UID has an end.
fn follow(run: &Run, hook: &Hook, uid: Option<String>) {
    let (context, name, identity) = (run.context.clone(), run.view.owner.name.clone(), hook.step.identity.clone());
    run.view.tracker.follow(async move {
        let (client, resource) = (context.client.clone(), &*identity.kind.resource);
        let api: Api<DynamicObject> = match &identity.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        let key = identity.key();
        let is_over = |object: &DynamicObject| {
            hook::is_over(&key, uid.as_ref(), Live { metadata: &object.metadata, body: &object.data })
        };
        let mut changes = pin!(watch_object(api, &identity.name).default_backoff());
        while let Some(change) = changes.next().await {
            match change {
                Ok(object) if object.as_ref().is_none_or(is_over) => break,
                Ok(_) => {}
                Err(error) => tracing::debug!(object = %identity, %error, "watch over a hook interrupted; resuming"),
            }
        }
        context.reads.trackers.hook_is_over(&name);
        context.deployment_queue.add(&name);
    });
}

/// Says that it has failed before its object goes.
async fn fail(run: &mut Run, hook: &Hook, metadata: ObjectMeta, why: &str, bases: &Bases) -> Stopped {
    tracing::warn!(deployment = %run.view.owner.name, %hook, why, "hook failed");
    note(run, hook, metadata.uid, Some(false));
    if let Err(stopped) = say(run).await {
        return stopped;
    }
    if hook.goes_when_failed {
        remove(run, hook).await;
    }
    stopped(Stage::Apply, format!("{hook} failed: {why}"), bases)
}

/// Deletes the object that was made for this run. One that cannot be deleted goes with the deployment at last.
async fn remove(run: &Run, hook: &Hook) {
    let Some(id) = pending(run).map(|pending| hook.run(&run.view.owner.name, pending)) else { return };
    let identity = &hook.step.identity;
    let removed = async {
        let found = run.view.reads.reader.metadata(identity).await?;
        match found.filter(|found| hook::is_of_run(&run.view.owner, found, &id)) {
            Some(found) => run.objects.delete(identity, &found, Propagation::Background).await.map(drop),
            None => Ok(()),
        }
    };
    if let Err(error) = removed.await {
        tracing::warn!(deployment = %run.view.owner.name, %hook, error = %Chain(&error), "cannot delete a hook that is over");
    }
}

/// Notes how a hook stands. The next write of the status says so.
fn note(run: &mut Run, hook: &Hook, uid: Option<String>, succeeded: Option<bool>) {
    let inventory = run.view.draft.inventory.as_mut();
    let Some(pending) = inventory.and_then(|inventory| inventory.pending.as_mut()) else { return };
    let id = hook.id();
    pending.hooks.retain(|known| known.hook != id);
    pending.hooks.push(HookRun { hook: id, uid: uid.unwrap_or_default(), succeeded });
}

/// Has the status say how the hooks stand.
async fn say(run: &mut Run) -> Result<(), Stopped> {
    let status = run.view.draft.clone();
    run.write(status).await.map(drop).map_err(Stopped::Unreported)
}

/// What is tried of a hook before the first write: nothing if it was begun, or if the object of an earlier run is there, which is never
/// changed.
pub(super) async fn trial<'a>(run: &Run, hook: &'a Hook) -> Option<&'a Step> {
    let is_begun = pending(run).is_some_and(|pending| hook.known(pending).is_some());
    if is_begun {
        return None;
    }
    let found = run.view.reads.reader.metadata(&hook.step.identity).await;
    let is_left = found.is_ok_and(|found| found.is_some_and(|found| hook::is_ours(&run.view.owner, &found)));
    (!is_left).then_some(&hook.step)
}

fn unanswered(hook: &Hook, error: &Error) -> Stopped {
    let message = format!("{hook} cannot be run: {}", Chain(error));
    if error.is_transient() || error.is_conflict() {
        return Stopped::Failed(Problem::unanswered(message));
    }
    Stopped::Failed(Problem::blocked(Stage::Apply, message))
}

/// Of one class, whether it runs or has failed: the wait for the next attempt grows with each.
fn stopped(stage: Stage, message: String, bases: &Bases) -> Stopped {
    let can_go_back = bases.installed.is_some();
    Stopped::Failed(Problem { stage, message, class: Class::Terminal, can_go_back })
}
