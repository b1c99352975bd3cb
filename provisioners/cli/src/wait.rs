//! Waiting for a BundleDeployment by watching it, and what its status says of how far it is.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use rukpak_crds::condition::{self, Condition, ConditionStatus, Conditions as _};
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus};

use crate::cluster::{self, Cluster};
use crate::failure::Failure;
use crate::live::Live;
use crate::output::chain;

/// How often a terminal sees that time passes.
const TICK: Duration = Duration::from_secs(1);

/// How far a BundleDeployment is, as kstatus reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// What is asked for is installed and healthy.
    Ready,
    /// Work goes on, or something is waited for.
    Working(String),
    /// It stays as it is until somebody changes something.
    Stalled { reason: String, message: String },
}

/// What to do after a look at the object.
#[derive(Debug)]
pub enum Step {
    Done,
    /// Not yet; what it waits for.
    Wait(String),
    /// It will not be as wanted.
    Give(Failure),
}

#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    pub name: &'a str,
    pub timeout: Duration,
    /// What it should become, as the end of "is not ...".
    pub goal: &'a str,
    /// What goes on in the cluster when this program ends.
    pub goes_on: &'a str,
}

impl Progress {
    /// What the status says of `generation` or a later one.
    pub fn of(deployment: &BundleDeployment, generation: Option<i64>) -> Self {
        let default = BundleDeploymentStatus::default();
        let status = deployment.status.as_ref().unwrap_or(&default);
        if !is_seen(status, generation) {
            return Self::Working(format!(
                "waiting for a controller of class {:?} to look at it",
                deployment.spec.provisioner_class_name
            ));
        }
        // An upload that was lost is what this program has just sent again.
        let is_given_up = |found: &&Condition| {
            found.status == ConditionStatus::True && found.reason != condition::reason::UNPACK_PENDING
        };
        if let Some(Condition { reason, message, .. }) = status.conditions.find(condition::STALLED).filter(is_given_up)
        {
            return Self::Stalled { reason: reason.clone(), message: message.clone() };
        }
        match status.conditions.find(condition::READY) {
            Some(ready) if ready.status == ConditionStatus::True => Self::Ready,
            Some(ready) => Self::Working(format!("{}: {}", ready.reason, ready.message)),
            // RukPak v0.16 has no such condition.
            None => Self::Working("waiting for the condition Ready".to_owned()),
        }
    }
}

/// Whether a controller has looked at `generation` or a later one. In the middle of its work, which may take hours, only the condition
/// says so.
pub fn is_seen(status: &BundleDeploymentStatus, generation: Option<i64>) -> bool {
    let ready = status.conditions.find(condition::READY).and_then(|ready| ready.observed_generation);
    let seen = status.observed_generation.max(ready);
    seen.is_some() && seen >= generation
}

/// Watches a BundleDeployment until `step` says that it is done. Returns it as it was then, `None` if it is gone.
///
/// A wait that is over, or interrupted by Ctrl-C, is [`crate::exit::Exit::Unknown`].
pub async fn watch(
    cluster: &Cluster,
    wait: &Wait<'_>,
    mut step: impl FnMut(Option<&BundleDeployment>) -> Step,
) -> Result<Option<BundleDeployment>, Failure> {
    let mut live = Live::start();
    let mut changes = pin!(cluster.watch_deployment(wait.name));
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let mut end = pin!(tokio::time::sleep(wait.timeout));
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(Ok(found)) => match step(found.as_ref()) {
                    Step::Done => return Ok(found),
                    Step::Wait(what) => live.tell(&what),
                    Step::Give(failure) => return Err(failure),
                },
                Some(Err(error @ cluster::Error::Refused(_))) => return Err(error.into()),
                // The watch begins again by itself.
                Some(Err(error)) => live.tell(&chain(&error)),
                None => return Err(Failure::unknown(format!("the watch of bundledeployment {:?} ended", wait.name))),
            },
            _ = tick.tick(), if live.is_terminal() => live.tick(),
            () = &mut end => return Err(wait.late(live.last())),
            pressed = &mut interrupt => return Err(wait.interrupted(&pressed)),
        }
    }
}

/// Waits until generation `generation` of a BundleDeployment is installed and healthy. A status as of the resource version
/// `stale` is no answer: it is older than what was done last.
pub async fn until_ready(
    cluster: &Cluster,
    wait: &Wait<'_>,
    generation: Option<i64>,
    stale: Option<&str>,
) -> Result<BundleDeployment, Failure> {
    let name = wait.name;
    let found = watch(cluster, wait, |found| {
        let Some(found) = found else {
            return Step::Give(Failure::no(format!("bundledeployment {name:?} was deleted meanwhile")));
        };
        let is_stale = stale.is_some() && found.metadata.resource_version.as_deref() == stale;
        match Progress::of(found, generation) {
            Progress::Ready => Step::Done,
            Progress::Stalled { reason, message } if !is_stale => Step::Give(wait.stalled(&reason, &message)),
            Progress::Stalled { reason, message } => Step::Wait(format!("{reason}: {message}")),
            Progress::Working(line) => Step::Wait(line),
        }
    });
    found.await?.ok_or_else(|| Failure::no_deployment(name))
}

