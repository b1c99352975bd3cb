//! Who depends on whom: whether the packages that a bundle depends on are installed, who waits for that, and what is known of the bundles
//! that are installed. Memory.
//!
//! ```text
//! obtain      packages to install -> a Plan that asks, and objects for them  API server
//! dependents  a bundle -> whom it would leave without what they need         pure
//! marks       who needs whom, in annotations                                 API server
//! ```
//!
//! Of what is installed the packages and their versions are known: those of ClusterExtensions and Subscriptions from the history
//! of their BundleDeployments, those of PlatformOperators from their status. What else a bundle provides and requires its catalog tells, as long as
//! it has the bundle, and after that the inventory of the BundleDeployment. For a BundleDeployment that nobody made from a catalog the inventory
//! tells everything.

pub(crate) mod dependents;
pub(crate) mod marks;
pub(crate) mod obtain;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use rukpak_catalog::{Bundle, Version};
use rukpak_crds::condition::{ConditionStatus, Conditions as _, INSTALLED};
use rukpak_crds::names::UPGRADED_WITH;
use rukpak_crds::olm::{ClusterExtension, deployment_name};
use rukpak_crds::olmv0::Subscription;
use rukpak_crds::{BundleDeployment, Plan, PlatformOperator};
use rukpak_plan::owner::controller;
use rukpak_resolver::set::are_met;
use rukpak_resolver::{Facts, Installed, PACKAGE, Property};
use rukpak_runtime::lock::lock;
use rukpak_runtime::watch::Change;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::catalogs::Catalogs;
use super::installed::{self, Identity, Installed as Found};
use super::olmv0;

/// Packages that are installed, and objects whose bundle depends on one that is not.
pub(crate) struct Dependencies {
    stores: Stores,
    /// Asks for another pass over it.
    wake: Box<dyn Fn(Dependent) + Send + Sync>,
    /// What there was when each of them was refused.
    waiting: Mutex<HashMap<Dependent, Seen>>,
    /// What bundles provide and require, by package, name and version.
    facts: Mutex<HashMap<Key, Arc<Facts>>>,
    /// Told when something else may be installed.
    news: Notify,
    /// Cancelled when catalogs were asked about all that was installed when the process began.
    settled: CancellationToken,
}

/// Everything that is looked at, as last seen.
pub(crate) struct Stores {
    pub deployments: Store<BundleDeployment>,
    pub operators: Store<PlatformOperator>,
    pub extensions: Store<ClusterExtension>,
    /// Those that ask for dependencies.
    pub plans: Store<Plan>,
}

/// An object that installs a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dependent {
    Operator(String),
    Extension(String),
    /// By namespace and name; what is installed, by namespace and package.
    Subscription(String, String),
    /// One that an administrator made. Nothing is installed or upgraded for it.
    Deployment(String),
}

/// A version of a package that is installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    /// Who has it installed.
    pub holder: Dependent,
    pub package: String,
    pub bundle: String,
    /// As the catalog writes it.
    pub version: String,
    /// Its image, as the catalog writes it.
    pub image: String,
    /// Stands for what the inventory of its BundleDeployment says of it.
    pub stated: u64,
}

/// So many bundles that are no longer installed are remembered.
const MOST_FACTS: usize = 256;

/// Package, name and version of a bundle.
type Key = (String, String, String);

/// What decides whether somebody who waits is looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    installed: BTreeSet<Release>,
    /// Who asks for which package.
    asked: BTreeSet<(Dependent, String)>,
    /// Upgrades that only go together wait for what others may do.
    settings: BTreeMap<String, Setting>,
}

/// What decides whether a ClusterExtension takes part in the upgrades of others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    generation: Option<i64>,
    /// Stands for its annotations, and for the set of upgrades that its BundleDeployment notes. They may be long, and everybody who waits has
    /// one for each extension.
    noted: u64,
    /// Generation of its BundleDeployment, that which was looked at, and whether it is installed.
    deployment: Option<(Option<i64>, Option<i64>, bool)>,
}

impl Dependent {
    pub fn name(&self) -> String {
        match self {
            Self::Operator(name) | Self::Extension(name) | Self::Deployment(name) => name.clone(),
            Self::Subscription(namespace, name) => format!("{namespace}/{name}"),
        }
    }

    pub fn kind(&self) -> String {
        match self {
            Self::Operator(_) => PlatformOperator::kind(&()).into_owned(),
            Self::Extension(_) => ClusterExtension::kind(&()).into_owned(),
            Self::Subscription(..) => Subscription::kind(&()).into_owned(),
            Self::Deployment(_) => BundleDeployment::kind(&()).into_owned(),
        }
    }

