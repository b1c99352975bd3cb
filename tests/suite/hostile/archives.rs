//! Archives that want out, that lie about themselves, or that are small until somebody unpacks them.

use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, World};
use rukpak_tests::{ImageBuilder, Layer};
use tar::{EntryType, Header};

use crate::hostile::content::{Case, ESCAPED, gzip, manifest, meets_the_command, meets_the_controller, noise};

const FILE: EntryType = EntryType::Regular;
const LINK: EntryType = EntryType::Symlink;
const HARD: EntryType = EntryType::Link;
const PAX: EntryType = EntryType::XHeader;

/// A tar archive, written as no library would.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    /// Begins with a good manifest.
    fn new() -> Self {
        Self::default().file("manifests/good.yaml", manifest("good").as_bytes())
    }

    fn file(self, name: &str, body: &[u8]) -> Self {
        self.entry(FILE, name.as_bytes(), "", body)
    }

    fn entry(self, kind: EntryType, name: &[u8], target: &str, body: &[u8]) -> Self {
        self.claiming(kind, name, target, body.len() as u64, body)
    }

    /// An entry that says it has `size` bytes.
    fn claiming(mut self, kind: EntryType, name: &[u8], target: &str, size: u64, body: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name);
        old.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(body);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// A PAX record.
fn record(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let length =
        (1..10_000).find(|length: &usize| length.to_string().len() + rest.len() == *length).expect("some length fits");
    format!("{length}{rest}").into_bytes()
}

fn with(what: &'static str, tar: Tar, refusal: impl Into<Option<&'static str>>) -> Case {
    Case::tar(what, &tar.end(), refusal)
}

