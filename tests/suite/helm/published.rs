//! Charts that others have published (`tests/tools/charts.txt`), each with four sets of values: what is rendered here is what `helm
//! template` prints. Twenty are installed, upgraded and rolled back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::api::DynamicObject;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::Target;
use rukpak_tests::{ImageBuilder, tools};
use serde_json::{Map, Value, json};

use super::case::{Charts as _, of_image, world};
use super::constructs::{AT_ONCE, Rendered, in_two_threads, objects, template};
use super::install::has;
use crate::engine::case::Case;

/// So many charts are listed at least.
const AT_LEAST: usize = 60;
/// How an object says that it is a hook, as JSON.
const HOOK: &str = r#""helm.sh/hook":"#;
/// Charts whose hooks may be refused here.
const WITH_HOOKS: [&str; 1] = ["/charts/ingress-nginx"];
/// Values that give the objects of a chart another name.
const NAMES: [&str; 2] = ["nameOverride", "fullnameOverride"];

/// What is installed. Others have kinds that no API server serves any longer, or ones that another chart defines; serve APIs or
/// webhooks of which nothing answers here, and so disturb other tests; or have hooks.
const INSTALLED: [&str; 20] = [
    "helm.sh/helm/v3@v3.22.0/cmd/helm/testdata/testcharts/chart-with-lib-dep",
    "helm.sh/helm/v3@v3.22.0/cmd/helm/testdata/testcharts/chart-with-template-lib-archive-dep",
    "helm.sh/helm/v3@v3.22.0/cmd/helm/testdata/testcharts/subchart/charts/subchartA",
    "helm.sh/helm/v3@v3.22.0/pkg/chartutil/testdata/subpop/charts/subchart2",
    "helm.sh/helm/v3@v3.22.0/pkg/chartutil/testdata/subpop/noreqs",
    "k8s.io/cloud-provider-aws@v1.25.0/charts/aws-cloud-controller-manager",
    "k8s.io/cloud-provider-aws@v1.31.0/charts/aws-cloud-controller-manager",
    "k8s.io/cloud-provider-aws@v1.34.4/charts/aws-cloud-controller-manager",
    "k8s.io/cloud-provider-aws@v1.35.3/charts/aws-cloud-controller-manager",
    "k8s.io/cloud-provider-aws@v1.37.1/charts/aws-cloud-controller-manager",
    "sigs.k8s.io/cluster-api-operator@v0.28.0/hack/charts/cluster-api-operator",
    "sigs.k8s.io/cluster-api-operator@v0.29.0/hack/charts/cluster-api-operator",
    "sigs.k8s.io/descheduler@v0.36.0/charts/descheduler",
    "sigs.k8s.io/external-dns@v0.23.0/charts/external-dns",
    "sigs.k8s.io/kube-network-policies@v0.7.0/charts/kube-network-policies",
    "sigs.k8s.io/kube-network-policies@v0.8.0/charts/kube-network-policies",
    "sigs.k8s.io/kwok@v0.6.1/charts/kwok",
    "sigs.k8s.io/kwok@v0.7.0/charts/kwok",
    "sigs.k8s.io/kwok@v0.8.0/charts/kwok",
    "sigs.k8s.io/scheduler-plugins@v0.31.8/manifests/install/charts/as-a-second-scheduler",
];

/// A chart of the list.
struct Published {
    /// Module, version and folder.
    name: String,
    folder: PathBuf,
    /// The values that it has.
    own: Map<String, Value>,
    /// Values that it needs.
    needed: Map<String, Value>,
}

