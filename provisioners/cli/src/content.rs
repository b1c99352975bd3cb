//! `rukpakctl content`: what a Bundle of the cluster holds. Nothing is made in the cluster, so nothing is left there.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use reqwest::Url;
use rukpak_content::{Limits, Node, Tree as _};
use rukpak_crds::Bundle;
use rukpak_source::Stage;
use rukpak_source::archive::{Dialect, read_tar};
use rukpak_source::decompress::Decompressor;

use crate::args::ContentArgs;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{to_stderr, to_stdout};
use crate::service::Service;
use crate::source::refused;

pub async fn run(arguments: &ContentArgs) -> Exit {
    show(arguments).await.unwrap_or_else(|failure| {
        // The words are upstream's.
        to_stderr(&format!("content command failed: {}", failure.text));
        failure.exit
    })
}

async fn show(arguments: &ContentArgs) -> Result<Exit, Failure> {
    if let Some(folder) = &arguments.extract {
        check_empty(folder)?;
    }
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let bundle: Bundle = cluster.get(&arguments.bundle).await?;
    let url = bundle.status.and_then(|status| status.content_url).filter(|url| !url.is_empty());
    // The Bundle is not unpacked. The words are upstream's.
    let url = url.ok_or_else(|| Failure::no("error: url is not available"))?;
    // Its host is a name that only the cluster knows.
    let parsed = Url::parse(&url).map_err(|_| Failure::unknown(format!("contentURL {url:?} is no URL")))?;
    let service = Service::connect(&cluster, &arguments.service).await?;
    let stage = unpack(service.fetch(parsed.path()).await?)?;
    match &arguments.extract {
        Some(folder) => extract(&stage, folder).map(|()| Exit::Yes),
        None => list(&stage),
    }
}

pub(crate) fn unpack(file: File) -> Result<Stage, Failure> {
    let limits = &Limits::default();
    let file = BufReader::with_capacity(64 * 1024, file);
    let mut archive = Decompressor::new(file, limits, 0, "content".to_owned()).map_err(|error| unread(&error))?;
    let stage = Stage::new_in(&std::env::temp_dir(), limits);
    let mut stage = stage.map_err(|error| Failure::during("set what was fetched aside", &error))?;
    read_tar(&mut archive, &mut stage, Dialect::Plain).map_err(|error| refused("read the archive", &error))?;
    Ok(stage)
}

fn unread(error: &io::Error) -> Failure {
    Failure::during("read what was fetched", error)
}

/// Names, one a line, folders with a slash, as `tar -t` prints them.
fn list(stage: &Stage) -> Result<Exit, Failure> {
    let mut names = Vec::new();
    let read = stage.walk(&mut |path, node| {
        let slash = if matches!(node, Node::Directory) { "/" } else { "" };
        names.push(format!("{path}{slash}"));
        Ok(())
    });
    read.map_err(|error| unread(&error))?;
    Ok(to_stdout(|out| names.iter().try_for_each(|name| writeln!(out, "{name}")), Exit::Yes))
}

/// In an empty folder there are no links, so no file can come to lie elsewhere.
pub(crate) fn check_empty(folder: &Path) -> Result<(), Failure> {
    let name = folder.display();
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().map_or(Ok(()), |_| {
            Err(Failure::unknown(format!("{name} is not empty: name a folder that is, or that is not there")))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::during(format!("write to {name}"), &error)),
    }
}

pub(crate) fn extract(stage: &Stage, folder: &Path) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        stage.walk(&mut |path, node| {
            // A relative path has no `..`, and what lies above it was made by this loop.
            let target = folder.join(path.as_str());
            match node {
                Node::Directory => fs::create_dir(target),
                Node::File { executable, body, .. } => {
                    let mode = if executable { 0o777 } else { 0o666 };
                    let mut file = File::options().write(true).create_new(true).mode(mode).open(target)?;
                    io::copy(body, &mut file)?;
                    file.flush()
                }
            }
        })
    };
    write().map_err(|error| Failure::during(format!("write to {}", folder.display()), &error))
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A tar of entries, each a name, a type, and a body or the target of a link.
    fn tar(entries: &[(&str, tar::EntryType, &str)]) -> File {
        let mut builder = tar::Builder::new(tempfile::tempfile().unwrap());
        for (name, kind, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            let body = if kind.is_file() { text.as_bytes() } else { b"" };
            header.set_size(body.len() as u64);
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.as_gnu_mut().unwrap().linkname[..text.len().min(90)]
                .copy_from_slice(&text.as_bytes()[..text.len().min(90)]);
            header.set_cksum();
            builder.append(&header, body).unwrap();
        }
        let mut file = builder.into_inner().unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn files_are_written_below_the_folder_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("new/one");
        let regular = tar::EntryType::Regular;
        let stage = unpack(tar(&[("manifests/a.yaml", regular, "a: 1")])).unwrap();
        check_empty(&target).unwrap();
        extract(&stage, &target).unwrap();
        let file = target.join("manifests/a.yaml");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a: 1");
        assert_ne!(fs::metadata(&file).unwrap().permissions().mode() & 0o100, 0);
        assert!(check_empty(&target).unwrap_err().text.contains("is not empty"));
        assert!(extract(&stage, &target).unwrap_err().text.starts_with("write to "), "nothing is overwritten");
        for evil in [
            &[("../a", regular, "x")][..],
            &[("/etc/a", regular, "x")],
            &[("manifests", tar::EntryType::Symlink, "/tmp"), ("manifests/a", regular, "x")],
            &[("a", tar::EntryType::Link, "/etc/passwd")],
        ] {
            let refused = unpack(tar(evil)).unwrap_err();
            assert!(
                refused.exit == Exit::No && refused.text.starts_with("read the archive: "),
                "{evil:?}: {refused:?}"
            );
        }
    }
}
