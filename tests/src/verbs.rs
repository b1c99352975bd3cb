//! Verbs on a cluster: apply, create, refuse, wait. Waiting is watching; whoever waits in vain gets the object, its events and
//! the ends of the programs' logs.

mod diagnose;
mod rights;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::error::Elapsed;

pub use self::diagnose::{diagnose, story};
pub(crate) use self::diagnose::{hide_log, show_log};
pub use self::rights::{await_role, await_rules};
pub use crate::tools::{PATIENCE, unique_name};

/// Field manager of the tests.
pub const FIELD_MANAGER: &str = "rukpak-tests";

/// Names one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `group/version`, or `v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; ignored for cluster-scoped kinds, `default` when absent for others.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

/// What a condition must look like.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// `type`.
    pub kind: &'a str,
    /// `status`: `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// `reason`; any when absent.
    pub reason: Option<&'a str>,
    /// Text that `message` contains; any when empty.
    pub message: &'a str,
}

/// A refusal by the API server.
#[derive(Debug, Clone)]
pub struct Denial {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason; a webhook may put a sentence here.
    pub reason: String,
    /// The sentence for people.
    pub message: String,
}

impl Target {
    /// A cluster-scoped object.
    pub fn cluster(api_version: &str, kind: &str, name: &str) -> Self {
        Self { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: None, name: name.to_owned() }
    }

    /// An object in a namespace.
    pub fn namespaced(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::cluster(api_version, kind, name) }
    }

    /// A Bundle.
    pub fn bundle(name: &str) -> Self {
        Self::cluster("core.rukpak.io/v1alpha1", "Bundle", name)
    }

    /// A BundleDeployment.
    pub fn bundle_deployment(name: &str) -> Self {
        Self::cluster("core.rukpak.io/v1alpha1", "BundleDeployment", name)
    }

    /// The object that `object` is about.
    pub fn of(object: &Value) -> Result<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let need = |pointer: &str| text(pointer).with_context(|| format!("the object has no {pointer}: {object}"));
        Ok(Self {
            api_version: need("/apiVersion")?,
            kind: need("/kind")?,
            namespace: text("/metadata/namespace"),
            name: need("/metadata/name")?,
        })
    }

    /// The API of its kind, by discovery.
    pub async fn api(&self, client: &Client) -> Result<Api<DynamicObject>> {
        let (resource, scope) = discover(client, &self.api_version, &self.kind).await?;
        Ok(match scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => {
                Api::namespaced_with(client.clone(), self.namespace.as_deref().unwrap_or("default"), &resource)
            }
        })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

impl<'a> Expected<'a> {
    /// Status `True` with a reason.
    pub fn is_true(kind: &'a str, reason: &'a str) -> Self {
        Self { kind, status: "True", reason: Some(reason), message: "" }
    }

    /// Status `False` with a reason.
    pub fn is_false(kind: &'a str, reason: &'a str) -> Self {
        Self { kind, status: "False", reason: Some(reason), message: "" }
    }

    /// And a message that contains `text`.
    #[must_use]
    pub fn saying(self, text: &'a str) -> Self {
        Self { message: text, ..self }
    }

    /// Whether the object has such a condition now.
    pub fn met_by(&self, object: &DynamicObject) -> bool {
        condition(object, self.kind).is_some_and(|found| {
            found["status"] == self.status
                && self.reason.is_none_or(|reason| found["reason"] == reason)
                && found["message"].as_str().unwrap_or_default().contains(self.message)
        })
    }
}

/// Whether the status is about the generation that the object has now: what is said of an earlier one answers nothing.
fn is_current(object: &DynamicObject) -> bool {
    let observed = object.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
    observed.is_none_or(|observed| Some(observed) == object.metadata.generation)
}

/// The resource and scope of a kind, by discovery.
pub async fn discover(client: &Client, api_version: &str, kind: &str) -> Result<(ApiResource, Scope)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let found = kube::discovery::pinned_kind(client, &gvk).await;
    let (resource, capabilities) = found.with_context(|| format!("discover {api_version} {kind}"))?;
    Ok((resource, capabilities.scope))
}

