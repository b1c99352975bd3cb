//! A world: a cluster, the BundleDeployments in it, and the controllers with what they remember and what their watches have shown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_content::Digest;
use rukpak_crds::names::{self, FIELD_MANAGER};
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleDeploymentStatus, Pin};
use rukpak_plain::{Object, ObjectKey, Origin};
use rukpak_plan::inbox::{Inbox, Reaction};
use rukpak_plan::memory::Memory;
use rukpak_plan::observed::{Dependencies, Desired, Observed};
use rukpak_plan::owner::{claimed, controller, sharers};
use rukpak_plan::owner_metadata::OwnerMetadata;
use rukpak_plan::plan::{self, Served};
use rukpak_plan::prune::add_released;
use rukpak_plan::{Fingerprint, Format, Kind, Owner, Plan, Release};
use serde_json::{Value, json};

use crate::properties;
use crate::server::{Event, Key, Request, Server};

/// The namespace of all objects.
pub const NAMESPACE: &str = "ns";
/// A watch is this far behind at most.
const LAG: usize = 2;

/// What a small world consists of, and what may happen in it.
pub struct Small {
    pub name: &'static str,
    /// Objects of others that are there before.
    pub before: Vec<Value>,
    /// Each release is a list of manifests.
    pub releases: Vec<Vec<Value>>,
    /// Which release each deployment asks for first.
    pub templates: Vec<usize>,
    /// More than one: a deployment is of one of them at a time.
    pub controllers: usize,
    /// What people and other programs do, also while a reconcile runs.
    pub hands: Vec<Hand>,
    /// What happens between reconciles.
    pub pauses: Vec<Hand>,
}

/// What somebody may do.
#[derive(Clone, Copy)]
pub struct Hand {
    pub words: &'static str,
    pub act: fn(&mut World),
}

#[derive(Clone)]
pub struct World {
    pub small: Arc<Small>,
    pub server: Server,
    pub deployments: Vec<Deployment>,
    pub controllers: Vec<Controller>,
    pub now: Timestamp,
    /// What garbage collection took that a deployment has.
    pub lost: Option<String>,
    /// Whether the account "weak" has got the right to write ConfigMap "b".
    pub is_granted: bool,
}

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that changes by itself")]
pub struct Deployment {
    pub owner: Owner,
    pub spec: Arc<BundleDeploymentSpec>,
    /// Which release the template asks for.
    pub template: usize,
    /// Whether the Bundle of the template is unpacked.
    pub is_unpacked: bool,
    /// Whether what it depends on is ready.
    pub has_dependencies: bool,
    pub annotations: BTreeMap<String, String>,
    pub generation: i64,
    /// Counts every write, as a resource version does.
    pub version: u64,
    /// Our finalizer is on it.
    pub has_finalizer: bool,
    /// It is being deleted, and has the finalizer still.
    pub is_terminating: bool,
    pub is_deleted: bool,
    /// Which account each object was found to be allowed to last. With the controller's own rights none is.
    pub asked: BTreeMap<Key, String>,
    /// Whose it is.
    pub controller: usize,
    pub status: Arc<BundleDeploymentStatus>,
}

/// A process.
#[derive(Clone, Default)]
pub struct Controller {
    /// By deployment.
    pub known: Vec<Known>,
    pub seen: BTreeMap<ObjectKey, Seen>,
    /// What its watches have not told yet.
    pub queue: VecDeque<Event>,
}

/// What is known of a deployment from one reconcile to the next.
#[derive(Clone)]
pub struct Known {
    pub memory: Arc<Memory>,
    pub inbox: Arc<Inbox>,
    /// What is in its way, or used as it is: the end of that is news.
    pub blocking: BTreeSet<ObjectKey>,
    pub is_touched: bool,
    /// A reconcile is to run at once.
    pub is_due: bool,
    /// Or then.
    pub next: Option<Timestamp>,
    /// Since when the upgrade that is under way meets what may pass.
    pub failing_since: Option<Timestamp>,
}

/// An object as a watch saw it last.
#[derive(Clone, Debug)]
pub struct Seen {
    pub owner: Owner,
    pub fingerprint: Fingerprint,
    pub has_controller: bool,
    pub sharers: Vec<Owner>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            memory: Arc::default(),
            inbox: Arc::default(),
            blocking: BTreeSet::new(),
            is_touched: true,
            is_due: true,
            next: None,
            failing_since: None,
        }
    }
}

