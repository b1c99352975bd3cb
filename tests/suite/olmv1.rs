//! OLM v1's API: ClusterCatalogs, their content over HTTP, and ClusterExtensions. One world, in which tests do not meet: each has
//! packages, catalogs and extensions of its own names, and chooses its catalogs by a selector.

#[path = "olmv1/case.rs"]
mod case;
#[path = "olmv1/catalogs.rs"]
mod catalogs;
#[path = "olmv1/commands.rs"]
mod commands;
#[path = "olmv1/configuration.rs"]
mod configuration;
#[path = "olmv1/content.rs"]
mod content;
#[path = "olmv1/install.rs"]
mod install;
#[path = "olmv1/migrate.rs"]
mod migrate;
#[path = "olmv1/operators.rs"]
mod operators;
#[path = "platform/packages.rs"]
mod packages;
#[expect(dead_code, reason = "what else it can do, the suite tutorial uses")]
#[path = "tutorial/page.rs"]
mod page;
#[path = "olmv1/recovery.rs"]
mod recovery;
#[path = "olmv1/resolution.rs"]
mod resolution;
#[path = "olmv1/rights.rs"]
mod rights;
#[path = "tutorial/session.rs"]
mod session;
#[path = "olmv1/takeover.rs"]
mod takeover;
#[path = "olmv1/updates.rs"]
mod updates;
#[path = "olmv1/walk_through.rs"]
mod walk_through;
#[path = "olmv1/world.rs"]
mod world;
