//! Past a limit: the limit, its value and its flag are named, nothing is stored, and content within it heals the Bundle.
//!
//! The limits are those of [`Bare`].

use rukpak_tests::registry::TarEntry;
use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::image;
use rukpak_tests::{ImageBuilder, Layer};
use serde_json::json;

use crate::bundles::hands::{Bare, git, good, manifest};

/// Bytes that do not compress; hexadecimal ones halve.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}

fn hexadecimal(count: usize) -> Vec<u8> {
    noise(count).into_iter().map(|byte| b"0123456789abcdef"[usize::from(byte % 16)]).collect()
}

fn objects(name: &str, count: usize) -> String {
    (0..count).fold(String::new(), |text, index| format!("{text}---\n{}", manifest(&format!("{name}-{index}"))))
}

/// An image of a good manifest and further entries.
fn with(name: &str, entries: impl IntoIterator<Item = TarEntry>) -> ImageBuilder {
    let first = TarEntry::file("manifests/a.yaml", manifest(name));
    ImageBuilder::new([Layer::new(std::iter::once(first).chain(entries))])
}

#[tokio::test]
async fn images_past_a_limit() {
    let bare = Bare::shared().await;
    let hands = bare.hands().await;
    let files = |count: usize| (0..count).map(|index| TarEntry::file(format!("other/{index}"), "x"));
    let nodes = |count: usize| format!("{}list: [{}]\n", manifest("nodes"), "a,".repeat(count));
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n";
    let table: Vec<(Vec<TarEntry>, &str)> = vec![
        (
            vec![TarEntry::file("blob", noise(2_100_000))],
            "more than the limit of 2000000 bytes of compressed download (--limit=download-bytes)",
        ),
        (
            vec![TarEntry::file("blob", hexadecimal(3_100_000))],
            "more than the limit of 3000000 bytes of unpacked content (--limit=tree-bytes)",
        ),
        (
            vec![TarEntry::file("blob", vec![0; 2_500_000])],
            "more than the limit of 50 times the compressed size (--limit=ratio)",
        ),
        (files(20).collect(), "more than the limit of 20 files and folders (--limit=entries)"),
        (
            vec![TarEntry::file(format!("other/{}", "x".repeat(100)), "x")],
            "more than the limit of 100 bytes in a path (--limit=path-bytes)",
        ),
        (vec![TarEntry::file("1/2/3/4/5/6/7", "x")], "more than the limit of 6 levels of folders (--limit=depth)"),
        (
            vec![TarEntry::file("manifests/b.yaml", format!("# {}\n", "x".repeat(50_000)))],
            "manifests/b.yaml: more than the limit of 50000 bytes in one manifest file (--limit=manifest-bytes)",
        ),
        (
            vec![TarEntry::file("manifests/b.yaml", objects("b", 10))],
            "manifests/b.yaml: more than the limit of 10 objects in a bundle (--limit=objects)",
        ),
        (
            vec![TarEntry::file("manifests/b.yaml", nodes(500))],
            "more than the limit of 500 YAML and JSON nodes in a bundle, aliases expanded (--limit=yaml-nodes)",
        ),
        (
            vec![TarEntry::file("manifests/b.yaml", bomb)],
            "more than the limit of 500 YAML and JSON nodes in a bundle, aliases expanded (--limit=yaml-nodes)",
        ),
    ];
    let mut names = Vec::new();
    for (entries, _) in &table {
        let name = unique_name("limit");
        let pushed = bare.registry.push(&name, "v1", &with(&name, entries.clone())).await.unwrap();
        hands.bundle(&name, image(&pushed.reference)).await;
        names.push(name);
    }
    for (name, (_, text)) in names.iter().zip(&table) {
        hands.failing(name, text).await;
        hands.collected(name).await;
        bare.registry.push(name, "v1", &good(name)).await.unwrap();
    }
    for name in &names {
        hands.unpacked(name).await;
    }
}

/// A value equal to a limit is within it.
#[tokio::test]
async fn images_at_a_limit() {
    let bare = Bare::shared().await;
    let hands = bare.hands().await;
    // `manifests`, `other` and the manifest are three of the 20.
    let entries = (0..17).map(|index| TarEntry::file(format!("other/{index}"), "x")).collect();
    let path = format!("other/{}", "x".repeat(94));
    let manifest_bytes = format!("#{}\n", "x".repeat(49_998));
    let table: [Vec<TarEntry>; 5] = [
        entries,
        vec![TarEntry::file(path, "x")],
        vec![TarEntry::file("1/2/3/4/5/6", "x")],
        vec![TarEntry::file("manifests/b.yaml", manifest_bytes)],
        vec![TarEntry::file("manifests/b.yaml", objects("b", 9))],
    ];
    let mut names = Vec::new();
    for entries in table {
        let name = unique_name("limit");
        let pushed = bare.registry.push(&name, "v1", &with(&name, entries)).await.unwrap();
        hands.bundle(&name, image(&pushed.reference)).await;
        names.push(name);
    }
    for name in &names {
        hands.unpacked(name).await;
    }
}

#[tokio::test]
async fn a_repository_past_a_limit() {
    let bare = Bare::shared().await;
    let hands = bare.hands().await;
    let name = unique_name("limit");
    let repository = bare.git.repository(&name).unwrap();
    repository.write(&[("manifests/a.yaml", manifest(&name).into_bytes()), ("blob", noise(1_000_000))]).unwrap();
    repository.commit("first").unwrap();
    hands.bundle(&name, git(&bare.git.url(&name), &json!({"branch": "main"}))).await;
    hands.failing(&name, "more than the limit of 400000 bytes of a git fetch (--limit=git-bytes)").await;
    assert!(!hands.holds(&name));
    // Only the branch's tip is fetched, not its history.
    repository.remove("blob").unwrap();
    repository.commit("second").unwrap();
    hands.unpacked(&name).await;
}
