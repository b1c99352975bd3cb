//! The watches and queues of OLM v0's API, and their beginning.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource, ResourceExt};
use rukpak_catalog::origin::Loader;
use rukpak_crds::olmv0::{CatalogSource, ClusterServiceVersion, InstallPlan, Operator, OperatorGroup, Subscription};
use rukpak_crds::{BundleDeployment, Plan};
use rukpak_runtime::failures::Failures;
use rukpak_runtime::process::Process;
use rukpak_runtime::queue::{Requests, drain};
use rukpak_runtime::status::WrittenVersions;
use rukpak_runtime::watch::{Change, Streams};
use rukpak_source::image::Puller;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::bundles::Bundles;
use super::catalog_source::known::Catalogs;
use super::context::Context;
use super::gate::Gate;
use super::packages::Packages;
use super::registry::{self, Endpoint};
use super::told::Told;
use super::unit::{namespace, within};
use super::wake::{Config, Wake};
use super::{catalog_source, olm_config, operator_group, service_version, subscription};
use crate::args::Olmv0;
use crate::dependencies::Dependencies;
use crate::follow::Optional;
use crate::logins::Logins;
use crate::outcome::error_policy;

/// Passes at once. Each may read an image.
const CONCURRENCY: u16 = 16;

/// All kinds, not followed yet.
pub(crate) struct Facade {
    kinds: Kinds,
    pub wake: Wake,
    subscriptions: UnboundedReceiver<ObjectRef<Subscription>>,
    deployments: UnboundedReceiver<ObjectRef<BundleDeployment>>,
    sources: UnboundedReceiver<ObjectRef<CatalogSource>>,
    groups: UnboundedReceiver<ObjectRef<OperatorGroup>>,
    configs: UnboundedReceiver<ObjectRef<Config>>,
}

/// What it stands on.
pub(crate) struct Parts {
    pub client: Client,
    pub mode: Olmv0,
    /// The namespace whose CatalogSources all Subscriptions may name.
    pub global: String,
    /// How often servers of catalogs are asked for their lists.
    pub interval: Duration,
    pub loader: Arc<Loader>,
    pub puller: Arc<Puller>,
    pub logins: Arc<Logins>,
    pub requires_digests: bool,
    /// All BundleDeployments, and what is cancelled when they are known.
    pub deployments: (Store<BundleDeployment>, CancellationToken),
    pub dependencies: Arc<Dependencies>,
    pub written: Arc<WrittenVersions>,
    /// What shows packages to clients.
    pub packages: Arc<Packages>,
    /// Where other clients read what images have.
    pub registry: Option<Endpoint>,
}

impl Facade {
    /// Of the cluster that `client` asks, later.
    pub fn new(client: &Client) -> Self {
        let kinds = Kinds::new(client);
        let (to_subscriptions, subscriptions) = unbounded_channel();
        let (to_deployments, deployments) = unbounded_channel();
        let (to_sources, sources) = unbounded_channel();
        let (to_groups, groups) = unbounded_channel();
        let (to_configs, configs) = unbounded_channel();
        let wake = Wake {
            known: kinds.subscriptions.store.clone(),
            subscriptions: to_subscriptions,
            deployments: to_deployments,
            sources: to_sources,
            groups: to_groups,
            configs: to_configs,
            roles: Arc::default(),
        };
        Self { kinds, wake, subscriptions, deployments, sources, groups, configs }
    }

    /// Begins with all kinds, once OLM does not run.
    pub fn start(self, process: &mut Process, parts: Parts) {
        let Parts { client, mode, deployments: (deployments, known), .. } = parts;
        if mode == Olmv0::Off {
            return;
        }
        let kinds = &self.kinds;
        let (listener, shown) = parts.registry.map(|Endpoint { listener, shown }| (listener, shown)).unzip();
        let context = Arc::new(Context {
            client: client.clone(),
            subscriptions: kinds.subscriptions.store.clone(),
            plans: kinds.plans.store.clone(),
            versions: kinds.versions.store.clone(),
            sources: kinds.sources.store.clone(),
            groups: kinds.groups.store.clone(),
            operators: kinds.operators.store.clone(),
            configs: kinds.configs.store.clone(),
            namespaces: kinds.namespaces.store.clone(),
            deployments,
            questions: kinds.questions.store.clone(),
            catalogs: Catalogs::new(parts.loader, parts.logins, parts.interval, shown),
            bundles: Bundles::new(parts.puller),
            told: Told::default(),
            dependencies: parts.dependencies,
            requires_digests: parts.requires_digests,
            global: parts.global,
            failures: Failures::default(),
            gate: Gate::new(mode),
            written: parts.written,
            wake: self.wake.clone(),
        });
        let filled = CancellationToken::new();
        parts.packages.fill(context.clone(), filled.clone());
        if let Some(listener) = listener {
            let served = registry::serve(listener, context.clone(), filled.clone(), process.stop());
            process.spawn_server("the server of CatalogSources", served);
        }
        let kinds = self.drain(process, &context, &filled);
        let watched = context.clone();
        process.spawn_endless("the watch over OLM", async move {
            watched.gate.watch(&client, mode, || wake_all(&watched)).await;
        });
        process.spawn_endless("the watches over OLM v0's kinds", async move {
            context.gate.opened().await;
            // All watches at once: too much for a stack.
            Box::pin(kinds.follow(context, (known, filled))).await;
        });
    }