impl Published {
    /// All charts of the list; `None` where they cannot be fetched, which is said.
    fn all() -> Option<Vec<Self>> {
        let root = match tools::charts() {
            Ok(root) => root,
            Err(why) => {
                eprintln!("ABSENT: no published charts, so none was rendered: {why:#}");
                return None;
            }
        };
        let list = std::fs::read_to_string(tools::crate_folder().join("tools/charts.txt")).expect("it is there");
        let (mut charts, mut module) = (Vec::new(), String::new());
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let Some(chart) = line.strip_prefix("  ") else {
                module = line.split(' ').take(2).collect::<Vec<_>>().join("@");
                continue;
            };
            let (path, needed) = chart.split_once(' ').unwrap_or((chart, "{}"));
            let name = format!("{module}/{path}");
            let folder = root.join(&name);
            let own = mapping(&std::fs::read_to_string(folder.join("values.yaml")).unwrap_or_default());
            charts.push(Self { name, folder, own, needed: mapping(needed) });
        }
        Some(charts)
    }

    /// What `change` makes of its values, and what it needs.
    fn with(&self, change: &impl Fn(&str, &Value) -> Option<Value>) -> Value {
        let mut values = changed(&self.own, change);
        merge(&mut values, &self.needed);
        Value::Object(values)
    }

    /// Its own values.
    fn unchanged(&self) -> Value {
        self.with(&|_: &str, _: &Value| None)
    }

    /// Larger numbers, and other names: where it lets its objects be called otherwise, this one.
    fn larger(&self, name: &str) -> Value {
        self.with(&|key: &str, value: &Value| match value {
            // More than one success of a probe is seldom allowed.
            Value::Number(number) if !key.ends_with("Threshold") => Some(json!(number.as_i64()? + 1)),
            Value::String(_) if NAMES.contains(&key) => Some(json!(name)),
            Value::String(text) if !text.is_empty() && key.to_lowercase().ends_with("name") => {
                Some(json!(format!("{text}-2")))
            }
            _ => None,
        })
    }

    /// On what was off, and off what was on.
    fn toggled(&self) -> Value {
        self.with(&|_: &str, value: &Value| value.as_bool().map(|is_on| json!(!is_on)))
    }

    /// Labels, annotations and texts where it has none.
    fn filled(&self) -> Value {
        self.with(&|key: &str, value: &Value| {
            let key = key.to_lowercase();
            match value {
                Value::Object(_) if ["labels", "annotations", "selector"].iter().any(|end| key.ends_with(end)) => {
                    Some(json!({"example.com/published": "yes"}))
                }
                Value::String(text) if text.is_empty() => Some(json!("published")),
                _ => None,
            }
        })
    }

    fn variants(&self) -> [Value; 4] {
        [self.unchanged(), self.larger("renamed"), self.toggled(), self.filled()]
    }

    /// Renders it by both, which agree. Returns how long it took here, or the refusal of its hooks.
    fn compare(&self, values: &Value) -> Result<Duration, String> {
        let rendered = Rendered::of(&self.folder, &values.to_string());
        let said = || format!("{} with {values}: {:#?}", self.name, rendered.said());
        let theirs = objects(&rendered.theirs).unwrap_or_else(|| panic!("{}", said()));
        let (their_hooks, theirs): (Vec<_>, Vec<_>) = theirs.into_iter().partition(|object| object.contains(HOOK));

        let Some(ours) = objects(&rendered.ours) else {
            let [_, refusal] = rendered.said();
            if let Some(line) = refusal.lines().find(|line| line.contains("helm.sh/hook")) {
                assert!(WITH_HOOKS.iter().any(|end| self.name.ends_with(end)), "{}", said());
                return Err(format!("{}: {}", self.name, line.trim()));
            }
            assert!(theirs.is_empty() && refusal.contains("renders no objects"), "{}", said());
            return Ok(rendered.took);
        };
        let (our_hooks, ours): (Vec<_>, Vec<_>) = ours.into_iter().partition(|object| object.contains(HOOK));
        assert_eq!(ours, theirs, "{}", said());
        assert!(our_hooks.iter().all(|hook| their_hooks.contains(hook)), "{our_hooks:#?}: {}", said());
        Ok(rendered.took)
    }

    async fn push(&self, case: &Case<'_>, tag: &str) -> String {
        let image = ImageBuilder::of_folder(&self.folder).expect("it can be read");
        let pushed = case.world.registry.push(&format!("bundles/{}", case.name), tag, &image).await;
        pushed.expect("the registry takes it").reference
    }

    /// What `helm template` prints of it for the release of the case.
    async fn declared(&self, case: &Case<'_>, values: &Value) -> Vec<Value> {
        let kubernetes = case.client.apiserver_version().await.expect("it answers").git_version;
        let printed = template(&self.folder, &case.name, &values.to_string(), &["--kube-version", &kubernetes]);
        let declared = objects(&printed).expect("Helm renders it");
        declared.iter().map(|object| serde_json::from_str(object).expect("JSON")).collect()
    }

    /// Installs it, upgrades it to other values, rolls it back and deletes it.
    async fn live(&self) {
        let case = Case::in_world(world().await, "published").await;
        let (first, second) = (self.unchanged(), self.larger(&format!("{}-two", case.name)));
        let (before, after) = (self.declared(&case, &first).await, self.declared(&case, &second).await);
        assert_ne!(before, after, "{}: other values change nothing", self.name);
        let reference = self.push(&case, "v1").await;
        case.foreign(&of_image(&case.name, &reference, &json!({"values": first}))).await;
        until_replaced(&case, &[], &before).await;

        case.change_values(second).await;
        until_replaced(&case, &before, &after).await;
        case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
        until_replaced(&case, &after, &before).await;
        case.delete(&case.target()).await;
        until_gone(&case, &before, &[]).await;
    }
}

