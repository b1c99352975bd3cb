//! Zstandard in a process of its own. The decoder is C, and what it reads was written by strangers: it runs in a child that has
//! no token, no files and no network, and gives back bytes.
//!
//! The two sides take turns, so that neither waits for a pipe that the other does not empty:
//!
//! ```text
//! child  -> MORE                          it waits for input
//! parent -> length, bytes                 at most 64 KiB; none at the end
//! child  -> length, bytes                 as often as there is output, then MORE again
//! child  -> DONE, or FAILED, length, text
//! ```

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::OnceLock;

use rukpak_sandbox::{Calls, Resources, Sandbox};

use super::ZSTD_WINDOW_LOG;

/// The subcommand of the child.
pub const CHILD: &str = "inflate-child";

const MIB: u64 = 1024 * 1024;
/// For a window, and what the decoder has beside it.
const MEMORY_BYTES: u64 = (1 << ZSTD_WINDOW_LOG) + 32 * MIB;
/// Address space for libraries, and for what the allocator sets aside.
const LIBRARY_BYTES: u64 = 256 * MIB;
/// Longer than any bundle within its limits takes.
const PROCESSOR_SECONDS: u64 = 600;
const OPEN_FILES: u64 = 16;

const CHUNK_BYTES: usize = 64 * 1024;
/// Of what the child says is wrong.
const TEXT_BYTES: usize = 1024;

const MORE: u32 = 0;
const DONE: u32 = u32::MAX;
const FAILED: u32 = u32::MAX - 1;

/// The program that is started as the child.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Has everything in Zstandard decompressed in children from now on: `program` has to call [`main`] when its first argument is
/// [`CHILD`]. Without it, as in tests, that is done in this process.
pub fn install(program: &Path) {
    // Whoever comes second names the same program: it is this one.
    let _ = PROGRAM.set(program.to_owned());
}

pub(super) fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// Decompresses what comes on stdin, in this process, which confines itself as `sandbox` says before it reads. Call it before any
/// other thread is started.
pub fn main(sandbox: Option<&OsStr>) -> ExitCode {
    let entered = Sandbox::read(sandbox).and_then(|sandbox| sandbox.enter()).map_err(io::Error::other);
    match entered.and_then(|()| serve(io::stdin().lock(), BufWriter::new(io::stdout().lock()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("inflate child: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The child's side.
fn serve(input: impl Read, output: impl Write) -> io::Result<()> {
    let output = RefCell::new(output);
    let failure = match decode(input, &output) {
        Ok(()) => return say(&output, DONE, &[]),
        Err(error) => error.to_string(),
    };
    let text = &failure.as_bytes()[..failure.len().min(TEXT_BYTES)];
    say(&output, FAILED, &[&number(text)?.to_le_bytes(), text])
}

fn decode(input: impl Read, output: &RefCell<impl Write>) -> io::Result<()> {
    let asked = Asked { input, output, left: 0, is_ended: false };
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
        output.write_all(&number(bytes)?.to_le_bytes())?;
        output.write_all(bytes)?;
    }
}

/// Writes a word, and what belongs to it, for the other side to see.
fn say(output: &RefCell<impl Write>, word: u32, parts: &[&[u8]]) -> io::Result<()> {
    let mut output = output.borrow_mut();
    output.write_all(&word.to_le_bytes())?;
    for part in parts {
        output.write_all(part)?;
    }
    output.flush()
}

fn number(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(io::Error::other)
}

fn word(input: &mut impl Read) -> io::Result<u32> {
    let mut word = [0; 4];
    input.read_exact(&mut word)?;
    Ok(u32::from_le_bytes(word))
}

/// The compressed stream as the child sees it: asked for a piece at a time.
struct Asked<'a, I, O> {
    input: I,
    output: &'a RefCell<O>,
    left: usize,
    is_ended: bool,
}

impl<I: Read, O: Write> Read for Asked<'_, I, O> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_ended {
            say(self.output, MORE, &[])?;
            self.left = word(&mut self.input)? as usize;
            self.is_ended = self.left == 0;
        }
        let most = self.left.min(into.len());
        let count = self.input.read(&mut into[..most])?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count;
        Ok(count)
    }
}

/// A stream decompressed by a child. Dropped, it ends the child.
pub(super) struct Confined<R> {
    turns: Turns<R, ChildStdin, BufReader<ChildStdout>>,
    child: Child,
}

impl<R: BufRead> Confined<R> {
    /// Starts the child.
    pub(super) fn start(program: &Path, source: R) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg(CHILD)
            .arg(sandbox().argument().map_err(io::Error::other)?)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the child has no pipes"));
        };
        let output = BufReader::with_capacity(CHUNK_BYTES, stdout);
        Ok(Self { turns: Turns { source, input: stdin, output, left: 0, is_done: false }, child })
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.turns.source
    }
}

