use std::io::Write as _;

use flate2::write::GzEncoder;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn read(bytes: &[u8], limits: &Limits) -> io::Result<Vec<u8>> {
    // One byte at a time, as the worst network gives them.
    let source = io::BufReader::with_capacity(1, bytes);
    let mut out = Vec::new();
    Decompressor::new(source, limits, 0, "layer x".into())?.read_to_end(&mut out)?;
    Ok(out)
}

fn limit(error: &io::Error) -> Option<Limit> {
    error.get_ref()?.downcast_ref::<LimitExceeded>().map(|exceeded| exceeded.limit)
}

#[test]
fn the_bytes_decide() {
    let limits = Limits::default();
    let text = b"hello ".repeat(1000);
    assert_eq!(read(&gzip(&text), &limits).unwrap(), text);
    assert_eq!(read(&zstd(&text), &limits).unwrap(), text);
    assert_eq!(read(&text, &limits).unwrap(), text);
    assert_eq!(read(b"", &limits).unwrap(), b"");
    assert_eq!(read(b"ab", &limits).unwrap(), b"ab");
    let members = [gzip(&text), gzip(b"more")].concat();
    assert_eq!(read(&members, &limits).unwrap(), [&text[..], b"more"].concat());
    let frames = [zstd(&text), zstd(b"more")].concat();
    assert_eq!(read(&frames, &limits).unwrap(), [&text[..], b"more"].concat());
}

#[test]
fn truncated_and_corrupt_streams_are_errors() {
    let text: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
    for whole in [gzip(&text), zstd(&text)] {
        for length in [5, whole.len() / 2, whole.len() - 1] {
            assert!(read(&whole[..length], &Limits::default()).is_err(), "{length} of {}", whole.len());
        }
    }
    let mut corrupt = gzip(&text);
    let middle = corrupt.len() / 2;
    corrupt[middle..middle + 8].fill(0xff);
    assert!(read(&corrupt, &Limits::default()).is_err());
    let mut checksum = gzip(&text);
    let end = checksum.len() - 6;
    checksum[end] ^= 1;
    assert!(read(&checksum, &Limits::default()).is_err());
}

#[test]
fn other_compressions_are_named() {
    for (start, name) in [(&b"\xfd7zXZ\0"[..], "xz"), (b"BZh91AY", "bzip2"), (b"PK\x03\x04", "zip")] {
        assert!(read(start, &Limits::default()).unwrap_err().to_string().starts_with(name));
    }
}

#[test]
fn bombs_end_at_the_ratio_and_at_the_total() {
    let zeros = vec![0; 3 * 1024 * 1024];
    for bomb in [gzip(&zeros), zstd(&zeros)] {
        let error = read(&bomb, &Limits::default()).unwrap_err();
        assert_eq!(limit(&error), Some(Limit::Ratio), "{error}");
        let patient = Limits { ratio: u64::MAX, ..Limits::default() };
        assert_eq!(read(&bomb, &patient).unwrap().len(), zeros.len());
    }
    let harmless = vec![0; 1024 * 1024];
    assert_eq!(read(&gzip(&harmless), &Limits::default()).unwrap().len(), harmless.len());
    let small = Limits { tree_bytes: 1000, entries: 1, ..Limits::default() };
    let framing = usize::try_from(FRAMING_BYTES).unwrap();
    assert!(read(&gzip(&vec![7; 1000 + framing]), &small).is_ok());
    let error = read(&gzip(&vec![7; 1001 + framing]), &small).unwrap_err();
    assert_eq!(limit(&error), Some(Limit::TreeBytes));
}

#[test]
fn media_types_name_compressions_or_no_layer() {
    let cases = [
        ("application/vnd.oci.image.layer.v1.tar", Some(Compression::None)),
        ("application/vnd.oci.image.layer.v1.tar+gzip", Some(Compression::Gzip)),
        ("application/vnd.oci.image.layer.v1.tar+zstd", Some(Compression::Zstd)),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", Some(Compression::Gzip)),
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", Some(Compression::Gzip)),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", Some(Compression::Gzip)),
        ("application/vnd.oci.empty.v1+json", None),
        ("application/vnd.wasm.content.layer.v1+wasm", None),
    ];
    for (media_type, expected) in cases {
        assert_eq!(Compression::of_media_type(media_type), expected, "{media_type}");
    }
}
