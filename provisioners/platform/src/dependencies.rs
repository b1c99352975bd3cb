//! Whether the packages that a bundle depends on are installed, and who waits for that. Memory.
//!
//! Of what is installed the packages and their versions are known: those of ClusterExtensions and Subscriptions from the history of
//! their BundleDeployments, those of PlatformOperators from their status. APIs that others provide are not: nobody notes them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use rukpak_catalog::{Bundle, Version};
use rukpak_crds::olm::{ClusterExtension, deployment_name};
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_resolver::{Catalog, CatalogName, Entry, Facts, Installed, Package, Property, Request, World, resolve};
use serde_json::json;

use super::installed::{self, Identity, Installed as Found};
use super::olmv0;

/// Packages that are installed, and objects whose bundle depends on one that is not.
pub(crate) struct Dependencies {
    deployments: Store<BundleDeployment>,
    operators: Store<PlatformOperator>,
    extensions: Store<ClusterExtension>,
    /// Asks for another pass over it.
    wake: Box<dyn Fn(Dependent) + Send + Sync>,
    /// What was installed when each of them was refused.
    waiting: Mutex<HashMap<Dependent, BTreeSet<Release>>>,
}

/// An object that installs a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dependent {
    Operator(String),
    Extension(String),
    /// By namespace and name.
    Subscription(String, String),
}

/// A version of a package that is installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    pub package: String,
    pub bundle: String,
    /// As the catalog writes it.
    pub version: String,
}

impl Dependencies {
    pub fn new(
        deployments: Store<BundleDeployment>,
        operators: Store<PlatformOperator>,
        extensions: Store<ClusterExtension>,
        wake: impl Fn(Dependent) + Send + Sync + 'static,
    ) -> Self {
        Self { deployments, operators, extensions, wake: Box::new(wake), waiting: Mutex::default() }
    }

    /// Whether all that `bundle` of `package` depends on is installed. If not, the dependent is woken by
    /// [`Self::changed`].
    pub fn are_met(&self, dependent: Dependent, package: &str, bundle: &Bundle) -> bool {
        let mut waiting = self.lock();
        let installed = self.installed();
        if are_met(package, bundle, &installed) {
            waiting.remove(&dependent);
            return true;
        }
        waiting.insert(dependent, installed);
        false
    }

    /// What is installed. The dependent is woken by [`Self::changed`] once that is something else, unless it is
    /// [forgotten](Self::forget).
    pub fn installed_for(&self, dependent: &Dependent) -> BTreeSet<Release> {
        let mut waiting = self.lock();
        let installed = self.installed();
        waiting.insert(dependent.clone(), installed.clone());
        installed
    }

    /// The dependent waits for nothing.
    pub fn forget(&self, dependent: &Dependent) {
        self.lock().remove(dependent);
    }

    /// A watch has shown something: whoever was refused is looked at again if other packages are installed now.
    pub fn changed(&self) {
        self.woken().into_iter().for_each(&self.wake);
    }

    /// Those for which something else is installed by now than when they were refused. Each is told of once.
    fn woken(&self) -> Vec<Dependent> {
        let mut waiting = self.lock();
        if waiting.is_empty() {
            return Vec::new();
        }
        let installed = self.installed();
        let woken: Vec<Dependent> =
            waiting.iter().filter(|(_, seen)| **seen != installed).map(|(dependent, _)| dependent.clone()).collect();
        for dependent in &woken {
            waiting.remove(dependent);
        }
        woken
    }

    /// Versions of packages that BundleDeployments have installed for objects which are there: what others write into a BundleDeployment
    /// of their own counts as little as what is on its way out.
    fn installed(&self) -> BTreeSet<Release> {
        let deployments = self.deployments.state();
        deployments.iter().filter_map(|deployment| self.release(deployment)).collect()
    }

