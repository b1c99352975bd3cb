//! From the bytes of an image to sealed content, beside `gzip -dc | tar t` of the same bytes.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flate2::write::GzEncoder;
use rukpak_content::Limits;
use rukpak_source::Egress;
use rukpak_source::image::{Credentials, Puller, PullerOptions};
use rukpak_store::Store;
use rukpak_tests::registry::{TarEntry, tarball};
use rukpak_tests::verbs::{Expected, unique_name};
use rukpak_tests::world::{self, World};
use rukpak_tests::{ImageBuilder, Layer, tools};

use super::created;
use super::report::{Row, Target, Unit, median, range};

/// Text of the image: so many files of so many bytes.
const TEXT_FILES: usize = 1_800;
const TEXT_BYTES: usize = 50_000;
/// The rest is what does not compress: icons, archives.
const BINARY_FILES: usize = 10;
const BINARY_BYTES: usize = 1_000_000;

/// The image in all its forms.
struct Sample {
    reference: String,
    unpacked_bytes: usize,
    packed_bytes: usize,
    file: std::path::PathBuf,
    folder: tempfile::TempDir,
}

/// What each round took.
#[derive(Default)]
struct Times {
    gzip: Vec<Duration>,
    fetch: Vec<Duration>,
    seal: Vec<Duration>,
    library: Vec<Duration>,
    system: Vec<Duration>,
}

/// Measures the library in this process, the whole system, and gzip, turn by turn.
pub(crate) async fn measure(rounds: usize) -> Result<Vec<Row>> {
    eprintln!("bench: unpacking a large image");
    let world = World::start(Vec::new()).await?;
    let client = world.plane.admin().await?;
    let sample = sample(&world).await?;
    let mut options = PullerOptions::new(sample.folder.path().to_owned(), Limits::default());
    options.egress = Egress::anywhere();
    options.extra_ca_pem = world.registry.ca_pem().into_bytes();
    let puller = Puller::new(options)?;
    let store = Store::open(&sample.folder.path().join("store"))?;
    let mut times = Times::default();
    // The first round warms the page cache and connections.
    for round in 0..=rounds {
        eprintln!("bench: round {round} of {rounds}");
        let gzip = gzip(&sample.file)?;
        let (fetch, seal) = library(&puller, &store, &sample.reference).await?;
        let bundle = world::bundle(&unique_name("unpack"), world::image(&sample.reference));
        let system = created::until(&client, &bundle, Expected::is_true("Unpacked", "UnpackSuccessful")).await?;
        if round > 0 {
            times.gzip.push(gzip);
            times.fetch.push(fetch);
            times.seal.push(seal);
            times.library.push(fetch + seal);
            times.system.push(system);
        }
    }
    Ok(rows(&sample, &times))
}

fn rows(sample: &Sample, times: &Times) -> Vec<Row> {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = |times: &[Duration]| sample.unpacked_bytes as f64 / 1e3 / median(times);
    let row = |what: &str, times: &[Duration], target, note: String| Row {
        what: what.to_owned(),
        measured: rate(times),
        unit: Unit::MegabytesPerSecond,
        target,
        note,
    };
    let target = Some(Target::AtLeast(rate(&times.gzip)));
    let sizes = format!("{} MB, {} MB packed", sample.unpacked_bytes / 1_000_000, sample.packed_bytes / 1_000_000);
    let parts = format!("fetch {:.0} ms, seal {:.0} ms", median(&times.fetch), median(&times.seal));
    vec![
        row(
            "unpack, from the registry to sealed content",
            &times.library,
            target,
            format!("gzip -dc | tar t; {sizes}; {} ms: {parts}", range(&times.library)),
        ),
        row(
            "unpack, create -> Unpacked of a Bundle",
            &times.system,
            target,
            format!("gzip -dc | tar t: {:.0} ms; {} ms", median(&times.gzip), range(&times.system)),
        ),
    ]
}

