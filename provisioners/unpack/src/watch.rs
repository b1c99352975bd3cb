//! Watches over what decides whether a Bundle can be unpacked, beside the Bundle: ContentPolicies, and ConfigMaps that are missing.

pub mod config_maps;
pub mod policies;
