//! HTTP, as the API server speaks it, to and from the requests of the small server.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};

use crate::server::{Key, Kind, Object, Refusal, Request, Server};

/// The ConfigMap that stands for a binding of the account "weak" to a role.
pub const GRANT: &str = "grant";

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: BTreeMap<String, String>,
    /// Whether nothing but metadata is wanted.
    pub is_metadata: bool,
    /// Whether a patch is a server-side apply.
    pub is_apply: bool,
    /// Who asks, if not the controller itself.
    pub user: String,
    pub body: Value,
}

/// What is answered: status code and body.
pub type Reply = (u16, Value);

/// What a path names.
pub struct Place {
    pub kind: String,
    pub version: String,
    /// `apiVersion` of the objects.
    pub api: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub is_status: bool,
}

/// A watch that is asked for, or a list.
#[derive(Clone, Debug)]
pub struct Selection {
    pub kind: String,
    pub namespace: Option<String>,
    labels: Vec<String>,
    name: Option<String>,
}

impl Asked {
    pub fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|watch| watch == "true" || watch == "1")
    }

    fn is_trial(&self) -> bool {
        self.query.contains_key("dryRun")
    }

    /// Whether it may change something.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET && !self.is_trial() && !self.path.ends_with("reviews")
    }

    /// Whether it is a write of which somebody looks at the answer.
    pub fn is_change(&self) -> bool {
        self.is_write() && !self.path.ends_with("/events")
    }

    pub fn is_of_lease(&self) -> bool {
        self.path.starts_with("/apis/coordination.k8s.io/")
    }

    /// Whether whoever asks the same gets the same answer, and nothing is changed.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET && !self.is_watch()
    }

    /// By which requests are told apart that came at once.
    pub fn key(&self) -> String {
        // Events are named by the clock of the machine, and nobody looks at the answer.
        let body = if self.path.ends_with("/events") { String::new() } else { self.body.to_string() };
        format!("{} {} {:?} {} {}{body}", self.method, self.path, self.query, self.is_metadata, self.user)
    }

    fn manager(&self) -> String {
        self.query.get("fieldManager").cloned().unwrap_or_else(|| "unknown".to_owned())
    }

    /// The place, if its kind is served in that version.
    pub fn place(&self, server: &Server) -> Option<Place> {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let (plural, name, is_status) = match rest {
            [plural] => (*plural, None, false),
            [plural, name] => (*plural, Some((*name).to_owned()), false),
            [plural, name, "status"] => (*plural, Some((*name).to_owned()), true),
            _ => return None,
        };
        let is_it = |kind: &Kind| kind.group == group && kind.plural == plural;
        let (kind, found) = server.kinds().into_iter().find(|(_, kind)| is_it(kind))?;
        let version = version.to_owned();
        let api = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        found.versions.contains(&version).then_some(Place { kind, version, api, namespace, name, is_status })
    }

    pub fn selection(&self, place: &Place) -> Selection {
        let text = |key: &str| self.query.get(key).map(String::as_str).unwrap_or_default();
        let labels = text("labelSelector").split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        let name = text("fieldSelector").strip_prefix("metadata.name=").map(str::to_owned);
        Selection { kind: place.kind.clone(), namespace: place.namespace.clone(), labels, name }
    }

    /// What the server does with it. `now`: what its clock says.
    pub fn answer(&self, server: &mut Server, now: &str) -> Reply {
        now.clone_into(&mut server.time);
        if let Some(reply) = self.discovery(server) {
            return reply;
        }
        let Some(place) = self.place(server) else { return refused(Refusal::NotFound, &self.path) };
        if self.is_write() && !may_write(&self.user, server) {
            return refused(Refusal::Forbidden, &self.path);
        }
        let before = self.is_trial().then(|| server.clone());
        let reply = self.answer_at(&place, server);
        if let Some(before) = before {
            *server = before;
        }
        reply
    }

    fn answer_at(&self, place: &Place, server: &mut Server) -> Reply {
        let Some(mut request) = self.request(place) else { return self.list(place, server) };
        if let Request::Apply { is_trial, .. } = &mut request {
            *is_trial = self.is_trial() && server.lets_trials_pass;
        }
        let key = request.written().cloned();
        match server.answer(&request) {
            Ok(Value::Null) => match key.and_then(|key| Some((server.objects.get(&key)?.clone(), key))) {
                // It waits for its finalizers.
                Some((left, key)) => (200, left.shown(&key, &place.api)),
                None => (200, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})),
            },
            Ok(object) => (200, self.shown(object)),
            Err(refusal) => {
                let (code, mut body) = refused(refusal, &self.path);
                body["details"]["name"] = json!(place.name.as_deref().unwrap_or_default());
                (code, body)
            }
        }
    }

    /// The request of the small server; `None`: it is a list.
    pub fn request(&self, place: &Place) -> Option<Request> {
        let (version, manager) = (place.version.clone(), self.manager());
        let mut body = self.body.clone();
        if let (Some(namespace), true) = (&place.namespace, body["metadata"].is_object()) {
            body["metadata"]["namespace"] = json!(namespace);
        }
        let name = place.name.clone().or_else(|| Some(body["metadata"]["name"].as_str()?.to_owned()))?;
        let key = Key { kind: place.kind.clone(), name };
        Some(match self.method.as_str() {
            "GET" => Request::Get { key, version },
            "POST" => Request::Create { key, version, body, manager },
            // A trial is taken back by whoever asked for it.
            "PATCH" if self.is_apply => Request::Apply { key, version, body, manager, is_trial: false },
            "PATCH" => {
                // Nobody moves an object.
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
                Request::Patch { key, version, body, manager, is_status: place.is_status }
            }
            "DELETE" => {
                let given = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
                Request::Delete { key, version, uid: given("uid"), resource_version: given("resourceVersion") }
            }
            method => panic!("{method} {}", self.path),
        })
    }

    fn list(&self, place: &Place, server: &Server) -> Reply {
        let selection = self.selection(place);
        let items = server.objects.iter().filter(|(key, object)| selection.has(key, object));
        let items: Vec<Value> = items.map(|(key, object)| self.shown(object.shown(key, &place.api))).collect();
        let kind = if self.is_metadata { "PartialObjectMetadata" } else { &place.kind };
        let api = if self.is_metadata { "meta.k8s.io/v1" } else { &place.api };
        let version = server.version().to_string();
        let list = json!({"kind": format!("{kind}List"), "apiVersion": api, "metadata": {"resourceVersion": version}, "items": items});
        (200, list)
    }

    /// The object, or its metadata.
    pub fn shown(&self, object: Value) -> Value {
        if !self.is_metadata {
            return object;
        }
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
    }

    /// What is served; and what is answered without being kept.
    fn discovery(&self, server: &Server) -> Option<Reply> {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            ["version"] => Some((
                200,
                json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            )),
            ["apis"] => Some((200, groups(server))),
            ["api", version] => Some(resources(server, "", version)),
            ["apis", group, version] => Some(resources(server, group, version)),
            [.., "events"] => Some((201, self.body.clone())),
            [.., "serviceaccounts", name] => Some((
                200,
                self.shown(json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": name}})),
            )),
            [.., "selfsubjectrulesreviews"] => {
                let verb = if may_write(&self.user, server) { "*" } else { "get" };
                let rule = json!({"verbs": [verb], "apiGroups": ["*"], "resources": ["*"]});
                let mut review = self.body.clone();
                review["status"] = json!({"resourceRules": [rule], "nonResourceRules": [], "incomplete": false});
                Some((201, review))
            }
            _ => None,
        }
    }
}

