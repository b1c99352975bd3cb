//! What a release declares, what of it is in the cluster, the proof that all of it is, and what leaves because no release declares it.
//!
//! An object whose kind is not served (its version has ended, the API server has just started) cannot be planned. It is declared
//! all the same, so it is not pruned.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_content::Digest;
use rukpak_crds::{BundleDeploymentSpec, DeletionPolicy, Inventory, MissingObject};
use rukpak_plain::ObjectKey;
use serde_json::json;

use crate::health::{self, Health};
use crate::kind::Identity;
use crate::missing::{Missing, Need};
use crate::{Fingerprint, Kind, MissingKind, Phase, Plan, Release, fingerprint};

/// An object as we applied it.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// Where it is.
    pub identity: Identity,
    /// Its fingerprint after the apply.
    pub fingerprint: Fingerprint,
    /// Its health when last read.
    pub health: Health,
    /// Whether that is of the object as it is now: it has not moved since, and was read.
    pub is_read: bool,
    /// When it was last read for its health.
    pub read_at: Timestamp,
}

/// Every object that was applied for a deployment.
pub type Objects = BTreeMap<ObjectKey, Tracked>;

/// The proof that every object that a release declares is in the cluster, but for those of kinds that are not served: the only thing
/// that a status calls installed.
///
/// It is made from the fingerprints that the API server's answers gave, one for each step of the plan, or from a cluster in which
/// every fingerprint is as the status says that it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    release: Release,
    renderer: String,
    digest: String,
    objects: usize,
    missing: Vec<Missing>,
}

impl Applied {
    /// All steps of `plan` are among `objects`, but for those that are `used`: Namespaces of somebody else. `None` if one is not.
    pub fn by(plan: &Plan, renderer: &str, objects: &Objects, used: impl Fn(&ObjectKey) -> bool) -> Option<Self> {
        let is_whole = plan.steps.keys().all(|key| objects.contains_key(key) || used(key));
        is_whole.then(|| Self::of(plan.release.clone(), renderer, objects, plan.missing.clone()))
    }

    /// The cluster is as the inventory says that it was left, and these objects are missing still. `None` if it is not.
    pub fn resumed(
        inventory: &Inventory,
        release: &Release,
        renderer: &str,
        objects: &Objects,
        missing: Vec<Missing>,
    ) -> Option<Self> {
        let applied = Self::of(release.clone(), renderer, objects, missing);
        (inventory.applied_digest.as_ref() == Some(&applied.digest)).then_some(applied)
    }

    fn of(release: Release, renderer: &str, objects: &Objects, missing: Vec<Missing>) -> Self {
        let fingerprints = objects.iter().map(|(key, tracked)| (key, &tracked.fingerprint));
        let digest = fingerprint::digest(&release.content.to_string(), renderer, fingerprints, &missing);
        Self { digest, objects: objects.len(), renderer: renderer.to_owned(), release, missing }
    }

    /// The same after repairs: some fingerprints have changed, and some of the objects that are `used`. All that was not repaired is as `renderer` made it then, whatever the spec
    /// says by now.
    #[must_use]
    pub fn again(&self, used: &[String], objects: &Objects) -> Self {
        Self::of(self.release.clone(), &using(&self.renderer, used), objects, self.missing.clone())
    }

    /// Whether it is the proof of these objects, as `renderer` makes them.
    pub fn proves(&self, renderer: &str, objects: &Objects) -> bool {
        self.renderer == renderer && Self::of(self.release.clone(), renderer, objects, self.missing.clone()) == *self
    }

    /// What is installed.
    pub fn release(&self) -> &Release {
        &self.release
    }

    /// What the release declares and is not in the cluster.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// What the installed release declares, where its plan is not at hand: what was applied, and what could not be.
    pub fn declared(&self, objects: &Objects, default_namespace: &str) -> Declared {
        let missing = self.missing.iter().flat_map(|missing| missing.keys(default_namespace));
        objects.keys().cloned().chain(missing).collect()
    }

    /// Says so in an inventory.
    pub fn write(&self, inventory: &mut Inventory) {
        self.release.install_in(inventory);
        inventory.pending = None;
        inventory.applied_digest = Some(self.digest.clone());
        inventory.objects = i64::try_from(self.objects).ok();
        Missing::write(&self.missing, inventory);
    }
}

