//! `rukpakctl extension`: the ClusterExtensions of a cluster.
//!
//! ```text
//! list    all of them                 show   one, with its conditions and its BundleDeployment
//! why     every bundle of its package, and why it is chosen or not: by the code that chooses it
//! ```

mod list;
mod show;
pub(crate) mod why;

use kube::ResourceExt as _;
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::olm::cluster_extension::UpgradeConstraintPolicy;
use rukpak_crds::olm::{PROGRESSING, reason};
use rukpak_crds::platform_operator::UPGRADE_AVAILABLE;
use rukpak_crds::{Condition, ConditionStatus, Conditions as _, condition};
use serde::Serialize;

use crate::args::ExtensionCommand;
use crate::cluster::{self, Cluster};
use crate::exit::Exit;
use crate::failure::Failure;

/// The resource of ClusterExtensions, with its group.
const EXTENSIONS: &str = "clusterextension.olm.operatorframework.io";

pub async fn run(command: &ExtensionCommand) -> Result<Exit, Failure> {
    match command {
        ExtensionCommand::List(arguments) => list::list(arguments).await,
        ExtensionCommand::Show(arguments) => show::show(arguments).await,
        ExtensionCommand::Why(arguments) => Box::pin(why::why(arguments)).await,
    }
}

/// What an extension asks for, and what it has.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    name: String,
    package: &'a str,
    /// The range that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    channels: &'a [String],
    upgrade_constraint_policy: UpgradeConstraintPolicy,
    /// Absent where the bundle chooses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<Installed<'a>>,
    /// Reason and message of the condition Progressing.
    reason: &'a str,
    message: &'a str,
    /// Whether what is asked for is installed.
    is_settled: bool,
}

/// The bundle that is installed.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Installed<'a> {
    pub(crate) bundle: &'a str,
    pub(crate) version: &'a str,
    /// The release of its packaging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) release: Option<&'a str>,
}

/// The extensions as `list --output json` has them.
pub(crate) fn lines(extensions: &[ClusterExtension]) -> Vec<serde_json::Value> {
    extensions.iter().map(|extension| serde_json::to_value(Line::of(extension)).unwrap_or_default()).collect()
}

impl<'a> Line<'a> {
    fn of(extension: &'a ClusterExtension) -> Self {
        let spec = &extension.spec;
        let catalog = spec.source.catalog.as_ref();
        let progressing = find(extension, PROGRESSING);
        Self {
            name: extension.name_any(),
            package: catalog.map_or("", |catalog| &catalog.package_name),
            version: catalog.and_then(|catalog| catalog.version.as_deref()),
            channels: catalog.map(|catalog| catalog.channels.as_slice()).unwrap_or_default(),
            upgrade_constraint_policy: catalog.map(|catalog| catalog.upgrade_constraint_policy).unwrap_or_default(),
            namespace: spec.namespace.as_deref(),
            installed: installed(extension),
            reason: progressing.map_or("", |found| &found.reason),
            message: progressing.map_or("", |found| &found.message),
            is_settled: is_settled(extension),
        }
    }
}

/// What its status says to be installed.
pub(crate) fn installed(extension: &ClusterExtension) -> Option<Installed<'_>> {
    let bundle = &extension.status.as_ref()?.install.as_ref()?.bundle;
    Some(Installed { bundle: &bundle.name, version: &bundle.version, release: bundle.release.as_deref() })
}

/// Why a newer version is not installed; nothing where none is left out.
pub(crate) fn upgrade(extension: &ClusterExtension) -> &str {
    find(extension, UPGRADE_AVAILABLE).map_or("", |found| &found.message)
}

fn find<'a>(extension: &'a ClusterExtension, type_: &str) -> Option<&'a Condition> {
    extension.status.as_ref()?.conditions.find(type_)
}

/// Whether what is asked for now is installed.
fn is_settled(extension: &ClusterExtension) -> bool {
    let is_current = |found: &&Condition| found.observed_generation == extension.metadata.generation;
    let is = |type_, reason: &str| {
        let found = find(extension, type_).filter(is_current);
        found.is_some_and(|found| found.status == ConditionStatus::True && found.reason == reason)
    };
    is(PROGRESSING, reason::SUCCEEDED)
        && is(condition::INSTALLED, reason::SUCCEEDED)
        && extension.metadata.deletion_timestamp.is_none()
}

/// An extension, which must be there.
pub(crate) async fn existing(cluster: &Cluster, name: &str) -> Result<ClusterExtension, Failure> {
    cluster.get(name).await.map_err(|error| match error {
        cluster::Error::Refused(status) if status.code == 404 => {
            Failure::no(status.message).hint("rukpakctl extension list")
        }
        other => other.into(),
    })
}
