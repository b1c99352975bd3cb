//! Charts that use every construct of templates, values and subcharts, each with four sets of values: what is rendered here is what `helm
//! template` prints, or both refuse it. Those that a cluster can hold are installed, upgraded and rolled back.

use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use futures::{StreamExt, stream};
use rukpak_content::Limits;
use rukpak_plain::{Budget, manifests};
use rukpak_tests::tools;
use serde_json::{Value, json};

use super::case::{Chart, Charts as _, world};
use super::snippets::{SNIPPETS, structured};
use crate::engine::case::Case;

/// Where RukPak runs if nobody says otherwise.
const NAMESPACE: &str = "rukpak-system";

/// What every chart has.
const VALUES: &str = r#"
size: 3
enabled: true
name: pump
text: "one: \"two\"\nthree"
items: [b, a, c, a]
ports: [{name: http, port: 80}, {name: metrics, port: 9090}]
labels: {app.kubernetes.io/name: pump, tier: "1"}
nested: {a: {b: {c: deep}}}
range: ">=1.2.0"
template: "{{ .Release.Name }} of {{ .Values.name }}"
global: {zone: one}
"#;

/// Values in place of those: none, and three others.
const OTHERS: [&str; 4] = [
    "{}",
    "size: 0\nenabled: false\nitems: []\nlabels: {}\nports: []\n",
    "size: 12\nname: \"é: ü\"\ntext: \"\"\nitems: [1, two, 3.5, true]\nnested: {a: {b: {c: 7, d: [x]}}}\nglobal: {zone: two}\n",
    "name: null\nlabels: {tier: null, extra: \"yes\"}\nlow: {size: 9}\nenabled: \"on\"\n",
];

/// A chart that prints what a template makes of its values.
fn of_template(template: &str) -> Chart {
    let settings = format!(
        "{{{{- define \"inner\" }}}}{{{{ .n }}}}/{{{{ .root.Release.Name }}}}{{{{ end }}}}{{{{- define \"out\" }}}}{template}{{{{ end -}}}}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-settings\n\
         data:\n  size: {{{{ .Values.size | quote }}}}\n  out: {{{{ include \"out\" . | quote }}}}\n"
    );
    Chart::new().with("values.yaml", VALUES).with("templates/settings.yaml", &settings)
}

fn charts() -> Vec<(String, Chart)> {
    let snippets = SNIPPETS.iter().map(|(name, template)| ((*name).to_owned(), of_template(template)));
    let structured = structured().into_iter().map(|(name, files)| {
        let chart = of_template("{{ .Values.name }}");
        (name.to_owned(), files.into_iter().fold(chart, |chart, (path, text)| chart.with(path, &text)))
    });
    snippets.chain(structured).collect()
}

/// The objects that a program printed, as an API server would store them, sorted, each once; `None` if it refused.
pub(super) fn objects(output: &Output) -> Option<Vec<String>> {
    if !output.status.success() {
        return None;
    }
    let (limits, mut objects) = (Limits::default(), Vec::new());
    manifests::read_file("manifest.yaml", &output.stdout, &mut Budget::new(&limits), &mut objects).expect("manifests");
    let mut shown: Vec<String> = objects.iter().map(|object| stored(object.as_value().clone()).to_string()).collect();
    shown.sort();
    shown.dedup();
    Some(shown)
}

