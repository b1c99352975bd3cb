//! How hostile content meets the controller and `rukpakctl`, and what neither may do about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use kube::Client;
use rukpak_tests::registry::TarEntry;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, World, image};
use rukpak_tests::{ImageBuilder, Layer, tools};
use serde_json::Value;

pub const PLAIN: &str = "core-rukpak-io-plain";
pub const REGISTRY: &str = "core-rukpak-io-registry";

/// The most memory that the controller may ever have had, whatever came.
const CONTROLLER_BYTES: u64 = 1 << 30;
/// The most data that `rukpakctl` may take, in KiB: the kernel refuses more.
const COMMAND_KIB: u64 = 1 << 20;
/// Less is never refused for the ratio of its sizes.
const RATIO_FREE_BYTES: usize = 1 << 20;

/// Content, and what is said of it.
pub struct Case {
    /// What is wrong with it.
    pub what: &'static str,
    /// Its provisioner class.
    pub class: &'static str,
    /// Its one layer, packed.
    pub archive: Vec<u8>,
    /// The rule or limit that refuses it; `None` if it is harmless.
    pub refusal: Option<&'static str>,
    /// Whether it is no whole archive, so that `rukpakctl` cannot tell whether the bundle is good.
    pub is_damaged: bool,
}

impl Case {
    /// Content of files.
    pub fn files<P: Into<Vec<u8>>, C: Into<Vec<u8>>>(
        what: &'static str,
        files: impl IntoIterator<Item = (P, C)>,
        refusal: impl Into<Option<&'static str>>,
    ) -> Self {
        let files: Vec<_> = files.into_iter().map(|(path, body)| (path.into(), body.into())).collect();
        let size = files.iter().map(|(_, body): &(Vec<u8>, Vec<u8>)| body.len()).sum::<usize>();
        let mut entries = Vec::new();
        if size > RATIO_FREE_BYTES {
            // Else it would always be --limit=ratio that refuses it.
            entries.push(TarEntry::file("other", noise(size / 50)));
        }
        entries.extend(files.into_iter().map(|(path, body)| TarEntry::file(path, body)));
        let tar = rukpak_tests::registry::tarball(&entries).expect("memory takes it");
        Self::tar(what, &tar, refusal)
    }

    /// Any archive.
    pub fn tar(what: &'static str, tar: &[u8], refusal: impl Into<Option<&'static str>>) -> Self {
        Self { what, class: PLAIN, archive: gzip(tar), refusal: refusal.into(), is_damaged: false }
    }

    /// No whole archive.
    pub fn damaged(self) -> Self {
        Self { is_damaged: true, ..self }
    }

    /// Of another class.
    pub fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

/// Packed with gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    std::io::Write::write_all(&mut encoder, bytes).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// Hexadecimal digits that do not repeat: half their size when compressed.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"0123456789abcdef"[(state >> 28) as usize]
    })
    .take(length)
    .collect()
}

/// A manifest of a ConfigMap.
pub fn manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n")
}

fn good(name: &str) -> ImageBuilder {
    ImageBuilder::new([Layer::of_files([("manifests/object.yaml", manifest(name))])])
}

