//! One deployment with its namespace and bundles, and what it is compared with: a new one with the same spec.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use kube::api::{DynamicObject, PostParams};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, World, deployment, image};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fields::Field;
use crate::sweep::release::Release;

/// A new deployment that is not Ready by then is taken for one that will not be.
const NEW_WITHIN: Duration = Duration::from_secs(8);
/// Objects cannot be watched all together: they are looked at again so often.
const INTERVAL: Duration = Duration::from_millis(200);
/// Kinds of the bundles, and whether they are in the namespace.
const KINDS: [(&str, &str, bool); 5] = [
    ("v1", "ConfigMap", true),
    ("v1", "Secret", true),
    ("v1", "ServiceAccount", true),
    ("apps/v1", "Deployment", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
];
/// Fields whose meaning depends on what was there before: a new deployment says nothing about them.
const OF_HISTORY: [&str; 3] = ["rollbackTo", "progressDeadline", "ignoreDifferences"];

/// The deployment.
pub struct Subject<'a> {
    world: &'a World,
    client: Client,
    /// Of the deployment, its namespace and the repository of its images.
    pub name: String,
}

/// What came of a spec.
#[derive(Debug, PartialEq, Eq)]
pub enum Tried {
    /// The API server or the webhook refused it, with words, and the spec stayed.
    Refused,
    /// The objects, and what is said of them, are those of a new deployment with the spec.
    LikeANewOne,
    /// A new one is not installed; the objects are all of one release, or none, and the status says why.
    WholeAsBefore,
    /// It names another provisioner.
    OfOthers,
}

/// Objects by kind and name, without what the API server adds.
type Objects = BTreeMap<String, Value>;

impl<'a> Subject<'a> {
    /// Installs the plain spec.
    pub async fn create(world: &'a World) -> Self {
        let subject = Self::prepare(world, "spec").await;
        let mut object = deployment(&subject.name, json!({}));
        object["spec"] = subject.plain(1);
        verbs::create(&subject.client, &object).await.expect("the API server agrees");
        subject.until_ready(SOON).await.expect("the plain spec is installed");
        subject
    }

