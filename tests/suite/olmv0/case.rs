//! One operator that OLM has installed, and what must stay of it.

use std::collections::BTreeMap;
use std::ops::Deref;

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::installation::Installation;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::olmv0::{Operator, Subscribed};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{Documents, ImageBuilder, fixtures};
use serde_json::{Value, json};

use super::world::{CATALOG, Did, World};

/// Kinds of which every object has to stay.
const STAYING: [&str; 7] =
    ["CustomResourceDefinition", "Deployment", "ServiceAccount", "Service", "Secret", "ConfigMap", "OperatorCondition"];

/// Kinds of OLM's own that are there still where the Subscription stays.
const FOLLOWED: [&str; 5] = ["OperatorGroup", "Subscription", "InstallPlan", "ClusterServiceVersion", "Operator"];

/// What a test works on. What it does with an object, it does as with a BundleDeployment of the name of the package.
pub struct Case<'a> {
    pub world: &'a World,
    pub operator: Operator,
    /// The images of the versions.
    pub images: Vec<String>,
    deployment: Installation,
    _kubelet: Kubelet,
}

impl Deref for Case<'_> {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.deployment
    }
}

/// How the operator is installed.
pub struct Given {
    /// The fixture.
    pub fixture: &'static str,
    pub targets: Vec<String>,
    pub approval: &'static str,
    pub config: Value,
    /// Whether the InstallPlan names the image.
    pub has_lookup: bool,
}

impl Default for Given {
    fn default() -> Self {
        let targets = vec![String::new()];
        Self { fixture: "registry/pump", targets, approval: "Manual", config: Value::Null, has_lookup: true }
    }
}

/// The files of a fixture in version 1.0.0 or 1.1.0, as a package of its own.
pub fn files(fixture: &str, suffix: &str, package: &str, version: &str) -> Vec<(String, String)> {
    let is_versioned = fixtures::folder(&format!("{fixture}/v1")).is_ok();
    let name = match (is_versioned, version) {
        (true, "1.0.0") => format!("{fixture}/v1"),
        (true, _) => format!("{fixture}/v2"),
        (false, _) => fixture.to_owned(),
    };
    let mut files = fixtures::renamed(&name, suffix).expect("the fixture is there");
    for (_, text) in &mut files {
        *text = text.replace("pump-operator", package).replace(&format!("rukpak-example-{suffix}"), package);
        // Several of them may be in one namespace.
        *text = text
            .replace("pump-manager", &format!("{package}-manager"))
            .replace("app: pump}", &format!("app: {package}}}"));
        // The CSV's annotation, which OLM lets win over that of the template.
        *text = text.replace("annotations: {capabilities: of the template}", "annotations: {}");
        if !is_versioned {
            *text = text.replace("1.0.0", version);
        }
    }
    files
}

impl<'a> Case<'a> {
    /// An operator that OLM has installed in version 1.0.0; the catalog has 1.1.0 as well.
    pub async fn new(world: &'a World, prefix: &str, given: Given) -> Self {
        let name = verbs::unique_name(prefix);
        Self::named(world, &name, &name, given).await
    }

    /// The same for a package, in a namespace that may have others.
    pub async fn named(world: &'a World, package: &str, namespace: &str, given: Given) -> Self {
        let client = world.admin().await;
        let mut images = Vec::new();
        for version in ["1.0.0", "1.1.0"] {
            let image = ImageBuilder::of_files(files(given.fixture, package, package, version));
            let pushed = world.registry.push(package, &format!("v{version}"), &image).await;
            images.push(pushed.expect("the registry takes it").reference);
        }
        let pairs = [("1.0.0", images[0].as_str()), ("1.1.0", images[1].as_str())];
        world.source.publish(&client, package, Documents::package(package, &pairs)).await;
        let targets = given.targets.iter().map(|target| target.replace("OWN", namespace)).collect();
        let subscribed = Subscribed {
            namespace: namespace.to_owned(),
            package: package.to_owned(),
            targets,
            catalog: (CATALOG.0.to_owned(), CATALOG.1.to_owned()),
            approval: given.approval.to_owned(),
            config: given.config,
        };
        let image = if given.has_lookup { images[0].as_str() } else { "" };
        let installed = files(given.fixture, package, package, "1.0.0");
        let kubelet = Kubelet::play(client.clone(), namespace);
        let operator = Operator::install(&client, &installed, image, subscribed).await;
        let deployment = Installation { client, name: package.to_owned() };
        let case = Self { world, operator, images, deployment, _kubelet: kubelet };
        case.until_rolled_out().await;
        case
    }

    async fn until_rolled_out(&self) {
        for (target, _) in self.of_kind("Deployment") {
            let is_there = |object: &DynamicObject| object.data["status"]["availableReplicas"] == 1;
            self.until_object(target, "its Pod", is_there).await;
        }
    }

