//! How extensions take part in a [set](super::set) of upgrades: what goes together is found, begun, followed and taken back. I/O:
//! catalogs are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use rukpak_crds::olm::cluster_extension::CatalogFilter;
use rukpak_crds::olm::{ClusterExtension, deployment_name};
use rukpak_crds::plan::PlannedDependency;
use rukpak_crds::{ApprovalPolicy, BundleDeployment, DependencyPolicy, names};
use rukpak_plan::owner::controller;
use rukpak_resolver::set::{Member, Needy};
use rukpak_resolver::{Mover, together};
use rukpak_runtime::clock;

use super::decide::Deprecations;
use super::offers::{Wish, Wishes, wishes};
use super::progress::Progress;
use super::set::{Change, ELSEWHERE, Set, Standing, has_left, installed, is_settled, standing, was_installed};
use super::{Context, optional};
use crate::catalogs::in_status;
use crate::dependencies::Dependent;
use crate::dependencies::obtain::Asking;
use crate::installed::Identity;

/// By extension: what is installed, and what it may go to.
type Candidates = BTreeMap<String, (Identity, Vec<Wish>)>;

/// What an extension does as a member of a set.
pub(super) struct Course {
    /// What its BundleDeployment installs.
    pub wanted: Identity,
    pub noted: Set,
    /// What is deprecated, if a catalog says.
    pub data: Option<Deprecations>,
    name: String,
}

/// Upgrades that only go together.
pub(super) struct Together {
    pub set: Set,
    /// That of the extension.
    pub needy: Needy,
    /// Those of the others, as a Plan has them.
    pub others: Vec<Member>,
}

impl Course {
    /// Whether the extension leads a set that is under way: a pull that takes too long is told by no event.
    pub fn is_watched_by_clock(&self) -> bool {
        self.noted.leader == self.name && !self.noted.is_over
    }

    /// What is said of it, where its BundleDeployment is so far.
    pub fn told(&self, progress: Progress) -> Progress {
        let Self { name, noted, .. } = self;
        match (noted.failure.is_some(), progress) {
            (false, Progress::Succeeded) if !noted.is_over => {
                let others = noted.others(name);
                Progress::RollingOut(format!(
                    "upgraded together with {others}: waiting until all of them are installed"
                ))
            }
            (true, Progress::Succeeded | Progress::RollingOut(_)) => Progress::Retrying(noted.told(name)),
            (true, Progress::Retrying(why) | Progress::DeadlineExceeded(why)) => {
                Progress::Retrying(format!("{}; going back: {why}", noted.told(name)))
            }
            (_, progress) => progress,
        }
    }
}

/// The part of an extension in a set that was begun; `None` if it has none, or none any more.
pub(super) async fn course(
    extension: &ClusterExtension,
    filter: &CatalogFilter,
    live: &BundleDeployment,
    context: &Context,
) -> Option<Course> {
    let name = extension.name_any();
    let set = followed(&name, live, context)?;
    // Called for its effect: the extension is woken when what is installed changes, as when another member is deleted.
    context.dependencies.installed_for(&Dependent::Extension(name.clone()));
    let noted = if set.leader == name { led(set, live, context).await } else { set };
    let change = noted.members.get(&name)?;
    let asked = Identity::read(live.annotations());
    // What somebody asked for meanwhile is not undone for the others.
    if noted.leader != name && has_left(change, asked.as_ref()) {
        tell_leader(&name, noted.leader, context);
        return None;
    }
    let Wishes { all, data, .. } = wishes(filter, &change.from, context).await;
    let wanted = noted.outcome(change).clone();

    // A note is believed where it says what may be done anyway: who may write it may not write everything that it speaks of.
    let is_begun = asked.as_ref() == Some(&wanted);
    let is_back = noted.failure.is_some();
    let is_permitted =
        if is_back { was_installed(&wanted, live) } else { all.iter().any(|one| one.identity == wanted) };
    if !is_begun && !is_permitted {
        tell_leader(&name, noted.leader, context);
        return None;
    }
    Some(Course { wanted, noted, data, name })
}

/// Has the leader look what becomes of the set, of which the extension `name` is no part any more.
fn tell_leader(name: &str, leader: String, context: &Context) {
    if leader != name {
        context.dependencies.answered(Dependent::Extension(leader));
    }
}

