//! Charts: what Helm makes of one, with the Helm of this machine.

use std::env;
use std::fs;
use std::path::PathBuf;

use rukpak_content::{BundleTree, Limits};
use rukpak_format::helm;
use rukpak_helm::{Capabilities, Helm, Request};
use serde_json::{Map, Value};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::{chain, to_stderr};

/// What a chart is to a BundleDeployment: the tree that its objects are read from.
///
/// # Errors
/// Helm refuses it, or there is none here.
pub async fn render_for(
    cluster: &Cluster,
    tree: &BundleTree,
    (name, system_namespace): (&str, &str),
    config: Option<&Map<String, Value>>,
    limits: &Limits,
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
    render(tree, request, None, limits)
        .await
        .map_err(|error| if error.is_refusal() { Failure::no(chain(&error)) } else { Failure::unknown(chain(&error)) })
}

/// The text of a file of values.
///
/// # Errors
/// It cannot be read.
pub fn values(file: Option<&PathBuf>) -> Result<Option<String>, Failure> {
    let read = |file: &PathBuf| {
        fs::read_to_string(file).map_err(|error| Failure::unknown(format!("read {}: {error}", file.display())))
    };
    file.map(read).transpose()
}

/// Renders a chart, and prints what Helm warns of.
///
/// # Errors
/// Helm refuses it, or there is none here.
pub async fn render(
    tree: &BundleTree,
    request: Request,
    helm: Option<PathBuf>,
    limits: &Limits,
) -> Result<BundleTree, rukpak_helm::Error> {
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let folder = rukpak_format::helm::chart_folder(tree);
    let rendered = Helm::find(program, helm).render(tree.clone(), folder, request, &env::temp_dir(), limits).await?;
    for line in rendered.warnings.lines() {
        to_stderr(&format!("warning: {line}"));
    }
    Ok(rukpak_format::helm::rendering(rendered.manifest))
}
