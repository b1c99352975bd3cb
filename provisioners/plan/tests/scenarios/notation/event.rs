//! What happens between the beginning of a reconcile and the question what to do: learned as the controller learns it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rukpak_crds::{DeletionPolicy, IgnoredDifference, InventoryKind, ServiceAccountReference};
use rukpak_plan::MissingKind;
use rukpak_plan::applied::{Applied, Objects, rendered_for};
use rukpak_plan::fields::Taken;
use rukpak_plan::memory::{Differences, Memory, Problem, Stage};
use rukpak_plan::plan::{Missing, Need};
use rukpak_plan::prune::Pruning;
use rukpak_plan::resolve::Why;
use serde::Deserialize;

use super::deployment::{Given, Scene, class, path, released};
use super::{Error, world};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Event {
    /// The reconcile ends with its report, and another one begins; so much is otherwise.
    Reconcile(Box<Given>),
    /// The same, but the process ended before its report, and another one began.
    Killed(Box<Given>),
    /// The same, but the status could not be written.
    Unreported(Box<Given>),
    /// The status is written, and the first object is about to be.
    Begun(String),
    /// An attempt failed.
    Failed(Failed),
    /// Every object was applied.
    Applied(String),
    /// The same, and something is to be said of it.
    AppliedBut(But),
    /// After a restart: the objects are as they were left. Whether that is what the spec asks for is found out.
    Resumed(String),
    /// After a restart: it is not.
    Differs(String),
    /// The desired Bundle was created so long ago.
    Created(String),
    /// Watches have not shown the cluster yet, since so long.
    AwaitsLists(String),
    /// The content is fetched again.
    Refetching,
    /// Drifted objects were repaired.
    Repaired(Vec<String>),
    /// They were not otherwise than they should be.
    Unchanged(Vec<String>),
    /// They could not be.
    Unrepaired(Unrepaired),
    /// A field of a repaired object was taken by somebody.
    Taken(Theirs),
    /// A watch has seen that something which was to go is gone, or may go.
    Gone,
    /// So has an OperatorCondition changed.
    ConditionChanged,
    /// Objects left the bundle and were not deleted.
    Released(Vec<String>),
    /// These objects are not healthy.
    Unhealthy(BTreeMap<String, String>),
    /// These objects have moved, and were not read since.
    Unread(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Failed {
    release: String,
    why: String,
    stage: String,
    class: String,
    /// The release before cannot be loaded.
    #[serde(default)]
    cannot_go_back: bool,
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct But {
    release: String,
    /// Why pruning failed, how often, and when it is tried again.
    pruning: Option<(String, u32, String)>,
    #[serde(default)]
    unlisted: Vec<String>,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    missing_optional: Vec<String>,
    #[serde(default)]
    used: Vec<String>,
    #[serde(default)]
    kept: Vec<String>,
    /// What is left as it is because it says so.
    #[serde(default)]
    paused: Vec<String>,
    /// The same of what left the bundle.
    #[serde(default)]
    held: Vec<String>,
    #[serde(default)]
    policy: DeletionPolicy,
    /// The name of the ServiceAccount whose rights were used.
    account: Option<String>,
    #[serde(default)]
    ignore_differences: Vec<IgnoredDifference>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Unrepaired {
    objects: Vec<String>,
    /// What the repair failed at; `Repair` if it is not said.
    stage: Option<String>,
    class: String,
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Theirs {
    object: String,
    field: String,
    manager: String,
}

/// The desired Bundle, and when it was created.
fn created(scene: &Scene, since: &str) -> Result<(String, Timestamp), Error> {
    let name = scene.observed.desired.bundle().ok_or("there is no Bundle")?;
    Ok((name.to_owned(), world::at(scene.now, since)?))
}

impl Event {
    pub fn happen(self, scene: &mut Scene) -> Result<(), Error> {
        let now = scene.now;
        match self {
            Self::Reconcile(given) => {
                scene.report();
                scene.again(&given)?;
            }
            Self::Killed(given) => {
                (scene.memory, scene.objects) = (Memory::default(), Objects::new());
                scene.again(&given)?;
            }
            Self::Unreported(given) => scene.again(&given)?,
            Self::Begun(release) => begin(scene, &release),
            Self::Failed(failed) => failed.happen(scene)?,
            Self::Applied(release) => {
                scene.applied(&world::release(&release), Pruning::Done, Differences::default(), Vec::new())?;
            }
            Self::AppliedBut(but) => but.happen(scene)?,
            Self::Resumed(release) => resume(scene, &release),
            Self::Differs(release) => {
                let release = world::release(&release);
                // Somebody deleted one.
                scene.objects = world::objects(&release, now);
                scene.objects.pop_last();
                scene.memory.begin_resuming(now);
                scene.memory.learn_differs(&release);
            }
            Self::Created(since) => {
                let (bundle, since) = created(scene, &since)?;
                scene.memory.learn_created(bundle, since);
            }
            Self::AwaitsLists(since) => {
                scene.memory.begin_resuming(world::at(now, &since)?);
                scene.memory.await_lists(now);
            }
            Self::Refetching => scene.memory.learn_refetching(),
            Self::Repaired(names) => repaired(scene, &names, true),
            Self::Unchanged(names) => repaired(scene, &names, false),
            Self::Unrepaired(unrepaired) => unrepaired.happen(scene)?,
            Self::Taken(Theirs { object, field, manager }) => {
                let taken = Taken { manager, subresource: String::new(), path: path(&field) };
                scene.memory.repairs_of(&world::key(&object)).count(vec![taken], now);
            }
            Self::Gone => scene.memory.learn_gone(now),
            Self::ConditionChanged => scene.memory.learn_condition_changed(),
            Self::Released(lines) => {
                for line in &lines {
                    let released = released(line)?;
                    scene.memory.learn_released([released.clone()]);
                    scene.inventory().released.push(released);
                }
            }
            Self::Unhealthy(unhealthy) => scene.ail(&unhealthy)?,
            Self::Unread(names) => {
                for name in &names {
                    scene.objects.get_mut(&world::key(name)).ok_or("it is not applied")?.is_read = false;
                }
            }
        }
        scene.notice_deadline();
        Ok(())
    }
}

/// As `execute` finds the release after a restart.
fn resume(scene: &mut Scene, release: &str) {
    let release = world::release(release);
    let objects = world::objects(&release, scene.now);
    let inventory = scene.observed.inventory();
    let missing = inventory.missing.iter().map(|object| Missing::read(object, None)).collect();
    let renderer = rendered_for(world::RENDERER, &scene.observed.deployment.spec);
    let resumed = Applied::resumed(&inventory, &release, &renderer, &objects, missing);

    scene.objects = objects;
    if let Some(applied) = resumed {
        scene.memory.learn_resumed(&scene.observed, applied, scene.now);
    } else {
        scene.memory.begin_resuming(scene.now);
        scene.memory.learn_differs(&release);
    }
}

/// As `execute` writes ahead.
fn begin(scene: &mut Scene, release: &str) {
    let (plan, since) = (world::plan(&world::release(release), Vec::new()), scene.now);
    plan.release.begin_in(scene.inventory(), since);
    scene.memory.learn_begun(&scene.observed, &plan);
    scene.observed.drifted.clear();
}

/// Returns the stage of this name. Behind a stage that ends by itself stands when: `Closed 2h`.
fn stage(name: &str, now: Timestamp) -> Result<Stage, Error> {
    let stages = [
        Stage::Ask,
        Stage::Load,
        Stage::Check,
        Stage::Account,
        Stage::Rights,
        Stage::Unapproved,
        Stage::Rejected,
        Stage::NotUpgradeable,
        Stage::Apply,
        Stage::Migrate,
        Stage::Repair,
    ];
    Ok(match name.split_once(' ') {
        Some(("Closed", opens)) => Stage::Closed(Some(world::at(now, opens)?)),
        Some(("Running", until)) => Stage::Running(world::at(now, until)?),
        _ => stages.into_iter().find(|stage| format!("{stage:?}") == name).ok_or("stage: not known")?,
    })
}

impl Failed {
    fn happen(self, scene: &mut Scene) -> Result<(), Error> {
        let stage = stage(&self.stage, scene.now)?;
        let all = [Why::First, Why::Upgrade, Why::Rollback, Why::WayBack, Why::Resync, Why::Renewal, Why::Repair];
        let why = all.into_iter().find(|why| format!("{why:?}") == self.why).ok_or("why: not known")?;
        if matches!(stage, Stage::Apply | Stage::Running(_) | Stage::Migrate) {
            begin(scene, &self.release);
        }
        let problem =
            Problem { stage, message: self.message, class: class(&self.class)?, can_go_back: !self.cannot_go_back };
        let now = scene.now;
        scene.memory.learn_failed(&scene.observed, (world::release(&self.release), why), problem, now);
        Ok(())
    }
}

impl But {
    fn happen(self, scene: &mut Scene) -> Result<(), Error> {
        let kinds = |names: &[String]| -> Vec<InventoryKind> {
            names
                .iter()
                .map(|kind| InventoryKind { group: "example.com".into(), version: "v1".into(), kind: kind.clone() })
                .collect()
        };
        let pruning = match &self.pruning {
            None if self.held.is_empty() => Pruning::Done,
            None => Pruning::Held { objects: self.held.iter().map(|name| world::key(name)).collect() },
            Some((message, attempts, until)) => Pruning::Pending {
                message: message.clone(),
                is_failed: true,
                unlisted: kinds(&self.unlisted),
                attempts: *attempts,
                unanswered: 0,
                until: world::at(scene.now, until)?,
            },
        };
        let missing = |name: &String, need: fn(_) -> Need| {
            let key = rukpak_plain::ObjectKey {
                group: "example.com".into(),
                kind: name.clone(),
                namespace: Some("ns".into()),
                name: "x".into(),
            };
            let kind = MissingKind { api_version: "example.com/v1".into(), kind: name.clone() };
            Missing { kind, need: need(key), served: None }
        };
        let needed = self.missing.iter().map(|name| missing(name, Need::Object));
        let optional = self.missing_optional.iter().map(|name| missing(name, Need::Optional));
        let missing = needed.chain(optional).collect();
        let account = self.account.map(|name| Box::new(ServiceAccountReference { name, namespace: "ns".into() }));
        let differences = Differences {
            used: self.used,
            kept: self.kept,
            paused: self.paused.iter().map(|name| world::key(name)).collect(),
            policy: self.policy,
            account,
            ignored: self.ignore_differences,
            proxy: None,
        };
        scene.applied(&world::release(&self.release), pruning, differences, missing)
    }
}

fn repaired(scene: &mut Scene, names: &[String], is_changed: bool) {
    for name in names {
        let key = world::key(name);
        scene.memory.repairs_of(&key).repaired(is_changed, None, scene.now);
        scene.observed.drifted.remove(&key);
    }
    if scene.observed.drifted.is_empty() {
        scene.memory.learn_repaired();
    }
}

impl Unrepaired {
    fn happen(self, scene: &mut Scene) -> Result<(), Error> {
        let class = class(&self.class)?;
        for name in &self.objects {
            scene.memory.repairs_of(&world::key(name)).failed(class, scene.now);
        }
        let stage = self.stage.map_or(Ok(Stage::Repair), |name| stage(&name, scene.now))?;
        let problem = Problem { stage, message: self.message, class, can_go_back: false };
        let release = scene.memory.applied().cloned().ok_or("nothing is applied")?;
        scene.memory.learn_unrepaired(&scene.observed, release, problem, scene.now);
        Ok(())
    }
}
