//! CRDs that a bundle brought.
//!
//! Anybody can send a review, so nothing of what it says is believed but the CRD that is to come. What is there is read from
//! the API server, by name, and only if the review knows its UID, which is as good as the right to read it; what is listed is what
//! that CRD defines. The answer names one object and no content: the log has the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rukpak_crd_upgrade::{Effort, ObjectCheck, ObjectValidator, UnsafeChange, schema_of};
use rukpak_runtime::error::Chain;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{apart, not_known, other_kind, other_operation};
use crate::call::{Call, Shared};
use crate::gates::Pass;
use crate::metrics::Operation;
use crate::reads::{Error, Next, Page};
use crate::review::Response;
use crate::rules::crd::{self, Invalid, SchemaChange};

/// Longest time for looking at all objects; the API server waits 20 seconds.
const OBJECTS: Duration = Duration::from_secs(18);
/// Longest wait for the right to list them, and between two attempts.
const GRANTED: Duration = Duration::from_secs(8);
const GRANTED_PAUSE: Duration = Duration::from_millis(200);
/// So many invalid objects of a version are looked for; nobody reads more.
const TOLD: usize = 20;
/// Objects of a version that are looked at, at most.
pub const MAX_OBJECTS: usize = 200_000;

pub(crate) async fn answer(call: Call, shared: &Shared) -> Response {
    if !call.request.is("apiextensions.k8s.io", "v1", "CustomResourceDefinition") {
        return other_kind(call.request, "CustomResourceDefinition of apiextensions.k8s.io/v1");
    }
    match call.request.operation() {
        _ if !call.request.sub_resource.is_empty() => return Response::allow(call.request.uid),
        // A CRD that exists is not created: the API server says so itself.
        Operation::Create | Operation::Delete => return Response::allow(call.request.uid),
        Operation::Update => {}
        Operation::Other => return other_operation(call.request),
    }
    let uid = call.request.uid.clone();
    let name = call.request.old_object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let stop = Stop::after(OBJECTS);
    match tokio::time::timeout(OBJECTS, verdict(call, &name, shared, &stop)).await {
        Ok(Ok(Verdict::Admitted)) => Response::allow(uid),
        Ok(Ok(Verdict::Refused(code, text))) => Response::deny(uid, code, &text),
        Ok(Err(error)) => not_known(uid, &crd::not_known(&name, &Chain(&error).to_string())),
        Err(_) => not_known(uid, &crd::not_known(&name, &Error::TooLong(OBJECTS).to_string())),
    }
}

enum Verdict {
    Admitted,
    Refused(u16, String),
}

/// Says that nobody waits for the answer any more, to work that cannot be cancelled otherwise.
struct Stop(Arc<AtomicBool>, Instant);

impl Stop {
    fn after(time: Duration) -> Self {
        Self(Arc::default(), Instant::now() + time)
    }