impl Wait<'_> {
    fn stalled(&self, reason: &str, message: &str) -> Failure {
        let verb = if reason == "Suspended" { "resume" } else { "status" };
        Failure::no(format!("bundledeployment {:?} is not {}: {reason}: {message}", self.name, self.goal))
            .hint(format!("rukpakctl {verb} {}", self.name))
    }

    fn late(&self, last: Option<&str>) -> Failure {
        let seconds = self.timeout.as_secs();
        let last = last.map(|last| format!(": {last}")).unwrap_or_default();
        Failure::unknown(format!("bundledeployment {:?} is not {} after {seconds} s{last}", self.name, self.goal))
            .hint(format!("rukpakctl status {}", self.name))
    }

    fn interrupted(&self, pressed: &io::Result<()>) -> Failure {
        let why = match pressed {
            Ok(()) => "interrupted".to_owned(),
            Err(error) => format!("wait for Ctrl-C: {error}"),
        };
        Failure::unknown(format!("{why}: {} in the cluster without rukpakctl", self.goes_on))
            .hint(format!("rukpakctl status {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(observed: Option<i64>, conditions: &[(&str, &str, &str, &str)]) -> BundleDeployment {
        let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| {
            json!({"type": type_, "status": status, "reason": reason, "message": message,
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump", "generation": 3},
            "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p",
                     "source": {"type": "image", "image": {"ref": "a"}}}}},
            "status": {"observedGeneration": observed, "conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_status_of_this_generation_says_how_far_it_is() {
        let ready = ("Ready", "True", "Succeeded", "1 object is installed");
        let unhealthy = ("Ready", "Unknown", "Unhealthy", "Deployment a: 0/1");
        let retried = ("Ready", "False", "PruneFailed", "forbidden");
        let stalled = ("Stalled", "True", "UnpackFailed", "no manifests");
        let of = |observed, conditions: &[_]| Progress::of(&deployment(observed, conditions), Some(3));
        assert_eq!(of(Some(3), &[ready]), Progress::Ready);
        assert_eq!(of(Some(4), &[ready]), Progress::Ready);
        let unseen = Progress::Working("waiting for a controller of class \"p\" to look at it".to_owned());
        assert_eq!(of(Some(2), &[ready]), unseen);
        assert_eq!(of(Some(2), &[stalled]), unseen);
        assert_eq!(of(None, &[]), unseen);
        assert_eq!(of(Some(3), &[unhealthy]), Progress::Working("Unhealthy: Deployment a: 0/1".to_owned()));
        assert_eq!(of(Some(3), &[retried]), Progress::Working("PruneFailed: forbidden".to_owned()));
        let (reason, message) = ("UnpackFailed".to_owned(), "no manifests".to_owned());
        assert_eq!(of(Some(3), &[unhealthy, stalled]), Progress::Stalled { reason, message });
        let mut working = deployment(Some(2), &[("Ready", "Unknown", "Progressing", "Migrating: 1 of 2")]);
        working.status.as_mut().unwrap().conditions[0].observed_generation = Some(3);
        assert_eq!(Progress::of(&working, Some(3)), Progress::Working("Progressing: Migrating: 1 of 2".to_owned()));
    }

    #[test]
    fn every_end_names_the_object_and_a_command() {
        let goes_on = "the installation of bundledeployment \"pump\" goes on";
        let wait = Wait { name: "pump", timeout: Duration::from_mins(1), goal: "installed and healthy", goes_on };
        let late = wait.late(Some("Unhealthy: a"));
        assert_eq!(late.text, "bundledeployment \"pump\" is not installed and healthy after 60 s: Unhealthy: a");
        assert_eq!(late.hint.as_deref(), Some("rukpakctl status pump"));
        let text = wait.interrupted(&Ok(())).text;
        assert_eq!(text, format!("interrupted: {goes_on} in the cluster without rukpakctl"));
        let suspended = wait.stalled("Suspended", "spec.suspend is true");
        assert_eq!(suspended.hint.as_deref(), Some("rukpakctl resume pump"));
        assert_eq!(
            suspended.text,
            "bundledeployment \"pump\" is not installed and healthy: Suspended: spec.suspend is true"
        );
    }
}
