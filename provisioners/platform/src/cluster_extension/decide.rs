//! What the BundleDeployment is to be. Pure; the cases and their order are operator-controller's.

use std::collections::BTreeMap;

use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::olm::cluster_extension::CatalogFilter;
use rukpak_plan::retry::Class;
use rukpak_runtime::api::Error;
use rukpak_runtime::error::Chain;

use super::progress::Progress;
use crate::installed::Identity;
use crate::owned::Existing;

/// What is clear before a catalog is asked.
pub(super) enum First<'a> {
    /// Nothing can be done: how far it is, and when to try again if nobody tells us.
    Told(Progress, Option<Class>),
    /// The BundleDeployment installs what operator-controller has installed.
    TakeOver(&'a Identity),
    /// What it installs the catalogs say.
    Ask(&'a CatalogFilter),
}

/// What the catalogs say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    Found {
        bundle: Identity,
        data: Deprecations,
        /// Whether packages that the bundle depends on were found installed.
        has_packages: bool,
    },
    Failed {
        message: String,
        /// Whether there is a catalog that could say more another time.
        has_catalog: bool,
    },
}

/// What a catalog advises against. What has no message is not deprecated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deprecations {
    pub package: Option<String>,
    pub channels: BTreeMap<String, String>,
    pub bundles: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The BundleDeployment installs this bundle.
    Apply {
        bundle: Identity,
        /// Whether packages that the bundle depends on were found installed.
        has_packages: bool,
    },
    /// It stays as it is, if it is there: what is installed is kept in order all the same.
    Leave { message: String },
}

impl Resolution {
    /// Adds what was done about what is missing. Returns when to try again if that is not known.
    pub fn explained(&mut self, obtained: &Result<String, Error>) -> Option<Class> {
        let Self::Failed { message, .. } = self else {
            return obtained.as_ref().err().map(|_| Class::Transient);
        };
        match obtained {
            Ok(text) if text.is_empty() => None,
            Ok(text) => {
                *message = format!("{message}; {text}");
                None
            }
            Err(error) => {
                *message = format!("{message}; what it depends on cannot be asked for: {}", Chain(error));
                Some(Class::Transient)
            }
        }
    }

    /// What is deprecated, if a catalog says.
    pub fn data(&self) -> Option<Deprecations> {
        match self {
            Self::Found { data, .. } => Some(data.clone()),
            Self::Failed { .. } => None,
        }
    }
}

/// What is clear from the extension, what has the name of its BundleDeployment, and what operator-controller has `left`.
pub(super) fn first<'a>(
    extension: &'a ClusterExtension,
    found: Result<Option<Existing>, Error>,
    left: Option<&'a Identity>,
) -> First<'a> {
    let filter = match extension.spec.catalog() {
        Ok(filter) => filter,
        Err(violation) => return First::Told(Progress::Blocked(violation.to_string()), None),
    };
    match found {
        Err(error) => First::Told(Progress::Retrying(Chain(&error).to_string()), Some(Class::Transient)),
        Ok(Some(Existing::Leaving(message))) => First::Told(Progress::RollingOut(message), None),
        Ok(Some(Existing::Foreign(message))) => First::Told(Progress::Retrying(message), None),
        Ok(Some(Existing::Ours(_)) | None) => left.map_or(First::Ask(filter), First::TakeOver),
    }
}

/// Without any catalog what is installed stays the choice, unless another version is asked for: its configuration can be changed
/// still. What it depends on was found installed when it was chosen, if it `had_packages`.
pub(super) fn decide(
    filter: &CatalogFilter,
    (installed, had_packages): (Option<&Identity>, bool),
    resolution: &Resolution,
) -> Next {
    match (resolution, installed) {
        (Resolution::Found { bundle, has_packages, .. }, _) => {
            Next::Apply { bundle: bundle.clone(), has_packages: *has_packages }
        }
        (Resolution::Failed { has_catalog: false, .. }, Some(installed)) if !asks_for_another(filter, installed) => {
            Next::Apply { bundle: installed.clone(), has_packages: had_packages }
        }
        (Resolution::Failed { message, .. }, _) => Next::Leave { message: message.clone() },
    }
}

/// By the text: a range asks for another version, even one that holds what is installed.
fn asks_for_another(filter: &CatalogFilter, installed: &Identity) -> bool {
    filter.version.as_ref().is_some_and(|version| !version.is_empty() && *version != installed.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(version: &str) -> Identity {
        let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
        Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release: None }
    }

    #[test]
    fn what_the_bundle_deployment_is_to_be() {
        let filter = |version: Option<&str>| CatalogFilter {
            package_name: "p".to_owned(),
            version: version.map(str::to_owned),
            ..CatalogFilter::default()
        };
        let failed = |has_catalog| Resolution::Failed { message: "m".to_owned(), has_catalog };
        let found = Resolution::Found { bundle: identity("2.0.0"), data: Deprecations::default(), has_packages: false };
        let leave = || Next::Leave { message: "m".to_owned() };
        let apply = |bundle, has_packages| Next::Apply { bundle, has_packages };
        let one = identity("1.0.0");
        let table = [
            ("a bundle, to begin with", None, None, &found, apply(identity("2.0.0"), false)),
            ("a bundle, in place of another", None, Some(&one), &found, apply(identity("2.0.0"), false)),
            ("nothing, and nothing is installed", None, None, &failed(true), leave()),
            ("no catalog, and nothing is installed", None, None, &failed(false), leave()),
            ("nothing this time", None, Some(&one), &failed(true), leave()),
            ("no catalog any more", None, Some(&one), &failed(false), apply(one.clone(), true)),
            ("no catalog, the same version", Some("1.0.0"), Some(&one), &failed(false), apply(one.clone(), true)),
            ("no catalog, another version", Some("2.0.0"), Some(&one), &failed(false), leave()),
            ("no catalog, a range", Some("1.x"), Some(&one), &failed(false), leave()),
        ];
        for (what, version, installed, resolution, expected) in table {
            assert_eq!(decide(&filter(version), (installed, true), resolution), expected, "{what}");
        }
    }
}
