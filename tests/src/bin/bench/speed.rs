//! From the creation of a BundleDeployment to `Installed`, beside a bare client that sends the same writes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;
use rukpak_content::Limits;
use rukpak_source::Egress;
use rukpak_source::git::{self, Fetcher, FetcherOptions};
use rukpak_source::image::{Credentials, Puller, PullerOptions};
use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world::{self, World};
use rukpak_tests::{ImageBuilder, fixtures, tools};
use serde_json::{Value, json};

use super::bare::{self, Pattern};
use super::created;
use super::report::{Row, Target, Unit, median, range};
use super::requests::Counts;

/// Between two runs, for what a run leaves behind to come to rest: garbage collector, watches, etcd.
const REST: Duration = Duration::from_millis(700);
/// Text in each ConfigMap.
const TEXT_BYTES: usize = 200;
/// Installations that are not measured: connections, caches, and the pattern of the writes.
const WARM_UPS: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Git,
}

/// What is measured, and what came of it.
struct Case {
    kind: Kind,
    objects: usize,
    pattern: Option<Pattern>,
    system: Vec<Duration>,
    bare: Vec<Duration>,
    pull: Vec<Duration>,
}

/// The peers of a run.
struct Bench<'a> {
    world: &'a World,
    admin: Client,
    account: Client,
    puller: Puller,
    fetcher: Fetcher,
    _folder: tempfile::TempDir,
}

/// One bundle, pushed.
struct Pushed {
    name: String,
    namespace: String,
    files: Vec<(String, String)>,
    source: Value,
}

/// Measures all cases, turn by turn, so that a slow minute of the machine hits each alike.
pub(crate) async fn measure(rounds: usize) -> Result<Vec<Row>> {
    eprintln!("bench: create -> Installed");
    let world = World::start(Vec::new()).await?;
    let bench = Bench::new(&world).await?;
    let mut cases: Vec<Case> = [(Kind::Image, 10), (Kind::Git, 10), (Kind::Image, 500), (Kind::Git, 500)]
        .map(|(kind, objects)| Case::new(kind, objects))
        .into();
    for case in &mut cases {
        for _ in 0..WARM_UPS {
            case.pattern = Some(bench.pattern(case).await?);
            bench.bare(case).await?;
        }
    }
    for round in 1..=rounds {
        eprintln!("bench: round {round} of {rounds}");
        for case in &mut cases {
            let (pushed, time) = bench.system(case).await?;
            case.system.push(time);
            case.pull.push(bench.pull(&pushed, case.kind).await?);
            let time = bench.bare(case).await?;
            case.bare.push(time);
        }
    }
    Ok(cases.iter().map(Case::row).collect())
}

impl Case {
    fn new(kind: Kind, objects: usize) -> Self {
        Self { kind, objects, pattern: None, system: Vec::new(), bare: Vec::new(), pull: Vec::new() }
    }

    fn row(&self) -> Row {
        let (measured, bare, pull) = (median(&self.system), median(&self.bare), median(&self.pull));
        let (most, how) = if self.objects < 100 {
            (bare + 150.0, "bare client + 150 ms")
        } else {
            (1.3 * bare + pull, "1.3 x bare client + pull")
        };
        let kind = if self.kind == Kind::Image { "image" } else { "git" };
        let writes = self.pattern.as_ref().map_or(0, |pattern| pattern.bundle_writes + pattern.deployment_writes);
        Row {
            what: format!("create -> Installed, {} objects, {kind}", self.objects),
            measured,
            unit: Unit::Milliseconds,
            target: Some(Target::AtMost(most)),
            note: format!(
                "{how}; {} ms, bare {bare:.0} ms ({}), {writes} status writes each, pull {pull:.0} ms",
                range(&self.system),
                range(&self.bare)
            ),
        }
    }
}

