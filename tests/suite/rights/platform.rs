//! The manager of PlatformOperators: what it may, it does, and it is never refused. By the API server's audit log.

use std::collections::BTreeSet;

use rukpak_tests::plane::{InstallOptions, yaml};
use rukpak_tests::process::DeployedOptions;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{Documents, Plane, PlaneOptions, tools};
use serde_json::{Value, json};

use super::{Access, INTERVAL, PATIENCE, may};
use crate::platform::packages::{channel, entry, package};

const MANAGER: &str = "platform-operators-controller-manager";
const ROLE: &str = "platform-operators-manager-role";
const OWN: &str = "platform.openshift.io";

/// What the scene need not show, and why it is granted all the same.
const UNSEEN: [(&str, &str); 7] = [
    ("delete plans", "after several that are over, or one that was approved and is asked for no more"),
    ("patch platformoperators", "says on one whose package is installed who needs it, and nothing is installed here"),
    ("get bundledeployments", "asked for when the watch is behind a creation"),
    ("get leases", "asked for when a renewal fails"),
    ("patch bundledeployments", "upgrades"),
    ("watch leases", "who takes a Lease at once need not watch it"),
    ("update platformoperators/finalizers", "asked by the admission plugin at a creation; tested by its absence"),
];

fn installed() -> Vec<Value> {
    let file = tools::workspace_folder().join("manifests/install-platform.yaml");
    let objects = yaml::objects_of_file(&file).unwrap_or_else(|error| panic!("{error:#}"));
    objects.iter().map(|object| serde_json::to_value(object).expect("JSON")).collect()
}

fn object(kind: &str, name: &str) -> Value {
    let mut objects = installed().into_iter();
    let found = objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

async fn start() -> Plane {
    let plane = Plane::start_with(PlaneOptions { audit: true, ..PlaneOptions::default() })
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
    let folder = tools::workspace_folder();
    let files = [
        "tests/fixtures/openshift/catalogsources.yaml",
        "tests/fixtures/openshift/clusteroperators.yaml",
        "tests/fixtures/openshift/clusterversions.yaml",
        "manifests/overlays/openshift/cluster_operator.yaml",
        "manifests/install-platform.yaml",
    ];
    let options = InstallOptions {
        files: files.map(|file| folder.join(file)).to_vec(),
        without_webhooks: true,
        accounts: vec![MANAGER.to_owned()],
        without_pods: false,
    };
    plane.install(&options).await.unwrap_or_else(|error| panic!("{error:#}"));
    plane
}

/// The requests of the manager so far: verb, resource with its subresource, and the code of the answer.
fn requests(plane: &Plane) -> Vec<(String, String, i64)> {
    let log = std::fs::read_to_string(plane.audit_log()).expect("the log can be read");
    let user = format!("system:serviceaccount:rukpak-system:{MANAGER}");
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own = events.filter(|event| event["user"]["username"] == user.as_str());
    let request = |event: Value| {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (mut resource, subresource) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        (text("/verb"), resource, event.pointer("/responseStatus/code").and_then(Value::as_i64).unwrap_or_default())
    };
    own.map(request).collect()
}

/// What the two roles grant, as `verb resource`.
fn granted() -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    for (kind, name) in [("ClusterRole", ROLE), ("Role", "platform-operators-leader-election-role")] {
        let strings = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for rule in object(kind, name)["rules"].as_array().expect("rules") {
            for verb in strings(&rule["verbs"]) {
                granted.extend(strings(&rule["resources"]).iter().map(|resource| format!("{verb} {resource}")));
            }
        }
    }
    granted
}

fn operator(name: &str, package: &str) -> Value {
    json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "metadata": {"name": name},
           "spec": {"package": {"name": package}}})
}

/// Has the manager ask whether a package may be installed that another one depends on, and approves.
async fn proposes(plane: &Plane) {
    let client = plane.admin().await.expect("the plane's own kubeconfig");
    let mut press = operator("press", "press");
    press["spec"]["dependencies"] = json!("Propose");
    verbs::create(&client, &press).await.expect("the administrator may");
    let end = tokio::time::Instant::now() + PATIENCE;
    let plan = loop {
        let asked = verbs::list(&client, "core.rukpak.io/v1alpha1", "Plan", "").await.expect("a list");
        match asked.iter().find(|plan| plan.data["status"]["phase"] == "Waiting") {
            Some(plan) => break plan.metadata.name.clone().expect("it has a name"),
            None => assert!(tokio::time::Instant::now() < end, "nothing is asked"),
        }
        tokio::time::sleep(INTERVAL).await;
    };
    let target = Target::cluster("core.rukpak.io/v1alpha1", "Plan", &plan);
    verbs::merge(&client, &target, &json!({"spec": {"approval": "Approved"}})).await.expect("the administrator may");
    let needed = Target::cluster("platform.openshift.io/v1alpha1", "PlatformOperator", "file");
    let there = |object: Option<&kube::api::DynamicObject>| object.is_some();
    let created = verbs::await_object(&client, &needed, "its creation", PATIENCE, there).await;
    created.unwrap_or_else(|error| panic!("{error:#}"));
}

