//! OLM v1's API: ClusterCatalogs, their content over HTTP, and ClusterExtensions. One world, in which tests do not meet: each has
//! packages, catalogs and extensions of its own names, and chooses its catalogs by a selector.

#[path = "olmv1/case.rs"]
mod case;
#[path = "olmv1/catalogs.rs"]
mod catalogs;
#[path = "olmv1/content.rs"]
mod content;
#[path = "olmv1/world.rs"]
mod world;
