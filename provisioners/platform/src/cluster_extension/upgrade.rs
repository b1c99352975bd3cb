//! `UpgradeAvailable`: a newer version that the extension does not take, and what keeps it. Pure.

use rukpak_catalog::Bundle;
use rukpak_catalog::resolve::{self, Needs, Newer, Offer, Request};

use crate::dependencies::dependents::would_break;
use crate::image;
use crate::installed::Identity;

const VERSION: &str = "VersionConstraint";
const CHANNELS: &str = "ChannelConstraint";
const POLICY: &str = "UpgradeConstraintPolicy";
const DEPENDENCIES: &str = "Dependencies";
const DEPENDENTS: &str = "Dependents";

/// Why else a version is not taken.
const UNMET: &str = "what it depends on is not installed";

/// Whether what a bundle depends on is installed.
pub(super) type AreMet<'a> = &'a (dyn Fn(&Bundle) -> bool + Send + Sync);
/// Whom a bundle would leave without what they need. In words.
pub(super) type Breaks<'a> = &'a (dyn Fn(&Bundle) -> Vec<String> + Send + Sync);

/// What is known of newer versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Upgrade {
    /// Not looked at: what was said of it stands.
    #[default]
    Unlooked,
    /// There is none, or it is on its way.
    Nothing,
    /// There is one, and why it is not taken.
    Available { reason: &'static str, message: String },
}

impl Upgrade {
    /// Whether there is a version that is not taken for what it needs, or for who needs the one that is installed.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Available { reason: DEPENDENCIES | DEPENDENTS, .. })
    }

    /// Says more of why it is not taken.
    pub fn add(&mut self, more: &str) {
        if let Self::Available { message, .. } = self {
            message.push_str("; ");
            message.push_str(more);
        }
    }
}

/// Looks for a version that is newer than `installed`, which is what is chosen, or stays because nothing is. One whose dependencies
/// are not installed is told of as well.
pub(super) fn look(
    offers: &[Offer<'_>],
    request: Request<'_>,
    installed: &Identity,
    (requires_digests, are_met, breaks): (bool, AreMet<'_>, Breaks<'_>),
) -> Upgrade {
    let can_be_had = |newer: &Newer<'_>| {
        let (name, image) = (&newer.bundle.name, newer.bundle.image.as_deref());
        !requires_digests || image::require_digest(newer.catalog, name, image).is_ok()
    };
    let whatever_it_needs = Request { ignores_dependencies: true, ..request };
    let newer = resolve::newer(offers, whatever_it_needs).filter(can_be_had);
    let Some(newer) = newer else { return Upgrade::Nothing };
    let (bundle, catalog) = (newer.bundle, newer.catalog);
    let which = format!("Version {} ({}) of catalog {catalog:?}", bundle.version_text, bundle.name);
    let left_out = left_out(&newer, request);
    let is_unmet = !request.ignores_dependencies && !are_met(bundle);
    let broken = breaks(bundle);

    let (reason, message) = match newer.needs {
        Needs::Version if left_out.is_empty() && !broken.is_empty() => {
            (DEPENDENTS, format!("{which} can replace version {}; {}", installed.version, would_break(&broken)))
        }
        Needs::Version if left_out.is_empty() && is_unmet => {
            (DEPENDENCIES, format!("{which} can replace version {}; {UNMET}", installed.version))
        }
        Needs::Version => (VERSION, format!("{which} can replace version {}; {left_out}", installed.version)),
        Needs::Channels => (CHANNELS, format!("{which} can replace version {}; {left_out}", installed.version)),
        Needs::SelfCertification => {
            let more = if left_out.is_empty() { String::new() } else { format!("; {left_out}") };
            let message = format!(
                "{which} is newer than version {}, and no upgrade of the catalog leads to it from {}: it takes \
                 spec.source.catalog.upgradeConstraintPolicy SelfCertified, on your own authority{more}",
                installed.version, installed.name
            );
            (POLICY, message)
        }
    };
    let is_said = [DEPENDENCIES, DEPENDENTS].contains(&reason) || !is_unmet;
    let message = if is_said { message } else { format!("{message}; {UNMET}") };
    Upgrade::Available { reason, message }
}

