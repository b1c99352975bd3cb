//! OLM v1's API: ClusterCatalogs, their content over HTTP, and ClusterExtensions. One world, in which tests do not meet: each has
//! packages, catalogs and extensions of its own names, and chooses its catalogs by a selector.

mod annotations;
pub mod case;
mod catalogs;
mod commands;
mod configuration;
mod content;
mod dependencies;
mod install;
mod kills;
mod kubectl_operator;
mod metrics;
mod migrate;
mod namespaces;
mod object_sets;
mod operators;
mod previews;
mod proxy;
mod published_sets;
mod recovery;
mod resolution;
mod revision_sets;
mod rights;
mod rollout;
mod scenarios;
mod set_contents;
mod sets;
mod takeover;
mod tls;
mod updates;
mod walk_through;
pub mod world;