/// Without fields that are null, and with the text of Secrets as data.
fn stored(mut object: Value) -> Value {
    if object["kind"] == "Secret"
        && let Some(Value::Object(texts)) = object.as_object_mut().and_then(|object| object.remove("stringData"))
    {
        for (key, text) in texts {
            object["data"][key] = json!(BASE64_STANDARD.encode(text.as_str().unwrap_or_default()));
        }
    }
    drop_nulls(&mut object);
    object
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("HOME", folder).current_dir(folder);
    command.output().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// What `helm template` prints of the chart in a folder, for a release of that name.
pub(super) fn template(chart: &Path, release: &str, values: &str, more: &[&str]) -> Output {
    let folder = tools::temp_folder("values").expect("a folder can be made");
    std::fs::write(folder.path().join("values.yaml"), values).expect("a file can be written");
    let chart = chart.to_str().expect("it is UTF-8");
    let arguments = ["template", release, chart, "--namespace", NAMESPACE, "--values", "values.yaml", "--include-crds"];
    let arguments = [&arguments[..], &["--skip-tests"], more].concat();
    run(&tools::helm().expect("Helm is built"), folder.path(), &arguments)
}

/// What both make of a chart.
pub(super) struct Rendered {
    pub theirs: Output,
    pub ours: Output,
    /// How long it took here.
    pub took: Duration,
}

impl Rendered {
    /// By both.
    pub fn of(chart: &Path, values: &str) -> Self {
        let theirs = template(chart, "pump", values, &[]);
        let (helm, program) =
            (tools::helm().expect("Helm is built"), tools::workspace_binary("rukpakctl").expect("it is built"));
        let folder = tools::temp_folder("values").expect("a folder can be made");
        std::fs::write(folder.path().join("values.yaml"), values).expect("a file can be written");
        let (chart, helm) = (chart.to_str().expect("it is UTF-8"), helm.to_str().expect("it is UTF-8"));
        let begun = Instant::now();
        let arguments = ["render", chart, "--release-name", "pump", "--values", "values.yaml", "--helm", helm];
        let ours = run(&program, folder.path(), &arguments);
        Self { theirs, ours, took: begun.elapsed() }
    }

    /// What each said: Helm, and then the program here.
    pub fn said(&self) -> [String; 2] {
        [&self.theirs, &self.ours].map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Renders the chart by both, which agree; returns how long it took here.
fn compare(name: &str, chart: &Chart, other: &str) -> Duration {
    let folder = tools::temp_folder("chart").expect("a folder can be made");
    chart.write(folder.path());
    let rendered = Rendered::of(&folder.path().join("chart"), other);
    assert_eq!(objects(&rendered.ours), objects(&rendered.theirs), "{name} with {other:?}: {:#?}", rendered.said());
    rendered.took
}

/// Does some work on each, in two threads.
pub(super) fn in_two_threads<T: Sync, R: Send>(cases: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (first, second) = cases.split_at(cases.len() / 2);
    let work = &work;
    std::thread::scope(|scope| {
        let other = scope.spawn(move || second.iter().map(work).collect::<Vec<R>>());
        let mut done: Vec<R> = first.iter().map(work).collect();
        done.extend(other.join().expect("the other half is done, too"));
        done
    })
}

#[test]
fn renders_what_helm_template_prints_of_every_construct() {
    let charts = charts();
    assert!(charts.len() >= 60, "{} charts", charts.len());
    let cases: Vec<(&str, &Chart, &str)> =
        charts.iter().flat_map(|(name, chart)| OTHERS.map(|other| (name.as_str(), chart, other))).collect();
    let mut took = in_two_threads(&cases, |(name, chart, other)| compare(name, chart, other));
    took.sort();
    let count = took.len();
    println!("{} charts, {count} renderings; the median takes {:?}", charts.len(), took[count / 2]);
}

/// Charts that refuse some of the values here, or all.
const REFUSED: [&str; 5] = ["error-in-template", "type-error", "fail", "required", "schema"];

/// An object that is longer than a pipe holds.
const PADDING: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: padding}\ndata: {text: {{ repeat 262144 \"a\" }}}\n";
/// Helm may have so much memory for a chart of these tests.
const MOST_KIBIBYTES: u64 = 64 * 1024;

/// The most memory that Helm has had to render the chart; `None` if it refuses to.
fn peak_kibibytes(chart: Chart) -> Option<u64> {
    let folder = tools::temp_folder("chart").expect("a folder can be made");
    chart.with("templates/padding.yaml", PADDING).write(folder.path());
    let mut helm = Command::new(tools::helm().expect("Helm is built"));
    helm.args(["template", "pump", "chart", "--namespace", NAMESPACE, "--include-crds"]).current_dir(folder.path());
    // As the controller runs it.
    helm.env_clear().env("HOME", folder.path()).env("GOMAXPROCS", "1");
    let mut child = helm.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("Helm can be started");
    let mut printed = child.stdout.take().expect("it is piped");

    // Helm prints when everything is rendered, and cannot end before somebody has read more than this.
    let is_rendered = printed.read(&mut [0]).expect("it is a pipe") > 0;
    let peak = is_rendered.then(|| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it has not ended");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
        line.trim().trim_end_matches("kB").trim().parse().expect("kibibytes")
    });
    io::copy(&mut printed, &mut io::sink()).expect("it is a pipe");
    child.wait().expect("it ends");
    peak
}

#[test]
fn renders_every_construct_in_little_memory() {
    let charts = charts();
    let rendered = charts.len() - REFUSED.len();
    let mut peaks: Vec<u64> = charts.into_iter().filter_map(|(_, chart)| peak_kibibytes(chart)).collect();
    peaks.sort_unstable();
    let (count, most) = (peaks.len(), peaks.last().copied().unwrap_or_default());
    println!("{count} charts; the median takes {} KiB, and the most is {most} KiB", peaks[count / 2]);
    assert!(count >= rendered, "{count} of {rendered} charts are rendered");
    assert!(most < MOST_KIBIBYTES, "{most} KiB");
}

/// So many charts are installed at once.
pub(super) const AT_ONCE: usize = 4;

#[tokio::test]
async fn installs_upgrades_and_rolls_back_twenty_charts() {
    // Those that are refused with their own values are for the other test.
    let charts: Vec<_> = charts().into_iter().filter(|(name, _)| !REFUSED.contains(&name.as_str())).collect();
    let step = charts.len() / 20;
    let some: Vec<&(String, Chart)> = charts.iter().step_by(step).take(20).collect();
    assert_eq!(some.len(), 20);
    let install = async |(name, chart): &(String, Chart)| {
        let case = Case::in_world(world().await, "construct").await;
        case.deploy_chart(chart, json!({})).await;
        case.until_size("3").await;
        let first = case.settings().await;

        case.change_values(json!({"size": 12, "name": "other", "items": ["z"]})).await;
        case.until_size("12").await;
        let status = case.get(&case.target()).await.expect("it is there").data["status"].clone();
        let revisions = status["history"].as_array().map(Vec::len);
        assert_eq!(revisions, Some(2), "{name}: {:#}", status["history"]);

        case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
        case.until_size("3").await;
        assert_eq!(case.settings().await, first, "{name}: what was rendered first is installed again");
        case.delete(&case.target()).await;
    };
    stream::iter(some).for_each_concurrent(AT_ONCE, install).await;
}

#[test]
fn a_chart_that_differs_is_told_from_one_that_does_not() {
    let output =
        |text: &str| Output { status: std::process::ExitStatus::default(), stdout: text.into(), stderr: Vec::new() };
    let one = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1'}}";
    assert_eq!(objects(&output(one)), objects(&output(&format!("# Source: x\n---\n{one}\n"))));
    assert_ne!(objects(&output(one)), objects(&output(&one.replace('1', "2"))));
    assert_ne!(objects(&output(one)), objects(&output("")));
}
