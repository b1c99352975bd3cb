//! Everything that tenants might try, from the schemas: each try is refused, or is in [`HARMLESS`] with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use rukpak_tests::plane::yaml;
use rukpak_tests::{tools, verbs};
use serde_json::{Value, json};

use super::install_policy::bench_policy;
use super::scene::{DEVELOPER, JANE, Scene, Subject, UNNAMED, try_create};
use super::schema::fields;

/// A kind of ours.
pub struct Kind {
    pub name: &'static str,
    pub api_version: &'static str,
    /// Its definition among `crds/generated`.
    file: &'static str,
    /// Name and spec of an object that a rule allows, if one allows any, as JSON.
    own: Option<(&'static str, &'static str)>,
    /// Name and spec of an administrator's.
    foreign: (&'static str, &'static str),
}

const CORE: &str = "core.rukpak.io/v1alpha1";
const OLM: &str = "olm.operatorframework.io/v1";

pub const KINDS: &[Kind] = &[
    Kind {
        name: "BundleDeployment",
        api_version: CORE,
        file: "core.rukpak.io_bundledeployments",
        own: Some((
            "shop-web",
            r#"{"provisionerClassName": "core-rukpak-io-plain", "serviceAccount": {"namespace": "shop", "name": "installer"},
                "template": {"spec": {"provisionerClassName": "core-rukpak-io-plain",
                    "source": {"type": "image", "image": {"ref": "registry.example.com/shop/web:v1"}}}}}"#,
        )),
        foreign: (
            "core-db",
            r#"{"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {"provisionerClassName": "core-rukpak-io-plain",
                "source": {"type": "image", "image": {"ref": "registry.example.com/shop/web:v1"}}}}}"#,
        ),
    },
    Kind {
        name: "Bundle",
        api_version: CORE,
        file: "core.rukpak.io_bundles",
        own: None,
        foreign: (
            "core-bundle",
            r#"{"provisionerClassName": "core-rukpak-io-plain", "source": {"type": "upload", "upload": {}}}"#,
        ),
    },
    Kind {
        name: "ContentPolicy",
        api_version: CORE,
        file: "core.rukpak.io_contentpolicies",
        own: None,
        foreign: ("core-rules", r#"{"rules": [{"name": "all", "scopes": ["*"], "action": "Accept"}]}"#),
    },
    Kind {
        name: "PlatformOperator",
        api_version: "platform.openshift.io/v1alpha1",
        file: "platform.openshift.io_platformoperators",
        own: Some(("jane-pump", r#"{"package": {"name": "pump-operator", "channel": "stable", "version": "1.2.3"}}"#)),
        foreign: ("core-pump", r#"{"package": {"name": "pump-operator"}}"#),
    },
    Kind {
        name: "ClusterExtension",
        api_version: OLM,
        file: "olm.operatorframework.io_clusterextensions",
        own: Some((
            "jane-pump",
            r#"{"namespace": "pumps", "source": {"sourceType": "Catalog", "catalog": {"packageName": "pump-operator",
                "channels": ["stable"], "version": "1.2.3"}}}"#,
        )),
        foreign: (
            "core-pump",
            r#"{"namespace": "kube-system", "source": {"sourceType": "Catalog", "catalog": {"packageName": "pump-operator"}}}"#,
        ),
    },
    Kind {
        name: "ClusterCatalog",
        api_version: OLM,
        file: "olm.operatorframework.io_clustercatalogs",
        own: None,
        foreign: (
            "core-catalog",
            r#"{"source": {"type": "Image", "image": {"ref": "registry.example.com/catalog:v1"}}}"#,
        ),
    },
    Kind {
        name: "ClusterObjectSet",
        api_version: OLM,
        file: "olm.operatorframework.io_clusterobjectsets",
        own: None,
        foreign: ("core-set", r#"{"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"}"#),
    },
];

impl Kind {
    fn made(&self, (name, spec): (&str, &str)) -> Value {
        let spec: Value = serde_json::from_str(spec).expect("JSON");
        json!({"apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name}, "spec": spec})
    }

    pub fn object(&self, is_own: bool) -> Option<Value> {
        if is_own { self.own.map(|own| self.made(own)) } else { Some(self.made(self.foreign)) }
    }

    pub fn own(&self) -> Value {
        self.object(true).expect("a rule allows one")
    }

    /// An administrator's object under another name.
    pub fn foreign(&self, name: &str) -> Value {
        self.made((name, self.foreign.1))
    }

    fn schema(&self) -> Value {
        let file = tools::workspace_folder().join(format!("crds/generated/{}.yaml", self.file));
        let definition = yaml::objects_of_file(&file).expect("a definition").remove(0);
        definition.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }
}

/// What is admitted, and why that does no harm: who, of which kind, on an object of their own or not, which ways.
struct Harmless {
    who: Subject,
    kind: &'static str,
    own: bool,
    ways: &'static [&'static str],
    why: &'static str,
}

const HARMLESS: &[Harmless] = &[
    Harmless {
        who: DEVELOPER,
        kind: "BundleDeployment",
        own: true,
        ways: &["create", "delete", "deletecollection", "metadata.", "spec."],
        why: "written with the rights of an account that they may use, from a source of their rule",
    },
    Harmless {
        who: JANE,
        kind: "PlatformOperator",
        own: true,
        ways: &[
            "create",
            "delete",
            "deletecollection",
            "metadata.",
            "spec.upgradePolicy",
            "spec.approval",
            "spec.windows",
            "spec.dependencies",
            "spec.apiRoles",
        ],
        why: "the package, the channel and the versions of the rule; what else it needs takes the yes of whoever approves Plans",
    },
    Harmless {
        who: JANE,
        kind: "ClusterExtension",
        own: true,
        ways: &[
            "create",
            "delete",
            "deletecollection",
            "metadata.",
            "spec.serviceAccount",
            "spec.install",
            "spec.progressDeadlineMinutes",
        ],
        why: "the package, the channel, the versions and the namespace of the rule",
    },
    Harmless {
        who: UNNAMED,
        kind: "BundleDeployment",
        own: true,
        ways: &[
            "delete",
            "deletecollection",
            "metadata.labels",
            "metadata.annotations.example",
            "metadata.annotations.core.rukpak.io/reconcile",
            "metadata.finalizers",
            "metadata.ownerReferences.shared",
        ],
        why: "decides nothing of what is installed; RBAC grants it by resourceNames",
    },
    Harmless {
        who: UNNAMED,
        kind: "BundleDeployment",
        own: false,
        ways: &[
            "delete",
            "deletecollection",
            "metadata.labels",
            "metadata.annotations.example",
            "metadata.annotations.core.rukpak.io/reconcile",
            "metadata.finalizers",
            "metadata.ownerReferences.shared",
        ],
        why: "decides nothing of what is installed; RBAC grants it by resourceNames",
    },
    Harmless {
        who: UNNAMED,
        kind: "Bundle",
        own: false,
        ways: &["create", "delete", "deletecollection", "metadata.", "status."],
        why: "a Bundle that no BundleDeployment made is installed by none; the pin and the marks of an owner are refused",
    },
];

/// Fields that no account or rule bounds: whatever else a rule lets pass, these are refused.
const NEVER: &[(&str, &[&str])] = &[
    (
        "BundleDeployment",
        &[
            "spec.serviceAccount",
            "spec.template.spec.source.type",
            "spec.template.spec.source.image.ref",
            "status.",
            "metadata.labels.core.rukpak.io/subscription-namespace",
        ],
    ),
    (
        "Bundle",
        &[
            "status.pin",
            "metadata.labels.core.rukpak.io/owner",
            "metadata.labels.core.rukpak.io/bundle",
            "metadata.ownerReferences.controller",
            "spec.",
        ],
    ),
    (
        "ClusterExtension",
        &[
            "spec.install.preflight.crdUpgradeSafety.enforcement",
            "spec.config",
            "spec.namespace",
            "spec.source",
            "status.",
        ],
    ),
    ("PlatformOperator", &["spec.package", "status."]),
];

enum Outcome {
    Refused,
    /// The schema refuses the value: why.
    Invalid(String),
    /// The schema drops the value, so that the object stays what it was.
    Dropped,
    Admitted,
}

/// What became of a change of `live`.
fn outcome_of_change(result: Result<DynamicObject, kube::Error>, live: &DynamicObject) -> Outcome {
    match &result {
        Ok(changed) if content(changed) == content(live) => Outcome::Dropped,
        _ => outcome(result),
    }
}

/// What of an object a request may change; the API server alone writes the rest of the metadata.
fn content(object: &DynamicObject) -> Value {
    let metadata = &object.metadata;
    json!([metadata.labels, metadata.annotations, metadata.finalizers, metadata.owner_references, object.data])
}

fn outcome<T>(result: Result<T, kube::Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Admitted,
        Err(kube::Error::Api(status)) if status.code == 403 => Outcome::Refused,
        // A rule of the definition itself.
        Err(kube::Error::Api(status)) if status.code == 422 && status.message.ends_with("is immutable") => {
            Outcome::Refused
        }
        Err(kube::Error::Api(status)) if status.code == 422 || status.code == 400 => Outcome::Invalid(status.message),
        Err(error) => panic!("no answer that admission gives: {error}"),
    }
}

/// Metadata that might decide something, by the name of the way.
fn metadata() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for name in [
        "rollback-to",
        "safe-crd-upgrade-validation",
        "ignore-dependencies",
        "delete-helm-releases",
        "reconcile-requested-at",
    ] {
        let name = format!("core.rukpak.io/{name}");
        all.push((format!("metadata.annotations.{name}"), json!({"annotations": {name: "1"}})));
    }
    for name in ["owner-kind", "owner-name", "bundle-template-hash"] {
        let value = if name == "owner-kind" { "BundleDeployment" } else { "other" };
        // A name counts only beside its kind.
        let labels = json!({format!("core.rukpak.io/{name}"): value, "core.rukpak.io/owner-kind": "BundleDeployment"});
        all.push((format!("metadata.labels.core.rukpak.io/{name}"), json!({"labels": labels})));
    }
    let subscription = "core.rukpak.io/subscription-namespace";
    all.push((format!("metadata.labels.{subscription}"), json!({"labels": {subscription: "default"}})));
    all.push(("metadata.annotations.example".to_owned(), json!({"annotations": {"example.com/a": "b"}})));
    all.push(("metadata.labels.example".to_owned(), json!({"labels": {"example.com/a": "b"}})));
    all.push(("metadata.finalizers".to_owned(), json!({"finalizers": ["example.com/hold"]})));
    for (way, controller) in [("controller", true), ("shared", false)] {
        let owner = json!({"apiVersion": CORE, "kind": "BundleDeployment", "name": "core-db", "uid": "11111111-1111-4111-8111-111111111111",
                           "controller": controller});
        all.push((format!("metadata.ownerReferences.{way}"), json!({"ownerReferences": [owner]})));
    }
    all
}

