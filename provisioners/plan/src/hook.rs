//! Hooks of a chart: which are run for a release, in which order, what is done about one next, and how it ended. What Helm 3 does is
//! the rule.
//!
//! The object of a hook is ours by its owner reference. It lacks the label by which lists and watches find objects, because it is no
//! part of the release: it is neither repaired nor pruned. Its annotation names the run that it was made for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::{HookRun, Pending, names};
use rukpak_plain::{Object, ObjectKey};
use serde_json::{Value, json};

use crate::Owner;
use crate::kind::{MissingKind, is_job};
use crate::missing::{Missing, Need};
use crate::observed::Observed;
use crate::owner_metadata::OwnerMetadata;
use crate::prune::{Guard, guard};
use crate::record;
use crate::resolve::{Live, Why};
use crate::step::{DeclaredTwice, Served, Step, step};

/// The annotation that makes an object of a chart a hook, with its events.
pub const HOOK: &str = "helm.sh/hook";
const WEIGHT: &str = "helm.sh/hook-weight";
const DELETE_POLICY: &str = "helm.sh/hook-delete-policy";

/// A hook may take so long where the deployment has no deadline: as long as Helm waits.
const PATIENCE: Duration = Duration::from_mins(5);

/// When a hook is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Before a first release is written.
    PreInstall,
    /// Before a release is written in place of another.
    PreUpgrade,
    /// When the objects of a first release are applied.
    PostInstall,
    /// When the objects of a release are applied in place of another.
    PostUpgrade,
}

impl Event {
    /// All events that are known here.
    pub const ALL: [Self; 4] = [Self::PreInstall, Self::PreUpgrade, Self::PostInstall, Self::PostUpgrade];

    /// The events of an installation. What comes back, or is applied again, has none.
    pub fn of(why: Why) -> &'static [Self] {
        match why {
            Why::First => &[Self::PreInstall, Self::PostInstall],
            Why::Upgrade => &[Self::PreUpgrade, Self::PostUpgrade],
            Why::Rollback | Why::WayBack | Why::Resync | Why::Renewal | Why::Repair => &[],
        }
    }

    /// The event that charts call so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Whether it comes before the first object is written.
    pub fn is_before(self) -> bool {
        matches!(self, Self::PreInstall | Self::PreUpgrade)
    }

    fn name(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostInstall => "post-install",
            Self::PostUpgrade => "post-upgrade",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The names of the events that an object is a hook for, as Helm reads them; `None` if it is no hook.
pub fn names_of_events(object: &Object) -> Option<Vec<String>> {
    let hook = object.annotation(HOOK)?;
    Some(hook.split(',').map(|event| event.trim().to_ascii_lowercase()).collect())
}

/// A hook at one event.
#[derive(Clone, Debug)]
pub struct Hook {
    /// When it is run.
    pub event: Event,
    /// Its object.
    pub step: Step,
    /// Whether the object goes when all hooks of the event have succeeded.
    pub goes_when_succeeded: bool,
    /// Whether the object goes when the hook has failed.
    pub goes_when_failed: bool,
    weight: i64,
}

/// In words: `pre-install hook Job "a" in namespace "b"`.
impl fmt::Display for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} hook {}", self.event, self.step.identity)
    }
}

/// What is done about a hook next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its object is created.
    Create,
    /// The object of an earlier run is deleted.
    Replace,
    /// It runs, or the object of an earlier run is being deleted.
    Wait,
    /// Nothing: it is over.
    Over,
    /// It has failed, and why.
    Failed(String),
}

/// How the object of a hook stands.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Running,
    Succeeded,
    Failed(String),
}

/// The kinds that have to be asked for, as apiVersion and kind.
pub fn kinds(objects: &[Object]) -> BTreeSet<(String, String)> {
    objects.iter().map(|object| (object.api_version().to_owned(), object.kind().to_owned())).collect()
}

/// The hooks among `objects` that are run at these events, in their order; and those whose kind nobody serves.
pub fn plan(objects: &[Object], events: &[Event], served: &Served, stamp: &OwnerMetadata) -> (Vec<Hook>, Vec<Missing>) {
    let (mut hooks, mut missing) = (Vec::new(), Vec::new());
    for object in objects {
        let named: BTreeSet<Event> =
            names_of_events(object).into_iter().flatten().filter_map(|name| Event::named(&name)).collect();
        let run_at: Vec<Event> = events.iter().copied().filter(|event| named.contains(event)).collect();
        if run_at.is_empty() {
            continue;
        }

        let (api_version, kind) = (object.api_version().to_owned(), object.kind().to_owned());
        let found = served.get(&(api_version.clone(), kind.clone())).and_then(Option::as_ref);
        let Some(found) = found.filter(|found| found.resource.api_version == api_version) else {
            let kind = MissingKind { api_version, kind };
            missing.push(Missing { kind, need: Need::Object(object.key()), served: found.cloned() });
            continue;
        };
        let step = unlabelled(&step(stamp, object.clone(), found, false));
        let policies = object.annotation(DELETE_POLICY).unwrap_or_default();
        let goes = |when: &str| {
            let is_asked = policies.split(',').any(|policy| policy.trim().eq_ignore_ascii_case(when));
            is_asked && guard(&step.key.group, &step.key.kind) == Guard::None
        };
        let hook = Hook {
            event: Event::PreInstall,
            goes_when_succeeded: goes("hook-succeeded"),
            goes_when_failed: goes("hook-failed"),
            // Helm takes what is no number for none.
            weight: object.annotation(WEIGHT).and_then(|weight| weight.parse().ok()).unwrap_or_default(),
            step,
        };
        hooks.extend(run_at.into_iter().map(|event| Hook { event, ..hook.clone() }));
    }
    hooks.sort_by_cached_key(|hook| (hook.event, hook.weight, hook.step.phase, hook.step.key.clone()));
    (hooks, missing)
}