    /// A namespace, ServiceAccounts and images; no deployment yet.
    async fn prepare(world: &'a World, prefix: &str) -> Self {
        let client = world.admin().await;
        let name = verbs::namespace(&client, prefix).await.expect("the API server agrees");
        for release in [Release::One, Release::Two, Release::Refused, Release::Broken] {
            world.registry.push(&name, release.tag(), &release.image(&name)).await.expect("the registry takes it");
        }
        for account in ["can", "cannot"] {
            let object = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": name}});
            verbs::create(&client, &object).await.expect("the API server agrees");
        }
        let bound = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("can-{name}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "can", "namespace": name}]});
        verbs::create(&client, &bound).await.expect("the API server agrees");
        Self { world, client, name }
    }

    /// The spec that is always installed, of the first or the second release.
    pub fn plain(&self, release: u8) -> Value {
        deployment(&self.name, self.source(&format!("v{release}")))["spec"].clone()
    }

    fn source(&self, tag: &str) -> Value {
        image(&format!("{}/{}:{tag}", self.world.registry.host(), self.name))
    }

    /// Values that mean something, most of them right.
    pub fn meant(&self) -> Vec<Field> {
        let account = |name: &str| json!({"name": name, "namespace": self.name});
        let ignored = json!([{"objects": [{"kind": "ConfigMap", "name": "a"}], "jsonPointers": ["/data/version"]}]);
        let check = |rule: &str| json!([{"objects": [{"kind": "ConfigMap"}], "probes": [{"cel": {"rule": rule, "message": "m"}}]}]);
        let sources = ["v1", "v2", "v1", "v2", "refused", "broken", "absent"].map(|tag| self.source(tag));
        let git =
            json!({"type": "git", "git": {"repository": self.world.git.url("absent"), "ref": {"branch": "main"}}});
        let classes = ["core-rukpak-io-plain", "core-rukpak-io-registry", "core-rukpak-io-helm", "example-com"];
        vec![
            Field::new(
                "template.spec.source",
                sources.into_iter().chain([git, json!({"type": "upload", "upload": {}})]),
            ),
            Field::new("template.spec.source", ["v1", "v2"].map(|tag| self.source(tag))),
            Field::new("template.metadata.labels", [json!({"a": "b"}), json!({"a": "c", "d": "e"}), json!({})]),
            Field::new("template.metadata.annotations", [json!({"a": "b"}), json!({"example.com/note": "x y"})]),
            Field::new("template.spec.provisionerClassName", classes.map(|class| json!(class))),
            Field::new("provisionerClassName", classes.map(|class| json!(class))),
            Field::new("config", [json!({}), json!({"watchNamespace": self.name}), json!({"values": "a: 1"})]),
            Field::new("suspend", [json!(true), json!(false), json!(false)]),
            Field::new("rollbackTo", [1, 2, 3, 99].map(|revision| json!(revision))),
            Field::new("progressDeadline", ["10m", "1h30m", "500ms"].map(|text| json!(text))),
            Field::new("deletionPolicy", ["Delete", "Orphan", "KeepCRDs", "InOrder"].map(|text| json!(text))),
            Field::new("dependsOn", [json!([{"name": "absent"}]), json!([{"name": self.name}]), json!([])]),
            Field::new("revisionHistoryLimit", [1, 2, 20].map(|limit| json!(limit))),
            Field::new("serviceAccount", [account("can"), account("can"), account("cannot"), account("absent")]),
            Field::new("ignoreDifferences", [ignored, json!([])]),
            Field::new("healthChecks", [check("true"), check("self.data.version == '2'"), check("self."), json!([])]),
        ]
    }

    /// Puts the plain spec of the second release in place of the one that is there, and waits until it is installed, as in a new one.
    ///
    /// # Errors
    /// What is not so.
    pub async fn end_plainly(&self) -> Result<(), String> {
        let spec = self.plain(2);
        if let Some(error) = self.replace(&spec).await?.0 {
            return Err(format!("the plain spec is refused: {error}"));
        }
        let new = self.renewed(&spec, SOON).await?.ok_or("a new deployment with the plain spec is not Ready")?;
        self.becomes(&new, &spec).await
    }

    /// Puts the spec in place of the one that is there.
    ///
    /// # Errors
    /// What is not as the documentation of the suite says.
    pub async fn attempt(&self, spec: &Value) -> Result<Tried, String> {
        let (refusal, before) = self.replace(spec).await?;
        if let Some(error) = refusal {
            return self.refused(&error, &before).await;
        }
        if !spec["provisionerClassName"].as_str().is_some_and(|class| class.starts_with("core-rukpak-io")) {
            return Ok(Tried::OfOthers);
        }
        let new = self.renewed(spec, NEW_WITHIN).await?;
        let tried = if let Some(objects) = &new { self.becomes(objects, spec).await } else { self.stays_whole().await };
        tried.map(|()| if new.is_some() { Tried::LikeANewOne } else { Tried::WholeAsBefore })
    }

    /// Sends the spec; returns the refusal, if it is one, and the spec that was there.
    async fn replace(&self, spec: &Value) -> Result<(Option<kube::Error>, Value), String> {
        let api = self.target().api(&self.client).await.expect("the kind is served");
        loop {
            let mut object = self.deployment().await.ok_or("the deployment is gone")?;
            let before = object.data["spec"].clone();
            object.data["spec"] = spec.clone();
            match api.replace(&self.name, &PostParams::default(), &object).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {} // the controller has written its status meanwhile
                answer => return Ok((answer.err(), before)),
            }
        }
    }

    async fn refused(&self, error: &kube::Error, before: &Value) -> Result<Tried, String> {
        let kube::Error::Api(status) = error else { return Err(format!("no answer: {error}")) };
        if !matches!(status.code, 400 | 403 | 422) || status.message.len() < 20 {
            return Err(format!("refused without words: {status:?}"));
        }
        let now = self.deployment().await.ok_or("the deployment is gone")?.data["spec"].clone();
        if now == *before { Ok(Tried::Refused) } else { Err(format!("refused, and changed to {now}")) }
    }

    /// What a new deployment with the spec comes to: its objects, under our name; nothing if it is not Ready in time.
    async fn renewed(&self, spec: &Value, within: Duration) -> Result<Option<Objects>, String> {
        let twin = Self::prepare(self.world, "twin").await;
        let mut object = deployment(&twin.name, json!({}));
        object["spec"] = renamed(spec, &self.name, &twin.name);
        verbs::create(&twin.client, &object).await.map_err(|error| format!("only a new one is refused: {error:#}"))?;
        let objects = match twin.until_ready(within).await {
            Ok(_) => Some(twin.objects().await),
            Err(_) => None,
        };
        verbs::delete(&twin.client, &twin.target()).await.expect("the API server agrees");
        let objects = objects.map(|objects| renamed(&json!(objects), &twin.name, &self.name));
        Ok(objects.map(|objects| serde_json::from_value(objects).expect("they were objects")))
    }

    /// Waits until it is Ready with these objects.
    async fn becomes(&self, wanted: &Objects, spec: &Value) -> Result<(), String> {
        if OF_HISTORY.iter().any(|field| spec.get(field).is_some()) {
            return self.stays_whole().await;
        }
        self.until_ready(SOON).await.map_err(|error| format!("a new one is Ready, this one is not: {error}"))?;
        self.eventually(|objects, _| match differences(wanted, objects) {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(format!("not as a new one: {}", wrong.join("; "))),
        })
        .await
    }