    /// Starts the queues; returns what feeds them.
    fn drain(self, process: &mut Process, context: &Arc<Context>, filled: &CancellationToken) -> Kinds {
        let (facade, tasks) = (self, process.reconciles());
        macro_rules! queue {
            ($name:expr, $kind:ident, $reconcile:path, $policy:path) => {
                let requests = Requests { objects: facade.$kind, filled: filled.clone(), tasks: tasks.clone() };
                let store = context.$kind.clone();
                let queue =
                    drain(requests, store, context.clone(), CONCURRENCY, $reconcile, |object, error, context| {
                        $policy(&*object, error, &context.failures)
                    });
                process.spawn_endless($name, queue);
            };
        }
        queue!("the queue of Subscriptions", subscriptions, subscription::reconcile, error_policy);
        queue!("the queue of CatalogSources", sources, catalog_source::reconcile, error_policy);
        queue!("the queue of OperatorGroups", groups, operator_group::reconcile, error_policy);
        queue!("the queue of OLMConfigs", configs, olm_config::reconcile, error_policy);
        let name = "the queue of BundleDeployments of Subscriptions";
        queue!(name, deployments, service_version::reconcile, service_version::error_policy);
        facade.kinds
    }
}

/// What is watched.
struct Kinds {
    subscriptions: Optional<Subscription>,
    plans: Optional<InstallPlan>,
    versions: Optional<ClusterServiceVersion>,
    sources: Optional<CatalogSource>,
    groups: Optional<OperatorGroup>,
    operators: Optional<PartialObjectMeta<Operator>>,
    configs: Optional<Config>,
    namespaces: Streams<Namespace>,
    questions: Streams<Plan>,
}

impl Kinds {
    fn new(client: &Client) -> Self {
        Self {
            subscriptions: Optional::new(client.clone(), "subscriptions.operators.coreos.com"),
            plans: Optional::new(client.clone(), "installplans.operators.coreos.com"),
            versions: Optional::new(client.clone(), "clusterserviceversions.operators.coreos.com"),
            sources: Optional::new(client.clone(), "catalogsources.operators.coreos.com"),
            groups: Optional::new(client.clone(), "operatorgroups.operators.coreos.com"),
            operators: Optional::new(client.clone(), "operators.operators.coreos.com"),
            configs: Optional::new(client.clone(), "olmconfigs.operators.coreos.com"),
            namespaces: Streams::new(client.clone()),
            questions: Streams::new(client.clone()),
        }
    }

    /// Follows all of them, endlessly. `filled` is cancelled when they are known, and what `known` stands for.
    async fn follow(self, context: Arc<Context>, (known, filled): (CancellationToken, CancellationToken)) {
        let seen: [CancellationToken; 7] = std::array::from_fn(|_| CancellationToken::new());
        let all = seen.clone();
        let begin = async {
            known.cancelled().await;
            for seen in &all {
                seen.cancelled().await;
            }
            filled.cancel();
            wake_all(&context);
            tracing::info!("Subscriptions are followed");
            std::future::pending::<()>().await;
        };
        let [subscriptions, plans, versions, sources, groups, namespaces, questions] = seen;
        tokio::join!(
            begin,
            self.subscriptions.follow(subscriptions, |change| tell(&context, &change, &context.subscriptions)),
            self.plans.follow(plans, |change| tell(&context, &change, &context.plans)),
            self.versions.follow(versions, |change| tell(&context, &change, &context.versions)),
            self.sources.follow(sources, |change| of_source(&context, &change)),
            self.groups.follow(groups, |change| of_group(&context, &change)),
            // Nothing is decided by these: nobody waits until they are known.
            self.operators.follow(CancellationToken::new(), |change| of_operator(&context, &change)),
            self.configs.follow(CancellationToken::new(), |change| of_config(&context, &change)),
            of_namespaces(self.namespaces, &context, namespaces),
            of_questions(self.questions, &context, questions),
        );
    }
}

