//! With a shell as the child: what the parent does whatever the child does. Real servers are in the workspace's test crate.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rukpak_content::Limit;
use tempfile::TempDir;

use super::*;
use crate::chain::chain;
use crate::git::{Auth, Class, Commit, Reference};

const NAME: &str = "0123456789abcdef0123456789abcdef01234567";

fn fetcher(folder: &Path, script: &str, limits: Limits) -> Fetcher {
    Fetcher::new(FetcherOptions {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        limits,
        stage_dir: folder.into(),
        extra_ca_pem: Some("EXTRA".into()),
        egress: Egress::anywhere(),
    })
}

fn request() -> Request {
    Request {
        repository: "https://u:secret@h/r".into(),
        reference: Reference::Branch("main".into()),
        directory: None,
        auth: Auth::Basic { username: "u".into(), password: "secret".into() },
        insecure_skip_verify: false,
        strict_host_keys: false,
    }
}

async fn resolve(script: &str) -> Result<Resolved, Error> {
    let folder = TempDir::new().unwrap();
    fetcher(folder.path(), script, Limits::default()).resolve(request()).await
}

fn alive(pid: &str) -> bool {
    // A zombie that nobody waited for would still be there.
    Path::new("/proc").join(pid.trim()).exists()
}

#[tokio::test]
async fn a_commit_is_resolved_without_a_child() {
    let folder = TempDir::new().unwrap();
    let request = Request { reference: Reference::Commit(NAME.into()), ..request() };
    let resolved = fetcher(folder.path(), "exit 1", Limits::default()).resolve(request).await.unwrap();
    assert_eq!(resolved.commit().as_str(), NAME);
}

