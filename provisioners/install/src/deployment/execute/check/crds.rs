//! Before CRDs are replaced: would stored data or existing objects break, which objects are to be migrated, and can each of them be stored
//! in the version that is kept, without a loss? Reads CRDs and their objects, writes dry runs. The rules are `rukpak_crd_upgrade`'s.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crd_upgrade::{
    Migration, ObjectCheck, ObjectValidator, Options, Rule, SAFE_UPGRADE_ANNOTATION, UnsafeChange,
};
use rukpak_plan::kind::is_crd;
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::owner;
use rukpak_plan::resolve::{Live, Why, keep_stored_versions, sharers};
use rukpak_plan::retry::Class;
use rukpak_plan::{Plan, Step};
use rukpak_runtime::error::Chain;
use serde_json::{Value, json};

use crate::cluster::{Error, Written};
use crate::deployment::execute::apply::Failed;
use crate::deployment::execute::bases::Bases;
use crate::deployment::execute::members::Members;
use crate::deployment::execute::migrate::{self, Dropping, PAGE, Pace};
use crate::deployment::execute::put::{self, Mode, put};
use crate::deployment::execute::{Stopped, fill, rights};
use crate::deployment::observe::{Run, View};

/// So many invalid objects of a version are told; nobody reads more.
const TOLD: usize = 20;
/// So many objects are named that cannot be migrated; then nobody looks further.
const NAMED: usize = 5;
/// CRDs that are looked at at once.
const PARALLEL: usize = 8;
/// A list that grows too old on the way is begun again, this often in all.
const ATTEMPTS: usize = 3;
/// The value of the annotation that has the rules of OLM v1 refuse as well.
const STRICT: &str = "strict";
/// What the note of upstream leaves open.
const SWITCHED_WHERE: &str = "; the annotation goes on the CustomResourceDefinition in the bundle or on the BundleDeployment, and \
                              existing objects may then be invalid or lost";
/// Who sets that annotation by a spec of its own.
const EXTENSION: &str = "ClusterExtension";
/// What to do where stored objects are not migrated.
const FIRST: &str = "install first a bundle whose CRD serves both the stored version and the one that replaces it";

/// Why it is not known whether a CRD may be replaced.
#[derive(Debug, thiserror::Error)]
enum Unseen {
    /// A request failed.
    #[error("{what}")]
    Unread {
        what: String,
        #[source]
        source: Error,
    },
    /// The ServiceAccount may not migrate its objects.
    #[error("{}", .0.message)]
    Rights(Problem),
    /// It is another BundleDeployment's, and cannot be this one's as well.
    #[error(transparent)]
    Unshared(put::Error),
    /// The deployment asks for something else by now.
    #[error("the BundleDeployment was changed or deleted meanwhile")]
    Superseded,
}

/// What is known of one CRD.
#[derive(Default)]
struct Look {
    /// What refuses its replacement.
    changes: Vec<UnsafeChange>,
    /// Whether others have it too, who may declare it otherwise at any time.
    is_shared: bool,
    /// What has to be done before it, if it may be replaced.
    dropping: Option<Dropping>,
}

