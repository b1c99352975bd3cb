//! PlatformOperators: OLM packages installed by name, reported, upgraded and removed. Most tests share one world and meet nobody
//! in it; those that change what a cluster has one of take turns in another.

#[path = "platform/case.rs"]
mod case;
#[path = "platform/choice.rs"]
mod choice;
#[path = "platform/cluster_operator.rs"]
mod cluster_operator;
#[path = "platform/crashes.rs"]
mod crashes;
#[path = "platform/deletion.rs"]
mod deletion;
#[path = "platform/install.rs"]
mod install;
#[path = "platform/owners.rs"]
mod owners;
#[path = "platform/packages.rs"]
mod packages;
#[path = "platform/recording.rs"]
mod recording;
#[path = "platform/refusals.rs"]
mod refusals;
#[path = "platform/sources.rs"]
mod sources;
#[path = "platform/troubled.rs"]
mod troubled;
#[path = "platform/unreachable.rs"]
mod unreachable;
#[path = "platform/upgrades.rs"]
mod upgrades;
#[path = "platform/world.rs"]
mod world;