/// The note of a set that the extension is in and that is not over: its own, or that of the leader.
fn followed(name: &str, live: &BundleDeployment, context: &Context) -> Option<Set> {
    let is_member = |set: &Set| set.wanted(name).is_some();
    if let Some(own) = Set::noted(live).filter(|set| set.leader == name && is_member(set)) {
        return Some(own);
    }
    let others = context.deployments.state();
    let led =
        others.iter().filter(|other| other.name_any() != live.name_any()).filter_map(|other| leading(other, context));
    led.filter(is_member).min_by(|one, other| one.leader.cmp(&other.leader))
}

/// The note of a set that is not over, on the BundleDeployment of its leader. Anybody may say on his own whose it is.
fn leading(deployment: &BundleDeployment, context: &Context) -> Option<Set> {
    let set = Set::noted(deployment).filter(|set| !set.is_over)?;
    let of_leader = deployment_of(&set.leader, context)?;
    (of_leader.metadata.uid == deployment.metadata.uid).then_some(set)
}

/// What becomes of a set, for its leader, whose BundleDeployment is `live`.
async fn led(set: Set, live: &BundleDeployment, context: &Context) -> Set {
    let (mut standings, now) = (BTreeMap::new(), clock::now());
    for (name, change) in &set.members {
        let found = deployment_of(name, context);
        let stands = match &found {
            // As long as it has the note, it comes back to what that says.
            _ if *name == set.leader => match standing(change, Some(live), now) {
                Standing::Elsewhere => Standing::Coming,
                stands => stands,
            },
            // The event of our last write to it is still to come.
            Some(found) if context.written.is_stale(&**found) => Standing::Coming,
            found => standing(change, found.as_deref(), now),
        };
        let is_asked = stands == Standing::Before && set.failure.is_none();
        let stands = if is_asked && !goes(name, change, context).await {
            Standing::Failed(ELSEWHERE.to_owned())
        } else {
            stands
        };
        standings.insert(name.clone(), stands);
    }
    set.next(|name, _| standings.get(name).cloned().unwrap_or(Standing::Gone))
}

/// Whether the extension still takes the upgrade.
async fn goes(name: &str, change: &Change, context: &Context) -> bool {
    let Some(extension) = context.extensions.get(&ObjectRef::new(name)) else { return false };
    let Ok(filter) = extension.spec.catalog() else { return false };
    let Wishes { all, is_known, .. } = wishes(filter, &change.from, context).await;
    // A catalog that cannot be asked says nothing against it.
    !is_known || all.iter().any(|one| one.identity == change.to)
}

/// The BundleDeployment of an extension that is there to stay.
fn deployment_of(name: &str, context: &Context) -> Option<Arc<BundleDeployment>> {
    let extension = context.extensions.get(&ObjectRef::new(name))?;
    let found = context.deployments.get(&ObjectRef::new(&deployment_name(name)))?;
    let is_owned = controller(&found.metadata).is_some_and(|owner| Some(&owner.uid) == extension.metadata.uid.as_ref());
    (is_owned && extension.metadata.deletion_timestamp.is_none()).then_some(found)
}

/// Looks for what the extension, whose BundleDeployment is `live`, can be upgraded together with; `None` if it cannot, has failed to
/// before, or another one begins.
pub(super) async fn seek(extension: &ClusterExtension, live: &BundleDeployment, context: &Context) -> Option<Together> {
    let own = extension.name_any();
    let releases = context.dependencies.installed_for(&Dependent::Extension(own.clone()));
    // Catalogs are asked about all the others only if it may move itself.
    let mut all = BTreeMap::from([(own.clone(), movable(extension, context).await?)]);
    for other in context.extensions.state() {
        let name = other.name_any();
        if name != own
            && let Some(found) = movable(&other, context).await
        {
            all.insert(name, found);
        }
    }
    let (mut movers, mut others) = (Vec::new(), Vec::new());
    for release in &releases {
        let Some(described) = context.dependencies.described(release) else { continue };
        match &release.holder {
            Dependent::Extension(name) if let Some((_, wishes)) = all.get(name) => {
                let next = wishes.iter().map(|wish| wish.bundle.clone()).collect();
                let (name, package) = (name.clone(), release.package.clone());
                movers.push(Mover { name, package, installed: described, next });
            }
            _ => others.push(described),
        }
    }
    let first = own.clone();
    let found = tokio::task::spawn_blocking(move || together(&first, &movers, others)).await;
    // Blocking work is never cancelled once it runs.
    let found = found.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let leader = found.keys().find(|name| asks(name, context))?;
    if *leader != own {
        context.dependencies.answered(Dependent::Extension(leader.clone()));
        return None;
    }
    begin(&own, live, (&found, &all), context)
}