/// Everything that `subject` tries with one object.
async fn tries(scene: &Scene, subject: Subject, kind: &Kind, object: &Value) -> Vec<(String, Outcome)> {
    let (admin, client) = (scene.admin().await, scene.acting_as(subject).await);
    let (resource, _) = verbs::discover(&admin, kind.api_version, kind.name).await.expect("it is served");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let name = object["metadata"]["name"].as_str().expect("a name");
    let live = Api::<DynamicObject>::all_with(admin, &resource).get(name).await.expect("it was made");
    let mut all = Vec::new();

    let mut new = object.clone();
    new["metadata"]["name"] = json!(format!("{name}-2"));
    all.push(("create".to_owned(), outcome(try_create(&client, &resource, &new).await)));

    let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
    let schema = kind.schema();
    for part in ["spec", "status"] {
        let properties = &schema["properties"][part];
        if properties.is_null() {
            continue;
        }
        for field in fields(properties, live.data.get(part), part) {
            let patch = Patch::Merge(&field.patch);
            let result = if part == "spec" {
                api.patch(name, &parameters, &patch).await
            } else {
                api.patch_status(name, &parameters, &patch).await
            };
            all.push((field.path, outcome_of_change(result, &live)));
        }
    }
    for (way, metadata) in metadata() {
        let result = api.patch(name, &parameters, &Patch::Merge(json!({"metadata": metadata}))).await;
        all.push((way, outcome_of_change(result, &live)));
    }
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    all.push(("delete".to_owned(), outcome(api.delete(name, &dry).await)));
    let one = ListParams::default().fields(&format!("metadata.name={name}"));
    all.push(("deletecollection".to_owned(), outcome(api.delete_collection(&dry, &one).await)));
    all
}

