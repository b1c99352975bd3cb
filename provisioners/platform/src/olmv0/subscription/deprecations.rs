//! What a catalog advises against, as the conditions of a Subscription tell it. Pure; types and messages are OLM's, which has no reasons.

use super::choose::Offer;

/// Types of the conditions. The last one has all messages.
pub(super) const TYPES: [&str; 4] = ["PackageDeprecated", "ChannelDeprecated", "BundleDeprecated", "Deprecated"];

/// Types of conditions that are True, each with its message.
pub(super) type Advice = Vec<(&'static str, String)>;

/// Returns what the catalog says of the package, of the channel that is named, if one is, and of the bundle that is installed; `None` if
/// there is no catalog that could be asked.
pub(super) fn advice(offer: Offer<'_>, channel: &str, installed: Option<&str>) -> Option<Advice> {
    let [of_package, of_channel, of_bundle, of_all] = TYPES;
    let package = match offer {
        Offer::NoCatalog => return None,
        // What it said while it had the package holds no longer.
        Offer::NoPackage => return Some(Advice::new()),
        Offer::Package(package) => package,
    };
    let channel = package.channels.get(channel);
    let bundle = installed.and_then(|name| package.bundles.get(name));
    let told = [
        (of_package, "olm.package", Some(&package.name), package.deprecation.as_ref()),
        (of_channel, "olm.channel", channel.map(|it| &it.name), channel.and_then(|it| it.deprecation.as_ref())),
        (of_bundle, "olm.bundle", bundle.map(|it| &it.name), bundle.and_then(|it| it.deprecation.as_ref())),
    ];
    let mut advice: Advice = told
        .into_iter()
        .filter_map(|(type_, schema, name, why)| Some((type_, format!("{schema}/{}: {}", name?, why?))))
        .collect();
    if !advice.is_empty() {
        let all: Vec<&str> = advice.iter().map(|(_, message)| message.as_str()).collect();
        let all = all.join("; ");
        advice.push((of_all, all));
    }
    Some(advice)
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::model::Channel;
    use rukpak_catalog::{Bundle, Package};

    use super::*;

    #[test]
    fn the_package_the_named_channel_and_what_is_installed_are_told_of() {
        let old = |what: &str| Some(format!("{what} is old"));
        let channel = Channel { name: "stable".to_owned(), deprecation: old("channel"), ..Channel::default() };
        let bundle = Bundle { name: "p.v1".to_owned(), deprecation: old("bundle"), ..Bundle::default() };
        let mut package = Package {
            name: "p".to_owned(),
            channels: [(channel.name.clone(), channel)].into(),
            bundles: [(bundle.name.clone(), bundle)].into(),
            deprecation: old("package"),
            ..Package::default()
        };
        let told = |package: &Package, channel: &str, installed: Option<&str>| {
            advice(Offer::Package(package), channel, installed).expect("the catalog has the package")
        };
        let types = |advice: &Advice| advice.iter().map(|(type_, _)| *type_).collect::<Vec<_>>();
        let all = told(&package, "stable", Some("p.v1"));
        assert_eq!(types(&all), TYPES);
        let text = "olm.package/p: package is old; olm.channel/stable: channel is old; olm.bundle/p.v1: bundle is old";
        assert_eq!(all.last().map(|(_, message)| message.as_str()), Some(text));
        assert_eq!(types(&told(&package, "", Some("p.v2"))), ["PackageDeprecated", "Deprecated"]);
        package.deprecation = None;
        assert_eq!(types(&told(&package, "", None)), [""; 0]);
    }
}
