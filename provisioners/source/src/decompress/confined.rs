//! Zstandard in a process of its own. The decoder is C, and what it reads was written by strangers: it runs in a child that
//! has no token, no files and no network, and gives back bytes.
//!
//! The two sides take turns on one pair of sockets, so that neither waits for room that the other does not make:
//!
//! ```text
//! child  -> MORE                          it waits for input
//! parent -> length, bytes                 at most 64 KiB; none at the end
//! child  -> length, bytes                 as often as there is output, then MORE again
//! child  -> DONE, or FAILED, length, text
//! ```
//!
//! The parent believes none of it but the bytes, which are as untrusted as the stream was. It waits for 30 seconds for a word,
//! and for ten minutes in all; what the network takes does not count.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rukpak_sandbox::{Calls, Resources, Sandbox};

use super::child::{self, CHUNK_BYTES, DONE, FAILED, MORE, TEXT_BYTES, ZSTD_WINDOW_LOG, length_of, read_word};

/// The subcommand of the child.
const CHILD: &str = "zstd-child";

const MIB: u64 = 1024 * 1024;
/// For a window, what the decoder has beside it, and what the program writes to at its start.
const MEMORY_BYTES: u64 = (1 << ZSTD_WINDOW_LOG) + 64 * MIB;
/// Address space for libraries, and for what the allocator sets aside.
const LIBRARY_BYTES: u64 = 256 * MIB;
/// Longer than any bundle within its limits takes.
const MOST_WAIT: Duration = Duration::from_mins(10);
/// For the next word of a child that has what it asked for. It takes milliseconds on a node that has time.
const WORD_WAIT: Duration = Duration::from_secs(30);
const OPEN_FILES: u64 = 16;
/// Of what the child says on stderr.
const COMPLAINT_BYTES: u64 = 1024;

/// The program that is started as the child.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Decompresses, where this program was started as such a child, and gives the code to end with. Where it was not, it has all
/// Zstandard decompressed in children of this program from now on.
///
/// Call it first of all, while there is one thread. A program that does not, such as a test or a fuzz target, decompresses in its
/// own process.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == CHILD) {
        return Some(child::run(arguments.next().as_deref()));
    }
    // Where it cannot be found, starting it says so.
    PROGRAM.get_or_init(|| env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")));
    None
}

pub(super) fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// Why there is no answer of the child: nothing that the stream is known to be at fault for.
#[derive(Debug, thiserror::Error)]
#[error("the process that decompresses Zstandard {0}")]
pub struct Lost(String);

/// A stream that a child decompresses. Dropped, it ends the child.
pub struct Confined<R> {
    turns: Turns<R>,
    child: Child,
}

impl<R: BufRead> Confined<R> {
    /// Starts `program` as the child, which has to call [`enter`].
    ///
    /// # Errors
    /// It cannot be started: [`Lost`] is inside.
    pub fn start(program: &Path, source: R) -> io::Result<Self> {
        let (child, link) = spawn(program).map_err(|error| lost(format!("cannot be started: {error}")))?;
        Ok(Self { turns: Turns::new(source, link), child })
    }

    /// Returns the process id of the child.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The compressed stream.
    pub(super) fn get_ref(&self) -> &R {
        &self.turns.source
    }

    /// Ends the child, and says how it ended: by itself, if it was the first to hang up.
    fn end(&mut self) -> String {
        let _ = self.child.kill();
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => format!("an unknown status: {error}"),
        };
        let mut complaint = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(COMPLAINT_BYTES).read_to_end(&mut complaint);
        }
        let complaint = shown(&complaint);
        if complaint.is_empty() { format!("ended with {status}") } else { format!("ended with {status}: {complaint}") }
    }
}

impl<R: BufRead> Read for Confined<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.turns.read(into).map_err(|trouble| match trouble {
            Trouble::Stream(error) => error,
            Trouble::Silent => lost("does not answer".to_owned()),
            Trouble::Gone => lost(self.end()),
        })
    }
}

impl<R> Drop for Confined<R> {
    fn drop(&mut self) {
        // It may have ended by itself; and nobody else waits for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(WORD_WAIT))?;
    ours.set_write_timeout(Some(WORD_WAIT))?;
    let child = Command::new(program)
        .arg(CHILD)
        .arg(sandbox().argument().map_err(io::Error::other)?)
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs.try_clone()?))
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    Ok((child, ours))
}

/// Computes and nothing else: its sockets are open already.
fn sandbox() -> Sandbox {
    Sandbox::new(
        Calls::Compute,
        Resources {
            memory_bytes: MEMORY_BYTES,
            address_space_bytes: MEMORY_BYTES + LIBRARY_BYTES,
            file_bytes: 0,
            processor_seconds: MOST_WAIT.as_secs(),
            open_files: OPEN_FILES,
        },
    )
}

/// What the child wrote, for an error: one line, without control characters.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim().replace(char::is_control, " ")
}

fn lost(what: String) -> io::Error {
    io::Error::other(Lost(what))
}

/// Why there are no bytes.
#[derive(Debug)]
enum Trouble {
    /// The stream cannot be read or decoded.
    Stream(io::Error),
    /// The child says nothing, or has gone on for too long.
    Silent,
    /// The child has ended, or says what makes no sense.
    Gone,
}

impl Trouble {
    fn of_link(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Gone,
        }
    }
}

/// This side: compressed bytes on the way to a child, and what it makes of them.
struct Turns<R> {
    source: R,
    link: BufReader<UnixStream>,
    /// Bytes of output that the child has announced.
    announced_bytes: usize,
    has_source_ended: bool,
    is_done: bool,
    /// How long the child was waited for.
    waited: Duration,
}