    /// The BundleDeployment that is made for it.
    pub fn deployment(&self) -> String {
        match self {
            Self::Operator(name) | Self::Deployment(name) => name.clone(),
            Self::Extension(name) => deployment_name(name),
            Self::Subscription(namespace, package) => olmv0::deployment_name(namespace, package),
        }
    }
}

/// For people: `ClusterExtension wells`.
impl std::fmt::Display for Dependent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.kind(), self.name())
    }
}

impl Dependencies {
    pub fn new(stores: Stores, wake: impl Fn(Dependent) + Send + Sync + 'static) -> Self {
        Self {
            stores,
            wake: Box::new(wake),
            waiting: Mutex::default(),
            facts: Mutex::default(),
            news: Notify::new(),
            settled: CancellationToken::new(),
        }
    }

    /// Whether all that `bundle` of `package` depends on is installed. If not, the dependent is woken by
    /// [`Self::changed`].
    pub fn are_met(&self, dependent: Dependent, package: &str, bundle: &Bundle) -> bool {
        let mut waiting = lock(&self.waiting);
        let seen = self.seen();
        // It may wait for what another bundle needs all the same.
        if are_met(package, bundle, self.others(package, &seen.installed)) {
            self.note(package, bundle);
            return true;
        }
        // What it saw first of several looks is the oldest that it decides by.
        waiting.entry(dependent).or_insert(seen);
        false
    }

    /// What is installed. The dependent is woken by [`Self::changed`] once that is something else, unless it is
    /// [forgotten](Self::forget).
    pub fn installed_for(&self, dependent: &Dependent) -> BTreeSet<Release> {
        let seen = self.seen();
        let installed = seen.installed.clone();
        lock(&self.waiting).entry(dependent.clone()).or_insert(seen);
        installed
    }

    /// The dependent waits for nothing.
    pub fn forget(&self, dependent: &Dependent) {
        lock(&self.waiting).remove(dependent);
    }

    /// Remembers what a bundle provides and requires that is about to be installed. Returns whether that can be read.
    pub fn note(&self, package: &str, bundle: &Bundle) -> bool {
        let Ok(facts) = Facts::of(package, bundle) else { return false };
        let key = (package.to_owned(), bundle.name.clone(), bundle.version_text.clone());
        lock(&self.facts).insert(key, Arc::new(facts));
        true
    }

    /// A watch has shown something: whoever was refused is looked at again if other packages are installed now.
    pub fn changed(&self) {
        self.news.notify_one();
        self.woken().into_iter().for_each(&self.wake);
    }

    /// Plans were made, answered or deleted: those whose they are look again. What happened while nobody watched is not told one by one.
    pub fn planned(&self, change: &Change<Plan>) {
        match change {
            Change::Present(plan) | Change::Gone(plan) => {
                let Some(owner) = controller(&plan.metadata) else { return };
                let (name, is_operator) = (owner.name.clone(), owner.kind == PlatformOperator::kind(&()));
                self.answered(if is_operator { Dependent::Operator(name) } else { Dependent::Extension(name) });
            }
            Change::Listed { .. } => {
                let (operators, extensions) = (self.stores.operators.state(), self.stores.extensions.state());
                let operators = operators.iter().map(|operator| Dependent::Operator(operator.name_any()));
                let extensions = extensions.iter().map(|extension| Dependent::Extension(extension.name_any()));
                operators.chain(extensions).for_each(&self.wake);
            }
        }
    }

    /// The dependent is to be looked at again.
    pub fn answered(&self, dependent: Dependent) {
        (self.wake)(dependent);
    }

    /// Returns when it is known of everything that is installed what it depends on, as far as catalogs tell.
    pub async fn settled(&self) {
        self.settled.cancelled().await;
    }

    /// Asks the catalogs that lie here about what was installed before the process began, until they were asked.
    pub async fn begin(&self, catalogs: &Catalogs) {
        if !self.settled.is_cancelled() {
            self.learn(catalogs).await;
        }
    }

    /// Asks the catalogs that lie here about what is installed, where none has said anything. Returns whether one said more.
    pub async fn learn(&self, catalogs: &Catalogs) -> bool {
        let mut has_learned = false;
        for release in self.unknown() {
            let found = catalogs.bundle_at_hand(&release.package, &release.bundle, &release.image).await;
            let found = found.filter(|found| found.version_text == release.version);
            has_learned |= found.is_some_and(|found| self.note(&release.package, &found));
        }
        has_learned
    }