#[tokio::test]
async fn the_answer_is_the_first_line() {
    let script = format!(r#"read line; echo '{{"Done":"{NAME}"}}'"#);
    assert_eq!(resolve(&script).await.unwrap().commit().as_str(), NAME);
    let refusal = r#"read line; echo '{"Failed":{"step":"Clone","class":"NotFound","message":"no branch"}}'"#;
    let error = resolve(refusal).await.unwrap_err();
    assert_eq!((error.class(), chain(&error)), (Class::NotFound, "bundle unpack git clone error: no branch".into()));
}

#[tokio::test]
async fn the_environment_is_empty_but_for_what_is_needed() {
    let folder = TempDir::new().unwrap();
    let seen = folder.path().join("seen");
    let script = format!(
        "/usr/bin/env > {0}; /bin/cat $SSL_CERT_FILE > {0}.pem; read line; echo \"$line\" > {0}.task; echo '{{\"Done\":\"{NAME}\"}}'",
        seen.display()
    );
    fetcher(folder.path(), &script, Limits::default()).resolve(request()).await.unwrap();
    let text = fs::read_to_string(&seen).unwrap();
    for line in text.lines() {
        let name = line.split('=').next().unwrap();
        // PWD, SHLVL and _ are the shell's own.
        let expected = ["HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "PWD", "SHLVL", "_"].contains(&name);
        assert!(expected || name.to_lowercase().ends_with("_proxy"), "{line}");
    }
    assert!(fs::read_to_string(seen.with_extension("pem")).unwrap().ends_with("\nEXTRA"));
    assert!(fs::read_to_string(seen.with_extension("task")).unwrap().contains("secret"));
    assert!(folders(folder.path()) <= 1, "only the folder that is being removed may be there");
}

#[tokio::test]
async fn a_child_without_an_answer_is_an_error_that_says_how_it_ended() {
    let table = [
        ("exit 3", "exit status: 3"),
        ("echo why >&2; exit 3", ": why"),
        ("read line; echo nonsense", "exit status: 0"),
        ("kill -KILL $$", "perhaps out of memory"),
        ("kill -SEGV $$", "signal: 11"),
        ("kill -XFSZ $$", "--limit=git-bytes"),
        ("kill -XCPU $$", "--limit=git-seconds"),
    ];
    for (script, words) in table {
        let text = chain(&resolve(script).await.unwrap_err());
        assert!(text.contains(words) && text.contains("https://h/r"), "{script}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn a_child_that_floods_is_cut_off() {
    let error = resolve("read line; exec /bin/cat /dev/zero").await.unwrap_err();
    assert!(matches!(error, Error::Died { .. }), "{error}");
}

#[tokio::test]
async fn the_tar_is_read_as_untrusted() {
    let folder = TempDir::new().unwrap();
    let commit: Commit = NAME.parse().unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    header.as_mut_bytes()[..9].copy_from_slice(b"../escape");
    header.set_cksum();
    builder.append(&header, &b"x"[..]).unwrap();
    let bad = folder.path().join("bad.tar");
    fs::write(&bad, builder.into_inner().unwrap()).unwrap();
    let table = [
        (format!("/bin/cat {}; /bin/sleep 1000", bad.display()), Class::Terminal, "escape"),
        (format!("/usr/bin/head -c 300 {}", bad.display()), Class::Unavailable, "tar"),
        ("exit 5".to_owned(), Class::Unavailable, "exit status: 5"),
    ];
    for (tail, class, word) in table {
        let script = format!("read line; echo '{{\"Done\":\"{NAME}\"}}'; {tail}");
        let error = fetcher(folder.path(), &script, Limits::default())
            .fetch(Resolved::pinned(request(), commit.clone()))
            .await
            .unwrap_err();
        assert_eq!(error.class(), class, "{tail}: {}", chain(&error));
        assert!(chain(&error).contains(word), "{}", chain(&error));
    }
}

/// A child that resolves, and runs `tail` when it is told to go on.
fn session(tail: &str) -> String {
    let done = format!(r#"echo '{{"Done":"{NAME}"}}'"#);
    format!(r#"read task; {done}; read action; [ "$action" = '{{"Fetch":"{NAME}"}}' ] || exit 9; {tail}"#)
}

#[tokio::test]
async fn one_child_resolves_and_fetches() {
    let folder = TempDir::new().unwrap();
    let tar = folder.path().join("good.tar");
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    builder.append_data(&mut header, "file", &b"x"[..]).unwrap();
    fs::write(&tar, builder.into_inner().unwrap()).unwrap();
    let done = format!(r#"echo '{{"Done":"{NAME}"}}'; /bin/cat {}"#, tar.display());
    let fetcher = fetcher(folder.path(), &session(&done), Limits::default());
    let resolved = fetcher.resolve(request()).await.unwrap();
    assert_eq!(resolved.commit().as_str(), NAME);
    fetcher.fetch(resolved).await.unwrap();
}

#[tokio::test]
async fn a_child_may_fail_after_it_resolved() {
    let refusal = r#"echo '{"Failed":{"step":"Checkout","class":"NotFound","message":"gone"}}'"#;
    let refused = format!("checkout commit {NAME:?}: gone");
    for (tail, words) in [("exit 4", "exit status: 4"), ("kill -XCPU $$", "--limit=git-seconds"), (refusal, &refused)] {
        let folder = TempDir::new().unwrap();
        let fetcher = fetcher(folder.path(), &session(tail), Limits::default());
        let resolved = fetcher.resolve(request()).await.unwrap();
        let text = chain(&fetcher.fetch(resolved).await.unwrap_err());
        assert!(text.contains(words), "{tail}: {text}");
    }
}

#[tokio::test]
async fn dropping_what_was_resolved_kills_and_cleans_up() {
    let folder = TempDir::new().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > {}; {}", pid.display(), session("exit 0"));
    let resolved = fetcher(folder.path(), &script, Limits::default()).resolve(request()).await.unwrap();
    let pid = fs::read_to_string(pid).unwrap();
    assert!(alive(&pid));
    drop(resolved);
    gone(&pid, folder.path()).await;
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_not_used() {
    let folder = TempDir::new().unwrap();
    let fetcher = fetcher(folder.path(), &session("exit 4"), Limits::default());
    let mut resolved = fetcher.resolve(request()).await.unwrap();
    resolved.age(Duration::from_mins(1));
    let (.., run) = resolved.into_parts();
    assert!(run.is_none());
}

#[tokio::test]
async fn the_deadline_kills() {
    let folder = TempDir::new().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > {}; exec /bin/sleep 1000", pid.display());
    let limits = Limits { git_time: Duration::from_secs(1), ..Limits::default() };
    let error = fetcher(folder.path(), &script, limits).resolve(request()).await.unwrap_err();
    match &error {
        Error::Limit { source } => assert_eq!((source.limit, source.maximum), (Limit::GitTime, 1)),
        other => panic!("{other}"),
    }
    assert_eq!(error.class(), Class::Unavailable);
    gone(&fs::read_to_string(pid).unwrap(), folder.path()).await;
}

#[tokio::test]
async fn dropping_the_future_kills_and_cleans_up() {
    let folder = TempDir::new().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > {0}.new; /bin/mv {0}.new {0}; exec /bin/sleep 1000", pid.display());
    let fetcher = fetcher(folder.path(), &script, Limits::default());
    let request = request();
    tokio::select! {
        result = fetcher.resolve(request) => panic!("{result:?}"),
        () = until(|| pid.exists()) => {}
    }
    gone(&fs::read_to_string(pid).unwrap(), folder.path()).await;
}

/// Waits until the process and its folder are gone.
async fn gone(pid: &str, folder: &Path) {
    until(|| !alive(pid) && folders(folder) == 0).await;
}

/// How many children have a folder.
fn folders(stage_dir: &Path) -> usize {
    let entries = fs::read_dir(stage_dir).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name.to_str().unwrap().starts_with("git-")).count()
}

async fn until(condition: impl Fn() -> bool) {
    let watch = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), watch).await.expect("it happens in time");
}
