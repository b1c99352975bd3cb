//! A cluster of a few objects, the BundleDeployment in it, and what the controller keeps in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_content::Digest;
use rukpak_crds::condition::Conditions;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleDeploymentStatus, Pin};
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::Objects;
use rukpak_plan::memory::Memory;
use rukpak_plan::observed::{Dependencies, Desired, Observed};
use rukpak_plan::{Format, Owner, Release};
use serde_json::json;

/// Every object that some release has.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What can be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    First,
    Larger,
    Smaller,
    /// The API server refuses `d`, when it is written.
    RefusedLate,
    /// It refuses it in the dry run of an upgrade too.
    RefusedEarly,
    /// Its objects are not healthy, as long as nobody cures them.
    Sick,
}

impl Version {
    pub const ALL: [Self; 6] =
        [Self::First, Self::Larger, Self::Smaller, Self::RefusedLate, Self::RefusedEarly, Self::Sick];

    pub fn objects(self) -> &'static [&'static str] {
        match self {
            Self::First => &["a", "b"],
            Self::Larger => &["a", "b", "c"],
            Self::Smaller => &["a"],
            Self::RefusedLate => &["a", "c", "d"],
            Self::RefusedEarly => &["b", "d"],
            Self::Sick => &["a", "b", "e"],
        }
    }

    pub fn is_refused(self) -> bool {
        matches!(self, Self::RefusedLate | Self::RefusedEarly)
    }

    pub fn release(self) -> Release {
        Release::new(Digest::sha256(format!("{self:?}").as_bytes()), Format::Plain, None)
    }

    pub fn of(release: &Release) -> Self {
        Self::ALL.into_iter().find(|version| version.release() == *release).expect("a release of ours")
    }
}

/// An object as it is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub uid: u64,
    pub version: u64,
    /// The release it was applied for last.
    pub of: Version,
    /// Somebody else has our field.
    pub is_changed: bool,
}

impl Live {
    pub fn metadata(&self) -> ObjectMeta {
        let field = json!({"f:data": {format!("f:{:?}", self.of): {}}});
        let (ours, theirs) = if self.is_changed { (json!({}), field) } else { (field, json!({})) };
        serde_json::from_value(json!({
            "uid": self.uid.to_string(), "resourceVersion": self.version.to_string(),
            "ownerReferences": [owner().reference()],
            "labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "app"},
            "managedFields": [
                {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": ours},
                {"manager": "hand", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": theirs}],
        }))
        .unwrap()
    }
}

pub fn owner() -> Owner {
    Owner { name: "app".into(), uid: "uid-of-app".into() }
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: Some("ns".into()), name: name.into() }
}

/// How far the Bundle of the template is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bundle {
    Absent,
    Waiting,
    Ready,
}

impl Bundle {
    pub fn unpacked(self) -> Option<Self> {
        (self == Self::Waiting).then_some(Self::Ready)
    }
}

#[derive(Clone, Debug)]
pub struct Spec {
    pub template: Version,
    pub suspend: bool,
    pub rollback_to: Option<i64>,
    pub has_deadline: bool,
}

#[derive(Debug)]
pub struct World {
    pub now: Timestamp,
    pub cluster: BTreeMap<&'static str, Live>,
    /// How often something was written.
    pub writes: u64,
    serial: u64,
    pub spec: Spec,
    /// What the revision is that is asked for.
    rolled_back: Option<Version>,
    generation: i64,
    annotations: u64,
    /// Whether the controller did not write the deployment last.
    pub is_touched: bool,
    pub status: BundleDeploymentStatus,
    /// Objects that were not healthy are.
    pub is_cured: bool,
    pub bundle: Bundle,
    pub memory: Memory,
    pub objects: Objects,
}

impl World {
    pub fn new() -> Self {
        let spec = Spec { template: Version::First, suspend: false, rollback_to: None, has_deadline: false };
        Self {
            now: Timestamp::from_second(1_750_000_000).unwrap(),
            cluster: BTreeMap::new(),
            writes: 0,
            serial: 0,
            spec,
            rolled_back: None,
            generation: 1,
            annotations: 0,
            is_touched: true,
            status: BundleDeploymentStatus::default(),
            is_cured: false,
            bundle: Bundle::Absent,
            memory: Memory::default(),
            objects: Objects::new(),
        }
    }

