//! How much of an upload is sent: a line that changes where somebody looks, else one line at the beginning. On stderr.

use std::io::{self, IsTerminal as _, Write as _};

use crate::output::to_stderr;

pub struct Progress {
    what: String,
    total_bytes: u64,
    sent_bytes: u64,
    shown: Option<u64>,
    is_terminal: bool,
}

impl Progress {
    /// Begins to tell of `total_bytes`.
    pub fn start(what: String, total_bytes: u64) -> Self {
        let mut progress =
            Self { what, total_bytes, sent_bytes: 0, shown: None, is_terminal: io::stderr().is_terminal() };
        if progress.is_terminal {
            progress.show();
        } else {
            to_stderr(&format!("{}: {}", progress.what, size(total_bytes)));
        }
        progress
    }

    /// So much more was sent.
    pub fn add(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        if self.is_terminal {
            self.show();
        }
    }

    fn show(&mut self) {
        let percent = percent(self.sent_bytes, self.total_bytes);
        if self.shown.replace(percent) != Some(percent) {
            let mut err = io::stderr();
            // Nobody may be listening.
            let _ = write!(err, "\r\x1b[K{}: {percent}% of {}", self.what, size(self.total_bytes));
            let _ = err.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            to_stderr("");
        }
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    (part.min(whole) * 100).checked_div(whole).unwrap_or(100)
}

fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        0..KIB => format!("{bytes} bytes"),
        KIB..0x10_0000 => format!("{} KiB", bytes / KIB),
        _ => format!("{}.{} MiB", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares_are_told_in_whole_numbers() {
        for (bytes, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (3 << 19, "1.5 MiB")] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!([percent(0, 0), percent(1, 3), percent(3, 3), percent(4, 3)], [100, 33, 100, 100]);
    }
}
