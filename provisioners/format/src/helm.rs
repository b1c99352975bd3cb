//! `helm+v3`: what is looked at in a chart before Helm renders it, the values that it is rendered with, and the objects in what was
//! rendered. Who runs Helm is another crate's business: nothing here starts a program.

use std::sync::Arc;

use rukpak_content::{BundleTree, Entry, LimitExceeded, Limits, RelativePath};
use rukpak_crds::names::VALUES;
use rukpak_plain::{Budget, Few, Object, manifests, yaml};
use rukpak_plan::hook::{self, Event, HOOK};
use serde_json::{Map, Value};

mod lookup;

/// What a chart says of itself, and what it is found by.
pub const CHART: &str = "Chart.yaml";
/// Where a chart of apiVersion v1 declares what it needs.
const REQUIREMENTS: &str = "requirements.yaml";
/// Where the charts lie that it needs.
const CHARTS: &str = "charts";
/// Hooks that only `helm test` runs.
const TESTS: [&str; 3] = ["test", "test-success", "test-failure"];
/// The file with everything that Helm rendered.
const RENDERED: &str = "manifests/manifest.yaml";
/// The status keeps the values of every revision, and an object of the API server has some 1.5 MiB.
const VALUES_MAX_BYTES: usize = 64 << 10;

/// Why a tree is not a chart that can be installed, or why its values or its objects are refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no chart. The text before the colon is upstream's, and Helm's.
    #[error("Chart.yaml file is missing: a helm+v3 bundle is a chart, at its root or in the only folder there")]
    Missing,
    /// A file of the chart cannot be read.
    #[error("cannot load {0}")]
    Unreadable(&'static str, #[source] yaml::Error),
    /// It is no mapping.
    #[error("cannot load {0}: not a mapping")]
    NotAMapping(&'static str),
    /// What the chart says of itself makes no sense. The text is Helm's.
    #[error("validation: chart.metadata.{0}")]
    Invalid(String),
    /// The chart is for other charts. The text before the colon is Helm's.
    #[error("library charts are not installable: {0} has type library; install a chart that uses it")]
    Library(String),
    /// Charts that it needs are not in it. The text before the colon is Helm's.
    #[error(
        "found in Chart.yaml, but missing in charts/ directory: {}: nothing is fetched here; run helm dependency build before the chart \
         is published", .0.join(", ")
    )]
    Dependencies(Vec<String>),
    /// Settings that a chart has no use for. Holds their names.
    #[error("parse deployment config: unknown field{} {} in spec.config: a helm+v3 bundle takes values alone", if .0.len() == 1 { "" } else { "s" }, .0.join(", "))]
    UnknownFields(Vec<String>),
    /// Values are neither text nor a mapping. The beginning is upstream's.
    #[error(
        "parse deployment config: spec.config.values is {0}: write the values as a mapping, or as YAML in a string"
    )]
    Values(&'static str),
    /// Values are too large.
    #[error(
        "parse deployment config: spec.config.values has {0} bytes, and the limit is {VALUES_MAX_BYTES}, because the status keeps those \
         of every revision: put large values into the chart"
    )]
    TooLarge(usize),
    /// What was rendered cannot be read.
    #[error("read what Helm rendered")]
    Rendered(#[source] manifests::Error),
    /// Nothing was rendered.
    #[error("the chart renders no objects with these values: look at its conditions, and at spec.config.values")]
    Empty,
    /// An object is to be applied at some moment that does not come here.
    #[error(
        "{object} is a hook ({HOOK}: {hook}), and none of these events comes here: hooks are run at {}; switch it off in \
         spec.config.values, or install the chart with Helm", Event::ALL.map(|event| event.to_string()).join(", ")
    )]
    Hook {
        /// The object.
        object: String,
        /// The annotation's value.
        hook: String,
    },
    /// Too large.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
}

/// The folder of the chart in `tree`: the only folder at the root, or the root itself, `""`. So upstream has it.
pub fn chart_folder(tree: &BundleTree) -> &str {
    let mut top = tree.iter().filter(|(path, _)| path.parent().is_none());
    match (top.next(), top.next()) {
        (Some((folder, Entry::Directory)), None) => folder.as_str(),
        _ => "",
    }
}

