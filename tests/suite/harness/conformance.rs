//! The small API server that the reconciler is simulated with answers as the real one does.
//!
//! Both get the same random requests; answers, refusals, and what the objects are then have to be the same: values, generations,
//! who owns which fields, what terminates, and whether anything was written at all.

#[path = "../../../provisioners/install/tests/simulation/numbers.rs"]
mod numbers;
#[path = "../../../provisioners/install/tests/simulation/requests.rs"]
pub mod requests;
#[path = "../../../provisioners/install/tests/simulation/server.rs"]
mod server;

use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use rukpak_tests::Plane;
use rukpak_tests::verbs::{self, Expected, PATIENCE, Target};
use serde_json::{Value, json};

use requests::{Numbers, OWNERS, View, words};
use server::{Answer, Key, Refusal, Request, Server};

/// So many requests, if `RUKPAK_REQUESTS` does not say otherwise.
const REQUESTS: u64 = 3_000;
/// So many worlds at a time.
const PARALLEL: u64 = 6;
/// So many requests to one world: the next begins with nothing.
const LENGTH: u64 = 60;

fn definition(group: &str) -> Value {
    let text = json!({"type": "string"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"always": text, "one": text, "two": text}},
        "status": {"type": "object", "properties": {"phase": text}}}}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema, "subresources": {"status": {}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("dbs.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "dbs", "singular": "db", "kind": "Db"},
            "versions": [version("v1alpha1", false), version("v1", true)]}})
}

/// The real server, in one namespace.
struct Real {
    client: Client,
    group: String,
    namespace: String,
}

impl Real {
    fn api(&self, kind: &str, version: &str) -> Api<DynamicObject> {
        let (group, plural) = if kind == "Db" { (self.group.as_str(), "dbs") } else { ("", "configmaps") };
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    async fn answer(&self, request: &Request) -> Answer {
        let sent = match request {
            Request::Get { key, version } => self.api(&key.kind, version).get(&key.name).await.map(value),
            Request::List { kind, version, labels } => {
                let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let listed = self.api(kind, version).list(&ListParams::default().labels(&labels.join(","))).await;
                listed.map(|list| json!({"items": list.items.into_iter().map(value).collect::<Vec<_>>()}))
            }
            Request::Create { key, version, body, manager } => {
                let params = PostParams { field_manager: Some(manager.clone()), ..PostParams::default() };
                let object = serde_json::from_value(body.clone()).expect("an object");
                self.api(&key.kind, version).create(&params, &object).await.map(value)
            }
            Request::Apply { key, version, body, manager, is_trial } => {
                let params = PatchParams { dry_run: *is_trial, ..PatchParams::apply(manager).force() };
                self.api(&key.kind, version).patch(&key.name, &params, &Patch::Apply(body)).await.map(value)
            }
            Request::Patch { key, version, body, manager, is_status } => {
                let params = PatchParams { field_manager: Some(manager.clone()), ..PatchParams::default() };
                let (api, patch) = (self.api(&key.kind, version), Patch::Merge(body));
                if *is_status {
                    api.patch_status(&key.name, &params, &patch).await.map(value)
                } else {
                    api.patch(&key.name, &params, &patch).await.map(value)
                }
            }
            Request::Delete { key, version, uid, resource_version } => {
                let (uid, resource_version) = (uid.clone(), resource_version.clone());
                let preconditions = Some(Preconditions { uid, resource_version });
                let params = DeleteParams { preconditions, ..DeleteParams::background() };
                self.api(&key.kind, version).delete(&key.name, &params).await.map(|_| Value::Null)
            }
        };
        sent.map_err(|error| refusal(request, error))
    }
}

fn value(object: DynamicObject) -> Value {
    serde_json::to_value(object).expect("JSON")
}

fn refusal(request: &Request, error: kube::Error) -> Refusal {
    let kube::Error::Api(status) = error else { panic!("{request:?}: {error}") };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        403 => Refusal::Forbidden,
        404 => Refusal::NotFound,
        409 => Refusal::Conflict,
        422 if causes.any(|cause| cause.field == "metadata.uid") => Refusal::OtherObject,
        422 => Refusal::Invalid,
        _ => panic!("{request:?}: {status:?}"),
    }
}

/// A small server and a real one that have the same, and what they call it.
struct Both {
    real: Real,
    small: Server,
    views: (View, View),
}

impl Both {
    async fn new(client: &Client, group: &str) -> Self {
        let namespace = verbs::namespace(client, "conformance").await.expect("a namespace");
        let real = Real { client: client.clone(), group: group.to_owned(), namespace };
        let view = View { group: group.to_owned(), ..View::default() };
        let mut both = Self { real, small: Server::default(), views: (view.clone(), view) };
        let crd = Key::new("CustomResourceDefinition", &format!("dbs.{group}"));
        let (version, manager) = ("v1".to_owned(), "test".to_owned());
        both.small
            .answer(&Request::Create { key: crd, version, body: definition(group), manager })
            .expect("the definition is new");
        for owner in OWNERS {
            let (key, version, manager) = (Key::new("ConfigMap", owner), "v1".to_owned(), "test".to_owned());
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": owner}});
            let request = Request::Create { key, version, body, manager };
            both.compare((request.clone(), request)).await.expect("both create the owner");
        }
        both
    }