/// Checks every CRD of `plan` that is in the cluster and would change. Returns those whose stored objects are to be migrated before.
pub(super) async fn check(
    run: &Run,
    plan: &Plan,
    why: Why,
    (members, bases): (&Members, &Bases),
) -> Result<Vec<Dropping>, Stopped> {
    let view = &run.view;
    let is_changed = |step: &&Step| is_crd(&step.key) && bases.is_changed(step) && !members.is_paused(step);
    let new = plan.steps.values().filter(is_changed);
    let looks: Vec<_> =
        new.map(|step| async move { (&step.key.name, one(run, step, why, (members, bases)).await) }).collect();
    let mut found = futures::stream::iter(looks).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    found.sort_by_key(|(name, _)| *name);
    let extension = view.observed.deployment.keeper().filter(|(kind, _)| *kind == EXTENSION).map(|(_, name)| name);
    let (mut texts, mut dropping, mut unshared) = (Vec::new(), Vec::new(), Vec::new());
    let (mut is_transient, mut is_shared) = (true, true);
    for (name, looked) in found {
        let reason = match looked {
            Ok(look) if look.changes.is_empty() => {
                dropping.extend(look.dropping);
                continue;
            }
            Ok(look) => {
                is_transient = false;
                is_shared &= look.is_shared;
                crd_upgrade::refusal(name, &look.changes)
            }
            Err(Unseen::Superseded) => return Err(Stopped::Superseded),
            Err(Unseen::Rights(problem)) => return Err(Stopped::Failed(problem)),
            Err(Unseen::Unshared(error)) => {
                unshared.push(error);
                continue;
            }
            Err(error @ Unseen::Unread { .. }) => {
                is_transient &= matches!(&error, Unseen::Unread { source, .. } if source.is_transient());
                Chain(&error).to_string()
            }
        };
        texts.push(match extension {
            Some(extension) => crd_upgrade::denial_for_extension("UPDATE", name, extension, &reason),
            None => crd_upgrade::denial("UPDATE", name, &reason),
        });
    }
    if !unshared.is_empty() {
        // Nobody tells when the other one is declared otherwise. Nothing was written, so that it costs little to look again.
        let (stage, message) = (Stage::Check, Failed(unshared).message());
        let class = Class::Blocked;
        return Err(Stopped::Failed(Problem { stage, message, class, can_go_back: true }));
    }
    if texts.is_empty() {
        return Ok(dropping);
    }
    let class = match (is_transient, is_shared) {
        (true, _) => Class::Transient,
        // Nobody tells when the others declare it otherwise.
        (false, true) => Class::Blocked,
        (false, false) => Class::Terminal,
    };
    let mut message = texts.join("; ");
    if !is_transient && extension.is_none() {
        message.push_str(SWITCHED_WHERE);
    }
    Err(Stopped::Failed(Problem { stage: Stage::Check, message, class, can_go_back: true }))
}

/// What refuses the replacement of one CRD, or has to be done before it.
async fn one(run: &Run, step: &Step, why: Why, (members, bases): (&Members, &Bases)) -> Result<Look, Unseen> {
    let view = &run.view;
    let unseen = |source| Unseen::Unread { what: "the CRD in the cluster".to_owned(), source };
    let Some(live) = view.reads.reader.get(&step.identity).await.map_err(unseen)? else { return Ok(Look::default()) };
    let others = sharers(&step.body(), &live.metadata);
    let is_common = owner::in_common(&live.metadata).is_some()
        && (owner::is_used_in_common(&live.metadata) || !view.owner.owns_fully(&live.metadata));
    if !others.is_empty() || is_common {
        return shared(run, step, (why, &live, others), (members, bases)).await;
    }
    let declared = step.body();
    let migration = migration(view, step, &live, why);
    let is_unchecked = view.observed.annotation(SAFE_UPGRADE_ANNOTATION) == Some("false");
    let mut changes = Vec::new();
    if !is_unchecked && !crd_upgrade::is_switched_off(&declared) {
        let mut options = view.reads.settings.crd_upgrades;
        options.strict |= view.observed.annotation(SAFE_UPGRADE_ANNOTATION) == Some(STRICT);
        changes = unsafe_changes(view, step, &live, &migration, options).await?;
    }
    let Some(migration) = migration.ok().filter(|_| changes.is_empty()) else {
        return Ok(Look { changes, ..Look::default() });
    };

    rights::check_migration(run, &step.identity, &migration).await.map_err(Unseen::Rights)?;
    // What was begun was proved then; and the rewrite itself tells of what came since.
    let is_proved = migrate::is_begun(run, &migration.crd, &live.metadata);
    if !is_proved && !is_unchecked && !crd_upgrade::is_switched_off(&declared) {
        changes = prove(run, &migration, &declared).await?;
    }
    let dropping = changes.is_empty().then(|| dropping(step, &live));
    Ok(Look { changes, dropping, ..Look::default() })
}

