//! `minKubeVersion`: the oldest Kubernetes that a bundle is for, compared as OLM compares it.

use semver::Version;

use crate::Bundle;

/// The cluster is older than what the bundle is for. `Display` is OLM's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CSV version requirement not met: minKubeVersion ({needed}) > server version ({found})")]
pub struct TooOld {
    /// `spec.minKubeVersion`, as written.
    pub needed: String,
    /// The cluster's version: three numbers.
    pub found: Version,
}

impl Bundle {
    /// Whether a cluster is new enough.
    ///
    /// `server` is the `gitVersion` of its API server, such as `v1.30.2-gke.100`. What a vendor added behind the three numbers
    /// does not count, as in OLM. A version that cannot be read, on either side, refuses nothing: [`Bundle::remarks`] names the
    /// bundle's.
    pub fn check_kubernetes(&self, server: &str) -> Result<(), TooOld> {
        let needed = &self.csv.spec.min_kube_version;
        let (Some(oldest), Some(found)) = (read(needed), read(server)) else { return Ok(()) };
        let found = Version::new(found.major, found.minor, found.patch);
        if oldest <= found { Ok(()) } else { Err(TooOld { needed: needed.clone(), found }) }
    }

    /// The `minKubeVersion`, if there is one and it is no version.
    pub(crate) fn unreadable_kubernetes(&self) -> Option<&str> {
        let text = self.csv.spec.min_kube_version.as_str();
        (!text.is_empty() && read(text).is_none()).then_some(text)
    }
}

/// A version with or without `v`; `1.25` is 1.25.0.
fn read(text: &str) -> Option<Version> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let missing = 2_usize.checked_sub(numbers.matches('.').count())?;
    Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        for (text, version) in [("1.25.0", "1.25.0"), ("v1.25.0", "1.25.0"), (" 1.25 ", "1.25.0"), ("1", "1.0.0")] {
            assert_eq!(read(text), Version::parse(version).ok(), "{text}");
        }
        assert_eq!(read("1.19-0").unwrap().to_string(), "1.19.0-0");
        for text in ["", "v", "latest", "1.2.3.4", "1..2", "1.x", ">=1.20"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
