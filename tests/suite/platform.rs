//! PlatformOperators: OLM packages installed by name, reported, upgraded and removed. Each test is named after the line of
//! OpenShift's end-to-end suite, or of our own list, that it covers.

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
