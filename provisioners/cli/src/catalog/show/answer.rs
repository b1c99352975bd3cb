//! A bundle, for people and for programs.

use std::io::{self, Write};

use rukpak_catalog::choose::Choice;
use rukpak_catalog::model::{Facts, Gvk, RequiredPackage};
use rukpak_catalog::{Bundle, Package};
use serde::Serialize;

use super::dependencies::Dependencies;
use super::upgrades::Upgrades;
use crate::table;

/// What `--output json` prints. Without a bundle it is name, `installable` and `refusal`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    package: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// Why it is this bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Whether a PlatformOperator would get it installed, as far as the catalog tells.
    pub(super) installable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deprecations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<FactLines>,
    /// What has to be installed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    dependencies: Option<Dependencies>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrades: Option<Upgrades>,
}

/// What the catalog states about the inside.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FactLines {
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// Absent if the catalog does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    install_modes: Option<Vec<String>>,
    provides: Vec<Api>,
    owned_api_services: Vec<String>,
    requires: Vec<Api>,
    requires_packages: Vec<Required>,
    constraints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_kube_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_openshift_version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    architectures: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operating_systems: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    features: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Api {
    group: String,
    version: String,
    kind: String,
}

#[derive(Debug, Serialize)]
struct Required {
    package: String,
    range: String,
}

impl Answer {
    pub(super) fn none(package: &str, why: &str) -> Self {
        Self { package: package.to_owned(), refusal: Some(why.to_owned()), ..Self::default() }
    }

    pub(super) fn new(
        package: &Package,
        choice: &Choice<'_>,
        bundle: Bundle,
        why: String,
        refusal: Option<String>,
        dependencies: Option<Dependencies>,
        upgrades: Option<Upgrades>,
    ) -> Self {
        Self {
            package: package.name.clone(),
            bundle: Some(bundle.name),
            version: Some(bundle.version_text).filter(|text| !text.is_empty()),
            channel: choice.channel.map(str::to_owned),
            default_channel: package.default_channel.clone(),
            image: bundle.image,
            why: Some(why),
            installable: refusal.is_none(),
            refusal,
            deprecations: choice.deprecations.clone(),
            facts: Some(FactLines::of(bundle.facts)),
            dependencies,
            upgrades,
        }
    }

    /// A line for each fact.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let text = |text: &Option<String>| vec![text.clone().unwrap_or_else(|| "-".to_owned())];
        let is_default = self.channel.is_some() && self.channel == self.default_channel;
        let channel = self.channel.as_ref().map(|name| format!("{name}{}", if is_default { " (default)" } else { "" }));
        let installable = self.refusal.as_ref().map_or("yes".to_owned(), |refusal| format!("no: {refusal}"));
        let mut facts = vec![
            ("package", vec![self.package.clone()]),
            ("bundle", text(&self.bundle)),
            ("version", text(&self.version)),
            ("channel", text(&channel)),
            ("image", text(&self.image)),
            ("why", text(&self.why)),
            ("installable", vec![installable]),
            ("deprecated", self.deprecations.clone()),
        ];
        facts.extend(self.facts.as_ref().map(FactLines::lines).unwrap_or_default());
        facts.extend(self.dependencies.as_ref().map(|found| ("dependencies", found.lines())));
        facts.extend(self.upgrades.as_ref().map(|upgrades| ("upgrades", upgrades.lines())));
        table::facts(out, &facts)
    }
}

impl FactLines {
    fn of(facts: Facts) -> Self {
        let apis = |all: Vec<Gvk>| all.into_iter().map(|Gvk { group, version, kind }| Api { group, version, kind });
        let required = |RequiredPackage { name: package, range }| Required { package, range };
        Self {
            display_name: facts.display_name,
            install_modes: facts.install_modes,
            provides: apis(facts.provides).collect(),
            owned_api_services: facts.owned_api_services,
            requires: apis(facts.requires).collect(),
            requires_packages: facts.requires_packages.into_iter().map(required).collect(),
            constraints: facts.constraints,
            min_kube_version: facts.min_kube_version,
            max_openshift_version: facts.max_openshift_version,
            architectures: facts.architectures,
            operating_systems: facts.operating_systems,
            features: facts.features,
        }
    }

    fn lines(&self) -> Vec<(&'static str, Vec<String>)> {
        let apis = |all: &[Api]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let modes =
            self.install_modes.as_ref().map_or("the catalog does not say".to_owned(), |modes| match &modes[..] {
                [] => "none".to_owned(),
                modes => modes.join(", "),
            });
        let joined = |all: &[&str]| if all.is_empty() { Vec::new() } else { vec![all.join(", ")] };
        let packages = self.requires_packages.iter();
        let packages = packages.map(|required| format!("package {} {}", required.package, required.range));
        let kubernetes = self.min_kube_version.iter().map(|version| format!("Kubernetes {version} or newer"));
        let openshift = self.max_openshift_version.iter().map(|version| format!("OpenShift {version} or older"));
        let needs = packages.chain(self.constraints.iter().cloned()).chain(apis(&self.requires));
        vec![
            ("display name", self.display_name.iter().cloned().collect()),
            ("install modes", vec![modes]),
            ("needs", needs.chain(kubernetes).chain(openshift).collect()),
            ("provides", apis(&self.provides)),
            ("api services", self.owned_api_services.clone()),
            ("architectures", joined(&self.architectures)),
            ("systems", joined(&self.operating_systems)),
            ("features", joined(&self.features)),
        ]
    }
}

impl std::fmt::Display for Api {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", [&self.group, &self.version].map(String::as_str).join("/"), self.kind)
    }
}
