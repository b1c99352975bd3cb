//! `rukpakctl export`: a bundle with every image that it names, as one image layout; and `import`, which brings them to another
//! registry. For clusters that reach no registry but their own.

mod images;

use oci_client::Reference;
use rukpak_catalog::choose::Request;
use rukpak_content::Digest;
use serde::Serialize;

use crate::answer::print_either;
use crate::args::{AnswerForm, ExportArgs, ImportArgs, RegistryArgs};
use crate::catalog::choice::{self, Chosen};
use crate::examine::{Purpose, examine_with};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::{Format, asked_or_detected};
use crate::oci::destination::reference;
use crate::oci::layout::{Entry, Layout};
use crate::oci::remote::{Remote, pinned, say};
use crate::oci::{self, copy};
use crate::output::to_stderr;
use crate::source;
use crate::table::{self, count};

/// An image, and where it is now.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Copied {
    /// As the bundle names it.
    source: String,
    /// Where it is, by digest. Absent in a layout, which is not asked by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    digest: Digest,
}

/// What `--output json` prints.
#[derive(Serialize)]
struct Answer {
    /// What was chosen, of a catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<Chosen>,
    images: Vec<Copied>,
}

pub async fn run(arguments: &ExportArgs) -> Result<Exit, Failure> {
    interruptible(Box::pin(export(arguments)), "what was fetched stays in the layout").await
}

pub async fn run_import(arguments: &ImportArgs) -> Result<Exit, Failure> {
    interruptible(Box::pin(import(arguments)), "what was sent stays in the registry").await
}

/// Ends at Ctrl-C, and says what is left.
async fn interruptible(work: impl Future<Output = Result<Exit, Failure>>, left: &str) -> Result<Exit, Failure> {
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => {
            Err(Failure::unknown(format!("interrupted: {left}")).hint("run the command again: it goes on where it was"))
        }
    }
}

async fn export(arguments: &ExportArgs) -> Result<Exit, Failure> {
    let chosen = chosen(arguments).await?;
    let content = match &chosen {
        Some(chosen) => source::read_image(&chosen.image, &arguments.source.trust).await?,
        None => source::read(&arguments.source).await?,
    };
    let format = asked_or_detected(arguments.source.format, &content.tree).format;
    // The images of a chart are those that it names with its own values, unless others are given.
    let registry = RegistryArgs::default();
    let purpose = if format == Format::Helm { Purpose::Render(&registry) } else { Purpose::Validate };
    let examined = examine_with(&content.tree, format, purpose, &arguments.source).await?;
    examined.refuse_findings(&content.from, &content.tree, format, "nothing was exported")?;
    // What lies on this machine is no image yet. What was examined is copied, wherever its tag points by now.
    let called = chosen
        .as_ref()
        .map_or_else(|| arguments.source.bundle.to_string_lossy().into_owned(), |chosen| chosen.image.clone());
    let own = content.image.as_ref().map(|image| (called, image.clone()));
    let named = images::named_by(&examined.objects).into_iter().chain(images::related(&content.tree));
    let named = named.chain(arguments.image.iter().cloned()).map(|name| (name.clone(), name));
    let layout = Layout::create(&arguments.layout)?;
    let mut remote = Remote::new(&arguments.source.trust)?;
    let mut images: Vec<Copied> = Vec::new();
    for (name, place) in own.into_iter().chain(named) {
        if images.iter().any(|image| image.source == name) {
            continue;
        }
        let image = reference(&place)?;
        say("fetching", &image);
        remote.log_in(&image, false).await?;
        let top = copy::pull(&remote, &image, &layout).await?;
        layout.add(&Entry { descriptor: top.clone(), name: Some(name.clone()) })?;
        images.push(Copied { source: name, target: None, digest: top.digest });
    }
    to_stderr(&format!("{} in {}", count(images.len(), "image"), arguments.layout.display()));
    Ok(print(arguments.form, chosen, images))
}

/// The bundle of a catalog, if one is named.
async fn chosen(arguments: &ExportArgs) -> Result<Option<Chosen>, Failure> {
    let Some(catalog) = arguments.catalog() else { return Ok(None) };
    let name = arguments.source.bundle.to_string_lossy();
    let choice = &arguments.package;
    let request = Request { channel: choice.channel.clone(), range: choice.range.clone() };
    let chosen = choice::bundle_of(&catalog, &name, &request).await?;
    to_stderr(&chosen.to_string());
    Ok(Some(chosen))
}

async fn import(arguments: &ImportArgs) -> Result<Exit, Failure> {
    let layout = Layout::open(&arguments.layout)?;
    let mut remote = Remote::new(&arguments.trust)?;
    let mut images = Vec::new();
    for entry in layout.entries()? {
        let Some(name) = entry.name else {
            to_stderr(&format!("warning: {} has no name, and is passed over", entry.descriptor.digest));
            continue;
        };
        let image = target(&arguments.target, &reference(&name)?)?;
        // Whoever pulls it by this digest would not get it.
        if let Some(digest) = image.digest() {
            let wanted = oci::digest(digest)?;
            oci::check(&format!("{name} of the layout"), &entry.descriptor.digest, &wanted)?;
        }
        say("sending", &image);
        remote.log_in(&image, true).await?;
        copy::push(&remote, &layout, &entry.descriptor, &image).await?;
        let digest = entry.descriptor.digest;
        images.push(Copied { source: name, target: Some(pinned(&image, &digest).whole()), digest });
    }
    Ok(print(arguments.form, None, images))
}

/// The same repository, tag and digest in another registry, below a path of it.
fn target(registry: &str, image: &Reference) -> Result<Reference, Failure> {
    let digest = image.digest().map(|digest| format!("@{digest}")).unwrap_or_default();
    // An image that is named by its digest needs no tag, and one by neither is `latest`.
    let tag = image.tag().filter(|_| digest.is_empty()).map(|tag| format!(":{tag}")).unwrap_or_default();
    let registry = registry.trim_end_matches('/').trim_start_matches("docker://");
    reference(&format!("{registry}/{}{tag}{digest}", image.repository()))
}

fn print(form: AnswerForm, package: Option<Chosen>, images: Vec<Copied>) -> Exit {
    let row = |image: &Copied| {
        let last = image.target.clone().unwrap_or_else(|| image.digest.to_string());
        vec![image.source.clone(), last]
    };
    let rows: Vec<Vec<String>> = images.iter().map(row).collect();
    let last = if images.iter().any(|image| image.target.is_some()) { "TARGET" } else { "DIGEST" };
    let answer = Answer { package, images };
    print_either(form, &answer, |out| table::write(out, &["IMAGE", last], &rows), Exit::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_keep_their_path_in_another_registry() {
        let moved = |registry: &str, image: &str| target(registry, &image.parse().unwrap()).unwrap().whole();
        assert_eq!(moved("localhost:5000", "quay.io/a/b:v1"), "localhost:5000/a/b:v1");
        assert_eq!(moved("example.com/mirror/", "busybox"), "example.com/mirror/library/busybox:latest");
        let digest = format!("sha256:{}", "0".repeat(64));
        assert_eq!(moved("example.com", &format!("quay.io/a:v1@{digest}")), format!("example.com/a@{digest}"));
    }
}
