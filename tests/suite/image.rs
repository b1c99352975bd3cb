//! The image that `make image` builds, of unoptimised programs: the same bytes each time, nothing in it that is not needed, and
//! programs that start from nothing else.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use rukpak_tests::plane::yaml;
use rukpak_tests::tools;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tar::{Archive, EntryType};

const PROGRAMS: [&str; 3] = ["rukpak-controller", "rukpak-platform", "rukpak-webhook"];
/// libssl and libcrypto (git over https and ssh), libz (git), what C and Rust programs need, the loader.
const LIBRARIES: [&str; 7] = ["ld-linux", "libc", "libcrypto", "libgcc_s", "libm", "libssl", "libz"];
const PACKAGES: [&str; 5] = ["ca-certificates", "libc6", "libgcc-s1", "libssl3", "zlib1g"];

/// An image that the script has made.
struct Image {
    folder: PathBuf,
    reference: String,
    config: Value,
    layers: Vec<PathBuf>,
}

/// One file of a layer.
struct File {
    mode: u32,
    owner: (u64, u64),
    time: u64,
    kind: EntryType,
}

fn script(arguments: &[&Path]) -> Output {
    let script = tools::workspace_folder().join("manifests/image/build.sh");
    // Sources that were not cloned have no commit whose time could be taken.
    Command::new(script).env("SOURCE_DATE_EPOCH", "1750000000").args(arguments).output().unwrap()
}

/// The programs without their tables of symbols, which are most of them: quicker to compress.
fn programs(folder: &Path) {
    for program in PROGRAMS {
        let from = tools::workspace_binary(program).unwrap_or_else(|error| panic!("{error:#}"));
        let stripped = Command::new("strip").arg("-o").arg(folder.join(program)).arg(from).status().unwrap();
        assert!(stripped.success(), "strip {program}: {stripped}");
    }
}

