//! A newer version that is left out by what is asked for. Pure.

use super::{Offer, Request, resolve};
use crate::{Bundle, Version};

/// A version that is newer than what is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newer<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// The bundle.
    pub bundle: &'a Bundle,
    /// What has to be asked for to get it.
    pub needs: Needs,
    /// Whether the range that is asked for leaves it out.
    pub is_out_of_range: bool,
    /// Whether the channels that are asked for leave it out.
    pub is_out_of_channels: bool,
}

/// What has to be asked for, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Another range. An upgrade leads to it.
    Version,
    /// Other channels, and perhaps another range. An upgrade leads to it there.
    Channels,
    /// That upgrades need not follow the graph: none leads to it.
    SelfCertification,
}

/// The highest version that could be had in place of what is installed; the first of these that is newer:
///
/// 1. in the channels that are asked for, along the graph
/// 2. in any channel, along the graph
/// 3. whatever the graph says
pub fn newer<'a>(offers: &[Offer<'a>], request: Request<'_>) -> Option<Newer<'a>> {
    let installed = request.installed?;
    let version = Version::with_release(installed.version, installed.release.unwrap_or_default()).ok()?;
    // The same version in a release is newer only if it is known which release is installed.
    let is_newer =
        |other: &Version| *other > version && (installed.release.is_some() || other.semver() != version.semver());

    let any_version = Request { version: None, ..request };
    let any_channel = Request { channels: &[], ..any_version };
    let any_edge = Request { is_self_certified: true, ..any_channel };
    let ways = [(any_version, Needs::Version), (any_channel, Needs::Channels), (any_edge, Needs::SelfCertification)];
    ways.into_iter().find_map(|(wider, needs)| {
        let found = resolve(offers, wider).ok()?;
        let other = found.bundle.version.as_ref().filter(|other| is_newer(other))?;
        let is_asked_for = |name: &String| request.channels.is_empty() || request.channels.contains(name);
        Some(Newer {
            catalog: found.catalog,
            bundle: found.bundle,
            needs,
            is_out_of_range: request.version.is_some_and(|range| !range.contains(other)),
            is_out_of_channels: !found
                .package
                .channels_of(&found.bundle.name)
                .any(|channel| is_asked_for(&channel.name)),
        })
    })
}
