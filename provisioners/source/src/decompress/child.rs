//! The child that decompresses Zstandard: decodes what it is given, and opens nothing.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use rukpak_sandbox::Sandbox;

use crate::chain::chain;

/// The largest zstd window, 32 MiB. RFC 8878 asks readers for 8 MiB; the encoder's strongest ordinary level uses that.
pub(super) const ZSTD_WINDOW_LOG: u32 = 25;
/// Bytes of one message, either way.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of the text that says why the stream was refused.
pub(super) const TEXT_BYTES: usize = 1024;

/// The words of the child that are no lengths of output.
pub(super) const MORE: u32 = 0;
pub(super) const DONE: u32 = u32::MAX;
pub(super) const FAILED: u32 = u32::MAX - 1;

const UNCONFINED: &str = "is not confined by this kernel, which lacks seccomp and landlock (Linux 5.13): compress with gzip, or run on a \
                          node that has one of them";

/// Decodes the stream that comes on stdin, in this process, which confines itself as `sandbox` says before it reads. The
/// process must have no other thread.
pub(super) fn run(sandbox: Option<&OsStr>) -> ExitCode {
    if let Err(error) = Sandbox::read(sandbox).and_then(|sandbox| sandbox.enter()) {
        return complain(&chain(&error));
    }
    // It needs nothing, so no kernel is taken for good enough that keeps it from nothing.
    if !rukpak_sandbox::reads_nothing() {
        return complain(&UNCONFINED);
    }
    // Not stdout itself, which looks for ends of lines in what is written.
    let answered = io::stdout().as_fd().try_clone_to_owned().and_then(|output| answer(io::stdin(), File::from(output)));
    match answered {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

fn complain(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

/// Asks for the stream, piece by piece, and writes what it decodes to.
///
/// # Errors
/// The parent cannot be talked to. What is wrong with the stream is an answer.
pub(super) fn answer(input: impl Read, output: impl Write) -> io::Result<()> {
    let output = RefCell::new(BufWriter::with_capacity(CHUNK_BYTES + size_of::<u32>(), output));
    let Err(failure) = decode(input, &output) else { return say(&output, DONE, &[]) };

    let text = failure.to_string();
    let text = &text.as_bytes()[..text.len().min(TEXT_BYTES)];
    say(&output, FAILED, &[&length_of(text)?.to_le_bytes(), text])
}

fn decode(input: impl Read, output: &RefCell<impl Write>) -> io::Result<()> {
    let asked = Asked { input, output, announced_bytes: 0, has_ended: false };
    let mut decoder = zstd::stream::read::Decoder::new(asked)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;

    let mut bytes = vec![0; CHUNK_BYTES];
    loop {
        let count = decoder.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        let bytes = &bytes[..count];
        let mut output = output.borrow_mut();
        output.write_all(&length_of(bytes)?.to_le_bytes())?;
        output.write_all(bytes)?;
    }
}

/// Writes a word and what belongs to it, so that the other side sees it.
fn say(output: &RefCell<impl Write>, word: u32, parts: &[&[u8]]) -> io::Result<()> {
    let mut output = output.borrow_mut();
    output.write_all(&word.to_le_bytes())?;
    for part in parts {
        output.write_all(part)?;
    }
    output.flush()
}

pub(super) fn length_of(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(io::Error::other)
}

pub(super) fn read_word(input: &mut impl Read) -> io::Result<u32> {
    let mut word = [0; 4];
    input.read_exact(&mut word)?;
    Ok(u32::from_le_bytes(word))
}

/// The compressed stream as the decoder reads it: asked for a piece at a time.
struct Asked<'a, I, O> {
    input: I,
    output: &'a RefCell<O>,
    /// Bytes of the piece that are still to come.
    announced_bytes: usize,
    has_ended: bool,
}

impl<I: Read, O: Write> Read for Asked<'_, I, O> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.announced_bytes == 0 && !self.has_ended {
            say(self.output, MORE, &[])?;
            self.announced_bytes = read_word(&mut self.input)? as usize;
            self.has_ended = self.announced_bytes == 0;
        }
        let most = self.announced_bytes.min(into.len());
        // A buffered reader waits for more even if it is asked for nothing, and nothing comes after the end.
        if most == 0 {
            return Ok(0);
        }
        let count = self.input.read(&mut into[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.announced_bytes -= count;
        Ok(count)
    }
}
