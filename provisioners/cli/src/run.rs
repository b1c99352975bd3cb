//! `rukpakctl run`: a folder becomes a BundleDeployment, and the content of the Bundle that the cluster makes of it.
//!
//! Everything that can go wrong beforehand is looked at before anything is applied.

mod taken;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt as _;
use rukpak_crds::names::{CLASS_HELM, CLASS_PLAIN, CLASS_REGISTRY, ROLLBACK_TO};
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleSpec, BundleTemplate, TemplateMetadata};
use serde_json::json;

use crate::args::RunArgs;
use crate::chart;
use crate::cluster::{self, Cluster};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::class_of;
use crate::output::{to_stderr, to_stdout, warn};
use crate::service::{Service, Uploaded};
use crate::source::pack::{self, Packed};
use crate::upload;
use crate::wait::{self, Wait};

/// So often somebody else may write what is about to be applied: a status is written, too.
const ATTEMPTS: usize = 20;

pub async fn run(arguments: &RunArgs) -> Result<Exit, Failure> {
    let name = &arguments.name;
    let packed = pack::pack(&arguments.folder)?;
    warn(&packed.remarks);
    let values = chart::values(&arguments.values).await?;
    let class = bundle_class(arguments, &packed);
    if arguments.check.validate {
        upload::validate(&packed, class, &arguments.folder)?;
    }
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let service = Service::connect(&cluster, &arguments.service).await?;
    let deployment = deployment(arguments, class, upload::labels(name, &packed), values);
    let applied = apply(&cluster, &deployment).await?;
    let exit = say(&format!("bundledeployment.core.rukpak.io {name:?} applied"));
    let (bundle, uploaded) =
        upload::deliver(&cluster, &service, &applied, packed, arguments.timeout_or(Duration::from_mins(1))).await?;
    let exit_then = say(&match uploaded {
        Uploaded::New => format!("successfully uploaded bundle content for {bundle:?}"),
        Uploaded::Known => format!("bundle {bundle:?} is already up-to-date"),
    });
    let exit = if exit == Exit::Yes { exit_then } else { exit };
    if arguments.wait {
        let goes_on = format!("the installation of bundledeployment {name:?} goes on");
        let timeout = arguments.timeout_or(Duration::from_mins(5));
        let wait = Wait { name, timeout, goal: "installed and healthy", goes_on: &goes_on };
        wait::until_ready(&cluster, &wait, applied.metadata.generation, stale(&applied, uploaded)).await?;
        say(&format!("bundledeployment.core.rukpak.io {name:?} is installed and healthy"));
    }
    Ok(exit)
}

/// The resource version whose status is older than the upload, and says nothing of it.
pub(crate) fn stale(written: &BundleDeployment, uploaded: Uploaded) -> Option<&str> {
    written.metadata.resource_version.as_deref().filter(|_| uploaded == Uploaded::New)
}

/// Applies it, unless the name is taken: beside another source an upload would make the BundleDeployment invalid.
async fn apply(cluster: &Cluster, deployment: &BundleDeployment) -> Result<BundleDeployment, Failure> {
    let name = deployment.name_any();
    for _ in 0..ATTEMPTS {
        let existing = cluster.deployment(&name).await?;
        if let Some(existing) = &existing {
            taken::check(existing, &deployment.spec.provisioner_class_name)?;
        }
        if let Some(applied) = cluster.apply(deployment, existing.as_ref()).await? {
            return end_rollback(cluster, applied).await;
        }
    }
    Err(cluster::Error::Busy(name).into())
}

/// Ends a rollback, as `upgrade` does: it would go before the template, and nothing of the folder be installed.
async fn end_rollback(cluster: &Cluster, applied: BundleDeployment) -> Result<BundleDeployment, Failure> {
    if applied.spec.rollback_to.is_none() && !applied.annotations().contains_key(ROLLBACK_TO) {
        return Ok(applied);
    }
    let patch = json!({"metadata": {"annotations": {ROLLBACK_TO: null}}, "spec": {"rollbackTo": null}});
    Ok(cluster.merge(&applied.name_any(), &patch).await?)
}

/// The class that was asked for, else that of the format.
fn bundle_class<'a>(arguments: &'a RunArgs, packed: &Packed) -> &'a str {
    let of_format = class_of(packed.detected.format);
    let class = arguments.bundle_provisioner_class.as_deref().unwrap_or(of_format);
    let what = format!("a {} bundle ({})", packed.detected.format, packed.detected.why);
    if class != of_format && [CLASS_PLAIN, CLASS_REGISTRY, CLASS_HELM].contains(&class) {
        to_stderr(&format!("warning: {what}, which is for class {of_format}: class {class} reads it otherwise"));
    } else if class != CLASS_PLAIN {
        to_stderr(&format!("{what}: class {class}"));
    }
    class
}

fn say(line: &str) -> Exit {
    to_stdout(|out| writeln!(out, "{line}"), Exit::Yes)
}

fn deployment(
    arguments: &RunArgs,
    class: &str,
    labels: BTreeMap<String, String>,
    values: Option<String>,
) -> BundleDeployment {
    let spec = BundleSpec { provisioner_class_name: class.to_owned(), source: upload::source() };
    let metadata = Some(TemplateMetadata { labels: Some(labels), ..TemplateMetadata::default() });
    let spec = BundleDeploymentSpec {
        provisioner_class_name: arguments.bundle_deployment_provisioner_class.clone(),
        config: chart::config(values),
        template: BundleTemplate { metadata, spec },
        ..BundleDeploymentSpec::default()
    };
    BundleDeployment::new(&arguments.name, spec)
}
