//! Charts: what Helm makes of one, with the Helm of this machine.

use std::env;
use std::fs;
use std::path::PathBuf;

use rukpak_content::{BundleTree, Limits};
use rukpak_crds::names::VALUES;
use rukpak_format::{BundleFormat as _, Error, Format, Settings, helm};
use rukpak_helm::{Capabilities, Helm, Request};
use serde_json::{Map, Value};

use crate::args::ChartArgs;
use crate::cluster::Cluster;
use crate::examine::Examined;
use crate::failure::Failure;
use crate::finding::Finding;
use crate::output::{chain, to_stderr};

/// Where RukPak runs if nobody says otherwise: the namespace of a release.
const NAMESPACE: &str = "rukpak-system";

/// Whether it is a chart that can be installed with some values or other.
pub fn check(tree: &BundleTree, limits: &Limits) -> Examined {
    match Format::Helm.check(tree, limits, false) {
        Ok(warnings) => Examined { warnings, ..Examined::default() },
        Err(error) => refused(&error),
    }
}

/// Checks a chart, and renders it as the flags say, without a cluster.
///
/// # Errors
/// There is no Helm here, or no file of values.
pub async fn examine(tree: &BundleTree, arguments: &ChartArgs, limits: &Limits) -> Result<Examined, Failure> {
    let checked = check(tree, limits);
    if !checked.findings.is_empty() {
        return Ok(checked);
    }
    let values = values(arguments.values.as_ref())?.map(Value::String);
    let config: Map<String, Value> = values.map(|values| (VALUES.to_owned(), values)).into_iter().collect();
    let values = match helm::values(Some(&config)) {
        Ok(values) => values,
        Err(error) => return Ok(refused(&error.into())),
    };
    let request = Request {
        release: arguments.release_name.clone(),
        namespace: NAMESPACE.to_owned(),
        values,
        capabilities: None,
    };
    let rendered = match render(tree, request, arguments.helm.clone(), limits).await {
        Ok(rendered) => rendered,
        Err(error) if error.is_refusal() => {
            return Ok(Examined { findings: vec![Finding::new("chart", chain(&error))], ..Examined::default() });
        }
        Err(error) => return Err(Failure::unknown(chain(&error))),
    };
    Ok(match Format::Helm.render(&rendered, limits, &Settings::default()) {
        Ok(rendered) => Examined { objects: rendered.objects, ..Examined::default() },
        Err(error) => refused(&error),
    })
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

async fn render(
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

fn refused(error: &Error) -> Examined {
    Examined { findings: vec![Finding::new("chart", chain(error))], ..Examined::default() }
}