impl World {
    pub fn new(small: Small) -> Self {
        let mut server = Server::default();
        "2026-01-01T00:00:00Z".clone_into(&mut server.time);
        for body in &small.before {
            server.answer(&create(body, "somebody")).expect("because nothing is there yet");
        }
        server.events.clear();
        let deployments = ["app", "other"].into_iter().zip(&small.templates);
        let deployments: Vec<Deployment> = deployments.map(|(name, first)| Deployment::new(name, *first)).collect();
        let controller = Controller { known: vec![Known::default(); deployments.len()], ..Controller::default() };
        let now = Timestamp::from_second(1_767_225_600).expect("because it is in range");
        let controllers = vec![controller; small.controllers];
        Self { small: Arc::new(small), server, deployments, controllers, now, lost: None, is_granted: false }
    }

    /// Gives news of objects to the watches. Those that are too far behind tell the oldest.
    pub fn spread(&mut self) {
        let events = std::mem::take(&mut self.server.events);
        for index in 0..self.controllers.len() {
            self.controllers[index].queue.extend(events.iter().cloned());
            while self.controllers[index].queue.len() > LAG {
                self.deliver(index);
            }
        }
    }

    /// The watches of a process tell everything.
    pub fn catch_up(&mut self, controller: usize) {
        while !self.controllers[controller].queue.is_empty() {
            self.deliver(controller);
        }
    }

    fn deliver(&mut self, controller: usize) {
        let Some(event) = self.controllers[controller].queue.pop_front() else { return };
        let metadata = metadata(&event.object.shown(&event.key, ""));
        let key = self.object_key(&event.key);
        let this = &mut self.controllers[controller];
        if event.key.kind == "CustomResourceDefinition" {
            let group = event.object.value["spec"]["group"].as_str().unwrap_or_default();
            this.known.iter_mut().filter(|known| known.inbox.missing_groups.contains(group)).for_each(Known::unblock);
        }
        let labels = metadata.labels.as_ref();
        let is_selected = labels.is_some_and(|labels| labels.contains_key(names::OWNER_KIND)) && !event.is_gone;
        if is_selected {
            this.saw(key, &metadata, &self.deployments);
        } else {
            this.lost(&key, &self.deployments);
        }
    }

    fn object_key(&self, key: &Key) -> ObjectKey {
        // A CRD may be gone before its instances are told of.
        let kind = self.server.kind(&key.kind);
        let is_builtin = matches!(key.kind.as_str(), "ConfigMap" | "Namespace" | "CustomResourceDefinition");
        let (group, is_namespaced) =
            kind.map_or(("example.com".to_owned(), !is_builtin), |kind| (kind.group, kind.is_namespaced));
        let namespace = is_namespaced.then(|| NAMESPACE.to_owned());
        ObjectKey { group, kind: key.kind.clone(), namespace, name: key.name.clone() }
    }

