#![doc = include_str!("../README.md")]

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rukpak_content::{BundleTree, Entry, LimitExceeded, Limits};
use tempfile::TempDir;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinError, spawn_blocking};

mod child;
mod line;
mod run;

pub use child::enter;
use line::Line;

/// The program, where nobody says another.
const PROGRAM: &str = "helm";
/// Charts that are rendered at once: each takes a child with up to `--limit=child-bytes`.
const AT_ONCE: usize = 2;
/// The folder of the child, and what is in it.
const PREFIX: &str = "helm-";
const CHART: &str = "chart";
const VALUES: &str = "values.yaml";

/// Renders charts with the program Helm.
pub struct Helm {
    /// This program, which the child is at first.
    program: PathBuf,
    /// Helm; `None` if it was not found.
    executable: Option<PathBuf>,
    line: Line,
}

/// The right to render one chart now.
pub struct Turn<'a> {
    program: &'a Path,
    executable: &'a Path,
    _permit: OwnedSemaphorePermit,
}

/// How a chart is rendered.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `.Release.Name`.
    pub release: String,
    /// `.Release.Namespace`.
    pub namespace: String,
    /// Values in place of those of the chart, as YAML.
    pub values: Option<String>,
    /// What the cluster can do; `None`: what Helm takes a cluster for.
    pub capabilities: Option<Capabilities>,
}

/// What the templates are told of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// `gitVersion` of the API server.
    pub kubernetes: String,
    /// What is served: `apps/v1`, `apps/v1/Deployment`.
    pub api_versions: BTreeSet<String>,
}

/// What Helm says.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// YAML documents: objects, also those of `crds/`, and hooks.
    pub manifest: Vec<u8>,
    /// What it warns of.
    pub warnings: String,
}

/// Why a chart is not rendered. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no Helm.
    #[error("render the chart: there is no program {PROGRAM} beside {}, nor in PATH: install Helm 3, or say where it is (--helm)", .0.display())]
    NoHelm(PathBuf),
    /// Others take long.
    #[error("render the chart: {AT_ONCE} other charts are being rendered, and take long (--limit=check-seconds)")]
    Busy,
    /// The folder of the child could not be made.
    #[error("render the chart: write {}", path.display())]
    Folder {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The child could not be started or talked to.
    #[error("render the chart: run {}", program.display())]
    Run {
        /// What was to be run.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The chart takes more than it may.
    #[error("render the chart")]
    Limit(#[from] LimitExceeded),
    /// Helm does not render it. Holds Helm's words.
    #[error("render the chart: {0}")]
    Refused(String),
    /// The child ended in another way.
    #[error("render the chart: Helm ended with {status}{hint}")]
    Died {
        /// How.
        status: ExitStatus,
        /// What it last said, or what that usually means.
        hint: String,
    },
    /// The task that wrote the chart ended without a result.
    #[error("render the chart: the worker thread ended early")]
    Worker(#[from] JoinError),
}

impl Error {
    /// Whether the chart is at fault, or its values: the same would be refused again.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Limit(_) | Self::Refused(_))
    }
}

impl Helm {
    /// Runs the Helm at `helm`; else the one beside `program`, which is this program; else the one in `PATH`.
    pub fn find(program: PathBuf, helm: Option<PathBuf>) -> Self {
        let beside = program.parent().map(|folder| folder.join(PROGRAM));
        let path = env::var_os("PATH").unwrap_or_default();
        let in_path = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
        let helm = helm.or_else(|| beside.into_iter().chain(in_path).find(|file| file.is_file()));
        // The child runs in a folder of its own.
        let helm = helm.map(|helm| std::path::absolute(&helm).unwrap_or(helm));
        Self { program, executable: helm, line: Line::new(AT_ONCE) }
    }

    /// The Helm that was found.
    ///
    /// # Errors
    /// There is none.
    pub fn executable(&self) -> Result<&Path, Error> {
        self.executable.as_deref().ok_or_else(|| Error::NoHelm(self.program.clone()))
    }

    /// Waits a moment for the right to render a chart of `who`. Load the chart when you have it: it may be large.
    ///
    /// # Errors
    /// There is no Helm, or [`Error::Busy`]: `enqueue` is called when it is the turn of `who`, which is kept for 10 s.
    pub async fn turn(&self, who: &str, enqueue: impl FnOnce() + Send + 'static) -> Result<Turn<'_>, Error> {
        let executable = self.executable()?;
        let permit = self.line.permit(who, enqueue).await.ok_or(Error::Busy)?;
        Ok(Turn { program: &self.program, executable, _permit: permit })
    }
}

impl Turn<'_> {
    /// Renders the chart in `folder` of `tree`. The child's own folder is made in `stage`. See [`Limits::child_bytes`],
    /// [`Limits::check_time`] and [`Limits::manifest_bytes`].
    ///
    /// # Errors
    /// Those of Helm and of the limits are final; others are not the chart's fault.
    pub async fn render(
        self,
        tree: BundleTree,
        folder: &str,
        request: Request,
        stage: &Path,
        limits: &Limits,
    ) -> Result<Rendered, Error> {
        let (stage, values) = (stage.to_owned(), request.values.clone().unwrap_or_default());
        let private = spawn_blocking(move || write(&tree, &values, &stage)).await??;
        let arguments = arguments(folder, &request);
        let rendered = run::run(self.program, self.executable, &arguments, private.path(), limits).await;
        spawn_blocking(move || drop(private)).await?;
        rendered
    }
}

/// Writes what the child reads into a folder of its own.
fn write(tree: &BundleTree, values: &str, stage: &Path) -> Result<TempDir, Error> {
    let failed = |path: &Path, source| Error::Folder { path: path.to_owned(), source };
    let private = tempfile::Builder::new().prefix(PREFIX).tempdir_in(stage).map_err(|source| failed(stage, source))?;
    let chart = private.path().join(CHART);
    fs::create_dir(&chart).map_err(|source| failed(&chart, source))?;
    for (path, entry) in tree.iter() {
        // Relative, without `..`, and none is a link.
        let path = chart.join(path.as_str());
        let written = match entry {
            Entry::Directory => fs::create_dir(&path),
            Entry::File { body, .. } => fs::write(&path, body),
        };
        written.map_err(|source| failed(&path, source))?;
    }
    let path = private.path().join(VALUES);
    fs::write(&path, values).map_err(|source| failed(&path, source))?;
    Ok(private)
}

/// Hooks are rendered as well: who does not run them has to know of them.
fn arguments(folder: &str, request: &Request) -> Vec<OsString> {
    let chart = if folder.is_empty() { format!("./{CHART}") } else { format!("./{CHART}/{folder}") };
    let fixed =
        ["template", &request.release, &chart, "--namespace", &request.namespace, "--values", VALUES, "--include-crds"];
    let mut arguments: Vec<OsString> = fixed.map(OsString::from).into();
    if let Some(Capabilities { kubernetes, api_versions }) = &request.capabilities {
        arguments.push(format!("--kube-version={kubernetes}").into());
        arguments.extend(api_versions.iter().map(|served| format!("--api-versions={served}").into()));
    }
    arguments
}
