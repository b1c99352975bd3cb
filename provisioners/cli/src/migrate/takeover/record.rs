//! What a take-over has to know of what was before: a ConfigMap in the namespace of the Subscription, written before anything else is
//! changed. With it the verb goes on after it was killed, and back.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::BundleDeployment;
use rukpak_plan::{Identity, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::marks::Marks;
use super::olm::identity;
use crate::answer::object_name;
use crate::cluster::{Cluster, Dependents};
use crate::failure::Failure;

/// On each of these ConfigMaps.
pub(super) const LABEL: &str = "core.rukpak.io/takeover";
const CONTENT: &str = "takeover.json.gz";
const STATE: &str = "state";
/// Longest content that is read; a ConfigMap holds 1 MiB of it compressed.
const CONTENT_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Forward,
    Done,
    Back,
}

/// Names an object, without asking whether its kind is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reference {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Of what is there.
    #[serde(default)]
    pub uid: String,
}

/// An object that is taken over, and what it loses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Left {
    pub object: Reference,
    pub marks: Marks,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub namespace: String,
    /// OLM's objects as they were.
    pub subscription: Value,
    pub csv: Value,
    pub group: Value,
    #[serde(default)]
    pub plan: Option<Value>,
    pub taken: Vec<Left>,
    /// Objects of the bundle that were not there.
    pub made: Vec<Reference>,
    /// Objects that go, as they were.
    pub removed: Vec<Value>,
    /// Objects that go, and that OLM makes again.
    pub swept: Vec<Reference>,
    pub deployment: BundleDeployment,
    /// Who shall have it; nobody if it is to stand alone, or is the Subscription's.
    #[serde(default)]
    pub owner: Option<Value>,
    /// Whether Subscription, InstallPlan and ClusterServiceVersion stay.
    #[serde(default)]
    pub stays: bool,
}

impl Reference {
    pub fn of(identity: &Identity, uid: &str) -> Self {
        Self {
            api_version: identity.kind.resource.api_version.clone(),
            kind: identity.kind.resource.kind.clone(),
            namespace: identity.namespace.clone(),
            name: identity.name.clone(),
            uid: uid.to_owned(),
        }
    }

    /// Names an object as it was.
    pub fn of_value(value: &Value) -> Self {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
        Self {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace,
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
        }
    }

    /// Looks the kind up; `None` if it is not served any more.
    pub async fn identity(&self, cluster: &Cluster) -> Result<Option<Identity>, Failure> {
        let kind = cluster.kind(&self.api_version, &self.kind).await?;
        Ok(kind.map(|kind| identity(&kind, self.namespace.as_deref(), &self.name)))
    }

    /// Finds the object, if it is there still.
    pub async fn find(&self, cluster: &Cluster) -> Result<Option<(Identity, DynamicObject)>, Failure> {
        let Some(identity) = self.identity(cluster).await? else { return Ok(None) };
        let live = cluster.live(&identity).await?.filter(|live| live.uid().as_ref() == Some(&self.uid));
        Ok(live.map(|live| (identity, live)))
    }

    /// As people write it: `deployment.apps/pump`.
    pub fn name(&self) -> String {
        object_name(self.api_version.split_once('/').map_or("", |(group, _)| group), &self.kind, &self.name)
    }
}

/// An object as it is put away: without what only its life in the API server has.
pub(super) fn bare(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["managedFields", "resourceVersion", "creationTimestamp", "generation", "selfLink"] {
            metadata.remove(key);
        }
    }
    value
}

/// The ConfigMap of a Subscription.
fn name_of(subscription: &str) -> String {
    format!("rukpak-takeover-{subscription}")
}

async fn config_maps(cluster: &Cluster) -> Result<Kind, Failure> {
    cluster.kind("v1", "ConfigMap").await?.ok_or_else(|| Failure::unknown("the cluster serves no ConfigMap"))
}

async fn place(cluster: &Cluster, namespace: &str, subscription: &str) -> Result<Identity, Failure> {
    Ok(identity(&config_maps(cluster).await?, Some(namespace), &name_of(subscription)))
}

