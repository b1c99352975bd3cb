//! `rukpakctl install` and `upgrade`: a bundle from wherever it is becomes a BundleDeployment, or replaces what one installs.
//!
//! What lies on this machine is looked at before anything is written, and uploaded as `run` does it.

pub(crate) mod given;
pub(crate) mod patch;

use kube::ResourceExt as _;
use rukpak_crds::names::{CLASS_HELM, CLASS_PLAIN};
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleSource, BundleSpec, BundleTemplate, TemplateMetadata};
use rukpak_plan::owner::controller;

use self::given::Given;
use crate::answer::changed;
use crate::args::InstallArgs;
use crate::chart;
use crate::cluster::{self, Cluster};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::class_of;
use crate::output::warn;
use crate::run::stale;
use crate::service::Service;
use crate::source::pack::{self, Packed};
use crate::upload;
use crate::wait::{self, Wait};

/// So often somebody else may write what is about to be changed: a status is written, too.
const ATTEMPTS: usize = 20;

/// What is to be installed.
#[derive(Debug)]
struct Asked {
    source: BundleSource,
    /// That of the Bundle; `None` leaves it as it is.
    class: Option<String>,
    packed: Option<Packed>,
    /// Values of a chart; `None` leaves them as they are.
    values: Option<String>,
}

/// What was there before and what is there now.
struct Written {
    deployment: BundleDeployment,
    is_new: bool,
    is_changed: bool,
}

/// Makes a BundleDeployment, or changes it, and waits.
pub async fn run(arguments: &InstallArgs, is_upgrade: bool) -> Result<Exit, Failure> {
    let name = &arguments.name;
    let mut asked = asked(arguments).await?;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let service = match &asked.packed {
        Some(_) => Some(Service::connect(&cluster, &arguments.service).await?),
        None => None,
    };
    let written =
        if is_upgrade { change(&cluster, name, &asked).await? } else { create(&cluster, name, &asked).await? };
    let mut older = None;
    if let (Some(service), Some(packed)) = (&service, asked.packed.take()) {
        let sent = upload::deliver(&cluster, service, &written.deployment, packed, arguments.wait.timeout).await?;
        older = stale(&written.deployment, sent.1);
    }
    let form = arguments.output.form;
    if !arguments.wait.wait {
        return Ok(changed(form, &written.deployment, written.in_words(), Exit::Yes));
    }
    let (act, goal) =
        if is_upgrade { ("upgrade", "upgraded and healthy") } else { ("installation", "installed and healthy") };
    let goes_on = format!("the {act} of bundledeployment {name:?} goes on");
    let wait = Wait { name, timeout: arguments.wait.timeout, goal, goes_on: &goes_on };
    let ready = wait::until_ready(&cluster, &wait, written.deployment.metadata.generation, older).await?;
    Ok(changed(form, &ready, written.when_ready(), Exit::Yes))
}

/// Reads what lies on this machine, and refuses what the cluster would refuse.
async fn asked(arguments: &InstallArgs) -> Result<Asked, Failure> {
    let values = chart::values(&arguments.values).await?;
    let path = match given::read(&arguments.source, &arguments.git, arguments.secret.as_deref())? {
        Given::Remote(source) => {
            let class = arguments.format.map(|format| class_of(format).to_owned());
            return Ok(Asked { source: *source, class, packed: None, values });
        }
        Given::Local(path) => path,
    };
    let packed = pack::pack_any(&path)?;
    warn(&packed.remarks);
    let class = class_of(arguments.format.unwrap_or(packed.detected.format));
    if arguments.check.validate {
        upload::validate(&packed, class, &path)?;
    }
    Ok(Asked { source: upload::source(), class: Some(class.to_owned()), packed: Some(packed), values })
}

async fn create(cluster: &Cluster, name: &str, asked: &Asked) -> Result<Written, Failure> {
    let class = asked.class.clone().unwrap_or_else(|| CLASS_PLAIN.to_owned());
    let labels = asked.packed.as_ref().map(|packed| upload::labels(name, packed));
    let metadata = labels.map(|labels| TemplateMetadata { labels: Some(labels), ..TemplateMetadata::default() });
    let provisioner_class_name = if class == CLASS_HELM { CLASS_HELM } else { CLASS_PLAIN }.to_owned();
    let spec = BundleSpec { provisioner_class_name: class, source: asked.source.clone() };
    let spec = BundleDeploymentSpec {
        provisioner_class_name,
        config: chart::config(asked.values.clone()),
        template: BundleTemplate { metadata, spec },
        ..BundleDeploymentSpec::default()
    };
    match cluster.create(&BundleDeployment::new(name, spec)).await {
        Ok(deployment) => Ok(Written { deployment, is_new: true, is_changed: true }),
        Err(cluster::Error::Refused(status)) if status.code == 409 => {
            let text = format!("bundledeployment {name:?} already exists; nothing was changed");
            Err(Failure::no(text).hint(format!("rukpakctl upgrade {name} SOURCE")))
        }
        Err(error) => Err(error.into()),
    }
}

async fn change(cluster: &Cluster, name: &str, asked: &Asked) -> Result<Written, Failure> {
    for _ in 0..ATTEMPTS {
        let existing = cluster.existing(name).await.map_err(|error| match error {
            cluster::Error::NoDeployment(_) => Failure::from(error).hint(format!("rukpakctl install {name} SOURCE")),
            error => error.into(),
        })?;
        check_owner(&existing)?;
        let patch = patch::of(&existing, asked);
        match cluster.merge(name, &patch).await {
            Ok(deployment) => {
                let is_changed = deployment.metadata.generation != existing.metadata.generation;
                return Ok(Written { deployment, is_new: false, is_changed });
            }
            Err(cluster::Error::Refused(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(cluster::Error::Busy(name.to_owned()).into())
}

/// What somebody else makes is changed there, or it is changed back.
fn check_owner(existing: &BundleDeployment) -> Result<(), Failure> {
    let owner = controller(&existing.metadata);
    let Some(owner) = owner else { return Ok(()) };
    let (name, kind) = (existing.name_any(), owner.kind.to_lowercase());
    let text = format!("bundledeployment {name:?} belongs to {kind} {:?}; nothing was changed", owner.name);
    Err(Failure::no(text).hint(format!("kubectl edit {kind} {}", owner.name)))
}

impl Written {
    fn in_words(&self) -> &'static str {
        match (self.is_new, self.is_changed) {
            (true, _) => "created",
            (false, true) => "changed",
            (false, false) => "unchanged",
        }
    }

    fn when_ready(&self) -> &'static str {
        match (self.is_new, self.is_changed) {
            (true, _) => "installed",
            (false, true) => "upgraded",
            (false, false) => "is installed already",
        }
    }
}
