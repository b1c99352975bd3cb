//! Installs the project's own manifests, with exactly the two changes that a bare control plane asks for: Services that the API
//! server calls become an `ExternalName` of `localhost`, and what leads to them names the port where our program listens.

use std::fs::DirEntry;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::kubeconfig::{Credential, write_kubeconfig};
use super::{Plane, yaml};
use crate::process::PLATFORM_ACCOUNT;
use crate::{tools, verbs};

/// The namespace of the system, as the manifests name it.
pub const SYSTEM_NAMESPACE: &str = "rukpak-system";
/// ServiceAccount of the controller.
pub const CONTROLLER_ACCOUNT: &str = "core-admin";
/// ServiceAccount of the webhook.
pub const WEBHOOK_ACCOUNT: &str = "rukpak-webhooks-admin";
/// Services that webhook configurations and the APIService point to.
const SERVICES: [&str; 2] = ["rukpak-webhook-service", "rukpak-packages-service"];
/// Life of a ServiceAccount's token; longer than any test run.
const TOKEN_SECONDS: i64 = 24 * 3600;
/// Shortest life of a token that the API server grants.
const BOUND_TOKEN_SECONDS: i64 = 600;
/// Longest wait for a CRD to be served.
const ESTABLISHED_DEADLINE: Duration = Duration::from_mins(2);

/// What to install.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    /// Files of YAML objects, applied together in an order of their kinds. Default: `manifests/install.yaml`.
    pub files: Vec<PathBuf>,
    /// Leave webhook configurations out: for tests of the controller alone.
    pub without_webhooks: bool,
    /// The ServiceAccounts of the system namespace to make kubeconfigs for.
    pub accounts: Vec<String>,
    /// Install the Deployments with no replicas: on a cluster with nodes, where the programs run outside of it.
    pub without_pods: bool,
}

/// What has been installed.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Where webhook configurations expect the webhook.
    pub webhook_port: u16,
    /// Where the APIService expects PackageManifests.
    pub packages_port: u16,
    /// What was applied, in order.
    pub objects: Vec<verbs::Target>,
}

impl Default for InstallOptions {
    fn default() -> Self {
        Self {
            files: vec![tools::workspace_folder().join("manifests/install.yaml")],
            without_webhooks: false,
            accounts: vec![CONTROLLER_ACCOUNT.to_owned(), WEBHOOK_ACCOUNT.to_owned()],
            without_pods: false,
        }
    }
}

impl InstallOptions {
    /// The default, and `rukpak-platform`, which installs packages by name.
    pub fn with_platform() -> Self {
        let mut options =
            Self { files: vec![tools::workspace_folder().join("manifests/install-platform.yaml")], ..Self::default() };
        options.accounts.push(PLATFORM_ACCOUNT.to_owned());
        options
    }

    /// The same, and OLM v1's kinds.
    pub fn with_olm() -> Self {
        let files = vec![tools::workspace_folder().join("manifests/install-olm.yaml")];
        Self { files, ..Self::with_platform() }
    }

    /// `rukpak-platform` and OLM v0's kinds.
    pub fn with_olmv0() -> Self {
        let files = vec![tools::workspace_folder().join("manifests/install-olmv0.yaml")];
        Self { files, ..Self::with_platform() }
    }

    /// Only the CRDs, as generated, and no accounts: for tests of the API schema.
    pub fn only_crds() -> Result<Self> {
        let folder = tools::workspace_folder().join("crds/generated");
        let mut files: Vec<PathBuf> = tools::listing(&folder)?.iter().map(DirEntry::path).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        Ok(Self { files, without_webhooks: true, accounts: Vec::new(), without_pods: false })
    }
}

impl Plane {
    /// Applies the manifests as the administrator, waits until the CRDs are served, and writes a kubeconfig for each account.
    pub async fn install(&self, options: &InstallOptions) -> Result<Installed> {
        let client = self.admin().await?;
        let earlier = self.installed()?;
        let is_first = earlier.is_none();
        let mut installed = match earlier {
            Some(installed) => installed,
            None => {
                Installed { webhook_port: tools::free_port()?, packages_port: tools::free_port()?, objects: Vec::new() }
            }
        };
        installed.objects.clear();
        let mut objects = Vec::new();
        for file in &options.files {
            objects.extend(yaml::objects_of_file(file)?);
        }
        objects.retain(|object| !(options.without_webhooks && kind(object).ends_with("WebhookConfiguration")));
        objects.sort_by_key(|object| rank(kind(object)));
        for object in &mut objects {
            adapt(object, &installed, options);
            let value = serde_json::to_value(&*object)?;
            verbs::apply(&client, &value).await?;
            installed.objects.push(verbs::Target::of(&value)?);
            if kind(object) == "CustomResourceDefinition" {
                await_established(&client, object).await?;
            }
        }
        if is_first {
            self.introduce_kinds().await?;
        }
        for account in &options.accounts {
            self.write_account_kubeconfig(&client, SYSTEM_NAMESPACE, account).await?;
        }
        *self.installed.lock().map_err(|_| anyhow::anyhow!("another thread panicked while it installed"))? =
            Some(installed.clone());
        Ok(installed)
    }

