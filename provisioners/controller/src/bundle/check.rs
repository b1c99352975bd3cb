//! Whether a staged tree is a bundle of its class. Pure but for reading the spool file.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rukpak_content::{BundleTree, Limits, Node, RelativePath, Tree};
use rukpak_plain::{Loaded, manifests};
use tokio::task::spawn_blocking;

use super::failure::Failure;
use crate::context::Context;

/// Reads the manifests of a `plain+v0` bundle. Blocks.
fn check(tree: &dyn Tree, limits: &Limits) -> Result<Loaded, Failure> {
    let tree = manifests_of(tree).map_err(Failure::ReadStage)?;
    rukpak_plain::load(&tree, limits).map_err(|error| Failure::Format(Box::new(error)))
}

/// [`check`] on a thread that may block; says what a reader should know although nothing was refused.
pub async fn check_apart(
    bundle: &str,
    tree: Arc<impl Tree + Send + Sync + 'static>,
    context: &Context,
) -> Result<(), Failure> {
    let limits = context.limits.clone();
    let work = move || check(&*tree, &limits).map(|loaded| loaded.warnings);
    for warning in spawn_blocking(work).await.map_err(Failure::Worker)?? {
        tracing::warn!(bundle, %warning, "the bundle may not mean what its author thinks");
    }
    Ok(())
}

/// The part of a bundle that the format looks at, whether it is a folder or not.
fn is_manifest(path: &RelativePath) -> bool {
    path.components().next() == Some(manifests::FOLDER)
}

fn manifests_of(tree: &dyn Tree) -> io::Result<BundleTree> {
    let mut found = BundleTree::new();
    tree.walk(&mut |path, node| {
        match node {
            _ if !is_manifest(path) => {}
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
    use super::*;
    use crate::error::Chain;

    fn refusal(files: &[(&str, &'static str)]) -> String {
        let mut tree = BundleTree::new();
        for (path, body) in files {
            tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::from_static(body.as_bytes()));
        }
        Chain(&check(&tree, &Limits::default()).unwrap_err()).to_string()
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
        assert_eq!(check(&tree, &Limits::default()).unwrap().objects.len(), 1);
    }
}
