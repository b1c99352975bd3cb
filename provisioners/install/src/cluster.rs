//! The one door to the API server for the objects of bundles: which kinds it serves, every read of them and every write, and whose rights
//! these are made with.

mod kinds;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use http::{HeaderValue, Request};
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams, ObjectList, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::{Api, Client};
use rukpak_crds::{BundleDeployment, ServiceAccountReference};
use rukpak_plan::Identity;
use rukpak_plan::rights::{Held, Right, Rights, Scope};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use kinds::Kinds;
pub use rukpak_runtime::api::Error;
pub use writer::{Deleted, Propagation, Writer};

/// Whom a request is made for.
const IMPERSONATE_USER: &str = "impersonate-user";
/// Questions that are under way at once.
const PARALLEL: usize = 8;
/// Rules are asked for by namespace. No namespace can have this name, so that nothing but what counts everywhere is in the answer.
const NO_NAMESPACE: &str = "-";

/// An object as the API server answered it.
pub struct Written {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The whole object, metadata left out.
    pub body: Value,
}

impl Written {
    /// The object as one JSON value, for the health rules. Without the owners of its fields, which no rule is about.
    pub fn whole(&self, identity: &Identity) -> Value {
        let metadata = ObjectMeta { managed_fields: None, ..self.metadata.clone() };
        self.typed(identity, json!(metadata))
    }

    /// The same of a CRD, as the rules of CRDs want it.
    pub(crate) fn as_crd(&self, identity: &Identity) -> Value {
        self.typed(identity, json!({"name": identity.name}))
    }

    fn typed(&self, identity: &Identity, metadata: Value) -> Value {
        let mut object = self.body.clone();
        if let Value::Object(map) = &mut object {
            map.insert("apiVersion".to_owned(), json!(identity.kind.resource.api_version));
            map.insert("kind".to_owned(), json!(identity.kind.resource.kind));
            map.insert("metadata".to_owned(), metadata);
        }
        object
    }
}

/// Makes readers and writers, which send a bounded number of requests at once together.
pub struct Cluster {
    door: Door,
    deployments: Api<BundleDeployment>,
}

impl Cluster {
    /// For `client`, with at most `in_flight` requests at once.
    pub fn new(client: Client, in_flight: usize) -> Self {
        let deployments = Api::all(client.clone());
        let door = Door { client, permits: Arc::new(Semaphore::new(in_flight)) };
        Self { door, deployments }
    }

    /// Which kinds are served, asked once and remembered.
    pub fn kinds(&self) -> Kinds {
        Kinds::new(self.door.client.clone())
    }

    /// Reads with the controller's own rights.
    pub fn reader(&self) -> Reader {
        Reader { door: self.door.clone() }
    }

    /// Writes with the rights of `account`, or without one with the controller's own.
    pub fn writer(&self, account: Option<&ServiceAccountReference>) -> Writer {
        let account = account.map(|account| Account::new(&self.door.client, account));
        let client = account.as_ref().map_or_else(|| self.door.client.clone(), Account::client);
        Writer::new(Door { client, permits: self.door.permits.clone() }, account)
    }

    /// The metadata of a BundleDeployment as the API server has it now, not a watch.
    pub async fn deployment(&self, name: &str) -> Result<Option<ObjectMeta>, Error> {
        Ok(self.deployments.get_metadata_opt(name).await?.map(|found| found.metadata))
    }

    /// All of a BundleDeployment, as the API server has it now.
    pub async fn declared(&self, name: &str) -> Result<Option<BundleDeployment>, Error> {
        Ok(self.deployments.get_opt(name).await?)
    }
}

/// Sends every read of objects that bundles have, with the controller's own rights, whoever they are written for. Reads and writes
/// together are a bounded number of requests at once.
pub struct Reader {
    door: Door,
}

impl Reader {
    /// The object's metadata; `None` if it is not there.
    pub async fn metadata(&self, identity: &Identity) -> Result<Option<ObjectMeta>, Error> {
        let _permit = self.door.permit().await;
        let found: Option<PartialObjectMeta<DynamicObject>> =
            self.door.api(identity).get_metadata_opt(&identity.name).await?;
        Ok(found.map(|object| object.metadata))
    }

    /// The whole object; `None` if it is not there.
    pub async fn get(&self, identity: &Identity) -> Result<Option<Written>, Error> {
        let _permit = self.door.permit().await;
        let found = self.door.api(identity).get_opt(&identity.name).await?;
        Ok(found.map(|object| Written { metadata: object.metadata, body: object.data }))
    }

    /// One page of the objects of a kind, in one namespace or all.
    pub async fn list(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        page: &ListParams,
    ) -> Result<ObjectList<DynamicObject>, Error> {
        let _permit = self.door.permit().await;
        self.door.scoped(resource, namespace).list(page).await.map_err(Error::from)
    }

    /// One page of their metadata.
    pub async fn list_metadata(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        page: &ListParams,
    ) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>, Error> {
        let _permit = self.door.permit().await;
        self.door.scoped(resource, namespace).list_metadata(page).await.map_err(Error::from)
    }
}

/// A way to the API server, with the rights of its client.
#[derive(Clone)]
struct Door {
    pub client: Client,
    pub permits: Arc<Semaphore>,
}

