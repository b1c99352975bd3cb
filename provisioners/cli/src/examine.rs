//! A tree of files to objects, findings and warnings.

mod builtin;
mod chart;
mod plain;
mod registry;

use rukpak_content::{BundleTree, Limits};
use rukpak_plain::{Few, Object};

use crate::args::{RegistryArgs, SourceArgs};
use crate::failure::Failure;
use crate::finding::Finding;
use crate::format::{self, Format};
use crate::output::to_stderr;
use crate::table::count;

/// What a bundle turned out to be. With findings there are no objects.
#[derive(Debug, Default)]
pub struct Examined {
    /// The objects that it installs, as they are applied: without `status` and what only servers set.
    pub objects: Vec<Object>,
    pub findings: Vec<Finding>,
    /// What does not refuse it but is not as its author thinks, one line each: the first of each sort.
    pub warnings: Vec<String>,
}

/// Whether a bundle is judged, or rendered as somebody wants it.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// Is there any way to install it?
    Validate,
    /// Can it be installed like this?
    Render(&'a RegistryArgs),
}

impl Examined {
    /// Prints the findings on stderr and refuses the bundle, if there are any. `consequence` says what was not done; `from` is what
    /// `rukpakctl validate` would be given.
    ///
    /// # Errors
    /// How many findings there are.
    pub fn refuse_findings(
        &self,
        from: &str,
        tree: &BundleTree,
        format: Format,
        consequence: &str,
    ) -> Result<(), Failure> {
        if self.findings.is_empty() {
            return Ok(());
        }
        for finding in &self.findings {
            to_stderr(&finding.text);
        }
        let count = count(self.findings.len(), "finding");
        let flag = if format::detect(tree).format == format { String::new() } else { format!("--format {format} ") };
        let text = format!("{from}: refused as a {format} bundle: {count}; {consequence}");
        let failure = Failure::no(text);
        // Without values, a chart that cannot be rendered may be valid.
        Err(if format == Format::Helm { failure } else { failure.hint(format!("rukpakctl validate {flag}{from}")) })
    }
}

/// Reads, validates and renders a bundle. A chart is rendered where its values are known, and else checked alone.
///
/// # Errors
/// Helm, or a file of values, is not there; or Helm refuses the flags with values.
pub async fn examine_with(
    tree: &BundleTree,
    format: Format,
    purpose: Purpose<'_>,
    arguments: &SourceArgs,
) -> Result<Examined, Failure> {
    let chart = &arguments.chart;
    let is_rendered = matches!(purpose, Purpose::Render(_)) || chart.values.is_given();
    if format == Format::Helm && is_rendered {
        return Ok(finish(chart::examine(tree, chart).await?));
    }
    Ok(examine(tree, format, purpose))
}

/// Reads, validates and renders a bundle; a chart is only checked.
pub fn examine(tree: &BundleTree, format: Format, purpose: Purpose<'_>) -> Examined {
    let limits = &Limits::default();
    finish(match format {
        Format::Plain => plain::examine(tree, limits),
        Format::Registry => registry::examine(tree, purpose, limits),
        Format::Helm => chart::check(tree),
    })
}

/// Adds the warnings that objects of every format may deserve.
fn finish(mut examined: Examined) -> Examined {
    examined.warnings.extend(builtin::warnings(&examined.objects).lines());
    let mut dropped = Vec::new();
    for object in &mut examined.objects {
        *object = object.without_server_fields(&mut dropped);
    }
    let mut few = Few::default();
    for warning in dropped {
        few.push_with(|| warning);
    }
    examined.warnings.extend(few.lines());
    examined
}
