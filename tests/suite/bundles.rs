//! Bundles: what RukPak promises of them, what a Bundle promises once it is unpacked, and every way its source can be wrong.

mod hands;

mod broken_images;
mod broken_manifests;
mod broken_registries;
mod broken_repositories;
mod conditions;
mod images;
mod limits;
mod lost_content;
mod pins;
mod proxies;
mod reference;
mod restarts;
mod secrecy;
mod sources_config_maps;
pub mod sources_http;
mod unsupported;
