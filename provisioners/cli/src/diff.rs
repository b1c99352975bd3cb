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

use serde_json::Value;

use self::report::Report;
use crate::args::{CertProvider, DiffArgs, ServiceArgs};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::{Failure, ended};
use crate::output::to_stderr;

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

async fn report(cluster: &Cluster, arguments: &DiffArgs) -> Result<Report, Failure> {
    let deployment = cluster.deployment(&arguments.name).await?;
    let target = target::of(cluster, deployment.as_ref(), arguments).await?;
    let mut report = Report::new(&arguments.name, &target.from, arguments.source.is_none());
    compare::all(cluster, &target, &mut report).await;
    leaving::all(cluster, &target, &mut report).await;
    Ok(report)
}
