//! What a CatalogSource asks for: where its content is, and how often to look. Pure.

use std::time::Duration;

use rukpak_crds::olmv0::catalog_source::CatalogSourceSpec;
use rukpak_runtime::args::duration;

/// The only type that is read.
pub(super) const GRPC: &str = "grpc";
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

/// The interval as the spec writes it.
pub(super) fn polled(spec: &CatalogSourceSpec) -> Option<&str> {
    let poll = spec.update_strategy.as_ref()?.registry_poll.as_ref()?;
    Some(poll.interval.as_str()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(spec: &Value) -> CatalogSourceSpec {
        serde_json::from_value(spec.clone()).unwrap()
    }

    fn fault(spec: &Value) -> String {
        place(&self::spec(spec)).unwrap_err().message
    }

    #[test]
    fn an_image_wins_and_what_is_not_read_is_refused_with_a_way_out() {
        let both = json!({"sourceType": "grpc", "image": "r.example/c:1", "address": "c.olm.svc:50051"});
        assert_eq!(place(&spec(&both)), Ok(Place::Image("r.example/c:1".to_owned())));
        let address = json!({"sourceType": "grpc", "address": "c.olm.svc:50051"});
        assert_eq!(place(&spec(&address)), Ok(Place::Server("c.olm.svc:50051".to_owned())));
        let text = "image and address unset: at least one must be set for sourcetype: grpc";
        assert_eq!(fault(&json!({"sourceType": "grpc"})), text);
        assert_eq!(fault(&json!({"sourceType": "x"})), "unknown sourcetype: x");
        assert!(fault(&json!({"sourceType": "configmap", "configMap": "c"})).contains("name it in spec.image"));
        let foreign = json!({"sourceType": "grpc", "image": "i", "secrets": ["team-b/login"]});
        assert!(fault(&foreign).contains("\"team-b/login\" is no name of a Secret in the namespace"));
    }

    #[test]
    fn an_interval_that_cannot_be_read_is_the_default() {
        let polled = |interval: &str| {
            spec(
                &json!({"sourceType": "grpc", "image": "i", "updateStrategy": {"registryPoll": {"interval": interval}}}),
            )
        };
        assert_eq!(interval(&polled("soon")), Some(DEFAULT_INTERVAL));
        assert_eq!(interval(&polled("1s")), Some(SHORTEST_INTERVAL));
        assert_eq!(interval(&polled("")), None);
    }
}
