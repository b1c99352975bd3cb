//! What OLM v0 has of a Subscription. Reads the cluster.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_plan::{Identity, Kind};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::failure::Failure;

/// API versions of OLM's kinds.
pub(super) const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
pub(super) const V1: &str = "operators.coreos.com/v1";
/// The group of all of them.
pub(super) const GROUP: &str = "operators.coreos.com";
/// With which OLM holds a ClusterServiceVersion until it has removed what no owner reference removes.
pub(super) const CLEANUP: &str = "operators.coreos.com/csv-cleanup";
/// On copies of a ClusterServiceVersion in namespaces that the operator watches: where the original is.
pub(super) const COPIED_FROM: &str = "olm.copiedFrom";
/// The namespaces that an operator watches; empty text means all.
pub(super) const TARGETS: &str = "olm.targetNamespaces";

/// The Deployments of OLM that act on Subscriptions and ClusterServiceVersions.
const PROGRAMS: [&str; 2] = ["olm-operator", "catalog-operator"];

/// OLM's kinds, as the cluster serves them.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    pub subscription: Kind,
    pub csv: Kind,
    pub plan: Kind,
    pub group: Kind,
    pub source: Kind,
    /// Older ones of OLM have none.
    pub operator: Option<Kind>,
}

/// A Subscription and what belongs to it.
#[derive(Debug)]
pub(super) struct Installed {
    pub namespace: String,
    pub subscription: DynamicObject,
    pub csv: Option<DynamicObject>,
    /// All OperatorGroups of the namespace.
    pub groups: Vec<DynamicObject>,
    /// All InstallPlans of the namespace.
    pub plans: Vec<DynamicObject>,
    /// The catalog that it follows.
    pub source: Option<DynamicObject>,
    /// What is installed in the cluster: all ClusterServiceVersions but for copies.
    pub csvs: Vec<DynamicObject>,
    /// The Subscriptions of the namespace.
    pub neighbours: Vec<DynamicObject>,
}

impl Kinds {
    pub async fn find(cluster: &Cluster) -> Result<Self, Failure> {
        let served = async |version: &str, kind: &str| {
            let found = cluster.kind(version, kind).await?;
            found.ok_or_else(|| Failure::no(format!("the cluster has no OLM v0: it serves no {kind} of {version}")))
        };
        Ok(Self {
            subscription: served(V1ALPHA1, "Subscription").await?,
            csv: served(V1ALPHA1, "ClusterServiceVersion").await?,
            plan: served(V1ALPHA1, "InstallPlan").await?,
            group: served(V1, "OperatorGroup").await?,
            source: served(V1ALPHA1, "CatalogSource").await?,
            operator: cluster.kind(V1, "Operator").await?,
        })
    }
}

/// Reads all that there is of a Subscription.
pub(super) async fn read(cluster: &Cluster, kinds: &Kinds, namespace: &str, name: &str) -> Result<Installed, Failure> {
    let place = Some(namespace);
    let found = cluster.live(&identity(&kinds.subscription, place, name)).await?;
    let subscription = found.ok_or_else(|| {
        Failure::no(format!("subscriptions.{GROUP} {name:?} not found in namespace {namespace:?}"))
            .hint("kubectl get subscriptions.operators.coreos.com -A")
    })?;
    let csv = match text(&subscription, "/status/installedCSV") {
        "" => None,
        csv => cluster.live(&identity(&kinds.csv, place, csv)).await?,
    };
    let (source, space) = (text(&subscription, "/spec/source"), text(&subscription, "/spec/sourceNamespace"));
    let source = cluster.live(&identity(&kinds.source, Some(space), source)).await?;
    Ok(Installed {
        namespace: namespace.to_owned(),
        csv,
        groups: cluster.all_of(&kinds.group, place, "").await?,
        plans: cluster.all_of(&kinds.plan, place, "").await?,
        source,
        csvs: cluster.all_of(&kinds.csv, None, &format!("!{COPIED_FROM}")).await?,
        neighbours: cluster.all_of(&kinds.subscription, place, "").await?,
        subscription,
    })
}

/// Refuses as long as a program of OLM runs: it would put back what is taken, and undo conversion webhooks with the
/// ClusterServiceVersion.
pub(super) async fn refuse_running(cluster: &Cluster) -> Result<(), Failure> {
    let Some(kind) = cluster.kind("apps/v1", "Deployment").await? else { return Ok(()) };
    let mut running = Vec::new();
    for program in PROGRAMS {
        // As OLM's manifests label them, upstream's and OpenShift's.
        let found = cluster.all_of(&kind, None, &format!("app={program}")).await?;
        running.extend(found.into_iter().filter(|found| found.name_any() == program && runs(found)));
    }
    let Some(first) = running.first() else { return Ok(()) };
    let names: Vec<String> = running.iter().map(|found| format!("deployment/{}", found.name_any())).collect();
    let space = first.namespace().unwrap_or_default();
    let text = format!("OLM runs ({} in namespace {space:?}): it would undo what is done here", names.join(", "));
    Err(Failure::no(text).hint(format!("kubectl -n {space} scale --replicas=0 {}", names.join(" "))))
}

fn runs(deployment: &DynamicObject) -> bool {
    let number = |pointer: &str| deployment.data.pointer(pointer).and_then(Value::as_i64);
    number("/spec/replicas") != Some(0) || number("/status/replicas").unwrap_or(0) > 0
}

pub(super) fn identity(kind: &Kind, namespace: Option<&str>, name: &str) -> Identity {
    let namespace = namespace.filter(|_| kind.namespaced).map(str::to_owned);
    Identity { kind: kind.clone(), namespace, name: name.to_owned() }
}

/// Names an object that was read.
pub(super) fn identity_of(kind: &Kind, object: &DynamicObject) -> Identity {
    identity(kind, object.metadata.namespace.as_deref(), &object.name_any())
}

/// The text at a pointer; empty if there is none.
pub(super) fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The elements at a pointer.
pub(super) fn list<'a>(object: &'a DynamicObject, pointer: &str) -> &'a [Value] {
    object.data.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The names of the CRDs that a ClusterServiceVersion owns, or requires.
pub(super) fn definitions<'a>(csv: &'a DynamicObject, which: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let listed = list(csv, &format!("/spec/customresourcedefinitions/{which}"));
    listed.iter().filter_map(|definition| definition["name"].as_str())
}
