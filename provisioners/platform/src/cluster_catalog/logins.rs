//! The logins with which the image of a ClusterCatalog is pulled. Asks the API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use rukpak_crds::names::{PULL_SECRET, SECRET_HOSTS, TEKTON_REGISTRY};
use rukpak_crds::olm::{ClusterCatalog, rules};
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use rukpak_source::hosts::Hosts;
use rukpak_source::image::Credentials;

use crate::logins::Logins;

/// Where the logins of catalogs are.
pub(crate) struct CatalogLogins {
    client: Client,
    system_namespace: String,
    /// Those that all catalogs have.
    shared: Arc<Logins>,
}

impl CatalogLogins {
    /// Those of a file for all catalogs, and of Secrets in the system namespace.
    pub fn new(client: Client, system_namespace: &str, shared: Arc<Logins>) -> Self {
        Self { client, system_namespace: system_namespace.to_owned(), shared }
    }

    /// The logins in the Secret that the annotation of a catalog names, and after them those of all catalogs. Read anew each time.
    ///
    /// # Errors
    /// What is wrong with the Secret, without what it holds.
    pub async fn of(&self, catalog: &ClusterCatalog) -> Result<Credentials, String> {
        let shared = self.shared.current().await;
        let Some(name) = catalog.annotations().get(PULL_SECRET) else { return Ok(shared) };
        rules::check(&rules::PACKAGE_NAME, name)
            .map_err(|_| format!("annotation {PULL_SECRET}: {name:?} is no name of a Secret"))?;

        let what = format!("secret {}/{name}", self.system_namespace);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.system_namespace);
        let secret = secrets.get(name).await.map_err(api::Error::from);
        let secret = secret.map_err(|error| format!("annotation {PULL_SECRET}: get {what}: {}", Chain(&error)))?;
        let mut credentials = read(&secret).map_err(|why| format!("annotation {PULL_SECRET}: {what}: {why}"))?;
        credentials.extend(shared);
        Ok(credentials)
    }
}

/// The logins of a pull secret, which are sent to the hosts alone that its annotations name, if they name some: as those of Bundles.
fn read(secret: &Secret) -> Result<Credentials, String> {
    let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.as_slice());
    let read = match (data(".dockerconfigjson"), data(".dockercfg")) {
        (Some(json), _) => Credentials::from_docker_config_json(json),
        (None, Some(json)) => Credentials::from_dockercfg(json),
        (None, None) => return Err("it has no key .dockerconfigjson or .dockercfg".to_owned()),
    };
    let credentials = read.map_err(|error| format!("it cannot be used: {}", Chain(&error)))?;
    let hosts = Hosts::named(secret.annotations(), |key| key == SECRET_HOSTS || key.starts_with(TEKTON_REGISTRY))
        .map_err(|(annotation, error)| format!("its annotation {annotation}: {}", Chain(&error)))?;
    Ok(if hosts.is_empty() { credentials } else { credentials.only_for(&hosts) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOGIN: &str = r#"{"auths": {"r.example": {"username": "u", "password": "hush"}}}"#;

    fn secret(key: &str, value: &str, hosts: &str) -> Secret {
        let data = k8s_openapi::ByteString(value.as_bytes().to_vec());
        serde_json::from_value(json!({
            "metadata": {"name": "s", "annotations": {SECRET_HOSTS: hosts}}, "data": {key: data},
        }))
        .unwrap()
    }

    #[test]
    fn a_pull_secret_is_read_and_faults_are_told_without_what_it_holds() {
        assert!(!read(&secret(".dockerconfigjson", LOGIN, "r.example")).unwrap().is_anonymous());
        let old = r#"{"r.example": {"username": "u", "password": "hush"}}"#;
        assert!(!read(&secret(".dockercfg", old, "r.example")).unwrap().is_anonymous());
        let why = |key: &str, value: &str, hosts: &str| read(&secret(key, value, hosts)).err().unwrap();
        assert_eq!(why("password", LOGIN, "r.example"), "it has no key .dockerconfigjson or .dockercfg");
        let broken = why(".dockerconfigjson", "hush", "r.example");
        assert!(broken.starts_with("it cannot be used: ") && !broken.contains("hush"), "{broken}");
        let elsewhere = why(".dockerconfigjson", LOGIN, "https://");
        assert!(elsewhere.starts_with("its annotation core.rukpak.io/hosts: "), "{elsewhere}");
    }

    #[test]
    fn annotations_bound_where_a_login_is_sent() {
        let bound = |annotation: &str, hosts: &str| {
            let mut secret = secret(".dockerconfigjson", LOGIN, "");
            secret.annotations_mut().insert(annotation.to_owned(), hosts.to_owned());
            // Passwords are not shown, hosts are.
            format!("{:?}", read(&secret).unwrap())
        };
        let unbound = bound("tekton.dev/git-0", "https://only.example");
        assert_eq!(unbound, format!("{:?}", read(&secret(".dockerconfigjson", LOGIN, "")).unwrap()), "another use");
        for annotation in [SECRET_HOSTS, "tekton.dev/docker-0"] {
            let bound = bound(annotation, "https://only.example");
            assert!(bound.contains("only.example") && bound != unbound, "{annotation}: {bound}");
        }
    }
}
