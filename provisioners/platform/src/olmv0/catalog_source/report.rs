//! What the status of a CatalogSource says. Pure.

use jiff::Timestamp;
use rukpak_crds::olmv0::CatalogSource;
use rukpak_crds::olmv0::catalog_source::{CatalogSourceStatus, ConnectionState};
use rukpak_runtime::args::duration;

use super::known::Health;
use super::place::polled;

/// What the status says.
pub(super) fn status(source: &CatalogSource, health: &Health, now: Timestamp) -> CatalogSourceStatus {
    let old = source.status.clone().unwrap_or_default();
    let (state, reason, message) = match health {
        Health::Unlooked => ("CONNECTING", "", String::new()),
        Health::Ready { trouble: None, .. } => ("READY", "", String::new()),
        Health::Ready { trouble: Some(trouble), .. } => ("READY", "RegistryServerError", trouble.clone()),
        Health::Failed(why) => ("TRANSIENT_FAILURE", "RegistryServerError", why.clone()),
        Health::Invalid(problem) => ("", problem.reason, problem.message.clone()),
    };
    let (reason, message) = match polled(&source.spec).map(duration) {
        Some(Err(why)) if reason.is_empty() => {
            ("InvalidIntervalError", format!("{why}; the image is looked at every 15m"))
        }
        _ => (reason, message),
    };
    // What was read anew is another connection to whoever keeps what they read.
    let connected = match health {
        Health::Ready { since, .. } => *since,
        _ => None,
    };
    let address = if source.spec.image.is_empty() { source.spec.address.clone() } else { String::new() };
    let connection = (!state.is_empty()).then(|| {
        let before = old.connection_state.filter(|before| before.last_observed_state == state);
        let last_connect = connected.or_else(|| before.and_then(|before| before.last_connect)).or(Some(now));
        ConnectionState { address, last_observed_state: state.to_owned(), last_connect }
    });
    let latest = if source.spec.image.is_empty() { None } else { connected.or(old.latest_image_registry_poll) };
    CatalogSourceStatus {
        connection_state: connection,
        latest_image_registry_poll: latest,
        reason: reason.to_owned(),
        message,
        registry_service: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::place::Problem;
    use super::*;

    fn source(spec: &Value) -> CatalogSource {
        serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "olm"}, "spec": spec})).unwrap()
    }

    #[test]
    fn the_status_says_ready_once_the_content_can_be_read() {
        let now = Timestamp::UNIX_EPOCH;
        let image = source(&json!({"sourceType": "grpc", "image": "i",
            "updateStrategy": {"registryPoll": {"interval": "soon"}}}));
        let state = |status: &CatalogSourceStatus| {
            status
                .connection_state
                .as_ref()
                .map(|connection| connection.last_observed_state.clone())
                .unwrap_or_default()
        };
        let ready = status(&image, &Health::Ready { since: Some(now), trouble: None }, now);
        assert_eq!((state(&ready).as_str(), ready.reason.as_str()), ("READY", "InvalidIntervalError"));
        let failed = status(&image, &Health::Failed("no".to_owned()), now);
        assert_eq!((state(&failed).as_str(), failed.message.as_str()), ("TRANSIENT_FAILURE", "no"));
        let invalid = Problem { reason: "SpecInvalidError", message: "wrong".to_owned() };
        let invalid = status(&image, &Health::Invalid(invalid), now);
        assert_eq!((state(&invalid).as_str(), invalid.message.as_str()), ("", "wrong"));
    }

    #[test]
    fn a_status_that_says_the_same_is_the_same() {
        let now = Timestamp::UNIX_EPOCH;
        let mut source = source(&json!({"sourceType": "grpc", "address": "a:1"}));
        for health in [Health::Unlooked, Health::Failed("no".to_owned()), Health::Ready { since: None, trouble: None }]
        {
            let first = status(&source, &health, now);
            source.status = Some(first.clone());
            let later = Timestamp::from_second(1000).unwrap();
            assert_eq!(status(&source, &health, later), first, "{health:?}");
        }
    }
}
