//! Zstandard, whose decoder is C: no process with a token reads a byte of it.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rukpak_source::decompress::confined::Confined;
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::registry::{Compression, TarEntry};
use rukpak_tests::verbs::{Expected, unique_name};
use rukpak_tests::{ImageBuilder, Layer, tools};
use serde_json::json;

use super::{MIB, PATIENCE, Scene, children, message, resident};

const PROGRAMS: [&str; 3] = ["rukpak-controller", "rukpak-platform", "rukpakctl"];

/// Longer than the worst stream below takes on a machine that does much else.
const SOON: Duration = Duration::from_secs(30);

/// A frame's first bytes, with a window of 2 to the power of `window_log`. RFC 8878, 3.1.1.1.
fn frame(window_log: u8) -> Vec<u8> {
    vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3]
}

/// A block that is not the last: a zero, 128 KiB times.
const ZEROS: [u8; 4] = [0x02, 0x00, 0x10, 0x00];
/// A block that is not the last, of no bytes.
const NOTHING: [u8; 3] = [0; 3];

/// A stream that never ends: `start`, then `block` again and again.
fn endless(start: Vec<u8>, block: &'static [u8]) -> impl Read {
    struct Again(&'static [u8], usize);
    impl Read for Again {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            for byte in &mut *into {
                *byte = self.0[self.1];
                self.1 = (self.1 + 1) % self.0.len();
            }
            Ok(into.len())
        }
    }
    io::Cursor::new(start).chain(Again(block, 0))
}

fn decompress<R: Read>(program: &Path, source: R) -> Confined<BufReader<R>> {
    Confined::start(program, BufReader::new(source)).expect("it can be started")
}

/// A line of `/proc/PID/status`.
fn status(pid: u32, line: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().find_map(|one| one.strip_prefix(line)).unwrap_or_default().trim().to_owned()
}

/// As on a kernel that has neither landlock nor seccomp.
#[test]
fn a_child_that_is_not_confined_decompresses_nothing() {
    let sandbox = json!({"calls": "Network", "writable": [], "readable": ["/"], "executable": [], "ports": [], "resources": {
        "memory_bytes": 256 * MIB, "address_space_bytes": 512 * MIB, "file_bytes": 0, "processor_seconds": 10, "open_files": 16}});
    for program in PROGRAMS {
        let program = tools::workspace_binary(program).expect("it is built");
        let child = Command::new(program).args(["zstd-child", &sandbox.to_string()]).stdin(Stdio::null()).output();
        let child = child.expect("it can be started");
        let complaint = String::from_utf8_lossy(&child.stderr);
        assert!(!child.status.success() && complaint.contains("not confined by this kernel"), "{complaint}");
        assert!(child.stdout.is_empty(), "it asks for the stream");
    }
}

#[test]
fn each_program_decompresses_in_a_child_that_keeps_to_its_bounds() {
    for program in PROGRAMS {
        let program = tools::workspace_binary(program).expect("it is built");
        let text: Vec<u8> = (0..500_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut found = Vec::new();
        decompress(&program, &::zstd::encode_all(&text[..], 3).unwrap()[..]).read_to_end(&mut found).unwrap();
        assert!(found == text, "{} bytes of {}", found.len(), text.len());

        let start = Instant::now();
        let window = decompress(&program, &[frame(26), ZEROS.to_vec()].concat()[..]).read(&mut [0; 8]).unwrap_err();
        assert!(window.to_string().contains("requires too much memory"), "{window}");

        let cut = [frame(20), ZEROS.to_vec()].concat();
        let cut = io::copy(&mut decompress(&program, &cut[..]), &mut io::sink()).unwrap_err();
        assert!(cut.to_string().contains("incomplete frame"), "{cut}");

        let silent = endless(frame(20), &NOTHING).take(16 * MIB as u64);
        io::copy(&mut decompress(&program, silent), &mut io::sink()).unwrap_err();

        let mut large = decompress(&program, endless(frame(25), &ZEROS));
        io::copy(&mut (&mut large).take(512 * MIB as u64), &mut io::sink()).unwrap();
        let pid = large.id();
        assert_eq!((status(pid, "Seccomp:"), status(pid, "NoNewPrivs:")), ("2".to_owned(), "1".to_owned()));
        let most = status(pid, "VmHWM:");
        let most: u64 = most.trim_end_matches("kB").trim().parse().expect("kibibytes");
        assert!(most < 128 * 1024, "{most} KiB");
        drop(large);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it ends with its reader");
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    }
}

fn image_of(layer: Vec<u8>) -> ImageBuilder {
    ImageBuilder::new([Layer::raw(layer).media_type("application/vnd.oci.image.layer.v1.tar+zstd")])
}

fn zstd_children(pid: u32) -> usize {
    let command = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    children(pid).iter().filter(|pid| command(pid).split(|byte| *byte == 0).any(|word| word == b"zstd-child")).count()
}

#[tokio::test]
async fn the_controller_decompresses_what_strangers_wrote_in_children() {
    let scene = Scene::start(&[]).await;
    let pid = scene.controller.pid().expect("it runs");
    let host = scene.registry_by_address();

    // A layer that comes to a halt half-way: its child waits.
    let name = unique_name("halting");
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n");
    let noise: Vec<u8> =
        (0..1_000_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let files = [TarEntry::file("noise", noise), TarEntry::file("manifests/objects.yaml", text)];
    let good = ImageBuilder::new([Layer::new(files).compression(Compression::Zstd)]);
    scene.slow.add(Rule::on("/blobs/", Fault::StallAfter(MIB / 2)));
    scene.bundle(&name, &scene.slow.host(), &good).await;
    let end = tokio::time::Instant::now() + PATIENCE;
    while zstd_children(pid) != 1 {
        assert!(tokio::time::Instant::now() < end, "no child decompresses\n{}", scene.controller.log_tail(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let other = unique_name("whole");
    scene.bundle(&other, &host, &good).await;
    scene.until_unpacked(&other).await;

    // Streams that mean harm fail alone.
    let mut bomb = frame(20);
    for _ in 0..10_000 {
        bomb.extend(ZEROS);
    }
    let cut = ::zstd::encode_all(&vec![7; MIB][..], 3).unwrap();
    for (what, layer, expected) in [
        ("window", [frame(26), ZEROS.to_vec()].concat(), "requires too much memory"),
        ("bomb", bomb, "--limit=ratio"),
        ("cut", cut[..cut.len() - 5].to_vec(), "cannot read the tar archive"),
    ] {
        let name = unique_name(what);
        scene.bundle(&name, &host, &image_of(layer)).await;
        let object = scene.until(&name, Expected::is_false("Unpacked", "UnpackFailed")).await;
        assert!(message(&object, "Unpacked").contains(expected), "{}", message(&object, "Unpacked"));
    }
    assert_eq!(scene.controller.exit_status().unwrap(), None, "it was not killed");
    assert!(resident(pid) < 200 << 10, "{} KiB", resident(pid));
    assert_eq!(zstd_children(pid), 1, "the one that waits");
}