/// `renderer`, and what the spec says of how its objects are applied: who owns them, if it is not the deployment, what is left to others by
/// rule, and whose rights are used. Part of the digest: else nobody knew after a restart that it has changed.
pub fn rendered_for(renderer: &str, spec: &BundleDeploymentSpec) -> String {
    let policy = spec.deletion_policy.unwrap_or_default();
    let policy = match policy {
        DeletionPolicy::Delete | DeletionPolicy::InOrder => None,
        DeletionPolicy::Orphan | DeletionPolicy::KeepCRDs => Some(format!(" {policy:?}")),
    };
    let rules = Some(&spec.ignore_differences).filter(|rules| !rules.is_empty());
    let rules = rules.map(|rules| format!(" ignoring {}", Digest::sha256(json!(rules).to_string().as_bytes())));
    let account = spec.service_account.as_ref().map(|account| format!(" by {}", account.user_name()));
    [Some(renderer.to_owned()), policy, rules, account].into_iter().flatten().collect()
}

/// `renderer`, and which CRDs of other BundleDeployments are used, of all objects that are `used`: nobody tells a process that begins
/// which of them have gone while none looked.
pub fn using(renderer: &str, used: &[String]) -> String {
    const USING: &str = " using CustomResourceDefinition ";
    let renderer = renderer.split_once(USING).map_or(renderer, |(renderer, _)| renderer);
    let crds: BTreeSet<&str> = used.iter().filter_map(|used| used.strip_prefix("CustomResourceDefinition ")).collect();
    crds.into_iter().fold(renderer.to_owned(), |renderer, crd| format!("{renderer}{USING}{crd}"))
}

/// What is not healthy, a line an object, in the form of upstream.
pub fn complaints(objects: &Objects) -> Vec<String> {
    lines(objects.iter().filter(|(_, tracked)| !tracked.health.is_healthy()))
}

/// The same of what was read as it is now.
pub(crate) fn known_complaints(objects: &Objects) -> Vec<String> {
    lines(objects.iter().filter(|(_, tracked)| tracked.is_read && !tracked.health.is_healthy()))
}

/// Whether all objects were read as they are now, and are healthy.
pub(crate) fn are_healthy(objects: &Objects) -> bool {
    objects.values().all(|tracked| tracked.is_read && tracked.health.is_healthy())
}

fn lines<'a>(unhealthy: impl Iterator<Item = (&'a ObjectKey, &'a Tracked)>) -> Vec<String> {
    unhealthy
        .map(|(key, tracked)| {
            let version = &tracked.identity.kind.resource.version;
            health::line(&key.group, version, &key.kind, key.namespace.as_deref(), &key.name, &tracked.health)
        })
        .collect()
}

/// What a release declares: group, kind, namespace and name of each object. Whatever its version, it is one object.
pub type Declared = BTreeSet<ObjectKey>;

impl Plan {
    /// Everything that the release declares, and its hooks: what an earlier release declares and this one runs does not leave.
    /// Namespaced objects that name no namespace are in `default_namespace`.
    pub fn declared(&self, default_namespace: &str) -> Declared {
        let hooks = self.hooks.iter().map(|hook| hook.step.key.clone());
        let planned = self.steps.keys().cloned().chain(hooks);
        planned.chain(self.missing.iter().flat_map(|missing| missing.keys(default_namespace))).collect()
    }
}

/// The status lists so many of the objects that are missing. Where there are more, the next process does not find what was applied,
/// and applies everything again.
const LISTED: usize = 100;

impl Missing {
    /// The objects that are missing, as the status says it.
    pub fn write(missing: &[Self], inventory: &mut Inventory) {
        let objects = missing.iter().filter_map(|missing| {
            let (Need::Object(key) | Need::Optional(key)) = &missing.need else { return None };
            Some(MissingObject {
                group: key.group.clone(),
                version: missing.kind.version().to_owned(),
                kind: key.kind.clone(),
                namespace: key.namespace.clone().unwrap_or_default(),
                name: key.name.clone(),
                optional: missing.is_optional(),
            })
        });
        inventory.missing = objects.take(LISTED).collect();
    }