    /// Waits until the objects are those of one release, or none, and the status speaks of this spec.
    async fn stays_whole(&self) -> Result<(), String> {
        self.eventually(|objects, deployment| {
            let ready = verbs::condition(deployment, "Ready").ok_or("there is no condition Ready")?;
            let speaks = |field: &str| ready[field].as_str().is_some_and(|text| !text.is_empty());
            if !speaks("reason") || !speaks("message") {
                return Err(format!("the condition says nothing: {ready}"));
            }
            if deployment.data["status"]["observedGeneration"] != json!(deployment.metadata.generation) {
                return Err("the status is of an older generation".to_owned());
            }
            let versions: Vec<&str> = objects
                .values()
                .filter_map(|object| object.pointer("/data/version"))
                .filter_map(Value::as_str)
                .map(|version| if matches!(version, "1" | "MQ==") { "1" } else { "2" })
                .collect();
            let is_whole =
                versions.is_empty() || (versions.len() == 3 && versions.iter().all(|one| *one == versions[0]));
            if is_whole { Ok(()) } else { Err(format!("of several releases: {objects:?}")) }
        })
        .await
    }

    async fn eventually(&self, check: impl Fn(&Objects, &DynamicObject) -> Result<(), String>) -> Result<(), String> {
        let deadline = Instant::now() + SOON;
        loop {
            let objects = self.objects().await;
            let deployment = self.deployment().await.ok_or("the deployment is gone")?;
            match check(&objects, &deployment) {
                Ok(()) => return Ok(()),
                Err(wrong) if Instant::now() > deadline => {
                    return Err(format!("{wrong}; status: {}", deployment.data["status"]));
                }
                Err(_) => tokio::time::sleep(INTERVAL).await,
            }
        }
    }

    async fn until_ready(&self, within: Duration) -> anyhow::Result<DynamicObject> {
        verbs::await_condition(&self.client, &self.target(), Expected::is_true("Ready", "Succeeded"), within).await
    }

    fn target(&self) -> Target {
        Target::bundle_deployment(&self.name)
    }

    async fn deployment(&self) -> Option<DynamicObject> {
        verbs::get(&self.client, &self.target()).await.expect("the API server agrees")
    }

    /// The objects that say they are the deployment's.
    async fn objects(&self) -> Objects {
        let mut objects = Objects::new();
        for (api_version, kind, is_inside) in KINDS {
            let owned = format!("core.rukpak.io/owner-name={}", self.name);
            let found = verbs::list(&self.client, api_version, kind, &owned).await.expect("the API server agrees");
            for object in found.into_iter().filter(|object| object.metadata.namespace.is_some() == is_inside) {
                let name = object.metadata.name.clone().unwrap_or_default();
                objects.insert(format!("{kind} {name}"), plain_object(object));
            }
        }
        objects
    }

    /// Deletes the deployment, and waits until nothing of it is left.
    pub async fn delete(&self) {
        verbs::delete(&self.client, &self.target()).await.expect("the API server agrees");
        let deadline = Instant::now() + SOON;
        while !self.objects().await.is_empty() {
            assert!(
                Instant::now() < deadline,
                "{} is deleted, and of its objects there are {:?}",
                self.name,
                self.objects().await
            );
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

/// What the bundle has a say in: without what is of this one object, and without what controllers add.
fn plain_object(object: DynamicObject) -> Value {
    let mut body = object.data;
    if let Some(body) = body.as_object_mut() {
        body.remove("status");
        // A controller adds the names of tokens.
        body.remove("secrets");
    }
    let annotations = object.metadata.annotations.unwrap_or_default().into_iter();
    let annotations: BTreeMap<_, _> = annotations
        .filter(|(key, _)| !key.starts_with("deployment.kubernetes.io/") && !key.ends_with("-uid"))
        .collect();
    let owners: Vec<_> = object.metadata.owner_references.into_iter().flatten().map(|owner| owner.kind).collect();
    body["metadata"] = json!({"labels": object.metadata.labels, "annotations": annotations, "owners": owners});
    body
}

/// The same with another name in each text.
fn renamed(value: &Value, from: &str, to: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(from, to)).expect("names need no escapes")
}

fn differences(wanted: &Objects, found: &Objects) -> Vec<String> {
    let missing =
        wanted.iter().filter(|(key, _)| !found.contains_key(*key)).map(|(key, _)| format!("{key} is missing"));
    let others = found.iter().filter_map(|(key, object)| match wanted.get(key) {
        None => Some(format!("{key} is left over")),
        Some(wanted) if wanted != object => Some(format!("{key} is {object}, not {wanted}")),
        Some(_) => None,
    });
    missing.chain(others).collect()
}
