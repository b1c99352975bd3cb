use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use rukpak_content::{BundleTree, RelativePath};
use rukpak_runtime::error::Chain;

use super::*;

const PLAIN: Expected = Expected { format: Format::Plain, watches_namespace: false };

fn judged(files: &[(&str, &'static str)]) -> Reply {
    let mut tree = BundleTree::new();
    for (path, body) in files {
        tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::from_static(body.as_bytes()));
    }
    child::judge(&tree, PLAIN, &Limits::default())
}

fn refusal(files: &[(&str, &'static str)]) -> String {
    match judged(files) {
        Reply::Refused(refusal) => refusal.text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusals_are_upstreams() {
    assert!(
        refusal(&[("a", "x")]).starts_with("get objects from bundle manifests: readdir manifests: file does not exist")
    );
    assert!(refusal(&[("manifests", "x")]).contains("not a directory"));
    assert!(refusal(&[("manifests/sub/a.yaml", "")]).contains("found \"manifests/sub\""));
    assert!(refusal(&[("manifests/a.yaml", "")]).starts_with("invalid bundle: found zero objects"));
}

#[test]
fn a_bundle_is_accepted() {
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    assert!(matches!(judged(&[("manifests/a.yaml", object)]), Reply::Accepted(warnings) if warnings.is_empty()));
}

/// With a shell as the child: what the parent does whatever the child does. The real child is in the workspace's suites.
async fn asked(script: &str, limits: Limits) -> Result<Reply, Error> {
    let folder = tempfile::tempdir().unwrap();
    let program = shell(folder.path(), script);
    let mut content = tempfile::tempfile().unwrap();
    content.write_all(b"content").unwrap();
    content.rewind().unwrap();
    ask(&Task { content: Digest::sha256(b""), expected: PLAIN, limits }, content, &program).await
}

fn shell(folder: &Path, script: &str) -> PathBuf {
    let program = folder.join("child");
    // Written by a process of its own: a file that this one has open for writing could be inherited by a child that another
    // test starts at that moment, and cannot be run then.
    let written = Command::new("/bin/sh")
        .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#, "sh"])
        .arg(&program)
        .arg(script)
        .status();
    assert!(written.unwrap().success());
    program
}

#[tokio::test]
async fn the_content_is_stdin_and_the_task_an_argument() {
    let script = r#"[ "$1" = check-child ] && [ "$(/bin/cat)" = content ] && echo '{"Accepted":["w"]}'"#;
    let reply = asked(script, Limits::default()).await.unwrap();
    assert!(matches!(reply, Reply::Accepted(warnings) if warnings == ["w"]));
}

#[tokio::test]
async fn a_child_without_an_answer_is_an_error_that_says_how_it_ended() {
    let table = [
        ("exit 3", "exit status: 3"),
        ("echo why >&2; exit 3", ": why"),
        ("echo nonsense", "exit status: 0"),
        (r#"echo '{"Accepted":[]}'; exit 1"#, "exit status: 1"),
        ("echo 'memory allocation of 8 bytes failed' >&2; kill -ABRT $$", "--limit=child-bytes"),
        ("kill -XCPU $$", "--limit=check-seconds"),
        ("kill -KILL $$", "signal: 9"),
    ];
    for (script, words) in table {
        let text = Chain(&asked(script, Limits::default()).await.unwrap_err()).to_string();
        assert!(text.contains(words), "{script}: {text}");
    }
}

#[tokio::test]
async fn a_child_that_does_not_end_is_cut_off() {
    let limits = Limits { check_time: Duration::from_millis(200), ..Limits::default() };
    for script in ["exec /bin/sleep 1000", "exec /bin/cat /dev/zero"] {
        let error = asked(script, limits.clone()).await.unwrap_err();
        assert!(matches!(error, Error::Limit(_) | Error::Died { .. }), "{error}");
    }
}
