//! What is on the disk: whole contents, refs that lead to them, and nothing that a dead process has left.

use std::fs::File;
use std::path::{Path, PathBuf};

use rukpak_content::{Digest, Limits};
use rukpak_store::{Ref, read_content};

/// Whether the store holds that content, byte for byte.
pub fn is_whole(store: &Path, digest: &str) -> Result<(), String> {
    let digest: Digest = digest.parse().map_err(|error| format!("{digest:?} is no digest: {error}"))?;
    let (shard, rest) = digest.hex().split_at(2);
    let file = File::open(store.join("content/sha256").join(shard).join(rest));
    let file = file.map_err(|error| format!("there is no content {digest}: {error}"))?;
    match read_content(file, &digest, &|_| true, &Limits::default()) {
        Ok(tree) if tree.iter().next().is_some() => Ok(()),
        Ok(_) => Err(format!("the content {digest} is empty")),
        Err(error) => Err(format!("the content {digest} is not whole: {error}")),
    }
}

/// What is wrong in the store.
pub fn problems(store: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in contents(store) {
        let name =
            |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let digest = format!("sha256:{}{}", name(path.parent()), name(Some(&path)));
        wrong.extend(is_whole(store, &digest).err());
    }
    for path in refs(store) {
        let text = std::fs::read(&path).unwrap_or_default();
        match serde_json::from_slice::<Ref>(&text) {
            Ok(found) => wrong.extend(is_whole(store, &found.content.to_string()).err()),
            Err(error) => wrong.push(format!("{} is no ref: {error}", path.display())),
        }
    }
    let runs = children(&store.join("tmp"));
    if runs.len() != 1 {
        wrong.push(format!("folders of {} processes are in tmp: {runs:?}", runs.len()));
    }
    wrong
}

/// What is left in the store of whoever used it: everybody is gone.
pub fn leftovers(store: &Path) -> Vec<PathBuf> {
    // What a process keeps there as long as it lives; the last are CA certificates.
    let own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "lock" || name == "keep" || name.starts_with("roots-")
    };
    let runs = children(&store.join("tmp"));
    let staged =
        runs.iter().skip(1).cloned().chain(runs.iter().flat_map(|run| children(run)).filter(|path| !own(path)));
    contents(store).into_iter().chain(refs(store)).chain(staged).collect()
}

fn contents(store: &Path) -> Vec<PathBuf> {
    children(&store.join("content/sha256")).iter().flat_map(|shard| children(shard)).collect()
}

fn refs(store: &Path) -> Vec<PathBuf> {
    ["refs/bundles", "refs/deployments"].iter().flat_map(|folder| children(&store.join(folder))).collect()
}

/// What is in a folder; nothing if there is none.
fn children(folder: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(folder).into_iter().flatten().flatten();
    listing.map(|child| child.path()).collect()
}
