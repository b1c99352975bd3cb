//! From a release to a plan: the content loaded and rendered, certificates put in, every kind looked up. Reads the store, discovery and the
//! Secrets of webhooks; writes nothing. Rendering runs off the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use k8s_openapi::ByteString;
use kube::ResourceExt;
use rukpak_content::{BundleTree, Digest, Limits};
use rukpak_crds::InventoryKind;
use rukpak_crds::names::{IGNORE_DEPENDENCIES, PACKAGES};
use rukpak_format::{BundleFormat as _, Format, Rendered, Settings, helm};
use rukpak_helm::{Capabilities, Request};
use rukpak_plain::{Object, object};
use rukpak_plan::approval::{digest_objects, may_ask};
use rukpak_plan::hook::{self, Event};
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::owner_metadata::OwnerMetadata;
use rukpak_plan::plan::{DeclaredTwice, Objects, Served};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::Class;
use rukpak_plan::{Identity, Plan, Release};
use rukpak_registry::render::{CA_ANNOTATION, PLACEHOLDER, ServingCertificate};
use rukpak_runtime::certificates::authority;
use rukpak_runtime::certificates::renewal::{Held, Wanted, advance};
use rukpak_runtime::error::Chain;
use rukpak_store::Store;
use serde_json::{Value, json};

