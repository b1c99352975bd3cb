//! Whether a bucket can be used: asked once, when a program starts.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Sharing;
use crate::{Condition, Error, Version};

const PROBES: &str = "v1/probes";

impl Sharing {
    /// Writes an object, and tries to write it again in ways that have to be refused.
    ///
    /// # Errors
    /// [`Error::Unconditional`] where the server writes all the same; [`Error::Bucket`].
    pub fn probe(&self) -> Result<(), Error> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let key = format!("{PROBES}/{}-{}", std::process::id(), since.as_nanos());
        let probed = self.probe_with(&key);
        let removed = self.bucket.delete(&key);
        probed?;
        Ok(removed?)
    }

    fn probe_with(&self, key: &str) -> Result<(), Error> {
        let put = |text: &str, condition| self.bucket.put(key, text.as_bytes().to_vec(), condition);
        let refused = |header| Error::Unconditional { bucket: self.bucket.name().to_owned(), header };
        put("1", Condition::Absent)?;
        if put("2", Condition::Absent)? {
            return Err(refused("If-None-Match"));
        }
        let Some((_, version)) = self.bucket.get(key)? else { return Err(refused("If-None-Match")) };
        if !put("3", Condition::Unchanged(version.clone()))? || put("4", Condition::Unchanged(version))? {
            return Err(refused("If-Match"));
        }
        // As a server that compares nothing, and one that compares too little, would take it.
        let unknown = Version { e_tag: Some("\"0\"".to_owned()), generation: Some("0".to_owned()) };
        if put("5", Condition::Unchanged(unknown))? { Err(refused("If-Match")) } else { Ok(()) }
    }
}