/// Whether `tree` is a chart that can be installed with some values or other; what its author should know although nothing is refused.
/// What Helm looks at again is not looked at here: whether templates are right, and the schema of values.
pub(super) fn check(tree: &BundleTree, limits: &Limits) -> Result<Vec<String>, Error> {
    let mut budget = Budget::new(limits);
    let folder = chart_folder(tree);
    let chart = read(tree, folder, CHART, &mut budget)?.ok_or(Error::Missing)?;
    let text = |key: &str| chart.get(key).and_then(Value::as_str).unwrap_or_default();

    // Helm takes a chart that does not say it for one of Helm 2.
    if !["", "v1", "v2"].contains(&text("apiVersion")) {
        return Err(Error::Invalid(format!("apiVersion {:?} is invalid: v2 and v1 are known", text("apiVersion"))));
    }
    let name = text("name");
    if name.is_empty() {
        return Err(Error::Invalid("name is required".to_owned()));
    }
    if name.contains(['/', '\\']) {
        return Err(Error::Invalid(format!("name {name:?} is invalid")));
    }
    match chart.get("version") {
        None | Some(Value::Null) => return Err(Error::Invalid("version is required".to_owned())),
        Some(Value::String(version)) if is_version(version) => {}
        Some(version) => return Err(Error::Invalid(format!("version {version} is invalid"))),
    }
    match text("type") {
        "" | "application" => {}
        "library" => return Err(Error::Library(name.to_owned())),
        _ => return Err(Error::Invalid("type must be application or library".to_owned())),
    }

    let requirements = match text("apiVersion") {
        "v2" => None,
        _ => read(tree, folder, REQUIREMENTS, &mut budget)?,
    };
    let declared = requirements.iter().chain([&chart]).filter_map(|file| file.get("dependencies")?.as_array());
    let names = declared.flatten().filter_map(|dependency| dependency.get("name")?.as_str());
    let missing: Vec<String> =
        names.filter(|name| !has_chart(tree, folder, name, &mut budget)).map(str::to_owned).collect();
    if missing.is_empty() { Ok(lookup::warnings(tree, folder).lines()) } else { Err(Error::Dependencies(missing)) }
}

/// Reads a file of the chart in `folder`; `None` if it is not there.
fn read(
    tree: &BundleTree,
    folder: &str,
    name: &'static str,
    budget: &mut Budget<'_>,
) -> Result<Option<Map<String, Value>>, Error> {
    let path = within(folder, name);
    let Some(Entry::File { body, .. }) = tree.get(&path) else { return Ok(None) };
    budget.add_file(&path, body.len() as u64)?;
    let documents = yaml::parse(&Arc::from(path), body, budget).map_err(|error| Error::Unreadable(name, error))?;
    match documents.into_iter().next().map(|document| document.value) {
        Some(Value::Object(map)) => Ok(Some(map)),
        _ => Err(Error::NotAMapping(name)),
    }
}

fn within(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Whether the chart in `folder` holds the chart `name`: as a folder, or as an archive, which is told by its name. Helm looks into it.
fn has_chart(tree: &BundleTree, folder: &str, name: &str, budget: &mut Budget<'_>) -> bool {
    let charts = within(folder, CHARTS);
    let mut entries = tree.list(&charts).into_iter().flatten();
    entries.any(|(entry, kind)| match kind {
        Entry::File { .. } => {
            let version = entry.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            version.and_then(|version| version.strip_suffix(".tgz")).is_some_and(is_version)
        }
        Entry::Directory => {
            let chart = read(tree, &within(&charts, entry), CHART, budget).ok().flatten();
            chart.is_some_and(|chart| chart.get("name").and_then(Value::as_str) == Some(name))
        }
    })
}

/// Whether Helm takes it for a version: semantic, of which trailing numbers may be left out.
fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() <= 3
        && numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The values in `spec.config`, as YAML.
///
/// # Errors
/// They are no values, or there is something else.
pub fn values(config: Option<&Map<String, Value>>) -> Result<Option<String>, Error> {
    let Some(config) = config else { return Ok(None) };
    let unknown: Vec<String> = config.keys().filter(|key| *key != VALUES).map(|key| format!("{key:?}")).collect();
    if !unknown.is_empty() {
        return Err(Error::UnknownFields(unknown));
    }
    let values = match config.get(VALUES) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(values @ Value::Object(_)) => values.to_string(),
        Some(Value::Array(_)) => return Err(Error::Values("a list")),
        Some(Value::Number(_)) => return Err(Error::Values("a number")),
        Some(Value::Bool(_)) => return Err(Error::Values("a boolean")),
    };
    if values.len() > VALUES_MAX_BYTES { Err(Error::TooLarge(values.len())) } else { Ok(Some(values)) }
}

