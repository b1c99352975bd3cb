//! Programs, ports, folders and names.

use std::collections::hash_map::RandomState;
use std::fs::{DirEntry, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How long a verb waits unless told otherwise; the figure that upstream's own suites use.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Locks of the ports handed out by this process, held to its end.
static PORTS: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Says once for the process that rustls uses ring. Every entry point of the harness calls it.
pub fn use_ring() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that a provider is installed already, which is all that is wanted.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A free loopback port that no other process of the harness gets while this one lives.
///
/// Ports come from below the range of outgoing connections, else a client could sit on one between the probe
/// and the start of its server.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    let folder = std::env::temp_dir().join(format!("rukpak-ports-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let mut held = PORTS.lock().map_err(|_| anyhow::anyhow!("another thread panicked while it took a port"))?;
    let start = random() % u64::from(COUNT);
    for step in 0..u64::from(COUNT) {
        let port = FIRST + u16::try_from((start + step) % u64::from(COUNT)).unwrap_or(0);
        let path = folder.join(port.to_string());
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(|| format!("open {}", path.display()))?;
        if lock.try_lock().is_ok() && is_free(port) {
            held.push(lock);
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// Waits for one of `count` turns at `what`, which all processes of this user share. The turn ends when the file is closed.
pub async fn turn(what: &str, count: u32) -> Result<File> {
    let folder = std::env::temp_dir().join(format!("rukpak-turns-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let path = folder.join(format!("{what}-{}", std::process::id() % count));
    let wait = move || {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        file.and_then(|file| file.lock().map(|()| file)).with_context(|| format!("lock {}", path.display()))
    };
    tokio::task::spawn_blocking(wait).await.context("wait for a turn")?
}

/// Whether nobody listens on a loopback port. The probe does not listen itself: a child that another thread is about to start
/// has a copy of every open socket for a moment, and would keep the port's server from listening.
fn is_free(port: u16) -> bool {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let probe = socket.and_then(|socket| {
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
    });
    probe.is_ok()
}

/// `prefix` and a suffix that no other call has returned, in this process or another: fit for a Kubernetes name.
pub fn unique_name(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:05x}{count:x}", random() & 0xf_ffff)
}

/// A folder in the system's temporary directory, removed when dropped, or when this process ends without a drop.
pub fn temp_folder(purpose: &str) -> Result<tempfile::TempDir> {
    let folder = unswept_folder(purpose)?;
    crate::keeper::sweep(folder.path());
    Ok(folder)
}

/// A folder in the system's temporary directory, removed when dropped and only then: for the keeper itself.
pub fn unswept_folder(purpose: &str) -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(&format!("rukpak-{purpose}-")).tempdir().context("create a temporary folder")
}

/// The folder of the tests crate, where its scripts and fixtures are.
pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What is in a folder, by name.
pub fn listing(folder: &Path) -> Result<Vec<DirEntry>> {
    let listing = std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut children = listing.collect::<Result<Vec<_>, _>>().with_context(|| format!("list {}", folder.display()))?;
    children.sort_by_key(DirEntry::file_name);
    Ok(children)
}

/// The folder of the workspace.
pub fn workspace_folder() -> &'static Path {
    crate_folder().parent().unwrap_or_else(|| crate_folder())
}

/// The folder of published bundles and catalogs that tests are also run over, where there is one: `$CORPUS`, or beside the
/// workspace.
pub fn corpus() -> Option<PathBuf> {
    let beside = workspace_folder().join("../shared/corpus");
    [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)].into_iter().flatten().find(|path| path.is_dir())
}

/// A binary of this workspace, built with the same profile as the running one: it stands beside it, or above `deps/`.
pub fn workspace_binary(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("find the path of this program")?;
    let mut folder = own.parent().context("this program has no folder")?;
    if folder.file_name().is_some_and(|name| name == "deps" || name == "examples") {
        folder = folder.parent().context("the folder deps has no parent")?;
    }
    let path = folder.join(name);
    if path.is_file() {
        return Ok(path);
    }
    let release = if folder.ends_with("release") { " --release" } else { "" };
    bail!("{} is not built; run: cargo build{release} --workspace --bin {name}", path.display())
}

/// A program of the system, by name, from PATH and the folders of system daemons.
pub fn system_program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("there is no program {name}; run: tests/tools/apt-packages.sh"))
}

/// A Chromium without a window, which is installed if there is none.
pub fn browser() -> Result<PathBuf> {
    printed_by("browser.sh")
}

/// kubectl of the control plane's version, or `$KUBECTL`.
pub fn kubectl() -> Result<PathBuf> {
    printed_by("kubectl.sh")
}

/// Helm, which is built once, or `$HELM`.
pub fn helm() -> Result<PathBuf> {
    printed_by("helm.sh")
}

/// The folder of the published charts of `tests/tools/charts.txt`, which are fetched once.
pub fn charts() -> Result<PathBuf> {
    printed_by("charts.sh")
}

/// SeaweedFS, which is fetched once.
pub fn seaweedfs() -> Result<PathBuf> {
    printed_by("seaweedfs.sh")
}

/// The path that a script in `tests/tools` prints.
fn printed_by(script: &str) -> Result<PathBuf> {
    let script = workspace_folder().join("tests/tools").join(script);
    let output = std::process::Command::new(&script).output().with_context(|| format!("run {}", script.display()))?;
    anyhow::ensure!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout).with_context(|| script.display().to_string())?.trim()))
}

/// The last `lines` lines of a text file, or why it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}

/// A number that differs from call to call and from process to process; not a secret.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_until_somebody_listens() {
        let port = free_port().unwrap();
        let probe = is_free(port);
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert!(probe && !is_free(port));
        drop(listener);
        assert!(is_free(port));
    }

    #[test]
    fn ports_and_names_are_handed_out_once() {
        let ports: std::collections::BTreeSet<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        let names: std::collections::BTreeSet<String> = (0..500).map(|_| unique_name("a")).collect();
        assert_eq!(names.len(), 500);
    }
}
