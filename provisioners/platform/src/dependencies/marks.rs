//! Who needs whom, in annotations: admission refuses to delete what others need, and looks at nothing but the object. I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::names::NEEDED_BY;
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_runtime::api::Error;
use rukpak_runtime::error::Chain;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::sleep;

use super::dependents::Dependents;
use super::{Dependencies, Dependent};
use crate::catalogs::Catalogs;
use crate::events::Events;

/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "rukpak-dependencies";
/// Before another look: less than anybody would notice.
const BURST: Duration = Duration::from_millis(200);
/// Before another attempt where a write failed.
const PAUSE: Duration = Duration::from_secs(5);

/// What an installed bundle needs and nothing that is installed provides. For each dependent and its bundle.
type Missing = BTreeMap<(Dependent, String), BTreeSet<String>>;

/// Keeps the annotations, endlessly, once all stores are filled; and tells dependents what they have lost.
pub(crate) async fn keep(
    dependencies: Arc<Dependencies>,
    catalogs: Arc<Catalogs>,
    events: Arc<Events>,
    client: Client,
) {
    let mut last = Missing::new();
    loop {
        dependencies.learn(&catalogs).await;
        dependencies.settled.cancel();
        let all = dependencies.dependents();
        let missing = all.missing();
        dependencies.tell_lost(&last, &missing, &events);
        last = missing;
        let mut has_failed = false;
        for (dependent, needed_by) in &dependencies.marks(&all) {
            if let Err(error) = dependencies.mark(dependent, needed_by, &client).await {
                has_failed = true;
                tracing::warn!(%dependent, error = %Chain(&error), "cannot note who needs it");
            }
        }
        tokio::select! {
            () = dependencies.news.notified() => {}
            () = sleep(PAUSE), if has_failed => {}
        }
        // Changes come in bursts. One look is for all of them.
        sleep(BURST).await;
    }
}

impl Dependencies {
    /// Tells those who miss something now that they had before.
    fn tell_lost(&self, before: &Missing, now: &Missing, events: &Events) {
        for (who @ (dependent, bundle), missing) in now {
            let Some(before) = before.get(who) else { continue };
            let lost: Vec<&str> = missing.difference(before).map(String::as_str).collect();
            if lost.is_empty() {
                continue;
            }
            let message =
                format!("{bundle} needs a bundle {}, which is not installed any more", lost.join(" and a bundle "));
            tracing::warn!(%dependent, detail = message, "lost what it depends on");
            if let Some(about) = self.reference(dependent) {
                events.tell_lost(about, message);
            }
        }
    }

    fn reference(&self, dependent: &Dependent) -> Option<ObjectReference> {
        match dependent {
            Dependent::Operator(name) => {
                self.stores.operators.get(&ObjectRef::new(name)).map(|object| object.object_ref(&()))
            }
            Dependent::Extension(name) => {
                self.stores.extensions.get(&ObjectRef::new(name)).map(|object| object.object_ref(&()))
            }
            Dependent::Deployment(name) => {
                self.stores.deployments.get(&ObjectRef::new(name)).map(|object| object.object_ref(&()))
            }
            Dependent::Subscription(..) => None,
        }
    }

    /// The annotation of each object that has something installed.
    fn marks(&self, all: &Dependents) -> BTreeMap<Dependent, String> {
        let noted = |dependent: &Dependent| {
            let seen = self.stores.deployments.get(&ObjectRef::new(&dependent.deployment()));
            let text = seen.and_then(|deployment| deployment.annotations().get(NEEDED_BY).cloned()).unwrap_or_default();
            text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect::<BTreeSet<String>>()
        };
        let needed = all.needed(noted);
        // What a Subscription has installed goes with its ClusterServiceVersion, whoever needs it, as in OLM.
        let is_marked = |dependent: &Dependent| !matches!(dependent, Dependent::Subscription(..));
        needed
            .into_iter()
            .filter(|(dependent, _)| is_marked(dependent))
            .map(|(dependent, names)| (dependent, names.into_iter().collect::<Vec<_>>().join(",")))
            .collect()
    }

    /// Writes the annotation where it is another: on the BundleDeployment first, on which whoever reads it relies.
    async fn mark(&self, dependent: &Dependent, needed_by: &str, client: &Client) -> Result<(), Error> {
        let deployment = self.stores.deployments.get(&ObjectRef::new(&dependent.deployment()));
        annotate::<BundleDeployment>(deployment, needed_by, client).await?;
        match dependent {
            Dependent::Operator(name) => {
                let object = self.stores.operators.get(&ObjectRef::new(name));
                annotate::<PlatformOperator>(object, needed_by, client).await
            }
            Dependent::Extension(name) => {
                let object = self.stores.extensions.get(&ObjectRef::new(name));
                annotate::<ClusterExtension>(object, needed_by, client).await
            }
            Dependent::Subscription(..) | Dependent::Deployment(_) => Ok(()),
        }
    }
}

async fn annotate<K>(object: Option<Arc<K>>, needed_by: &str, client: &Client) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let Some(object) = object else { return Ok(()) };
    let noted = object.annotations().get(NEEDED_BY).map(String::as_str).unwrap_or_default();
    if noted == needed_by {
        return Ok(());
    }
    let wanted = (!needed_by.is_empty()).then_some(needed_by);
    // Not another object of the name.
    let patch = json!({"metadata": {"uid": object.uid(), "annotations": {NEEDED_BY: wanted}}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let written = Api::<K>::all(client.clone()).patch_metadata(&object.name_any(), &params, &Patch::Merge(patch)).await;
    match written.map_err(Error::from) {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        written => written.map(drop),
    }
}
