//! What a CatalogSource asks for, and what its status says. Pure.

use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::olmv0::CatalogSource;
use rukpak_crds::olmv0::catalog_source::{CatalogSourceSpec, CatalogSourceStatus, ConnectionState};
use rukpak_runtime::args::duration;

use super::Health;

/// The only type that is read.
const GRPC: &str = "grpc";
/// In place of an interval that cannot be read.
const DEFAULT_INTERVAL: Duration = Duration::from_mins(15);
/// More often than every minute is no polling but hammering.
const SHORTEST_INTERVAL: Duration = Duration::from_mins(1);

/// Where the content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::olmv0) enum Place {
    Image(String),
    /// `host:port`.
    Server(String),
}

/// What is wrong with a spec. The reasons are OLM's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::olmv0) struct Problem {
    pub reason: &'static str,
    pub message: String,
}

/// Where a spec says the content to be.
pub(super) fn place(spec: &CatalogSourceSpec) -> Result<Place, Problem> {
    let invalid = |message: String| Err(Problem { reason: "SpecInvalidError", message });
    match spec.source_type.as_str() {
        GRPC => {}
        "configmap" | "internal" => {
            let kind = &spec.source_type;
            return invalid(format!(
                "source type {kind:?} is not read here: put the catalog into an image, and name it in spec.image"
            ));
        }
        other => return invalid(format!("unknown sourcetype: {other}")),
    }
    if let Some(secret) = spec.secrets.iter().find(|name| name.contains('/')) {
        return invalid(format!(
            "spec.secrets: {secret:?} is no name of a Secret in the namespace of the CatalogSource, and no other is read"
        ));
    }
    if !spec.image.is_empty() {
        return Ok(Place::Image(spec.image.clone()));
    }
    if !spec.address.is_empty() {
        return Ok(Place::Server(spec.address.clone()));
    }
    invalid("image and address unset: at least one must be set for sourcetype: grpc".to_owned())
}

/// How often the image is looked at again; without an interval never.
pub(super) fn interval(spec: &CatalogSourceSpec) -> Option<Duration> {
    let text = polled(spec)?;
    Some(duration(text).map_or(DEFAULT_INTERVAL, |interval| interval.max(SHORTEST_INTERVAL)))
}

fn polled(spec: &CatalogSourceSpec) -> Option<&str> {
    let poll = spec.update_strategy.as_ref()?.registry_poll.as_ref()?;
    Some(poll.interval.as_str()).filter(|text| !text.is_empty())
}

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

    use super::*;

    fn source(spec: &Value) -> CatalogSource {
        serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "olm"}, "spec": spec})).unwrap()
    }

    fn fault(spec: &Value) -> String {
        place(&source(spec).spec).unwrap_err().message
    }

    #[test]
    fn an_image_wins_and_what_is_not_read_is_refused_with_a_way_out() {
        let both = json!({"sourceType": "grpc", "image": "r.example/c:1", "address": "c.olm.svc:50051"});
        assert_eq!(place(&source(&both).spec), Ok(Place::Image("r.example/c:1".to_owned())));
        let address = json!({"sourceType": "grpc", "address": "c.olm.svc:50051"});
        assert_eq!(place(&source(&address).spec), Ok(Place::Server("c.olm.svc:50051".to_owned())));
        let text = "image and address unset: at least one must be set for sourcetype: grpc";
        assert_eq!(fault(&json!({"sourceType": "grpc"})), text);
        assert_eq!(fault(&json!({"sourceType": "x"})), "unknown sourcetype: x");
        assert!(fault(&json!({"sourceType": "configmap", "configMap": "c"})).contains("name it in spec.image"));
        let foreign = json!({"sourceType": "grpc", "image": "i", "secrets": ["team-b/login"]});
        assert!(fault(&foreign).contains("\"team-b/login\" is no name of a Secret in the namespace"));
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
        assert_eq!(interval(&image.spec), Some(DEFAULT_INTERVAL));
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