    fn asked(&self) -> impl Fn() -> bool + Send + 'static + use<> {
        let (stopped, end) = (Arc::clone(&self.0), self.1);
        move || stopped.load(Ordering::Relaxed) || Instant::now() >= end
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn verdict(call: Call, name: &str, shared: &Shared, stop: &Stop) -> Result<Verdict, Error> {
    let is_large = call.is_large;
    let call = Arc::new(call);
    let review = Arc::clone(&call);
    if apart(is_large, move || crd::is_settled(&review.request.old_object, &review.request.object)).await {
        return Ok(Verdict::Admitted);
    }
    let Some(live) = live(&call, name, shared).await? else {
        return Ok(Verdict::Refused(409, crd::outdated(name)));
    };
    // To the end: it is what the process can do at once.
    let check = Arc::new(call.turn(&shared.gates.checks).await);
    let (review, asked, held) = (Arc::clone(&call), stop.asked(), Arc::clone(&check));
    let question = apart(true, move || {
        let _held = held;
        crd::compare(&live, &review.request.object, &Effort::until(&asked))
    });
    let (owner, report) = match question.await {
        Ok(SchemaChange::Settled) => return Ok(Verdict::Admitted),
        Ok(SchemaChange::Open { owner, report }) => (owner, report),
        Err(error) => return Ok(Verdict::Refused(400, error.to_string())),
    };
    if let Some(owner) = owner
        && shared.reads.is_unchecked(&owner).await?
    {
        return Ok(Verdict::Admitted);
    }
    let mut changes: Vec<UnsafeChange> = report.errors().cloned().collect();
    for check_of in report.object_checks {
        changes.extend(objects(check_of, &call, &check, shared, stop).await?);
    }
    Ok(crd::denial(name, &changes).map_or(Verdict::Admitted, |text| Verdict::Refused(403, text)))
}

/// The CRD in the cluster, if it is the one that the review is about.
async fn live(call: &Call, name: &str, shared: &Shared) -> Result<Option<Value>, Error> {
    let old = &call.request.old_object;
    let _pass = call.turn(&shared.gates.reads).await;
    // First what identifies it: the whole of it has megabytes.
    let uid = shared.reads.definition_uid(name).await?;
    if uid.is_none() || uid.as_deref() != old["metadata"]["uid"].as_str() {
        return Ok(None);
    }
    let live = shared.reads.definition(name).await?;
    Ok(live.filter(|live| live["metadata"]["uid"] == *uid.unwrap_or_default() && live["spec"] == old["spec"]))
}

/// What existing objects that would not be valid any more say against it.
async fn objects(
    check: ObjectCheck,
    call: &Arc<Call>,
    pass: &Arc<Pass>,
    shared: &Shared,
    stop: &Stop,
) -> Result<Option<UnsafeChange>, Error> {
    let (sender, pages) = mpsc::channel(1);
    let (of_validator, review, held, asked) = (check.clone(), Arc::clone(call), Arc::clone(pass), stop.asked());
    let validated = tokio::task::spawn_blocking(move || {
        let _held = held;
        validate(&of_validator, &review.request.object, pages, &asked)
    });
    let (mut after, mut listed) = (None, 0);
    loop {
        let page = page(&check, after, call, shared).await?;
        listed += page.objects.len();
        after = page.next.clone();
        let is_last = page.next.is_none();
        // Whoever validates ends early once there is enough to refuse it.
        if sender.send(page).await.is_err() || is_last {
            break;
        }
        if listed >= MAX_OBJECTS {
            return Err(Error::TooMany(listed));
        }
    }
    drop(sender);
    match validated.await {
        Ok(Ok(found)) => Ok(found.map(|invalid| crd::invalid(&check, &invalid))),
        Ok(Err(Stopped)) => Err(Error::TooLong(OBJECTS)),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A page of objects, as soon as they may be listed: of a CRD that has just come the controller grants it in a moment.
async fn page(check: &ObjectCheck, after: Option<Next>, call: &Call, shared: &Shared) -> Result<Page, Error> {
    let end = Instant::now() + GRANTED;
    loop {
        let pass = call.turn(&shared.gates.lists).await;
        let page = shared.reads.objects(check, after.clone()).await;
        drop(pass);
        match page {
            Err(error) if error.is_forbidden() && Instant::now() < end => tokio::time::sleep(GRANTED_PAUSE).await,
            page => return page,
        }
    }
}

/// The time was over before all objects were looked at: what was found says nothing of the others.
#[derive(Debug, PartialEq, Eq)]
struct Stopped;

/// Validates page after page, on a thread of its own.
fn validate(
    check: &ObjectCheck,
    new: &Value,
    mut pages: mpsc::Receiver<Page>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Invalid>, Stopped> {
    let Some(schema) = schema_of(new, &check.schema_version) else { return Ok(None) };
    let validator = ObjectValidator::within(schema, &Effort::until(stop));
    if let Some(unchecked) = validator.unchecked().first() {
        let count = validator.unchecked().len();
        tracing::info!(crd = check.crd, version = check.schema_version, count, first = %unchecked, "the schema of a CRD has constraints that are not checked");
    }
    let mut found: Option<Invalid> = None;
    while let Some(page) = pages.blocking_recv() {
        for text in &page.objects {
            // What the API server listed is JSON.
            let Ok(mut object) = serde_json::from_str::<Value>(text.get()) else { continue };
            // Items of a list do not say what they are.
            if let Some(fields) = object.as_object_mut() {
                fields.insert("apiVersion".to_owned(), json!(format!("{}/{}", check.group, check.list_version)));
                fields.insert("kind".to_owned(), json!(check.kind));
            }
            let violations = validator.validate_within(&object, &Effort::until(stop));
            if stop() {
                return Err(Stopped);
            }
            if violations.is_empty() {
                continue;
            }
            let invalid = found.get_or_insert_with(|| Invalid::first(&object));
            invalid.count += 1;
            tracing::info!(
                crd = check.crd, version = check.schema_version, namespace = crd::text(&object, "namespace"),
                name = crd::text(&object, "name"), violation = %violations[0], violations = violations.len(),
                "an object would be invalid under the new schema"
            );
            if invalid.count >= TOLD {
                invalid.is_complete = false;
                return Ok(found);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "crd/tests.rs"]
mod tests;
