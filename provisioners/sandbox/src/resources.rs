//! Limits of the kernel on what one process takes.

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Resources;

impl Resources {
    /// Sets the limits. None is raised: where this process was given less, that stays.
    pub(crate) fn set(&self) -> io::Result<()> {
        // Where the kernel ends one process and not the whole container, this one goes first.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        limit(Resource::As, self.address_space_bytes)?;
        limit(Resource::Data, self.memory_bytes)?;
        limit(Resource::Fsize, self.file_bytes)?;
        limit(Resource::Cpu, self.processor_seconds.saturating_add(1))?;
        limit(Resource::Nofile, self.open_files)?;
        limit(Resource::Core, 0)
    }
}

/// No further thread and no process is started by this process, nor by any other child of this user that called this.
///
/// # Errors
/// The limit could not be set.
pub fn no_more_threads() -> io::Result<()> {
    // The kernel counts all processes of the user, so that no other number has a meaning.
    limit(Resource::Nproc, 0)
}

fn limit(resource: Resource, wanted: u64) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
    // Past the soft limit of processor time comes a signal that says so, past the hard one SIGKILL.
    let current = if matches!(resource, Resource::Cpu) { maximum.saturating_sub(1) } else { maximum };
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?)
}
