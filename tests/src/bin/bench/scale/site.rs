//! Where it is measured, and what its processes have used.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::Client;
use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::world::World;
use rukpak_tests::{TestCa, metrics, tools, verbs};

use super::profile::Recording;
use crate::{memory, requests};

/// Ticks of a second in `/proc/<pid>/stat`.
const TICKS: f64 = 100.0;

/// A cluster, and hands.
pub struct Site {
    pub world: World,
    /// With all rights.
    pub admin: Client,
    /// As the controller.
    pub account: Client,
    /// Where objects go.
    pub namespace: String,
    /// Whom the controller believes beside the world's servers.
    pub ca: TestCa,
    /// Where stacks are kept for flame graphs, if anywhere.
    perf: Option<PathBuf>,
    _folder: tempfile::TempDir,
}

/// Verbs with resources that are named, those with the most requests first.
const NAMED: usize = 10;

/// CPU seconds by process, and requests. Of the process that runs: a restart begins at zero.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    seconds: BTreeMap<&'static str, f64>,
    /// Those of the controller, by verb.
    requests: BTreeMap<String, f64>,
    /// Those that the API server has answered, whoever asked, by verb and resource.
    answered: BTreeMap<String, f64>,
}

impl Site {
    /// With the arguments of the manifests.
    pub async fn start(perf: Option<PathBuf>) -> Result<Self> {
        let (ca, folder) = (TestCa::new("bench-ca")?, tools::temp_folder("bench")?);
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, ca.pem()).context("write a CA")?;
        let world =
            World::start(vec!["--leader-elect".to_owned(), format!("--source-ca-file={}", file.display())]).await?;
        let (admin, account) = (world.plane.admin().await?, world.plane.as_account(CONTROLLER_ACCOUNT).await?);
        let namespace = verbs::namespace(&admin, "bench").await?;
        Ok(Self { world, admin, account, namespace, ca, perf, _folder: folder })
    }

    /// Samples the controller's stacks until the recording is ended, and the API server's at its beginning.
    pub fn record(&self, name: &str) -> Result<Recording> {
        let pid = self.world.controller.pid().context("the controller does not run")?;
        Recording::begin(self.perf.as_deref(), name, pid, &self.admin)
    }

    /// What was used so far.
    pub async fn usage(&self) -> Result<Usage> {
        let pids = self.world.plane.pids()?;
        let controller = self.world.controller.pid().context("the controller does not run")?;
        let apiserver = pids.kube_apiserver.context("the API server does not run")?;
        let processes = [("controller", controller), ("kube-apiserver", apiserver), ("etcd", pids.etcd)];
        let seconds = processes.into_iter().map(|(name, pid)| Ok((name, cpu_seconds(pid)?))).collect::<Result<_>>()?;
        let text = metrics::text(&self.world.controller).await?;
        let mut requests: BTreeMap<String, f64> = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("rukpak_api_requests_total{")) {
            let (labels, value) = line.rsplit_once("} ").context("a metric without a value")?;
            let verb = labels.split("verb=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            *requests.entry(verb.to_owned()).or_default() += value.parse::<f64>().context("a count")?;
        }
        Ok(Usage { seconds, requests, answered: self.answered().await? })
    }

    /// What the API server has answered so far, as its own counters say.
    async fn answered(&self) -> Result<BTreeMap<String, f64>> {
        let mut answered = BTreeMap::new();
        for (labels, count) in requests::answered(&self.admin).await? {
            let label = |name: &str| labels.split(&format!("{name}=\"")).nth(1)?.split('"').next();
            let (Some(verb), Some(resource)) = (label("verb"), label("resource")) else { continue };
            if verb == "WATCH" || resource.is_empty() {
                continue;
            }
            let sub = label(",subresource").filter(|sub| !sub.is_empty()).map(|sub| format!("/{sub}"));
            let what = format!("{} {resource}{}", verb.to_lowercase(), sub.unwrap_or_default());
            let dry = if labels.contains("dry_run=\"All\"") { " (dry run)" } else { "" };
            *answered.entry(what + dry).or_default() += count;
        }
        Ok(answered)
    }

    /// The controller's peak of resident memory.
    pub fn peak_mebibytes(&self) -> Result<f64> {
        memory::status(&self.world, "VmHWM")
    }
}

impl Usage {
    /// What came since `earlier`, of the same processes.
    pub fn since(mut self, earlier: &Self) -> Self {
        for (name, seconds) in &mut self.seconds {
            *seconds -= earlier.seconds.get(name).copied().unwrap_or_default();
        }
        for (verb, count) in &mut self.requests {
            *count -= earlier.requests.get(verb).copied().unwrap_or_default();
        }
        for (what, count) in &mut self.answered {
            *count -= earlier.answered.get(what).copied().unwrap_or_default();
        }
        self
    }

    /// Requests of the controller, watches left out.
    pub fn requests(&self) -> f64 {
        self.requests.iter().filter(|(verb, _)| *verb != "watch").map(|(_, count)| count).sum()
    }

    /// Requests of the controller that write.
    pub fn writes(&self) -> f64 {
        self.requests() - self.requests.get("get").copied().unwrap_or_default()
    }

    /// CPU seconds of the process of that name.
    pub fn seconds_of(&self, process: &str) -> f64 {
        self.seconds.get(process).copied().unwrap_or_default()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds: Vec<String> = self.seconds.iter().map(|(name, value)| format!("{name} {value:.1} s")).collect();
        let counts = self.requests.iter().filter(|(_, count)| **count > 0.0);
        let counts: Vec<String> = counts.map(|(verb, count)| format!("{count:.0} {verb}")).collect();
        let mut answered: Vec<_> = self.answered.iter().filter(|(_, count)| **count > 0.0).collect();
        answered.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let answered: Vec<String> =
            answered.into_iter().take(NAMED).map(|(what, count)| format!("{count:.0} {what}")).collect();
        write!(f, "CPU: {}; requests: {}", seconds.join(", "), counts.join(", "))?;
        write!(f, "; the API server answered everybody: {}", answered.join(", "))
    }
}

fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // Behind the name, which may hold anything: the fields from the third on; user and system time are the 14th and 15th.
    let rest = text.rsplit_once(") ").with_context(|| format!("{path} has no name"))?.1;
    let ticks: Vec<f64> = rest.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS)
}
