//! Bytes to characters.

use std::borrow::Cow;
use std::sync::Arc;

use super::Error;

/// Decodes UTF-8, with or without a byte order mark, or UTF-16 with one.
pub(super) fn decode<'a>(file: &Arc<str>, bytes: &'a [u8]) -> Result<Cow<'a, str>, Error> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(file, rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(file, rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(file, rest),
        _ => utf8(file, bytes),
    }
}

fn utf8<'a>(file: &Arc<str>, bytes: &'a [u8]) -> Result<Cow<'a, str>, Error> {
    std::str::from_utf8(bytes)
        .map(Cow::Borrowed)
        .map_err(|error| Error::Encoding { file: Arc::clone(file), line: line_at(&bytes[..error.valid_up_to()]) })
}

fn utf16<'a>(file: &Arc<str>, bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'a, str>, Error> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(bytes.len());
    for character in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        match character {
            Ok(character) => text.push(character),
            Err(_) => return Err(Error::Encoding { file: Arc::clone(file), line: line_at(text.as_bytes()) }),
        }
    }
    if rest.is_empty() {
        Ok(Cow::Owned(text))
    } else {
        Err(Error::Encoding { file: Arc::clone(file), line: line_at(text.as_bytes()) })
    }
}

/// Refuses the control characters that YAML refuses. A NUL above all: the parser would take it for the end.
pub(super) fn check_characters(file: &Arc<str>, text: &str) -> Result<(), Error> {
    let bytes = text.as_bytes();
    match position_of_control(bytes) {
        None => Ok(()),
        Some(at) => Err(Error::Control {
            file: Arc::clone(file),
            line: line_at(&bytes[..at]),
            escape: format!("\\x{:02x}", bytes[at]),
        }),
    }
}

/// Looks at many bytes at once: without branches the compiler makes vector instructions of it.
fn position_of_control(bytes: &[u8]) -> Option<usize> {
    const AT_ONCE: usize = 256;
    // All below 0x20 but tab, line feed and carriage return; and delete.
    let is_control = |byte: u8| matches!(byte, 0..=0x08 | 0x0b | 0x0c | 0x0e..=0x1f | 0x7f);
    let mut chunks = bytes.chunks(AT_ONCE);
    let chunk = chunks.position(|chunk| chunk.iter().fold(false, |found, byte| found | is_control(*byte)))?;
    let start = chunk * AT_ONCE;
    bytes[start..].iter().position(|byte| is_control(*byte)).map(|at| start + at)
}

/// The line, from 1, of what comes after `before`.
pub(super) fn line_at(before: &[u8]) -> usize {
    before.split(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_character_is_found_wherever_it_stands() {
        for length in [0, 1, 255, 256, 257, 600] {
            assert_eq!(position_of_control(&vec![b'\t'; length]), None);
            for at in [0, 254, 255, 256, 511, 599].into_iter().filter(|at| *at < length) {
                for control in [0, 8, 11, 31, 0x7f] {
                    let mut bytes = vec![b'\n'; length];
                    bytes[at] = control;
                    assert_eq!(position_of_control(&bytes), Some(at), "{control} of {length}");
                }
            }
        }
    }
}
