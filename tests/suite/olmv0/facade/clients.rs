//! Requests of programs that speak OLM's API, sent as they send them: by path, with the bodies that their types make, in their order. The
//! programs themselves are not run: they are made of OLM's own modules.

mod argo;
mod kubectl_operator;
mod operator_sdk;

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use rukpak_tests::world::SOON;
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use super::case::Case;

const V1: &str = "/apis/operators.coreos.com/v1";
const V1ALPHA1: &str = "/apis/operators.coreos.com/v1alpha1";
const PACKAGES: &str = "/apis/packages.operators.coreos.com/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A program that works in the namespace of a case.
pub struct Program<'a> {
    pub client: &'a Client,
    pub space: &'a str,
    /// How often it looks.
    pub interval: Duration,
}

/// All of them panic with what the API server says, or with the object where something does not come.
impl<'a> Program<'a> {
    fn new(case: &'a Case, interval: Duration) -> Self {
        Self { client: &case.client, space: &case.space, interval }
    }

    /// The path of the objects of a kind in the namespace.
    fn all(&self, group: &str, plural: &str) -> String {
        format!("{group}/namespaces/{}/{plural}", self.space)
    }

    /// The path of one of them.
    fn one(&self, group: &str, plural: &str, name: &str) -> String {
        format!("{}/{name}", self.all(group, plural))
    }

    async fn sends(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
        self.client.request(request.body(text.into_bytes()).expect("a request")).await
    }

    /// What is there, which may be nothing.
    async fn finds(&self, path: &str) -> Option<Value> {
        match self.sends(Method::GET, path, None).await {
            Ok(found) => Some(found),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    pub async fn reads(&self, path: &str) -> Value {
        self.finds(path).await.unwrap_or_else(|| panic!("{path} is not there"))
    }

    pub async fn lists(&self, path: &str) -> Vec<Value> {
        self.reads(path).await["items"].as_array().cloned().expect("a list")
    }

    pub async fn creates(&self, path: &str, body: &Value) -> Value {
        self.sends(Method::POST, path, Some(body)).await.unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Reads, changes and updates; again on a conflict.
    pub async fn changes(&self, path: &str, change: impl Fn(&mut Value)) {
        loop {
            let mut live = self.reads(path).await;
            change(&mut live);
            match self.sends(Method::PUT, path, Some(&live)).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("PUT {path}: {error}"),
            }
        }
    }

    async fn approves(&self, plan: &str) {
        let path = self.one(V1ALPHA1, "installplans", plan);
        self.changes(&path, |plan| plan["spec"]["approved"] = json!(true)).await;
    }

    async fn deletes(&self, path: &str) {
        match self.sends(Method::DELETE, path, None).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("DELETE {path}: {error}"),
        }
    }

    /// Deletes, and looks until it is gone. What a look does not see has not happened: the program would go on waiting.
    pub async fn ends(&self, path: &str) {
        self.deletes(path).await;
        let gone = async {
            let mut ticks = interval(self.interval);
            while self.finds(path).await.is_some() {
                ticks.tick().await;
            }
        };
        assert!(timeout(SOON, gone).await.is_ok(), "{path} is there still");
    }

    /// Looks until it is as wanted.
    pub async fn awaits(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let looks = async {
            let mut ticks = interval(self.interval);
            loop {
                ticks.tick().await;
                last = self.finds(path).await;
                if last.as_ref().is_some_and(&wanted) {
                    return;
                }
            }
        };
        let is_there = timeout(SOON, looks).await.is_ok();
        match last {
            Some(object) if is_there => object,
            last => panic!("{path}: {what} does not come: {last:#?}"),
        }
    }

    /// The Subscription of a package, as all of them look for it: among those of the namespace.
    async fn subscription(&self, package: &str) -> Value {
        let all = self.lists(&self.all(V1ALPHA1, "subscriptions")).await;
        all.into_iter().find(|one| one["spec"]["name"] == package).expect("there is a Subscription")
    }
}

/// What Go writes for an object: an empty time of creation, and a status that is empty but for what has to be there.
fn object(kind: (&str, &str), (space, name): (&str, &str), spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": kind.0, "kind": kind.1,
           "metadata": {"name": name, "namespace": space, "creationTimestamp": null}, "spec": spec, "status": status})
}

/// A CatalogSource; its icon is always written.
fn catalog_source(whose: (&str, &str), mut spec: Value) -> Value {
    spec["icon"] = json!({"base64data": "", "mediatype": ""});
    object(("operators.coreos.com/v1alpha1", "CatalogSource"), whose, &spec, &json!({}))
}

fn operator_group(whose: (&str, &str)) -> Value {
    object(("operators.coreos.com/v1", "OperatorGroup"), whose, &json!({}), &json!({"lastUpdated": null}))
}

fn subscription(whose: (&str, &str), spec: &Value) -> Value {
    object(("operators.coreos.com/v1alpha1", "Subscription"), whose, spec, &json!({"lastUpdated": null}))
}

pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
