//! Which bundle a BundleDeployment has installed, as the annotations of the template tell that installed it.

use std::collections::BTreeMap;

use kube::{Api, Client, ResourceExt};
pub(crate) use rukpak_crds::olm::BUNDLE_VERSION;
use rukpak_crds::olm::{BUNDLE_NAME, BUNDLE_REFERENCE, PACKAGE_NAME};
use rukpak_crds::{Bundle, BundleDeployment};
use rukpak_runtime::api::Error;
use serde::{Deserialize, Serialize};

/// Annotation: release of the bundle; only where the catalog tells one.
pub(crate) const BUNDLE_RELEASE: &str = "olm.operatorframework.io/bundle-release";

/// What a bundle is to the catalogs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Name of the package.
    pub package: String,
    /// Name of the bundle.
    pub name: String,
    /// Its version, as the catalog writes it.
    pub version: String,
    /// Its image, as the catalog names it.
    pub reference: String,
    /// The release of its packaging, if the catalog tells one.
    pub release: Option<String>,
}

impl Identity {
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let pairs = [
            (PACKAGE_NAME, &self.package),
            (BUNDLE_NAME, &self.name),
            (BUNDLE_VERSION, &self.version),
            (BUNDLE_REFERENCE, &self.reference),
        ];
        let release = self.release.iter().map(|release| (BUNDLE_RELEASE, release));
        pairs.into_iter().chain(release).map(|(key, value)| (key.to_owned(), value.clone())).collect()
    }

    /// From annotations; `None` if one is missing that every bundle has.
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let text = |key: &str| annotations.get(key).cloned();
        Some(Self {
            package: text(PACKAGE_NAME)?,
            name: text(BUNDLE_NAME)?,
            version: text(BUNDLE_VERSION)?,
            reference: text(BUNDLE_REFERENCE)?,
            release: text(BUNDLE_RELEASE),
        })
    }

    /// `message` with the bundle that it is about, in operator-controller's words.
    pub fn wrapped(&self, message: &str) -> String {
        format!("error for resolved bundle {:?} with version {:?}: {message}", self.name, self.version)
    }
}

/// What a BundleDeployment has installed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    Nothing,
    Bundle(Identity),
    /// Something, and nobody says what. Holds the name of its Bundle.
    Unknown(String),
}

/// What is installed. The history tells, also when the Bundle is gone, as after a rollback; a Bundle from before the history told does
/// so as long as it is there.
pub(crate) async fn look(deployment: Option<&BundleDeployment>, client: &Client) -> Result<Installed, Error> {
    let installed = deployment.map_or(Installed::Nothing, from_history);
    let Installed::Unknown(active) = &installed else { return Ok(installed) };
    let bundles: Api<Bundle> = Api::all(client.clone());
    let Some(bundle) = bundles.get_metadata_opt(active).await? else { return Ok(installed) };
    // Without annotations it was installed for somebody else, who has handed the BundleDeployment over.
    Ok(Identity::read(bundle.annotations()).map_or(Installed::Nothing, Installed::Bundle))
}

/// What the status tells of the active Bundle. Pure.
pub(crate) fn from_history(deployment: &BundleDeployment) -> Installed {
    let Some(status) = &deployment.status else { return Installed::Nothing };
    let Some(active) = &status.active_bundle else { return Installed::Nothing };
    let mut revisions = status.history.iter().filter(|revision| revision.bundle.as_ref() == Some(active));
    let identity = revisions.find_map(|revision| Identity::read(&revision.annotations));
    identity.map_or_else(|| Installed::Unknown(active.clone()), Installed::Bundle)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_history_tells_which_bundle_is_installed() {
        let identity = |version: &str| {
            let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
            let release = (version == "2.0.0").then(|| "3".to_owned());
            Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release }
        };
        let revision = |number: u8, bundle: &str, identity: Option<Identity>| {
            json!({"revision": number, "bundle": bundle, "contentDigest": "sha256:0a", "result": "Installed",
                   "time": "2026-01-01T00:00:00Z", "annotations": identity.map(|it| it.annotations()).unwrap_or_default()})
        };
        let look = |active: Option<&str>| {
            let deployment = serde_json::from_value(json!({
                "metadata": {"name": "e"},
                "spec": {"provisionerClassName": "c",
                         "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
                "status": {"activeBundle": active, "history": [
                    revision(3, "e-2", Some(identity("2.0.0"))),
                    revision(2, "e-1", Some(identity("1.0.0"))),
                    revision(1, "e-0", None),
                ]},
            }));
            from_history(&deployment.unwrap())
        };
        assert_eq!(look(Some("e-2")), Installed::Bundle(identity("2.0.0")));
        assert_eq!(look(Some("e-1")), Installed::Bundle(identity("1.0.0")), "its Bundle may be gone");
        assert_eq!(look(Some("e-0")), Installed::Unknown("e-0".to_owned()), "of an older program");
        assert_eq!(look(Some("e")), Installed::Unknown("e".to_owned()), "trimmed");
        assert_eq!(look(None), Installed::Nothing);
    }
}