fn gzip(file: &Path) -> Result<Duration> {
    let start = Instant::now();
    let mut inflate = Command::new(tools::system_program("gzip")?)
        .arg("-dc")
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .context("start gzip")?;
    let pipe = inflate.stdout.take().context("gzip has no output")?;
    let list = Command::new(tools::system_program("tar")?).arg("t").stdin(pipe).stdout(Stdio::null()).status();
    if !list.context("run tar")?.success() || !inflate.wait().context("wait for gzip")?.success() {
        bail!("gzip -dc | tar t failed");
    }
    Ok(start.elapsed())
}

async fn library(puller: &Puller, store: &Store, reference: &str) -> Result<(Duration, Duration)> {
    let start = Instant::now();
    let logins = Credentials::default();
    let image = puller.resolve(reference, &logins).await?;
    let stage = puller.fetch(&image, &logins).await?;
    let fetch = start.elapsed();
    let store = store.clone();
    let start = Instant::now();
    let sealed = tokio::task::spawn_blocking(move || store.seal(&stage)).await??;
    let seal = start.elapsed();
    drop(sealed);
    Ok((fetch, seal))
}

async fn sample(world: &World) -> Result<Sample> {
    let folder = tools::temp_folder("unpack")?;
    let archive = tarball(&entries())?;
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&archive)?;
    let packed = encoder.finish()?;
    let file = folder.path().join("layer.tar.gz");
    std::fs::write(&file, &packed).with_context(|| format!("write {}", file.display()))?;
    let (unpacked_bytes, packed_bytes) = (archive.len(), packed.len());
    let reference = world.push(&unique_name("large"), &ImageBuilder::new([Layer::raw(packed)])).await;
    Ok(Sample { reference, unpacked_bytes, packed_bytes, file, folder })
}

/// A valid bundle of one object, with much beside its manifests.
fn entries() -> Vec<TarEntry> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large\n";
    let mut entries = vec![TarEntry::directory("manifests/"), TarEntry::file("manifests/large.yaml", manifest)];
    entries.push(TarEntry::directory("assets/"));
    for index in 0..TEXT_FILES {
        entries.push(TarEntry::file(format!("assets/{index:05}.yaml"), noise.yaml(TEXT_BYTES)));
    }
    for index in 0..BINARY_FILES {
        let bytes: Vec<u8> =
            std::iter::repeat_with(|| noise.next().to_le_bytes()).take(BINARY_BYTES / 8).flatten().collect();
        entries.push(TarEntry::file(format!("assets/{index:05}.bin"), bytes));
    }
    entries
}

/// Numbers that are the same on each run (xorshift64).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let count = words.len() as u64;
        usize::try_from(self.next() % count).ok().and_then(|index| words.get(index)).copied().unwrap_or_default()
    }

    /// Text like a CustomResourceDefinition's schema: few keys, many words, some that are nowhere else.
    fn yaml(&mut self, bytes: usize) -> String {
        const KEYS: [&str; 8] =
            ["description", "type", "format", "default", "pattern", "x-kubernetes-map-type", "nullable", "title"];
        const WORDS: [&str; 32] = [
            "the",
            "of",
            "a",
            "resource",
            "field",
            "must",
            "be",
            "set",
            "to",
            "container",
            "when",
            "is",
            "not",
            "name",
            "volume",
            "server",
            "string",
            "object",
            "should",
            "selector",
            "in",
            "and",
            "label",
            "value",
            "this",
            "pod",
            "defaults",
            "specified",
            "more",
            "info",
            "list",
            "key",
        ];
        let mut text = String::with_capacity(bytes + 200);
        while text.len() < bytes {
            let indent = "  ".repeat(usize::try_from(2 + self.next() % 10).unwrap_or(2));
            let number = self.next() % 100_000;
            // Writing to a String cannot fail.
            let _ = write!(text, "{indent}property{number}:\n{indent}  {}:", self.pick(&KEYS));
            for _ in 0..3 + self.next() % 15 {
                text.push(' ');
                text.push_str(self.pick(&WORDS));
            }
            text.push('\n');
        }
        text
    }
}
