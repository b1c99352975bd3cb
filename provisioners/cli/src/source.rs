//! Where a bundle comes from: a folder, an archive or an image, all read by the rules of the cluster.

mod folder;
pub mod pack;
pub mod remote;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rukpak_content::{BundleTree, CollectError, Limits, RelativePath, Tree as _};
use rukpak_format::helm;
use rukpak_source::{Stage, image, tarball};

use crate::args::{SourceArgs, TrustArgs};
use crate::failure::Failure;
use crate::output::chain;
use crate::registries::Registries;

/// The folder that is only in registry+v1 bundles.
const METADATA: &str = "metadata";
/// The folders that the formats look at.
const CONTENT: [&str; 2] = ["manifests", METADATA];
/// Endings of archives: a name with one of them is never taken for an image.
const ARCHIVES: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];

/// The files of a bundle.
#[derive(Debug)]
pub struct Content {
    /// What lies below `manifests/` and `metadata/`; of a chart, everything.
    pub tree: BundleTree,
    /// What it was read from, for people.
    pub from: String,
    /// What somebody should know about how it was read.
    pub remarks: Vec<String>,
    /// The image that it was pulled as, by digest.
    pub image: Option<String>,
}

/// A cluster would refuse this archive, too.
fn is_refusal(error: &rukpak_source::archive::Error) -> bool {
    !error.is_damage() && !error.is_passing()
}

/// Tells an archive that a cluster would refuse, too, from one that is damaged or that there is no room for.
pub(crate) fn refused(what: &str, error: &rukpak_source::archive::Error) -> Failure {
    Failure::either(is_refusal(error), format!("{what}: {}", chain(error)))
}

fn unread(path: impl Display, error: &io::Error) -> Failure {
    Failure::during(format!("read {path}"), error)
}

/// Reads the bundle that the flags name. A path that exists wins over an image.
pub async fn read(arguments: &SourceArgs) -> Result<Content, Failure> {
    let path = PathBuf::from(&arguments.bundle);
    let name = path.display().to_string();
    let mut remarks = Vec::new();
    let stage = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => folder::stage(&path, &mut remarks)?,
        Ok(_) => stage_archive(&path)?,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unread(&name, &error)),
        Err(_) => {
            let reference = reference(&arguments.bundle)?;
            let why = format!("{reference}: there is no file or folder of this name, so it was taken for an image: ");
            let (from, stage) = pull_image(reference, &arguments.trust, &why).await?;
            return content_of_image(&stage, from);
        }
    };
    content(&stage, name, remarks)
}

/// The name as an image reference, unless it can only be meant as a path.
fn reference(name: &OsString) -> Result<&str, Failure> {
    let why = match name.to_str() {
        None => "it is no image either: the name is not UTF-8",
        Some(text) if is_path(text) => "it was not taken for an image: it is written like a path",
        Some(text) => return Ok(text),
    };
    Err(Failure::unknown(format!("{}: no such file or folder; {why}", name.to_string_lossy())))
}

/// Reads a folder of this machine: what the formats look at, and the files that a bundle of it has.
pub fn read_staged(folder: &Path) -> Result<(Content, Stage), Failure> {
    pack::check_folder(folder)?;
    let mut remarks = Vec::new();
    let stage = folder::stage(folder, &mut remarks)?;
    content(&stage, folder.display().to_string(), remarks).map(|content| (content, stage))
}

/// Pulls an image. Returns its reference by digest, and its files.
pub async fn pull(image: &str, trust: &TrustArgs) -> Result<(String, Stage), Failure> {
    pull_image(image, trust, "").await
}

/// Pulls an image. Returns its reference by digest, and its files. `why` begins what is said if the image is not to be had.
async fn pull_image(name: &str, trust: &TrustArgs, why: &str) -> Result<(String, Stage), Failure> {
    let failed = |error: image::Error| {
        let is_refused = matches!(&error, image::Error::Layer { source, .. } if is_refusal(source));
        Failure::either(is_refused, format!("{why}{}", chain(&error)))
    };

    let mut registries = Registries::new(trust, Limits::default())?;
    registries.log_in_for(name).await;
    let (puller, credentials) = (&registries.puller, registries.credentials());
    let image = puller.resolve(name, credentials).await.inspect_err(|_| registries.note_helpers()).map_err(failed)?;
    let stage = puller.fetch(&image, credentials).await.map_err(failed)?;
    Ok((image.reference(), stage))
}