    /// The process ends, and another begins: it lists what is there.
    pub fn restart(&mut self, controller: usize) {
        let deployments = &self.deployments;
        let mut new = Controller { known: vec![Known::default(); deployments.len()], ..Controller::default() };
        for (key, object) in &self.server.objects {
            let metadata = metadata(&object.shown(key, ""));
            if metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(names::OWNER_KIND)) {
                new.saw(self.object_key(key), &metadata, deployments);
            }
        }
        self.controllers[controller] = new;
    }

    /// Somebody changes the spec of a deployment.
    pub fn edit(&mut self, deployment: usize, change: impl FnOnce(&mut Deployment)) {
        let this = &mut self.deployments[deployment];
        let before = (this.spec.clone(), this.template);
        change(this);
        if (this.spec.clone(), this.template) != before {
            this.generation += 1;
        }
        self.touch(deployment);
    }

    /// Somebody deletes a deployment. With a finalizer it stays until that is taken off.
    pub fn delete(&mut self, deployment: usize) {
        let this = &mut self.deployments[deployment];
        this.is_deleted |= !this.has_finalizer;
        if this.has_finalizer && !this.is_terminating {
            (this.is_terminating, this.generation) = (true, this.generation + 1);
        }
        self.touch(deployment);
    }

    /// Whether an account may not write an object.
    pub fn lacks(&self, account: Option<&str>, key: &Key) -> bool {
        account == Some("weak") && !self.is_granted && key.name == "b"
    }

    /// The controllers are told of a deployment.
    pub fn touch(&mut self, deployment: usize) {
        self.deployments[deployment].version += 1;
        for controller in &mut self.controllers {
            (controller.known[deployment].is_touched, controller.known[deployment].is_due) = (true, true);
        }
    }

    /// Somebody else than a controller sends a request.
    pub fn send(&mut self, request: &Request) {
        // What is refused has not happened.
        let _ = self.server.answer(request);
        self.spread();
    }

    /// Garbage is collected.
    pub fn collect(&mut self) {
        let deployments = self.deployments.iter().filter(|deployment| !deployment.is_deleted);
        let live: BTreeSet<String> = deployments.map(|deployment| deployment.owner.uid.clone()).collect();
        let before = self.server.objects.clone();
        self.server.collect(|uid| live.contains(uid));
        // Of what has other owners, those that are gone are taken off.
        for (key, object) in self.server.objects.clone() {
            let owners = object.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let is_gone = |owner: &Value| {
                owner["kind"] == names::OWNER_KIND_VALUE && !live.contains(owner["uid"].as_str().unwrap_or_default())
            };
            if owners.iter().any(is_gone) && !object.is_terminating {
                let left: Vec<&Value> = owners.iter().filter(|owner| !is_gone(owner)).collect();
                let (version, manager) = ("v1".to_owned(), "kube-controller-manager".to_owned());
                let body = json!({"metadata": {"ownerReferences": left}});
                // A version that is not served answers nothing.
                let _ = self.server.answer(&Request::Patch { key, version, body, manager, is_status: false });
            }
        }
        self.lost = properties::of_collection(self, &before);
        self.spread();
    }

    pub fn release(&self, index: usize) -> Release {
        Release::new(Digest::sha256(format!("{} {index}", self.small.name).as_bytes()), Format::Plain, None)
    }

    /// Which of the releases it is.
    pub fn number(&self, release: &Release) -> usize {
        let mut all = 0..self.small.releases.len();
        all.find(|index| self.release(*index) == *release).expect("because there are no others")
    }

    /// What a reconcile of `deployment` sees.
    pub fn observed(&self, controller: usize, deployment: usize) -> Observed {
        let this = &self.deployments[deployment];
        let known = &self.controllers[controller].known[deployment];
        let mut object = BundleDeployment::new(&this.owner.name, (*this.spec).clone());
        object.metadata.generation = Some(this.generation);
        object.metadata.uid = Some(this.owner.uid.clone());
        object.metadata.annotations = Some(this.annotations.clone()).filter(|all| !all.is_empty());
        object.metadata.finalizers = this.has_finalizer.then(|| vec![names::DELETION_IN_ORDER.to_owned()]);
        object.metadata.deletion_timestamp = this.is_terminating.then_some(Time(self.now));
        let mut status = (*this.status).clone();
        if !known.memory.released.is_empty() {
            add_released(&mut status.inventory.get_or_insert_default().released, known.memory.released.iter().cloned());
        }
        let (bundle, hash) = (format!("{}-{}", this.owner.name, this.template), this.template.to_string());
        let release = self.release(this.template);
        let pin = Pin { content_digest: release.content.to_string(), ..Pin::default() };
        Observed {
            deployment: Arc::new(object),
            status,
            desired: if this.is_unpacked {
                Desired::Ready { bundle, hash, pin, release }
            } else {
                Desired::Waiting { bundle, why: None, is_stalled: false }
            },
            dependencies: if this.has_dependencies {
                Dependencies::Ready
            } else {
                Dependencies::NotReady("another is not ready".to_owned())
            },
            dependants: Vec::new(),
            foreign_bundles: Vec::new(),
            drifted: BTreeSet::new(),
            is_touched: known.is_touched,
            is_unblocked: known.inbox.is_unblocked,
            unwatched: Vec::new(),
            health_gate: true,
            proxy: None,
        }
    }

    /// The kind, in the version that is asked for if that is served, or else in another.
    pub fn kind(&self, kind: &str, version: &str) -> Option<Kind> {
        let served = self.server.kind(kind)?;
        let version = served.versions.iter().find(|known| *known == version).or(served.versions.first())?;
        let gvk = GroupVersionKind::gvk(&served.group, version, kind);
        let resource = Arc::new(ApiResource::from_gvk_with_plural(&gvk, &served.plural));
        Some(Kind { resource, namespaced: served.is_namespaced })
    }

    /// The plan of a release for a deployment, with the kinds that are served now.
    pub fn plan(&self, release: &Release, deployment: usize, is_installed: bool) -> Rc<Plan> {
        thread_local!(static PLANS: RefCell<HashMap<String, Rc<Plan>>> = RefCell::default());
        let (number, this) = (self.number(release), &self.deployments[deployment]);
        let all: Vec<Object> = self.small.releases[number].iter().map(object).collect();
        let (optional, required) = (BTreeSet::new(), BTreeSet::new());
        let objects = plan::Objects { all, optional: &optional, required: &required };
        let found = objects.kinds().into_iter().map(|(api_version, kind)| {
            let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
            let found = self.kind(&kind, &version);
            ((api_version, kind), found)
        });
        let served: Served = found.collect();
        let policy = this.spec.deletion_policy.unwrap_or_default();
        let is_served: Vec<_> =
            served.iter().map(|(kind, found)| (kind, found.as_ref().map(|found| &found.resource.version))).collect();
        let id = format!("{} {number} {} {policy:?} {is_installed} {is_served:?}", self.small.name, this.owner.uid);
        PLANS.with_borrow_mut(|plans| {
            let make = || {
                let stamp = OwnerMetadata { owner: this.owner.clone(), default_namespace: NAMESPACE.into(), policy };
                let plan = objects.plan(release.clone(), &served, &stamp, is_installed);
                Rc::new(plan.expect("no object is declared twice"))
            };
            plans.entry(id).or_insert_with(make).clone()
        })
    }
}