    pub fn is_healthy(&self, version: Version) -> bool {
        version != Version::Sick || self.is_cured
    }

    pub fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.bundle = self.bundle.unpacked().unwrap_or(self.bundle);
    }

    pub fn restart(&mut self) {
        (self.memory, self.objects, self.is_touched) = (Memory::default(), Objects::new(), true);
    }

    pub fn edit(&mut self, change: impl FnOnce(&mut Spec)) {
        let template = self.spec.template;
        change(&mut self.spec);
        if self.spec.template != template {
            self.bundle = Bundle::Absent;
        }
        self.generation += 1;
        self.is_touched = true;
    }

    pub fn annotate(&mut self) {
        self.annotations += 1;
        self.is_touched = true;
    }

    pub fn change(&mut self, name: &'static str) {
        let serial = self.serial();
        if let Some(live) = self.cluster.get_mut(name) {
            (live.is_changed, live.version) = (true, serial);
        }
    }

    /// What a reconcile sees.
    pub fn observed(&self) -> Observed {
        let spec = BundleDeploymentSpec {
            suspend: self.spec.suspend,
            rollback_to: self.spec.rollback_to,
            progress_deadline: self.spec.has_deadline.then(|| "1m".to_owned()),
            ..BundleDeploymentSpec::default()
        };
        let mut deployment = BundleDeployment::new("app", spec);
        deployment.metadata.generation = Some(self.generation);
        let annotations = [("note".to_owned(), self.annotations.to_string())];
        deployment.metadata.annotations = Some(annotations.into());
        Observed {
            deployment: Arc::new(deployment),
            status: self.status.clone(),
            desired: self.desired(),
            dependencies: Dependencies::Ready,
            dependants: Vec::new(),
            foreign_bundles: Vec::new(),
            drifted: BTreeSet::new(),
            is_touched: self.is_touched,
            is_unblocked: false,
            unwatched: Vec::new(),
            health_gate: true,
            proxy: None,
        }
    }

    pub fn desired(&self) -> Desired {
        let (bundle, hash) = (format!("app-{:?}", self.spec.template), format!("{:?}", self.spec.template));
        match self.bundle {
            Bundle::Absent => Desired::Absent { bundle, hash },
            Bundle::Waiting => Desired::Waiting { bundle, why: None, is_stalled: false },
            Bundle::Ready => {
                let release = self.spec.template.release();
                let pin = Pin { content_digest: release.content.to_string(), ..Pin::default() };
                Desired::Ready { bundle, hash, pin, release }
            }
        }
    }

    /// Somebody asks for a revision. What it is now is what it stays, whatever is installed meanwhile.
    pub fn roll_back(&mut self, revision: Option<i64>) {
        self.edit(|spec| spec.rollback_to = revision);
        self.rolled_back = revision.and_then(|number| self.revision(number));
    }

    /// What somebody asks for: a revision, or else the template. `None` if there is no such revision.
    pub fn wanted(&self) -> Option<Version> {
        let Some(number) = self.spec.rollback_to else { return Some(self.spec.template) };
        self.rolled_back.or_else(|| self.revision(number))
    }

    fn revision(&self, number: i64) -> Option<Version> {
        let revision = self.status.history.iter().find(|revision| revision.revision == number)?;
        Some(Version::of(&Release::read(&revision.release)?))
    }

    pub fn installed(&self) -> Option<Version> {
        Some(Version::of(&Release::installed(self.status.inventory.as_ref()?)?))
    }

    pub fn pending(&self) -> Option<String> {
        Some(format!("{:?}", self.status.inventory.as_ref()?.pending.as_ref()?))
    }

    pub fn is_left_to_others(&self, name: &str) -> bool {
        let inventory = self.status.inventory.as_ref();
        inventory.is_some_and(|inventory| inventory.contested.iter().any(|field| field.name == name))
    }

    /// `True Succeeded`; nothing if the condition is not there.
    pub fn condition(&self, type_: &str) -> String {
        let found = self.status.conditions.find(type_);
        found.map(|found| format!("{:?} {}", found.status, found.reason)).unwrap_or_default()
    }
}
