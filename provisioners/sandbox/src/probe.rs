//! Tries what a confined process must not be able to do, so that what is said of a node was seen on it.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// No program: one that is started is refused before it is looked for, or not found.
const PROGRAM: &str = "/nonexistent/program";

/// What to try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempts {
    /// A file to read. It must be there.
    pub file: PathBuf,
    /// A TCP address to connect to. Nobody needs to listen there.
    pub address: SocketAddr,
}

/// What was refused.
#[expect(clippy::struct_excessive_bools, reason = "four answers to four questions, none of which follows from another")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Reading the file.
    pub files: bool,
    /// Opening the memory of the parent process.
    pub memory: bool,
    /// Connecting to the address.
    pub ports: bool,
    /// Starting the program, beside this process and in its place.
    pub programs: bool,
}

impl Attempts {
    /// Tries everything, in this process.
    pub fn run(&self) -> Findings {
        let is_spawned = !is_refused(Command::new(PROGRAM).spawn());
        let is_replaced = !is_refused::<()>(Err(Command::new(PROGRAM).exec()));
        Findings {
            files: is_refused(File::open(&self.file)),
            memory: is_refused(File::open(memory_of_parent())),
            ports: is_refused(TcpStream::connect(self.address)),
            programs: !is_spawned && !is_replaced,
        }
    }
}

impl Findings {
    /// Whether a process that is taken over gets at no token, neither in files nor in memory, and starts no program. What is left to
    /// it are servers.
    pub fn keeps_secrets(self) -> bool {
        self.files && self.memory && self.programs
    }

    /// Whether nothing was possible.
    pub fn is_all_refused(self) -> bool {
        self.files && self.memory && self.ports && self.programs
    }
}

/// Whether this process gets at no file and not at the memory of its parent: what a child that only computes needs in order to be
/// harmless, whatever it reads.
pub fn reads_nothing() -> bool {
    let files = [PathBuf::from("/proc/self/exe"), memory_of_parent()];
    files.iter().all(|file| is_refused(File::open(file)))
}

fn memory_of_parent() -> PathBuf {
    PathBuf::from(format!("/proc/{}/mem", parent_id()))
}

/// Whether somebody forbade it: nobody listening, or no such file, is an answer.
fn is_refused<T>(tried: io::Result<T>) -> bool {
    let refusals = [libc::EACCES, libc::EPERM, libc::ENOSYS];
    tried.err().and_then(|error| error.raw_os_error()).is_some_and(|code| refusals.contains(&code))
}
