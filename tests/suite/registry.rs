//! `registry+v1`: OLM's bundles, our own small ones and published ones, installed, upgraded, refused and removed.

#[path = "registry/case.rs"]
mod case;
#[path = "registry/corpus.rs"]
mod corpus;
#[path = "registry/install.rs"]
mod install;
#[path = "registry/listing.rs"]
mod listing;
#[path = "registry/modes.rs"]
mod modes;
#[path = "registry/providers.rs"]
mod providers;
#[path = "registry/published.rs"]
mod published;
#[path = "registry/refusals.rs"]
mod refusals;
#[path = "registry/serving.rs"]
mod serving;
#[path = "registry/survey.rs"]
mod survey;
#[path = "deployments/tired.rs"]
mod tired;
#[path = "registry/turn.rs"]
mod turn;
#[path = "registry/upgrade.rs"]
mod upgrade;
#[path = "registry/webhooks.rs"]
mod webhooks;