fn reason(subject: Subject, kind: &Kind, is_own: bool, way: &str) -> Option<&'static str> {
    let begins = |ways: &[&str]| ways.iter().any(|one| way.starts_with(one));
    if NEVER.iter().any(|(name, ways)| *name == kind.name && begins(ways)) {
        return None;
    }
    let fits = |entry: &&Harmless| {
        entry.who.user == subject.user && entry.kind == kind.name && entry.own == is_own && begins(entry.ways)
    };
    HARMLESS.iter().find(fits).map(|entry| entry.why)
}

#[tokio::test]
async fn whatever_a_tenant_tries_under_an_install_policy_is_refused_or_harmless() {
    let scene = Scene::shared().await;
    bench_policy(scene).await;
    let (mut table, mut harmful, mut untried) = (String::new(), Vec::new(), Vec::new());
    for subject in [DEVELOPER, JANE, UNNAMED] {
        // Whom no rule names RBAC alone keeps from the other kinds.
        let kinds = KINDS
            .iter()
            .filter(|kind| subject.user != UNNAMED.user || ["BundleDeployment", "Bundle"].contains(&kind.name));
        for kind in kinds {
            for is_own in [true, false] {
                let Some(object) = kind.object(is_own) else { continue };
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for (way, outcome) in tries(scene, subject, kind, &object).await {
                    let line = format!("{} {} {}: {way}", subject.says, kind.name, object["metadata"]["name"]);
                    let count = match (outcome, reason(subject, kind, is_own, &way)) {
                        (Outcome::Refused, _) => "refused",
                        (Outcome::Invalid(why), _) => {
                            untried.push(format!("{line}: {why}"));
                            "invalid"
                        }
                        (Outcome::Dropped, _) => {
                            untried.push(line);
                            "invalid"
                        }
                        (Outcome::Admitted, Some(_)) => "harmless",
                        (Outcome::Admitted, None) => {
                            harmful.push(line);
                            "HARMFUL"
                        }
                    };
                    *counts.entry(count).or_default() += 1;
                }
                let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
                let whose = if is_own { "of a rule" } else { "an administrator's" };
                writeln!(table, "{:26} {:17} {whose:19} {}", subject.says, kind.name, counts.join(", "))
                    .expect("a text");
            }
        }
    }
    println!("{table}");
    assert_eq!(untried, Vec::<String>::new(), "the schema refuses or drops these values: nothing was tried");
    assert_eq!(harmful, Vec::<String>::new(), "admitted, and nobody has said why that is harmless");
}