/// Shows the cases to the controller, one after the other as an attacker can, and asserts
/// * what refuses each, or that it is unpacked;
/// * that the process is the same one afterwards, and never had more than [`CONTROLLER_BYTES`];
/// * that nothing was written outside its storage;
/// * that a deployment that was installed before is so still, and that another Bundle is unpacked.
pub async fn meets_the_controller(cases: &[Case]) {
    let world = World::shared().await;
    let client = world.admin().await;
    let bystander = unique_name("bystander");
    let reference = world.push(&bystander, &good(&bystander)).await;
    create(&client, &world::deployment(&bystander, image(&reference))).await;
    let installed = Expected::is_true("Installed", "InstallationSucceeded");
    let before = world::until(&client, &bystander, installed).await.metadata.resource_version;
    let (pid, outside) = (world.controller.pid(), Outside::of(&world.controller.storage));

    for case in cases {
        let name = unique_name("hostile");
        let reference = world.push(&name, &ImageBuilder::new([Layer::raw(case.archive.clone())])).await;
        let mut bundle = world::bundle(&name, image(&reference));
        bundle["spec"]["provisionerClassName"] = Value::from(case.class);
        create(&client, &bundle).await;
        let expected = match case.refusal {
            Some(text) => Expected::is_false("Unpacked", "UnpackFailed").saying(text),
            None => Expected::is_true("Unpacked", "UnpackSuccessful"),
        };
        world::until_bundle(&client, &name, expected).await;
        let peak = world.controller.peak_resident_bytes().expect("it runs");
        eprintln!("{}: at most {} MiB", case.what, peak >> 20);
        assert!(peak <= CONTROLLER_BYTES, "{}: {peak} bytes", case.what);
        verbs::delete(&client, &Target::bundle(&name)).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    assert_eq!(world.controller.pid(), pid, "the controller was restarted");
    assert_eq!(Outside::of(&world.controller.storage), outside, "something was written outside the storage");
    let after = verbs::get(&client, &Target::bundle_deployment(&bystander)).await.expect("the API server answers");
    let after = after.expect("it is there");
    assert!(installed.met_by(&after) && after.metadata.resource_version == before, "{after:?}");
    let name = unique_name("good");
    let reference = world.push(&name, &good(&name)).await;
    create(&client, &world::bundle(&name, image(&reference))).await;
    world::until_bundle(&client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
}

async fn create(client: &Client, object: &Value) {
    verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// What lies beside the storage, and where hostile names lead to.
#[derive(Debug, PartialEq)]
struct Outside(Vec<PathBuf>);

/// The name that archives of these tests would give a file outside: nobody else uses it.
pub const ESCAPED: &str = "rukpak-hostile-escape";

impl Outside {
    fn of(storage: &Path) -> Self {
        let mut found = Vec::new();
        for folder in storage.ancestors().take(3) {
            let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
            // The storage's own files come and go.
            found.extend(names.filter(|path| folder != storage && !is_of_others(path)));
        }
        for folder in ["/", "/tmp", "/etc", "/var/tmp", "."] {
            let escaped = Path::new(folder).join(ESCAPED);
            found.extend(fs::symlink_metadata(&escaped).is_ok().then_some(escaped));
        }
        found.sort();
        Self(found)
    }
}

/// Whether other tests of this machine make and remove such folders while this one runs.
fn is_of_others(path: &Path) -> bool {
    path.parent() == Some(&std::env::temp_dir()) && path.file_name().is_none_or(|name| name != ESCAPED)
}

/// Shows the cases to `rukpakctl validate` and asserts that each is refused by the same rule, within [`COMMAND_KIB`].
pub fn meets_the_command(cases: &[Case]) {
    let folder = tools::temp_folder("hostile").expect("the disk takes it");
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let mut wrong = Vec::new();
    for case in cases {
        let archive = folder.path().join("bundle.tgz");
        fs::write(&archive, &case.archive).expect("the disk takes it");
        let format = if case.class == REGISTRY { "registry+v1" } else { "plain+v0" };
        let script = format!("ulimit -d {COMMAND_KIB} && exec \"$0\" validate --format {format} \"$1\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(&program).arg(&archive).stdin(Stdio::null());
        let output = command.output().expect("sh runs");
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let expected = i32::from(case.refusal.is_some()) + i32::from(case.is_damaged);
        let said = if case.is_damaged { &err } else { &out };
        let is_right = output.status.code() == Some(expected)
            && said.contains(case.refusal.unwrap_or_default())
            && out.len() + err.len() < 64 * 1024;
        if !is_right {
            wrong.push(format!("{}: {}: {out:.500}{err:.500}", case.what, output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
