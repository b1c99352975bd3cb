//! Charts.

use rukpak_content::{BundleTree, Limits};
use rukpak_format::{BundleFormat as _, Error, Format, Settings, helm};
use rukpak_helm::Request;

use super::Examined;
use crate::args::ChartArgs;
use crate::chart::{config, render, values};
use crate::failure::Failure;
use crate::finding::Finding;
use crate::output::chain;

/// Where RukPak runs if nobody says otherwise: the namespace of a release.
const NAMESPACE: &str = "rukpak-system";

/// Whether it is a chart that can be installed with some values or other.
pub(super) fn check(tree: &BundleTree) -> Examined {
    match Format::Helm.check(tree, &Limits::default(), false) {
        Ok(warnings) => Examined { warnings, ..Examined::default() },
        Err(error) => refused(&error),
    }
}

/// Checks a chart, and renders it as the flags say, without a cluster.
///
/// # Errors
/// There is no Helm here, or no file of values; or Helm refuses the flags with values.
pub(super) async fn examine(tree: &BundleTree, arguments: &ChartArgs) -> Result<Examined, Failure> {
    let checked = check(tree);
    if !checked.findings.is_empty() {
        return Ok(checked);
    }
    let config = config(values(&arguments.values).await?);
    let values = match helm::values(config.as_ref()) {
        Ok(values) => values,
        Err(error) => return Ok(refused(&error.into())),
    };
    let request = Request {
        release: arguments.release_name.clone(),
        namespace: NAMESPACE.to_owned(),
        values,
        capabilities: None,
    };
    let rendered = match render(tree, request, arguments.values.helm.clone()).await {
        Ok(rendered) => rendered,
        Err(error) if error.is_refusal() => {
            return Ok(Examined { findings: vec![Finding::new("chart", chain(&error))], ..Examined::default() });
        }
        Err(error) => return Err(Failure::unknown(chain(&error))),
    };
    Ok(match Format::Helm.render(&rendered, &Limits::default(), &Settings::default()) {
        Ok(rendered) => {
            let warnings = [checked.warnings, helm::never_run(&rendered.hooks)].concat();
            Examined { objects: [rendered.objects, rendered.hooks].concat(), warnings, ..Examined::default() }
        }
        Err(error) => refused(&error),
    })
}

fn refused(error: &Error) -> Examined {
    Examined { findings: vec![Finding::new("chart", chain(error))], ..Examined::default() }
}