impl<R: BufRead> Turns<R> {
    fn new(source: R, link: UnixStream) -> Self {
        let link = BufReader::with_capacity(CHUNK_BYTES, link);
        Self { source, link, announced_bytes: 0, has_source_ended: false, is_done: false, waited: Duration::ZERO }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Trouble> {
        while self.announced_bytes == 0 && !self.is_done && !into.is_empty() {
            match self.next_word()? {
                // Otherwise a child that asks again and again would be answered for good.
                MORE if self.has_source_ended => return Err(Trouble::Gone),
                MORE => self.feed()?,
                DONE => self.is_done = true,
                FAILED => return Err(self.failure()),
                length => self.announced_bytes = length as usize,
            }
        }

        let most = self.announced_bytes.min(into.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.link.read(&mut into[..most]).map_err(|error| Trouble::of_link(&error))?;
        if count == 0 {
            return Err(Trouble::Gone);
        }
        self.announced_bytes -= count;
        Ok(count)
    }

    fn next_word(&mut self) -> Result<u32, Trouble> {
        let start = Instant::now();
        let word = read_word(&mut self.link).map_err(|error| Trouble::of_link(&error))?;
        self.waited += start.elapsed();
        if self.waited > MOST_WAIT { Err(Trouble::Silent) } else { Ok(word) }
    }

    /// Gives the child the next piece of the stream.
    fn feed(&mut self) -> Result<(), Trouble> {
        let bytes = self.source.fill_buf().map_err(Trouble::Stream)?;
        let bytes = &bytes[..bytes.len().min(CHUNK_BYTES)];
        let (count, length) = (bytes.len(), length_of(bytes).map_err(Trouble::Stream)?);
        let link = self.link.get_mut();
        let written = link.write_all(&length.to_le_bytes()).and_then(|()| link.write_all(bytes));
        written.map_err(|error| Trouble::of_link(&error))?;
        self.source.consume(count);
        self.has_source_ended = count == 0;
        Ok(())
    }

    /// What the child says is wrong with the stream.
    fn failure(&mut self) -> Trouble {
        let text = read_word(&mut self.link).and_then(|length| {
            let mut text = vec![0; (length as usize).min(TEXT_BYTES)];
            self.link.read_exact(&mut text).map(|()| text)
        });
        match text {
            Ok(text) => Trouble::Stream(io::Error::other(shown(&text))),
            Err(error) => Trouble::of_link(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// This side, and a thread that does on the other what `child` does.
    fn with(
        packed: &[u8],
        child: impl FnOnce(UnixStream) + Send + 'static,
    ) -> (Turns<BufReader<&[u8]>>, thread::JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // A few bytes at a time, as the worst network gives them.
        let source = BufReader::with_capacity(7, packed);
        (Turns::new(source, ours), thread::spawn(move || child(theirs)))
    }

    /// What comes out of `packed`, decoded by the child's side on another thread.
    fn read(packed: &[u8]) -> Result<Vec<u8>, Trouble> {
        // Buffered, as stdin is.
        let decode = |link: UnixStream| {
            let _ = child::answer(BufReader::new(link.try_clone().unwrap()), link);
        };
        let (mut turns, child) = with(packed, decode);
        let (mut all, mut bytes) = (Vec::new(), vec![0; 1000]);
        let ended = loop {
            match turns.read(&mut bytes) {
                Ok(0) => break Ok(all),
                Ok(count) => all.extend_from_slice(&bytes[..count]),
                Err(trouble) => break Err(trouble),
            }
        };
        drop(turns);
        child.join().unwrap();
        ended
    }

    #[test]
    fn what_the_child_decodes_comes_back_whole() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let packed = zstd::encode_all(&text[..], 3).unwrap();
        assert_eq!(read(&packed).unwrap(), text);
        let frames = [packed, zstd::encode_all(&b"more"[..], 1).unwrap()].concat();
        assert_eq!(read(&frames).unwrap(), [&text[..], b"more"].concat());
        assert_eq!(read(&zstd::encode_all(&vec![0; 3 << 20][..], 19).unwrap()).unwrap().len(), 3 << 20);
    }

    #[test]
    fn what_the_child_cannot_decode_is_an_error_in_its_words() {
        let packed = zstd::encode_all(&b"text".repeat(1000)[..], 3).unwrap();
        for damaged in [&packed[..packed.len() - 1], b"no frame at all", &packed[1..]] {
            let trouble = read(damaged).unwrap_err();
            assert!(matches!(&trouble, Trouble::Stream(error) if !error.to_string().is_empty()), "{trouble:?}");
        }
    }

    #[test]
    fn a_child_that_is_gone_asks_for_ever_or_says_nothing_is_told_apart() {
        let (mut turns, child) = with(b"x", drop);
        assert!(matches!(turns.read(&mut [0; 8]), Err(Trouble::Gone)));
        child.join().unwrap();

        let ask = |mut link: UnixStream| while link.write_all(&MORE.to_le_bytes()).is_ok() {};
        let (mut turns, child) = with(b"x", ask);
        assert!(matches!(turns.read(&mut [0; 8]), Err(Trouble::Gone)));
        drop(turns);
        child.join().unwrap();

        let (mut turns, child) = with(b"x", |link| {
            let _ = (&link).read(&mut [0; 1]);
        });
        turns.link.get_ref().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(matches!(turns.read(&mut [0; 8]), Err(Trouble::Silent)));
        drop(turns);
        child.join().unwrap();
    }

    #[test]
    fn a_program_that_cannot_be_started_is_no_fault_of_the_stream() {
        let Err(error) = Confined::start(Path::new("/nonexistent/program"), &b"x"[..]) else { panic!("it started") };
        assert!(error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Lost>), "{error}");
    }
}