    /// Deletes what makes work for the whole cluster: each definition brings roles that are aggregated into those of everybody, and
    /// every one of these is written anew for each.
    pub async fn end(self) {
        for target in [self.operator.subscription_target(), self.platform(), self.held(), self.target()] {
            self.delete(&target).await;
        }
        for (definition, _) in self.of_kind("CustomResourceDefinition") {
            self.delete(definition).await;
        }
    }

    /// What OLM has made of a kind.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &(Target, String)> {
        self.operator.uids.values().filter(move |(target, _)| target.kind == kind)
    }

    /// Names the PlatformOperator.
    pub fn platform(&self) -> Target {
        rukpak_tests::openshift::platform_operator(&self.name)
    }

    /// Names the namespace.
    pub fn space(&self) -> &str {
        &self.operator.subscribed.namespace
    }

    /// Runs `rukpakctl migrate` on the Subscription.
    pub async fn migrate(&self, arguments: &[&str]) -> Did {
        let object = format!("subscription/{}", self.name);
        self.world.migrate(&[&[object.as_str(), "-n", self.space()], arguments].concat()).await
    }

    /// Runs it, and expects that it does what it is asked for.
    pub async fn migrated(&self, arguments: &[&str]) -> Did {
        let did = self.migrate(arguments).await;
        assert_eq!(did.code, Some(0), "{did:?}");
        did
    }

    /// Merges a status into an object.
    pub async fn say(&self, target: &Target, status: Value) {
        let api = target.api(&self.client).await.expect("it is served");
        let patch = json!({ "status": status });
        api.patch_status(&target.name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("it takes a status");
    }

    /// What runs of it.
    pub async fn running(&self) -> BTreeMap<String, Value> {
        running(&self.client, &self.operator).await
    }

    /// The BundleDeployment that its Subscription has, if that stays.
    pub fn held(&self) -> Target {
        let name = format!("{}.{}", self.name, self.space());
        Target { name, ..self.target() }
    }

    /// Everything of OLM's goes on as the Subscription's.
    pub async fn is_followed(&self) {
        self.stays().await;
        is_followed(&self.client, &self.operator, &self.held()).await;
    }

    /// Everything that has to stay is the same object still.
    pub async fn stays(&self) {
        for (target, uid) in self.operator.uids.values().filter(|(target, _)| STAYING.contains(&target.kind.as_str())) {
            let object = self.find(target).await.unwrap_or_else(|| panic!("{target} is gone"));
            assert_eq!(object.metadata.uid.as_ref(), Some(uid), "{target} was made anew");
            assert!(object.metadata.deletion_timestamp.is_none(), "{target} is being deleted");
        }
    }

    /// Nothing is OLM's any more: it is the BundleDeployment's, or gone.
    pub async fn is_taken_over(&self) {
        self.stays().await;
        let deployment = self.get(&self.target()).await;
        for (target, uid) in self.operator.uids.values() {
            // The garbage collector takes it after its Subscription.
            let Some(object) = self.find(target).await.filter(|_| target.kind != "InstallPlan") else { continue };
            if ["Namespace", "OperatorGroup", "OperatorCondition"].contains(&target.kind.as_str())
                || is_of_condition(self, target)
            {
                let owners = object.metadata.owner_references.unwrap_or_default();
                assert!(owners.iter().all(|owner| owner.kind != "ClusterServiceVersion"), "{target}: {owners:?}");
                continue;
            }
            assert_eq!(object.metadata.uid.as_ref(), Some(uid), "{target}");
            let owners = object.metadata.owner_references.unwrap_or_default();
            let owner = owners.iter().find(|owner| owner.controller == Some(true));
            let owner = owner.unwrap_or_else(|| panic!("{target} belongs to nobody: {owners:?}"));
            assert_eq!(Some(&owner.uid), deployment.metadata.uid.as_ref(), "{target}");
            assert!(owners.iter().all(|owner| owner.kind != "ClusterServiceVersion"), "{target}: {owners:?}");
            let labels = object.metadata.labels.unwrap_or_default();
            let left: Vec<&String> =
                labels.keys().filter(|key| key.starts_with("olm.") || key.contains("operators.coreos.com")).collect();
            assert!(left.is_empty(), "{target}: {left:?}");
        }
        for target in [self.operator.subscription_target(), self.operator.csv_target()] {
            assert!(self.find(&target).await.is_none(), "{target} is there still");
        }
    }

    /// OLM has everything as it had.
    pub async fn is_olms(&self) {
        self.stays().await;
        let csv = self.get(&self.operator.csv_target()).await;
        assert_eq!(csv.data["status"]["phase"], "Succeeded");
        assert_eq!(csv.metadata.finalizers.as_deref(), Some(&["operators.coreos.com/csv-cleanup".to_owned()][..]));
        let subscription = self.get(&self.operator.subscription_target()).await;
        assert_eq!(subscription.data["status"]["installedCSV"], json!(self.operator.csv));
        for (target, _) in self.operator.uids.values() {
            // OLM makes these anew.
            let is_swept = ["Operator", "InstallPlan"].contains(&target.kind.as_str())
                || (target.kind == "ClusterServiceVersion" && target.namespace.as_deref() != Some(self.space()));
            if is_swept {
                continue;
            }
            let object = self.find(target).await.unwrap_or_else(|| panic!("{target} did not come back"));
            let owners = object.metadata.owner_references.unwrap_or_default();
            assert!(owners.iter().all(|owner| owner.kind != "BundleDeployment"), "{target}: {owners:?}");
            if let Some(owner) = owners.iter().find(|owner| owner.kind == "ClusterServiceVersion") {
                assert_eq!(Some(&owner.uid), csv.metadata.uid.as_ref(), "{target}");
            }
            if target.kind == "Deployment" {
                assert!(owners.iter().any(|owner| owner.kind == "ClusterServiceVersion"), "{target} has no owner");
                let labels = object.metadata.labels.unwrap_or_default();
                assert_eq!(labels.get("olm.owner"), Some(&self.operator.csv));
                assert_eq!(labels.get("olm.deployment-spec-hash").map(String::as_str), Some("6Rz"));
            }
        }
        for target in [self.target(), self.held()] {
            assert!(self.find(&target).await.is_none(), "{target} is there still");
        }
        let said = csv.metadata.annotations.unwrap_or_default();
        assert!(!said.contains_key("core.rukpak.io/deployment-uid"), "{said:?}");
        let left = self.owned("rbac.authorization.k8s.io/v1", "ClusterRole").await;
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Whether it is what lets the operator write its OperatorCondition.
fn is_of_condition(case: &Case<'_>, target: &Target) -> bool {
    ["Role", "RoleBinding"].contains(&target.kind.as_str()) && target.name == case.operator.csv
}

/// Pods, ReplicaSets, and the spec of each Deployment: what changes when Pods are replaced. (The generation of a Deployment counts
/// changes of its annotations, too.)
pub async fn running(client: &Client, operator: &Operator) -> BTreeMap<String, Value> {
    let mut running = BTreeMap::new();
    for (version, kind) in [("v1", "Pod"), ("apps/v1", "ReplicaSet")] {
        for object in verbs::list(client, version, kind, "").await.expect("a list") {
            if object.metadata.namespace.as_ref() == Some(&operator.subscribed.namespace) {
                let name = object.metadata.name.unwrap_or_default();
                running.insert(format!("{kind} {name}"), json!(object.metadata.uid));
            }
        }
    }
    for (target, _) in operator.uids.values().filter(|(target, _)| target.kind == "Deployment") {
        let object = verbs::get(client, target).await.expect("an answer").expect("it is there");
        running.insert(target.to_string(), object.data["spec"].clone());
    }
    assert!(running.len() > 2, "{running:#?}");
    running
}

/// What people write and what OLM has written for them is there as it was, and what is installed is the BundleDeployment's.
pub async fn is_followed(client: &Client, operator: &Operator, held: &Target) {
    let find = async |target: &Target| verbs::get(client, target).await.expect("an answer");
    let deployment = find(held).await.expect("the BundleDeployment is there");
    let uid = deployment.metadata.uid.expect("it has one");
    for (target, before) in operator.uids.values() {
        let found = find(target).await;
        let is_copy =
            target.kind == "ClusterServiceVersion" && target.name == operator.csv && *target != operator.csv_target();
        assert!(!is_copy || found.is_none(), "{target} is there still");
        let is_kept = FOLLOWED.contains(&target.kind.as_str()) && !is_copy;
        assert!(!is_kept || found.is_some(), "{target} is gone");
        let Some(object) = found else { continue };
        assert_eq!(object.metadata.uid.as_ref(), Some(before), "{target} was made anew");
        assert!(object.metadata.deletion_timestamp.is_none(), "{target} is being deleted");
        if is_kept || target.kind == "Namespace" {
            continue;
        }
        let owners = object.metadata.owner_references.unwrap_or_default();
        assert!(owners.iter().all(|owner| owner.kind != "ClusterServiceVersion"), "{target}: {owners:?}");
        let is_controlled = owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid);
        let keeper = object.metadata.annotations.as_ref().and_then(|all| all.get("core.rukpak.io/owner-uid"));
        assert!(is_controlled || keeper == Some(&uid), "{target} is not the BundleDeployment's: {owners:?}");
    }
    let csv = find(&operator.csv_target()).await.expect("it is there");
    assert_eq!(csv.metadata.finalizers.unwrap_or_default(), Vec::<String>::new(), "OLM alone would remove them");
    for target in [operator.csv_target(), operator.plan_target()] {
        let annotations = find(&target).await.and_then(|found| found.metadata.annotations).unwrap_or_default();
        assert_eq!(annotations.get("core.rukpak.io/deployment-uid"), Some(&uid), "{target}");
    }
    let labels = deployment.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("core.rukpak.io/subscription-namespace"), Some(&operator.subscribed.namespace));
}
