//! Whether a staged tree is a bundle of its class. Pure but for reading the spool file.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rukpak_content::{BundleTree, Limits, Node, Tree};
use tokio::task::spawn_blocking;

use super::failure::Failure;
use crate::context::Context;
use crate::format::Format;

/// What a tree has to be.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The format.
    pub format: Format,
    /// Whether the owning BundleDeployment says what is watched.
    pub watches_namespace: bool,
}

/// Reads the manifests. Blocks.
fn check(tree: &dyn Tree, expected: Expected, limits: &Limits) -> Result<Vec<String>, Failure> {
    let tree = part(tree, expected.format).map_err(Failure::ReadStage)?;
    let checked = expected.format.check(&tree, limits, expected.watches_namespace);
    checked.map_err(|error| Failure::Format(Box::new(error)))
}

/// [`check`] on a thread that may block; says what a reader should know although nothing was refused.
pub async fn check_apart(
    bundle: &str,
    tree: Arc<impl Tree + Send + Sync + 'static>,
    expected: Expected,
    context: &Context,
) -> Result<(), Failure> {
    let limits = context.limits.clone();
    let work = move || check(&*tree, expected, &limits);
    for warning in spawn_blocking(work).await.map_err(Failure::Worker)?? {
        tracing::warn!(bundle, %warning, "the bundle may not mean what its author thinks");
    }
    Ok(())
}

/// The part of a bundle that the format looks at.
fn part(tree: &dyn Tree, format: Format) -> io::Result<BundleTree> {
    let mut found = BundleTree::new();
    tree.walk(&mut |path, node| {
        match node {
            _ if !format.has_part(path) => {}
            Node::Directory => found.add_directory(path.clone()),
            Node::File { executable, size_bytes, body } => {
                let mut bytes = Vec::with_capacity(usize::try_from(size_bytes).unwrap_or(0));
                body.read_to_end(&mut bytes)?;
                found.add_file(path.clone(), executable, Bytes::from(bytes));
            }
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use rukpak_content::RelativePath;

    use super::*;
    use crate::error::Chain;

    const PLAIN: Expected = Expected { format: Format::Plain, watches_namespace: false };

    fn refusal(files: &[(&str, &'static str)]) -> String {
        let mut tree = BundleTree::new();
        for (path, body) in files {
            tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::from_static(body.as_bytes()));
        }
        Chain(&check(&tree, PLAIN, &Limits::default()).unwrap_err()).to_string()
    }

    #[test]
    fn refusals_are_upstreams() {
        assert!(
            refusal(&[("a", "x")])
                .starts_with("get objects from bundle manifests: readdir manifests: file does not exist")
        );
        assert!(refusal(&[("manifests", "x")]).contains("not a directory"));
        assert!(refusal(&[("manifests/sub/a.yaml", "")]).contains("found \"manifests/sub\""));
        assert!(refusal(&[("manifests/a.yaml", "")]).starts_with("invalid bundle: found zero objects"));
    }

    #[test]
    fn other_folders_are_not_read() {
        let mut tree = BundleTree::new();
        let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        for (path, body) in [("manifests/a.yaml", object), ("manifests-old/b", "\u{0}"), ("bin/x", "\u{0}")] {
            tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::from_static(body.as_bytes()));
        }
        assert_eq!(check(&tree, PLAIN, &Limits::default()).unwrap(), Vec::<String>::new());
        assert_eq!(part(&tree, Format::Plain).unwrap().list("manifests").unwrap().count(), 1);
        assert!(part(&tree, Format::Plain).unwrap().get("bin/x").is_none());
    }
}
