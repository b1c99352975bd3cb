use std::io::Read as _;
use std::sync::mpsc;

use flate2::read::GzDecoder;

use super::*;

/// Bytes without any pattern (xorshift64).
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(step).flatten().take(length).collect()
}

fn plain_of(member: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(member).read_to_end(&mut plain).unwrap();
    plain
}

#[test]
fn a_member_comes_back_whatever_is_in_it() {
    let mut compressor = Compressor::new();
    let text = "apiVersion: v1\n".repeat(20_000);
    let mixed: Vec<u8> = noise(70_000).into_iter().chain(text.bytes().take(70_000)).collect();
    for plain in [&b""[..], b"x", text.as_bytes(), &noise(CHUNK_BYTES), &mixed, &vec![0; CHUNK_BYTES]] {
        assert_eq!(plain_of(compressor.member(plain).unwrap()), plain);
    }
}

#[test]
fn only_what_cannot_shrink_is_left_as_it_is() {
    let mut compressor = Compressor::new();
    for (plain, is_dense) in [
        (noise(CHUNK_BYTES), true),
        // Evenly spread bytes, but a pattern.
        ((0..=255).cycle().take(CHUNK_BYTES).collect(), false),
        ("the name of the field\n".repeat(1_000).into_bytes(), false),
        (noise(SAMPLE_BYTES), false),
    ] {
        assert_eq!(compressor.is_dense(&plain), is_dense);
        let length = compressor.member(&plain).unwrap().len();
        assert!(length < plain.len() + plain.len() / 64 + 64, "{length} of {}", plain.len());
    }
}

#[test]
fn a_job_that_panics_is_alone_in_that() {
    let workers = Workers::with(1).unwrap();
    let (give, take) = mpsc::channel::<()>();
    workers.submit(Box::new(move |_| {
        let _give = give;
        panic!("as the test wants it");
    }));
    assert!(take.recv().is_err(), "who waits is told");
    let (give, take) = mpsc::channel();
    workers.submit(Box::new(move |compressor| give.send(compressor.member(b"x").unwrap().to_vec()).unwrap()));
    assert_eq!(plain_of(&take.recv().unwrap()), b"x");
}

#[test]
fn jobs_that_nobody_wants_any_more_are_dropped_unrun() {
    let workers = Workers::with(1).unwrap();
    let (started, is_started) = mpsc::channel::<()>();
    let (go_on, may_end) = mpsc::channel::<()>();
    workers.submit(Box::new(move |_| {
        started.send(()).unwrap();
        may_end.recv().unwrap();
    }));
    let (give, take) = mpsc::channel();
    workers.submit(Box::new(move |_| give.send(()).unwrap()));
    is_started.recv().unwrap();
    drop(workers);
    go_on.send(()).unwrap();
    assert!(take.recv().is_err());
}
