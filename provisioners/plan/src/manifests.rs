//! The manifests of a release as Secrets keep them: a JSON list in gzip, cut into parts.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

/// So much goes into one Secret, which may hold a mebibyte.
pub const SECRET_BYTES: usize = 900 << 10;
/// The key of a Secret that holds a part.
pub const KEY: &str = "manifests";
/// The most parts of a release.
pub const PARTS: usize = MAX_BYTES / SECRET_BYTES + 1;

/// A release with more is not kept: whoever reads it needs many times the memory.
const MAX_BYTES: usize = 16 << 20;
/// With brackets, and a comma for each manifest.
const READ_MAX_BYTES: u64 = 2 * MAX_BYTES as u64;

/// Returns the name of the Secret with a part of what the release declares that has this record.
pub fn name(record: &str, number: usize) -> String {
    format!("{record}-{number}")
}

/// Returns the manifests in parts; `None` if they are too large.
pub fn pack(manifests: impl IntoIterator<Item = Value>) -> Option<Vec<Vec<u8>>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let (mut size, mut before) = (0, "[");
    // Writing to a vector cannot fail.
    for manifest in manifests {
        let text = manifest.to_string();
        size += text.len();
        if size > MAX_BYTES {
            return None;
        }
        let _ = encoder.write_all(before.as_bytes());
        let _ = encoder.write_all(text.as_bytes());
        before = ",";
    }
    let end = if size == 0 { "[]" } else { "]" };
    let _ = encoder.write_all(end.as_bytes());
    let packed = encoder.finish().unwrap_or_default();
    Some(packed.chunks(SECRET_BYTES).map(<[u8]>::to_vec).collect())
}

/// Returns the manifests that these parts, one after the other, hold; `None` if they are not those of one release, or not all of them.
/// What is left behind them by a release with more parts does not matter.
pub fn unpack(packed: &[u8]) -> Option<Vec<Value>> {
    let mut text = Vec::new();
    GzDecoder::new(packed).take(READ_MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Manifests that gzip cannot make much smaller.
    fn manifests(count: usize) -> Vec<Value> {
        let digest = |number: usize| rukpak_content::Digest::sha256(&number.to_be_bytes()).hex().to_owned();
        (0..count).map(|number| json!({"kind": "ConfigMap", "data": {"x": digest(number)}})).collect()
    }

    #[test]
    fn reads_what_was_packed_in_one_part_or_several() {
        for (count, parts) in [(0, 1), (3, 1), (40_000, 2)] {
            let packed = pack(manifests(count)).unwrap();
            assert!((parts..=PARTS).contains(&packed.len()), "{count}: {} parts", packed.len());
            assert!(packed.iter().all(|part| part.len() <= SECRET_BYTES));
            assert_eq!(unpack(&packed.concat()).unwrap(), manifests(count));
        }
    }

    #[test]
    fn reads_nothing_from_half_of_the_parts_and_passes_over_what_is_left_behind() {
        let packed = pack(manifests(40_000)).unwrap();
        assert_eq!(unpack(&packed[0]), None);
        let small = pack(manifests(3)).unwrap();
        assert_eq!(unpack(&[small[0].as_slice(), &packed[1]].concat()).unwrap(), manifests(3));
        assert_eq!(unpack(b"no gzip"), None);
    }

    #[test]
    fn packs_nothing_that_is_too_large() {
        assert_eq!(pack([json!({"data": {"x": "x".repeat(MAX_BYTES)}})]), None);
    }
}