    /// What the status says of an object that is missing. `served`: its kind in another version, where that is served by now.
    pub fn read(object: &MissingObject, served: Option<Kind>) -> Self {
        let MissingObject { group, version, kind, namespace, name, optional } = object.clone();
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let key = ObjectKey { group, kind: kind.clone(), namespace, name };
        let api_version = if key.group.is_empty() { version } else { format!("{}/{version}", key.group) };
        let need = if optional { Need::Optional(key) } else { Need::Object(key) };
        Self { kind: MissingKind { api_version, kind }, need, served }
    }

    /// The object that is declared. Where nobody tells whether its kind is namespaced, both objects that it may be.
    pub fn keys(&self, default_namespace: &str) -> Vec<ObjectKey> {
        let (Need::Object(key) | Need::Optional(key)) = &self.need else { return Vec::new() };
        let namespaced = || ObjectKey {
            namespace: key.namespace.clone().or_else(|| Some(default_namespace.to_owned())),
            ..key.clone()
        };
        let cluster_scoped = || ObjectKey { namespace: None, ..key.clone() };
        match self.served.as_ref().map(|kind| kind.namespaced) {
            Some(true) => vec![namespaced()],
            Some(false) => vec![cluster_scoped()],
            None => vec![namespaced(), cluster_scoped()],
        }
    }
}