fn escapes() -> Vec<Case> {
    let up = format!("manifests/../../../../../../../../tmp/{ESCAPED}");
    let target = format!("../../../../../../../tmp/{ESCAPED}");
    let cannot = "of the archive cannot be part of a bundle";
    vec![
        with("a file above the root", Tar::new().file(&up, b"x"), cannot),
        with("a link out of the tree", Tar::new().entry(LINK, b"manifests/a.yaml", &target, b""), "leaves the bundle"),
        with(
            "a hard link out of the tree",
            Tar::new().entry(HARD, b"manifests/a.yaml", &target, b""),
            "leaves the bundle",
        ),
        with(
            "a hard link to the machine",
            Tar::new().entry(HARD, b"manifests/a.yaml", "etc/passwd", b""),
            "is not a file of the bundle",
        ),
        with(
            "a file below a link",
            Tar::new().entry(LINK, b"manifests/x", "..", b"").file(&format!("manifests/x/{ESCAPED}"), b"x"),
            "which is a link",
        ),
        with(
            "a character device",
            Tar::new().entry(EntryType::Char, b"manifests/a.yaml", "", b""),
            "a character device",
        ),
        with("a block device", Tar::new().entry(EntryType::Block, b"manifests/a.yaml", "", b""), "a block device"),
        with("a named pipe", Tar::new().entry(EntryType::Fifo, b"manifests/a.yaml", "", b""), "a named pipe"),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn lies() -> Vec<Case> {
    let hidden = format!("manifests/{}\n28 path=manifests/evil.yaml", "A".repeat(300));
    let pax = |records: &[u8]| Tar::new().entry(PAX, b"x", "", records).file("manifests/short.yaml", b"x");
    let gnu =
        |name: &str| Tar::new().entry(EntryType::GNULongName, b"././@LongLink", "", format!("{name}\0").as_bytes());
    let huge = vec![b'n'; (1 << 20) + 1];
    let control = "of the archive cannot be part of a bundle";
    vec![
        with("a line end in a name that looks like another record", pax(&record("path", &hidden)), control),
        with("the same in GNU's spelling", gnu(&hidden).file("short", b"x"), control),
        with("an escape for terminals", Tar::new().file("manifests/\u{1b}[2J", b"x"), control),
        with(
            "a name that is not UTF-8",
            Tar::new().entry(FILE, b"manifests/\xff.yaml", "", b"x"),
            "the name is not UTF-8",
        ),
        with("two sizes", pax(&record("size", "100")), "its two headers give two sizes"),
        with("a record that is none", pax(b"99999 path=a\n"), "cannot read the tar archive").damaged(),
        with(
            "a sparse file",
            Tar::new().entry(EntryType::GNUSparse, b"manifests/a.yaml", "", b""),
            "sparse files are not supported",
        ),
        with(
            "a sparse file in PAX's spelling",
            pax(&record("GNU.sparse.major", "1")),
            "sparse files are not supported",
        ),
        with(
            "two names",
            gnu("manifests/one").entry(PAX, b"x", "", &record("path", "manifests/two")).file("short", b"x"),
            "its two extension headers give two names",
        ),
        with(
            "a name of 1 MiB",
            Tar::new().entry(EntryType::GNULongName, b"x", "", &huge).file("short", b"x"),
            "an extension header of more than 1 MiB",
        ),
        with(
            "a name of 2,000 bytes",
            gnu(&format!("manifests/{}", "n".repeat(2000))).file("short", b"x"),
            "(--limit=path-bytes)",
        ),
        with(
            "a deep path",
            gnu(&format!("manifests/{}x", "d/".repeat(100))).file("short", b"x"),
            "levels of folders (--limit=depth)",
        ),
        with(
            "a folder with a body",
            Tar::new().entry(EntryType::Directory, b"manifests/d/", "", b"body"),
            "has a body",
        ),
        with("a file of 8 EiB", Tar::new().claiming(FILE, b"other", "", 1 << 62, b"x"), "(--limit=tree-bytes)"),
        Case::tar("a file that ends early", &Tar::new().claiming(FILE, b"manifests/a.yaml", "", 5000, b"x").0, "")
            .damaged(),
        with(
            "names that differ by case alone",
            Tar::new()
                .file("manifests/A.yaml", manifest("a").as_bytes())
                .file("manifests/a.yaml", manifest("b").as_bytes()),
            None,
        ),
    ]
}

fn bombs() -> Vec<Case> {
    let many = (0..50_000).fold(Tar::new(), |tar, index| tar.file(&format!("other/{index}"), b""));
    let zeros = Tar::new().file("other", &vec![0; 300 << 20]).end();
    let links = |tar: Tar| {
        (0..30)
            .fold(tar, |tar, index| tar.entry(HARD, format!("manifests/{index}.yaml").as_bytes(), "manifests/0", b""))
    };
    let comment = [b"# ".as_slice(), &noise(5 << 20)].concat();
    let mut twice = Case::tar("an archive in an archive", b"", "not a tar archive").damaged();
    twice.archive = gzip(&gzip(&Tar::new().end()));
    vec![
        with("50,000 entries", many, "files and folders (--limit=entries)"),
        Case::tar("300 MiB of zeros", &zeros, "times the compressed size (--limit=ratio)"),
        with("a file under thirty names", links(Tar::new().file("manifests/0", &comment)), "(--limit=text-bytes)"),
        twice,
    ]
}

fn cases() -> Vec<Case> {
    escapes().into_iter().chain(lies()).chain(bombs()).collect()
}

#[tokio::test]
async fn archives_are_refused_by_rule_or_limit_and_harm_nobody() {
    meets_the_controller(&cases()).await;
}

#[test]
fn the_command_refuses_the_same_archives_within_its_memory() {
    meets_the_command(&cases());
}

/// A file whose name holds, behind a line end, a record of another name: what reads the archive by its lengths sees a file
/// outside the bundle's folders, what splits it at line ends sees one more manifest.
#[tokio::test]
async fn a_manifest_hidden_in_a_name_is_not_installed() {
    let world = World::shared().await;
    let client = world.admin().await;
    let (seen, hidden) = (unique_name("seen"), unique_name("hidden"));
    let name = format!("x/{}\n28 path=manifests/evil.yaml", "A".repeat(300));
    let tar = Tar::default()
        .file("manifests/good.yaml", manifest(&seen).as_bytes())
        .entry(PAX, b"x", "", &record("path", &name))
        .file("short", manifest(&hidden).as_bytes());
    let image = ImageBuilder::new([Layer::raw(gzip(&tar.end()))]);
    let reference = world.push(&seen, &image).await;
    let deployment = world::deployment(&seen, world::image(&reference));
    verbs::create(&client, &deployment).await.unwrap_or_else(|error| panic!("{error:#}"));
    world::until(&client, &seen, Expected::is_true("Installed", "InstallationSucceeded")).await;
    for (name, is_there) in [(&seen, true), (&hidden, false)] {
        let found = verbs::get(&client, &Target::namespaced("v1", "ConfigMap", "default", name)).await;
        assert_eq!(found.expect("the API server answers").is_some(), is_there, "{name}");
    }
}
