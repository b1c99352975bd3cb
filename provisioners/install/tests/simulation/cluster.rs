//! The API server of a simulation: what was asked and not answered yet, and what watches were not told yet. It does nothing by
//! itself: the history decides what is next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::stream;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::server::{Key, Object, Server};
use crate::wire::{Asked, Selection, failure};

type Reply = UnsyncBoxBody<Bytes, std::io::Error>;
type Answer = std::io::Result<Response<Reply>>;

/// Shared by the clients of all processes and the history. Cheap to clone.
#[derive(Clone, Default)]
pub struct Cluster {
    state: Arc<Mutex<State>>,
    /// Something was asked.
    pub arrived: Arc<Notify>,
}

#[derive(Default)]
pub struct State {
    pub server: Server,
    /// Everything that happened, the oldest first.
    pub log: Vec<Happened>,
    last: BTreeMap<Key, Arc<Object>>,
    pub pending: Vec<Pending>,
    pub watches: Vec<Watch>,
    /// Processes that were killed: what they still send reaches nobody.
    pub dead: BTreeSet<usize>,
    /// Streams of theirs, which do not end: who is dead must not notice.
    silent: Vec<Watch>,
    /// By process and deployment: the generation that its last reconcile began with, and the length of the log then.
    pub begun: BTreeMap<(usize, String), (i64, usize)>,
    /// By deployment: the content that is begun, and what was applied since.
    pub applied: BTreeMap<String, (Value, BTreeSet<Key>)>,
}

/// A change of an object.
pub struct Happened {
    pub key: Key,
    /// What it was before.
    before: Option<Arc<Object>>,
    object: Arc<Object>,
    is_gone: bool,
}

/// A request that waits for its answer.
pub struct Pending {
    pub process: usize,
    pub asked: Asked,
    answer: oneshot::Sender<Answer>,
}

/// A watch that is under way.
pub struct Watch {
    pub process: usize,
    asked: Asked,
    pub selection: Selection,
    pub api: String,
    /// What of the log comes next.
    next: usize,
    sender: mpsc::UnboundedSender<std::io::Result<Frame<Bytes>>>,
}

impl Cluster {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("because nobody panics with it")
    }

    /// A client of the process of that number.
    pub fn client(&self, process: usize) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let asked = read(request).await;
                let (answer, answered) = oneshot::channel();
                {
                    let mut state = cluster.lock();
                    if !state.dead.contains(&process) {
                        state.pending.push(Pending { process, asked, answer });
                    }
                }
                cluster.arrived.notify_one();
                match answered.await {
                    Ok(answer) => answer,
                    // Nobody will ever answer.
                    Err(_) => std::future::pending().await,
                }
            }
        });
        Client::new(service, "default")
    }
}

async fn read(request: Request<Body>) -> Asked {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await.expect("because it is in memory");
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let query = url(parts.uri.query().unwrap_or_default());
    Asked {
        path: parts.uri.path().to_owned(),
        query,
        is_metadata: header(header::ACCEPT).contains("as=PartialObjectMetadata"),
        is_apply: header(header::CONTENT_TYPE).starts_with("application/apply-patch"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        method: parts.method,
    }
}

/// The parameters of a query.
fn url(query: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
        while let Some((first, left)) = rest.split_first() {
            let code = left.get(..2).and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
            if let (b'%', Some(byte)) = (first, code) {
                bytes.push(byte);
                rest = &left[2..];
            } else {
                bytes.push(*first);
                rest = left;
            }
        }
        String::from_utf8(bytes).expect("because clients send UTF-8")
    };
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), decode(value))).collect()
}

impl State {
    /// A process begins a reconcile of a deployment, which has this generation as far as it knows.
    pub fn begin(&mut self, process: usize, deployment: &str, generation: i64) {
        self.begun.insert((process, deployment.to_owned()), (generation, self.log.len()));
    }

    /// The version of the last change but those that came after so many.
    pub fn version_at(&self, length: usize) -> u64 {
        self.log[..length].last().map_or(0, |happened| happened.object.version)
    }

    /// Takes what the server has to tell into the log.
    pub fn note(&mut self) {
        for event in std::mem::take(&mut self.server.events) {
            if event.key.kind == "BundleDeployment" {
                let begun = &event.object.value["status"]["inventory"]["pending"]["contentDigest"];
                let (before, applied) = self.applied.entry(event.key.name.clone()).or_default();
                if before != begun {
                    before.clone_from(begun);
                    applied.clear();
                }
            }
            let before = if event.is_gone {
                self.last.remove(&event.key)
            } else {
                self.last.insert(event.key.clone(), event.object.clone())
            };
            self.log.push(Happened { key: event.key, before, object: event.object, is_gone: event.is_gone });
        }
    }

