//! BundleDeployments, and the Bundles that they make.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use http::StatusCode;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use rukpak_crds::condition::{self, ConditionStatus, Conditions as _};
use rukpak_crds::{Bundle, BundleDeployment, BundleSpec};

use super::{Cluster, Error, FIELD_MANAGER, owner_labels};

/// How often it is asked whether a BundleDeployment will make a Bundle. Who may run need not have the right to watch it.
const INTERVAL: Duration = Duration::from_millis(500);

/// The Bundle that is waited for.
#[derive(Clone, Copy, Debug)]
pub struct AwaitedBundle<'a> {
    /// The BundleDeployment that makes it, as it was applied.
    pub deployment: &'a BundleDeployment,
    pub labels: &'a BTreeMap<String, String>,
    pub spec: &'a BundleSpec,
}

impl Cluster {
    /// A BundleDeployment, if it is there.
    pub async fn deployment(&self, name: &str) -> Result<Option<BundleDeployment>, Error> {
        self.deployments().get_opt(name).await.map_err(|error| self.fault(error))
    }

    /// A BundleDeployment, which must be there.
    pub async fn existing(&self, name: &str) -> Result<BundleDeployment, Error> {
        self.deployment(name).await?.ok_or_else(|| Error::NoDeployment(name.to_owned()))
    }

    /// Makes the BundleDeployment so, if it is still as it was read. What others wrote beside our fields stays. `None` if
    /// somebody else was faster.
    pub async fn apply(
        &self,
        wanted: &BundleDeployment,
        existing: Option<&BundleDeployment>,
    ) -> Result<Option<BundleDeployment>, Error> {
        let mut wanted = wanted.clone();
        wanted.metadata.resource_version = existing.and_then(|existing| existing.metadata.resource_version.clone());
        let parameters = PatchParams::apply(FIELD_MANAGER);
        // Where there was nothing, nobody's field may be taken.
        let parameters = if existing.is_some() { parameters.force() } else { parameters };
        match self.deployments().patch(&wanted.name_any(), &parameters, &Patch::Apply(&wanted)).await {
            Ok(applied) => Ok(Some(applied)),
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Waits for the Bundle that a BundleDeployment makes; returns its name.
    pub async fn generated(&self, wanted: &AwaitedBundle<'_>, patience: Duration) -> Result<String, Error> {
        let either = async {
            tokio::select! {
                found = self.watch(wanted) => found,
                end = self.stalls(wanted) => end,
            }
        };
        match tokio::time::timeout(patience, either).await {
            Ok(found) => found,
            Err(_) => Err(self.no_bundle(&wanted.deployment.name_any(), patience).await),
        }
    }

    pub(super) fn deployments(&self) -> Api<BundleDeployment> {
        Api::all(self.client.clone())
    }

    pub(super) fn bundles(&self) -> Api<Bundle> {
        Api::all(self.client.clone())
    }

    async fn watch(&self, wanted: &AwaitedBundle<'_>) -> Result<String, Error> {
        let changes = watcher(self.bundles(), watcher::Config::default().labels(&wanted.selector())).default_backoff();
        let mut changes = pin!(changes.applied_objects());
        loop {
            match changes.next().await {
                Some(Ok(bundle)) if wanted.is(&bundle) => return Ok(bundle.name_any()),
                Some(Err(watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)))
                    if matches!(error, kube::Error::Api(_)) =>
                {
                    return Err(self.fault(error));
                }
                Some(_) => {}
                None => {
                    let source = "the watch over Bundles ended".into();
                    return Err(Error::Unavailable { cluster: self.name.clone(), source });
                }
            }
        }
    }

    /// Ends when the BundleDeployment as it was applied cannot make the Bundle. One that is stalled for another reason may
    /// have made it before.
    async fn stalls(&self, wanted: &AwaitedBundle<'_>) -> Result<String, Error> {
        let name = wanted.deployment.name_any();
        loop {
            tokio::time::sleep(INTERVAL).await;
            // Whoever cannot ask waits for the Bundle alone.
            let Ok(Some(deployment)) = self.deployment(&name).await else { continue };
            let Some(message) = stalled(&deployment, wanted.deployment.metadata.generation) else { continue };
            let parameters = ListParams::default().labels(&wanted.selector());
            let made = self.bundles().list(&parameters).await.map_err(|error| self.fault(error))?;
            let made = made.into_iter().find(|bundle| wanted.is(bundle)).map(|bundle| bundle.name_any());
            return made.ok_or(Error::Stalled { name, message });
        }
    }

    async fn no_bundle(&self, name: &str, patience: Duration) -> Error {
        let said = self.deployments().get(name).await.ok().and_then(|deployment| {
            let status = deployment.status?;
            let valid = status.conditions.find(condition::HAS_VALID_BUNDLE)?;
            Some(valid.message.clone()).filter(|message| !message.is_empty())
        });
        let why = said.unwrap_or_else(|| "its status says nothing; is there a provisioner of its class?".to_owned());
        Error::NoBundle { name: name.to_owned(), patience, why }
    }
}

impl AwaitedBundle<'_> {
    fn selector(&self) -> String {
        let name = self.deployment.name_any();
        let own = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
        std::iter::once(owner_labels(&name)).chain(own).collect::<Vec<_>>().join(",")
    }

