//! The suites: real programs on a real control plane. The first line of each says what it is about.

mod admission;
mod bundles;
mod catalogs;
mod children;
mod cli;
mod content;
mod deployments;
mod engine;
mod harness;
mod helm;
mod hostile;
mod image;
mod install_order;
mod leader;
mod olmv1;
mod output;
mod packages;
mod platform;
mod registry;
mod rights;
mod store;
mod sweep;
mod tenants;
mod traces;
mod trust;
mod tutorial;