    /// Sends the request that `numbers` choose to both.
    async fn go_on(&mut self, numbers: &mut Numbers) -> Result<(), String> {
        let mut same = numbers.clone();
        let requests = (self.views.0.request(numbers), self.views.1.request(&mut same));
        self.compare(requests).await
    }

    async fn compare(&mut self, (to_real, to_small): (Request, Request)) -> Result<(), String> {
        let answers = (self.real.answer(&to_real).await, self.small.answer(&to_small));
        let told = (words(&mut self.views.0, &to_real, &answers.0), words(&mut self.views.1, &to_small, &answers.1));
        let had = to_small.written().and_then(|key| self.views.1.known.get(key)).map(|(_, now)| now.to_string());
        differ(&format!("{to_small:?}\nof {}", had.unwrap_or_default()), told)?;
        for name in ["a", "b", OWNERS[0], OWNERS[1]] {
            let Some(key) = to_real.written().filter(|key| key.name == name) else { continue };
            let get = Request::Get { key: key.clone(), version: "v1".to_owned() };
            let found = (self.real.answer(&get).await, self.small.answer(&get));
            let found = (found.0.unwrap_or(Value::Null), found.1.unwrap_or(Value::Null));
            let before = self.views.0.known.get(key).map(|(_, now)| now.to_string()).unwrap_or_default();
            let told = (self.views.0.take(key, &found.0), self.views.1.take(key, &found.1));
            differ(&format!("after {to_small:?}\nof {before}\nto {}", found.0), told)?;
        }
        Ok(())
    }
}

fn differ(what: &str, (real, small): (String, String)) -> Result<(), String> {
    let lines = |one: &str, other: &str| {
        let only = one.lines().filter(|line| !other.lines().any(|same| same == *line));
        only.fold(String::new(), |all, line| all + "\n  " + line.trim())
    };
    if real == small {
        return Ok(());
    }
    Err(format!("{what}\nonly the real server{}\nonly the small server{}", lines(&real, &small), lines(&small, &real)))
}

/// A world of its own, from a seed. Returns how many requests were made.
async fn world(client: &Client, group: &str, seed: u64) -> Result<u64, String> {
    let (mut both, mut numbers) = (Both::new(client, group).await, Numbers(seed));
    let mut result = Ok(LENGTH);
    for number in 0..LENGTH {
        result = both
            .go_on(&mut numbers)
            .await
            .map_err(|why| format!("seed {seed}, request {number}: {why}"))
            .map(|()| LENGTH);
        if result.is_err() {
            break;
        }
    }
    for (key, _) in both.small.objects {
        let body = json!({"metadata": {"finalizers": []}});
        let (version, manager, is_status) = ("v1".to_owned(), "test".to_owned(), false);
        if key.kind != "CustomResourceDefinition" {
            drop(both.real.answer(&Request::Patch { key, version, body, manager, is_status }).await);
        }
    }
    verbs::delete(client, &Target::cluster("v1", "Namespace", &both.real.namespace))
        .await
        .expect("the namespace is there");
    result
}

#[tokio::test]
async fn the_small_server_answers_as_the_real_one() {
    let client = Plane::shared().await.unwrap().admin().await.unwrap();
    let group = format!("{}.example.rukpak.io", verbs::unique_name("g"));
    let crd = definition(&group);
    verbs::apply(&client, &crd).await.unwrap();
    let established = Expected::is_true("Established", "InitialNamesAccepted");
    verbs::await_condition(&client, &Target::of(&crd).unwrap(), established, PATIENCE).await.unwrap();
    for version in ["v1", "v1alpha1"] {
        verbs::await_served(&client, &format!("{group}/{version}"), "Db", PATIENCE).await.unwrap();
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let requests = number("RUKPAK_REQUESTS").unwrap_or(REQUESTS);
    // The same each time: what a test of everybody's change finds is not to depend on the hour. `make soak` looks for new ones.
    let seed = number("RUKPAK_SEED").unwrap_or(1);
    let (mut next, mut made, mut wrong) = (seed, 0, Vec::new());
    while made < requests && wrong.len() < 5 {
        let worlds = (next..next + PARALLEL).map(|seed| world(&client, &group, seed));
        for result in futures::future::join_all(worlds).await {
            match result {
                Ok(count) => made += count,
                Err(why) => wrong.push(why),
            }
        }
        next += PARALLEL;
    }
    eprintln!("{made} requests in worlds from seed {seed} on (RUKPAK_SEED)");
    assert!(wrong.is_empty(), "{} worlds differ\n{}", wrong.len(), wrong.join("\n\n"));
    verbs::delete(&client, &Target::of(&crd).unwrap()).await.unwrap();
}