/// The table of SECURITY.md says what the bench shows.
#[test]
fn the_table_of_security_md_is_that_of_the_bench() {
    let mut table = String::from("| who | kind | admitted | why that is harmless |\n|---|---|---|---|\n");
    for Harmless { who, kind, own, ways, why } in HARMLESS {
        let whose = if *own { "of a rule" } else { "any" };
        let ways: Vec<String> = ways.iter().map(|way| format!("`{}`", way.trim_end_matches('.'))).collect();
        writeln!(table, "| {} | {kind} ({whose}) | {} | {why} |", who.says, ways.join(", ")).expect("a text");
    }
    let file = tools::workspace_folder().join("SECURITY.md");
    let page = std::fs::read_to_string(&file).expect("SECURITY.md");
    let (before, rest) = page.split_once("<!-- tenants -->\n").expect("a mark before the table");
    let (_, after) = rest.split_once("<!-- /tenants -->").expect("a mark behind the table");
    let expected = format!("{before}<!-- tenants -->\n{table}<!-- /tenants -->{after}");
    if std::env::var("RUKPAK_GOLDEN").is_ok_and(|what| what == "write") {
        std::fs::write(&file, &expected).expect("SECURITY.md can be written");
    }
    assert!(page == expected, "SECURITY.md differs: RUKPAK_GOLDEN=write writes the table. Read each change");
}
