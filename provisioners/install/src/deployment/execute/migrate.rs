//! Objects that are stored in a version which a CRD drops are migrated to one that it keeps, before it drops anything.
//!
//! ```text
//! switch    the CRD that there is, with another version that is stored; nothing is dropped
//! rewrite   every object, unchanged, at the resource version that was listed, until a list shows that none is left
//! clear     status.storedVersions: no object is stored in another version any more
//! ```
//!
//! What comes next is read from the CRD in the cluster each time, so an attempt that was interrupted anywhere goes on there. Until
//! `clear`, and until the bundle's CRD is applied after it, the release before can come back.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::api::{ApiResource, ListParams};
use kube::core::GroupVersionKind;
use rukpak_crd_upgrade::{self as crd_upgrade, Migration};
use rukpak_crds::BundleDeploymentStatus;
use rukpak_plain::ObjectKey;
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::Class;
use rukpak_plan::rewrite::{Rewrite, Rewritten, grouped};
use rukpak_plan::{Plan, Step};
use rukpak_runtime::error::Chain;
use rukpak_runtime::events::News;
use tokio::time::Instant;

use super::apply::note;
use super::bases::Bases;
use super::members::Members;
use super::put::{self, Known, Mode, Outcome, put};
use super::{Stopped, fill};
use crate::cluster::{Error, Written};
use crate::deployment::observe::Run;
use crate::deployment::{news, report};

/// Objects are listed, and tried or rewritten, this many at a time.
pub(super) const PAGE: u32 = 250;
/// And so many of them at once.
pub(super) const PARALLEL: usize = 8;
/// A page takes so long at least: the API server has others to serve, and so has a webhook that converts.
const PAGE_TIME: Duration = Duration::from_secs(1);
/// API servers learn of the version that is stored by a watch, and nothing tells when they have. They themselves take a CRD for
/// established, and have all of them serve it, after as long.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
/// Lists of all objects in one attempt. The second one shows that nothing is left, unless a list grew too old on the way.
const PASSES: usize = 10;
/// Steps of one migration in one attempt: switch, rewrite and clear, and some more where others change the CRD.
const STEPS: usize = 6;
/// The status says how far it is this often. An Event says it at each tenth of the way.
const TOLD_EVERY: Duration = Duration::from_secs(3);

/// Holds back whoever is faster than a page a second.
pub(super) struct Pace(Instant);

impl Pace {
    /// A page begins.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// It has ended, and another one follows.
    pub async fn end(self) {
        tokio::time::sleep_until(self.0 + PAGE_TIME).await;
    }
}

/// What was last said in an attempt of how far it is.
#[derive(Default)]
struct Told {
    /// When the status said it.
    at: Option<Instant>,
    /// So many tenths of the objects, as an Event says; `None` before the first page.
    tenths: Option<u64>,
}

impl Told {
    /// Whether an Event is to say that so many of all objects are migrated. Objects that others make meanwhile set it back: the same
    /// tenth is not told twice.
    fn is_news(&mut self, done: u64, total: u64) -> bool {
        let tenths = (done * 10).checked_div(total).unwrap_or_default();
        let before = self.tenths.replace(tenths.max(self.tenths.unwrap_or_default()));
        // The end is another Event.
        before.is_some_and(|before| before < tenths) && done < total
    }
}

/// A CRD that drops a version in which objects are stored.
pub(super) struct Dropping {
    /// The CRD.
    pub key: ObjectKey,
    /// The step that drops it, with that version: what is tried beforehand.
    pub trial: Step,
}

/// Returns what has to happen to stored objects before the CRD of `step` can replace the one in the cluster.
pub(super) fn needed(step: &Step, live: &Written) -> Option<Migration> {
    crd_upgrade::migration(&live.as_crd(&step.identity), &step.body()).ok().flatten()
}

/// Migrates the stored objects of every CRD that drops a stored version. `is_resumed`: this was begun, and told, before.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn migrate(
    run: &mut Run,
    (plan, why): (&Plan, Why),
    (members, bases): (&Members, &Bases),
    dropping: &[Dropping],
    is_resumed: bool,
) -> Result<(), Stopped> {
    let steps = dropping.iter().filter_map(|dropping| plan.steps.get(&dropping.key));
    for step in steps {
        let can_go_back = bases.installed.is_some();
        let mut is_told = is_resumed;
        let mut steps_left = STEPS;
        while let Some((live, migration)) = find(run, step, can_go_back).await? {
            if steps_left == 0 {
                return Err(failed(&migration, "somebody keeps changing the CRD", Class::Transient, can_go_back));
            }
            steps_left -= 1;
            if !is_told {
                tell(run, &news::migration_started(&migration.crd, &migration.from, &migration.to));
                is_told = true;
            }
            run.confirm().await?;
            if !migration.is_stored {
                switch(run, (step, why), (members, bases), &live, &migration).await?;
                continue;
            }
            let definition = (live.metadata.uid.clone(), live.metadata.generation);
            let known = run.view.memory.take_rewrite(&migration.crd);
            let known = known.or_else(|| recorded(run, &migration.crd)).filter(|known| known.is_of(&definition));
            let mut rewrite = known.unwrap_or_else(|| Rewrite::new(definition));
            let rewritten = rewrite_all(run, &migration, &mut rewrite, can_go_back).await;
            let (_, objects) = rewrite.progress();
            run.view.memory.learn_rewritten(&migration.crd, rewrite);
            rewritten?;
            if clear(run, step, &live, &migration, can_go_back).await? {
                run.view.memory.take_rewrite(&migration.crd);
                tell(run, &news::migration_succeeded(&migration.crd, &migration.to, objects));
            }
        }
    }
    Ok(())
}