use super::{approval, collect};
use crate::cluster;
use crate::deployment::observe::{Run, View, owned};
use crate::render_memory::{Purpose, Reservation};

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unprepared {
    /// The store does not have the content, or has it damaged: it can be fetched again by the Bundle's pin.
    #[error("the content is not in the store")]
    Lost(#[source] rukpak_store::Error),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[source] rukpak_store::Error),
    /// The content is not of the format, or does not go with the settings.
    #[error(transparent)]
    Format(Box<rukpak_format::Error>),
    /// Helm does not render the chart.
    #[error(transparent)]
    Helm(Box<rukpak_helm::Error>),
    /// What Helm renders now is not what was rendered, and that is lost.
    #[error(
        "what Helm rendered for this release is lost with the store, and it renders something else now (values of its own making, such as \
         passwords, or other API versions of the cluster): what is installed is left as it is, and not repaired; to install what it \
         renders now, change spec.config.values, be it by a comment"
    )]
    Rendering,
    /// The API server did not say its version.
    #[error("ask for the version of Kubernetes")]
    Kubernetes(#[source] Box<kube::Error>),
    /// The Secret that may hold a certificate cannot be read.
    #[error("read the certificate of the bundle's webhooks: Secret {name:?} in namespace {namespace:?}")]
    Secret {
        namespace: String,
        name: String,
        #[source]
        source: cluster::Error,
    },
    /// No certificate can be made.
    #[error("make a certificate for the bundle's webhooks")]
    Certificate(#[source] authority::Error),
    /// An object with its certificate in it is none.
    #[error("put a certificate into the bundle's objects")]
    Trust(#[source] object::Error),
    /// The task that loaded it ended without a result.
    #[error("loading was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
    /// Two manifests turned out to be of one object.
    #[error(transparent)]
    Twice(#[from] DeclaredTwice),
    /// The API server could not be asked for kinds.
    #[error(transparent)]
    Discovery(cluster::Error),
}

impl Unprepared {
    /// What is remembered of it.
    pub fn problem(&self) -> Problem {
        let (stage, class) = match self {
            Self::Format(_) | Self::Twice(_) | Self::Rendering => (Stage::Load, Class::Terminal),
            Self::Helm(error) if error.is_refusal() => (Stage::Load, Class::Terminal),
            Self::Helm(error) if matches!(**error, rukpak_helm::Error::Busy) => (Stage::Ask, Class::Transient),
            Self::Helm(_) | Self::Store(_) | Self::Lost(_) => (Stage::Load, Class::Transient),
            Self::Kubernetes(_)
            | Self::Secret { .. }
            | Self::Certificate(_)
            | Self::Trust(_)
            | Self::Interrupted(_)
            | Self::Discovery(_) => (Stage::Ask, Class::Transient),
        };
        Problem { stage, message: Chain(self).to_string(), class, can_go_back: true }
    }

    /// Whether the same may succeed in a moment.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Helm(error) => !error.is_refusal(),
            _ => !matches!(self, Self::Format(_) | Self::Lost(_) | Self::Twice(_) | Self::Rendering),
        }
    }
}

/// A plan, and the memory that it may take.
pub(super) struct Prepared {
    pub plan: Plan,
    /// Digest of what was rendered, if somebody may have to approve it.
    pub objects: Option<Digest>,
    pub memory: Reservation,
}

/// Plans the objects of `release`.
#[tracing::instrument(level = "debug", name = "prepare", skip_all)]
pub(super) async fn plan(run: &Run, release: &Release, why: Why, purpose: Purpose) -> Result<Prepared, Unprepared> {
    let Loaded { release, rendered, objects: digest, memory } = load(run, release, why, purpose).await?;
    let Rendered { objects, hooks, optional, required, certificates_due, authorities, properties, namespace, .. } =
        rendered;
    let events = Event::of(why);
    let objects = Objects { all: objects, optional: &optional, required: &required };
    let mut kinds = objects.kinds();
    if !events.is_empty() {
        kinds.extend(hook::kinds(&hooks));
    }
    let served = served(&run.view, kinds).await.map_err(Unprepared::Discovery)?;
    let stamp = OwnerMetadata {
        owner: run.view.owner.clone(),
        default_namespace: run.view.reads.settings.system_namespace.clone(),
        policy: run.view.observed.deployment.spec.deletion_policy.unwrap_or_default(),
    };
    let mut plan = objects.plan(release, &served, &stamp, !why.policy().waits_for_kinds)?;
    let (hooks, missing) = hook::plan(&hooks, events, &served, &stamp);
    hook::check(&hooks, &plan.steps)?;
    plan.missing.extend(missing);
    let plan = Plan { certificates_due, authorities, properties, namespace, hooks, ..plan };
    Ok(Prepared { plan, objects: digest, memory })
}

/// A release, and its objects as they are to be applied. They may stay in memory as long as the reservation is kept.
struct Loaded {
    release: Release,
    rendered: Rendered,
    /// Digest of the objects without the certificates that are made for webhooks, if somebody may have to approve them.
    objects: Option<Digest>,
    memory: Reservation,
}

async fn served(view: &View, kinds: BTreeSet<(String, String)>) -> Result<Served, cluster::Error> {
    let mut served = Served::new();
    for (api_version, kind) in kinds {
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let asked = InventoryKind { group: group.to_owned(), version: version.to_owned(), kind: kind.clone() };
        let found = view.reads.kinds.any_version(&asked, &BTreeSet::new()).await?;
        served.insert((api_version, kind), found);
    }
    Ok(served)
}

/// Loads and verifies the content of `release`, and renders its objects.
async fn load(run: &Run, release: &Release, why: Why, purpose: Purpose) -> Result<Loaded, Unprepared> {
    let reads = &run.view.reads;
    // What is installed is guarded, whatever it depends on.
    let ignored = run.view.observed.annotation(IGNORE_DEPENDENCIES);
    let ignores_all = !why.policy().heeds_dependencies || ignored == Some("true");
    let kubernetes = match release.format {
        Format::Registry if !ignores_all => Some(kubernetes(run).await?),
        _ => None,
    };
    let may_ask = may_ask(&run.view.observed, why, release);
    let release = release.clone().rendered_in(&run.view.observed.status);
    let release = if may_ask { approval::rendered(&run.view, release) } else { release };
    let inventory = run.view.observed.status.inventory.as_ref();
    let settings = Settings {
        config: release.config.clone(),
        namespace: inventory.and_then(|inventory| inventory.namespace.clone()),
        certificates: reads.settings.bundle_certificates,
        ignores_dependencies: ignores_all || ignored == Some(PACKAGES),
        kubernetes,
        proxy: run.view.proxy.clone(),
    };
    let is_published = run.view.memory.has_published(&run.view.observed, &release);
    let format = release.format;
    let (rendering, is_new) = match format {
        Format::Plain | Format::Registry => (None, false),
        Format::Helm => {
            // First: a child that takes all its time, with memory of its own, keeps nobody else from rendering.
            let Rendering { tree, is_new } = find_or_render(run, &release).await?;
            (Some(tree), is_new)
        }
    };
    let key = release.rendering.as_ref().unwrap_or(&release.content);
    let reservation = reads.render_memory.reserve(key, purpose).await;
    let (store, content, limits) = (reads.store.clone(), release.content.clone(), reads.settings.limits.clone());
    // In one go: a repair waits for each change of threads.
    let work = move || {
        let tree = rendering.map_or_else(|| load_content(&store, &content, format, &limits), Ok)?;
        let rendered = format.render(&tree, &limits, &settings).map_err(|error| Unprepared::Format(Box::new(error)))?;
        let objects = may_ask.then(|| digest_objects(rendered.objects.iter().chain(&rendered.hooks)));
        Ok::<_, Unprepared>((rendered, objects, tree))
    };
    let (rendered, objects, tree) = tokio::task::spawn_blocking(work).await.map_err(Unprepared::Interrupted)??;
    if is_new {
        for warning in helm::never_run(&rendered.hooks) {
            tracing::warn!(deployment = %run.view.owner.name, warning, "chart has a hook for events that do not come");
        }
    }
    let release = if is_new { keep_rendering(run, release, tree).await? } else { release };
    let key = release.rendering.as_ref().unwrap_or(&release.content);
    let reservation = reads.render_memory.settle(key, &rendered.objects, reservation);
    let rendered = put_certificates(&run.view, rendered, is_published).await?;
    Ok(Loaded { release, rendered, objects, memory: reservation })
}

/// Puts the certificates that webhooks and aggregated APIs are served with, where nobody else makes them, into the TLS Secrets of `rendered`,
/// and their authorities where they are to be trusted.
///
/// What a Secret in the cluster holds stays as long as it is good; so rendering the same release twice changes nothing.
async fn put_certificates(view: &View, mut rendered: Rendered, is_published: bool) -> Result<Rendered, Unprepared> {
    let now = SystemTime::now();
    let mut authorities = Vec::new();
    for certificate in std::mem::take(&mut rendered.certificates) {
        let live = secret(view, &certificate).await?;
        let lifetime = view.reads.settings.bundle_certificate_lifetime;
        let wanted = Wanted { names: &certificate.dns_names, lifetime, beside: &[] };
        let held = advance(live.as_ref(), wanted, now, is_published).map_err(Unprepared::Certificate)?;
        let objects = std::mem::take(&mut rendered.objects);
        rendered.objects = objects
            .into_iter()
            .map(|object| filled(object, &certificate, &held))
            .collect::<Result<_, _>>()
            .map_err(Unprepared::Trust)?;
        rendered.certificates_due = Some(rendered.certificates_due.map_or(held.due, |due| due.min(held.due)));
        authorities.extend(held.authorities);
    }
    rendered.authorities = (!authorities.is_empty()).then(|| Digest::sha256(&authorities));
    Ok(rendered)
}

/// What the Secret holds now, if there is one.
async fn secret(
    view: &View,
    certificate: &ServingCertificate,
) -> Result<Option<BTreeMap<String, ByteString>>, Unprepared> {
    let (namespace, name) = (&certificate.namespace, &certificate.secret);
    let failed = |source| Unprepared::Secret { namespace: namespace.clone(), name: name.clone(), source };
    let reads = &view.reads;
    let Some(kind) = reads.kinds.get("v1", "Secret").await.map_err(failed)? else { return Ok(None) };
    let identity = Identity { kind, namespace: Some(namespace.clone()), name: name.clone() };
    let found = reads.reader.get(&identity).await.map_err(failed)?;
    // Whatever else lies there is as good as nothing.
    Ok(found.and_then(|secret| serde_json::from_value(secret.body.get("data")?.clone()).ok()))
}

/// The object with the certificate, or with its authorities, where it is to have them.
fn filled(object: Object, certificate: &ServingCertificate, held: &Held) -> Result<Object, object::Error> {
    let is_secret = object.group().is_empty()
        && object.kind() == "Secret"
        && object.name() == certificate.secret
        && object.namespace() == Some(&certificate.namespace);
    let source = format!("{}/{}", certificate.namespace, certificate.secret);
    let trusts = object.annotation(CA_ANNOTATION) == Some(&source);
    if !is_secret && !trusts {
        return Ok(object);
    }
    let origin = object.origin().clone();
    let mut value = object.into_value();
    if is_secret {
        value["data"] = json!(held.entries);
    } else {
        trust(&mut value, &json!(ByteString(held.authorities.clone())));
    }
    Object::new(value, origin)
}

/// Puts the authorities wherever the placeholder stands.
fn trust(object: &mut Value, authorities: &Value) {
    // Of CRDs, and of APIServices.
    let clients = ["/spec/conversion/webhook/clientConfig", "/spec/conversion/webhookClientConfig", "/spec"];
    for path in clients {
        replace(object.pointer_mut(path), authorities);
    }
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        replace(webhook.get_mut("clientConfig"), authorities);
    }
}