    /// All that is known of what a release provides and requires, if that is more than its package: by a catalog, else by the inventory.
    fn known(&self, release: &Release) -> Option<Arc<Facts>> {
        let told = lock(&self.facts).get(&release.key()).cloned();
        told.or_else(|| {
            let deployment = self.stores.deployments.get(&ObjectRef::new(&release.holder.deployment()))?;
            facts_in_inventory(&deployment).map(Arc::new)
        })
    }

    /// What is installed and was described by no catalog yet.
    fn unknown(&self) -> Vec<Release> {
        let installed = self.installed();
        let mut facts = lock(&self.facts);
        if facts.len() > MOST_FACTS + 2 * installed.len() {
            let kept: BTreeSet<Key> = installed.iter().map(Release::key).collect();
            facts.retain(|key, _| kept.contains(key));
        }
        installed.into_iter().filter(|release| !facts.contains_key(&release.key())).collect()
    }

    /// Those for which something else is installed, or asked for, by now than when they were refused. Each is told of once.
    fn woken(&self) -> Vec<Dependent> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_empty() {
            return Vec::new();
        }
        let now = self.seen();
        let woken: Vec<Dependent> =
            waiting.iter().filter(|(_, seen)| **seen != now).map(|(dependent, _)| dependent.clone()).collect();
        for dependent in &woken {
            waiting.remove(dependent);
        }
        woken
    }

    fn seen(&self) -> Seen {
        Seen { installed: self.installed(), asked: self.asked(), settings: self.settings() }
    }

    fn settings(&self) -> BTreeMap<String, Setting> {
        let setting = |extension: &Arc<ClusterExtension>| {
            let deployment = self.stores.deployments.get(&ObjectRef::new(&deployment_name(&extension.name_any())));
            let mut noted = DefaultHasher::new();
            extension.annotations().hash(&mut noted);
            let deployment = deployment.map(|deployment| {
                deployment.annotations().get(UPGRADED_WITH).hash(&mut noted);
                let status = deployment.status.as_ref();
                let is_installed = status.is_some_and(|status| status.conditions.is(INSTALLED, ConditionStatus::True));
                let observed = status.and_then(|status| status.observed_generation);
                (deployment.metadata.generation, observed, is_installed)
            });
            Setting { generation: extension.metadata.generation, noted: noted.finish(), deployment }
        };
        let extensions = self.stores.extensions.state();
        extensions.iter().map(|extension| (extension.name_any(), setting(extension))).collect()
    }

    /// Who asks for which package.
    pub fn asked(&self) -> BTreeSet<(Dependent, String)> {
        let operators = self.stores.operators.state();
        let operators = operators.iter().filter(|operator| operator.meta().deletion_timestamp.is_none());
        let operators =
            operators.map(|operator| (Dependent::Operator(operator.name_any()), operator.spec.package.name.clone()));
        let extensions = self.stores.extensions.state();
        let extensions = extensions.iter().filter(|extension| extension.meta().deletion_timestamp.is_none());
        let extensions = extensions.filter_map(|extension| {
            let package = extension.spec.source.catalog.as_ref()?.package_name.clone();
            Some((Dependent::Extension(extension.name_any()), package))
        });
        operators.chain(extensions).collect()
    }

    /// What is installed beside `package`, with all that is known of it.
    fn others(&self, package: &str, installed: &BTreeSet<Release>) -> Vec<Installed> {
        // What it takes the place of is no obstacle.
        let others = installed.iter().filter(|release| release.package != package);
        others.filter_map(|release| self.described(release)).collect()
    }

    /// What is known of a release.
    pub fn described(&self, release: &Release) -> Option<Installed> {
        let facts = self.known(release).or_else(|| release.facts().map(Arc::new))?;
        Some(Installed { name: release.bundle.clone(), facts })
    }

    /// Versions of packages that BundleDeployments have installed for objects which are there, and for administrators: what is on its way
    /// out does not count, nor what a tenant says by a BundleDeployment with an account of its own.
    fn installed(&self) -> BTreeSet<Release> {
        let deployments = self.stores.deployments.state();
        deployments.iter().filter_map(|deployment| self.release(deployment)).collect()
    }

    /// The version of a package that a BundleDeployment has installed, and for whom.
    pub fn release(&self, deployment: &BundleDeployment) -> Option<Release> {
        let is_active = deployment.status.as_ref().is_some_and(|status| status.active_bundle.is_some());
        let subscribed = olmv0::subscribed(deployment).filter(|_| is_active);
        if let Some((namespace, package)) = subscribed.filter(|_| deployment.meta().deletion_timestamp.is_none()) {
            return installed_release(Dependent::Subscription(namespace, package), deployment);
        }
        if !is_active || deployment.meta().deletion_timestamp.is_some() {
            return None;
        }
        let owner = controller(&deployment.metadata);
        let Some(owner) = owner else { return unowned_release(deployment) };
        let (uid, name) = (Some(&owner.uid), deployment.name_any());
        if owner.kind == ClusterExtension::kind(&()) && deployment_name(&owner.name) == name {
            let extension = self.stores.extensions.get(&ObjectRef::new(&owner.name))?;
            let holder = Dependent::Extension(owner.name.clone());
            return installed_release(holder, deployment).filter(|_| extension.uid().as_ref() == uid);
        }
        let operator = self.stores.operators.get(&ObjectRef::new(&name))?;
        let source = operator.status.as_ref()?.source.clone().filter(|_| operator.uid().as_ref() == uid)?;
        Some(Release {
            holder: Dependent::Operator(name),
            package: source.package,
            bundle: source.bundle,
            version: source.version,
            image: source.image,
            stated: stated(deployment),
        })
    }
}

