//! Bundles: what RukPak promises of them, what a Bundle promises once it is unpacked, and every way its source can be wrong.

#[path = "bundles/hands.rs"]
mod hands;

#[path = "bundles/broken_images.rs"]
mod broken_images;
#[path = "bundles/broken_manifests.rs"]
mod broken_manifests;
#[path = "bundles/broken_registries.rs"]
mod broken_registries;
#[path = "bundles/broken_repositories.rs"]
mod broken_repositories;
#[path = "bundles/conditions.rs"]
mod conditions;
#[path = "bundles/images.rs"]
mod images;
#[path = "bundles/limits.rs"]
mod limits;
#[path = "bundles/lost_content.rs"]
mod lost_content;
#[path = "bundles/pins.rs"]
mod pins;
#[path = "bundles/proxies.rs"]
mod proxies;
#[path = "bundles/reference.rs"]
mod reference;
#[path = "bundles/restarts.rs"]
mod restarts;
#[path = "bundles/secrecy.rs"]
mod secrecy;
#[path = "bundles/sources_config_maps.rs"]
mod sources_config_maps;
#[path = "bundles/sources_http.rs"]
mod sources_http;
#[path = "bundles/unsupported.rs"]
mod unsupported;