    /// What [`Plane::install`] has installed so far.
    pub fn installed(&self) -> Result<Option<Installed>> {
        Ok(self.installed.lock().map_err(|_| anyhow::anyhow!("another thread panicked while it installed"))?.clone())
    }

    /// Where the kubeconfig of a ServiceAccount of the system namespace is.
    pub fn account_kubeconfig(&self, account: &str) -> PathBuf {
        self.folder().join(format!("{account}.kubeconfig"))
    }

    /// A client with the rights of a ServiceAccount that was named at the installation.
    pub async fn as_account(&self, account: &str) -> Result<Client> {
        self.client(&self.account_kubeconfig(account)).await
    }

    /// Asks for a token of a ServiceAccount and writes a kubeconfig with it; returns its path.
    pub async fn write_account_kubeconfig(&self, client: &Client, namespace: &str, account: &str) -> Result<PathBuf> {
        let token = token(client, namespace, account).await?;
        let ca_pem = std::fs::read_to_string(self.certificate_authority_path()).context("read the API server's CA")?;
        let path = self.account_kubeconfig(account);
        write_kubeconfig(&path, self.server(), &ca_pem, &Credential::Token(&token), namespace)?;
        Ok(path)
    }
}

impl Plane {
    /// Writes a kubeconfig for a ServiceAccount of the system namespace that leads to `server` in place of the API server; returns
    /// its path.
    pub async fn kubeconfig_through(&self, account: &str, server: &str, ca_pem: &str) -> Result<PathBuf> {
        let token = token(&self.admin().await?, SYSTEM_NAMESPACE, account).await?;
        let path = self.account_kubeconfig(&format!("{account}-through-proxy"));
        write_kubeconfig(&path, server, ca_pem, &Credential::Token(&token), SYSTEM_NAMESPACE)?;
        Ok(path)
    }
}

/// A token of a ServiceAccount, by the TokenRequest API.
pub async fn token(client: &Client, namespace: &str, account: &str) -> Result<String> {
    let spec = json!({ "audiences": [], "expirationSeconds": TOKEN_SECONDS });
    requested_token(client, namespace, account, spec).await
}

/// A token of a ServiceAccount that counts as long as a Pod is there, and no longer than the shortest time that is granted: as the kubelet
/// asks for it.
pub async fn token_of_pod(client: &Client, namespace: &str, account: &str, pod: &DynamicObject) -> Result<String> {
    let bound = json!({ "apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid });
    let spec = json!({ "audiences": [], "expirationSeconds": BOUND_TOKEN_SECONDS, "boundObjectRef": bound });
    requested_token(client, namespace, account, spec).await
}

async fn requested_token(client: &Client, namespace: &str, account: &str, spec: Value) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request: TokenRequest = serde_json::from_value(json!({ "spec": spec }))?;
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let answer = answer.with_context(|| format!("ask for a token of ServiceAccount {namespace}/{account}"))?;
    answer.status.and_then(|status| status.token).context("the answer holds no token")
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| types.kind.as_str())
}

/// What must exist before what.
fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "ServiceAccount" => 2,
        "ClusterRole" | "Role" => 3,
        "ClusterRoleBinding" | "RoleBinding" => 4,
        kind if kind.ends_with("WebhookConfiguration") => 9,
        _ => 5,
    }
}

fn adapt(object: &mut DynamicObject, installed: &Installed, options: &InstallOptions) {
    let kind = kind(object).to_owned();
    if kind == "Deployment" && options.without_pods {
        object.data["spec"]["replicas"] = json!(0);
    }
    if kind == "Service" && object.metadata.name.as_deref().is_some_and(|name| SERVICES.contains(&name)) {
        object.data["spec"] = json!({ "type": "ExternalName", "externalName": "localhost" });
    }
    if kind == "APIService" {
        object.data["spec"]["service"]["port"] = json!(installed.packages_port);
    }
    if kind.ends_with("WebhookConfiguration") {
        for webhook in object.data["webhooks"].as_array_mut().into_iter().flatten() {
            if let Some(service) = webhook.pointer_mut("/clientConfig/service").and_then(Value::as_object_mut) {
                service.insert("port".to_owned(), json!(installed.webhook_port));
            }
        }
    }
}

async fn await_established(client: &Client, object: &DynamicObject) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = object.metadata.name.as_deref().context("a CRD has no name")?;
    let wait = await_condition(crds, name, conditions::is_crd_established());
    let established = tokio::time::timeout(ESTABLISHED_DEADLINE, wait).await;
    let crd = established.with_context(|| format!("CRD {name} is not served after {ESTABLISHED_DEADLINE:?}"))??;
    let spec = crd.with_context(|| format!("CRD {name} went away"))?.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let api_version = format!("{}/{}", spec.group, version.name);
        verbs::await_served(client, &api_version, &spec.names.kind, ESTABLISHED_DEADLINE).await?;
    }
    Ok(())
}