/// Whether the migration of this very CRD has begun: objects are being rewritten, so it was proved that they can be.
pub(super) fn is_begun(run: &Run, crd: &str, live: &ObjectMeta) -> bool {
    let definition = (live.uid.clone(), live.generation);
    let known = run.view.memory.rewrite(crd);
    known.is_some_and(|known| known.is_of(&definition))
        || recorded(run, crd).is_some_and(|recorded| recorded.is_of(&definition))
}

/// How far the process before was, as the status says.
fn recorded(run: &Run, crd: &str) -> Option<Rewrite> {
    let pending = run.view.observed.status.inventory.as_ref()?.pending.as_ref()?;
    Rewrite::resumed(pending.migrations.iter().find(|record| record.crd == crd)?)
}

/// The CRD in the cluster, and what its objects need. `None` once nothing is left to do.
async fn find(run: &Run, step: &Step, can_go_back: bool) -> Result<Option<(Written, Migration)>, Stopped> {
    let live = run.view.reads.reader.get(&step.identity).await.map_err(|error| {
        let message = format!("{}: {}", step.identity, Chain(&error));
        Stopped::Failed(problem(message, error.is_transient(), can_go_back))
    })?;
    Ok(live.and_then(|live| needed(step, &live).map(|migration| (live, migration))))
}

/// Has new writes store objects in the version that is kept. All versions stay as they are.
async fn switch(
    run: &Run,
    (step, why): (&Step, Why),
    (members, bases): (&Members, &Bases),
    live: &Written,
    migration: &Migration,
) -> Result<(), Stopped> {
    let can_go_back = bases.installed.is_some();
    let step = step.with_body(&migration.switched(&live.as_crd(&step.identity), &step.body()));
    let known =
        members.known(&step.key).map(|known| Known { version: live.metadata.resource_version.clone(), ..known });
    match put(run, &step, known, &bases.of(run, &step, why), Mode::Real).await {
        Ok(Outcome::Applied(written, _)) => {
            note(run, &step, &written);
            Ok(())
        }
        Ok(_) => Err(failed(migration, "the CRD is left as it is", Class::Blocked, can_go_back)),
        Err(put::Error::Superseded) => Err(Stopped::Superseded),
        Err(error) => Err(failed(migration, &Chain(&error).to_string(), error.class(), can_go_back)),
    }
}

/// Rewrites every object, until a list shows that none is left.
async fn rewrite_all(
    run: &mut Run,
    migration: &Migration,
    rewrite: &mut Rewrite,
    can_go_back: bool,
) -> Result<(), Stopped> {
    let gvk = GroupVersionKind::gvk(&migration.group, &migration.to, &migration.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &migration.plural);
    if rewrite.is_new() {
        tokio::time::sleep(KNOWN_WITHIN).await;
    }
    let mut told = Told::default();
    for _ in 0..PASSES {
        match pass(run, migration, &resource, rewrite, &mut told).await? {
            Ok(()) if rewrite.is_complete() => return Ok(()),
            Ok(()) => {}
            // Too old on the way: what was rewritten stays so.
            Err(Unwritten { error, .. }) if error.is_expired() => {}
            Err(Unwritten { object, error }) => {
                let why = format!("{object}{}", Chain(&error));
                let class = if error.is_transient() { Class::Transient } else { Class::Terminal };
                return Err(failed(migration, &why, class, can_go_back));
            }
        }
    }
    Err(failed(migration, "objects are left after every list", Class::Transient, can_go_back))
}

/// A request that failed.
struct Unwritten {
    /// Which object it was for, if it was for one, and a colon.
    object: String,
    error: Error,
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Self {
        Self { object: String::new(), error }
    }
}

/// Lists all objects, and rewrites those that are left.
async fn pass(
    run: &mut Run,
    migration: &Migration,
    resource: &ApiResource,
    rewrite: &mut Rewrite,
    told: &mut Told,
) -> Result<Result<(), Unwritten>, Stopped> {
    rewrite.begin_pass();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        if run.is_doubtful() {
            run.confirm().await?;
        } else if !run.view.is_current() {
            return Err(Stopped::Superseded);
        }
        let begun = Pace::begin();
        let list = match run.view.reads.reader.list_metadata(resource, None, &page).await {
            Ok(list) => list,
            Err(error) => return Ok(Err(error.into())),
        };
        let objects = list.items.into_iter().map(|object| object.metadata).collect();
        let left =
            rewrite.select(list.metadata.resource_version.as_deref(), list.metadata.remaining_item_count, objects);
        let is_idle = left.is_empty();
        tell_progress(run, migration, rewrite, told).await?;
        if let Err(error) = rewrite_page(run, resource, left, rewrite).await {
            return Ok(Err(error));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(Ok(())),
        }
        if !is_idle {
            begun.end().await;
        }
    }
}

