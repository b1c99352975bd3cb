//! A real process that confines itself and tries what is forbidden: this test program, started again.

use std::fs;
use std::io::{Read, Seek, Write};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rukpak_sandbox::{Attempts, Calls, Findings, Resources, Sandbox};

const MIB: u64 = 1024 * 1024;
/// Names the test that a child is to play.
const ROLE: &str = "RUKPAK_SANDBOX_ROLE";
const SANDBOX: &str = "RUKPAK_SANDBOX";
const ATTEMPTS: &str = "RUKPAK_ATTEMPTS";

fn sandbox(calls: Calls) -> Sandbox {
    Sandbox::new(
        calls,
        Resources {
            memory_bytes: 64 * MIB,
            address_space_bytes: 512 * MIB,
            file_bytes: MIB,
            processor_seconds: 5,
            open_files: 32,
        },
    )
}

/// Plays `role` in a child, whose output comes after a mark of our own.
fn play(role: &str, sandbox: &Sandbox, attempts: &str) -> Output {
    // A file, no pipe: most roles end without reading it, and a test program dies of SIGPIPE when it writes to one of them.
    let mut input = tempfile::tempfile().expect("the test can do it");
    input.write_all(b"input").expect("the test can do it");
    input.rewind().expect("the test can do it");
    Command::new(std::env::current_exe().expect("the test can do it"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(SANDBOX, sandbox.argument().expect("the test can do it"))
        .env(ATTEMPTS, attempts)
        .stdin(input)
        .output()
        .expect("the test can do it")
}

/// No test when it is run as one. In a child, the role; it ends the process, since a harness needs more than a sandbox allows.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (sandbox, attempts) = (std::env::var_os(SANDBOX), std::env::var(ATTEMPTS).expect("the test can do it"));
    Sandbox::read(sandbox.as_deref()).expect("the test can do it").enter().expect("the test can do it");
    match role.as_str() {
        "probe" => {
            let attempts: Attempts = serde_json::from_str(&attempts).expect("the test can do it");
            let findings = serde_json::to_string(&attempts.run()).expect("the test can do it");
            println!("\n{findings}");
        }
        "compute" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).expect("the test can do it");
            let numbers: Vec<u64> = (0..MIB).collect();
            println!("\n{text} {}", numbers.iter().sum::<u64>());
        }
        "thread" => println!("\n{}", std::thread::Builder::new().spawn(|| 1).is_ok()),
        "become" => println!("\n{:?}", Command::new(&attempts).exec().kind()),
        "write" => println!("\n{}", fs::write(&attempts, "written").is_ok()),
        "grow" => println!("\n{}", vec![1_u8; usize::try_from(128 * MIB).expect("the test can do it")].len()),
        "burn" => while std::hint::black_box(true) {},
        other => panic!("{other}"),
    }
    std::process::exit(0);
}

/// The last line that a child printed.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

fn probe(sandbox: &Sandbox, attempts: &Attempts) -> Findings {
    let output = play("probe", sandbox, &serde_json::to_string(attempts).expect("the test can do it"));
    serde_json::from_str(&said(&output)).expect("the test can do it")
}

/// A file that anybody may read, and an address where somebody listens.
struct World {
    folder: tempfile::TempDir,
    listener: TcpListener,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("the test can do it");
        fs::write(folder.path().join("token"), "secret").expect("the test can do it");
        Self { folder, listener: TcpListener::bind("127.0.0.1:0").expect("the test can do it") }
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    fn attempts(&self) -> Attempts {
        Attempts { file: self.token(), address: self.listener.local_addr().expect("the test can do it") }
    }
}

#[test]
fn who_computes_opens_no_file_no_memory_no_connection_and_starts_no_program() {
    let world = World::new();
    let attempts = world.attempts();
    let free = Attempts::run(&attempts);
    assert!(!free.files && !free.ports && !free.programs, "without a sandbox they are possible: {free:?}");
    let findings = probe(&sandbox(Calls::Compute), &attempts);
    assert!(findings.is_all_refused(), "{findings:?}");
}

#[test]
fn who_fetches_reaches_what_is_named_and_nothing_else() {
    let world = World::new();
    let attempts = world.attempts();
    let nothing = sandbox(Calls::Network);
    let findings = probe(&nothing, &attempts);
    assert!(findings.is_all_refused(), "{findings:?}");
    let readable = Sandbox { readable: vec![world.token()], ..nothing.clone() };
    assert_eq!(probe(&readable, &attempts), Findings { files: false, ..findings });
    let below = Sandbox { writable: vec![world.folder.path().to_owned()], ..nothing.clone() };
    assert_eq!(probe(&below, &attempts), Findings { files: false, ..findings });
    let connected = Sandbox { ports: vec![attempts.address.port()], ..nothing };
    assert_eq!(probe(&connected, &attempts), Findings { ports: false, ..findings });
}

/// Whether it becomes what it may become is seen with Helm, in the suite `helm`.
#[test]
fn who_becomes_a_program_becomes_no_other_and_reaches_no_file_and_no_server() {
    let world = World::new();
    let program = sandbox(Calls::Program);
    let findings = probe(&program, &world.attempts());
    assert!(findings.files && findings.memory && findings.ports, "{findings:?}");
    assert_eq!(said(&play("thread", &program, "")), "true");
    assert_eq!(said(&play("become", &program, "/bin/true")), "PermissionDenied");
}

#[test]
fn only_what_is_writable_is_written_to() {
    let world = World::new();
    let folder = world.folder.path();
    let write =
        |sandbox: &Sandbox, path: &Path| said(&play("write", sandbox, path.to_str().expect("the test can do it")));
    let readable = Sandbox { readable: vec![folder.to_owned()], ..sandbox(Calls::Network) };
    assert_eq!(write(&readable, &folder.join("new")), "false");
    assert_eq!(write(&readable, &world.token()), "false");
    let writable = Sandbox { writable: vec![folder.to_owned()], ..sandbox(Calls::Network) };
    assert_eq!(write(&writable, &folder.join("new")), "true");
    assert_eq!(fs::read(folder.join("new")).expect("the test can do it"), b"written");
}

#[test]
fn who_computes_reads_what_is_open_and_answers() {
    assert_eq!(said(&play("compute", &sandbox(Calls::Compute), "")), format!("input {}", MIB * (MIB - 1) / 2));
}

#[test]
fn threads_are_for_who_fetches() {
    assert_eq!(said(&play("thread", &sandbox(Calls::Network), "")), "true");
    assert_eq!(said(&play("thread", &sandbox(Calls::Compute), "")), "false");
}

#[test]
fn past_its_memory_and_its_time_a_process_ends() {
    let output = play("grow", &sandbox(Calls::Compute), "");
    assert_eq!(output.status.signal(), Some(6), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("memory allocation of 134217728 bytes failed"));
    let mut brief = sandbox(Calls::Compute);
    brief.resources.processor_seconds = 1;
    assert_eq!(play("burn", &brief, "").status.signal(), Some(24));
}

#[test]
fn an_argument_that_is_none_is_an_error() {
    for bad in [None, Some("{}"), Some("")] {
        assert!(Sandbox::read(bad.map(AsRef::as_ref)).is_err(), "{bad:?}");
    }
    let whole = sandbox(Calls::Network);
    assert_eq!(
        Sandbox::read(Some(whole.argument().expect("the test can do it").as_ref())).expect("the test can do it"),
        whole
    );
}
