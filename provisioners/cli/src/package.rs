//! `rukpakctl package`: the image of a bundle, from a folder to a registry or to an image layout; and `pull`, the way back.

use std::collections::BTreeMap;
use std::path::Path;

use oci_client::Reference;
use rukpak_content::{BundleTree, Digest, Limits};
use rukpak_plain::Budget;
use rukpak_registry::metadata::Metadata;
use serde::Serialize;

use crate::answer::print_either;
use crate::args::{AnswerForm, PackageArgs, PullArgs};
use crate::content::{check_empty, extract};
use crate::examine::{Purpose, examine};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::{Format, asked_or_detected};
use crate::oci;
use crate::oci::bundle::{self, Image};
use crate::oci::destination::{self, Destination};
use crate::oci::layout::{Entry, Layout};
use crate::oci::remote::{Remote, pinned};
use crate::output::warn;
use crate::source;

/// What the labels of bundle images begin with.
const LABELS: &str = "operators.operatorframework.io.bundle.";

/// What `--output json` prints.
#[derive(Serialize)]
struct Packaged {
    /// Where it is, by digest.
    image: String,
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
}

impl Packaged {
    fn print(&self, form: AnswerForm) -> Exit {
        print_either(form, self, |out| writeln!(out, "{}", self.image), Exit::Yes)
    }
}

/// Builds an image and puts it where it belongs.
pub async fn run(arguments: &PackageArgs) -> Result<Exit, Failure> {
    let place = Destination::read(&arguments.image)?;
    if let Destination::Registry(image) = &place
        && image.digest().is_some()
    {
        let text = format!("{}: the digest of an image that is yet to be made is not known", arguments.image);
        return Err(Failure::unknown(text).hint("name a tag"));
    }

    let (content, stage) = source::read_staged(&arguments.folder)?;
    warn(&content.remarks);
    let format = asked_or_detected(arguments.format, &content.tree).format;
    if arguments.check.validate {
        let examined = examine(&content.tree, format, Purpose::Validate);
        warn(&examined.warnings);
        examined.refuse_findings(&content.from, &content.tree, format, "no image was made")?;
    }

    let mut labels = labels(&content.tree, format);
    labels.extend(arguments.label.iter().cloned());
    let image = bundle::build(&stage, &labels)?;
    let digest = image.manifest.descriptor.digest.clone();
    let image = match &place {
        Destination::Registry(reference) => push(arguments, reference, image).await?,
        Destination::Layout(folder, name) => {
            keep(&Layout::create(folder)?, image, name.as_ref()).map(|()| at(&place, &digest))?
        }
        Destination::Archive(file, name) => {
            let folder = tempfile::tempdir().map_err(|error| Failure::unknown(format!("make a folder: {error}")))?;
            let layout = Layout::create(folder.path())?;
            keep(&layout, image, name.as_ref())?;
            layout.archive(file).map(|()| at(&place, &digest))?
        }
    };
    Ok(Packaged { image, digest, format: Some(format.to_string()) }.print(arguments.form))
}

/// What says of an image that it is a bundle: the annotations of its metadata, as `opm` makes labels of them; of a plain+v0 bundle,
/// which has no metadata, its format and its folder.
fn labels(tree: &BundleTree, format: Format) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(format!("{LABELS}mediatype.v1"), format.to_string())]);
    if format != Format::Helm {
        labels.insert(format!("{LABELS}manifests.v1"), "manifests/".to_owned());
    }
    if format == Format::Registry {
        labels.insert(format!("{LABELS}metadata.v1"), "metadata/".to_owned());
    }
    let metadata = Metadata::read(tree, &mut Budget::new(&Limits::default()));
    labels.extend(metadata.map(|metadata| metadata.annotations).unwrap_or_default());
    labels
}

async fn push(arguments: &PackageArgs, reference: &Reference, image: Image) -> Result<String, Failure> {
    let mut remote = Remote::new(&arguments.trust)?;
    let work = async {
        remote.log_in(reference, true).await?;
        let (layer, file) = image.layer;
        remote.put_blob(reference, &layer, file).await?;
        let (config, bytes) = image.config;
        remote.put_blob(reference, &config, spooled(&bytes)?).await?;
        remote.put_manifest(reference, &image.manifest).await
    };
    tokio::select! {
        done = work => done?,
        _ = tokio::signal::ctrl_c() => {
            let text = format!("interrupted: {} names what it named before", reference.whole());
            return Err(Failure::unknown(text).hint(format!("rukpakctl package {} {}", arguments.folder.display(), arguments.image)));
        }
    }
    Ok(pinned(reference, &image.manifest.descriptor.digest).whole())
}

fn spooled(bytes: &[u8]) -> Result<std::fs::File, Failure> {
    use std::io::{Seek as _, Write as _};
    let write = || -> std::io::Result<_> {
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file)
    };
    write().map_err(|error| Failure::during("write a config", &error))
}

fn keep(layout: &Layout, image: Image, name: Option<&String>) -> Result<(), Failure> {
    let (layer, mut file) = image.layer;
    layout.put_file(&layer, &mut file)?;
    let (config, bytes) = image.config;
    layout.put_file(&config, &mut bytes.as_slice())?;
    layout.put_manifest(&image.manifest)?;
    layout.add(&Entry { descriptor: image.manifest.descriptor, name: name.cloned() })
}

fn at(place: &Destination, digest: &Digest) -> String {
    let shown = |transport: &str, path: &Path| format!("{transport}:{}@{digest}", path.display());
    match place {
        Destination::Layout(path, _) => shown("oci", path),
        Destination::Archive(path, _) => shown("oci-archive", path),
        Destination::Registry(reference) => pinned(reference, digest).whole(),
    }
}

/// Fetches an image and writes its files to a folder.
pub async fn pull(arguments: &PullArgs) -> Result<Exit, Failure> {
    check_empty(&arguments.folder)?;
    destination::reference(&arguments.image)?;
    let (image, stage) = source::pull(&arguments.image, &arguments.trust).await?;
    extract(&stage, &arguments.folder)?;
    let reference = destination::reference(&image)?;
    let digest = oci::digest(reference.digest().unwrap_or_default())?;
    Ok(Packaged { image, digest, format: None }.print(arguments.form))
}
