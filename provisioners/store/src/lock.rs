//! Advisory locks that the kernel drops when their holder dies, however it dies.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use crate::Error;

/// A held lock; dropping it releases it.
///
/// Every value has an open file description of its own, so threads of one process exclude each other too.
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its lock, which closing releases")] File);

impl Lock {
    /// Waits until nobody holds the lock exclusively.
    pub(crate) fn shared(path: &Path) -> Result<Self, Error> {
        Self::wait(path, FlockOperation::LockShared)
    }

    /// Waits until nobody holds the lock.
    pub(crate) fn exclusive(path: &Path) -> Result<Self, Error> {
        Self::wait(path, FlockOperation::LockExclusive)
    }

    /// `None` if somebody holds the lock, or the file does not exist.
    pub(crate) fn try_existing(path: &Path) -> Result<Probe, Error> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if absent(&error) => return Ok(Probe::Absent),
            Err(source) => return Err(Error::Lock { path: path.to_owned(), source }),
        };
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(Probe::Free),
            Err(Errno::WOULDBLOCK) => Ok(Probe::Held),
            Err(errno) => Err(Error::Lock { path: path.to_owned(), source: errno.into() }),
        }
    }

    fn wait(path: &Path, operation: FlockOperation) -> Result<Self, Error> {
        let failed = |source| Error::Lock { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        retry_on_intr(|| flock(&file, operation)).map_err(|errno| failed(errno.into()))?;
        Ok(Self(file))
    }
}

/// What [`Lock::try_existing`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// There is no lock file.
    Absent,
    /// Nobody holds it.
    Free,
    /// Somebody alive holds it.
    Held,
}

/// A missing file, or one below something that is not a folder.
fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