/// What Helm rendered, as the tree that [`render`] reads and the store keeps.
pub fn rendering(text: Vec<u8>) -> BundleTree {
    let mut tree = BundleTree::new();
    if let Ok(path) = RelativePath::new(RENDERED) {
        tree.add_file(path, false, text.into());
    }
    tree
}

/// The objects in what Helm rendered, but for those that only `helm test` would apply, and its hooks.
pub(super) fn render(tree: &BundleTree, limits: &Limits) -> Result<(Vec<Object>, Vec<Object>), Error> {
    let mut budget = Budget::new(limits);
    let objects = manifests::read(tree, &mut budget).map_err(Error::Rendered)?;
    let (mut kept, mut hooks) = (Vec::with_capacity(objects.len()), Vec::new());
    for object in objects {
        let Some(events) = hook::names_of_events(&object) else {
            kept.push(object);
            continue;
        };
        // Helm 3 does not know it, and has left it out of templates: this CRD is from `crds/`, and Helm installs it.
        if events.iter().all(|event| event == "crd-install") {
            kept.push(object);
        } else if events.iter().any(|event| Event::named(event).is_some()) {
            hooks.push(object);
        } else if !events.iter().all(|event| TESTS.contains(&event.as_str())) {
            let hook = object.annotation(HOOK).unwrap_or_default().to_owned();
            return Err(Error::Hook { object: format!("{} ({})", object.key(), object.origin()), hook });
        }
    }
    let objects = manifests::merge_repeated(kept, &mut budget).map_err(Error::Rendered)?;
    if objects.is_empty() { Err(Error::Empty) } else { Ok((objects, hooks)) }
}

