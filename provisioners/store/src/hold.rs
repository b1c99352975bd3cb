//! Content that is here already, for somebody else.

use rukpak_content::Digest;

use crate::lock::Lock;
use crate::{Error, Sealed, Store};

impl Store {
    /// Content that is here, kept as if it had been sealed now; `None` if it is not here. `size_bytes` is what was told when it was
    /// sealed. Its bytes are not read: [`Store::load`] verifies.
    ///
    /// # Errors
    /// Of the disk.
    pub fn hold(&self, digest: &Digest, size_bytes: u64) -> Result<Option<Sealed>, Error> {
        let _lock = Lock::shared(&self.layout().lock())?;
        if !self.contains(digest)? {
            return Ok(None);
        }
        let keep = self.instance().keep(digest)?;
        Ok(Some(Sealed { digest: digest.clone(), size_bytes, _keep: keep }))
    }
}
