//! Definitions that a bundle brought.

use std::time::Duration;

use rukpak_plan::crd_upgrade::{ObjectCheck, ObjectValidator, Report, UnsafeChange, schema_of};
use serde_json::Value;

use super::{not_known, other_kind, other_operation};
use crate::chain;
use crate::metrics::Operation;
use crate::reads::{Error, Reads};
use crate::review::{Request, Response};
use crate::rules::definition::{self, Question};

/// Longest time for looking at all objects; the API server waits 20 seconds.
const OBJECTS: Duration = Duration::from_secs(18);
/// So many invalid objects of a version are told; nobody reads more.
const TOLD: usize = 20;

pub(crate) async fn answer(request: Request, reads: &dyn Reads) -> Response {
    if !request.is("apiextensions.k8s.io", "v1", "CustomResourceDefinition") {
        return other_kind(request, "CustomResourceDefinition of apiextensions.k8s.io/v1");
    }
    match request.operation() {
        _ if !request.sub_resource.is_empty() => return Response::allow(request.uid),
        // A definition that exists is not created: the API server says so itself.
        Operation::Create | Operation::Delete => return Response::allow(request.uid),
        Operation::Update => {}
        Operation::Other => return other_operation(request),
    }
    let (name, owner, report) = match definition::compare(&request.old_object, &request.object) {
        Ok(Question::Settled) => return Response::allow(request.uid),
        Ok(Question::Open { name, owner, report }) => (name, owner, report),
        Err(error) => return Response::deny(request.uid, 400, &error.to_string()),
    };
    let (new, uid) = (&request.object, request.uid);
    match tokio::time::timeout(OBJECTS, changes(owner, &report, new, reads)).await {
        Ok(Ok(changes)) => match definition::denial(name, &changes) {
            Some(text) => Response::deny(uid, 403, &text),
            None => Response::allow(uid),
        },
        Ok(Err(error)) => not_known(uid, &definition::not_known(name, &chain(&error))),
        Err(_) => {
            let why = format!("the existing objects could not be looked at within {OBJECTS:?}");
            not_known(uid, &definition::not_known(name, &why))
        }
    }
}

/// What refuses the update: nothing where the owner has switched the check off.
async fn changes(
    owner: Option<&str>,
    report: &Report,
    new: &Value,
    reads: &dyn Reads,
) -> Result<Vec<UnsafeChange>, Error> {
    if let Some(owner) = owner
        && reads.is_unchecked(owner).await?
    {
        return Ok(Vec::new());
    }
    let mut changes: Vec<UnsafeChange> = report.errors().cloned().collect();
    for check in &report.object_checks {
        changes.extend(objects(check, new, reads).await?);
    }
    Ok(changes)
}

/// The existing objects that would not be valid any more.
async fn objects(check: &ObjectCheck, new: &Value, reads: &dyn Reads) -> Result<Vec<UnsafeChange>, Error> {
    let Some(schema) = schema_of(new, &check.schema_version) else { return Ok(Vec::new()) };
    let validator = ObjectValidator::new(schema);
    let (mut changes, mut after) = (Vec::new(), None);
    loop {
        let page = reads.objects(check, after).await?;
        changes.extend(page.objects.iter().filter_map(|object| check.change(object, &validator.validate(object))));
        match page.next {
            Some(next) if changes.len() < TOLD => after = Some(next),
            _ => return Ok(changes),
        }
    }
}