/// A line for each of `hooks` that is for other events, too, than come here.
pub fn never_run(hooks: &[Object]) -> Vec<String> {
    let mut lines = Few::default();
    for object in hooks {
        let events = hook::names_of_events(object).unwrap_or_default();
        let others: Vec<&str> =
            events.iter().map(String::as_str).filter(|event| Event::named(event).is_none()).collect();
        if !others.is_empty() {
            let (key, origin) = (object.key(), object.origin());
            lines.push_with(|| format!("{key} ({origin}) is a hook that is never run here at {}", others.join(", ")));
        }
    }
    lines.lines()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> BundleTree {
        let mut tree = BundleTree::new();
        for (path, text) in files {
            tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::copy_from_slice(text.as_bytes()));
        }
        tree
    }

    const GOOD: &str = "{apiVersion: v2, name: pump, version: 1.2.3}";

    fn refusal(files: &[(&str, &str)]) -> String {
        check(&tree(files), &Limits::default()).unwrap_err().to_string()
    }

    #[test]
    fn finds_chart_at_the_root_or_in_the_only_folder() {
        for files in [
            &[("Chart.yaml", GOOD), ("templates/a.yaml", "")][..],
            &[("pump/Chart.yaml", GOOD), ("pump/templates/a.yaml", "")],
            &[("Chart.yaml", GOOD)],
        ] {
            check(&tree(files), &Limits::default()).unwrap();
        }
        for files in [&[][..], &[("a/Chart.yaml", GOOD), ("b", "")], &[("a/b/Chart.yaml", GOOD)], &[("a", "")]] {
            assert!(refusal(files).starts_with("Chart.yaml file is missing"), "{files:?}");
        }
    }

    #[test]
    fn refuses_chart_that_says_nonsense_of_itself_in_helms_words() {
        for (chart, expected) in [
            ("{apiVersion: v2, version: 1.0.0}", "validation: chart.metadata.name is required"),
            ("{apiVersion: v2, name: a/b, version: 1.0.0}", "validation: chart.metadata.name \"a/b\" is invalid"),
            ("{apiVersion: v2, name: a}", "validation: chart.metadata.version is required"),
            ("{apiVersion: v2, name: a, version: one}", "validation: chart.metadata.version \"one\" is invalid"),
            ("{apiVersion: v2, name: a, version: 1}", "validation: chart.metadata.version 1 is invalid"),
            ("{apiVersion: v3, name: a, version: 1.0.0}", "validation: chart.metadata.apiVersion \"v3\" is invalid"),
            (
                "{apiVersion: v2, name: a, version: 1.0.0, type: other}",
                "chart.metadata.type must be application or library",
            ),
            ("{apiVersion: v2, name: a, version: 1.0.0, type: library}", "library charts are not installable: a"),
            ("[]", "cannot load Chart.yaml: not a mapping"),
            ("a: [", "cannot load Chart.yaml"),
        ] {
            let text = refusal(&[("Chart.yaml", chart)]);
            assert!(text.contains(expected), "{chart}: {text}");
        }
        check(&tree(&[("Chart.yaml", "{name: of-helm-2, version: v1.2-rc.1}")]), &Limits::default()).unwrap();
    }

    #[test]
    fn refuses_chart_that_lacks_what_it_declares_by_name() {
        let chart = "{apiVersion: v2, name: a, version: 1.0.0, dependencies: [{name: db}, {name: db-extra}]}";
        let all = [("Chart.yaml", chart), ("charts/x/Chart.yaml", "{name: db}"), ("charts/db-extra-1.0.0.tgz", "")];
        check(&tree(&all), &Limits::default()).unwrap();
        let text = refusal(&[("Chart.yaml", chart), ("charts/db-extra-1.0.0.tgz", "")]);
        assert!(text.starts_with("found in Chart.yaml, but missing in charts/ directory: db: "), "{text}");
        let old = [("Chart.yaml", "{name: a, version: 1.0.0}"), ("requirements.yaml", "dependencies: [{name: db}]")];
        assert!(refusal(&old).contains("directory: db: "));
    }

    #[test]
    fn takes_values_as_text_or_as_a_mapping() {
        let read = |config: Value| values(config.as_object()).map_err(|error| error.to_string());
        assert_eq!(read(json!(null)), Ok(None));
        assert_eq!(read(json!({"values": "a: 1"})), Ok(Some("a: 1".to_owned())));
        assert_eq!(read(json!({"values": {"a": null}})), Ok(Some(r#"{"a":null}"#.to_owned())));
        assert!(read(json!({"values": [1]})).unwrap_err().starts_with("parse deployment config: "));
        assert!(read(json!({"watchNamespace": "a"})).unwrap_err().contains("unknown field \"watchNamespace\""));
        assert!(read(json!({"values": "a".repeat(65_537)})).unwrap_err().contains("65537 bytes"));
    }

    /// The names of objects and of hooks.
    fn rendered(text: &str) -> Result<(Vec<String>, Vec<String>), String> {
        let names = |objects: Vec<Object>| objects.iter().map(|object| object.name().to_owned()).collect();
        let rendered = render(&rendering(text.as_bytes().to_vec()), &Limits::default());
        rendered.map(|(objects, hooks)| (names(objects), names(hooks))).map_err(|error| error.to_string())
    }

    #[test]
    fn leaves_tests_out_and_tells_hooks_apart_and_refuses_those_that_are_not_run_by_name() {
        let object = |name: &str, hook: &str| {
            format!("---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{{hook}}}}}}}\n")
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let text = [
            object("a", ""),
            object("b", "helm.sh/hook: test"),
            object("c", "helm.sh/hook: 'test, test-success'"),
            object("d", "helm.sh/hook: 'Pre-Install, pre-delete'"),
            object("e", "helm.sh/hook: post-upgrade"),
        ];
        assert_eq!(rendered(&text.concat()), Ok((names(&["a"]), names(&["d", "e"]))));
        let (_, hooks) = render(&rendering(text.concat().into_bytes()), &Limits::default()).unwrap();
        let place = "manifests/manifest.yaml, document 4 (line 8)";
        assert_eq!(never_run(&hooks), [format!("Pod \"d\" ({place}) is a hook that is never run here at pre-delete")]);
        let definition = object("a", "helm.sh/hook: crd-install");
        assert_eq!(rendered(&definition), Ok((names(&["a"]), names(&[]))), "from crds/");
        for events in ["pre-delete", "post-delete", "pre-rollback", "post-rollback", "test,pre-delete", "none"] {
            let text = [object("a", ""), object("b", &format!("helm.sh/hook: '{events}'"))].concat();
            let error = rendered(&text).unwrap_err();
            let expected = format!(
                "Pod \"b\" (manifests/manifest.yaml, document 2 (line 4)) is a hook (helm.sh/hook: {events}), and none of \
                 these events comes here: hooks are run at pre-install, pre-upgrade, post-install, post-upgrade;"
            );
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(rendered("# nothing\n").unwrap_err().starts_with("the chart renders no objects"));
    }
}