/// What is installed for an extension, and what may take its place; `None` if it stays, or somebody else has a say in it.
async fn movable(extension: &ClusterExtension, context: &Context) -> Option<(Identity, Vec<Wish>)> {
    let live = deployment_of(&extension.name_any(), context)?;
    let installed = installed(&live)?;
    if context.written.is_stale(&*live) || !may_move(extension, &live, &installed) {
        return None;
    }
    let Wishes { all, .. } = wishes(extension.spec.catalog().ok()?, &installed, context).await;
    (!all.is_empty()).then_some((installed, all))
}

/// Whether nobody has to be asked or waited for, and nothing is under way.
fn may_move(extension: &ClusterExtension, live: &BundleDeployment, installed: &Identity) -> bool {
    let Ok(fields) = optional::fields(extension) else { return false };
    let spec = &live.spec;
    let is_asked = fields.get("approval").is_some_and(|policy| policy != "Automatic")
        || spec.approval.is_some_and(|policy| policy != ApprovalPolicy::Automatic);
    let is_held = fields.contains_key("suspend") || fields.contains_key("windows");
    !is_asked
        && !is_held
        && !spec.suspend
        && spec.windows.is_empty()
        && spec.rollback_to.is_none()
        && Identity::read(live.annotations()).as_ref() == Some(installed)
        && is_settled(live)
}

/// Whether the extension has what it depends on installed.
fn asks(name: &str, context: &Context) -> bool {
    let extension = context.extensions.get(&ObjectRef::new(name));
    let policy = extension.and_then(|extension| Asking::Extension(&extension).policy().ok());
    policy.is_some_and(|policy| policy != DependencyPolicy::Refuse)
}

/// The set of these upgrades, unless one of them is in another set, or it did not come about before.
fn begin(
    own: &str,
    live: &BundleDeployment,
    (found, all): (&BTreeMap<String, String>, &Candidates),
    context: &Context,
) -> Option<Together> {
    let others = context.deployments.state();
    let is_busy = |set: &Set| found.keys().any(|name| set.members.contains_key(name));
    if others.iter().filter_map(|other| leading(other, context)).any(|set| is_busy(&set)) {
        return None;
    }
    let mut set = Set { leader: own.to_owned(), ..Set::default() };
    let (mut needy, mut members) = (None, Vec::new());
    for (name, bundle) in found {
        let (from, wishes) = all.get(name)?;
        let wish = wishes.iter().find(|wish| wish.bundle.name == *bundle)?;
        set.members.insert(name.clone(), Change { from: from.clone(), to: wish.identity.clone() });
        let (package, catalog) = (from.package.clone(), in_status(&wish.catalog));
        if name == own {
            needy = Some(Needy { package, bundle: wish.bundle.clone(), catalog });
        } else {
            members.push(member(package, catalog, wish, found.get(own)));
        }
    }
    let is_same = |tried: &Set| tried.failure.is_some() && tried.leader == own && tried.members == set.members;
    if Set::noted(live).is_some_and(|tried| is_same(&tried)) {
        return None;
    }
    Some(Together { set, needy: needy?, others: members })
}

/// What did not come about before, as long as what was installed then is; in words.
pub(super) fn tried(own: &str, live: &BundleDeployment) -> Option<String> {
    let installed = installed(live);
    let tried = Set::noted(live).filter(|set| set.failure.is_some() && set.stands(own, installed.as_ref()))?;
    let (why, name, note) = (tried.told(own), live.name_any(), names::UPGRADED_WITH);
    Some(format!(
        "{why}; they are tried again when a catalog has other versions, or without the annotation {note} of BundleDeployment {name}"
    ))
}

fn member(package: String, catalog: String, wish: &Wish, leading: Option<&String>) -> Member {
    let leader = leading.map(String::as_str).unwrap_or_default();
    let dependency = PlannedDependency {
        package,
        version: wish.identity.version.clone(),
        bundle: wish.identity.name.clone(),
        channel: wish.channel.clone(),
        catalog,
        needed_by: vec![format!("{leader} can only be installed together with it")],
    };
    Member { dependency, is_in_cycle: true }
}