/// The fields of the spec that leave it out; empty if none does.
fn left_out(newer: &Newer<'_>, request: Request<'_>) -> String {
    let version = request.version.filter(|_| newer.is_out_of_range);
    let version = version.map(|range| format!("spec.source.catalog.version {:?}", range.as_str()));
    let channels =
        newer.is_out_of_channels.then(|| format!("spec.source.catalog.channels [{}]", request.channels.join(" ")));
    match (version, channels) {
        (None, None) => String::new(),
        (Some(one), None) | (None, Some(one)) => format!("{one} leaves it out"),
        (Some(version), Some(channels)) => format!("{version} and {channels} leave it out"),
    }
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::model::{Channel, Entry, Package};
    use rukpak_catalog::resolve::Installed;
    use rukpak_catalog::version::Constraint;

    use super::*;

    /// 1.0.0 -> 1.1.0 in stable, and 2.0.0 without an edge in fast.
    fn package() -> Package {
        let mut package = Package { name: "p".to_owned(), ..Package::default() };
        for (channel, version, replaces) in
            [("stable", "1.0.0", None), ("stable", "1.1.0", Some("p.v1.0.0")), ("fast", "2.0.0", None)]
        {
            let name = format!("p.v{version}");
            let image = Some(format!("r.example/p:{version}"));
            let bundle = Bundle {
                name: name.clone(),
                image,
                version: version.parse().ok(),
                version_text: version.to_owned(),
                ..Bundle::default()
            };
            package.bundles.insert(name.clone(), bundle);
            let entry = Entry { name, replaces: replaces.map(str::to_owned), ..Entry::default() };
            let new = || Channel { name: channel.to_owned(), ..Channel::default() };
            package.channels.entry(channel.to_owned()).or_insert_with(new).entries.push(entry);
        }
        package
    }

    #[test]
    fn a_newer_version_is_told_with_the_fields_that_leave_it_out() {
        let package = package();
        let offers = [Offer { catalog: "c", priority: 0, package: &package }];
        let pin = Constraint::parse("1.0.0").unwrap();
        let (none, fast): ([String; 0], _) = ([], ["fast".to_owned()]);
        let told_with = |version: &str,
                         pin: Option<&Constraint>,
                         channels: &[String],
                         requires_digests,
                         is_met,
                         broken: &[String]| {
            let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
            let installed =
                Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release: None };
            let from = Installed { name: &installed.name, version, release: None };
            let request = Request {
                package: "p",
                version: pin,
                channels,
                installed: Some(from),
                is_self_certified: false,
                ignores_dependencies: false,
            };
            match look(&offers, request, &installed, (requires_digests, &|_| is_met, &|_| broken.to_vec())) {
                Upgrade::Available { reason, message } => format!("{reason}: {message}"),
                other => format!("{other:?}"),
            }
        };
        let told = |version: &str, pin: Option<&Constraint>, channels: &[String], requires_digests: bool| {
            told_with(version, pin, channels, requires_digests, true, &[])
        };
        let can = "Version 1.1.0 (p.v1.1.0) of catalog \"c\" can replace version 1.0.0; ";
        let (version, channels) = ("spec.source.catalog.version \"1.0.0\"", "spec.source.catalog.channels [fast]");
        assert_eq!(told("1.0.0", Some(&pin), &none, false), format!("VersionConstraint: {can}{version} leaves it out"));
        assert_eq!(told("1.0.0", None, &fast, false), format!("ChannelConstraint: {can}{channels} leaves it out"));
        let both = format!("ChannelConstraint: {can}{version} and {channels} leave it out");
        assert_eq!(told("1.0.0", Some(&pin), &fast, false), both);
        let jump = told("1.1.0", None, &none, false);
        let start = "UpgradeConstraintPolicy: Version 2.0.0 (p.v2.0.0) of catalog \"c\" is newer than version 1.1.0, and no \
                     upgrade of the catalog leads to it from p.v1.1.0: ";
        assert!(jump.starts_with(start) && jump.contains("SelfCertified"), "{jump}");
        assert_eq!(told("2.0.0", None, &none, false), "Nothing");
        assert_eq!(told("1.0.0", Some(&pin), &none, true), "Nothing", "its image has no digest");
        let unmet = "what it depends on is not installed";
        assert_eq!(told_with("1.0.0", None, &none, false, false, &[]), format!("Dependencies: {can}{unmet}"));
        let both = format!("VersionConstraint: {can}{version} leaves it out; {unmet}");
        assert_eq!(told_with("1.0.0", Some(&pin), &none, false, false, &[]), both);
        let broken = ["ClusterExtension q (why)".to_owned()];
        let told = told_with("1.0.0", None, &none, false, true, &broken);
        assert!(
            told.starts_with(&format!("Dependents: {can}it would leave without what they need: {}; ", broken[0])),
            "{told}"
        );
    }
}
