//! What is given of a BundleDeployment, and what is decided and reported about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rukpak_crds::{
    BundleDeployment, BundleDeploymentSpec, BundleDeploymentStatus, ContestedField, DeletionPolicy, IgnoredDifference,
    Inventory, Pending, Pin, Progress, ReleasedObject, Revision, RevisionResult, ServiceAccountReference,
};
use rukpak_plan::applied::{Applied, Objects, rendered_for};
use rukpak_plan::health::{Health, State};
use rukpak_plan::memory::{Differences, Memory};
use rukpak_plan::observed::{Dependencies, Desired, Observed};
use rukpak_plan::plan::Missing;
use rukpak_plan::prune::Pruning;
use rukpak_plan::retry::Class;
use rukpak_plan::{Plan, Release};
use serde::Deserialize;
use serde_json::Value;

use super::event::Event;
use super::{Error, told, world};

/// What a reconcile begins with. In the middle of a scenario: what is otherwise than before.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the notation")]
pub struct Given {
    /// How much later it is.
    wait: Option<String>,
    generation: Option<i64>,
    suspend: Option<bool>,
    rollback_to: Option<i64>,
    /// It was set a day ago, if it is given at the beginning.
    progress_deadline: Option<String>,
    deletion_policy: Option<DeletionPolicy>,
    /// The name of a ServiceAccount.
    service_account: Option<String>,
    history_limit: Option<i64>,
    ignore_differences: Option<Vec<IgnoredDifference>>,
    annotations: Option<BTreeMap<String, String>>,
    is_deleted: bool,
    /// Of the BundleDeployment.
    finalizers: Vec<String>,
    dependants: Vec<String>,
    /// The release that was installed and reported an hour ago.
    installed: Option<String>,
    /// `2 v2 Failed -5m: why`, the newest first.
    history: Option<Vec<String>>,
    /// `v2 -10s`.
    pending: Option<String>,
    released: Option<Vec<String>>,
    contested: Option<Vec<String>>,
    renewal: Option<String>,
    /// `v1`, `v1 absent`, `v1 waiting: why`, `v1 failed: why`, `unknown Transient: why`.
    desired: Option<String>,
    /// `some text` or `a -> b -> a`.
    dependencies: Option<String>,
    drifted: Vec<String>,
    is_touched: bool,
    is_unblocked: bool,
    foreign_bundles: Vec<String>,
    unwatched: Vec<String>,
    health_gate: Option<bool>,
    /// Nothing is remembered.
    is_restarted: bool,
    /// Objects that are not healthy, with their complaints.
    unhealthy: Option<BTreeMap<String, String>>,
}

/// Everything that the functions of the crate are given.
pub struct Scene {
    pub observed: Observed,
    pub memory: Memory,
    pub objects: Objects,
    pub now: Timestamp,
}

/// What comes of it.
pub fn outcome(given: Value, after: &[Value]) -> Result<Value, Error> {
    let given: Given = serde_json::from_value(given)?;
    let mut state = Scene::new(&given)?;
    state.begin(&given)?;
    for event in after {
        let event: Event = serde_json::from_value(event.clone())?;
        event.happen(&mut state)?;
    }
    Ok(told::outcome(&state))
}

impl Scene {
    fn new(given: &Given) -> Result<Self, Error> {
        let spec = BundleDeploymentSpec { provisioner_class_name: "core-rukpak-io-plain".into(), ..Default::default() };
        let mut deployment = BundleDeployment::new("app", spec);
        deployment.metadata.uid = Some(world::owner().uid);
        deployment.metadata.generation = Some(1);
        let observed = Observed {
            deployment: Arc::new(deployment),
            status: BundleDeploymentStatus::default(),
            desired: desired("v1")?,
            dependencies: Dependencies::Ready,
            dependants: Vec::new(),
            foreign_bundles: Vec::new(),
            drifted: BTreeSet::new(),
            is_touched: false,
            is_unblocked: false,
            unwatched: Vec::new(),
            health_gate: true,
            proxy: None,
        };
        let mut state =
            Self { observed, memory: Memory::default(), objects: Objects::new(), now: world::at(world::now(), "-1h")? };
        if let Some(installed) = &given.installed {
            state.observed.desired = desired(installed)?;
            let release = world::release(installed);
            if let Some(due) = &given.renewal {
                let due = Some(world::at(world::now(), due)?.into());
                let plan = Plan { certificates_due: due, ..world::plan(&release, Vec::new()) };
                state.memory.learn_begun(&state.observed, &plan);
            }
            state.applied(&release, Pruning::Done, Differences::default(), Vec::new())?;
            state.report();
        }
        state.now = world::now();
        if given.is_restarted {
            state.memory = Memory::default();
        }
        state.record(given)?;
        Ok(state)
    }

