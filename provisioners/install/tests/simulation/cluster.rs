//! The API server of a simulation: what was asked and not answered yet, and what watches were not told yet. It does nothing by
//! itself: the history decides what is next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::stream;
use http::{HeaderName, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use rukpak_crds::BundleDeployment;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::server::{Event, Key, Object, Server};
use crate::story::LEASE;
use crate::wire::{Asked, Selection, failure};

type Reply = UnsyncBoxBody<Bytes, std::io::Error>;
type Answer = std::io::Result<Response<Reply>>;

/// So long what was refused is left alone, if nobody changes anything.
const HELD: Duration = Duration::from_mins(1);
/// So often an object is written at most, if nobody acts.
const WRITES: usize = 100;
/// So soon a process that was stopped has noticed that it leads no more: each of its tasks has had a turn.
const NOTICED: Duration = Duration::from_millis(5);

/// So soon a leader has tried to renew its Lease, and has an answer.
const RENEWED: Duration = Duration::from_secs(7);

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
    /// How many of these are not about Leases.
    pub changes: usize,
    /// How often each object was written since somebody acted.
    pub writes: BTreeMap<Key, usize>,
    last: BTreeMap<Key, Arc<Object>>,
    pub pending: Vec<Pending>,
    pub watches: Vec<Watch>,
    /// Processes that were killed: what they still send reaches nobody.
    pub dead: BTreeSet<usize>,
    /// Somebody makes that of an object again and again.
    pub insisted: Option<(Key, Value)>,
    /// All processes are to be killed now.
    pub is_restarting: bool,
    /// Processes that have ended by themselves.
    pub ended: BTreeSet<usize>,
    /// The names of those that compete for the Lease, and when they were stopped last and went on.
    pub candidates: BTreeMap<usize, (String, Option<Instant>)>,
    /// Processes whose requests reach nobody until then, and that are told nothing.
    pub cut_off: BTreeMap<usize, Instant>,
    /// When the Lease was taken last, if somebody has deleted one before: who had it finds out when it renews it.
    taken_after_deletion: Option<(Value, Instant)>,
    /// A write that should not have been sent.
    pub wrong: Option<String>,
    /// Streams of theirs, which do not end: who is dead must not notice.
    silent: Vec<Watch>,
    /// By process and deployment: the deployment that its last reconcile began with, and the length of the log then.
    pub begun: BTreeMap<(usize, String), (Arc<BundleDeployment>, usize)>,
    /// The length of the log when the request before the last one of its process was done.
    pub known: usize,
    /// By process: when its last one was.
    done: BTreeMap<usize, usize>,
    /// By deployment.
    pub upgrades: BTreeMap<String, Upgrade>,
    /// Accounts that have asked what they may do.
    pub reviewed: BTreeSet<String>,
}

/// What came of the content that a deployment has begun.
#[derive(Default)]
pub struct Upgrade {
    content: Value,
    /// What was applied of it.
    pub applied: BTreeSet<Key>,
    /// Since when it is begun.
    pub begun_since: Option<Instant>,
    /// Since when it meets what may pass, or the status says that it is not ready.
    pub failing_since: Option<Instant>,
    /// When it has met that last.
    pub failed: Option<Instant>,
    /// Since when the template is as it is, and its generation.
    pub asked_since: Option<(u64, Instant)>,
    /// Whether something of it was refused for good.
    pub is_refused: bool,
    /// By process and object.
    refusals: BTreeMap<(usize, Key), Refused>,
}

/// What was refused for good.
struct Refused {
    body: Value,
    /// Of the deployment.
    generation: u64,
    since: Instant,
    /// The length of the log then.
    length: usize,
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
    pub next: usize,
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
                        state.note_sent(process, &asked);
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
        user: header(HeaderName::from_static("impersonate-user")).to_owned(),
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
    /// A process begins a reconcile of a deployment as it knows it.
    pub fn begin(&mut self, process: usize, deployment: Arc<BundleDeployment>) {
        self.begun.insert((process, deployment.name_any()), (deployment, self.log.len()));
    }

    /// Who has lost the Lease writes nothing. A process that was stopped has to notice first.
    fn note_sent(&mut self, process: usize, asked: &Asked) {
        let Some((name, went_on)) = self.candidates.get(&process).filter(|_| asked.is_change()) else { return };
        if asked.is_of_lease() || went_on.is_some_and(|went_on| went_on.elapsed() < NOTICED) {
            return;
        }
        if self.taken_after_deletion.as_ref().is_some_and(|(_, since)| since.elapsed() < RENEWED) {
            return;
        }
        let lease = self.server.objects.get(&Key::new("Lease", LEASE));
        let holder = lease.and_then(|lease| lease.value["spec"]["holderIdentity"].as_str());
        if let Some(holder) = holder.filter(|holder| holder != name && !holder.is_empty()) {
            let what = format!("{process} sends {} {} though {holder} has the Lease", asked.method, asked.path);
            self.wrong.get_or_insert(what);
        }
    }

    /// Whether the object that somebody insists on is not as he wants it.
    pub fn is_resisted(&self) -> bool {
        let Some((key, wanted)) = &self.insisted else { return false };
        self.server
            .objects
            .get(key)
            .is_some_and(|live| !live.is_terminating && live.value["data"]["x"] != wanted["data"]["x"])
    }

    /// Whether nothing reaches the process, and nothing comes from it.
    pub fn is_cut_off(&self, process: usize) -> bool {
        self.cut_off.get(&process).is_some_and(|until| *until > Instant::now())
    }