    /// One of another class was made by an earlier run; one of another owner, for a BundleDeployment of the same name that was
    /// deleted, and the garbage collector has not come to it.
    fn is(&self, bundle: &Bundle) -> bool {
        let uid = self.deployment.metadata.uid.as_deref();
        let is_owned = bundle.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid);
        is_owned && bundle.spec == *self.spec && bundle.metadata.deletion_timestamp.is_none()
    }
}

/// Why nothing becomes of a BundleDeployment of this generation or a later one, if that is so.
fn stalled(deployment: &BundleDeployment, generation: Option<i64>) -> Option<String> {
    let stalled = deployment.status.as_ref()?.conditions.find(condition::STALLED)?;
    let is_of_ours = stalled.observed_generation >= generation;
    (is_of_ours && stalled.status == ConditionStatus::True).then(|| stalled.message.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    type Sent = Arc<Mutex<Vec<(String, Value)>>>;

    /// A cluster that answers with this, and what it is sent.
    fn cluster(code: u16, answer: &Value) -> (Cluster, Sent) {
        let (sent, answer) = (Sent::default(), answer.to_string());
        let seen = sent.clone();
        let service = service_fn(move |request: http::Request<Body>| {
            let (seen, answer) = (seen.clone(), answer.clone());
            async move {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                seen.lock().unwrap().push((query, serde_json::from_slice(&body).unwrap()));
                let answer = http::Response::builder().status(code).body(Body::from(answer.into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.unwrap())
            }
        });
        let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        (Cluster { config, client: kube::Client::new(service, "default"), name: "a test".to_owned() }, sent)
    }

    #[tokio::test]
    async fn what_was_written_meanwhile_is_not_written_over() {
        let mut read = deployment(&json!({"type": "Ready", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}));
        let wanted = BundleDeployment::new("a", read.spec.clone());
        read.metadata.resource_version = Some("7".to_owned());
        let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
            "message": "the object has been modified"});
        let (cluster_then, sent) = cluster(409, &conflict);
        assert!(cluster_then.apply(&wanted, Some(&read)).await.unwrap().is_none());
        assert!(cluster_then.apply(&wanted, None).await.unwrap().is_none());
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        assert_eq!(sent[0].1["metadata"]["resourceVersion"], "7");
        assert!(sent[0].0.contains("force=true"), "{}", sent[0].0);
        // One that somebody makes meanwhile keeps its fields.
        assert!(sent[1].1["metadata"]["resourceVersion"].is_null());
        assert!(!sent[1].0.contains("force=true"), "{}", sent[1].0);
        let (cluster_now, _) = cluster(200, &serde_json::to_value(&read).unwrap());
        assert_eq!(cluster_now.apply(&wanted, Some(&read)).await.unwrap().unwrap().metadata.name.as_deref(), Some("a"));
    }

    fn deployment(condition: &Value) -> BundleDeployment {
        let source = json!({"type": "upload", "upload": {}});
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "a"},
            "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p", "source": source}}},
            "status": {"conditions": [condition]},
        }))
        .unwrap()
    }

    #[test]
    fn a_bundle_of_a_deployment_of_the_same_name_that_was_deleted_is_not_taken() {
        let mut deployment = deployment(&json!({"type": "Ready", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}));
        deployment.metadata.uid = Some("new".to_owned());
        let spec = &deployment.spec.template.spec;
        let wanted = AwaitedBundle { deployment: &deployment, labels: &BTreeMap::new(), spec };
        let mut bundle = Bundle::new("a-hash", spec.clone());
        for (uid, is_wanted) in [("old", false), ("new", true)] {
            let owner =
                json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": "a", "uid": uid}]);
            bundle.metadata.owner_references = Some(serde_json::from_value(owner).unwrap());
            assert_eq!(wanted.is(&bundle), is_wanted, "{uid}");
        }
    }

    #[test]
    fn only_what_is_said_of_this_generation_counts() {
        let condition = |type_: &str, status: &str, generation: i64| {
            deployment(
                &json!({"type": type_, "status": status, "observedGeneration": generation, "reason": "R", "message": "no",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            )
        };
        assert_eq!(stalled(&condition("Stalled", "True", 2), Some(2)).as_deref(), Some("no"));
        assert_eq!(stalled(&condition("Stalled", "True", 3), Some(2)).as_deref(), Some("no"));
        assert_eq!(stalled(&condition("Stalled", "True", 1), Some(2)), None);
        assert_eq!(stalled(&condition("Stalled", "False", 2), Some(2)), None);
        assert_eq!(stalled(&condition("Ready", "True", 2), Some(2)), None);
    }
}
