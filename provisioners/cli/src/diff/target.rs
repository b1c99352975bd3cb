//! What is compared with the cluster: the bundle that would be installed, or the one that is, as a plan.

use rukpak_crd_upgrade::SAFE_UPGRADE_ANNOTATION;
use rukpak_crds::names::CLASS_PLAIN;
use rukpak_crds::{BundleDeployment, ContestedField, InventoryKind};
use rukpak_plan::hook::Event;
use rukpak_plan::resolve::Why;
use rukpak_plan::{Owner, Plan};
use tokio::sync::OnceCell;

use crate::args::{DiffArgs, ServiceArgs};
use crate::chart::Rendering;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::format::{Format, asked_or_detected, class_of};
use crate::install::given::{self, Given};
use crate::install::patch::kept;
use crate::output::{to_stderr, warn};
use crate::release::{Reader, foreign_class};
use crate::service::Service;
use crate::source::{self, Content, remote};
use crate::table::count;

/// What the cluster is compared with.
pub(super) struct Target<'a> {
    /// Where the bundle comes from, for people.
    pub from: String,
    /// Whom its objects belong to.
    pub owner: Owner,
    pub plan: Plan,
    /// Why they would be applied.
    pub why: Why,
    /// The BundleDeployment as it is, if it is there.
    pub deployment: Option<&'a BundleDeployment>,
    pub system_namespace: &'a str,
    /// The plan of what is installed, once it was needed; `None` if it cannot be had.
    pub installed: OnceCell<Option<Plan>>,
    reader: Reader<'a>,
    service: &'a ServiceArgs,
}

/// Reads the bundle that the flags name, or the installed one, and plans it.
pub(super) async fn of<'a>(
    cluster: &Cluster,
    deployment: Option<&'a BundleDeployment>,
    arguments: &'a DiffArgs,
) -> Result<Target<'a>, Failure> {
    let reader = Reader {
        deployment,
        name: &arguments.name,
        system_namespace: &arguments.service.system_namespace,
        certificates: arguments.cert_provider,
        rendering: Rendering::of(&arguments.values).await?,
    };
    let (content, format) = if arguments.source.is_none() {
        if deployment.is_none() {
            return Err(Failure::no_deployment(&arguments.name));
        }
        let service = Service::connect(cluster, &arguments.service).await?;
        reader.installed(cluster, &service).await?
    } else {
        given(deployment, arguments).await?
    };
    planned(cluster, reader, &arguments.service, (content, format), arguments.is_drift()).await
}

pub(super) async fn planned<'a>(
    cluster: &Cluster,
    mut reader: Reader<'a>,
    service: &'a ServiceArgs,
    (content, format): (Content, Format),
    is_drift: bool,
) -> Result<Target<'a>, Failure> {
    warn(&content.remarks);
    let mut plan = reader.plan(cluster, &content.tree, format, is_drift).await?;
    to_stderr(&format!("{}: {} of a {format} bundle", content.from, count(plan.steps.len(), "object")));
    // What is installed has its own.
    reader.rendering.values = None;
    let deployment = reader.deployment;
    let why = match deployment.and_then(|deployment| deployment.status.as_ref()?.active_bundle.as_ref()) {
        _ if is_drift => Why::Repair,
        Some(_) => Why::Upgrade,
        None => Why::First,
    };
    plan.hooks.retain(|hook| Event::of(why).contains(&hook.event));
    let (owner, system_namespace) = (reader.owner(), reader.system_namespace);
    let installed = OnceCell::new();
    Ok(Target { from: content.from, owner, plan, why, deployment, system_namespace, installed, reader, service })
}

/// The bundle that the flags name.
async fn given(deployment: Option<&BundleDeployment>, arguments: &DiffArgs) -> Result<(Content, Format), Failure> {
    let source = arguments.source.as_deref().unwrap_or_default();
    match given::read(source, &arguments.git, None)? {
        Given::Local(path) => {
            let content = source::read_local(&path)?;
            let format = asked_or_detected(arguments.format, &content.tree).format;
            Ok((content, format))
        }
        Given::Remote(source) => {
            let template = deployment.map(|deployment| &deployment.spec.template.spec);
            let class = arguments.format.map(class_of);
            let class = class.or_else(|| template.map(|spec| spec.provisioner_class_name.as_str()));
            let format = of_class(class.unwrap_or(CLASS_PLAIN))?;
            let source = template.map_or_else(|| *source.clone(), |spec| kept(&spec.source, *source.clone()));
            Ok((remote::read(&source, &arguments.trust).await?, format))
        }
    }
}

pub(super) fn of_class(class: &str) -> Result<Format, Failure> {
    Format::of_class(class).ok_or_else(|| foreign_class(class))
}

impl Target<'_> {
    /// The kinds that the BundleDeployment has ever installed.
    pub fn kinds(&self) -> &[InventoryKind] {
        let inventory = self.deployment.and_then(|deployment| deployment.status.as_ref()?.inventory.as_ref());
        inventory.map_or(&[], |inventory| &inventory.kinds)
    }

    /// Fields that are left to others.
    pub fn contested(&self) -> &[ContestedField] {
        let inventory = self.deployment.and_then(|deployment| deployment.status.as_ref()?.inventory.as_ref());
        inventory.map_or(&[], |inventory| &inventory.contested)
    }

    /// What the BundleDeployment says of safe upgrades of CRDs.
    pub fn crd_upgrades(&self) -> Option<&str> {
        let annotations = self.deployment?.metadata.annotations.as_ref()?;
        annotations.get(SAFE_UPGRADE_ANNOTATION).map(String::as_str)
    }

    /// The plan of what is installed, for the few objects that depend on it.
    pub async fn installed(&self, cluster: &Cluster) -> Option<&Plan> {
        let load = async || {
            let service = Service::connect(cluster, self.service).await?;
            let (content, format) = self.reader.installed(cluster, &service).await?;
            self.reader.plan(cluster, &content.tree, format, true).await
        };
        let load =
            async || load().await.map_err(|failure: Failure| to_stderr(&format!("warning: {}", failure.text))).ok();
        self.installed.get_or_init(load).await.as_ref()
    }
}