fn replace(client: Option<&mut Value>, authorities: &Value) {
    if let Some(bundle) = client.and_then(|client| client.get_mut("caBundle")).filter(|bundle| *bundle == PLACEHOLDER) {
        *bundle = authorities.clone();
    }
}

/// What Helm rendered for a release. It is rendered once and kept in the store, under a digest that the status has before the first
/// object is written: passwords, certificates and times that templates make up stay what they are, whatever is reconciled.
struct Rendering {
    tree: BundleTree,
    /// Whether it was rendered just now: the store does not have it yet.
    is_new: bool,
}

/// What was rendered for the release; what Helm renders now, if nothing was, or it is lost.
async fn find_or_render(run: &Run, release: &Release) -> Result<Rendering, Unprepared> {
    if let Some(rendering) = &release.rendering {
        match content(run, rendering, Format::Plain).await {
            Ok(tree) => return Ok(Rendering { tree, is_new: false }),
            Err(Unprepared::Lost(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let values = helm::values(release.config.as_ref()).map_err(|error| Unprepared::Format(Box::new(error.into())))?;
    // First: a chart that waits in memory is in nobody's account.
    let (context, name) = (run.context.clone(), run.view.owner.name.clone());
    let enqueue = move || {
        context.reads.trackers.end_wait(&name);
        context.deployment_queue.add(&name);
    };
    let turn = run.context.helm.turn(&run.view.owner.name, enqueue).await;
    let turn = turn.map_err(|error| Unprepared::Helm(Box::new(error)))?;
    let chart = content(run, &release.content, Format::Helm).await?;
    let folder = helm::chart_folder(&chart).to_owned();
    let request = Request {
        release: run.view.owner.name.clone(),
        namespace: run.view.reads.settings.system_namespace.clone(),
        values,
        capabilities: Some(capabilities(run).await?),
    };
    let (stage, limits) = (run.view.reads.store.stage_dir(), &run.view.reads.settings.limits);
    let rendered = turn.render(chart, &folder, request, stage, limits).await;
    let rendered = rendered.map_err(|error| Unprepared::Helm(Box::new(error)))?;
    if !rendered.warnings.is_empty() {
        tracing::warn!(deployment = %run.view.owner.name, warnings = rendered.warnings, "Helm warns of the chart");
    }
    Ok(Rendering { tree: helm::rendering(rendered.manifest), is_new: true })
}

/// What the templates are told of the cluster, as it is now. What was rendered already does not follow it.
async fn capabilities(run: &Run) -> Result<Capabilities, Unprepared> {
    let kubernetes = kubernetes(run).await?;
    let api_versions = run.view.reads.kinds.api_versions().await.map_err(Unprepared::Discovery)?;
    Ok(Capabilities { kubernetes, api_versions })
}

/// Keeps `tree`, which was rendered for the release, in the store. Returns the release with it.
///
/// # Errors
/// Something else was rendered for it before.
async fn keep_rendering(run: &Run, release: Release, tree: BundleTree) -> Result<Release, Unprepared> {
    let store = run.view.reads.store.clone();
    let sealed = tokio::task::spawn_blocking(move || store.seal(&tree)).await.map_err(Unprepared::Interrupted)?;
    let sealed = sealed.map_err(Unprepared::Store)?;
    // What a Plan names and was lost is rendered anew: that is another plan.
    let recorded = Release { rendering: None, ..release.clone() }.rendered_in(&run.view.observed.status).rendering;
    if recorded.is_some_and(|known| known != sealed.digest) {
        return Err(Unprepared::Rendering);
    }
    // The mark of what was sealed goes with the value.
    collect::keep_also(run, &sealed.digest).await.map_err(Unprepared::Store)?;
    Ok(Release { rendering: Some(sealed.digest.clone()), ..release })
}

/// Loads and verifies what the store has under `digest`, as far as the format has a use for it.
pub(super) async fn content(run: &Run, digest: &Digest, format: Format) -> Result<BundleTree, Unprepared> {
    let reads = &run.view.reads;
    let (store, limits, digest) = (reads.store.clone(), reads.settings.limits.clone(), digest.clone());
    let work = move || load_content(&store, &digest, format, &limits);
    tokio::task::spawn_blocking(work).await.map_err(Unprepared::Interrupted)?
}

fn load_content(store: &Store, digest: &Digest, format: Format, limits: &Limits) -> Result<BundleTree, Unprepared> {
    store
        .load(digest, &|path| format.has_part(path), limits)
        .map_err(|error| if error.mended_by_refill() { Unprepared::Lost(error) } else { Unprepared::Store(error) })
}

/// The API server's version. It is asked each time: clusters are upgraded while we run.
pub(super) async fn kubernetes(run: &Run) -> Result<String, Unprepared> {
    let version = run.context.client.apiserver_version().await;
    version.map(|version| version.git_version).map_err(|error| Unprepared::Kubernetes(Box::new(error)))
}

/// Fetches lost content again by a revision of the history, where no Bundle has it any more. Whether it did.
pub(super) async fn refetch_revision(run: &Run, content: &Digest) -> bool {
    let content = content.to_string();
    let history = &run.view.observed.status.history;
    let Some(revision) = history.iter().find(|revision| revision.release.content_digest == content) else {
        return false;
    };
    // Its content goes with a deployment, and is not to come back when one is deleted in the middle of a reconcile.
    if !run.view.is_there() {
        return false;
    }
    tracing::warn!(deployment = %run.view.owner.name, revision = revision.revision, "fetching the content of a revision again");
    match run.context.unpacker.fetch_revision(revision, &run.view.observed.deployment).await {
        Ok(()) if run.view.is_there() => true,
        Ok(()) => {
            run.context.unpacker.release(revision.bundle.as_deref().unwrap_or_default()).await;
            false
        }
        Err(error) => {
            tracing::warn!(deployment = %run.view.owner.name, revision = revision.revision, error, "cannot fetch the content of a revision again");
            false
        }
    }
}

/// Has lost or damaged content fetched again by the pin of a Bundle. It enqueues us when it is there.
pub(super) async fn refetch(run: &Run, content: &Digest, why: &rukpak_store::Error) {
    tracing::warn!(deployment = %run.view.owner.name, error = %Chain(why), "fetching the installed content again");
    let content = content.to_string();
    for bundle in owned(&run.view.reads, &run.view.owner, &run.view.observed.deployment) {
        let pin = bundle.status.as_ref().and_then(|status| status.pin.as_ref());
        if pin.is_some_and(|pin| pin.content_digest == content) {
            run.context.unpacker.verify_content(&bundle.name_any()).await;
        }
    }
}