impl<'a> Bench<'a> {
    async fn new(world: &'a World) -> Result<Self> {
        let folder = tools::temp_folder("bench")?;
        let limits = Limits::default();
        let mut options = PullerOptions::new(folder.path().to_owned(), limits.clone());
        options.egress = Egress::anywhere();
        options.extra_ca_pem = world.registry.ca_pem().into_bytes();
        let fetcher = Fetcher::new(FetcherOptions {
            program: tools::workspace_binary("rukpak-controller")?,
            arguments: vec!["git-child".to_owned()],
            limits,
            stage_dir: folder.path().to_owned(),
            extra_ca_pem: Some(world.git.ca_pem()),
            egress: Egress::anywhere(),
        });
        Ok(Self {
            world,
            admin: world.plane.admin().await?,
            account: world.plane.as_account(CONTROLLER_ACCOUNT).await?,
            puller: Puller::new(options)?,
            fetcher,
            _folder: folder,
        })
    }

    /// A new bundle of ConfigMaps where the controller finds it.
    async fn push(&self, case: &Case) -> Result<Pushed> {
        let name = unique_name("bench");
        let namespace = verbs::namespace(&self.admin, "bench").await?;
        let files = fixtures::config_maps(&namespace, &name, case.objects, TEXT_BYTES);
        let source = match case.kind {
            Kind::Image => world::image(&self.world.push(&name, &ImageBuilder::of_files(files.clone())).await),
            Kind::Git => {
                let repository = self.world.git.repository(&name)?;
                let texts: Vec<(&str, &str)> =
                    files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
                repository.write(&texts)?.commit("v1")?;
                repository.light_tag("v1")?;
                json!({"type": "git", "git": {"repository": self.world.git.url(&name), "ref": {"tag": "v1"}}})
            }
        };
        tokio::time::sleep(REST).await;
        Ok(Pushed { name, namespace, files, source })
    }

    /// Runs the system once.
    async fn system(&self, case: &Case) -> Result<(Pushed, Duration)> {
        let pushed = self.push(case).await?;
        let deployment = world::deployment(&pushed.name, pushed.source.clone());
        let expected = Expected::is_true("Installed", "InstallationSucceeded");
        let time = created::until(&self.admin, &deployment, expected).await?;
        Ok((pushed, time))
    }

    /// Runs the bare client once.
    async fn bare(&self, case: &Case) -> Result<Duration> {
        let pattern = case.pattern.as_ref().context("the bare client runs after the system")?;
        let Pushed { name, namespace, files, source } = self.push(case).await?;
        bare::install(&self.account, &name, &namespace, &source, &files, pattern).await
    }

    /// Runs the system once and looks at what it wrote.
    async fn pattern(&self, case: &Case) -> Result<Pattern> {
        let before = Counts::read(&self.admin).await?;
        let (Pushed { name, .. }, _) = self.system(case).await?;
        let counts = Counts::read(&self.admin).await?.since(before);
        eprintln!("bench: {} objects: {counts:?}", case.objects);
        let deployment = created::api(&self.admin, "BundleDeployment").get(&name).await?;
        let active = deployment.data.pointer("/status/activeBundle").and_then(Value::as_str);
        let bundle = created::api(&self.admin, "Bundle").get(active.context("no active Bundle")?).await?;
        Ok(Pattern {
            bundle_status: bundle.data["status"].clone(),
            bundle_writes: counts.bundle_status,
            deployment_status: deployment.data["status"].clone(),
            deployment_writes: counts.deployment_status,
        })
    }

    /// Brings the source into a stage, as the controller does, and nothing more.
    async fn pull(&self, pushed: &Pushed, kind: Kind) -> Result<Duration> {
        let start = Instant::now();
        match kind {
            Kind::Image => {
                let reference = pushed.source["image"]["ref"].as_str().unwrap_or_default();
                let logins = Credentials::default();
                let image = self.puller.resolve(reference, &logins).await?;
                self.puller.fetch(&image, &logins).await?;
            }
            Kind::Git => {
                let request = git::Request {
                    repository: self.world.git.url(&pushed.name),
                    reference: git::Reference::Tag("v1".to_owned()),
                    directory: None,
                    auth: git::Auth::None,
                    insecure_skip_verify: false,
                    strict_host_keys: false,
                };
                let resolved = self.fetcher.resolve(request).await?;
                self.fetcher.fetch(resolved).await?;
            }
        }
        Ok(start.elapsed())
    }
}