/// What refuses a CRD that `others` have as well. It becomes the union of all, so no version is dropped.
async fn shared(
    run: &Run,
    step: &Step,
    (why, live, others): (Why, &Written, BTreeSet<String>),
    (members, bases): (&Members, &Bases),
) -> Result<Look, Unseen> {
    let view = &run.view;
    match put(run, step, members.known(&step.key), &bases.of(run, step, why), Mode::DryRun).await {
        Err(put::Error::Superseded) => return Err(Unseen::Superseded),
        Err(error @ put::Error::Collision(_)) => return Err(Unseen::Unshared(error)),
        // What else is wrong with it is told by the dry run of all objects.
        _ => {}
    }
    let mut body = step.body();
    let is_unchecked = view.observed.annotation(SAFE_UPGRADE_ANNOTATION) == Some("false");
    if is_unchecked || crd_upgrade::is_switched_off(&body) {
        return Ok(Look::default());
    }
    if let Some(versions) = crd_upgrade::union(&live.as_crd(&step.identity), &body) {
        body["spec"]["versions"] = versions;
    }
    let dropped = Err("the CRD is shared with other BundleDeployments");
    // By the rules of OLM v1 too: others use every version as they declare it.
    let options = Options { strict: true };
    let mut changes = unsafe_changes(view, &step.with_body(&body), live, &dropped, options).await?;
    // Whoever leads it is not compared when it is applied.
    if let Ok(crd_upgrade::Sharing::Incompatible(differences)) =
        crd_upgrade::share(&live.as_crd(&step.identity), &step.body())
    {
        changes.extend(differences.into_iter().filter(|difference| !changes.contains(difference)).collect::<Vec<_>>());
    }
    let others: Vec<String> = others.iter().map(|name| format!("{name:?}")).collect();
    let who = match owner::in_common(&live.metadata) {
        Some(package) => format!("installations of package {package} have the CRD in common"),
        None => format!("BundleDeployment {} declares the CRD too", others.join(", ")),
    };
    for change in &mut changes {
        change.message = format!("{}, and {who}", change.message);
    }
    Ok(Look { changes, is_shared: true, dropping: None })
}

/// What has to happen to stored objects before the CRD is replaced, or why nothing can.
fn migration(view: &View, step: &Step, live: &Written, why: Why) -> Result<Migration, &'static str> {
    // Whoever takes over a CRD of somebody else does not begin with its objects.
    if !view.owner.owns_fully(&live.metadata) {
        return Err("the CRD does not belong to this BundleDeployment yet");
    }
    let migration = migrate::needed(step, live).ok_or("no version is served by both CRDs")?;
    // A newer version may say more than an older one. Where nothing converts, that is seen.
    if why == Why::Rollback && !migration.is_relabelling {
        return Err("what its webhook loses on the way back cannot be seen");
    }
    Ok(migration)
}

fn dropping(step: &Step, live: &Written) -> Dropping {
    let mut body = step.body();
    keep_stored_versions(&mut body, Live { metadata: &live.metadata, body: &live.body });
    Dropping { key: step.key.clone(), trial: step.with_body(&body) }
}

/// What the rules say against the replacement of one CRD. That it drops a stored version is no reason where `migration` comes before.
async fn unsafe_changes(
    view: &View,
    step: &Step,
    live: &Written,
    migration: &Result<Migration, &'static str>,
    options: Options,
) -> Result<Vec<UnsafeChange>, Unseen> {
    let declared = step.body();
    let report = match crd_upgrade::check(&live.as_crd(&step.identity), &declared, options) {
        Ok(report) => report,
        Err(error) => {
            // The API server says what is wrong with a CRD that cannot be read.
            tracing::warn!(deployment = %view.owner.name, %error, "cannot check the upgrade of a CRD");
            return Ok(Vec::new());
        }
    };
    // Said at the first attempt, not at each.
    let is_first = !view.memory.has_failed();
    for warning in report.warnings().filter(|_| is_first) {
        tracing::warn!(deployment = %view.owner.name, crd = step.key.name, %warning, "the upgrade of a CRD may break clients");
    }
    let mut changes: Vec<UnsafeChange> = report.errors().cloned().collect();
    match migration {
        Ok(_) => changes.retain(|change| change.rule != Rule::StoredVersionRemoval),
        Err(why) => {
            for change in changes.iter_mut().filter(|change| change.rule == Rule::StoredVersionRemoval) {
                change.message = format!("{}: their objects are not migrated, for {why}; {FIRST}", change.message);
            }
        }
    }
    for check in &report.object_checks {
        changes.extend(objects(view, check, &declared).await?);
    }
    Ok(changes)
}

/// The existing objects that would not be valid any more.
async fn objects(view: &View, check: &ObjectCheck, new: &Value) -> Result<Vec<UnsafeChange>, Unseen> {
    let Some(schema) = crd_upgrade::schema_of(new, &check.schema_version) else { return Ok(Vec::new()) };
    let validator = ObjectValidator::new(schema);
    let gvk = GroupVersionKind::gvk(&check.group, &check.list_version, &check.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &check.plural);
    let first = ListParams::default().limit(PAGE);
    let (mut parameters, mut changes, mut begun) = (first.clone(), Vec::new(), 1);
    loop {
        let page = match view.reads.reader.list(&resource, None, &parameters).await {
            Ok(page) => page,
            // A CRD that was never served has no objects.
            Err(error) if error.is_not_found() => return Ok(changes),
            // The list is older than what the API server still knows.
            Err(error) if error.is_expired() && begun < ATTEMPTS => {
                (parameters, changes, begun) = (first.clone(), Vec::new(), begun + 1);
                continue;
            }
            Err(source) => {
                return Err(Unseen::Unread {
                    what: format!("error listing objects for {}/{}, Kind={}", gvk.group, gvk.version, gvk.kind),
                    source,
                });
            }
        };
        for object in page.items {
            let object = value(&object, &resource);
            changes.extend(check.change(&object, &validator.validate(&object)));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if changes.len() < TOLD => parameters.continue_token = Some(token),
            _ => return Ok(changes),
        }
    }
}

