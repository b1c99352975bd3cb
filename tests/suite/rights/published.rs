//! `rukpakctl rights`, taken at its word: bundles are installed under exactly the rules that it prints, and without any one of them they
//! are not, and the status lists that one.

use std::path::Path;
use std::process::Command;

use futures::StreamExt;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use rukpak_crds::ServiceAccountReference;
use rukpak_plan::rights::{Right, Rights, Rules, Scope, rules, text};
use rukpak_tests::plane::Plane;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, deployment, image, until};
use rukpak_tests::{ImageBuilder, tools};
use serde_json::{Value, json};

use super::{Access, INTERVAL, Turn, may};

/// Published bundles, of the folder `registry-v1` of the corpus: with webhooks, with roles of others that are bound, with a few rules
/// and with many. What they need is served by a plain cluster.
const CHOSEN: [&str; 20] = [
    "apicast-operator/0.0.1__3scale-2.12.0-GA",
    "aws-efs-operator/0.0.8",
    "camel-karavan-operator/3.20.1",
    "dapr-kubernetes-operator/0.0.13",
    "datatrucker-operator/2.0.0",
    "external-secrets-operator/0.3.8",
    "gingersnap/0.0.1",
    "gitlab-runner-operator/1.43.0",
    "headscale-operator/0.1.1",
    "horreum-operator/0.7.9",
    "ibmcloud-operator/1.1.0",
    "kube-green/0.7.1",
    "mongodb-atlas-kubernetes/1.7.1",
    "node-maintenance-operator/0.12.1",
    "quay-operator/3.6.1",
    "rhoas-operator/0.9.3",
    "ruptura-operator/0.9.1",
    "tagger/2.1.17",
    "tf-controller/0.9.0-rc.3",
    "webhook-operator/0.0.5",
];
/// Bundles that are worked on at once.
const PARALLEL: usize = 4;
/// Rules of each bundle that are really taken away; the others by computation.
const TAKEN_AWAY: usize = 4;

/// A bundle, and the roles that are printed for it.
struct Case<'a> {
    plane: &'a Plane,
    client: &'a Client,
    name: String,
    account: ServiceAccountReference,
    /// Namespaces and roles.
    printed: Vec<Value>,
    rules: Rules,
}