async fn rewrite_page(
    run: &Run,
    resource: &ApiResource,
    objects: Vec<ObjectMeta>,
    rewrite: &mut Rewrite,
) -> Result<(), Unwritten> {
    let (mut waiting, mut writes) = (objects.into_iter(), FuturesUnordered::new());
    loop {
        fill(&mut writes, PARALLEL, &mut waiting, |object| rewrite_one(run, resource, object));
        let Some((object, written)) = writes.next().await else { return Ok(()) };
        match written {
            Ok(written) => rewrite.note(&object, Rewritten::As(written.resource_version.as_deref())),
            // Whoever wrote it since the list has it stored in the new version; who deleted it left nothing to store.
            Err(error) if error.is_conflict() || error.is_not_found() => rewrite.note(&object, Rewritten::Overtaken),
            Err(error) => {
                let name = object.name.as_deref().unwrap_or_default();
                let object = object.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"));
                return Err(Unwritten { object: format!("{object}{name}: "), error });
            }
        }
    }
}

async fn rewrite_one(run: &Run, resource: &ApiResource, object: ObjectMeta) -> (ObjectMeta, Result<ObjectMeta, Error>) {
    let written = run.objects.rewrite(resource, &object).await;
    (object, written)
}

/// Says that no object is stored in another version any more, provided the CRD is the one that the objects were rewritten under.
/// Returns whether it was; otherwise what follows is to be found out again.
async fn clear(
    run: &Run,
    step: &Step,
    known: &Written,
    migration: &Migration,
    can_go_back: bool,
) -> Result<bool, Stopped> {
    let Some((live, found)) = find(run, step, can_go_back).await? else { return Ok(true) };
    let is_same = |live: &ObjectMeta| (&live.uid, live.generation) == (&known.metadata.uid, known.metadata.generation);
    if !is_same(&live.metadata) || found != *migration {
        return Ok(false);
    }
    run.confirm().await?;
    match run.objects.set_stored_versions(&step.identity, &live.metadata, &[&migration.to]).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_conflict() => Ok(false),
        Err(error) => {
            let class = if error.is_transient() { Class::Transient } else { Class::Terminal };
            Err(failed(migration, &format!("status.storedVersions: {}", Chain(&error)), class, can_go_back))
        }
    }
}

/// Has an Event and the status say how far it is, if that was not said lately. Before the first write the status says from where on: who
/// goes on after a restart passes over what was rewritten.
async fn tell_progress(
    run: &mut Run,
    migration: &Migration,
    rewrite: &Rewrite,
    told: &mut Told,
) -> Result<(), Stopped> {
    let (done, total) = rewrite.progress();
    let Migration { crd, to, .. } = migration;
    let message = format!("Migrating stored objects of {crd} to {to}: {} of {}", grouped(done), grouped(total));
    if told.is_news(done, total) {
        tell(run, &news::migration_progressing(message.clone()));
    }

    if told.at.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
        return Ok(());
    }
    told.at = Some(Instant::now());
    let record = rewrite.record(crd);
    let note = |status: &mut BundleDeploymentStatus| {
        let pending = status.inventory.as_mut().and_then(|inventory| inventory.pending.as_mut());
        if let (Some(pending), Some(record)) = (pending, record) {
            pending.migrations.retain(|known| known.crd != record.crd);
            pending.migrations.push(record);
        }
    };
    report::progress(run, &message, note, run.view.reads.now()).await.map_err(Stopped::Unreported)
}

fn tell(run: &Run, news: &News) {
    tracing::info!(deployment = %run.view.owner.name, detail = news.message, "stored objects of a CRD");
    run.context.events.tell(run.view.observed.deployment.object_ref(&()), news);
}

fn failed(migration: &Migration, why: &str, class: Class, can_go_back: bool) -> Stopped {
    let Migration { crd, to, .. } = migration;
    let message = format!("stored objects of {crd} cannot be migrated to {to}, and no version is dropped: {why}");
    Stopped::Failed(Problem { stage: Stage::Migrate, message, class, can_go_back })
}

fn problem(message: String, is_transient: bool, can_go_back: bool) -> Problem {
    let class = if is_transient { Class::Transient } else { Class::Terminal };
    Problem { stage: Stage::Migrate, message, class, can_go_back }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenth_is_told_once_and_neither_where_it_began_nor_the_end() {
        let mut told = Told::default();
        let mut is_news = |done, total| told.is_news(done, total);
        assert!(!is_news(25, 100), "another attempt has told it");
        assert!(!is_news(29, 100) && is_news(30, 100) && !is_news(31, 100));
        assert!(!is_news(31, 200) && !is_news(60, 200), "others have made as many again");
        assert!(is_news(80, 200) && is_news(190, 200) && !is_news(200, 200));
        assert!(!Told::default().is_news(0, 0));
    }
}