impl Release {
    fn key(&self) -> Key {
        (self.package.clone(), self.bundle.clone(), self.version.clone())
    }

    /// What is known of it without a catalog.
    fn facts(&self) -> Option<Facts> {
        facts_of(&self.package, &self.version)
    }
}

/// What is known without a catalog of a bundle that is installed.
pub(crate) fn installed_as(package: &str, bundle: &str, version: &str) -> Option<Installed> {
    Some(Installed { name: bundle.to_owned(), facts: Arc::new(facts_of(package, version)?) })
}

fn facts_of(package: &str, version: &str) -> Option<Facts> {
    let value = json!({"packageName": package, "version": version});
    let properties = vec![Property { kind: PACKAGE.to_owned(), value }];
    Facts::read(Version::parse(version).ok(), properties).ok()
}

/// The version that a BundleDeployment has installed for an extension or a Subscription.
fn installed_release(holder: Dependent, deployment: &BundleDeployment) -> Option<Release> {
    match installed::from_history(deployment) {
        Found::Bundle(Identity { package, name: bundle, version, reference: image, .. }) => {
            Some(Release { holder, package, bundle, version, image, stated: stated(deployment) })
        }
        Found::Nothing | Found::Unknown(_) => None,
    }
}

/// What a BundleDeployment has installed that nobody made from a catalog. Of one with a `serviceAccount` a tenant may have chosen the bundle,
/// and with it the package that it claims to be: it neither meets what others need nor keeps them from being upgraded.
fn unowned_release(deployment: &BundleDeployment) -> Option<Release> {
    let inventory = deployment.status.as_ref()?.inventory.as_ref()?;
    if deployment.spec.service_account.is_some() || inventory.properties.is_empty() {
        return None;
    }
    let package = inventory.properties.iter().find(|property| property.type_ == PACKAGE);
    let text = |key: &str| package.and_then(|package| package.value[key].as_str()).unwrap_or_default().to_owned();
    Some(Release {
        holder: Dependent::Deployment(deployment.name_any()),
        package: text("packageName"),
        bundle: deployment.status.as_ref()?.active_bundle.clone()?,
        version: text("version"),
        image: String::new(),
        stated: stated(deployment),
    })
}

fn stated(deployment: &BundleDeployment) -> u64 {
    let mut hasher = DefaultHasher::new();
    let inventory = deployment.status.as_ref().and_then(|status| status.inventory.as_ref());
    for property in inventory.iter().flat_map(|inventory| &inventory.properties) {
        (&property.type_, property.value.to_string()).hash(&mut hasher);
    }
    hasher.finish()
}

/// `None` also where the inventory says nothing, or nothing that can be read.
fn facts_in_inventory(deployment: &BundleDeployment) -> Option<Facts> {
    let properties = &deployment.status.as_ref()?.inventory.as_ref()?.properties;
    let facts = Facts::stated(properties.iter().map(|property| (&*property.type_, &property.value)));
    facts.ok().filter(|_| !properties.is_empty())
}

#[cfg(test)]
mod tests;