impl Door {
    pub fn api(&self, identity: &Identity) -> Api<DynamicObject> {
        self.scoped(&identity.kind.resource, identity.namespace.as_deref())
    }

    /// The API of one kind, in one namespace or all.
    pub fn scoped(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    pub async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed; without a permit the request goes out all the same.
        self.permits.acquire().await.ok()
    }
}

/// A ServiceAccount whose rights writes are made with, by impersonation.
///
/// The API server derives the groups of a ServiceAccount from its name, so that the controller needs the right to impersonate
/// ServiceAccounts and nobody else. It does not ask whether the account exists: that is looked up here.
pub struct Account {
    /// Which one.
    pub reference: ServiceAccountReference,
    /// With its rights.
    client: Client,
    /// With the controller's.
    own: Client,
}

impl Account {
    fn new(own: &Client, reference: &ServiceAccountReference) -> Self {
        Self { reference: reference.clone(), client: impersonating(own, reference), own: own.clone() }
    }

    fn client(&self) -> Client {
        self.client.clone()
    }

    /// Whether there is such a ServiceAccount.
    pub async fn exists(&self) -> Result<bool, Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.own.clone(), &self.reference.namespace);
        Ok(accounts.get_metadata_opt(&self.reference.name).await?.is_some())
    }

    /// What the account lacks of `needed`.
    ///
    /// Its rules are asked for, a request a namespace. Not every authoriser can tell rules; what an account seems to lack is asked for by
    /// itself where one cannot.
    pub async fn lacks(&self, needed: &Rights) -> Result<Rights, Error> {
        let scopes: BTreeSet<Scope> = needed.iter().map(|right| right.scope().clone()).collect();
        let asked: Vec<_> = scopes.iter().map(|scope| self.rules(scope)).collect();
        let answers: Vec<Answer> = futures::stream::iter(asked).buffered(PARALLEL).try_collect().await?;
        let mut held = Held::default();
        for (scope, answer) in scopes.iter().zip(&answers) {
            held.add(scope, &answer.rules);
        }
        let lacks = held.lacks(needed);
        if answers.iter().all(|answer| answer.is_complete) {
            return Ok(lacks);
        }
        let asked: Vec<_> = lacks.iter().map(|right| self.may(right)).collect();
        let allowed: Vec<bool> = futures::stream::iter(asked).buffered(PARALLEL).try_collect().await?;
        let denied = lacks.iter().zip(allowed).filter(|(_, is_allowed)| !is_allowed);
        Ok(denied.map(|(right, _)| right.clone()).collect())
    }

    /// The account's rules that count in `scope`, and whether these are all.
    async fn rules(&self, scope: &Scope) -> Result<Answer, Error> {
        let namespace = match scope {
            Scope::Cluster => NO_NAMESPACE,
            Scope::Namespace(namespace) => namespace,
        };
        let review: SelfSubjectRulesReview = self.review(json!({"namespace": namespace})).await?;
        let status = review.status.unwrap_or_default();
        let of_resources = status.resource_rules.into_iter().map(|rule| {
            let ResourceRule { api_groups, resource_names, resources, verbs } = rule;
            PolicyRule { api_groups, resource_names, resources, verbs, ..PolicyRule::default() }
        });
        let of_paths = status.non_resource_rules.into_iter().map(|rule| PolicyRule {
            non_resource_urls: rule.non_resource_urls,
            verbs: rule.verbs,
            ..PolicyRule::default()
        });
        Ok(Answer { rules: of_resources.chain(of_paths).collect(), is_complete: !status.incomplete })
    }

    async fn may(&self, right: &Right) -> Result<bool, Error> {
        let asked = match right {
            Right::Objects { scope, group, resource, name, verb } => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let namespace = match scope {
                    Scope::Cluster => "",
                    Scope::Namespace(namespace) => namespace,
                };
                json!({"resourceAttributes": {"namespace": namespace, "group": group, "resource": resource,
                    "subresource": subresource, "name": name, "verb": verb}})
            }
            Right::Path { path, verb } => json!({"nonResourceAttributes": {"path": path, "verb": verb}}),
        };
        let review: SelfSubjectAccessReview = self.review(asked).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// The answer to a question that the account asks about itself.
    async fn review<K>(&self, spec: Value) -> Result<K, Error>
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
    {
        let question = serde_json::from_value(json!({"metadata": {}, "spec": spec}));
        let question: K = question.map_err(|error| Error::Unavailable(Box::new(kube::Error::SerdeError(error))))?;
        let reviews: Api<K> = Api::all(self.client.clone());
        reviews.create(&PostParams::default(), &question).await.map_err(Error::from)
    }
}

/// The rules that count in some scope.
struct Answer {
    rules: Vec<PolicyRule>,
    /// Whether there are no others.
    is_complete: bool,
}

/// A client whose every request is made for the account, over the connections of `own`.
fn impersonating(own: &Client, account: &ServiceAccountReference) -> Client {
    let (own, namespace, user) = (own.clone(), own.default_namespace().to_owned(), account.user_name());
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let (own, user) = (own.clone(), HeaderValue::try_from(user.as_str()));
        async move {
            // Without the header the request would be the controller's own.
            let user = user.map_err(|error| kube::Error::HttpError(error.into()))?;
            request.headers_mut().insert(IMPERSONATE_USER, user);
            own.send(request).await
        }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests;
