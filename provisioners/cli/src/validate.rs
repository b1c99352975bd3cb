//! `rukpakctl validate`.

use serde::Serialize;

use crate::answer::print_either;
use crate::args::{AnswerForm, ValidateArgs};
use crate::examine::{Examined, Purpose, examine_with};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::finding::Finding;
use crate::format::{Detected, asked_or_detected};
use crate::output::{to_stderr, warn};
use crate::source::{self, Content};
use crate::table::count;

/// What `--output json` prints.
#[derive(Serialize)]
struct Report<'a> {
    /// What was read: the path, or the image by its digest.
    bundle: &'a str,
    /// Absent if the content was refused before its format could matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    valid: bool,
    findings: &'a [Finding],
    warnings: &'a [String],
}

/// Prints everything that is wrong with a bundle.
pub async fn run(arguments: &ValidateArgs) -> Result<Exit, Failure> {
    let content = match source::read(&arguments.source).await {
        Err(failure) if failure.exit == Exit::No => return Ok(refused(arguments, failure.text)),
        read => read?,
    };
    let Detected { format, why } = asked_or_detected(arguments.source.format, &content.tree);
    let Content { tree, from, remarks: mut warnings, image: _ } = content;
    let examined = examine_with(&tree, format, Purpose::Validate, &arguments.source).await?;
    let Examined { objects, findings, warnings: more } = examined;
    warnings.extend(more);

    let verdict = match findings.len() {
        0 if objects.is_empty() => "valid".to_owned(),
        0 => format!("valid, {}", count(objects.len(), "object")),
        findings => count(findings, "finding"),
    };
    to_stderr(&format!("{from}: a {format} bundle ({why}): {verdict}"));
    let report = Report {
        bundle: &from,
        format: Some(format.to_string()),
        valid: findings.is_empty(),
        findings: &findings,
        warnings: &warnings,
    };
    Ok(print(arguments.output, &report))
}

/// The content cannot be read, and never will be.
fn refused(arguments: &ValidateArgs, why: String) -> Exit {
    let bundle = arguments.source.bundle.to_string_lossy();
    let findings = [Finding::new("content", why)];
    print(arguments.output, &Report { bundle: &bundle, format: None, valid: false, findings: &findings, warnings: &[] })
}

fn print(form: AnswerForm, report: &Report<'_>) -> Exit {
    if form == AnswerForm::Text {
        warn(report.warnings);
    }
    let exit = if report.valid { Exit::Yes } else { Exit::No };
    let findings = report.findings.iter();
    print_either(
        form,
        report,
        |out| findings.map(|finding| &finding.text).try_for_each(|text| writeln!(out, "{text}")),
        exit,
    )
}