fn build(programs: &Path, folder: &Path) -> Image {
    let output = script(&[programs, folder, Path::new("registry.example.com/rukpak:1.2")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let reference = std::fs::read_to_string(folder.join("reference")).unwrap().trim().to_owned();
    let digest = reference.split_once('@').unwrap().1;
    assert!(said.contains(digest) && said.contains("registry.example.com/rukpak:1.2"), "{said}");
    let manifest: Value = serde_json::from_slice(&blob(folder, digest)).unwrap();
    let config = serde_json::from_slice(&blob(folder, manifest["config"]["digest"].as_str().unwrap())).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter();
    let layers = layers.map(|layer| blob_path(folder, layer["digest"].as_str().unwrap())).collect();
    Image { folder: folder.to_owned(), reference, config, layers }
}

fn blob_path(folder: &Path, digest: &str) -> PathBuf {
    folder.join("oci/blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
}

/// The bytes of a blob, which its name is the digest of.
fn blob(folder: &Path, digest: &str) -> Vec<u8> {
    let bytes = std::fs::read(blob_path(folder, digest)).unwrap();
    assert_eq!(sha256(&bytes), digest);
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// What a compressed layer holds, by path.
fn files(layer: &Path) -> BTreeMap<String, File> {
    let mut archive = Archive::new(GzDecoder::new(std::fs::File::open(layer).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let header = entry.header();
        let file = File {
            mode: header.mode().unwrap(),
            owner: (header.uid().unwrap(), header.gid().unwrap()),
            time: header.mtime().unwrap(),
            kind: header.entry_type(),
        };
        (entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned(), file)
    });
    entries.collect()
}

/// The whole image as a folder.
fn unpack(image: &Image, root: &Path) {
    for layer in &image.layers {
        let mut archive = Archive::new(GzDecoder::new(std::fs::File::open(layer).unwrap()));
        archive.set_preserve_permissions(true);
        archive.unpack(root).unwrap();
    }
}

/// Starts a program with nothing around it but the image, as root as the user of the Pods, else as root of a user namespace.
fn start(root: &Path, program: &str) -> Output {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("chroot");
        command.arg("--userspec=65532:65532").arg(root);
        command
    } else {
        let mut command = Command::new("unshare");
        command.arg("--map-root-user").arg("--root").arg(root);
        command
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.arg(format!("/{program}")).arg("--version").env_clear().env("PATH", path).output().unwrap()
}

#[test]
fn the_image_is_the_same_each_time_and_holds_what_is_needed() {
    let folder = tools::temp_folder("image").unwrap();
    let inside = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    programs(&inside("programs"));
    let image = build(&inside("programs"), &inside("once"));
    let again = build(&inside("programs"), &inside("again"));
    assert_eq!(image.reference, again.reference);
    for file in ["rukpak.tar", "sbom.spdx.json"] {
        let [first, second] = [&image, &again].map(|image| std::fs::read(image.folder.join(file)).unwrap());
        assert!(first == second, "two builds made two different {file}");
    }

    contents(&image);
    archive(&image);
    bill_of_materials(&image);
    manifests(&image, &inside("manifests"));
    let root = inside("root");
    unpack(&image, &root);
    for program in PROGRAMS {
        let output = start(&root, program);
        let said = String::from_utf8_lossy(&output.stdout);
        let version = format!("{program} {}", env!("CARGO_PKG_VERSION"));
        assert!(output.status.success() && said.contains(&version), "{program}: {output:?}");
    }
    // Which flags it has tells which program it is, and needs nothing either.
    let helm = start(&root, "helm");
    assert!(String::from_utf8_lossy(&helm.stderr).contains("unknown flag: --version"), "{helm:?}");
}

/// Exactly the files that are expected, and no surprise in their modes, owners and times.
fn contents(image: &Image) {
    let [system, own] = image.layers.as_slice() else { panic!("not two layers: {:?}", image.layers) };
    let own = files(own);
    let names: Vec<&str> = own.keys().map(String::as_str).collect();
    assert_eq!(names, [&["helm"], &PROGRAMS[..]].concat());
    let system = files(system);
    for (path, file) in system.iter().chain(&own) {
        assert_eq!(file.owner, (0, 0), "{path}");
        assert_eq!(file.mode & 0o6000, 0, "{path} is setuid or setgid");
        assert!(file.mode & 0o022 == 0 || path == "tmp", "others may write {path}");
        assert!(matches!(file.kind, EntryType::Regular | EntryType::Directory), "{path} is a {:?}", file.kind);
    }
    assert_eq!(system.values().chain(own.values()).map(|file| file.time).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(system["tmp"].mode, 0o1777);

    let regular = system.iter().filter(|(_, file)| file.kind == EntryType::Regular).map(|(path, _)| path.as_str());
    let (libraries, rest): (BTreeSet<&str>, BTreeSet<&str>) = regular.partition(|path| path.starts_with("lib"));
    let names = libraries.iter().map(|path| path.rsplit('/').next().unwrap().split(".so").next().unwrap());
    let names: BTreeSet<&str> =
        names.map(|name| if name.starts_with("ld-linux") { "ld-linux" } else { name }).collect();
    assert_eq!(names, LIBRARIES.into());
    let of_packages = PACKAGES
        .map(|package| [format!("usr/share/doc/{package}/copyright"), format!("var/lib/dpkg/status.d/{package}")]);
    let mut expected: BTreeSet<&str> = of_packages.as_flattened().iter().map(String::as_str).collect();
    expected.extend(["etc/group", "etc/nsswitch.conf", "etc/os-release", "etc/passwd"]);
    expected.insert("etc/ssl/certs/ca-certificates.crt");
    assert_eq!(rest, expected);
}

/// The archive holds the layout, and the list that docker reads.
fn archive(image: &Image) {
    let mut blobs = BTreeMap::new();
    for entry in Archive::new(std::fs::File::open(image.folder.join("rukpak.tar")).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        blobs.insert(path, bytes);
    }
    let docker: Value = serde_json::from_slice(&blobs["manifest.json"]).unwrap();
    assert_eq!(docker[0]["RepoTags"][0], "registry.example.com/rukpak:1.2");
    assert_eq!(serde_json::from_slice::<Value>(&blobs[docker[0]["Config"].as_str().unwrap()]).unwrap(), image.config);
    // A diff ID is the digest of a layer that is not compressed.
    for (layer, diff) in
        std::iter::zip(docker[0]["Layers"].as_array().unwrap(), image.config["rootfs"]["diff_ids"].as_array().unwrap())
    {
        let mut plain = Vec::new();
        GzDecoder::new(blobs[layer.as_str().unwrap()].as_slice()).read_to_end(&mut plain).unwrap();
        assert_eq!(sha256(&plain), diff.as_str().unwrap());
    }
    let index: Value = serde_json::from_slice(&blobs["index.json"]).unwrap();
    let digest = index["manifests"][0]["digest"].as_str().unwrap();
    assert!(image.reference.ends_with(digest));
    assert_eq!(sha256(&blobs[&digest.replace(':', "/").replace("sha256/", "blobs/sha256/")]), digest);
}

fn bill_of_materials(image: &Image) {
    let sbom: Value = serde_json::from_slice(&std::fs::read(image.folder.join("sbom.spdx.json")).unwrap()).unwrap();
    assert_eq!(sbom["spdxVersion"], "SPDX-2.3");
    let packages = sbom["packages"].as_array().unwrap();
    let names = |prefix: &str| -> BTreeSet<&str> {
        let of_kind = packages.iter().filter(|package| package["SPDXID"].as_str().unwrap().starts_with(prefix));
        of_kind.map(|package| package["name"].as_str().unwrap()).collect()
    };
    assert_eq!(names("SPDXRef-deb-"), PACKAGES.into());
    assert!(names("SPDXRef-go-").contains("github.com/Masterminds/sprig/v3"), "a module of Helm is missing");
    let crates = names("SPDXRef-crate-");
    for inside in [
        "rukpak-controller",
        "rukpak-platform",
        "rukpak-webhook",
        "rukpak-plan",
        "libgit2-sys",
        "openssl-sys",
        "ring",
        "tokio",
    ] {
        assert!(crates.contains(inside), "{inside} is missing");
    }
    for outside in ["rukpak-tests", "rukpak-fuzz", "rukpakctl", "proptest", "serde_derive", "cc"] {
        assert!(!crates.contains(outside), "{outside} is in no program");
    }
    let ids: BTreeSet<&str> = packages.iter().map(|package| package["SPDXID"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), packages.len(), "two packages have one SPDXID");
    let of_registry = packages.iter().filter(|package| {
        package["SPDXID"].as_str().unwrap().starts_with("SPDXRef-crate-")
            && !package["name"].as_str().unwrap().starts_with("rukpak-")
    });
    for package in of_registry {
        assert!(package["checksums"][0]["checksumValue"].is_string(), "{package} has no checksum");
        assert_ne!(package["licenseDeclared"], "NOASSERTION", "{package}");
    }
}

/// The manifests name the image by its digest, and run it as the user that it names itself.
fn manifests(image: &Image, folder: &Path) {
    let script = tools::workspace_folder().join("manifests/with-image.sh");
    let output = Command::new(script).arg(&image.reference).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects = yaml::objects_of_file(&folder.join("install-platform.yaml")).unwrap();
    let specs: Vec<&Value> = objects.iter().filter_map(|object| object.data.pointer("/spec/template/spec")).collect();
    assert_eq!(specs.len(), PROGRAMS.len());
    for spec in specs {
        assert_eq!(spec["containers"][0]["image"], image.reference.as_str());
        let command = spec["containers"][0]["command"][0].as_str().unwrap();
        assert!(PROGRAMS.contains(&command.trim_start_matches('/')), "{command} is not in the image");
        let context = &spec["securityContext"];
        assert_eq!(image.config["config"]["User"], format!("{}:{}", context["runAsUser"], context["runAsGroup"]));
    }
}

#[test]
fn what_is_missing_is_named() {
    let folder = tools::temp_folder("image").unwrap();
    let output = script(&[folder.path(), &folder.path().join("out")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("rukpak-controller: build it first, as 'make image' does"), "{said}");
    let output = script(&[folder.path(), folder.path(), Path::new("localhost/rukpak@sha256:0")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("names a digest"), "{output:?}");
}
