//! The same for ClusterExtensions, whose history counts: from 1.0.0 not every version can be reached, so none is compared with a new
//! one. What the status says is installed is what the cluster has.

use futures::StreamExt as _;
use kube::api::PostParams;
use rukpak_tests::metrics;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use super::fields::{Field, fields};
use super::{change, numbers, say};
use crate::harness::conformance::requests::Numbers;
use crate::olmv1::case::{Case, is_observed, rolled_out, text};
use crate::olmv1::world::World;

/// Sequences, where `RUKPAK_SPECS` does not say otherwise.
const SEQUENCES: u64 = 3;
/// Specs of one sequence.
const LENGTH: u64 = 15;
/// Sequences at a time.
const PARALLEL: usize = 3;
/// What the catalog has; each replaces the one before.
const VERSIONS: [&str; 4] = ["1.0.0", "1.1.0", "1.2.0", "2.0.0"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extension_with_any_spec_has_installed_what_it_says() {
    let (seed, sequences) = numbers(SEQUENCES);
    let world = World::new().await;
    let name = "clusterextensions.olm.operatorframework.io";
    let definition = Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", name);
    let definition = verbs::get(&world.admin().await, &definition).await.expect("the API server agrees");
    let definition = definition.expect("it is installed");
    let fields = fields(&definition.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
    assert!(fields.len() >= 15, "the schema has only {} fields", fields.len());

    let sequences = (0..sequences).map(|index| sequence(&world, &fields, seed + index));
    let counts: Vec<(u64, u64)> = futures::stream::iter(sequences).buffer_unordered(PARALLEL).collect().await;

    for process in [&world.manager, &world.controller] {
        let shown = metrics::text(process).await.expect("it runs");
        let panics = shown.lines().find(|line| line.starts_with("rukpak_reconcile_panics_total"));
        assert_eq!(panics, Some("rukpak_reconcile_panics_total 0"), "{}", process.log_tail(60));
    }
    let (taken, refused) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    say(&format!("seed {seed}: {} fields of extensions, {taken} specs taken, {refused} refused", fields.len()));
    assert!(taken > 0 && refused > 0);
}

/// Values that mean something.
fn meant(case: &Case<'_>) -> Vec<Field> {
    let catalog = |name: &str| format!("source.catalog.{name}");
    let label = |value: &str| json!({"matchLabels": {"case": value}});
    let inline = |name: &str| json!({"configType": "Inline", "inline": {"watchNamespace": name}});
    let versions = ["1.0.0", "1.x", ">=1.1.0", "2.0.0", "3.0.0", "<2"];
    vec![
        Field::new(&catalog("version"), versions.map(|version| json!(version))),
        Field::new(&catalog("version"), versions.map(|version| json!(version))),
        Field::new(&catalog("upgradeConstraintPolicy"), ["SelfCertified", "CatalogProvided"].map(|text| json!(text))),
        Field::new(&catalog("channels"), [json!(["stable"]), json!(["absent"]), json!([])]),
        Field::new(&catalog("selector"), [label(&case.name), label("absent"), json!({})]),
        Field::new(&catalog("packageName"), [json!(case.name), json!("absent")]),
        Field::new("namespace", [json!(case.space()), json!("default")]),
        Field::new("serviceAccount", [json!({"name": "absent"})]),
        Field::new("config", [inline(&case.space()), json!({"configType": "Inline", "inline": {}})]),
        Field::new("install.preflight.crdUpgradeSafety.enforcement", ["None", "Strict"].map(|text| json!(text))),
        Field::new("progressDeadlineMinutes", [10, 720, 9, 721].map(|minutes| json!(minutes))),
    ]
}

/// One extension through its specs; how many were taken and refused.
async fn sequence(world: &World, fields: &[Field], seed: u64) -> (u64, u64) {
    let mut numbers = Numbers(seed);
    let case = Case::within(world, "spec").await;
    case.install(&VERSIONS, json!({"version": "1.0.0"})).await;
    let meant = meant(&case);
    let plain = case.object(&json!({"upgradeConstraintPolicy": "SelfCertified"}), &json!({}))["spec"].clone();
    let mut spec = case.object(&json!({"version": "1.0.0"}), &json!({}))["spec"].clone();
    let mut story = vec![format!("seed {seed}, {}", case.name)];
    let (mut taken, mut refused) = (0, 0);
    for step in 0..=LENGTH {
        let before = spec.clone();
        if step == LENGTH {
            spec = plain.clone();
        } else {
            change(&mut spec, &mut numbers, fields, &meant);
        }
        story.push(spec.to_string());
        match attempt(&case, &spec).await {
            Ok(true) => taken += 1,
            Ok(false) => {
                refused += 1;
                spec = before;
            }
            Err(wrong) => panic!("{wrong}\n{}", story.join("\n")),
        }
    }
    case.until_version("2.0.0").await;
    case.delete(&case.extension()).await;
    case.until_gone(&case.settings()).await;
    (taken, refused)
}

/// Puts the spec in place of the one that is there. Whether it was taken.
async fn attempt(case: &Case<'_>, spec: &Value) -> Result<bool, String> {
    let api = case.extension().api(&case.client).await.expect("the kind is served");
    loop {
        let mut object = case.find(&case.extension()).await.ok_or("the extension is gone")?;
        object.data["spec"] = spec.clone();
        match api.replace(&case.name, &PostParams::default(), &object).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 409 => {} // its status was written meanwhile
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) && status.message.len() >= 20 => {
                return Ok(false);
            }
            Err(error) => return Err(format!("refused without words: {error:?}")),
        }
    }
    let says = |object: &kube::api::DynamicObject| {
        let progressing = verbs::condition(object, "Progressing");
        let speaks =
            |field: &str| progressing.is_some_and(|said| said[field].as_str().is_some_and(|it| !it.is_empty()));
        is_observed(object) && speaks("reason") && speaks("message") && is_at_rest(object)
    };
    let object = case.until_object(&case.extension(), "a status about this spec", says).await;

    let version = text(&object, "/status/install/bundle/version").to_owned();
    let has = |settings: &kube::api::DynamicObject| settings.data.pointer("/data/version") == Some(&json!(version));
    case.until_object(&case.settings(), &format!("the objects of {version}"), has).await;
    Ok(true)
}

/// Whether nothing is under way: what is asked for is there, or why it will not be is said.
fn is_at_rest(object: &kube::api::DynamicObject) -> bool {
    let reason = verbs::condition(object, "Progressing").map(|said| said["reason"].clone()).unwrap_or_default();
    rolled_out().met_by(object) || reason != json!("RollingOut")
}