/// A pass over everything.
fn wake_all(context: &Context) {
    for source in context.sources.state() {
        let _ = context.wake.sources.send(ObjectRef::from_obj(&*source));
    }
    for group in context.groups.state() {
        let _ = context.wake.groups.send(ObjectRef::from_obj(&*group));
    }
    for config in context.configs.state() {
        let _ = context.wake.configs.send(ObjectRef::from_obj(&*config));
    }
    for subscription in context.subscriptions.state() {
        context.wake.subscription(&subscription);
    }
    for deployment in context.deployments.state() {
        context.wake.changed(&deployment);
    }
}

/// A change is news for everything in its namespace.
fn tell<K>(context: &Context, change: &Change<K>, store: &Store<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static,
{
    match change {
        Change::Present(object) => context.wake(&object.namespace().unwrap_or_default()),
        Change::Gone(object) => {
            let uid = object.uid().unwrap_or_default();
            context.written.forget(&uid);
            context.failures.clear(&uid);
            context.wake(&object.namespace().unwrap_or_default());
        }
        Change::Listed { since } => {
            context.written.listed(*since, &store.state());
            wake_all(context);
        }
    }
}

fn of_source(context: &Context, change: &Change<CatalogSource>) {
    if let Change::Present(source) | Change::Gone(source) = change {
        let key = (source.namespace().unwrap_or_default(), source.name_any());
        if matches!(change, Change::Gone(_)) {
            context.catalogs.known.forget(&key);
            for subscription in context.subscriptions.state() {
                if subscription.spec.source_namespace == key.0 {
                    context.wake.subscription(&subscription);
                }
            }
        }
        let _ = context.wake.sources.send(ObjectRef::from_obj(&**source));
    } else {
        // Nobody told of those that went while nobody watched.
        let is_there = |name: &str, space: &str| context.sources.get(&ObjectRef::new(name).within(space)).is_some();
        context.catalogs.known.retain(|(space, name)| is_there(name, space));
    }
    tell(context, change, &context.sources);
}

fn of_group(context: &Context, change: &Change<OperatorGroup>) {
    if let Change::Present(group) | Change::Gone(group) = change {
        for group in within(&context.groups, &group.namespace().unwrap_or_default()) {
            let _ = context.wake.groups.send(ObjectRef::from_obj(&*group));
        }
    }
    tell(context, change, &context.groups);
}

/// One that somebody has changed or deleted is told anew.
fn of_operator(context: &Context, change: &Change<PartialObjectMeta<Operator>>) {
    match change {
        Change::Present(operator) | Change::Gone(operator) => {
            if matches!(change, Change::Gone(_)) {
                context.written.forget(&operator.uid().unwrap_or_default());
                context.told.forget(&operator.name_any());
            }
            for owner in operator.owner_references() {
                if let Some(deployment) = context.deployments.get(&ObjectRef::new(&owner.name)) {
                    context.wake.deployment(&deployment);
                }
            }
        }
        Change::Listed { since } => {
            context.written.listed(*since, &context.operators.state());
            for deployment in context.deployments.state().iter().filter(|deployment| namespace(deployment).is_some()) {
                context.wake.deployment(deployment);
            }
        }
    }
}

fn of_config(context: &Context, change: &Change<Config>) {
    match change {
        Change::Present(config) => {
            let _ = context.wake.configs.send(ObjectRef::from_obj(&**config));
        }
        Change::Gone(config) => context.written.forget(&config.uid().unwrap_or_default()),
        Change::Listed { since } => {
            context.written.listed(*since, &context.configs.state());
            for config in context.configs.state() {
                let _ = context.wake.configs.send(ObjectRef::from_obj(&*config));
            }
        }
    }
}

/// Labels of namespaces say what OperatorGroups with a selector target; and what was begun in one may end with it.
async fn of_namespaces(streams: Streams<Namespace>, context: &Context, seen: CancellationToken) {
    let mut changes = std::pin::pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match &change {
            Change::Listed { .. } => seen.cancel(),
            Change::Present(space) if space.metadata.deletion_timestamp.is_none() => {}
            Change::Present(space) | Change::Gone(space) => context.wake(&space.name_any()),
        }
        let choosing = context.groups.state().into_iter().filter(|group| group.spec.selector.is_some());
        for group in choosing {
            let _ = context.wake.groups.send(ObjectRef::from_obj(&*group));
            context.wake(&group.namespace().unwrap_or_default());
        }
    }
}

/// What a BundleDeployment asks is news for its namespace.
async fn of_questions(streams: Streams<Plan>, context: &Context, seen: CancellationToken) {
    let mut changes = std::pin::pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Listed { .. } => {
                seen.cancel();
                wake_all(context);
            }
            Change::Present(plan) | Change::Gone(plan) => {
                let deployment = context.deployments.get(&ObjectRef::new(&plan.spec.deployment.name));
                if let Some(space) = deployment.as_deref().and_then(namespace) {
                    context.wake(space);
                }
            }
        }
    }
}
