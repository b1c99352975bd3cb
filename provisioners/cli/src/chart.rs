//! Charts: what Helm makes of one, and of values, with the Helm of this machine.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use rukpak_content::{BundleTree, Limits};
use rukpak_crds::names::VALUES;
use rukpak_format::helm;
use rukpak_helm::{Capabilities, Helm, Request};
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::process::Command;

use crate::args::ValuesArgs;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::{chain, warn};

/// What Helm prints the merged values as: a line with YAML in a JSON string, which Helm does not take for objects.
const MERGED: &str = "values: ";

/// How a chart is rendered for a BundleDeployment.
#[derive(Debug, Default)]
pub struct Rendering {
    /// Values in place of `spec.config.values`.
    pub values: Option<String>,
    /// Helm, where it is neither beside this program nor in `PATH`.
    pub helm: Option<PathBuf>,
}

impl Rendering {
    /// As the flags say.
    ///
    /// # Errors
    /// The values cannot be read or merged.
    pub async fn of(arguments: &ValuesArgs) -> Result<Self, Failure> {
        Ok(Self { values: values(arguments).await?, helm: arguments.helm.clone() })
    }
}

/// What a chart is to a BundleDeployment: the tree that its objects are read from.
///
/// # Errors
/// Helm refuses it, or there is none here.
pub async fn render_for(
    cluster: &Cluster,
    tree: &BundleTree,
    (name, system_namespace): (&str, &str),
    config: Option<&Map<String, Value>>,
    rendering: &Rendering,
) -> Result<BundleTree, Failure> {
    let values = helm::values(config).map_err(|error| Failure::no(chain(&error)))?;
    let capabilities =
        Capabilities { kubernetes: cluster.kubernetes().await?, api_versions: cluster.api_versions().await? };
    let request = Request {
        release: name.to_owned(),
        namespace: system_namespace.to_owned(),
        values,
        capabilities: Some(capabilities),
    };
    render(tree, request, rendering.helm.clone())
        .await
        .map_err(|error| Failure::either(error.is_refusal(), chain(&error)))
}

/// The values that the flags name, as YAML: the text of one file as it is, with its comments, and else what Helm merges.
///
/// # Errors
/// They cannot be read, Helm refuses them, or there is none here.
pub async fn values(arguments: &ValuesArgs) -> Result<Option<String>, Failure> {
    match (arguments.values.as_slice(), arguments.set.as_slice()) {
        ([], []) => Ok(None),
        ([file], []) => fs::read_to_string(file)
            .map(Some)
            .map_err(|error| Failure::unknown(format!("read {}: {error}", file.display()))),
        _ => merge(arguments).await.map(Some),
    }
}

/// Values as `spec.config`.
pub fn config(values: Option<String>) -> Option<Map<String, Value>> {
    values.map(|values| Map::from_iter([(VALUES.to_owned(), Value::String(values))]))
}

/// Lets Helm merge values: it renders a chart without values of its own that prints those that it is given. Chart and values are not
/// a stranger's, so Helm runs as the user would run it.
async fn merge(arguments: &ValuesArgs) -> Result<String, Failure> {
    let failed = |why: &str| Failure::unknown(format!("merge --values and --set: {why}"));
    let helm = find(arguments.helm.clone());
    let helm = helm.executable().map_err(|error| Failure::unknown(chain(&error)))?;
    let chart = write_printer().map_err(|error| failed(&error.to_string()))?;

    let mut command = Command::new(helm);
    command.args(["template", VALUES]).arg(chart.path());
    for file in &arguments.values {
        command.arg("--values").arg(file);
    }
    for pair in &arguments.set {
        command.arg("--set").arg(pair);
    }
    let output = command.output().await;
    let output = output.map_err(|error| failed(&format!("run {}: {error}", helm.display())))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(failed(complaint.split_once("Error: ").map_or(&*complaint, |(_, why)| why).trim()));
    }

    let printed = String::from_utf8_lossy(&output.stdout);
    let merged = printed.lines().find_map(|line| serde_json::from_str::<String>(line.strip_prefix(MERGED)?).ok());
    // Without the end of its last line, YAML would mean another text by a last block.
    merged.map(|text| text + "\n").ok_or_else(|| failed("Helm printed something else"))
}

/// Writes the chart that prints its values.
fn write_printer() -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let templates = folder.path().join("templates");
    fs::create_dir(&templates)?;
    fs::write(folder.path().join(helm::CHART), "{apiVersion: v2, name: values, version: 1.0.0}")?;
    fs::write(templates.join("values.yaml"), format!("{MERGED}{{{{ .Values | toYaml | toJson }}}}\n"))?;
    Ok(folder)
}

fn find(helm: Option<PathBuf>) -> Helm {
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    Helm::find(program, helm)
}

/// Renders a chart, and prints what Helm warns of.
///
/// # Errors
/// Helm refuses it, or there is none here.
pub async fn render(
    tree: &BundleTree,
    request: Request,
    program: Option<PathBuf>,
) -> Result<BundleTree, rukpak_helm::Error> {
    let folder = helm::chart_folder(tree);
    let helm = find(program);
    // There is no other.
    let turn = helm.turn("", || ()).await?;
    let rendered = turn.render(tree.clone(), folder, request, &env::temp_dir(), &Limits::default()).await?;
    warn(rendered.warnings.lines());
    Ok(helm::rendering(rendered.manifest))
}