    fn release(&self, deployment: &BundleDeployment) -> Option<Release> {
        let is_active = deployment.status.as_ref().is_some_and(|status| status.active_bundle.is_some());
        if is_active && deployment.meta().deletion_timestamp.is_none() && olmv0::is_of_subscription(deployment) {
            return installed_release(deployment);
        }
        let owner = deployment.owner_references().iter().find(|owner| owner.controller == Some(true))?;
        let (uid, name) = (Some(&owner.uid), deployment.name_any());
        if !is_active || deployment.meta().deletion_timestamp.is_some() {
            return None;
        }
        if owner.kind == ClusterExtension::kind(&()) && deployment_name(&owner.name) == name {
            let extension = self.extensions.get(&ObjectRef::new(&owner.name))?;
            return installed_release(deployment).filter(|_| extension.uid().as_ref() == uid);
        }
        let operator = self.operators.get(&ObjectRef::new(&name)).filter(|operator| operator.uid().as_ref() == uid)?;
        let source = operator.status.as_ref()?.source.as_ref()?;
        let (package, bundle) = (source.package.clone(), source.bundle.clone());
        Some(Release { package, bundle, version: source.version.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Dependent, BTreeSet<Release>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version that a BundleDeployment has installed for an extension.
fn installed_release(deployment: &BundleDeployment) -> Option<Release> {
    match installed::from_history(deployment) {
        Found::Bundle(Identity { package, name: bundle, version, .. }) => Some(Release { package, bundle, version }),
        Found::Nothing | Found::Unknown(_) => None,
    }
}

/// Whether the resolver installs `bundle` beside what is installed, and nothing else with it. Pure.
fn are_met(package: &str, bundle: &Bundle, installed: &BTreeSet<Release>) -> bool {
    // What it takes the place of is no obstacle.
    let others = installed.iter().filter(|release| release.package != package);
    let installed = others.filter_map(of_release).collect();
    let Ok(facts) = Facts::of(package, bundle) else { return false };

    let entry = Entry { name: bundle.name.clone(), facts: Arc::new(facts), ..Entry::default() };
    let offered = Package { channels: [(String::new(), vec![entry])].into(), ..Package::default() };
    let packages = [(package.to_owned(), offered)].into();
    let catalog = Catalog { name: CatalogName::default(), packages, ..Catalog::default() };
    let request = Request {
        name: package.to_owned(),
        package: package.to_owned(),
        starting: Some(bundle.name.clone()),
        ..Request::default()
    };
    resolve(&World { catalogs: vec![catalog], installed, ..World::default() }, &[request]).refusals.is_empty()
}

pub(crate) fn of_release(Release { package, bundle, version }: &Release) -> Option<Installed> {
    let value = json!({"packageName": package, "version": version});
    let properties = vec![Property { kind: "olm.package".to_owned(), value }];
    let facts = Facts::read(Version::parse(version).ok(), properties).ok()?;
    Some(Installed { name: bundle.clone(), facts: Arc::new(facts) })
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use rukpak_catalog::model::{Facts as Stated, RequiredPackage};
    use serde_json::Value;

    use super::*;

    fn release(package: &str, version: &str) -> Release {
        Release { package: package.to_owned(), bundle: format!("{package}.v{version}"), version: version.to_owned() }
    }

    /// Version 1.0.0 of the package `p`.
    fn bundle(facts: Stated) -> Bundle {
        Bundle {
            name: "p.v1.0.0".to_owned(),
            version: "1.0.0".parse().ok(),
            version_text: "1.0.0".to_owned(),
            facts,
            ..Bundle::default()
        }
    }

    fn needs(package: &str, range: &str) -> Bundle {
        let required = RequiredPackage { name: package.to_owned(), range: range.to_owned() };
        bundle(Stated { requires_packages: vec![required], ..Stated::default() })
    }

    #[test]
    fn a_package_is_met_by_an_installed_version_in_its_range() {
        let met = |bundle: &Bundle, installed: &[Release]| are_met("p", bundle, &installed.iter().cloned().collect());
        let wells = needs("wells", ">=1.2.0 <2.0.0");
        assert!(!met(&wells, &[]));
        assert!(!met(&wells, &[release("wells", "1.1.0")]) && !met(&wells, &[release("other", "1.2.0")]));
        assert!(met(&wells, &[release("other", "9.0.0"), release("wells", "1.3.0")]));
        assert!(met(&wells, &[release("p", "0.9.0"), release("wells", "1.3.0")]), "it replaces what is installed");
        assert!(!met(&wells, &[release("wells", "not a version")]));
    }

    #[test]
    fn a_constraint_is_met_as_the_resolver_reads_it() {
        let range = |package: &str| json!({"package": {"packageName": package, "versionRange": ">=1.0.0"}});
        let any = json!({"any": {"constraints": [range("wells"), range("springs")]}});
        let rule = "properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'springs')";
        for constraint in [any, json!({"cel": {"rule": rule}})] {
            let bundle = bundle(Stated { constraints: vec![constraint.to_string()], ..Stated::default() });
            let met = |installed: &[Release]| are_met("p", &bundle, &installed.iter().cloned().collect());
            assert!(met(&[release("springs", "1.0.0")]), "{constraint}");
            assert!(!met(&[release("lakes", "1.0.0")]), "{constraint}");
        }
        let unreadable = bundle(Stated { constraints: vec!["{\"cel\": 1}".to_owned()], ..Stated::default() });
        assert!(!are_met("p", &unreadable, &BTreeSet::new()));
    }

    #[test]
    fn a_package_of_an_extension_counts_as_soon_as_the_extension_is_known() {
        let (deployments, mut of_deployments) = reflector::store();
        let (operators, _) = reflector::store();
        let (extensions, mut of_extensions) = reflector::store();
        let (sender, woken) = std::sync::mpsc::channel();
        let wake = move |dependent| sender.send(dependent).expect("it is received");
        let dependencies = Dependencies::new(deployments, operators, extensions, wake);
        let identity = [
            ("package-name", "wells"),
            ("bundle-name", "wells.v1"),
            ("bundle-version", "1.2.0"),
            ("bundle-reference", "r"),
        ];
        let identity: HashMap<_, _> =
            identity.map(|(key, value)| (format!("olm.operatorframework.io/{key}"), value)).into();
        let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": "u",
            "controller": true});
        let revision = json!({"revision": 1, "bundle": "e-1", "contentDigest": "sha256:0a", "result": "Installed",
            "time": "2026-01-01T00:00:00Z", "annotations": identity});
        let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
        let deployment = json!({"metadata": {"name": "e", "ownerReferences": [owner]},
            "spec": {"provisionerClassName": "c", "template": template},
            "status": {"activeBundle": "e-1", "history": [revision]}});
        of_deployments
            .apply_watcher_event(&Event::Apply(serde_json::from_value(deployment).expect("a BundleDeployment")));

        // As after a restart.
        let refused = || Dependent::Operator("p".to_owned());
        assert!(!dependencies.are_met(refused(), "p", &needs("wells", ">=1.2.0")));
        let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "wells"}});
        let extension = json!({"metadata": {"name": "e", "uid": "u"}, "spec": {"namespace": "ns", "source": source}});
        of_extensions
            .apply_watcher_event(&Event::Apply(serde_json::from_value(extension).expect("a ClusterExtension")));
        dependencies.changed();
        assert_eq!(woken.try_iter().collect::<Vec<_>>(), [refused()]);
        assert!(dependencies.are_met(refused(), "p", &needs("wells", ">=1.2.0")));
    }

    #[test]
    fn whoever_was_refused_is_told_once_when_something_else_is_installed() {
        let (deployments, mut seen) = reflector::store();
        let (operators, mut of_operators) = reflector::store();
        let (extensions, _) = reflector::store();
        let dependencies = Dependencies::new(deployments, operators, extensions, |_| {});
        let source = json!({"catalog": "c", "package": "wells", "bundle": "wells.v1.2.0", "version": "1.2.0", "image": "r.example/i"});
        let operator = json!({"metadata": {"name": "wells", "uid": "u"}, "spec": {"package": {"name": "wells"}},
            "status": {"source": source}});
        of_operators.apply_watcher_event(&Event::Apply(serde_json::from_value(operator).expect("a PlatformOperator")));
        let deployment = |uid: &str, active: Value| -> BundleDeployment {
            let owner = json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "name": "wells",
                "uid": uid, "controller": true});
            let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
            serde_json::from_value(json!({"metadata": {"name": "wells", "ownerReferences": [owner]},
                "spec": {"provisionerClassName": "c", "template": template}, "status": {"activeBundle": active}}))
            .expect("a BundleDeployment")
        };
        let wells = needs("wells", ">=1.2.0");
        let refused = || Dependent::Extension("p".to_owned());
        assert_eq!(dependencies.woken(), [], "nobody waits");
        assert!(!dependencies.are_met(refused(), "p", &wells));

        seen.apply_watcher_event(&Event::Apply(deployment("u", Value::Null)));
        assert_eq!(dependencies.woken(), [], "it is not installed yet");
        seen.apply_watcher_event(&Event::Apply(deployment("another", json!("wells-1"))));
        assert_eq!(dependencies.woken(), [], "it is somebody else's");
        seen.apply_watcher_event(&Event::Apply(deployment("u", json!("wells-1"))));
        assert_eq!(dependencies.woken(), [refused()]);
        assert_eq!(dependencies.woken(), []);
        assert!(dependencies.are_met(refused(), "p", &wells));
    }
}
