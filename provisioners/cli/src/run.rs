//! `rukpakctl run`: a folder becomes a BundleDeployment, and the content of the Bundle that the cluster makes of it.
//!
//! Everything that can go wrong beforehand is looked at before anything is applied.

mod taken;

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use rukpak_crds::names::{CLASS_PLAIN, CLASS_REGISTRY};
use rukpak_crds::source::UploadSource;
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleSource, BundleSpec, BundleTemplate, TemplateMetadata};

use crate::args::RunArgs;
use crate::cluster::{self, Cluster, Wanted};
use crate::exit::Exit;
use crate::format::Format;
use crate::output::{chain, data, talk};
use crate::service::{self, Service, Uploaded};
use crate::source;
use crate::source::pack::{self, Packed};

/// So much of the digest is a label, which may have 63 characters.
const DIGEST_LENGTH: usize = 32;

/// So often somebody else may write what is about to be applied: a status is written, too.
const ATTEMPTS: usize = 20;

/// Why a folder is not on the cluster. Print the whole chain.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// It cannot be packed.
    #[error(transparent)]
    Pack(#[from] source::Error),
    /// The name is in use.
    #[error(transparent)]
    Taken(#[from] taken::Error),
    /// The API server.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// The content service.
    #[error(transparent)]
    Service(#[from] service::Error),
}

impl Error {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Pack(source) => source.is_refusal(),
            Self::Taken(_) => true,
            Self::Cluster(source) => source.is_refusal(),
            Self::Service(source) => source.is_refusal(),
        }
    }
}

/// Applies and uploads.
pub async fn run(arguments: &RunArgs) -> Exit {
    match install(arguments).await {
        Ok(exit) => exit,
        Err(error) => {
            talk(&format!("error: {}", chain(&error)));
            if error.is_refusal() { Exit::No } else { Exit::Unknown }
        }
    }
}

async fn install(arguments: &RunArgs) -> Result<Exit, Error> {
    let name = &arguments.name;
    let packed = pack::pack(&arguments.folder, &arguments.limits())?;
    for remark in &packed.remarks {
        talk(&format!("warning: {remark}"));
    }
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let service = Service::connect(&cluster, &arguments.service).await?;
    let labels = labels(name, &packed);
    let deployment = deployment(arguments, bundle_class(arguments, &packed), labels.clone());
    let applied = apply(&cluster, &deployment).await?;
    let exit = say(&format!("bundledeployment.core.rukpak.io {name:?} applied"));
    let wanted = Wanted { deployment: &applied, labels: &labels, spec: &deployment.spec.template.spec };
    let bundle = cluster.generated(&wanted, arguments.timeout()).await?;
    let uploaded = service.upload(&bundle, packed).await?;
    let exit_then = say(&match uploaded {
        Uploaded::New => format!("successfully uploaded bundle content for {bundle:?}"),
        Uploaded::Known => format!("bundle {bundle:?} is already up-to-date"),
    });
    Ok(if exit == Exit::Yes { exit_then } else { exit })
}

/// Applies it, unless the name is taken: beside another source an upload would make the BundleDeployment invalid.
async fn apply(cluster: &Cluster, deployment: &BundleDeployment) -> Result<BundleDeployment, Error> {
    let name = deployment.name_any();
    for _ in 0..ATTEMPTS {
        let existing = cluster.deployment(&name).await?;
        if let Some(existing) = &existing {
            taken::check(existing, &deployment.spec.provisioner_class_name)?;
        }
        if let Some(applied) = cluster.apply(deployment, existing.as_ref()).await? {
            return Ok(applied);
        }
    }
    Err(cluster::Error::Busy(name).into())
}

/// The class that was asked for, else that of the format.
fn bundle_class<'a>(arguments: &'a RunArgs, packed: &Packed) -> &'a str {
    let of_format = match packed.detected.format {
        Format::Plain => CLASS_PLAIN,
        Format::Registry => CLASS_REGISTRY,
    };
    let class = arguments.bundle_provisioner_class.as_deref().unwrap_or(of_format);
    let what = format!("a {} bundle ({})", packed.detected.format, packed.detected.why);
    if class != of_format && [CLASS_PLAIN, CLASS_REGISTRY].contains(&class) {
        talk(&format!("warning: {what}, which is for class {of_format}: class {class} reads it otherwise"));
    } else if class == CLASS_REGISTRY {
        talk(&format!("{what}: class {class}"));
    }
    class
}

fn say(line: &str) -> Exit {
    data(|out| writeln!(out, "{line}"), Exit::Yes)
}

/// What the Bundle is found by. Other content has other labels, so it makes another Bundle.
fn labels(name: &str, packed: &Packed) -> BTreeMap<String, String> {
    let hex = packed.digest.hex();
    let digest = hex.get(..DIGEST_LENGTH).unwrap_or(hex).to_owned();
    BTreeMap::from([("app".to_owned(), name.to_owned()), ("bundleDigest".to_owned(), digest)])
}

fn deployment(arguments: &RunArgs, class: &str, labels: BTreeMap<String, String>) -> BundleDeployment {
    let source =
        BundleSource { type_: "upload".to_owned(), upload: Some(UploadSource::default()), ..BundleSource::default() };
    let spec = BundleSpec { provisioner_class_name: class.to_owned(), source };
    let metadata = Some(TemplateMetadata { labels: Some(labels), ..TemplateMetadata::default() });
    let spec = BundleDeploymentSpec {
        provisioner_class_name: arguments.bundle_deployment_provisioner_class.clone(),
        template: BundleTemplate { metadata, spec },
        ..BundleDeploymentSpec::default()
    };
    BundleDeployment::new(&arguments.name, spec)
}
