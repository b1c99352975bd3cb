//! What the API server takes: the schema's refusals, and the webhook's over real TLS, whatever happens to it.

mod certificates;
mod config_maps;
mod definitions;
mod direct;
mod elsewhere;
mod events;
mod fields;
mod helpers;
mod immutability;
mod needed;
mod outage;
mod pair;
mod private;
mod ratcheting;
mod replicas;
mod reviews;
mod schema;
mod sources;
mod warning_policy;