/// Whether who asks has the rights to write: the account "weak" lacks them until somebody grants them.
pub fn may_write(user: &str, server: &Server) -> bool {
    !user.ends_with(":weak") || server.objects.contains_key(&Key::new("ConfigMap", GRANT))
}

impl Selection {
    pub fn has(&self, key: &Key, object: &Object) -> bool {
        let labels = &object.value["metadata"]["labels"];
        let fits = |requirement: &String| match requirement.split_once('=') {
            Some((key, value)) if key.ends_with('!') => labels[key.trim_end_matches('!')] != value,
            Some((key, value)) => labels[key] == value,
            None => match requirement.strip_prefix('!') {
                Some(key) => labels[key].is_null(),
                None => !labels[requirement].is_null(),
            },
        };
        key.kind == self.kind
            && self.name.as_ref().is_none_or(|name| *name == key.name)
            && self.namespace.as_ref().is_none_or(|namespace| object.value["metadata"]["namespace"] == **namespace)
            && self.labels.iter().all(fits)
    }
}

fn groups(server: &Server) -> Value {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, kind) in server.kinds() {
        groups.entry(kind.group).or_default().extend(kind.versions);
    }
    groups.remove("");
    let groups: Vec<Value> = groups
        .iter()
        .filter(|(_, versions)| !versions.is_empty())
        .map(|(group, versions)| {
            let of = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
            let versions: Vec<Value> = versions.iter().map(of).collect();
            json!({"name": group, "preferredVersion": versions[0], "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn resources(server: &Server, group: &str, version: &str) -> Reply {
    let is_of = |kind: &Kind| kind.group == group && kind.versions.iter().any(|known| known == version);
    let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let resources: Vec<Value> = server
        .kinds()
        .into_iter()
        .filter(|(_, kind)| is_of(kind))
        .map(|(name, kind)| {
            json!({"name": kind.plural, "singularName": "", "namespaced": kind.is_namespaced, "kind": name, "verbs": verbs})
        })
        .collect();
    if resources.is_empty() {
        return refused(Refusal::NotFound, version);
    }
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (200, json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}))
}

/// A refusal, as the API server words it.
pub fn refused(refusal: Refusal, what: &str) -> Reply {
    let (code, reason) = match refusal {
        Refusal::NotFound => (404, "NotFound"),
        Refusal::Conflict => (409, "Conflict"),
        Refusal::OtherObject | Refusal::Invalid => (422, "Invalid"),
        Refusal::Forbidden => (403, "Forbidden"),
        Refusal::Unavailable => (503, "ServiceUnavailable"),
    };
    let causes = if refusal == Refusal::OtherObject {
        json!([{"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}])
    } else {
        json!([])
    };
    failure(code, reason, &format!("{what}: {reason}"), &causes)
}

pub fn failure(code: u16, reason: &str, message: &str, causes: &Value) -> Reply {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code, "details": {"causes": causes}});
    (code, body)
}

/// A request in words.
pub fn words(asked: &Asked, server: &Server) -> String {
    let place = asked.place(server);
    let trial = if asked.query.contains_key("dryRun") { " as a trial" } else { "" };
    let Some((place, request)) = place.and_then(|place| Some((asked.request(&place)?, place))).map(|(a, b)| (b, a))
    else {
        let query = if asked.is_watch() { " (watch)" } else { "" };
        return format!("{} {}{query} {:?}", asked.method, asked.path, asked.query.get("labelSelector"));
    };
    let by = |body: &Value| {
        let mut body = body.clone();
        if let Some(map) = body.as_object_mut() {
            map.remove("apiVersion");
            map.remove("kind");
        }
        let text = body.to_string();
        let end = text.floor_char_boundary(600);
        text[..end].to_owned()
    };
    let status = if place.is_status { " status" } else { "" };
    match request {
        Request::Get { key, .. } => format!("get {} {:?}", key.kind, key.name),
        Request::Create { key, .. } if key.kind == "Event" => format!("tell of {:?}", key.name),
        Request::Create { key, body, .. } => format!("create {} {:?} {}", key.kind, key.name, by(&body)),
        Request::Apply { key, body, .. } => format!("apply{trial} {} {:?} {}", key.kind, key.name, by(&body)),
        Request::Patch { key, body, .. } => format!("patch{trial}{status} {} {:?} {}", key.kind, key.name, by(&body)),
        Request::Delete { key, uid, resource_version, .. } => {
            format!("delete {} {:?} {uid:?} {resource_version:?}", key.kind, key.name)
        }
        Request::List { kind, .. } => format!("list {kind}"),
    }
}
