//! `rukpakctl status`: how the PlatformOperators of the cluster are, in the words of its ClusterOperator; or how one
//! BundleDeployment is.
//!
//! For clusters that have no such kind, and for people who do not want to put it together themselves.

mod deployment;

use std::io::{self, Write};

use kube::ResourceExt as _;
use rukpak_crds::platform_operator::{DEPRECATED, INSTALL_PENDING, Summary, UPGRADE_AVAILABLE};
use rukpak_crds::{Condition, ConditionStatus, Conditions as _, PlatformOperator, condition};
use serde::Serialize;

use crate::args::{AnswerForm, ClusterArgs, StatusArgs};
use crate::cluster::{self, Cluster};
use crate::exit::Exit;
use crate::output::{chain, data, pretty, talk};
use crate::table::{self, one_line};

/// What `--output json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    platform_operators: Vec<Line<'a>>,
    /// Whether all are installed.
    successful: bool,
    /// What the ClusterOperator says.
    message: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    name: String,
    package: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    /// As the condition has it: `True`, `False` or `Unknown`; `Unknown` if there is none.
    installed: ConditionStatus,
    reason: &'a str,
    message: &'a str,
    /// What `Ready` says besides: that what is installed does not run yet, or was edited; where it was looked in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<Note<'a>>,
    /// Whether `Ready` does not say True: nothing that is printed.
    #[serde(skip)]
    is_unready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade_available: Option<Note<'a>>,
    /// Why it is not known, or not reached, if there is a newer version.
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade_unknown: Option<Note<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<Note<'a>>,
}

/// A condition that there is something to say of.
#[derive(Serialize)]
struct Note<'a> {
    reason: &'a str,
    message: &'a str,
}

/// Asks the cluster.
pub async fn run(arguments: &StatusArgs) -> Exit {
    if let Some(name) = &arguments.name {
        return deployment::run(name, arguments).await;
    }
    match operators(&arguments.cluster).await {
        Ok(Some(operators)) => print(arguments.output, &operators),
        Ok(None) => {
            talk(
                "error: the cluster does not serve platformoperators.platform.openshift.io: apply the manifests of the platform \
                 operators first",
            );
            Exit::Unknown
        }
        Err(error) => {
            talk(&format!("error: {}", chain(&error)));
            Exit::Unknown
        }
    }
}

/// `None` if there is no such kind.
async fn operators(flags: &ClusterArgs) -> Result<Option<Vec<PlatformOperator>>, cluster::Error> {
    let mut operators = match Cluster::connect(flags).await?.platform_operators().await {
        // Only the kind itself can be missing: a list of nothing is empty.
        Err(cluster::Error::Refused(status)) if status.code == 404 => return Ok(None),
        operators => operators?,
    };
    operators.sort_by_key(kube::ResourceExt::name_any);
    Ok(Some(operators))
}

fn print(form: AnswerForm, operators: &[PlatformOperator]) -> Exit {
    let Summary { failing, message } = Summary::of(operators);
    let lines: Vec<Line<'_>> = operators.iter().map(line).collect();
    let write = |out: &mut dyn Write| match form {
        AnswerForm::Text => text(out, &lines, &message),
        AnswerForm::Json => {
            pretty(out, &Status { platform_operators: lines, successful: failing == 0, message: &message })
        }
    };
    data(write, if failing == 0 { Exit::Yes } else { Exit::No })
}

fn line(operator: &PlatformOperator) -> Line<'_> {
    let status = operator.status.as_ref();
    let find = |type_| status.and_then(|status| status.conditions.find(type_));
    let note = |type_| find(type_).filter(|found| found.status == ConditionStatus::True).map(Note::of);
    let installed = find(condition::INSTALLED);
    let ready = find(condition::READY);
    let has_news = |ready: &&Condition| Some(&ready.message) != installed.map(|installed| &installed.message);
    let upgrade = find(UPGRADE_AVAILABLE).filter(|found| found.status != ConditionStatus::True);
    Line {
        name: operator.name_any(),
        package: &operator.spec.package.name,
        version: status.and_then(|status| status.source.as_ref()).map(|source| source.version.as_str()),
        installed: installed.map_or(ConditionStatus::Unknown, |found| found.status),
        reason: installed.map_or(INSTALL_PENDING, |found| &found.reason),
        message: installed.map_or("", |found| &found.message),
        attention: ready.filter(has_news).map(Note::of),
        is_unready: ready.is_some_and(|ready| ready.status != ConditionStatus::True),
        upgrade_available: note(UPGRADE_AVAILABLE),
        upgrade_unknown: upgrade.map(Note::of),
        deprecated: note(DEPRECATED),
    }
}

impl<'a> Note<'a> {
    fn of(condition: &'a Condition) -> Self {
        Self { reason: &condition.reason, message: &condition.message }
    }
}

/// The table, what else is to be known, and the sentence.
fn text(out: &mut dyn Write, lines: &[Line<'_>], message: &str) -> io::Result<()> {
    if !lines.is_empty() {
        let rows: Vec<_> = lines.iter().map(row).collect();
        table::write(out, &["NAME", "PACKAGE", "VERSION", "INSTALLED", "REASON", "MESSAGE"], &rows)?;
    }
    for line in lines {
        let notes = [
            (if line.is_unready { "not ready" } else { "ready" }, &line.attention),
            ("upgrade available", &line.upgrade_available),
            ("upgrades unknown", &line.upgrade_unknown),
            ("deprecated", &line.deprecated),
        ];
        for (what, note) in notes.into_iter().filter_map(|(what, note)| Some((what, note.as_ref()?))) {
            writeln!(out, "{}: {what}: {}", line.name, one_line(note.message))?;
        }
    }
    match lines.iter().filter(|line| line.installed != ConditionStatus::True).count() {
        // Each has a line already.
        failing @ 2.. => writeln!(out, "{failing} of {} platform operators are failing", lines.len()),
        _ => writeln!(out, "{}", one_line(message)),
    }
}

fn row(line: &Line<'_>) -> Vec<String> {
    let installed = format!("{:?}", line.installed);
    [&line.name, line.package, line.version.unwrap_or_default(), &installed, line.reason, line.message]
        .map(str::to_owned)
        .to_vec()
}

#[cfg(test)]
#[path = "status/tests.rs"]
mod tests;