/// The mapping that a text is; an empty one, if it is none.
fn mapping(text: &str) -> Map<String, Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    match documents.into_iter().next() {
        Some(Value::Object(mapping)) => mapping,
        _ => Map::new(),
    }
}

/// Those values that `change` changes, at their places. It is not asked for mappings with something in them.
fn changed(values: &Map<String, Value>, change: &impl Fn(&str, &Value) -> Option<Value>) -> Map<String, Value> {
    let new = values.iter().filter_map(|(key, value)| {
        let value = match value.as_object().filter(|inner| !inner.is_empty()) {
            Some(inner) => Some(changed(inner, change)).filter(|inner| !inner.is_empty()).map(Value::Object),
            None => change(key, value),
        };
        Some((key.clone(), value?))
    });
    new.collect()
}

/// Puts values over others, as Helm does.
fn merge(values: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, over) in over {
        if let Value::Object(over) = over
            && let Some(Value::Object(values)) = values.get_mut(key)
        {
            merge(values, over);
        } else {
            values.insert(key.clone(), over.clone());
        }
    }
}

fn target(object: &Value) -> Target {
    let mut target = Target::of(object).expect("Helm prints objects");
    target.namespace.get_or_insert_with(|| SYSTEM_NAMESPACE.to_owned());
    target
}

/// Waits until the cluster has all that is declared, and nothing that was declared only before.
async fn until_replaced(case: &Case<'_>, before: &[Value], declared: &[Value]) {
    for object in declared {
        let mut wanted = object.clone();
        // What is watched does not tell its kind, and a status is the cluster's.
        for field in ["apiVersion", "kind", "status"] {
            wanted.as_object_mut().expect("an object").remove(field);
        }
        let is_so = |live: Option<&DynamicObject>| {
            live.is_some_and(|live| has(&serde_json::to_value(live).expect("JSON"), &wanted))
        };
        case.until(&target(object), &format!("what Helm prints: {wanted}"), is_so).await;
    }
    until_gone(case, before, declared).await;
    case.installed().await;
}

/// Waits until nothing is there that was declared only before, but for definitions: the API server may take minutes to end one that
/// it has just begun to serve.
async fn until_gone(case: &Case<'_>, before: &[Value], declared: &[Value]) {
    let kept: Vec<Target> = declared.iter().map(target).collect();
    let is_to_go = |target: &Target| !kept.contains(target) && target.kind != "CustomResourceDefinition";
    for gone in before.iter().map(target).filter(is_to_go) {
        case.until_gone(&gone).await;
    }
}

#[test]
fn renders_published_charts_as_helm_template_does() {
    let Some(charts) = Published::all() else { return };
    assert!(charts.len() >= AT_LEAST, "{} charts", charts.len());
    let cases: Vec<(&Published, Value)> =
        charts.iter().flat_map(|chart| chart.variants().map(|values| (chart, values))).collect();
    let compared = in_two_threads(&cases, |(chart, values)| chart.compare(values));

    let (took, refused): (Vec<_>, Vec<_>) = compared.into_iter().partition(Result::is_ok);
    let mut took: Vec<Duration> = took.into_iter().flatten().collect();
    took.sort();
    let count = took.len();
    println!("{} published charts, {count} renderings; the median takes {:?}", charts.len(), took[count / 2]);
    for refusal in refused.into_iter().filter_map(Result::err) {
        println!("refused: {refusal}");
    }
}

#[tokio::test]
#[ignore = "takes minutes: `make soak`"]
async fn installs_upgrades_and_rolls_back_twenty_published_charts() {
    let Some(charts) = Published::all() else { return };
    // What other values leave out goes once what took its place is healthy.
    let _kubelet = Kubelet::play(world().await.admin().await, SYSTEM_NAMESPACE);
    // Versions of one chart name their objects alike.
    let mut by_module: BTreeMap<&str, Vec<&Published>> = BTreeMap::new();
    for name in INSTALLED {
        let chart = charts.iter().find(|chart| chart.name == name).unwrap_or_else(|| panic!("{name} is not listed"));
        let module = name.split_once('@').expect("it has a version").0;
        by_module.entry(module).or_default().push(chart);
    }
    let install = async |charts: Vec<&Published>| {
        for chart in charts {
            chart.live().await;
        }
    };
    stream::iter(by_module.into_values()).for_each_concurrent(AT_ONCE, install).await;
}