/// Takes off the label by which objects of a release are found.
fn unlabelled(step: &Step) -> Step {
    let mut body = step.body();
    if let Some(labels) = body.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(names::OWNER_KIND);
    }
    step.with_body(&body)
}

/// Looks whether each hook is one object of its own.
///
/// # Errors
/// One is declared twice for an event, or is an object of the release as well.
pub fn check(hooks: &[Hook], steps: &BTreeMap<ObjectKey, Step>) -> Result<(), DeclaredTwice> {
    let mut seen: BTreeMap<(Event, &ObjectKey), &Step> = BTreeMap::new();
    for Hook { event, step, .. } in hooks {
        let before = seen.insert((*event, &step.key), step);
        if let Some(first) = before.or_else(|| steps.get(&step.key)) {
            let (object, first, second) = (step.identity.to_string(), first.origin.clone(), step.origin.clone());
            return Err(DeclaredTwice { object, first, second });
        }
    }
    Ok(())
}

/// How long a hook may take.
pub fn limit(observed: &Observed) -> Duration {
    observed.progress_deadline().unwrap_or(PATIENCE)
}

impl Hook {
    /// What the status calls it.
    pub fn id(&self) -> String {
        format!("{} {}", self.event, self.step.key)
    }

    /// What the status says of it.
    pub fn known<'a>(&self, pending: &'a Pending) -> Option<&'a HookRun> {
        let id = self.id();
        pending.hooks.iter().find(|known| known.hook == id)
    }

    /// The run that its object is made for: this event of this installation.
    pub fn run(&self, deployment: &str, pending: &Pending) -> String {
        format!("{} {} {}", self.event, record::name(deployment, &pending.release), pending.since)
    }

    /// Returns what is created for a run.
    pub fn made_for(&self, run: &str) -> Step {
        let mut body = self.step.body();
        body["metadata"]["annotations"][names::HOOK_RUN] = json!(run);
        self.step.with_body(&body)
    }

    /// What is done next about the hook in a `run` of which the status says `known`, where `live` is in the cluster.
    pub fn next(&self, us: &Owner, run: &str, known: Option<&HookRun>, live: Option<Live<'_>>) -> Next {
        let result = known.map(|known| known.succeeded);
        let Some(Live { metadata, body }) = live else {
            // Helm takes what is gone for done: some Jobs live for a second when they are over.
            return if result == Some(None) { Next::Over } else { Next::Create };
        };
        if !is_ours(us, metadata) {
            return Next::Create;
        }

        let has_failed = result == Some(Some(false)) && metadata.uid == known.map(|known| known.uid.clone());
        if is_of_run(us, metadata, run) && !has_failed {
            if metadata.deletion_timestamp.is_some() {
                return Next::Wait;
            }
            return match state(&self.step.key, body) {
                State::Running => Next::Wait,
                State::Succeeded => Next::Over,
                State::Failed(why) => Next::Failed(why),
            };
        }
        match guard(&self.step.key.group, &self.step.key.kind) {
            Guard::None if metadata.deletion_timestamp.is_some() => Next::Wait,
            Guard::None => Next::Replace,
            // What hangs on it would go with it.
            Guard::Instances | Guard::Contents | Guard::Data => Next::Over,
        }
    }
}

/// Whether the object of a hook is ours. One that outlives us has an annotation in place of the owner reference.
pub fn is_ours(us: &Owner, metadata: &ObjectMeta) -> bool {
    us.is_controller(metadata) || us.is_kept(metadata)
}

/// Whether the object was made for this run.
pub fn is_of_run(us: &Owner, metadata: &ObjectMeta, run: &str) -> bool {
    let made_for = metadata.annotations.as_ref().and_then(|all| all.get(names::HOOK_RUN));
    is_ours(us, metadata) && made_for.is_some_and(|made_for| made_for == run)
}

/// Whether the wait for the object with this UID has an end.
pub fn is_over(key: &ObjectKey, uid: Option<&String>, live: Live<'_>) -> bool {
    let is_another = live.metadata.uid.as_ref() != uid;
    is_another || (live.metadata.deletion_timestamp.is_none() && state(key, live.body) != State::Running)
}

/// Only Jobs and Pods run.
fn state(key: &ObjectKey, body: &Value) -> State {
    let why = |said: &Value| {
        let text = |field: &str| said[field].as_str().filter(|text| !text.is_empty());
        let parts: Vec<&str> = [text("reason"), text("message")].into_iter().flatten().collect();
        if parts.is_empty() { "it does not say why".to_owned() } else { parts.join(": ") }
    };
    if is_job(key) {
        let conditions = body.pointer("/status/conditions").and_then(Value::as_array);
        let find = |type_: &str| {
            conditions.into_iter().flatten().find(|said| said["type"] == type_ && said["status"] == "True")
        };
        return match (find("Complete"), find("Failed")) {
            (Some(_), _) => State::Succeeded,
            (None, Some(failed)) => State::Failed(why(failed)),
            (None, None) => State::Running,
        };
    }
    if !key.group.is_empty() || key.kind != "Pod" {
        return State::Succeeded;
    }
    match body.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") => State::Succeeded,
        Some("Failed") => State::Failed(why(&body["status"])),
        _ => State::Running,
    }
}

#[cfg(test)]
mod tests;
