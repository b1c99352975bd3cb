//! `rukpakctl status`: how the BundleDeployments of the cluster are, and its PlatformOperators in the words of its
//! ClusterOperator; or how one BundleDeployment is.
//!
//! For clusters that have no such kind, and for people who do not want to put it together themselves.

mod deployment;

use std::io::{self, Write};

use kube::ResourceExt as _;
use rukpak_crds::platform_operator::{DEPRECATED, INSTALL_PENDING, Summary, UPGRADE_AVAILABLE};
use rukpak_crds::{BundleDeployment, Condition, ConditionStatus, Conditions as _, PlatformOperator, condition};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{self, DEPLOYMENTS};
use crate::args::{OutputForm, StatusArgs};
use crate::cluster::{self, Cluster};
use crate::colour::Palette;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::history::source;
use crate::table::{self, one_line};
use crate::wait::is_seen;

/// The resource of PlatformOperators, with its group.
const OPERATORS: &str = "platformoperator.platform.openshift.io";

/// What `--output json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    bundle_deployments: Vec<DeploymentLine<'a>>,
    platform_operators: Vec<Line<'a>>,
    /// Whether all BundleDeployments are ready, and all PlatformOperators installed.
    successful: bool,
    /// What the ClusterOperator says; absent where no PlatformOperators are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentLine<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    active_bundle: Option<&'a str>,
    /// As the condition has it; `Unknown` if there is none, or one of an earlier generation.
    ready: ConditionStatus,
    reason: &'a str,
    message: &'a str,
    source: String,
    is_suspended: bool,
    /// Whether it counts as a success.
    #[serde(skip)]
    is_ready: bool,
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

pub async fn run(arguments: &StatusArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    if let Some(name) = &arguments.name {
        return Ok(deployment::print(arguments.output.form, &cluster.existing(name).await?));
    }
    let (deployments, operators) = gather(&cluster, arguments.selector.as_deref()).await?;
    Ok(print(arguments.output.form, &deployments, operators.as_deref()))
}

/// What `--output json` prints.
pub(crate) async fn answer(cluster: &Cluster, labels: Option<&str>) -> Result<Value, Failure> {
    let (deployments, operators) = gather(cluster, labels).await?;
    let status = status(&deployments, operators.as_deref());
    serde_json::to_value(status).map_err(|error| Failure::unknown(error.to_string()))
}

/// All of them that have these labels, by name; no PlatformOperators where the kind is not served.
async fn gather(
    cluster: &Cluster,
    labels: Option<&str>,
) -> Result<(Vec<BundleDeployment>, Option<Vec<PlatformOperator>>), Failure> {
    let deployments = cluster.list(labels).await?;
    let operators = match cluster.list(labels).await {
        // Only the kind itself can be missing: a list of nothing is empty.
        Err(cluster::Error::Refused(status)) if status.code == 404 => None,
        operators => Some(operators?),
    };
    Ok((deployments, operators))
}

fn print(form: OutputForm, deployments: &[BundleDeployment], operators: Option<&[PlatformOperator]>) -> Exit {
    let status = status(deployments, operators);
    let exit = if status.successful { Exit::Yes } else { Exit::No };
    answer::print(
        form,
        &status,
        |out, palette, is_wide| status.text(out, palette, is_wide),
        |out| status.names(out),
        exit,
    )
}

fn status<'a>(deployments: &'a [BundleDeployment], operators: Option<&'a [PlatformOperator]>) -> Status<'a> {
    let bundle_deployments: Vec<DeploymentLine<'_>> = deployments.iter().map(deployment_line).collect();
    let platform_operators: Vec<Line<'_>> = operators.unwrap_or_default().iter().map(line).collect();
    let summary = operators.map(Summary::of);
    let is_failing = summary.as_ref().is_some_and(|summary| summary.failing != 0);
    let successful = bundle_deployments.iter().all(|line| line.is_ready) && !is_failing;
    Status { bundle_deployments, platform_operators, successful, message: summary.map(|summary| summary.message) }
}

fn deployment_line(deployment: &BundleDeployment) -> DeploymentLine<'_> {
    let status = deployment.status.as_ref();
    let is_seen = status.is_some_and(|status| is_seen(status, deployment.metadata.generation));
    let ready = status.and_then(|status| status.conditions.find(condition::READY));
    let current = ready.filter(|_| is_seen);
    DeploymentLine {
        name: deployment.name_any(),
        active_bundle: status.and_then(|status| status.active_bundle.as_deref()),
        ready: current.map_or(ConditionStatus::Unknown, |ready| ready.status),
        reason: ready.map_or("", |ready| &ready.reason),
        message: ready.map_or("", |ready| &ready.message),
        source: source(&deployment.spec.template.spec.source),
        is_suspended: deployment.spec.suspend,
        is_ready: deployment::is_ready(deployment),
    }
}

impl Status<'_> {
    /// Two tables. Where there are no PlatformOperators, or none are served, there is one.
    fn text(&self, out: &mut dyn Write, palette: Palette, is_wide: bool) -> io::Result<()> {
        if self.bundle_deployments.is_empty() {
            writeln!(out, "No BundleDeployments are present in the cluster")?;
        } else {
            let rows: Vec<_> = self.bundle_deployments.iter().map(|line| line.row(is_wide)).collect();
            let wide: &[&str] = if is_wide { &["ACTIVE BUNDLE", "SOURCE"] } else { &[] };
            let heading = [&["BUNDLEDEPLOYMENT", "READY", "SUSPENDED", "REASON"], wide, &["MESSAGE"]].concat();
            table::write_in_colour(out, palette, &heading, &rows)?;
        }
        let Some(message) = &self.message else { return Ok(()) };
        if !self.platform_operators.is_empty() {
            writeln!(out)?;
        }
        text(out, palette, &self.platform_operators, message)
    }

    fn names(&self, out: &mut dyn Write) -> io::Result<()> {
        let deployments = self.bundle_deployments.iter().map(|line| (DEPLOYMENTS, &line.name));
        let operators = self.platform_operators.iter().map(|line| (OPERATORS, &line.name));
        deployments.chain(operators).try_for_each(|(resource, name)| writeln!(out, "{resource}/{name}"))
    }
}

impl DeploymentLine<'_> {
    fn row(&self, is_wide: bool) -> Vec<String> {
        let suspended = if self.is_suspended { "yes" } else { "no" };
        let mut row =
            vec![self.name.clone(), format!("{:?}", self.ready), suspended.to_owned(), self.reason.to_owned()];
        if is_wide {
            row.extend([self.active_bundle.unwrap_or_default().to_owned(), self.source.clone()]);
        }
        row.push(self.message.to_owned());
        row
    }
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
fn text(out: &mut dyn Write, palette: Palette, lines: &[Line<'_>], message: &str) -> io::Result<()> {
    if !lines.is_empty() {
        let rows: Vec<_> = lines.iter().map(row).collect();
        table::write_in_colour(out, palette, &["NAME", "PACKAGE", "VERSION", "INSTALLED", "REASON", "MESSAGE"], &rows)?;
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