    /// What the status says beside what came about by itself.
    fn record(&mut self, given: &Given) -> Result<(), Error> {
        if let Some(lines) = &given.history {
            self.observed.status.history =
                lines.iter().map(|line| revision(line, self.now)).collect::<Result<_, Error>>()?;
        }
        if let Some(deadline) = given.progress_deadline.clone().filter(|_| given.suspend != Some(true)) {
            let since = world::at(self.now, "-24h")?;
            self.observed.status.progress = Some(Progress { deadline, since });
        }
        if let Some(pending) = &given.pending {
            let (release, since) = pending.split_once(' ').ok_or("pending: a release and a time")?;
            let (release, since) = (world::release(release).record(), world::at(self.now, since)?);
            let pending = Pending { release, since, migrations: Vec::new(), hooks: Vec::new() };
            self.inventory().pending = Some(pending);
        }
        if let Some(lines) = &given.released {
            self.inventory().released = lines.iter().map(|line| released(line)).collect::<Result<_, Error>>()?;
        }
        if let Some(lines) = &given.contested {
            self.inventory().contested = lines.iter().map(|line| contested(line)).collect::<Result<_, Error>>()?;
        }
        if let Some(due) = &given.renewal {
            self.inventory().certificates_renewal = Some(world::at(self.now, due)?);
        }
        Ok(())
    }

    pub fn inventory(&mut self) -> &mut Inventory {
        self.observed.status.inventory.get_or_insert_default()
    }

    /// Another reconcile begins.
    pub fn again(&mut self, given: &Given) -> Result<(), Error> {
        let is_past = given.installed.is_some() || given.history.is_some() || given.released.is_some();
        let is_recorded = given.pending.is_some() || given.contested.is_some() || given.renewal.is_some();
        if is_past || is_recorded {
            return Err("what the status says can be given at the beginning only".into());
        }
        self.begin(given)
    }

    /// A reconcile begins: as the controller observes.
    fn begin(&mut self, given: &Given) -> Result<(), Error> {
        if let Some(wait) = &given.wait {
            self.now = world::at(self.now, wait)?;
        }
        self.deploy(given)?;
        if given.is_restarted {
            (self.memory, self.objects) = (Memory::default(), Objects::new());
        }
        if let Some(text) = &given.desired {
            self.observed.desired = desired(text)?;
        }
        self.observed.dependencies = match &given.dependencies {
            None => Dependencies::Ready,
            Some(circle) if circle.contains(" -> ") => {
                Dependencies::Cycle(circle.split(" -> ").map(str::to_owned).collect())
            }
            Some(text) => Dependencies::NotReady(text.clone()),
        };
        self.observed.drifted = given.drifted.iter().map(|name| world::key(name)).collect();
        (self.observed.is_touched, self.observed.is_unblocked) = (given.is_touched, given.is_unblocked);
        self.observed.dependants.clone_from(&given.dependants);
        self.observed.foreign_bundles.clone_from(&given.foreign_bundles);
        self.observed.unwatched.clone_from(&given.unwatched);
        self.observed.health_gate = given.health_gate.unwrap_or(self.observed.health_gate);
        if let Some(unhealthy) = &given.unhealthy {
            self.ail(unhealthy)?;
        }
        let now = self.now;
        self.memory.refresh(&self.observed, now);
        self.notice_deadline();
        Ok(())
    }

    /// The controller asks before each decision.
    pub fn notice_deadline(&mut self) {
        self.memory.notice_deadline(&self.observed, &self.objects, self.now);
    }

    fn deploy(&mut self, given: &Given) -> Result<(), Error> {
        let mut deployment = (*self.observed.deployment).clone();
        let (metadata, spec) = (&mut deployment.metadata, &mut deployment.spec);
        metadata.generation = given.generation.or(metadata.generation);
        if let Some(annotations) = &given.annotations {
            let name = |key: &str| if key.contains('/') { key.to_owned() } else { format!("core.rukpak.io/{key}") };
            let annotations = annotations.iter().map(|(key, value)| (name(key), value.clone()));
            metadata.annotations = Some(annotations.collect());
        }
        metadata.finalizers = Some(given.finalizers.clone());
        if given.is_deleted {
            metadata.deletion_timestamp = Some(serde_json::from_value(Value::from(self.now.to_string()))?);
        }
        spec.suspend = given.suspend.unwrap_or(spec.suspend);
        spec.rollback_to = given.rollback_to.or(spec.rollback_to).filter(|revision| *revision > 0);
        spec.progress_deadline = given.progress_deadline.clone().or(spec.progress_deadline.take());
        spec.deletion_policy = given.deletion_policy.or(spec.deletion_policy);
        let account =
            given.service_account.clone().map(|name| ServiceAccountReference { name, namespace: "ns".into() });
        spec.service_account = account.or(spec.service_account.take());
        spec.ignore_differences =
            given.ignore_differences.clone().unwrap_or(std::mem::take(&mut spec.ignore_differences));
        spec.revision_history_limit = given.history_limit.or(spec.revision_history_limit);
        self.observed.deployment = Arc::new(deployment);
        Ok(())
    }