/// The members that leave, in the order in which they go: the reverse of applying.
///
/// What is declared stays. What is being deleted is among them: it is waited for. An object that was applied by another key is the
/// same object: `applied` has the UIDs of all (groups may share a storage, as `extensions` and `networking.k8s.io` did).
pub fn leaving<'a>(
    members: impl IntoIterator<Item = (&'a ObjectKey, &'a ObjectMeta)>,
    declared: &Declared,
    applied: &BTreeSet<String>,
) -> Vec<ObjectKey> {
    let is_applied = |meta: &ObjectMeta| meta.uid.as_ref().is_some_and(|uid| applied.contains(uid));
    let leaves = |key: &ObjectKey, meta: &ObjectMeta| !declared.contains(key) && !is_applied(meta);
    let members = members.into_iter().filter(|(key, meta)| leaves(key, meta));
    let mut leaving: Vec<ObjectKey> = members.map(|(key, _)| key.clone()).collect();
    leaving.sort_by_cached_key(|key| (Reverse(Phase::of(&key.group, &key.kind)), key.clone()));
    leaving
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::{ApiResource, GroupVersionKind};
    use rukpak_crds::ServiceAccountReference;
    use serde_json::json;

    use super::*;

    fn key(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
        let namespace = namespace.map(str::to_owned);
        ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace, name: name.to_owned() }
    }

    fn meta(uid: &str) -> ObjectMeta {
        ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() }
    }

    fn missing(namespace: Option<&str>, served: Option<bool>) -> Missing {
        let kind = MissingKind { api_version: "one.example.com/v1alpha1".to_owned(), kind: "Db".to_owned() };
        let gvk = GroupVersionKind::gvk("one.example.com", "v1", "Db");
        let served = served.map(|namespaced| Kind { resource: Arc::new(ApiResource::from_gvk(&gvk)), namespaced });
        Missing { kind, need: Need::Object(key("one.example.com", "Db", namespace, "precious")), served }
    }

    #[test]
    fn a_repair_does_not_carry_out_what_the_spec_says_by_now() {
        let release = Release::new(Digest::sha256(b"content"), crate::Format::Plain, None);
        let spec = |account: &str| BundleDeploymentSpec {
            service_account: Some(ServiceAccountReference { name: account.to_owned(), namespace: "ns".to_owned() }),
            deletion_policy: Some(DeletionPolicy::Orphan),
            ..BundleDeploymentSpec::default()
        };
        let (old, new) = (rendered_for("plain/1", &spec("old")), rendered_for("plain/1", &spec("new")));
        assert_eq!(old, "plain/1 Orphan by system:serviceaccount:ns:old");
        assert_eq!(rendered_for("plain/1", &BundleDeploymentSpec::default()), "plain/1");

        let objects = Objects::new();
        let repaired = Applied::of(release.clone(), &old, &objects, Vec::new()).again(&[], &objects);
        assert!(repaired.proves(&old, &objects) && !repaired.proves(&new, &objects));
        let mut inventory = Inventory::default();
        repaired.write(&mut inventory);
        let resumed = |renderer| Applied::resumed(&inventory, &release, renderer, &objects, Vec::new());
        assert!(resumed(&old).is_some() && resumed(&new).is_none(), "not after a restart either");
    }

    #[test]
    fn an_object_whose_version_is_not_served_does_not_leave() {
        for (namespace, live) in [(None, Some("system")), (None, None), (Some("ns"), Some("ns")), (Some("ns"), None)] {
            for served in [None, Some(live.is_some())] {
                let live = key("one.example.com", "Db", live, "precious");
                let declared: Declared = missing(namespace, served).keys("system").into_iter().collect();
                let members = BTreeMap::from([(live, meta("u"))]);
                assert!(leaving(&members, &declared, &BTreeSet::new()).is_empty(), "{namespace:?} {served:?}");
            }
        }
    }

    #[test]
    fn an_object_of_another_name_or_namespace_leaves() {
        let declared: Declared = missing(Some("ns"), None).keys("system").into_iter().collect();
        for other in [
            key("one.example.com", "Db", Some("ns"), "other"),
            key("one.example.com", "Db", Some("system"), "precious"),
            key("two.example.com", "Db", Some("ns"), "precious"),
        ] {
            let members = BTreeMap::from([(other.clone(), meta("u"))]);
            assert_eq!(leaving(&members, &declared, &BTreeSet::new()), [other]);
        }
    }

    #[test]
    fn an_object_that_was_applied_in_another_group_does_not_leave() {
        let members = BTreeMap::from([(key("extensions", "Ingress", Some("ns"), "a"), meta("u"))]);
        let declared = Declared::from([key("networking.k8s.io", "Ingress", Some("ns"), "a")]);
        assert!(leaving(&members, &declared, &BTreeSet::from(["u".to_owned()])).is_empty());
        assert_eq!(leaving(&members, &declared, &BTreeSet::from(["other".to_owned()])).len(), 1);
    }

    #[test]
    fn what_is_missing_is_read_as_it_was_written() {
        let of_core = MissingKind { api_version: "v2".to_owned(), kind: "Pod".to_owned() };
        let optional = Missing { kind: of_core, need: Need::Optional(key("", "Pod", None, "p")), served: None };
        let dependency = Missing { need: Need::Dependency, ..optional.clone() };
        let all = [missing(Some("ns"), None), optional, dependency];
        let mut inventory = Inventory::default();
        Missing::write(&all, &mut inventory);
        let read: Vec<Missing> = inventory.missing.iter().map(|object| Missing::read(object, None)).collect();
        assert_eq!(read, all[..2], "what a bundle depends on is asked for before the first write only");
        Missing::write(&vec![all[0].clone(); 2 * LISTED], &mut inventory);
        assert_eq!(inventory.missing.len(), LISTED);
    }

    #[test]
    fn a_proof_names_the_definitions_of_others_that_are_used_now() {
        let used = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let before = using("plain/1", &used(&["Namespace a", "CustomResourceDefinition b"]));
        assert_ne!(before, "plain/1");
        assert_eq!(using(&before, &used(&["Namespace a"])), "plain/1");
    }

    #[test]
    fn objects_leave_in_the_reverse_order_of_applying_and_once() {
        let going: ObjectMeta =
            serde_json::from_value(json!({"uid": "g", "deletionTimestamp": "2026-01-01T00:00:00Z"})).unwrap();
        let members = BTreeMap::from([
            (key("", "Namespace", None, "n"), meta("1")),
            (key("", "ConfigMap", Some("n"), "a"), meta("2")),
            (key("", "ConfigMap", Some("n"), "going"), going),
            (key("apps", "Deployment", Some("n"), "d"), meta("3")),
        ]);
        let names: Vec<String> =
            leaving(&members, &Declared::new(), &BTreeSet::new()).into_iter().map(|key| key.name).collect();
        assert_eq!(names, ["d", "a", "going", "n"]);
    }
}
