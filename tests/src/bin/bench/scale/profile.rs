//! Stacks of the controller while something is measured, for flame graphs: `tests/tools/flame.sh`.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Samples a second. No round number: what happens at round times would be seen too often or never.
const SAMPLES: &str = "197";

/// perf, which writes until it is told to end.
pub struct Recording(Option<Child>);

impl Recording {
    /// Begins to sample the process `pid` into `FOLDER/NAME.perf`; does nothing without a folder.
    ///
    /// # Errors
    /// Where perf is missing or not allowed.
    pub fn begin(folder: Option<&Path>, name: &str, pid: u32) -> Result<Self> {
        let Some(folder) = folder else { return Ok(Self(None)) };
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let file = folder.join(format!("{name}.perf"));
        let child = Command::new("perf")
            .args(["record", "--quiet", "--freq", SAMPLES, "--call-graph", "fp", "--pid", &pid.to_string(), "--output"])
            .arg(&file)
            .stdin(Stdio::null())
            .spawn()
            .context("start perf (Debian package linux-perf)")?;
        Ok(Self(Some(child)))
    }

    /// Ends, and waits until everything is written.
    ///
    /// # Errors
    /// If perf has failed.
    pub fn end(self) -> Result<()> {
        let Some(mut perf) = self.0 else { return Ok(()) };
        let pid = i32::try_from(perf.id()).ok().and_then(Pid::from_raw).context("perf has no pid")?;
        kill_process(pid, Signal::INT).context("perf ended by itself")?;
        let status = perf.wait().context("wait for perf")?;
        // It passes the signal on as its end.
        ensure!(status.success() || status.code().is_none(), "perf ended with {status}");
        Ok(())
    }
}
