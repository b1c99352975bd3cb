//! `tests/tools/control-plane.sh`: what it cannot use gets one line, which says what is wrong and what to do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rukpak_tests::tools::crate_folder;

/// Stands in for Go; `GO` says what is wrong with it.
const GO: &str = r#"#!/bin/sh
case "$GO $*" in
  "old env GOVERSION") echo go1.20.14 ;;
  "broken "*) echo "exec format error" >&2; exit 1 ;;
  *" env GOVERSION") echo go1.22.0 ;;
  "older list -m") echo "go: go.mod requires go >= 1.26.0 (running go 1.22.0; GOTOOLCHAIN=local)" >&2; exit 1 ;;
  *" list -m") echo rukpak-rs/tests/tools/kubernetes ;;
  "offline mod download "*) printf '{\n\t"Error": "Get \\"list\\": network is unreachable"\n}\n'; exit 1 ;;
  "offline "*) echo "network is unreachable" >&2; exit 1 ;;
  *" list -m -versions "*) echo "k8s.io/kubernetes v1.36.4 v1.37.2 v1.38.0-rc.0" ;;
  *) exit 1 ;;
esac
"#;

fn program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("folders can be made");
    std::fs::write(path, text).expect("files can be written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("modes can be set");
}

/// The only line that the script prints, but for those of progress, which start with the time.
fn refusal(home: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = Command::new(crate_folder().join("tools/control-plane.sh"))
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{}:/usr/bin:/bin", home.join("bin").display()))
        .envs(settings.iter().copied())
        .output()
        .expect("the script runs");
    let said = String::from_utf8(output.stderr).expect("it writes UTF-8");
    assert_eq!(output.status.code(), Some(2), "{settings:?}: {said}");
    assert!(output.stdout.is_empty(), "{settings:?}: it names a folder");
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with('[')).collect();
    assert_eq!(lines.len(), 1, "{settings:?}: {said}");
    lines[0].strip_prefix("error: ").expect("it says that this is an error").to_owned()
}

#[test]
fn the_control_plane_says_what_is_wrong_and_what_to_do() {
    let home = tempfile::tempdir().expect("a folder can be made");
    let home = home.path();
    program(&home.join("bin/go"), GO);
    for name in ["kube-apiserver", "kubectl", "etcd"] {
        program(&home.join("assets").join(name), "#!/bin/sh\nexit 1\n");
    }
    let assets = home.join("assets").display().to_string();
    let file = home.join("bin/go").display().to_string();
    let refused = |settings: &[(&str, &str)], arguments: &[&str], expected: &[&str]| {
        let line = refusal(home, settings, arguments);
        for words in expected {
            assert!(line.contains(words), "{settings:?} {arguments:?}: {words:?} is not in: {line}");
        }
    };
    refused(&[("GO", "old")], &[], &["go1.20.14 is too old", "install Go 1.21 or newer"]);
    refused(&[("GO", "broken")], &[], &["exec format error", "install Go 1.21 or newer"]);
    refused(&[("GO", "older")], &[], &["go.mod requires go >= 1.26.0", "GOTOOLCHAIN=auto"]);
    refused(&[("GO", "offline")], &[], &["network is unreachable", "GOPROXY"]);
    refused(&[("GO", "offline"), ("KUBERNETES", "1.33")], &[], &["1.33 ", "network is unreachable", "GOPROXY"]);
    refused(&[("GO", "offline"), ("KUBERNETES", "1.33.4")], &[], &["1.33.4", "Get \"list\": network", "GOPROXY"]);
    refused(&[("KUBERNETES", "banana")], &[], &["KUBERNETES=banana is no version", "newest, oldest, 1.33"]);
    refused(&[("KUBERNETES", "1.99")], &[], &["there is no Kubernetes 1.99", "the last is 1.37.2"]);
    refused(&[("KUBERNETES", "newest"), ("KUBEBUILDER_ASSETS", &assets)], &[], &["both set", "unset one"]);
    refused(&[("KUBEBUILDER_ASSETS", &file)], &[], &["is no folder", "kube-apiserver", "unset it"]);
    refused(&[("KUBEBUILDER_ASSETS", &assets)], &["kubectl", "kubelet"], &["lacks kubelet: complete it", "unset it"]);
    // It asks this one which kube-controller-manager to build.
    refused(&[("KUBEBUILDER_ASSETS", &assets)], &[], &["does not tell its version", "unset KUBEBUILDER_ASSETS"]);
    refused(&[], &["kube-banana"], &["'kube-banana' is no program", "kube-apiserver"]);
}