/// Takes the right away that the API server wants of whoever sets an owner that is to wait.
async fn needs_finalizers(plane: &Plane) {
    let client = plane.admin().await.expect("the plane's own kubeconfig");
    let account = plane.as_account(MANAGER).await.expect("the account's kubeconfig");
    let role = object("ClusterRole", ROLE);
    let mut without = role.clone();
    let rules = without["rules"].as_array_mut().expect("rules");
    rules.retain(|rule| rule["resources"] != json!(["platformoperators/finalizers"]));
    let set = async |role: &Value, allowed: bool| {
        verbs::apply(&client, role).await.expect("the administrator may");
        let end = tokio::time::Instant::now() + PATIENCE;
        while may(&account, Access::to("update", OWN, "platformoperators/finalizers")).await != allowed {
            assert!(tokio::time::Instant::now() < end, "the change of the role is not seen");
            tokio::time::sleep(INTERVAL).await;
        }
    };
    set(&without, false).await;
    verbs::create(&client, &operator("finalizers", "saw")).await.expect("the administrator may");
    let target = Target::cluster("platform.openshift.io/v1alpha1", "PlatformOperator", "finalizers");
    let refused =
        Expected { kind: "Installed", status: "False", reason: None, message: "cannot set blockOwnerDeletion" };
    verbs::await_condition(&client, &target, refused, PATIENCE).await.unwrap_or_else(|error| panic!("{error:#}"));
    set(&role, true).await;
    exists(plane, "finalizers").await;
}

async fn exists(plane: &Plane, deployment: &str) {
    let client = plane.admin().await.expect("the plane's own kubeconfig");
    let there = |object: Option<&kube::api::DynamicObject>| object.is_some();
    let target = Target::bundle_deployment(deployment);
    verbs::await_object(&client, &target, "its creation", PATIENCE, there)
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test]
async fn the_manager_does_what_it_may_and_is_never_refused() {
    let plane = start().await;
    let client = plane.admin().await.expect("the plane's own kubeconfig");
    let catalog = tools::temp_folder("catalog").expect("a folder");
    let images = |package: &str| format!("example.test/{package}:v1");
    let packages = ["mill", "saw", "file"].map(|package| Documents::package(package, &[("1.0.0", &images(package))]));
    let [mill, saw, file] = packages;
    let needs = [json!({"type": "olm.package.required", "value": {"packageName": "file", "versionRange": ">=1.0.0"}})];
    let press = Documents::default()
        .with(package("press", "stable"))
        .with(channel("press", "stable", json!([{"name": "press.v1.0.0"}])))
        .with(entry("press", "1.0.0", &images("press"), None, &needs));
    let offered = mill.and(saw).and(file).and(press).json_lines();
    std::fs::write(catalog.path().join("catalog.json"), offered).expect("the file can be written");

    let mut deployment = object("Deployment", MANAGER);
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array_mut().expect("arguments");
    // The example is somewhere else.
    arguments.retain(|argument| !argument.as_str().is_some_and(|argument| argument.starts_with("--catalog=")));
    arguments.push(json!(format!("--catalog=local=dir:{}", catalog.path().display())));
    let manager = plane.start_deployment(&deployment, &DeployedOptions::default()).await;
    let manager = manager.unwrap_or_else(|error| panic!("{error:#}"));
    manager.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    verbs::create(&client, &operator("mill", "mill")).await.expect("the administrator may");
    exists(&plane, "mill").await;
    let summary = Target::cluster("config.openshift.io/v1", "ClusterOperator", "platform-operators-aggregated");
    let failing = Expected::is_false("Available", "PlatformOperatorError");
    verbs::await_condition(&client, &summary, failing, PATIENCE).await.unwrap_or_else(|error| panic!("{error:#}"));

    proposes(&plane).await;
    needs_finalizers(&plane).await;

    // A watch is logged when it ends.
    manager.terminate().await.unwrap_or_else(|error| panic!("{error:#}"));
    let unseen: BTreeSet<String> = UNSEEN.iter().map(|(right, _)| (*right).to_owned()).collect();
    let granted = granted();
    assert!(unseen.is_subset(&granted), "{granted:?}");
    let wanted: BTreeSet<String> = granted.difference(&unseen).cloned().collect();
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let used: BTreeSet<String> =
            requests(&plane).into_iter().map(|(verb, resource, _)| format!("{verb} {resource}")).collect();
        let unused: Vec<&String> = wanted.difference(&used).collect();
        if unused.is_empty() {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "granted and never used: {unused:?}; used: {used:?}");
        tokio::time::sleep(INTERVAL).await;
    }
    // But for the creation that was to be refused.
    let is_wanted = |(verb, resource, code): &(String, String, i64)| {
        *code != 403 || (verb, resource) == (&"create".to_owned(), &"bundledeployments".to_owned())
    };
    let refused: Vec<_> = requests(&plane).into_iter().filter(|request| !is_wanted(request)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn the_manager_may_do_no_more() {
    let plane = start().await;
    let account = plane.as_account(MANAGER).await.expect("the account's kubeconfig");
    for access in [
        Access::to("get", "", "secrets"),
        Access::to("list", "", "pods"),
        Access::to("update", OWN, "platformoperators"),
        Access::to("delete", OWN, "platformoperators"),
        Access::to("update", "core.rukpak.io", "plans"),
        Access::to("patch", "core.rukpak.io", "plans"),
        Access::to("delete", "core.rukpak.io", "bundledeployments"),
        Access::to("patch", "core.rukpak.io", "bundledeployments/status"),
        Access::to("get", "core.rukpak.io", "bundles"),
        Access::to("create", "config.openshift.io", "clusteroperators"),
        Access::to("patch", "config.openshift.io", "clusteroperators/status").named("another"),
        Access::to("list", "apiextensions.k8s.io", "customresourcedefinitions").named("another"),
        Access::to("patch", "coordination.k8s.io", "leases").within("rukpak-system").named("core.rukpak.io"),
        Access::to("create", "coordination.k8s.io", "leases").within("default"),
    ] {
        assert!(!may(&account, access).await, "{access:?}");
    }
    assert!(may(&account, Access::to("create", "core.rukpak.io", "bundledeployments")).await, "as the right account");
}