impl Deployment {
    fn new(name: &str, template: usize) -> Self {
        Self {
            owner: Owner { name: name.to_owned(), uid: format!("uid-of-{name}") },
            spec: Arc::default(),
            template,
            is_unpacked: true,
            has_dependencies: true,
            annotations: BTreeMap::new(),
            generation: 1,
            version: 1,
            has_finalizer: false,
            is_terminating: false,
            is_deleted: false,
            asked: BTreeMap::new(),
            controller: 0,
            status: Arc::default(),
        }
    }

    /// Changes the spec.
    pub fn spec(&mut self) -> &mut BundleDeploymentSpec {
        Arc::make_mut(&mut self.spec)
    }
}

impl Known {
    fn unblock(&mut self) {
        Arc::make_mut(&mut self.inbox).is_unblocked = true;
        self.is_due = true;
    }
}

impl Controller {
    /// Tells the deployments of an object as it is now. As `Hub::seen`.
    fn saw(&mut self, key: ObjectKey, metadata: &ObjectMeta, deployments: &[Deployment]) {
        let owner = claimed(metadata);
        let fingerprint = Fingerprint::of(metadata, &owner, FIELD_MANAGER);
        let before = self.seen.get(&key).map(|before| before.owner.name.clone());
        let has_controller = controller(metadata).is_some() || metadata.deletion_timestamp.is_some();
        let sharers: Vec<Owner> =
            sharers(metadata).map(|owner| Owner { name: owner.name.clone(), uid: owner.uid.clone() }).collect();
        for (known, deployment) in self.known.iter_mut().zip(deployments) {
            let us = &deployment.owner;
            if us.name == owner.name || before.as_ref() == Some(&us.name) {
                let reaction = Arc::make_mut(&mut known.inbox).note_seen(us, &key, &owner, &fingerprint);
                known.is_due |= reaction == Reaction::Enqueue;
            }
            known.is_due |= !has_controller && sharers.contains(us);
        }
        self.seen.insert(key, Seen { owner, fingerprint, has_controller, sharers });
    }

    /// Tells them that it is gone, or has lost its label. As `Hub::lost`.
    fn lost(&mut self, key: &ObjectKey, deployments: &[Deployment]) {
        let before = self.seen.remove(key);
        for (known, deployment) in self.known.iter_mut().zip(deployments) {
            if let Some(before) = before.as_ref().filter(|before| before.owner.name == deployment.owner.name) {
                let reaction = Arc::make_mut(&mut known.inbox).note_lost(key, &before.fingerprint.uid);
                known.is_due |= reaction == Reaction::Enqueue;
            }
            if known.blocking.remove(key) {
                known.unblock();
            }
        }
    }
}

/// A request that creates `body`.
pub fn create(body: &Value, manager: &str) -> Request {
    let (key, version) = named(body);
    Request::Create { key, version, body: body.clone(), manager: manager.to_owned() }
}

/// What a manifest is about: the object, and the version of its kind.
pub fn named(body: &Value) -> (Key, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&body["apiVersion"]).rsplit('/').next().unwrap_or_default().to_owned();
    (Key { kind: text(&body["kind"]), name: text(&body["metadata"]["name"]) }, version)
}

pub fn object(manifest: &Value) -> Object {
    Object::new(manifest.clone(), Origin::made_from("a world")).expect("because the manifests are ours")
}

/// The metadata of an object as the server shows it.
pub fn metadata(shown: &Value) -> ObjectMeta {
    serde_json::from_value(shown["metadata"].clone()).expect("because the server shows it as Kubernetes does")
}