/// Reads an image, also where a file of its name exists.
pub async fn read_image(image: &str, trust: &TrustArgs) -> Result<Content, Failure> {
    let (from, stage) = pull(image, trust).await?;
    content_of_image(&stage, from)
}

fn content_of_image(stage: &Stage, from: String) -> Result<Content, Failure> {
    let content = content(stage, from, Vec::new())?;
    Ok(Content { image: Some(content.from.clone()), ..content })
}

/// Reads a folder or an archive of this machine.
pub fn read_local(path: &Path) -> Result<Content, Failure> {
    let mut remarks = Vec::new();
    let stage = if path.is_dir() { folder::stage(path, &mut remarks)? } else { stage_archive(path)? };
    content(&stage, path.display().to_string(), remarks)
}

/// Unpacks a tar archive. Its bytes say how it is compressed, whatever its name ends in.
fn stage_archive(path: &Path) -> Result<Stage, Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| unread(&name, &error))?;
    let unpacked = tarball::read(file, &env::temp_dir(), &Limits::default(), name.clone());
    unpacked.map_err(|error| {
        let is_refused = matches!(&error, tarball::Error::Archive(source) if is_refusal(source));
        Failure::either(is_refused, format!("{name}: {}", chain(&error)))
    })
}

/// Whether a name can only be meant as a path.
pub fn is_path(name: &str) -> bool {
    name.starts_with(['/', '.', '~']) || ARCHIVES.iter().any(|ending| name.ends_with(ending))
}

fn new_stage(name: &Path) -> Result<Stage, Failure> {
    let stage = Stage::new_in(&env::temp_dir(), &Limits::default());
    stage.map_err(|error| Failure::during(format!("set {} aside", name.display()), &error))
}

/// Whether it is a chart, of which every file counts: `Chart.yaml` is at the root, or in the only folder there.
fn is_chart(stage: &Stage) -> io::Result<bool> {
    let (mut tops, mut places) = (Vec::new(), Vec::new());
    stage.walk(&mut |path, _| {
        if path.parent().is_none() {
            tops.push(path.clone());
        }
        if path.name() == helm::CHART && path.depth() <= 2 {
            places.push(path.parent());
        }
        Ok(())
    })?;
    let is_bundle = tops.iter().any(|top| top.as_str() == CONTENT[0]);
    let is_only = |place: &Option<RelativePath>| match place {
        None => true,
        Some(folder) => tops.as_slice() == [folder.clone()],
    };
    Ok(!is_bundle && places.iter().any(is_only))
}

/// What the formats look at.
pub(crate) fn content(stage: &Stage, from: String, mut remarks: Vec<String>) -> Result<Content, Failure> {
    let is_chart = is_chart(stage).map_err(|error| unread(&from, &error))?;
    let is_content =
        |path: &RelativePath| is_chart || path.components().next().is_some_and(|first| CONTENT.contains(&first));
    let tree = BundleTree::collect(stage, &is_content, &Limits::default());
    let tree = tree.map_err(|error| {
        Failure::either(matches!(error, CollectError::Limit(_)), format!("{from}: {}", chain(&error)))
    })?;
    let mut nested = None;
    let read = stage.walk(&mut |path, _| {
        if path.depth() > 1 && path.name() == CONTENT[0] && !is_content(path) {
            nested = nested.take().or_else(|| path.parent());
        }
        Ok(())
    });
    read.map_err(|error| unread(&from, &error))?;
    if let Some(folder) = nested.filter(|_| tree.get(CONTENT[0]).is_none()) {
        remarks.push(format!("{folder}/manifests is there: the bundle is {folder}, so name or pack that folder"));
    }
    Ok(Content { tree, from, remarks, image: None })
}
