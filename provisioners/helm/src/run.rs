//! One run of Helm, from its start to its last word.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rukpak_content::{Limit, LimitExceeded, Limits};
use rukpak_sandbox::{Calls, Resources, Sandbox};
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::child::{CHILD, NOT_STARTED};
use super::{Error, Rendered, VALUES};

const MIB: u64 = 1024 * 1024;
/// Address space that Go's runtime sets aside and never writes to.
const RUNTIME_BYTES: u64 = 2048 * MIB;
/// Of what Helm says on stderr: a thousand templates that call each other are in it.
const COMPLAINT_BYTES: u64 = 256 * 1024;
/// Of a refusal, from its beginning and from its end.
const SHOWN_BYTES: usize = 2 * 1024;
const OPEN_FILES: u64 = 64;
/// What Helm begins the line with that says why.
const ERROR: &str = "Error: ";
/// What Go's runtime says when it ends the process because it gets no memory.
const OUT_OF_MEMORY: [&str; 4] =
    ["out of memory", "cannot allocate memory", "failed to create new OS thread", "failed to reserve"];

/// Runs `helm` in `folder`, the only one that it sees.
pub(super) async fn run(
    program: &Path,
    helm: &Path,
    arguments: &[OsString],
    folder: &Path,
    limits: &Limits,
) -> Result<Rendered, Error> {
    let failed = |source| Error::Run { program: helm.to_owned(), source };
    let sandbox = sandbox(helm, folder, limits).argument().map_err(|error| failed(io::Error::other(error)))?;
    let mut child = Command::new(program)
        .args([CHILD, &sandbox])
        .arg(helm)
        .args(arguments)
        .env_clear()
        .env("HOME", folder)
        .env("HELM_CACHE_HOME", folder.join("cache"))
        .env("HELM_CONFIG_HOME", folder.join("config"))
        .env("HELM_DATA_HOME", folder.join("data"))
        // The collector works harder before the kernel refuses memory.
        .env("GOMEMLIMIT", (limits.child_bytes / 4 * 3).to_string())
        .env("GOMAXPROCS", "1")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let seconds = limits.check_time;
    let Ok(ended) = tokio::time::timeout(seconds, listen(&mut child, limits.manifest_bytes)).await else {
        return Err(exceeded(Limit::CheckTime, seconds.as_secs()));
    };
    let (manifest, complaint, status) = ended.map_err(failed)?;
    match status {
        None => Err(exceeded(Limit::ManifestBytes, limits.manifest_bytes)),
        Some(status) if status.success() => Ok(Rendered { manifest, warnings: complaint }),
        Some(status) => Err(died(status, &complaint, helm, limits)),
    }
}

/// What the child says on both pipes, and how it ends; no status if it says more than it may, and then it has not ended.
async fn listen(child: &mut Child, most: u64) -> io::Result<(Vec<u8>, String, Option<ExitStatus>)> {
    // One more than it may say, so that more is seen.
    let (manifest, complaint) = (read(child.stdout.take(), most + 1), read_complaint(child.stderr.take()));
    tokio::pin!(manifest, complaint);
    let mut said = None;
    let manifest = loop {
        tokio::select! {
            manifest = &mut manifest => break manifest?,
            text = &mut complaint, if said.is_none() => said = Some(text),
        }
    };
    if manifest.len() as u64 > most {
        return Ok((Vec::new(), String::new(), None));
    }
    let said = match said {
        Some(said) => said,
        None => complaint.await,
    };
    Ok((manifest, said, Some(child.wait().await?)))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// The beginning of what it complains of. It never waits for somebody to read the rest.
async fn read_complaint(mut pipe: Option<impl AsyncRead + Unpin>) -> String {
    let text = read(pipe.as_mut(), COMPLAINT_BYTES).await.unwrap_or_default();
    if let Some(mut pipe) = pipe {
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    let is_shown = |letter: &char| *letter == '\n' || !letter.is_control();
    String::from_utf8_lossy(&text).trim().chars().filter(is_shown).collect()
}

fn sandbox(helm: &Path, folder: &Path, limits: &Limits) -> Sandbox {
    let resources = Resources {
        memory_bytes: limits.child_bytes,
        address_space_bytes: limits.child_bytes + RUNTIME_BYTES,
        file_bytes: 0,
        // Go passes over the signal that says so, and the next one tells nothing: the clock is to be first.
        processor_seconds: limits.check_time.as_secs() + 1,
        open_files: OPEN_FILES,
    };
    Sandbox {
        readable: vec![folder.to_owned()],
        executable: vec![helm.to_owned()],
        ..Sandbox::new(Calls::Program, resources)
    }
}

fn died(status: ExitStatus, complaint: &str, helm: &Path, limits: &Limits) -> Error {
    if OUT_OF_MEMORY.iter().any(|text| complaint.contains(text)) && status.code() != Some(1) {
        return exceeded(Limit::ChildBytes, limits.child_bytes);
    }
    match (status.code(), status.signal().and_then(Signal::from_named_raw)) {
        (Some(1), _) => Error::Refused(refusal(complaint)),
        (Some(code), _) if code == i32::from(NOT_STARTED) => {
            Error::Run { program: PathBuf::from(helm), source: io::Error::other(complaint.to_owned()) }
        }
        (_, Some(Signal::KILL)) => Error::Died { status, hint: ", perhaps out of memory".to_owned() },
        _ if complaint.is_empty() => Error::Died { status, hint: String::new() },
        _ => Error::Died { status, hint: format!(": {}", shortened(complaint)) },
    }
}

/// Why Helm refuses a chart, in its words, without what it warned of before, and without advice that is of no use here.
fn refusal(complaint: &str) -> String {
    let begin = complaint.rfind(&format!("\n{ERROR}")).map_or(0, |place| place + 1);
    let text = complaint.get(begin..).unwrap_or(complaint);
    let text = text.strip_prefix(ERROR).unwrap_or(text);
    // The file is ours; a chart's own is "cannot load".
    let text = text.replacen(&format!("failed to parse {VALUES}"), "failed to parse spec.config.values", 1);
    shortened(text.split("\n\nUse --debug").next().unwrap_or(&text).trim())
}

/// Where it began, and what it came to.
fn shortened(text: &str) -> String {
    if text.len() <= 2 * SHOWN_BYTES {
        return text.to_owned();
    }
    let begin = text.floor_char_boundary(SHOWN_BYTES);
    let end = text.ceil_char_boundary(text.len() - SHOWN_BYTES);
    format!("{} … {}", &text[..begin], &text[end..])
}

fn exceeded(limit: Limit, maximum: u64) -> Error {
    LimitExceeded { limit, maximum, place: "its templates".to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_why_helm_refuses_and_nothing_else() {
        let text = "coalesce.go:1: warning: a\nError: execution error at (a/b.yaml:1:2): no\n\nUse --debug flag to render out invalid YAML";
        assert_eq!(refusal(text), "execution error at (a/b.yaml:1:2): no");
        assert_eq!(refusal("Error: values don't meet\na:\n- b"), "values don't meet\na:\n- b");
        assert_eq!(refusal("Error: failed to parse values.yaml: no"), "failed to parse spec.config.values: no");
        assert_eq!(refusal("Error: cannot load values.yaml: no"), "cannot load values.yaml: no");
        assert_eq!(refusal("something else"), "something else");
        let long = refusal(&format!("Error: first{}last", "ü".repeat(100_000)));
        assert!(long.len() < 5_000 && long.starts_with("first") && long.ends_with("last"), "{}", long.len());
    }
}
