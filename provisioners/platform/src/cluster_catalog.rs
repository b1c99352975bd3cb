//! The ClusterCatalog reconciler: observe -> decide (pure) -> resolve and unpack -> report (pure).
//!
//! ```text
//! decide    is there something to unpack, and when is the tag looked at again    pure
//! unpack    a reference to stored content                                        network, disk
//! logins    with which an image is pulled                                        API server
//! report    what came of it to a status                                          pure
//! store     content by catalog and digest                                        disk
//! content   what is stored, for those who choose from it             memory, disk
//! mirror    the same content on a replica that only stands by              network, disk
//! ```
//!
//! Content stays in the store over restarts; a tag that names what is stored already changes nothing.

pub(crate) mod content;
mod decide;
mod images;
mod logins;
mod mirror;
mod report;
mod start;
pub(crate) mod store;
mod unpack;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::olm::cluster_catalog::{AvailabilityMode, ClusterCatalogStatus};
use rukpak_crds::olm::{CATALOG_NAME_LABEL, ClusterCatalog, UPSTREAM_FINALIZERS};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::clock;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::finalizers::strip;
use rukpak_runtime::lock::lock;
use rukpak_runtime::status::{StatusWriter, WrittenVersions};
use serde_json::json;
use tokio::time::Instant;

use self::decide::{Next, Unpacked, decide};
use self::store::{CatalogStore, Stored};
use super::events::Events;
use super::outcome::Error;
use super::policies::{Verdicts, Verified};

pub use images::{Images, Pulled};
pub(crate) use logins::CatalogLogins;
pub(crate) use mirror::Mirror;
pub(crate) use report::changed;
pub(crate) use start::start;

/// Name of the CRD.
pub(crate) const DEFINITION: &str = "clustercatalogs.olm.operatorframework.io";

/// What every reconcile of a ClusterCatalog is handed.
pub(crate) struct Context {
    pub client: Client,
    /// All ClusterCatalogs, as last seen.
    pub catalogs: Store<ClusterCatalog>,
    pub content: Arc<CatalogStore>,
    pub images: Arc<dyn Images>,
    pub logins: CatalogLogins,
    pub verdicts: Arc<Verdicts>,
    /// Where clients reach the content: scheme and host; `None` if it is not served.
    pub external: Option<String>,
    pub failures: Failures,
    pub written: WrittenVersions,
    pub events: Arc<Events>,
    /// What was unpacked by this process, by UID.
    pub unpacked: Mutex<HashMap<String, Unpacked>>,
}

/// What came of a reconcile.
enum Outcome {
    /// The content is stored and served.
    Stored { stored: Arc<Stored>, reference: String },
    /// The spec says that it is not to be there.
    Unavailable,
    /// It could not be had. What was served before is served on.
    Failed { message: String, is_terminal: bool, retry: Option<Class> },
}

impl Context {
    /// The object is gone, and with it what is stored for it.
    pub async fn forget(&self, catalog: &ClusterCatalog) {
        let uid = catalog.uid().unwrap_or_default();
        self.written.forget(&uid);
        self.failures.clear(&uid);
        lock(&self.unpacked).remove(&uid);
        self.remove(&catalog.name_any()).await;
    }

    /// Removes what is stored for catalogs that are gone.
    pub async fn collect(&self) {
        for name in self.content.names() {
            if self.catalogs.get(&ObjectRef::new(&name)).is_none() {
                self.remove(&name).await;
            }
        }
    }

    async fn remove(&self, name: &str) {
        if let Err(error) = self.content.remove(name).await {
            tracing::warn!(catalog = name, %error, "stored content cannot be removed");
        }
    }

    /// Whether the object is still there as it was seen, and wants its content.
    fn is_wanted(&self, catalog: &ClusterCatalog) -> bool {
        self.catalogs.get(&ObjectRef::from_obj(catalog)).is_some_and(|now| {
            now.uid() == catalog.uid()
                && now.meta().deletion_timestamp.is_none()
                && now.spec.availability_mode == AvailabilityMode::Available
        })
    }
}

