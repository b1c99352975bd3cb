#![doc = include_str!("../README.md")]

use std::ffi::OsStr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod calls;
mod files;
mod probe;
mod resources;

pub use probe::{Attempts, Findings, reads_nothing};
pub use resources::no_more_threads;

/// What a process may do from now on. Decided by the parent, handed over as an argument: the child needs it before it reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Which system calls.
    pub calls: Calls,
    /// Folders that may be read and written, and files made in them.
    pub writable: Vec<PathBuf>,
    /// Files and folders that may be read. What is not there is passed over.
    pub readable: Vec<PathBuf>,
    /// Programs that this process may become. It must be linked statically: nothing else of the system is run.
    pub executable: Vec<PathBuf>,
    /// TCP ports that may be connected to, of whatever host. Landlock's ABI 4 (Linux 6.7).
    pub ports: Vec<u16>,
    /// Upper bounds.
    pub resources: Resources,
}

/// A set of system calls. What is not in the set fails with `ENOSYS`, as on a kernel that does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Calls {
    /// Reads and writes what is open already, and computes. No file is opened, no thread started.
    Compute,
    /// Opens files, connects to servers, starts threads.
    Network,
    /// Becomes another program, which opens files and starts threads, and reaches no server.
    Program,
}

/// Upper bounds that the kernel keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Bytes of memory that is written to: heap, stacks of threads. Past it allocations fail.
    pub memory_bytes: u64,
    /// Bytes of address space: `memory_bytes`, libraries, files that are mapped.
    pub address_space_bytes: u64,
    /// Bytes of any file that is written. Past it comes `SIGXFSZ`.
    pub file_bytes: u64,
    /// Seconds of processor time. Past it comes `SIGXCPU`, a second later `SIGKILL`.
    pub processor_seconds: u64,
    /// Files that are open at once.
    pub open_files: u64,
}

/// Why a process could not be confined although the kernel has the means. It must not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The argument is not a [`Sandbox`].
    #[error("read what this process may do")]
    Argument(#[source] serde_json::Error),
    /// Resource limits.
    #[error("limit the resources of this process")]
    Resources(#[source] std::io::Error),
    /// Landlock.
    #[error("limit the files and ports of this process with landlock")]
    Files(#[source] Box<landlock::RulesetError>),
    /// Seccomp.
    #[error("limit the system calls of this process with seccomp")]
    Calls(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Sandbox {
    /// For a process that makes these calls within these bounds, and opens no file, becomes no program and connects to no port.
    pub fn new(calls: Calls, resources: Resources) -> Self {
        Self { calls, writable: Vec::new(), readable: Vec::new(), executable: Vec::new(), ports: Vec::new(), resources }
    }

    /// As the argument that [`Self::read`] reads.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub fn argument(&self) -> Result<String, Error> {
        serde_json::to_string(self).map_err(Error::Argument)
    }

    /// What [`Self::argument`] wrote.
    ///
    /// # Errors
    /// It did not.
    pub fn read(argument: Option<&OsStr>) -> Result<Self, Error> {
        let text = argument.map(OsStr::as_encoded_bytes).unwrap_or_default();
        serde_json::from_slice(text).map_err(Error::Argument)
    }

    /// Confines this process, for good: call it before the first byte of input is read, and while there is one thread.
    /// A kernel that lacks landlock or seccomp does what it can; [`Attempts`] shows what that is.
    ///
    /// # Errors
    /// The kernel has the means and they failed.
    pub fn enter(&self) -> Result<(), Error> {
        self.resources.set().map_err(Error::Resources)?;
        close().map_err(Error::Resources)?;
        files::confine(self).map_err(|error| Error::Files(Box::new(error)))?;
        calls::confine(self.calls).map_err(Error::Calls)?;
        if self.calls == Calls::Compute {
            no_more_threads().map_err(Error::Resources)?;
        }
        Ok(())
    }
}

/// Closes this process to others of the same user: no ptrace, no look at its memory, no core dump.
///
/// # Errors
/// The system call failed; it does so on no kernel known.
pub fn close() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
