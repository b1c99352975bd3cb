//! OLM v0's API, typed as its users type it: the real programs, the webhook among them, with the rights of their manifests.

mod approval;
pub mod case;
mod catalogs;
pub mod clients;
mod condition;
mod deletion;
mod forged;
mod gate;
mod groups;
mod health;
mod hostile;
mod install;
mod neighbours;
mod operators;
mod packages;
mod points;
mod procedures;
mod registry;
mod rights;
mod roles;
mod takeover;
pub mod world;
