//! A world whose controller knows where Helm is, and charts in it.

use std::collections::BTreeMap;
use std::path::Path;

use kube::api::DynamicObject;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, World, image, until};
use rukpak_tests::{ImageBuilder, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::engine::case::Case;

/// So long a chart may be rendered here.
const MOST_SECONDS: u64 = 20;
/// So much Helm may print here: less than fits into its memory.
pub const MOST_BYTES: u64 = 8 << 20;

static WORLD: OnceCell<World> = OnceCell::const_new();

/// The world of these tests.
pub async fn world() -> &'static World {
    WORLD.get_or_init(own_world).await
}

/// A world like that for one test, which may stop the controller.
pub async fn own_world() -> World {
    let start = async || {
        let helm = format!("--helm={}", tools::helm()?.display());
        let limits = [format!("--limit=check-seconds={MOST_SECONDS}"), format!("--limit=manifest-bytes={MOST_BYTES}")];
        World::start([vec![helm], limits.into()].concat()).await
    };
    start().await.unwrap_or_else(|error| panic!("the world could not be started: {error:#}"))
}

/// The files of a chart, by their path in it.
pub struct Chart(BTreeMap<String, String>);

impl Chart {
    /// A chart of one ConfigMap, which says what the templates were told.
    pub fn new() -> Self {
        Self(BTreeMap::new())
            .with("Chart.yaml", "{apiVersion: v2, name: pump, version: 1.0.0}")
            .with("values.yaml", "size: 1")
            .with(
                "templates/settings.yaml",
                r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
data:
  namespace: {{ .Release.Namespace }}
  size: {{ .Values.size | quote }}
  kubernetes: {{ .Capabilities.KubeVersion.Version }}
  knows: {{ .Capabilities.APIVersions.Has "core.rukpak.io/v1alpha1/BundleDeployment" | quote }}
"#,
            )
    }

    /// The same with another file.
    pub fn with(mut self, path: &str, text: &str) -> Self {
        self.0.insert(path.to_owned(), text.to_owned());
        self
    }

    /// The same without a file.
    pub fn without(mut self, path: &str) -> Self {
        self.0.remove(path);
        self
    }

    /// The same with a Secret of a password that nobody knows.
    pub fn with_password(self) -> Self {
        let secret = r"
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-password
stringData:
  password: {{ randAlphaNum 24 }}
";
        self.with("templates/password.yaml", secret)
    }

    /// The files below a folder.
    pub fn files(&self, folder: &str) -> Vec<(String, String)> {
        self.0.iter().map(|(path, text)| (format!("{folder}{path}"), text.clone())).collect()
    }

    /// Writes the files into the folder `chart` of `folder`.
    pub fn write(&self, folder: &Path) {
        for (path, text) in self.files("chart/") {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
            std::fs::write(path, text).expect("a file can be written");
        }
    }
}

/// What a test does with a chart.
pub trait Charts {
    async fn push_chart(&self, tag: &str, chart: &Chart, folder: &str) -> String;
    async fn deploy_chart(&self, chart: &Chart, config: Value);
    async fn change_chart(&self, tag: &str, chart: &Chart);
    async fn change_values(&self, values: Value);
    fn system(&self, kind: &str, suffix: &str) -> Target;
    async fn settings(&self) -> Value;
    async fn password(&self) -> Value;
    async fn until_size(&self, size: &str);
    async fn invalid(&self, reason: &str, message: &str) -> String;
}

impl Charts for Case<'_> {
    /// Pushes a chart as an image; returns the reference.
    async fn push_chart(&self, tag: &str, chart: &Chart, folder: &str) -> String {
        let image = ImageBuilder::of_files(chart.files(folder));
        let pushed = self.world.registry.push(&format!("bundles/{}", self.name), tag, &image).await;
        pushed.expect("the registry takes it").reference
    }

    /// Creates the BundleDeployment of a chart, in the form that RukPak has; waits for nothing.
    async fn deploy_chart(&self, chart: &Chart, config: Value) {
        let reference = self.push_chart("v1", chart, "").await;
        self.foreign(&of_image(&self.name, &reference, &config)).await;
    }

    /// Changes the chart; waits for nothing.
    async fn change_chart(&self, tag: &str, chart: &Chart) {
        let reference = self.push_chart(tag, chart, "").await;
        let source = json!({"spec": {"template": {"spec": {"source": {"image": {"ref": reference}}}}}});
        self.edit("user", &self.target(), source).await;
    }

    /// Changes the values; waits for nothing.
    async fn change_values(&self, values: Value) {
        self.edit("user", &self.target(), json!({"spec": {"config": {"values": values}}})).await;
    }

    /// An object in the namespace of the release.
    fn system(&self, kind: &str, suffix: &str) -> Target {
        Target::namespaced("v1", kind, SYSTEM_NAMESPACE, &format!("{}-{suffix}", self.name))
    }

    /// The data of the ConfigMap.
    async fn settings(&self) -> Value {
        self.get(&self.system("ConfigMap", "settings")).await.expect("it is installed").data["data"].clone()
    }

    /// The password, as the Secret has it.
    async fn password(&self) -> Value {
        self.get(&self.system("Secret", "password")).await.expect("it is installed").data["data"]["password"].clone()
    }

    /// Waits until the ConfigMap says so, and everything is installed.
    async fn until_size(&self, size: &str) {
        self.until_value(&self.system("ConfigMap", "settings"), "/data/size", &json!(size)).await;
        self.installed().await;
    }

    /// Waits for `HasValidBundle=False`; returns the message.
    async fn invalid(&self, reason: &str, message: &str) -> String {
        let expected = Expected::is_false("HasValidBundle", reason).saying(message);
        let object = until(&self.client, &self.name, expected).await;
        verbs::condition(&object, "HasValidBundle").expect("it is there")["message"].as_str().expect("text").to_owned()
    }
}

/// A BundleDeployment of a chart in an image.
pub fn of_image(name: &str, reference: &str, config: &Value) -> Value {
    of_source(name, &image(reference), config)
}

/// A BundleDeployment of a chart from anywhere.
pub fn of_source(name: &str, source: &Value, config: &Value) -> Value {
    let class = "core-rukpak-io-helm";
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
        "spec": {"provisionerClassName": class, "config": config,
            "template": {"spec": {"provisionerClassName": class, "source": source}}}})
}

/// Commits the chart into a folder of a repository, with symbolic links by path in the chart and target; returns the source.
pub fn git_source(case: &Case<'_>, chart: &Chart, links: &[(&str, &str)]) -> Value {
    let repository = case.world.git.repository(&case.name).expect("a repository can be made");
    let files = chart.files("pump/");
    let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.push(("README.md", "A chart is in the folder pump."));
    repository.write(&files).expect("files can be written");
    for (path, target) in links {
        repository.symlink(&format!("pump/{path}"), target).expect("a link can be made");
    }
    repository.commit("first").expect("git takes it");

    let url = case.world.git.url(&case.name);
    json!({"type": "git", "git": {"repository": url, "directory": "pump", "ref": {"branch": "main"}}})
}

/// Waits until the object is there again, as another one.
pub async fn until_again(case: &Case<'_>, target: &Target, before: &DynamicObject) -> DynamicObject {
    let is_another =
        |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.uid != before.metadata.uid);
    let found = verbs::await_object(&case.client, target, "another object of that name", SOON, is_another).await;
    found.unwrap_or_else(|error| panic!("{error:#}")).expect("it is there")
}
