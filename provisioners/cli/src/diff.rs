//! `rukpakctl diff`: what an upgrade would do to the cluster, or how the cluster differs from what is installed.
//!
//! ```text
//! target    the files of the bundle, rendered and planned as the controller does it
//! compare   each object: who owns it, and a dry run of the apply that the controller would send
//! crds      may a CRD replace the one in the cluster?         leaving    objects that the bundle does not have any more
//! fields    what differs between two objects                  report     the answer, as text or JSON
//! revisions what differs between two revisions
//! ```
//!
//! Every decision is one of `rukpak_plan`, as it is the controller's. Nothing is written.

mod compare;
pub(crate) mod crds;
mod fields;
mod leaving;
mod report;
pub(crate) mod revisions;
mod target;

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use rukpak_crds::ApprovalPolicy;
use rukpak_crds::BundleDeployment;
use rukpak_plan::approval::{Action, Changes};
use rukpak_plan::kind::is_crd;
use rukpak_plan::plan::{Missing, Need};
use rukpak_plan::resolve::Why;
use serde_json::Value;

use self::report::Report;
use crate::args::{CertProvider, DiffArgs, ServiceArgs};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::to_stderr;
use crate::release::Reader;
use crate::source::Content;

/// Asks the cluster. [`Exit::Yes`] if nothing would change, [`Exit::No`] if something would.
pub async fn run(arguments: &DiffArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let report = report(&cluster, arguments).await?;
    for remark in &report.remarks {
        to_stderr(&format!("note: {remark}"));
    }
    Ok(report.print(arguments.output.form))
}

/// What has drifted, as `--output json` prints it.
pub(crate) async fn drift(
    cluster: &Cluster,
    name: &str,
    certificates: Option<CertProvider>,
    service: &ServiceArgs,
) -> Result<Value, Failure> {
    let report = report(cluster, &DiffArgs::of_drift(name, certificates, service)).await?;
    serde_json::to_value(report).map_err(|error| Failure::unknown(error.to_string()))
}

/// What an installation would do, as a Plan says it.
pub(crate) struct Preview {
    pub changes: Changes,
    /// Why it would be done.
    pub why: Why,
    /// What keeps it from being done.
    pub obstacles: Vec<String>,
    /// What could not be found out.
    pub unknown: Vec<String>,
    /// What somebody should know although it changes nothing.
    pub remarks: Vec<String>,
}

/// What a preview is made of.
pub(crate) struct Planned<'a> {
    /// It need not be in the cluster.
    pub deployment: &'a BundleDeployment,
    pub content: Content,
    pub service: &'a ServiceArgs,
}

/// Looks at what an installation would do. Kinds that are `coming` count as served, as what is installed before brings them; those that the
/// bundle brings are added.
pub(crate) async fn preview(
    cluster: &Cluster,
    planned: Planned<'_>,
    coming: &mut BTreeSet<(String, String)>,
) -> Result<Preview, Failure> {
    let Planned { deployment, content, service } = planned;
    let name = deployment.name_any();
    let reader = Reader::of(deployment, &service.system_namespace);
    let format = target::of_class(&deployment.spec.template.spec.provisioner_class_name)?;
    let mut target = target::planned(cluster, reader, service, (content, format), false).await?;
    let is_coming = |missing: &Missing| coming.contains(&(missing.kind.api_version.clone(), missing.kind.kind.clone()));
    let (expected, missing): (Vec<_>, Vec<_>) =
        std::mem::take(&mut target.plan.missing).into_iter().partition(is_coming);
    target.plan.missing = missing;

    let mut report = Report::new(&name, &target.from, false);
    compare::all(cluster, &target, &mut report).await;
    leaving::all(cluster, &target, &mut report).await;
    let is_first = target.why == Why::First;
    let installed = if is_first { None } else { target.installed(cluster).await };
    let mut changes = Changes::between(installed, &target.plan, |_| true);
    let (mut actions, mut obstacles) = report.actions();
    actions.extend(expected.into_iter().filter_map(|missing| match missing.need {
        Need::Object(key) | Need::Optional(key) => Some((key, Action::Create)),
        Need::Dependency => None,
    }));
    let hooks = std::mem::take(&mut changes.actions).into_iter().filter(|(_, action)| matches!(action, Action::Run(_)));
    if !actions.is_empty() {
        actions.extend(hooks);
    }
    changes.actions = actions;
    obstacles.extend(target.plan.missing.iter().filter(|missing| missing.need == Need::Dependency).map(|missing| {
        let (kind, api_version) = (&missing.kind.kind, &missing.kind.api_version);
        format!("the bundle depends on an API that the cluster does not serve: {kind} of {api_version}")
    }));
    let Report { mut unknown, mut remarks, .. } = report;
    // It is among the obstacles.
    remarks.retain(|remark| !remark.starts_with(compare::DEPENDS));
    if installed.is_none() && !is_first {
        let whole = "what is installed cannot be read: rights, images and versions are told as if nothing were";
        let is_asked = deployment.spec.approval == Some(ApprovalPolicy::Escalations);
        if is_asked { &mut unknown } else { &mut remarks }.push(whole.to_owned());
    }
    coming.extend(target.plan.steps.values().filter(|step| is_crd(&step.key)).flat_map(|step| served(&step.body())));
    Ok(Preview { changes, why: target.why, obstacles, unknown, remarks })
}

/// The kinds that a CRD serves, as apiVersion and kind.
fn served(definition: &Value) -> Vec<(String, String)> {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let versions = versions.filter(|version| version["served"] == true).filter_map(|version| version["name"].as_str());
    versions.map(|version| (format!("{group}/{version}"), kind.to_owned())).collect()
}

async fn report(cluster: &Cluster, arguments: &DiffArgs) -> Result<Report, Failure> {
    let deployment = cluster.deployment(&arguments.name).await?;
    let target = target::of(cluster, deployment.as_ref(), arguments).await?;
    let mut report = Report::new(&arguments.name, &target.from, arguments.is_drift());
    compare::all(cluster, &target, &mut report).await;
    leaving::all(cluster, &target, &mut report).await;
    if !report.changes.is_empty() {
        report.remarks.extend(target.plan.hooks.iter().map(|hook| format!("{hook} would be run")));
    }
    Ok(report)
}