impl<'a> Case<'a> {
    /// Makes the account, and asks for the roles of the bundle in `folder`.
    async fn prepare(turn: &'a Turn, folder: &Path) -> Self {
        let namespace = verbs::namespace(&turn.client, "rights").await.expect("a namespace");
        let name = unique_name("rights");
        let account = ServiceAccountReference { name: "installer".to_owned(), namespace };
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                            "metadata": {"name": account.name, "namespace": account.namespace}});
        verbs::create(&turn.client, &object).await.expect("the administrator may");
        let printed = printed(folder, &name, &account);
        let rules = printed.iter().filter_map(rules_of).collect();
        Self { plane: &turn.world.plane, client: &turn.client, name, account, printed, rules }
    }

    async fn apply(&self, kinds: &[&str]) {
        for object in self.printed.iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind)) {
            verbs::apply(self.client, object).await.unwrap_or_else(|error| panic!("{}: {error:#}", self.name));
        }
    }

    /// Grants these rules in place of all, and waits until the authoriser has noticed.
    async fn grant(&self, rules: &Rules) {
        for object in &self.printed {
            let Some((scope, _)) = rules_of(object) else { continue };
            let mut object = object.clone();
            object["rules"] = json!(rules.get(&scope).cloned().unwrap_or_default());
            verbs::apply(self.client, &object).await.expect("the administrator may");
        }
        let client = self.plane.impersonating(&self.account.user_name(), &[]).await.expect("the administrator may");
        let rights = |rules: &Rules| -> Rights {
            rules
                .iter()
                .flat_map(|(scope, rules)| rules.iter().flat_map(move |rule| Right::of_rule(rule, scope)))
                .collect()
        };
        let (held, all) = (rights(rules), rights(&self.rules));
        // One of each role: those of a role come together.
        for scope in self.rules.keys() {
            for (right, is_held) in [
                (held.iter().find(|right| right.scope() == scope), true),
                (all.iter().find(|right| right.scope() == scope && !held.contains(right)), false),
            ] {
                let Some(Right::Objects { group, resource, name, verb, .. }) = right else { continue };
                let namespace = if let Scope::Namespace(namespace) = scope { namespace } else { "" };
                let access = Access { verb, group, resource, namespace, name: name.as_deref().unwrap_or_default() };
                let end = tokio::time::Instant::now() + SOON;
                while may(&client, access).await != is_held {
                    assert!(tokio::time::Instant::now() < end, "{}: {access:?} is not {is_held}", self.name);
                    tokio::time::sleep(INTERVAL).await;
                }
            }
        }
    }

    /// Has it tried now, not when the wait after the failure is over.
    async fn nudge(&self, how: &str) {
        let annotation = json!({"metadata": {"annotations": {"core.rukpak.io/reconcile-requested-at": how}}});
        verbs::merge(self.client, &Target::bundle_deployment(&self.name), &annotation).await.expect("it is there");
    }

    /// Nothing is installed, for want of exactly these.
    async fn lacks(&self, rules: &Rules) {
        let message = format!("lacks rights: {}; grant them", text(rules).join("; "));
        let expected =
            Expected { kind: "Installed", status: "False", reason: Some("MissingRights"), message: &message };
        until(self.client, &self.name, expected).await;
    }

    /// Each rule without which something is missing.
    fn each(&self) -> Vec<(Rules, Rules)> {
        let places = self.rules.iter().flat_map(|(scope, rules)| (0..rules.len()).map(move |index| (scope, index)));
        places
            .map(|(scope, index)| {
                let mut fewer = self.rules.clone();
                let rule = fewer.get_mut(scope).expect("it has the scope").remove(index);
                (fewer, Rules::from([(scope.clone(), vec![rule])]))
            })
            .collect()
    }

    async fn run(&self, source: Value, seed: usize) {
        let mut new = deployment(&self.name, source);
        new["spec"]["serviceAccount"] = json!(self.account);
        new["spec"]["template"]["spec"]["provisionerClassName"] = json!("core-rukpak-io-registry");
        // Some need other packages, or a newer Kubernetes than this may be.
        new["metadata"]["annotations"] = json!({"core.rukpak.io/ignore-dependencies": "true"});
        verbs::create(self.client, &new).await.unwrap_or_else(|error| panic!("{}: {error:#}", self.name));
        self.lacks(&self.rules).await;
        self.apply(&["Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]).await;
        let each = self.each();
        for step in 0..TAKEN_AWAY.min(each.len()) {
            let (fewer, missing) = &each[(seed * 7 + step * each.len() / TAKEN_AWAY) % each.len()];
            self.grant(fewer).await;
            self.nudge(&format!("without {step}")).await;
            self.lacks(missing).await;
        }
        self.grant(&self.rules).await;
        self.nudge("with all").await;
        until(self.client, &self.name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    }
}

/// What the program prints.
fn printed(folder: &Path, name: &str, account: &ServiceAccountReference) -> Vec<Value> {
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let account = format!("{}/{}", account.namespace, account.name);
    let output = Command::new(program)
        .args(["rights", "--allow-powerful", "--name", name, "--service-account", &account, "--output", "json"])
        .arg(folder)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Where the rules of a role count, and the rules.
fn rules_of(object: &Value) -> Option<(Scope, Vec<PolicyRule>)> {
    let rules = serde_json::from_value(object.get("rules")?.clone()).expect("rules");
    let scope = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Scope::Namespace(namespace.to_owned()),
        None => Scope::Cluster,
    };
    Some((scope, rules))
}

#[tokio::test]
async fn bundles_of_the_corpus_are_installed_under_exactly_the_rules_that_are_printed() {
    let Some(corpus) = tools::corpus() else {
        eprintln!(
            "ABSENT: no corpus at $CORPUS or ../shared/corpus: no published bundle was installed with fewer rights"
        );
        return;
    };
    let turn = &Turn::take().await;
    let corpus = &corpus.join("registry-v1");
    let works = CHOSEN.iter().enumerate().map(|(seed, bundle)| async move {
        let folder = corpus.join(bundle);
        let case = Case::prepare(turn, &folder).await;
        let builder = ImageBuilder::of_folder(&folder).expect("the folder can be read");
        let reference = turn.world.push(&case.name, &builder).await;
        Box::pin(case.run(image(&reference), seed)).await;
        let each = case.each();
        for (fewer, missing) in &each {
            assert_eq!(&lacking(&case.rules, fewer), missing, "{bundle}");
        }
        verbs::delete(case.client, &Target::bundle_deployment(&case.name)).await.expect("it is there");
        each.len()
    });
    let rules: Vec<usize> = futures::stream::iter(works).buffer_unordered(PARALLEL).collect().await;
    eprintln!("{} bundles with {} rules", rules.len(), rules.iter().sum::<usize>());
}

/// What is missing of `all` where `fewer` are held.
fn lacking(all: &Rules, fewer: &Rules) -> Rules {
    let mut held = rukpak_plan::rights::Held::default();
    for (scope, rules) in fewer {
        held.add(scope, rules);
    }
    let needed = all.iter().flat_map(|(scope, rules)| rules.iter().flat_map(move |rule| Right::of_rule(rule, scope)));
    rules(&held.lacks(&needed.collect()))
}

/// The same for a bundle of this repository: with a CRD and an object of it, roles, bindings and a Service.
#[tokio::test]
async fn an_example_is_installed_under_exactly_the_rules_that_are_printed() {
    let turn = Turn::take().await;
    let folder = tempfile::tempdir().expect("a folder");
    let manifests = folder.path().join("manifests");
    std::fs::create_dir(&manifests).expect("a folder");
    let name = unique_name("pumps");
    for (index, object) in example(&name).iter().enumerate() {
        std::fs::write(manifests.join(format!("{index}.yaml")), object.to_string()).expect("a file");
    }
    let case = Case::prepare(&turn, folder.path()).await;
    let builder = ImageBuilder::of_folder(folder.path()).expect("the folder can be read");
    let reference = turn.world.push(&case.name, &builder).await;
    let mut new = deployment(&case.name, image(&reference));
    new["spec"]["serviceAccount"] = json!(case.account);
    verbs::create(case.client, &new).await.expect("the administrator may");
    case.lacks(&case.rules).await;
    case.apply(&["Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]).await;
    let each = case.each();
    assert_eq!(each.len(), 11, "{:?}", text(&case.rules));
    for (index, (fewer, missing)) in each.iter().enumerate() {
        case.grant(fewer).await;
        case.nudge(&index.to_string()).await;
        case.lacks(missing).await;
    }
    case.grant(&case.rules).await;
    case.nudge("with all").await;
    until(case.client, &case.name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let output = Command::new(program)
        .args([
            "rights",
            "--allow-powerful",
            "-o",
            "json",
            "--endpoint",
            &format!("https://localhost:{}", turn.world.controller.content_port),
        ])
        .args(["--kubeconfig".as_ref(), turn.world.plane.kubeconfig_path().as_os_str()])
        .arg(format!("bundledeployment/{}", case.name))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let of_deployment: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let roles: Vec<&Value> = case.printed.iter().filter(|object| object["kind"] != "Namespace").collect();
    assert_eq!(of_deployment.iter().collect::<Vec<_>>(), roles, "bundle and BundleDeployment take the same");
}

fn example(name: &str) -> Vec<Value> {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let here = |kind: &str, api_version: &str, more: Value| {
        let mut object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "pump", "namespace": name}});
        object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        object
    };
    let global = |kind: &str, api_version: &str, more: Value| {
        let mut object = here(kind, api_version, more);
        object["metadata"] = json!({"name": name});
        object
    };
    let bound = |kind: &str, role: &str| {
        json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
               "subjects": [{"kind": "ServiceAccount", "name": "pump", "namespace": name}]})
    };
    let group = format!("{name}.example.test");
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let mut definition = global(
        "CustomResourceDefinition",
        "apiextensions.k8s.io/v1",
        json!({"spec": {"group": group, "scope": "Namespaced", "names": {"plural": "pumps", "kind": "Pump"},
               "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}),
    );
    definition["metadata"]["name"] = json!(format!("pumps.{group}"));
    vec![
        global("Namespace", "v1", json!({})),
        definition,
        here("ServiceAccount", "v1", json!({})),
        here("Service", "v1", json!({"spec": {"ports": [{"port": 80}]}})),
        here("ConfigMap", "v1", json!({"data": {"a": "b"}})),
        here("Role", RBAC, json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]})),
        here("RoleBinding", RBAC, bound("Role", "pump")),
        global(
            "ClusterRole",
            RBAC,
            json!({"rules": [
                {"apiGroups": [group], "resources": ["pumps", "pumps/status"], "verbs": ["get", "update"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ]}),
        ),
        global("ClusterRoleBinding", RBAC, bound("ClusterRole", "view")),
        here("Pump", &format!("{group}/v1"), json!({"spec": {"size": 1}})),
    ]
}