    /// These objects are not healthy, and all others are.
    pub fn ail(&mut self, unhealthy: &BTreeMap<String, String>) -> Result<(), Error> {
        for object in self.objects.values_mut() {
            (object.health, object.is_read) = (Health::new(State::Current, ""), true);
        }
        for (name, message) in unhealthy {
            let object = self.objects.get_mut(&world::key(name)).ok_or_else(|| format!("{name} is not applied"))?;
            object.health = Health::new(State::InProgress, message.clone());
        }
        Ok(())
    }

    /// Everything of a release is applied.
    pub fn applied(
        &mut self,
        release: &Release,
        pruning: Pruning,
        differences: Differences,
        missing: Vec<Missing>,
    ) -> Result<(), Error> {
        self.objects = world::objects(release, self.now);
        let plan = world::plan(release, missing);
        let spec = BundleDeploymentSpec {
            deletion_policy: Some(differences.policy),
            service_account: differences.account.as_deref().cloned(),
            ignore_differences: differences.ignored.clone(),
            ..BundleDeploymentSpec::default()
        };
        let renderer = rendered_for(world::RENDERER, &spec);
        let applied = Applied::by(&plan, &renderer, &self.objects, |_| false).ok_or("not whole")?;
        self.memory.learn_applied(applied, pruning, differences, self.now);
        Ok(())
    }

    /// The status is written.
    pub fn report(&mut self) {
        let report =
            rukpak_plan::status::status(&self.observed, &self.observed.status, &self.memory, &self.objects, self.now);
        self.observed.status = report.status;
    }
}

pub fn class(text: &str) -> Result<Class, Error> {
    [Class::Conflict, Class::Transient, Class::Blocked, Class::Terminal]
        .into_iter()
        .find(|class| format!("{class:?}") == text)
        .ok_or_else(|| format!("{text:?} is no class").into())
}

fn desired(text: &str) -> Result<Desired, Error> {
    let (words, message) = match text.split_once(": ") {
        Some((words, message)) => (words, Some(message.to_owned())),
        None => (text, None),
    };
    let (what, how) = words.split_once(' ').unwrap_or((words, ""));
    let bundle = format!("app-{}", what.replace('@', "-"));
    let hash = format!("hash-{}", what.split('@').next().unwrap_or_default());
    Ok(match (what, how) {
        ("unknown", how) => Desired::Unknown { message: message.unwrap_or_default(), class: class(how)? },
        (_, "absent") => Desired::Absent { bundle, hash },
        (_, "waiting") => Desired::Waiting { bundle, why: message, is_stalled: false },
        (_, "stalled") => Desired::Waiting { bundle, why: message, is_stalled: true },
        (_, "failed") => Desired::Failed { bundle, message },
        (what, "") => {
            let release = world::release(what);
            let pin = Pin { content_digest: release.content.to_string(), ..Pin::default() };
            Desired::Ready { bundle, hash, pin, release }
        }
        _ => return Err(format!("{text:?} is no Bundle").into()),
    })
}

/// `2 v2 Failed -5m: why`.
fn revision(line: &str, now: Timestamp) -> Result<Revision, Error> {
    let (words, message) = line.split_once(": ").unwrap_or((line, ""));
    let [number, release, result, time] = words.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("{line:?} is no revision").into());
    };
    let record = world::release(release).record();
    Ok(Revision {
        revision: number.parse()?,
        bundle: Some(format!("app-{}", release.replace('@', "-"))),
        template_hash: Some(format!("hash-{}", release.split('@').next().unwrap_or_default())),
        source: None,
        annotations: BTreeMap::new(),
        pin: Some(Pin { content_digest: record.content_digest.clone(), ..Pin::default() }),
        release: record,
        result: serde_json::from_value::<RevisionResult>(Value::from(result))?,
        time: world::at(now, time)?,
        message: message.to_owned(),
    })
}

/// `PersistentVolumeClaim data: why`.
pub fn released(line: &str) -> Result<ReleasedObject, Error> {
    let (object, reason) = line.split_once(": ").ok_or("released: an object and why")?;
    let (kind, name) = object.split_once(' ').ok_or("released: a kind and a name")?;
    let (kind, name, reason) = (kind.to_owned(), name.to_owned(), reason.to_owned());
    Ok(ReleasedObject { group: String::new(), version: "v1".into(), kind, namespace: "ns".into(), name, reason })
}

/// `a data.x manager`.
fn contested(line: &str) -> Result<ContestedField, Error> {
    let [object, field, manager] = line.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("{line:?} is no contested field").into());
    };
    let key = world::key(object);
    Ok(ContestedField {
        group: key.group,
        kind: key.kind,
        namespace: key.namespace.unwrap_or_default(),
        name: key.name,
        path: path(field),
        manager: manager.to_owned(),
    })
}

/// `data.x` as managedFields write it. Keys may have dots after a slash.
pub fn path(field: &str) -> Vec<String> {
    let split = |text: &str| text.split('.').map(|key| format!("f:{key}")).collect::<Vec<_>>();
    match field.split_once(".core.rukpak.io/") {
        Some((before, rest)) => split(before).into_iter().chain([format!("f:core.rukpak.io/{rest}")]).collect(),
        None => split(field),
    }
}
