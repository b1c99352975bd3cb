//! A ServiceAccount whose rights writes are made with, by impersonation.
//!
//! The API server derives the groups of a ServiceAccount from its name, so that the controller needs the right to impersonate
//! ServiceAccounts and nobody else. It does not ask whether the account exists: that is looked up here.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt};
use http::{HeaderValue, Request};
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use rukpak_crds::ServiceAccountReference;
use rukpak_plan::rights::{Held, Right, Rights, Scope};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Error;

/// Whom a request is made for.
const IMPERSONATE_USER: &str = "impersonate-user";
/// Questions that are under way at once.
const PARALLEL: usize = 8;
/// Rules are asked for by namespace. No namespace can have this name, so that nothing but what counts everywhere is in the answer.
const NO_NAMESPACE: &str = "-";

/// A ServiceAccount.
pub struct Account {
    /// Which one.
    pub reference: ServiceAccountReference,
    /// With its rights.
    client: Client,
    /// With the controller's.
    own: Client,
}

/// The rules that count in some scope.
struct Answer {
    rules: Vec<PolicyRule>,
    /// Whether there are no others.
    is_complete: bool,
}

impl Account {
    pub(super) fn new(own: &Client, reference: &ServiceAccountReference) -> Self {
        Self { reference: reference.clone(), client: impersonating(own, reference), own: own.clone() }
    }

    pub(super) fn client(&self) -> Client {
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
mod tests {
    use super::*;
    use crate::cluster::tests::client;

    fn reference() -> ServiceAccountReference {
        ServiceAccountReference { name: "installer".to_owned(), namespace: "shop".to_owned() }
    }

    fn right(scope: Scope, (group, resource): (&str, &str), name: Option<&str>, verb: &str) -> Right {
        let (group, resource, verb) = (group.to_owned(), resource.to_owned(), verb.to_owned());
        Right::Objects { scope, group, resource, name: name.map(str::to_owned), verb }
    }

    /// The answer to a question about rules: reading Pods is what can be told.
    fn rules(is_incomplete: bool) -> Value {
        let told = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        json!({"spec": {}, "status": {"resourceRules": told, "nonResourceRules": [], "incomplete": is_incomplete}})
    }

    const RULES: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    const ACCESS: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

    /// Authorisers that are asked over a webhook, as those of the large clouds, tell no rules.
    #[tokio::test]
    async fn asks_about_each_right_that_incomplete_rules_do_not_tell() {
        let shop = Scope::Namespace("shop".to_owned());
        let held = right(shop.clone(), ("", "pods"), Some("a"), "get");
        let allowed = right(shop.clone(), ("apps", "deployments/scale"), Some("web"), "update");
        let denied = right(Scope::Cluster, ("example.com", "gadgets"), None, "create");
        let path = Right::Path { path: "/metrics".to_owned(), verb: "get".to_owned() };
        let (own, asked) = client(|asked| match asked.what.as_str() {
            RULES => rules(true),
            _ => {
                json!({"spec": {}, "status": {"allowed": asked.body["spec"]["resourceAttributes"]["verb"] == "update"}})
            }
        });
        let needed = Rights::from([held, allowed, denied.clone(), path.clone()]);
        assert_eq!(Account::new(&own, &reference()).lacks(&needed).await.unwrap(), [denied, path].into());

        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|asked| asked.user.as_deref() == Some("system:serviceaccount:shop:installer")));
        let reviews = asked.iter().filter(|asked| asked.what == ACCESS).map(|asked| asked.body["spec"].clone());
        let attributes =
            |namespace: &str, group: &str, resource: &str, subresource: &str, name: Option<&str>, verb: &str| {
                json!({"resourceAttributes": {"namespace": namespace, "group": group, "resource": resource,
                "subresource": subresource, "name": name, "verb": verb}})
            };
        let mut gadgets = attributes("", "example.com", "gadgets", "", None, "create");
        gadgets["resourceAttributes"].as_object_mut().unwrap().remove("name");
        let expected = [
            gadgets,
            attributes("shop", "apps", "deployments", "scale", Some("web"), "update"),
            json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
        ];
        assert_eq!(reviews.collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn asks_nothing_more_where_the_rules_are_complete() {
        let (own, asked) = client(|_| rules(false));
        let missing = right(Scope::Namespace("shop".to_owned()), ("", "pods"), Some("a"), "delete");
        let lacks = Account::new(&own, &reference()).lacks(&Rights::from([missing.clone()])).await.unwrap();
        assert_eq!(lacks, [missing].into());
        assert_eq!(asked.lock().unwrap().len(), 1);
    }
}