impl<R: BufRead> Read for Confined<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.turns.read(into)
    }
}

impl<R> Drop for Confined<R> {
    fn drop(&mut self) {
        // It may have ended by itself; and nobody else waits for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Computes and nothing else: its pipes are open already.
fn sandbox() -> Sandbox {
    Sandbox {
        calls: Calls::Compute,
        writable: Vec::new(),
        readable: Vec::new(),
        ports: Vec::new(),
        resources: Resources {
            memory_bytes: MEMORY_BYTES,
            address_space_bytes: MEMORY_BYTES + LIBRARY_BYTES,
            file_bytes: 0,
            processor_seconds: PROCESSOR_SECONDS,
            open_files: OPEN_FILES,
        },
    }
}

/// This side: compressed bytes on the way to a child, and what it makes of them.
struct Turns<R, I, O> {
    source: R,
    input: I,
    output: O,
    /// Of the output that the child has announced.
    left: usize,
    is_done: bool,
}

impl<R: BufRead, I: Write, O: Read> Turns<R, I, O> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.is_done && !into.is_empty() {
            match word(&mut self.output).map_err(lost)? {
                MORE => self.feed()?,
                DONE => self.is_done = true,
                FAILED => return Err(self.failure()),
                length => self.left = length as usize,
            }
        }
        let most = self.left.min(into.len());
        let count = self.output.read(&mut into[..most])?;
        if count == 0 && most > 0 {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        self.left -= count;
        Ok(count)
    }

    fn feed(&mut self) -> io::Result<()> {
        let bytes = self.source.fill_buf()?;
        let bytes = &bytes[..bytes.len().min(CHUNK_BYTES)];
        let count = bytes.len();
        self.input.write_all(&number(bytes)?.to_le_bytes()).map_err(lost)?;
        self.input.write_all(bytes).map_err(lost)?;
        self.input.flush().map_err(lost)?;
        self.source.consume(count);
        Ok(())
    }

    /// What the child says is wrong, which is about what strangers wrote.
    fn failure(&mut self) -> io::Error {
        let text = word(&mut self.output).and_then(|length| {
            let mut text = vec![0; (length as usize).min(TEXT_BYTES)];
            self.output.read_exact(&mut text).map(|()| text)
        });
        match text {
            Ok(text) => io::Error::other(String::from_utf8_lossy(&text).replace(char::is_control, " ")),
            Err(error) => lost(error),
        }
    }
}

fn lost(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            io::Error::other("the process that decompresses it ended early")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::pipe;
    use std::thread;

    use super::*;

    /// What comes out of `packed`, decoded by the child's side on another thread.
    fn through(packed: &[u8]) -> io::Result<Vec<u8>> {
        let ((input, to_child), (output, from_child)) = (pipe().unwrap(), pipe().unwrap());
        let child = thread::spawn(move || serve(input, BufWriter::new(from_child)));
        // One byte at a time, as the worst network gives them.
        let source = BufReader::with_capacity(7, packed);
        let mut turns = Turns { source, input: to_child, output: BufReader::new(output), left: 0, is_done: false };
        let (mut all, mut bytes) = (Vec::new(), vec![0; 1000]);
        let ended = loop {
            match turns.read(&mut bytes) {
                Ok(0) => break Ok(all),
                Ok(count) => all.extend_from_slice(&bytes[..count]),
                Err(error) => break Err(error),
            }
        };
        drop(turns);
        let _ = child.join().unwrap();
        ended
    }

    #[test]
    fn what_the_child_decodes_comes_back_whole() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let packed = zstd::encode_all(&text[..], 3).unwrap();
        assert_eq!(through(&packed).unwrap(), text);
        let frames = [packed, zstd::encode_all(&b"more"[..], 1).unwrap()].concat();
        assert_eq!(through(&frames).unwrap(), [&text[..], b"more"].concat());
        assert_eq!(through(&zstd::encode_all(&vec![0; 3 * 1024 * 1024][..], 19).unwrap()).unwrap().len(), 3 << 20);
    }

    #[test]
    fn what_the_child_cannot_decode_is_an_error_with_its_words() {
        let packed = zstd::encode_all(&b"text".repeat(1000)[..], 3).unwrap();
        for damaged in [&packed[..packed.len() - 1], b"no frame at all", &packed[1..]] {
            let error = through(damaged).unwrap_err();
            assert!(!error.to_string().is_empty() && !error.to_string().contains("ended early"), "{error}");
        }
    }

    #[test]
    fn a_child_that_is_gone_is_an_error() {
        let ((input, to_child), (output, from_child)) = (pipe().unwrap(), pipe().unwrap());
        drop((input, from_child));
        let mut turns = Turns { source: &b"x"[..], input: to_child, output, left: 0, is_done: false };
        assert!(turns.read(&mut [0; 8]).unwrap_err().to_string().contains("ended early"));
    }
}
