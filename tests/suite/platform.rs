//! PlatformOperators: OLM packages installed by name, reported, upgraded and removed. Most tests share one world and meet nobody
//! in it; those that change what a cluster has one of take turns in another.

mod case;
mod choice;
mod cluster_operator;
mod crashes;
mod deletion;
mod install;
mod owners;
pub mod packages;
mod recording;
mod refusals;
mod sources;
mod troubled;
mod unreachable;
mod upgrades;
mod world;
