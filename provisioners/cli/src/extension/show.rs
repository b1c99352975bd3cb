//! `rukpakctl extension show`.

use std::io::{self, Write};

use kube::{Resource as _, ResourceExt as _};
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{BundleDeployment, Condition, Conditions as _, condition};
use rukpak_plan::owner::controller;
use serde::Serialize;

use super::{EXTENSIONS, Line, existing};
use crate::answer::{DEPLOYMENTS, print};
use crate::args::ExtensionArgs;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::history::source;
use crate::table;

/// What `--output json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(flatten)]
    line: Line<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle_deployment: Option<Deployment>,
    conditions: &'a [Condition],
}

/// The BundleDeployment that was made for it.
#[derive(Serialize)]
struct Deployment {
    name: String,
    /// Where what it installs comes from.
    source: String,
    /// The namespace that was made for the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// What its condition Ready says.
    ready: String,
}

/// Asks the cluster. Yes if it has what it asks for.
pub(super) async fn show(arguments: &ExtensionArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let extension = existing(&cluster, &arguments.name).await?;
    let deployments: Vec<BundleDeployment> = cluster.list(None).await?;
    let deployment = deployments.iter().find(|deployment| is_of(deployment, &extension));
    let status = extension.status.as_ref();
    let shown = Shown {
        line: Line::of(&extension),
        bundle_deployment: deployment.map(Deployment::of),
        conditions: status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
    };
    let exit = if shown.line.is_settled { Exit::Yes } else { Exit::No };
    Ok(print(arguments.output.form, &shown, |out, _, _| shown.text(out), |out| shown.names(out), exit))
}

/// Whether the BundleDeployment was made for the extension.
fn is_of(deployment: &BundleDeployment, extension: &ClusterExtension) -> bool {
    let uid = extension.meta().uid.as_ref();
    controller(&deployment.metadata).is_some_and(|owner| Some(&owner.uid) == uid)
}

impl Deployment {
    fn of(deployment: &BundleDeployment) -> Self {
        let status = deployment.status.as_ref();
        let ready = status.and_then(|status| status.conditions.find(condition::READY));
        let told = |found: &Condition| format!("{:?}: {}: {}", found.status, found.reason, found.message);
        Self {
            name: deployment.name_any(),
            source: source(&deployment.spec.template.spec.source),
            namespace: status.and_then(|status| status.inventory.as_ref()?.namespace.clone()),
            ready: ready.map_or_else(|| "not known yet".to_owned(), told),
        }
    }
}

impl Shown<'_> {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let line = &self.line;
        let installed = line.installed.map(|installed| format!("{} ({})", installed.bundle, installed.version));
        let deployment = self.bundle_deployment.as_ref();
        let namespace = line.namespace.or_else(|| deployment?.namespace.as_deref());
        let facts = [
            ("package", vec![line.package.to_owned()]),
            ("version", vec![line.version.unwrap_or("any").to_owned()]),
            ("channels", line.channels.to_vec()),
            ("upgrades", vec![format!("{:?}", line.upgrade_constraint_policy)]),
            ("namespace", namespace.map(str::to_owned).into_iter().collect()),
            ("installed", vec![installed.unwrap_or_else(|| "nothing".to_owned())]),
            ("bundledeployment", deployment.map(|deployment| deployment.name.clone()).into_iter().collect()),
            ("source", deployment.map(|deployment| deployment.source.clone()).into_iter().collect()),
            ("ready", deployment.map(|deployment| deployment.ready.clone()).into_iter().collect()),
        ];
        table::facts(out, &facts)?;
        let row = |found: &Condition| {
            vec![found.type_.clone(), format!("{:?}", found.status), found.reason.clone(), found.message.clone()]
        };
        let rows: Vec<Vec<String>> = self.conditions.iter().map(row).collect();
        if rows.is_empty() {
            return writeln!(out, "no conditions yet: does rukpak-platform run?");
        }
        writeln!(out)?;
        table::write(out, &["CONDITION", "STATUS", "REASON", "MESSAGE"], &rows)
    }

    fn names(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{EXTENSIONS}/{}", self.line.name)?;
        let deployment = self.bundle_deployment.iter();
        deployment.map(|deployment| &deployment.name).try_for_each(|name| writeln!(out, "{DEPLOYMENTS}/{name}"))
    }
}
