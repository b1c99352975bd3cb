//! What is given of a Bundle, and what comes of its reconciles. The code of the reconciler decides, reports and says which
//! Events there are; what it would execute is given.

use std::iter;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rukpak_crds::{Bundle, BundleStatus, Condition, validate};
use rukpak_trust::Verdict;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::decide::{Decision, Observed, decide, next};
use super::super::failure::Failure;
use super::super::pin::Pinned;
use super::super::report::{self, Report};
use super::super::seal::Kept;
use super::super::{events, verify};
use super::{Error, words};

/// A reconcile: what it begins with, and what its attempt comes to. Without an attempt, it is still under way.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the notation")]
struct Step {
    /// How much later it is.
    wait: Option<String>,
    /// The process ended before, and nothing is remembered.
    is_restarted: bool,
    /// What it waited for has come: an upload, a ConfigMap, a policy.
    is_woken: bool,
    /// Of the provisioner.
    class: Option<String>,
    /// The type of the source. After the first reconcile: somebody changed the spec by force.
    source: Option<String>,
    /// A BundleDeployment made it.
    is_generated: bool,
    is_deleted: bool,
    finalizers: Option<Vec<String>>,
    /// It is older than the last status that was written.
    is_stale: bool,
    /// The version that an earlier Bundle of the same template resolved to.
    remembered: Option<String>,
    /// The policies ask for a signature of it.
    asks_signature: bool,
    /// Its content is not in the store.
    is_lost: bool,
    /// What is said meanwhile: `Waiting`, `Unpacking`; `Received`, by the content service.
    begun: Option<String>,
    /// What the policies say, see [`words::verdict`].
    verdict: Option<String>,
    /// What is left of the wait for the next search for a signature.
    search_left: Option<String>,
    /// What the attempt comes to, see [`words::attempt`].
    attempt: Option<String>,
}

/// What an attempt comes to.
type Outcome = Result<Pinned, Failure>;

/// A Bundle, and what the process remembers of it.
struct Scene {
    bundle: Bundle,
    /// The Bundle as it was when the reconcile began.
    observed: Bundle,
    now: Timestamp,
    failures: u32,
    not_before: Option<Timestamp>,
    /// What came of the last reconcile.
    told: Map<String, Value>,
}

/// What comes of the last reconcile.
pub fn outcome(given: Value, after: Vec<Value>) -> Result<Value, Error> {
    let bundle = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "app", "uid": "uid-of-app", "generation": 1},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": words::source("image")},
    });
    let (bundle, now): (Bundle, _) = (serde_json::from_value(bundle)?, Timestamp::from_second(1_750_000_000)?);
    let observed = bundle.clone();
    let mut scene = Scene { bundle, observed, now, failures: 0, not_before: None, told: Map::new() };
    for step in iter::once(given).chain(after) {
        scene.reconcile(&serde_json::from_value(step)?)?;
    }
    Ok(Value::Object(scene.told))
}

impl Scene {
    fn reconcile(&mut self, step: &Step) -> Result<(), Error> {
        self.change(step)?;
        self.observed.clone_from(&self.bundle);
        self.told.clear();
        let decision = self.decide(step);
        self.told.insert("decision".into(), tell_decision(&decision).into());
        if let Some(begun) = &step.begun {
            self.begin(begun)?;
        }
        if let Some((outcome, verdict)) = self.execute(decision, step)? {
            self.conclude(outcome, verdict, step)?;
        }
        Ok(())
    }

    /// What happened since the last reconcile.
    fn change(&mut self, step: &Step) -> Result<(), Error> {
        if let Some(wait) = &step.wait {
            self.now = self.now.checked_add(wait.parse::<SignedDuration>()?)?;
        }
        if step.is_restarted || step.is_woken {
            (self.failures, self.not_before) = (0, None);
        }
        let Bundle { metadata, spec, .. } = &mut self.bundle;
        if let Some(class) = &step.class {
            spec.provisioner_class_name.clone_from(class);
        }
        if let Some(source) = &step.source {
            spec.source = serde_json::from_value(words::source(source))?;
        }
        if step.is_generated {
            metadata.owner_references = Some(serde_json::from_value(json!([{
                "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": "app", "uid": "u",
                "controller": true,
            }]))?);
        }
        if step.is_deleted {
            metadata.deletion_timestamp = Some(serde_json::from_value(json!("2025-06-15T15:00:00Z"))?);
        }
        if let Some(finalizers) = &step.finalizers {
            metadata.finalizers = Some(finalizers.clone());
        }
        Ok(())
    }

    /// Decides as the reconcile does, with a look at the disk if that is asked for.
    fn decide(&self, step: &Step) -> Decision {
        let left = self.not_before.and_then(|then| Duration::try_from(then.duration_since(self.now)).ok());
        let remembered = step.remembered.as_deref().map(|version| self.version(version).written());
        let mut observed = Observed {
            bundle: &self.bundle,
            is_stale: step.is_stale,
            back_off: left.filter(|left| !left.is_zero()),
            remembered,
            asks_signature: step.asks_signature,
            kept: None,
        };
        if matches!(decide(&observed), Decision::LookFor(_)) {
            observed.kept = Some(if step.is_lost { Kept::Lost } else { Kept::Whole });
        }
        decide(&observed)
    }