    /// The version of the last change but those that came after so many.
    pub fn version_at(&self, length: usize) -> u64 {
        self.log[..length].last().map_or(0, |happened| happened.object.version)
    }

    /// Takes what the server has to tell into the log.
    pub fn note(&mut self) {
        for event in std::mem::take(&mut self.server.events) {
            if event.key.kind == "BundleDeployment" {
                self.note_deployment(&event.key.name, &event.object);
            }
            let before = if event.is_gone {
                self.last.remove(&event.key)
            } else {
                self.last.insert(event.key.clone(), event.object.clone())
            };
            self.note_lease(&event);
            self.changes += usize::from(event.key.kind != "Lease");
            let writes = self.writes.entry(event.key.clone()).or_default();
            *writes += 1;
            if *writes > WRITES && event.key.kind != "Lease" {
                self.wrong.get_or_insert_with(|| format!("{:?} is written again and again", event.key));
            }
            self.log.push(Happened { key: event.key, before, object: event.object, is_gone: event.is_gone });
        }
    }

    fn note_lease(&mut self, event: &Event) {
        if event.key.kind != "Lease" {
            return;
        }
        let holder = &event.object.value["spec"]["holderIdentity"];
        match &mut self.taken_after_deletion {
            Some((known, since)) if known != holder => (*known, *since) = (holder.clone(), Instant::now()),
            None if event.is_gone => self.taken_after_deletion = Some((Value::Null, Instant::now())),
            _ => {}
        }
    }

    fn note_deployment(&mut self, name: &str, object: &Object) {
        let (begun, now) = (&object.value["status"]["inventory"]["pending"]["contentDigest"], Instant::now());
        let generation = object.generation.unwrap_or_default();
        let upgrade = self.upgrades.entry(name.to_owned()).or_default();
        if upgrade.asked_since.is_none_or(|(known, _)| known != generation) {
            upgrade.asked_since = Some((generation, now));
        }
        if upgrade.content == *begun {
            // Somebody else's object is found by reading: no answer refuses it, but the status says so.
            let conditions = object.value["status"]["conditions"].as_array();
            if conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "False")) {
                upgrade.failing_since.get_or_insert(now);
            }
            return;
        }
        upgrade.content = begun.clone();
        upgrade.applied.clear();
        (upgrade.begun_since, upgrade.failing_since, upgrade.is_refused) = (Some(now), None, false);
    }

    /// A request of a process was answered like that. For whom it was made, its labels say.
    pub fn note_answer(&mut self, process: usize, asked: &Asked, code: u16) {
        if asked.path.ends_with("selfsubjectrulesreviews") && code < 300 {
            self.reviewed.insert(asked.user.clone());
        }
        let owner = asked.body["metadata"]["labels"]["core.rukpak.io/owner-name"].as_str();
        let Some(owner) = owner.filter(|_| asked.is_apply) else { return };
        let key = asked.place(&self.server).and_then(|place| Some(Key { kind: place.kind, name: place.name? }));
        let live = self.server.objects.get(&Key::new("BundleDeployment", owner));
        let has = |field: &str| live.is_some_and(|live| !live.value["status"]["inventory"][field].is_null());
        let is_upgrade = has("appliedDigest") && has("pending");
        let Some(upgrade) = self.upgrades.get_mut(owner) else { return };
        let generation = upgrade.asked_since.map_or(0, |(generation, _)| generation);
        let Some(key) = key else {
            upgrade.is_refused |= code == 404;
            return;
        };
        let refused = upgrade.refusals.get(&(process, key.clone()));
        let is_early = refused.is_some_and(|refused| refused.is_held(&asked.body, generation, &self.log));
        if is_early {
            let what = format!(
                "{key:?} was refused, and is tried again before its time, though nobody has changed what is asked for"
            );
            self.wrong.get_or_insert(what);
        }
        match code {
            200..300 if asked.is_write() => drop(upgrade.applied.insert(key)),
            403 | 422 => {
                upgrade.is_refused = true;
                let (body, length) = (asked.body.clone(), self.log.len());
                let refused = Refused { body, generation, since: Instant::now(), length };
                // A first installation and a repair are tried again sooner.
                upgrade.refusals.extend(is_upgrade.then_some(((process, key), refused)));
            }
            400.. => {
                upgrade.failed = Some(Instant::now());
                upgrade.failing_since = upgrade.failing_since.or(upgrade.failed);
            }
            _ => {}
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
    pub fn carry_out(&mut self, (process, is_told): (usize, bool), asked: &Asked, now: &str) -> Option<(u16, Value)> {
        if asked.is_watch() && asked.place(&self.server).is_some() {
            return None;
        }
        let reply = asked.answer(&mut self.server, now);
        self.note();
        // A refusal that nobody hears of may pass.
        self.note_answer(process, asked, if is_told || reply.0 < 300 { reply.0 } else { 503 });
        if !asked.is_of_lease() && !asked.path.ends_with("/events") {
            self.known = self.done.insert(process, self.log.len()).unwrap_or_default();
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

impl Refused {
    /// Whether the same is to be left alone still.
    fn is_held(&self, body: &Value, generation: u64, log: &[Happened]) -> bool {
        // What was in the way may have gone, and a kind may have come.
        let mut news = log[self.length..].iter();
        let has_news = news.any(|one| one.is_gone || one.key.kind == "CustomResourceDefinition");
        self.body == *body && self.generation == generation && self.since.elapsed() < HELD && !has_news
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