fn value(object: &DynamicObject, resource: &ApiResource) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Items of a list do not say what they are.
    value["apiVersion"] = json!(resource.api_version);
    value["kind"] = json!(resource.kind);
    value
}

/// The objects that cannot be stored in the version that is kept, the first of them.
///
/// They are read through the versions that are given up, so that what only those show is not lost unnoticed.
async fn prove(run: &Run, migration: &Migration, new: &Value) -> Result<Vec<UnsafeChange>, Unseen> {
    let validator = ObjectValidator::new(crd_upgrade::schema_of(new, &migration.to).unwrap_or(&Value::Null));
    let mut found = Vec::new();
    for view in &migration.views {
        let mut page = ListParams::default().limit(PAGE);
        loop {
            if !run.view.is_current() {
                return Err(Unseen::Superseded);
            }
            let begun = Pace::begin();
            let list = match run.view.reads.reader.list(&resource(migration, view), None, &page).await {
                Ok(list) => list,
                // It takes too long for one list: the rest is as good as it is by now, for the rewrite asks again.
                Err(error) => match error.continuation() {
                    Some(token) => {
                        page.continue_token = Some(token);
                        continue;
                    }
                    None => return Err(unseen(migration, error)),
                },
            };
            found.extend(try_page(run, migration, view, &validator, list.items).await?);
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) if found.len() < NAMED => page.continue_token = Some(token),
                _ => break,
            }
            begun.end().await;
        }
    }
    found.truncate(NAMED);
    Ok(found)
}

async fn try_page(
    run: &Run,
    migration: &Migration,
    view: &str,
    validator: &ObjectValidator<'_>,
    page: Vec<DynamicObject>,
) -> Result<Vec<UnsafeChange>, Unseen> {
    let (mut waiting, mut tries, mut found) = (page.into_iter(), FuturesUnordered::new(), Vec::new());
    loop {
        fill(&mut tries, migrate::PARALLEL, &mut waiting, |object| try_one(run, migration, view, validator, object));
        match tries.next().await {
            Some(answer) => found.extend(answer?),
            None => return Ok(found),
        }
        if found.len() >= NAMED {
            return Ok(found);
        }
    }
}

/// Tries to rewrite an object. What somebody has changed or deleted since the list is not looked at again: the rewrite itself will tell.
async fn try_one(
    run: &Run,
    migration: &Migration,
    view: &str,
    validator: &ObjectValidator<'_>,
    object: DynamicObject,
) -> Result<Option<UnsafeChange>, Unseen> {
    let after = match run.objects.try_rewrite(&resource(migration, &migration.to), &object.metadata).await {
        Ok(after) => value(&after, &resource(migration, &migration.to)),
        Err(error) if error.is_conflict() || error.is_not_found() => return Ok(None),
        Err(error) if error.to_string().contains("does not support dry run") => return Ok(None),
        Err(error) if error.is_transient() => return Err(unseen(migration, error)),
        Err(error) => {
            let object = value(&object, &resource(migration, view));
            return Ok(Some(migration.refused_by(&object, &Chain(&error).to_string())));
        }
    };
    let before = value(&object, &resource(migration, view));
    let lost = if migration.is_relabelling { crd_upgrade::lost_field(&before, &after) } else { None };
    let why = match (validator.validate(&after).first(), lost) {
        (Some(violation), _) => violation.to_string(),
        (None, Some(field)) => format!("{field} of version {view} would be lost, for no webhook converts it"),
        (None, None) => return Ok(None),
    };
    Ok(Some(migration.refused_by(&before, &why)))
}

fn resource(migration: &Migration, version: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk(&migration.group, version, &migration.kind);
    ApiResource::from_gvk_with_plural(&gvk, &migration.plural)
}

fn unseen(migration: &Migration, source: Error) -> Unseen {
    let Migration { crd, to, .. } = migration;
    Unseen::Unread { what: format!("cannot try to store the objects of {crd} as version {to}"), source }
}
