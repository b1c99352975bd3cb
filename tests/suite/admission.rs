//! What the API server takes: the schema's refusals, and the webhook's over real TLS, whatever happens to it.

#[path = "admission/certificates.rs"]
mod certificates;
#[path = "admission/config_maps.rs"]
mod config_maps;
#[path = "admission/definitions.rs"]
mod definitions;
#[path = "admission/direct.rs"]
mod direct;
#[path = "admission/elsewhere.rs"]
mod elsewhere;
#[path = "admission/events.rs"]
mod events;
#[path = "admission/helpers.rs"]
mod helpers;
#[path = "admission/immutability.rs"]
mod immutability;
#[path = "admission/outage.rs"]
mod outage;
#[path = "admission/pair.rs"]
mod pair;
#[path = "admission/private.rs"]
mod private;
#[path = "admission/replicas.rs"]
mod replicas;
#[path = "admission/reviews.rs"]
mod reviews;
#[path = "admission/schema.rs"]
mod schema;
#[path = "admission/sources.rs"]
mod sources;