/// The Subscriptions that are being taken over, or were: namespace and name.
pub(super) async fn all(cluster: &Cluster, namespace: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
    let found = cluster.all_of(&config_maps(cluster).await?, namespace, LABEL).await?;
    let prefix = name_of("");
    let named = |map: &DynamicObject| Some((map.namespace()?, map.name_any().strip_prefix(&prefix)?.to_owned()));
    Ok(found.iter().filter_map(named).collect())
}

/// Reads what is known of a take-over, if there is one.
pub(super) async fn find(
    cluster: &Cluster,
    namespace: &str,
    subscription: &str,
) -> Result<Option<(Record, State)>, Failure> {
    let identity = place(cluster, namespace, subscription).await?;
    let Some(map) = cluster.live(&identity).await? else { return Ok(None) };
    let unreadable = |why: String| Failure::unknown(format!("{identity} holds no take-over: {why}"));
    let text = map.data["binaryData"][CONTENT].as_str().unwrap_or_default();
    let packed = BASE64_STANDARD.decode(text).map_err(|error| unreadable(error.to_string()))?;
    let mut content = Vec::new();
    let read = GzDecoder::new(packed.as_slice()).take(CONTENT_BYTES).read_to_end(&mut content);
    read.map_err(|error| unreadable(error.to_string()))?;
    let record = serde_json::from_slice(&content).map_err(|error| unreadable(error.to_string()))?;
    let state = match map.data["data"][STATE].as_str() {
        Some("back") => State::Back,
        Some("done") => State::Done,
        _ => State::Forward,
    };
    Ok(Some((record, state)))
}

impl Record {
    /// The name of the Subscription.
    pub fn subscription_name(&self) -> &str {
        self.subscription["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// What is OLM's own and goes.
    pub fn gone(&self) -> Vec<Reference> {
        let own = [&self.subscription, &self.csv].into_iter().filter(|_| !self.stays);
        own.chain(&self.removed).map(Reference::of_value).chain(self.swept.iter().cloned()).collect()
    }

    /// The image that is installed.
    pub fn image(&self) -> &str {
        let image = self.deployment.spec.template.spec.source.image.as_ref();
        image.map_or("", |image| image.reference.as_str())
    }

    pub async fn create(&self, cluster: &Cluster) -> Result<(), Failure> {
        let identity = place(cluster, &self.namespace, self.subscription_name()).await?;
        let unpackable = |error: &dyn std::error::Error| Failure::unknown(format!("pack what was before: {error}"));
        let content = serde_json::to_vec(self).map_err(|error| unpackable(&error))?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&content).map_err(|error| unpackable(&error))?;
        let packed = packed.finish().map_err(|error| unpackable(&error))?;
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": identity.name, "namespace": self.namespace, "labels": {LABEL: ""}},
            "data": {
                STATE: "forward", "subscription": self.subscription_name(), "bundleDeployment": self.deployment.name_any(),
            },
            "binaryData": {CONTENT: BASE64_STANDARD.encode(packed)},
        });
        cluster.create_any(&identity, &map).await?;
        Ok(())
    }

    /// Notes how far it is.
    pub async fn note(&self, cluster: &Cluster, state: State) -> Result<(), Failure> {
        let identity = place(cluster, &self.namespace, self.subscription_name()).await?;
        let state = match state {
            State::Forward => "forward",
            State::Done => "done",
            State::Back => "back",
        };
        cluster.merge_any(&identity, &json!({"data": {STATE: state}})).await?;
        Ok(())
    }

    pub async fn delete(&self, cluster: &Cluster) -> Result<(), Failure> {
        let identity = place(cluster, &self.namespace, self.subscription_name()).await?;
        let Some(map) = cluster.live(&identity).await? else { return Ok(()) };
        cluster.delete_any(&identity, &map.uid().unwrap_or_default(), Dependents::Go).await?;
        Ok(())
    }
}