/// Waits until discovery lists a kind, which is a moment after its CRD is `Established`. Discovery cannot be watched.
pub async fn await_served(client: &Client, api_version: &str, kind: &str, deadline: Duration) -> Result<()> {
    let end = tokio::time::Instant::now() + deadline;
    while let Err(error) = discover(client, api_version, kind).await {
        if tokio::time::Instant::now() > end {
            return Err(error.context(format!("{kind} is not served after {deadline:?}")));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Server-side apply, forced, as `rukpak-tests`.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject> {
    let target = Target::of(object)?;
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = target.api(client).await?.patch(&target.name, &parameters, &Patch::Apply(object)).await;
    applied.with_context(|| format!("apply {target}"))
}

/// Creates an object.
pub async fn create(client: &Client, object: &Value) -> Result<DynamicObject> {
    let target = Target::of(object)?;
    let new: DynamicObject = serde_json::from_value(object.clone())?;
    let created = target.api(client).await?.create(&PostParams::default(), &new).await;
    created.with_context(|| format!("create {target}"))
}

/// Merges `patch` into an existing object.
pub async fn merge(client: &Client, target: &Target, patch: &Value) -> Result<DynamicObject> {
    let patched = target.api(client).await?.patch(&target.name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.with_context(|| format!("patch {target}"))
}

/// Creates an object that must be refused, and not exist afterwards.
pub async fn create_expecting_denial(client: &Client, object: &Value) -> Result<Denial> {
    let target = Target::of(object)?;
    let denial = denial(create(client, object).await.map(|_| ()))?;
    if get(client, &target).await?.is_some() {
        bail!("{target} was refused ({}) and exists all the same", denial.message);
    }
    Ok(denial)
}

/// Merges a patch that must be refused.
pub async fn merge_expecting_denial(client: &Client, target: &Target, patch: &Value) -> Result<Denial> {
    denial(merge(client, target, patch).await.map(|_| ()))
}

/// The object, if it exists.
pub async fn get(client: &Client, target: &Target) -> Result<Option<DynamicObject>> {
    target.api(client).await?.get_opt(&target.name).await.with_context(|| format!("get {target}"))
}

/// All objects of a kind in all namespaces that match a label selector.
pub async fn list(client: &Client, api_version: &str, kind: &str, labels: &str) -> Result<Vec<DynamicObject>> {
    let (resource, _) = discover(client, api_version, kind).await?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    Ok(api.list(&ListParams::default().labels(labels)).await.with_context(|| format!("list {kind}"))?.items)
}

/// Asks for the deletion of an object; fine if it does not exist.
pub async fn delete(client: &Client, target: &Target) -> Result<()> {
    match target.api(client).await?.delete(&target.name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("delete {target}")),
    }
}

/// Makes a namespace with a unique name; returns the name.
pub async fn namespace(client: &Client, prefix: &str) -> Result<String> {
    let name = unique_name(prefix);
    create(client, &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })).await?;
    Ok(name)
}

/// A condition of an object by its type.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    object.data.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Waits until the object has the condition; returns the object as it was then.
pub async fn await_condition(
    client: &Client,
    target: &Target,
    expected: Expected<'_>,
    deadline: Duration,
) -> Result<DynamicObject> {
    let what = format!("condition {expected:?}");
    let found = await_object(client, target, &what, deadline, |object| {
        object.is_some_and(|object| is_current(object) && expected.met_by(object))
    })
    .await?;
    found.context("a met condition without an object")
}

/// Waits until the object is gone.
pub async fn await_deleted(client: &Client, target: &Target, deadline: Duration) -> Result<()> {
    await_object(client, target, "its end", deadline, |object| object.is_none()).await.map(|_| ())
}

/// Waits until `wanted` holds for the object, or for its absence; `what` names it in the error.
pub async fn await_object(
    client: &Client,
    target: &Target,
    what: &str,
    deadline: Duration,
    wanted: impl Fn(Option<&DynamicObject>) -> bool,
) -> Result<Option<DynamicObject>> {
    match tokio::time::timeout(deadline, watch_until(client, target, wanted)).await {
        Ok(found) => found,
        Err(_) => bail!("{target}: still waiting for {what} after {deadline:?}\n{}", diagnose(client, target).await),
    }
}

/// Watches an object for `period`, which begins when it is seen first, and fails as soon as `allowed` does not hold.
pub async fn holds_for(
    client: &Client,
    target: &Target,
    what: &str,
    period: Duration,
    allowed: impl Fn(Option<&DynamicObject>) -> bool,
) -> Result<()> {
    let is_seen = Notify::new();
    let ends = watch_until(client, target, |object| {
        is_seen.notify_one();
        !allowed(object)
    });
    let is_over = async {
        tokio::time::timeout(PATIENCE, is_seen.notified()).await?;
        tokio::time::sleep(period).await;
        Ok::<_, Elapsed>(())
    };
    tokio::select! {
        ended = ends => {
            ended?;
            bail!("{target}: {what} did not hold for {period:?}\n{}", diagnose(client, target).await)
        }
        over = is_over => over.with_context(|| format!("{target}: the watch delivered nothing for {PATIENCE:?}")),
    }
}

/// Watches through whatever the API server does, a restart included.
async fn watch_until(
    client: &Client,
    target: &Target,
    wanted: impl Fn(Option<&DynamicObject>) -> bool,
) -> Result<Option<DynamicObject>> {
    let api = target.api(client).await?;
    let mut stream = std::pin::pin!(watcher::watch_object(api, &target.name).default_backoff());
    while let Some(step) = stream.next().await {
        match step {
            Ok(object) if wanted(object.as_ref()) => return Ok(object),
            Ok(_) => {}
            Err(error) => tracing::debug!(%target, %error, "watch interrupted"),
        }
    }
    bail!("the watch of {target} ended")
}

fn denial(result: Result<()>) -> Result<Denial> {
    let Err(error) = result else { bail!("the API server accepted what it should have refused") };
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => {
            Ok(Denial { code: status.code, reason: status.reason.clone(), message: status.message.clone() })
        }
        _ => Err(error.context("not a refusal by the API server")),
    }
}
