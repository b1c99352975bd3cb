//! Denials, for whoever looks at the object that was not to be changed: an Event, and a line in the log.
//!
//! An Event needs an object that is there: one that was not to be created has none, and who was denied is told. Anybody who reaches
//! the port can send a review, so an Event names no user, `kubectl describe` shows it only if the review knew the object's UID,
//! and there are few: [`EVENTS`].

use k8s_openapi::api::core::v1::ObjectReference;
use rukpak_runtime::events::{EventType, News};

use crate::review::{Request, Response};

/// So many different Events are written within ten minutes, at most. The same is written once in that time, with a count.
pub const EVENTS: usize = 100;
/// Reason of the Event.
const DENIED: &str = "AdmissionDenied";

/// Who asked for what, kept for the case that it is denied.
pub(crate) struct Asked {
    about: Option<ObjectReference>,
    user: String,
    what: String,
    is_dry_run: bool,
}

impl Asked {
    /// What this review asks for.
    pub(crate) fn of(request: &Request) -> Self {
        let operation = request.operation.to_ascii_lowercase();
        let what = match request.sub_resource.as_str() {
            "" => operation,
            part => format!("{operation} of {part}"),
        };
        Self {
            about: about(request),
            user: request.user_info.username.clone(),
            what,
            is_dry_run: request.dry_run.unwrap_or_default(),
        }
    }

    /// The Event about this answer, if there is to be one. Logs a denial.
    pub(crate) fn event(self, request: &str, response: &Response) -> Option<(ObjectReference, News)> {
        let (code, text) = response.denial()?;
        let Self { about, user, what, is_dry_run } = self;
        // A lookup that failed has a line already.
        if code != 500 {
            tracing::info!(
                object = request,
                operation = what,
                user,
                code,
                dry_run = is_dry_run,
                detail = text,
                "denied"
            );
        }
        // Other codes are of calls that are no question, or are asked again by themselves.
        let about = about.filter(|_| !is_dry_run && [403, 500].contains(&code))?;
        let message = format!("{what} denied: {text}");
        Some((about, News { type_: EventType::Warning, reason: DENIED.to_owned(), message }))
    }
}

fn about(request: &Request) -> Option<ObjectReference> {
    let metadata = request.old_object.get("metadata")?;
    let text = |field: &str| metadata.get(field).and_then(|value| value.as_str()).map(str::to_owned);
    Some(ObjectReference {
        api_version: Some(request.kind.api_version()),
        kind: Some(request.kind.kind.clone()),
        name: Some(text("name")?),
        namespace: text("namespace"),
        uid: Some(text("uid")?),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(changes: &Value, code: u16) -> Option<(ObjectReference, News)> {
        let mut request = json!({
            "uid": "u", "kind": {"group": "core.rukpak.io", "version": "v1alpha1", "kind": "Bundle"}, "name": "b",
            "operation": "UPDATE", "userInfo": {"username": "jane"}, "object": {},
            "oldObject": {"metadata": {"name": "b", "uid": "1234"}},
        });
        for (field, value) in changes.as_object().into_iter().flatten() {
            request[field] = value.clone();
        }
        let request: Request = serde_json::from_value(request).expect("a request");
        let response = match code {
            200 => Response::allow("u".to_owned()),
            code => Response::deny("u".to_owned(), code, "bundle.spec is immutable"),
        };
        Asked::of(&request).event("b", &response)
    }

    #[test]
    fn an_event_is_about_the_object_that_is_there() {
        let (about, news) = told(&json!({}), 403).expect("an Event");
        assert_eq!(about.api_version.as_deref(), Some("core.rukpak.io/v1alpha1"));
        assert_eq!((about.name.as_deref(), about.uid.as_deref(), about.namespace), (Some("b"), Some("1234"), None));
        assert_eq!(
            news.message, "update denied: bundle.spec is immutable",
            "without a user: anybody can send a review"
        );
        let (_, of_status) = told(&json!({"subResource": "status"}), 500).expect("an Event");
        assert_eq!(of_status.message, "update of status denied: bundle.spec is immutable");
        let old = json!({"metadata": {"name": "c", "namespace": "n", "uid": "1"}});
        let config_map = json!({"kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "operation": "DELETE", "oldObject": old});
        let (about, _) = told(&config_map, 403).expect("an Event");
        assert_eq!((about.api_version.as_deref(), about.namespace.as_deref()), (Some("v1"), Some("n")));
    }

    #[test]
    fn nothing_is_told_of_what_is_not_there_was_not_meant_or_was_admitted() {
        assert!(told(&json!({}), 200).is_none());
        assert!(told(&json!({"operation": "CREATE", "oldObject": null}), 403).is_none());
        assert!(told(&json!({"oldObject": {"metadata": {"name": "b"}}}), 403).is_none());
        assert!(told(&json!({"dryRun": true}), 403).is_none());
        for code in [400, 409] {
            assert!(told(&json!({}), code).is_none(), "{code}");
        }
    }
}