/// One reconcile of a ClusterCatalog.
///
/// # Errors
/// Only what prevents the outcome from being reported; everything else is in the status.
pub(crate) async fn reconcile(catalog: Arc<ClusterCatalog>, context: Arc<Context>) -> Result<Action, Error> {
    let name = catalog.name_any();
    if context.written.is_stale(&*catalog) {
        return Ok(Action::await_change());
    }
    if catalog.meta().deletion_timestamp.is_some() {
        context.remove(&name).await;
        strip(&context.client, &*catalog, &UPSTREAM_FINALIZERS).await.map_err(Error::Metadata)?;
        return Ok(Action::await_change());
    }
    label(&catalog, &context).await?;
    let outcome = outcome(&catalog, &context).await;
    let uid = catalog.uid().unwrap_or_default();
    let old = catalog.status.clone().unwrap_or_default();
    let base = context.external.as_ref().map(|external| format!("{external}/catalogs/{name}"));
    let image = catalog.spec.image();
    let verified = image.map_or(Verified::Unlooked, |image| context.verdicts.of(&image.reference));
    let said = report::Said { outcome: &outcome, verified };
    let status = report::status(&old, catalog.meta().generation, said, base, clock::now());
    write(&catalog, &old, status, &context).await?;
    Ok(match &outcome {
        Outcome::Failed { retry, .. } => {
            // The next attempt asks again, whatever is known.
            lock(&context.unpacked).remove(&uid);
            let failures = context.failures.another(&uid);
            retry.map_or_else(Action::await_change, |class| Action::requeue(retry::delay(class, failures)))
        }
        Outcome::Stored { .. } => {
            context.failures.clear(&uid);
            let due =
                lock(&context.unpacked).get(&uid).and_then(|unpacked| unpacked.due(&catalog.spec, Instant::now()));
            due.map_or_else(Action::await_change, Action::requeue)
        }
        Outcome::Unavailable => {
            context.failures.clear(&uid);
            Action::await_change()
        }
    })
}

/// Sets the label that selectors choose catalogs by. Upstream's webhook does.
async fn label(catalog: &ClusterCatalog, context: &Context) -> Result<(), Error> {
    let name = catalog.name_any();
    if catalog.labels().get(CATALOG_NAME_LABEL) == Some(&name) {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": catalog.uid(), "labels": {CATALOG_NAME_LABEL: name}}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let api: Api<ClusterCatalog> = Api::all(context.client.clone());
    match api.patch_metadata(&name, &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // The label is a help, not a condition: selectors are read as if it were there.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            tracing::warn!(catalog = name, error = status.message, "the label {CATALOG_NAME_LABEL} cannot be set");
            Ok(())
        }
        Err(error) => Err(Error::Metadata(error.into())),
    }
}

async fn outcome(catalog: &ClusterCatalog, context: &Context) -> Outcome {
    let (name, uid) = (catalog.name_any(), catalog.uid().unwrap_or_default());
    if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
        context.remove(&name).await;
        lock(&context.unpacked).remove(&uid);
        return Outcome::Unavailable;
    }
    let image = match catalog.spec.image() {
        Ok(image) => image,
        Err(violation) => return unpack::refused(&violation),
    };
    let stored = context.content.get(&name);
    let known = lock(&context.unpacked).get(&uid).cloned();
    let generation = catalog.meta().generation;
    let found = match (decide(image, generation, known.as_ref(), stored.as_deref(), Instant::now()), stored) {
        (Next::Keep, Some(stored)) => stored,
        (_, stored) => match unpack::unpack(catalog, image, stored, context, || context.is_wanted(catalog)).await {
            Ok(found) => {
                lock(&context.unpacked).insert(uid, Unpacked { generation, at: Instant::now() });
                found
            }
            Err(failure) => return failure.outcome(),
        },
    };
    Outcome::Stored { reference: unpack::pinned(&image.reference, &found.digest), stored: found }
}

/// Writes the status, and tells of a condition that is another one.
async fn write(
    catalog: &ClusterCatalog,
    old: &ClusterCatalogStatus,
    status: ClusterCatalogStatus,
    context: &Context,
) -> Result<(), Error> {
    let mut writer = StatusWriter::new(&context.client, catalog, catalog.status.as_ref());
    let is_written = writer.write(&status, &context.written).await.map_err(Error::Status)?;
    crate::outcome::of_progress(&status.conditions, is_written);
    if !is_written {
        return Ok(());
    }
    for (before, now) in report::changed(&old.conditions, &status.conditions) {
        let (type_, reason, detail) = (&now.type_, &now.reason, &now.message);
        tracing::info!(catalog = %catalog.name_any(), type_, status = ?now.status, reason, detail, "status of ClusterCatalog changed");
        context.events.tell_condition(catalog.object_ref(&()), before, now);
    }
    Ok(())
}