    /// Takes out the others that ask what a read asks.
    pub fn take_twins(&mut self, read: &Pending) -> Vec<Pending> {
        let key = read.asked.is_read().then(|| read.asked.key());
        let is_twin = |other: &mut Pending| {
            other.process == read.process && key.as_ref().is_some_and(|key| other.asked.key() == *key)
        };
        self.pending.extract_if(.., is_twin).collect()
    }

    /// What the server does with a request, without anybody being told. `None`: it begins a watch.
    pub fn carry_out(&mut self, asked: &Asked, now: &str) -> Option<(u16, Value)> {
        if asked.is_watch() && asked.place(&self.server).is_some() {
            return None;
        }
        let reply = asked.answer(&mut self.server, now);
        self.note();
        let owner = asked.body["metadata"]["labels"]["core.rukpak.io/owner-name"].as_str();
        let place = asked.place(&self.server).filter(|_| asked.is_apply && asked.is_write() && reply.0 == 200);
        if let (Some(place), Some((_, applied))) = (place, owner.and_then(|owner| self.applied.get_mut(owner))) {
            applied.extend(place.name.map(|name| Key { kind: place.kind, name }));
        }
        Some(reply)
    }

    /// Begins the watch that was asked for.
    pub fn begin_watch(&mut self, pending: Pending) {
        let Pending { process, asked, answer } = pending;
        let Some(place) = asked.place(&self.server) else { return };
        let (sender, receiver) = mpsc::unbounded_channel();
        let version = asked.query.get("resourceVersion").and_then(|version| version.parse::<u64>().ok());
        let next = match version.filter(|version| *version > 0) {
            Some(version) => self.log.partition_point(|happened| happened.object.version <= version),
            // With what there is now.
            None => 0,
        };
        let selection = asked.selection(&place);
        self.watches.push(Watch { process, asked, selection, api: place.api, next, sender });
        let told = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        let body = StreamBody::new(Box::pin(told)).boxed_unsync();
        // Whoever asked may have gone.
        let _ = answer.send(Ok(Response::new(body)));
    }

    /// Passes over what a watch is not about. Whether there is something to tell.
    pub fn has_news(&mut self, watch: usize) -> bool {
        let watch = &mut self.watches[watch];
        while self.log.get(watch.next).is_some_and(|happened| watch.event(happened).is_none()) {
            watch.next += 1;
        }
        watch.next < self.log.len()
    }

    /// Whether the kind of a watch is served no more.
    pub fn is_unserved(&self, watch: usize) -> bool {
        self.watches[watch].asked.place(&self.server).is_none()
    }

    /// Tells a watch what comes next.
    pub fn tell(&mut self, watch: usize) -> String {
        let watch = &mut self.watches[watch];
        let happened = &self.log[watch.next];
        watch.next += 1;
        let Some((type_, object)) = watch.event(happened) else { return String::new() };
        let object = watch.asked.shown(object.shown(&happened.key, &watch.api));
        watch.send(&json!({"type": type_, "object": object}));
        format!("{type_} {} {:?}", happened.key.kind, happened.key.name)
    }

    /// Ends a watch; `is_expired`: it has to list anew.
    pub fn end_watch(&mut self, watch: usize, is_expired: bool) {
        let watch = self.watches.remove(watch);
        if is_expired {
            let (_, status) = failure(410, "Expired", "too old resource version", &json!([]));
            watch.send(&json!({"type": "ERROR", "object": status}));
        }
    }

    /// A process is gone: nothing it has sent is answered any more.
    pub fn kill(&mut self, process: usize) {
        self.dead.insert(process);
        self.pending.retain(|pending| pending.process != process);
        self.silent.extend(self.watches.extract_if(.., |watch| watch.process == process));
    }
}

impl Watch {
    fn event<'a>(&self, happened: &'a Happened) -> Option<(&'static str, &'a Object)> {
        let has = |object: &Object| self.selection.has(&happened.key, object);
        let had = happened.before.as_deref().is_some_and(has);
        match (had, has(&happened.object) && !happened.is_gone) {
            (false, true) => Some(("ADDED", &happened.object)),
            (true, true) => Some(("MODIFIED", &happened.object)),
            (true, false) => Some(("DELETED", &happened.object)),
            (false, false) => None,
        }
    }

    fn send(&self, event: &Value) {
        let line = Bytes::from(format!("{event}\n"));
        // Whoever watched may have gone.
        let _ = self.sender.send(Ok(Frame::data(line)));
    }

    /// Whether nobody listens any more.
    pub fn is_over(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Pending {
    pub fn reply(self, (code, body): (u16, Value)) {
        let bytes = Full::new(Bytes::from(body.to_string()));
        let response = Response::builder().status(code).body(bytes.map_err(|never| match never {}).boxed_unsync());
        // Whoever asked may have gone.
        let _ = self.answer.send(Ok(response.expect("because the code is one")));
    }

    /// The connection breaks.
    pub fn fail(self) {
        let _ = self.answer.send(Err(std::io::Error::other("the connection broke")));
    }
}
