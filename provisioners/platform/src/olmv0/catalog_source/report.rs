//! What the status of a CatalogSource says. Pure.

use jiff::Timestamp;
use kube::ResourceExt;
use rukpak_crds::olmv0::CatalogSource;
use rukpak_crds::olmv0::catalog_source::{CatalogSourceStatus, ConnectionState};
use rukpak_runtime::args::duration;
use serde_json::{Map, Value, json};

use super::known::Health;
use super::place::{GRPC, polled};
use super::shown::{self, PORT};

/// What the status says. `named` is since when there is a Service by which clients read what the image has.
pub(super) fn status(
    source: &CatalogSource,
    health: &Health,
    named: Option<Timestamp>,
    now: Timestamp,
) -> CatalogSourceStatus {
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
    let address = match named {
        _ if source.spec.image.is_empty() => source.spec.address.clone(),
        Some(_) => {
            format!("{}.{}.svc:{PORT}", shown::service(&source.name_any()), source.namespace().unwrap_or_default())
        }
        None => String::new(),
    };
    let service = served(source, health, (named, old.registry_service.as_ref()), now);
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
        registry_service: service,
    }
}

/// What the status says of the server: all of its Service, or only since when one by its address is known, as upstream.
fn served(
    source: &CatalogSource,
    health: &Health,
    (named, old): (Option<Timestamp>, Option<&Map<String, Value>>),
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let is_invalid = matches!(health, Health::Invalid(_));
    let service = match named {
        _ if is_invalid => return None,
        Some(since) => json!({
            "createdAt": since, "protocol": GRPC, "port": PORT.to_string(),
            "serviceName": shown::service(&source.name_any()), "serviceNamespace": source.namespace(),
        }),
        None if source.spec.image.is_empty() => {
            let since = old.and_then(|old| old.get("createdAt")).cloned().unwrap_or_else(|| json!(now));
            json!({"createdAt": since, "protocol": GRPC})
        }
        None => return None,
    };
    service.as_object().cloned()
}

#[cfg(test)]
mod tests {
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
        let ready = status(&image, &Health::Ready { since: Some(now), trouble: None }, None, now);
        assert_eq!((state(&ready).as_str(), ready.reason.as_str()), ("READY", "InvalidIntervalError"));
        let failed = status(&image, &Health::Failed("no".to_owned()), None, now);
        assert_eq!((state(&failed).as_str(), failed.message.as_str()), ("TRANSIENT_FAILURE", "no"));
        let invalid = Problem { reason: "SpecInvalidError", message: "wrong".to_owned() };
        let invalid = status(&image, &Health::Invalid(invalid), None, now);
        assert_eq!((state(&invalid).as_str(), invalid.message.as_str()), ("", "wrong"));
    }

    #[test]
    fn the_status_says_where_clients_read_what_is_served() {
        let (since, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(1000).unwrap());
        let mut image = source(&json!({"sourceType": "grpc", "image": "i"}));
        image.metadata.name = Some("c.1".to_owned());
        let ready = Health::Ready { since: Some(since), trouble: None };
        let served = status(&image, &ready, Some(since), now);
        let address = served.connection_state.map(|connection| connection.address);
        assert_eq!(address.as_deref(), Some("c-1.olm.svc:50051"));
        let service = json!({"createdAt": "1970-01-01T00:00:00Z", "protocol": "grpc", "serviceName": "c-1",
            "serviceNamespace": "olm", "port": "50051"});
        assert_eq!(served.registry_service.map(Value::Object), Some(service));
        assert_eq!(status(&image, &ready, None, now).registry_service, None);
        let by_address = source(&json!({"sourceType": "grpc", "address": "a:1"}));
        let asked = status(&by_address, &ready, None, since).registry_service.map(Value::Object);
        assert_eq!(asked, Some(json!({"createdAt": "1970-01-01T00:00:00Z", "protocol": "grpc"})));
    }

    #[test]
    fn a_status_that_says_the_same_is_the_same() {
        let now = Timestamp::UNIX_EPOCH;
        let mut source = source(&json!({"sourceType": "grpc", "address": "a:1"}));
        for health in [Health::Unlooked, Health::Failed("no".to_owned()), Health::Ready { since: None, trouble: None }]
        {
            let first = status(&source, &health, None, now);
            source.status = Some(first.clone());
            let later = Timestamp::from_second(1000).unwrap();
            assert_eq!(status(&source, &health, None, later), first, "{health:?}");
        }
    }
}