    /// What the reconcile comes to, and what it learns of signatures; `None` if it ends without a report, or has not ended.
    fn execute(&self, decision: Decision, step: &Step) -> Result<Option<(Outcome, Option<Verdict>)>, Error> {
        let found = step.verdict.as_deref().map(words::verdict).transpose()?.transpose();
        let verdict = match &decision {
            Decision::Unpack(_) => found.and_then(|verdict| verdict.map(verify::admitted).transpose()),
            Decision::Keep(_) | Decision::Refill(_) => verify::weigh(&self.bundle, found),
            _ => Ok(None),
        };
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(failure) => return Ok(Some((Err(failure), None))),
        };
        let outcome = match decision {
            Decision::LeaveAlone | Decision::RemoveFinalizer | Decision::Wait(_) | Decision::LookFor(_) => None,
            Decision::Fail(error) => Some(Err(Failure::Pin(error))),
            Decision::Keep(pinned) => Some(Ok(pinned)),
            Decision::Unpack(_) => self.attempt(step, None)?,
            Decision::Refill(pinned) => self.attempt(step, Some(pinned))?,
        };
        Ok(outcome.map(|outcome| (outcome, verdict)))
    }

    fn attempt(&self, step: &Step, pinned: Option<Pinned>) -> Result<Option<Outcome>, Error> {
        if let Err(findings) = validate::source(&self.bundle.spec.source) {
            return Ok(Some(Err(Failure::Spec(findings))));
        }
        let Some(text) = &step.attempt else { return Ok(None) };
        let fetched = match text.as_str() {
            "v1" | "v2" => Ok(self.version(text)),
            failure => Err(words::attempt(failure)?),
        };
        Ok(Some(match (fetched, pinned) {
            (Ok(fetched), Some(pinned)) => pinned.confirm(&fetched.content).map_err(Failure::Pin).map(|()| pinned),
            (fetched, _) => fetched,
        }))
    }

    fn version(&self, name: &str) -> Pinned {
        words::version(name, &self.bundle.spec.source.type_)
    }

    /// Says meanwhile what there is to say.
    fn begin(&mut self, begun: &str) -> Result<(), Error> {
        let report = match begun {
            "Waiting" => Report::Waiting,
            "Unpacking" => Report::Unpacking,
            "Received" => Report::Received,
            other => return Err(format!("{other:?} is no beginning").into()),
        };
        let before = self.bundle.status.clone().unwrap_or_default();
        let is_hidden = report.hides_failure(&before);
        let status = if is_hidden { before } else { self.status(&before, &report, None) };
        self.tell_status(&status);
        self.bundle.status = Some(status);
        Ok(())
    }

    /// The end of a reconcile.
    fn conclude(&mut self, outcome: Outcome, verdict: Option<Verdict>, step: &Step) -> Result<(), Error> {
        if outcome.as_ref().err().is_some_and(Failure::leaves_content) {
            self.told.insert("collect".into(), "what was fetched".into());
        }
        let (report, of_failure) = Report::of_outcome(outcome);
        let verdict = of_failure.or(verdict);
        let before = self.bundle.status.clone().unwrap_or_default();
        let status = self.status(&before, &report, verdict.as_ref());
        if status != before {
            self.tell_events(&report, verdict.as_ref());
        }
        self.tell_status(&status);
        self.bundle.status = Some(status);

        self.failures += u32::from(report.retry().is_some());
        let search_left = step.search_left.as_deref().map(str::parse::<SignedDuration>).transpose()?;
        let search_left = search_left.map(Duration::try_from).transpose()?;
        let wait = next(&report, self.failures, verdict.as_ref(), search_left);
        self.told.insert("next".into(), wait.map_or("news".into(), |wait| format!("in {wait:?}")).into());
        if matches!(report, Report::Unpacked(_)) {
            (self.failures, self.not_before) = (0, None);
        } else if let Some(wait) = wait {
            self.not_before = Some(self.now.checked_add(wait)?);
        }
        Ok(())
    }

    fn status(&self, before: &BundleStatus, report: &Report, verdict: Option<&Verdict>) -> BundleStatus {
        report::status(&self.bundle, before, report, verdict, Some("https://content.example"), self.now)
    }

    fn tell_events(&mut self, report: &Report, verdict: Option<&Verdict>) {
        let of_report = events::of_report(&self.observed, report);
        let of_verdict = verdict.and_then(|verdict| events::of_verdict(&self.observed, verdict));
        let lines = of_report.iter().chain(&of_verdict);
        let lines = lines.map(|news| words::named(&format!("{:?} {}: {}", news.type_, news.reason, news.message)));
        let lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            self.told.insert("events".into(), lines.into());
        }
    }

    fn tell_status(&mut self, status: &BundleStatus) {
        let lines = status.conditions.iter().map(|condition| {
            let Condition { type_, status, reason, message, .. } = condition;
            words::named(&format!("{type_} {status:?} {reason}: {message}"))
        });
        let conditions: Vec<String> = lines.collect();
        let pin = status.pin.as_ref().map(|pin| words::named(&pin.content_digest));
        let members = [("phase", status.phase.clone()), ("pin", pin), ("url", status.content_url.clone())];
        for (key, text) in members.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            self.told.insert(key.into(), text.into());
        }
        self.told.insert("conditions".into(), conditions.into());
    }
}

fn tell_decision(decision: &Decision) -> String {
    match decision {
        Decision::LookFor(pinned) => format!("LookFor {}", words::named(&pinned.content.to_string())),
        Decision::Keep(pinned) => format!("Keep {}", words::named(&pinned.content.to_string())),
        Decision::Refill(pinned) => format!("Refill {}", words::named(&pinned.content.to_string())),
        Decision::Fail(_) => "Fail".to_owned(),
        Decision::Unpack(format) => format!("Unpack {format:?}"),
        Decision::Wait(left) => format!("Wait {left:?}"),
        Decision::LeaveAlone | Decision::RemoveFinalizer => format!("{decision:?}"),
    }
}
