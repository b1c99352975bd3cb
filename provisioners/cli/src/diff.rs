//! `rukpakctl diff`: what an upgrade would do to the cluster, or how the cluster differs from what is installed.
//!
//! ```text
//! target    the files of the bundle, rendered and planned as the controller does it
//! compare   each object: who owns it, and a dry run of the apply that the controller would send
//! crds      may a CRD replace the one in the cluster?         leaving    objects that the bundle does not have any more
//! fields    what differs between two objects                  report     the answer, as text or JSON
//! ```
//!
//! Every decision is one of `rukpak_plan`, as it is the controller's. Nothing is written.

mod compare;
pub(crate) mod crds;
mod fields;
mod leaving;
mod report;
mod target;

use kube::ResourceExt as _;
use rukpak_content::Limits;
use rukpak_crds::BundleDeployment;
use rukpak_plan::approval::Changes;
use rukpak_plan::resolve::Why;
use serde_json::Value;

use self::report::Report;
use crate::args::{CertProvider, DiffArgs, ServiceArgs};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::{Failure, ended};
use crate::output::to_stderr;
use crate::release::Reader;
use crate::source::Content;

/// Asks the cluster. [`Exit::Yes`] if nothing would change, [`Exit::No`] if something would.
pub async fn run(arguments: &DiffArgs) -> Exit {
    ended(diff(arguments).await)
}

async fn diff(arguments: &DiffArgs) -> Result<Exit, Failure> {
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

/// Looks at what an installation of `content` by `deployment` would do, which need not be there.
pub(crate) async fn preview(
    cluster: &Cluster,
    deployment: &BundleDeployment,
    (content, class): (Content, &str),
    (service, limits): (&ServiceArgs, Limits),
) -> Result<Preview, Failure> {
    let name = deployment.name_any();
    let (system_namespace, certificates) = (service.system_namespace.as_str(), None);
    let reader = Reader { deployment: Some(deployment), name: &name, system_namespace, certificates, limits };
    let bundle = (content, target::of_class(class)?);
    let target = target::planned(cluster, reader, service, bundle, false).await?;
    let mut report = Report::new(&name, &target.from, false);
    compare::all(cluster, &target, &mut report).await;
    leaving::all(cluster, &target, &mut report).await;
    let is_first = target.why == Why::First;
    let installed = if is_first { None } else { target.installed(cluster).await };
    if installed.is_none() && !is_first {
        let whole = "what is installed cannot be read: rights, images and versions are told as if nothing were";
        report.remarks.push(whole.to_owned());
    }
    let mut changes = Changes::between(installed, &target.plan, |_| true);
    let (actions, mut obstacles) = report.actions();
    changes.actions = actions;
    if report.is_refused && obstacles.is_empty() {
        obstacles.append(&mut report.remarks);
    }
    let Report { unknown, remarks, .. } = report;
    Ok(Preview { changes, why: target.why, obstacles, unknown, remarks })
}

async fn report(cluster: &Cluster, arguments: &DiffArgs) -> Result<Report, Failure> {
    let deployment = cluster.deployment(&arguments.name).await?;
    let target = target::of(cluster, deployment.as_ref(), arguments).await?;
    let mut report = Report::new(&arguments.name, &target.from, arguments.source.is_none());
    compare::all(cluster, &target, &mut report).await;
    leaving::all(cluster, &target, &mut report).await;
    Ok(report)
}
