//! A validating webhook of the tests: it lets pass, refuses, fails, or keeps the API server waiting until a gate opens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::api::{DynamicObject, PostParams};
use rukpak_tests::TestCa;
use rukpak_tests::tls::{Served, serve};
use rukpak_tests::verbs::{Target, unique_name};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::engine::case::Case;

/// The controller, as the API server knows it.
const CONTROLLER: &str = "system:serviceaccount:rukpak-system:core-admin";
/// Name of the ConfigMap by which it is seen that the API server knows the webhook.
const PROBE: &str = "hook-probe";

/// What becomes of a request.
pub enum Verdict {
    Allow,
    /// Refused with these words.
    Deny(String),
    /// The webhook itself fails: the API server answers 500.
    Fail,
    /// Let pass once the gate is open.
    AtGate,
}

/// A request of the controller that is no dry run.
#[derive(Clone, Debug)]
pub struct Request {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: String,
    pub name: String,
    /// Null in a deletion.
    pub object: Value,
}

/// The webhook. Its configuration is to be removed before it is dropped: [`Hook::end`].
pub struct Hook<'a> {
    case: &'a Case<'a>,
    configuration: Target,
    shared: Arc<Shared>,
    _served: Served,
}

struct Shared {
    /// Groups and resources that are judged; the rules let through a little more.
    resources: Vec<[String; 2]>,
    judge: Box<dyn Fn(&Request) -> Verdict + Send + Sync>,
    /// Requests of the controller that were judged.
    judged: watch::Sender<usize>,
    /// Requests that stand at the gate, or stood there.
    waiting: watch::Sender<usize>,
    gate: watch::Sender<bool>,
    probed: Mutex<bool>,
}

impl<'a> Hook<'a> {
    /// Judges what the controller writes (but for dry runs) of these `[group, resource]` in the namespace of the case. Others pass.
    pub async fn start(
        case: &'a Case<'a>,
        resources: &[[&str; 2]],
        judge: impl Fn(&Request) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            resources: resources.iter().map(|pair| pair.map(str::to_owned)).collect(),
            judge: Box::new(judge),
            judged: watch::Sender::new(0),
            waiting: watch::Sender::new(0),
            gate: watch::Sender::new(false),
            probed: Mutex::new(false),
        });
        let ca = TestCa::new("hook-ca").expect("a CA can be made");
        let router = Router::new().fallback(review).with_state(Arc::clone(&shared));
        let served = serve(router, &ca.localhost().expect("it signs")).expect("a port is free");
        let name = unique_name("hook");
        let space = Target::cluster("v1", "Namespace", &case.namespace);
        case.edit("user", &space, json!({"metadata": {"labels": {"hook": name}}})).await;
        let mut rules: Vec<Value> = resources
            .iter()
            .map(|[group, resource]| {
                json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
                    "operations": ["CREATE", "UPDATE", "DELETE"]})
            })
            .collect();
        let probes =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]});
        rules.push(probes);
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [{"name": "a.hook.test", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 30,
                "namespaceSelector": {"matchLabels": {"hook": name}},
                "clientConfig": {"caBundle": BASE64_STANDARD.encode(ca.pem()),
                    "url": format!("https://localhost:{}/", served.address().port())},
                "rules": rules}]});
        case.foreign(&configuration).await;
        let configuration = Target::of(&configuration).expect("it has a name");
        let hook = Self { case, configuration, shared, _served: served };
        hook.until_called(true).await;
        hook
    }

    /// Waits until the API server calls the webhook, or until it calls it no more: it learns that by a watch of its own.
    async fn until_called(&self, is_called: bool) {
        let probe = self.case.config_map(PROBE, json!({}));
        let target = Target::of(&probe).expect("it has a name");
        let probe: DynamicObject = serde_json::from_value(probe).expect("it is an object");
        let api = target.api(&self.case.client).await.expect("the kind is served");
        let end = tokio::time::Instant::now() + SOON;
        loop {
            assert!(tokio::time::Instant::now() < end, "the API server does not learn of the webhook, or of its end");
            *self.shared.probed.lock().expect("nobody panicked") = false;
            api.create(&PostParams { dry_run: true, ..PostParams::default() }, &probe).await.expect("it passes");
            if *self.shared.probed.lock().expect("nobody panicked") == is_called {
                return;
            }
        }
    }

    /// How many requests of the controller it has judged so far.
    pub fn judged(&self) -> usize {
        *self.shared.judged.borrow()
    }

    /// Whether it has judged `count` requests within `period`.
    pub async fn judges(&self, count: usize, period: Duration) -> bool {
        let mut judged = self.shared.judged.subscribe();
        tokio::time::timeout(period, judged.wait_for(|judged| *judged >= count)).await.is_ok()
    }

    /// Waits until a request stands at the gate.
    pub async fn until_at_gate(&self) {
        let mut waiting = self.shared.waiting.subscribe();
        let arrived = tokio::time::timeout(SOON, waiting.wait_for(|waiting| *waiting > 0)).await;
        arrived.expect("a request stands at the gate").expect("the sender lives");
    }

    pub fn open_gate(&self) {
        self.shared.gate.send_replace(true);
    }

    /// Takes the webhook out of the API server, and goes on answering until that calls it no more.
    pub async fn end(self) {
        self.open_gate();
        self.case.delete(&self.configuration).await;
        self.until_called(false).await;
    }
}

async fn review(State(shared): State<Arc<Shared>>, Json(review): Json<Value>) -> Response {
    let request = &review["request"];
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("/name") == PROBE || request.pointer("/object/metadata/name") == Some(&json!(PROBE)) {
        *shared.probed.lock().expect("nobody panicked") = true;
        return answer(request, None);
    }
    let resource = [text("/resource/group"), text("/resource/resource")];
    let is_meant = shared.resources.contains(&resource) && text("/userInfo/username") == CONTROLLER;
    if !is_meant || request["dryRun"] == true {
        return answer(request, None);
    }
    let asked = Request { operation: text("/operation"), name: text("/name"), object: request["object"].clone() };
    let verdict = (shared.judge)(&asked);
    shared.judged.send_modify(|judged| *judged += 1);
    match verdict {
        Verdict::Allow => answer(request, None),
        Verdict::Deny(words) => answer(request, Some(&words)),
        Verdict::Fail => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Verdict::AtGate => {
            shared.waiting.send_modify(|waiting| *waiting += 1);
            // The sender lives as long as the server.
            let _ = shared.gate.subscribe().wait_for(|open| *open).await;
            answer(request, None)
        }
    }
}

fn answer(request: &Value, refusal: Option<&str>) -> Response {
    let mut response = json!({"uid": request["uid"], "allowed": refusal.is_none()});
    if let Some(words) = refusal {
        response["status"] = json!({"code": 403, "message": words});
    }
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})).into_response()
}
