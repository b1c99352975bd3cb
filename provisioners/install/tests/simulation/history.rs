//! A history: the seed decides what is next. Between two steps everything that can run has run.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use rukpak_content::Digest;
use rukpak_install::Shard;
use rukpak_store::Store;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{Cluster, Pending};
use crate::garbage::{collect, is_garbage};
use crate::numbers::Numbers;
use crate::process::{self, Process};
use crate::properties::{self, Objects};
use crate::server::{Key, Request};
use crate::story::{FINALIZER, Told, release_of};
use crate::wire::{Asked, failure, words};

/// A step takes so long.
const TICK: Duration = Duration::from_millis(1);
/// At rest nothing changes for so long; or for so long and so many requests of who polls.
const REST: Duration = Duration::from_hours(5);
const POLLED: (Duration, usize) = (Duration::from_mins(20), 100);
/// So many steps after the last disturbance there has to be rest.
const STEPS: usize = 8_000;

/// What went wrong, and all that happened until then.
pub struct Violation {
    pub what: String,
    pub words: Vec<String>,
}

/// How much a history was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub steps: usize,
    pub requests: usize,
}

/// A history without a violation.
pub struct Lived {
    pub size: Size,
    pub words: Vec<String>,
}

/// What may be next.
enum Next {
    Answer(usize),
    Tell(usize),
    End(usize),
    Unpack(Key),
    Collect,
    Finish(Key),
    Start(usize),
}

/// What becomes of a request that is not just answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Conflict,
    Internal,
    Unavailable,
    /// The connection breaks before the server has it.
    Broken,
    /// The server does it, and nobody is told.
    Lost,
    /// The process is killed before the server has it.
    KilledBefore,
    /// And after.
    KilledAfter,
}

/// One of the processes: what it works on, and its number while it runs.
struct Slot {
    shard: Shard,
    running: Option<(usize, Process)>,
}

pub struct History<'a> {
    told: &'a Told,
    store: &'a Store,
    cluster: Cluster,
    numbers: Numbers,
    words: Vec<String>,
    slots: Vec<Slot>,
    started: usize,
    hands: u64,
    faults: u64,
    /// Somebody acts at one of so many steps.
    pace: u64,
    /// How soon watches are told.
    haste: u64,
    /// Watches that are told nothing until then, by process and kind.
    held: BTreeMap<(usize, String), Instant>,
    size: Size,
    calm_since: usize,
}

impl<'a> History<'a> {
    pub fn new(told: &'a Told, store: &'a Store, seed: u64) -> Self {
        process::begin_time();
        let mut numbers = Numbers(seed);
        let (hands, faults) = (numbers.below(7), numbers.below(5));
        let pace = *numbers.one(&[15, 60, 250]);
        let haste = *numbers.one(&[1, 3, 20]);
        let (words, held) = (Vec::new(), BTreeMap::new());
        let shards = told.story.shards.iter().map(|shard| shard.parse::<Shard>().expect("a selector"));
        let slots = shards.map(|shard| Slot { shard, running: None }).collect();
        let cluster = Cluster::default();
        told.story.begin(&mut cluster.lock());
        let size = Size::default();
        Self {
            told,
            store,
            cluster,
            numbers,
            words,
            slots,
            started: 0,
            hands,
            faults,
            pace,
            haste,
            held,
            size,
            calm_since: 0,
        }
    }

    /// Goes on until nothing happens any more.
    pub async fn run(mut self) -> Result<Lived, Violation> {
        match self.live().await {
            Ok(()) => Ok(Lived { size: self.size, words: self.words }),
            Err(what) => Err(Violation { what, words: self.words }),
        }
    }

    async fn live(&mut self) -> Result<(), String> {
        for slot in 0..self.slots.len() {
            self.start(slot);
        }
        loop {
            sleep(TICK).await;
            if let Some(panic) = process::take_panic() {
                return Err(panic);
            }
            if self.hands + self.faults > 0 {
                self.calm_since = self.size.steps;
            }
            if self.size.steps - self.calm_since > STEPS {
                return Err("there is no rest".to_owned());
            }
            if self.hands > 0 && self.numbers.is(self.pace) {
                self.act();
                continue;
            }
            let (mut all, weights) = self.possible();
            if all.is_empty() {
                if self.wait().await? {
                    let state = self.cluster.lock();
                    return properties::of_rest(&state, self.told).map_or(Ok(()), Err);
                }
                continue;
            }
            self.size.steps += 1;
            let next = all.swap_remove(self.numbers.weighed(&weights));
            self.go(next)?;
            if self.numbers.is(50) {
                sleep(Duration::from_millis(self.numbers.below(5_000))).await;
            }
        }
    }

    /// Nobody has anything to do before some time has passed. Whether that is so for good.
    async fn wait(&mut self) -> Result<bool, String> {
        if !self.held.is_empty() {
            self.held.clear();
            return Ok(false);
        }
        let longest = if self.hands > 0 { Duration::from_secs(self.numbers.within(1..900)) } else { REST };
        let (length, begun, asked) = (self.cluster.lock().log.len(), Instant::now(), self.size.requests);
        let until = begun + longest;
        let is_polled = |requests: usize| begun.elapsed() >= POLLED.0 && requests - asked >= POLLED.1;
        while let Ok(()) =
            timeout(until.saturating_duration_since(Instant::now()), self.cluster.arrived.notified()).await
        {
            // Whoever only asks, and is answered, changes nothing.
            sleep(TICK).await;
            let (all, _) = self.possible();
            if !all.iter().all(|next| matches!(next, Next::Answer(_))) {
                return Ok(false);
            }
            for _ in 0..all.len() {
                // A process that was killed has asked nothing.
                if self.cluster.lock().pending.is_empty() {
                    break;
                }
                self.size.steps += 1;
                self.answer(0)?;
            }
            if self.slots.iter().any(|slot| slot.running.is_none()) {
                return Ok(false);
            }
            if is_polled(self.size.requests) {
                break;
            }
            if self.cluster.lock().log.len() != length || self.size.steps - self.calm_since > STEPS {
                return Ok(false);
            }
        }
        if self.hands > 0 {
            self.act();
            return Ok(false);
        }
        // Faults that have found nothing to disturb are over.
        self.faults = 0;
        // Webhooks come back, which nobody is told.
        Ok(std::mem::take(&mut self.cluster.lock().server.refused).is_empty())
    }

    fn start(&mut self, slot: usize) {
        self.started += 1;
        let slot = &mut self.slots[slot];
        slot.running =
            Some((self.started, Process::start(&self.cluster, self.started, slot.shard.clone(), self.store)));
        let words = format!("controller {} starts", self.started);
        self.say(&words);
    }

    fn say(&mut self, words: &str) {
        let time = process::elapsed();
        self.words.push(format!("{:>9.3}  {words}", time.as_secs_f64()));
    }

    /// Somebody does something.
    fn act(&mut self) {
        self.hands -= 1;
        let told = self.told;
        let hand = self.numbers.one(&told.story.hands);
        self.say(&hand.words);
        (hand.act)(&mut self.cluster.lock());
    }

    /// What may be next, with weights.
    fn possible(&mut self) -> (Vec<Next>, Vec<u64>) {
        let cluster = self.cluster.clone();
        let mut state = cluster.lock();
        let state = &mut *state;
        let mut all: Vec<(Next, u64)> = Vec::new();
        // Those that came at once came in any order.
        state.pending.sort_by_cached_key(|pending| (pending.process, pending.asked.key()));
        all.extend((0..state.pending.len()).map(|index| (Next::Answer(index), 6)));
        state.watches.retain(|watch| !watch.is_over());
        let now = Instant::now();
        for index in 0..state.watches.len() {
            let watch = &state.watches[index];
            let held = self.held.get(&(watch.process, watch.selection.kind.clone()));
            let is_held = held.is_some_and(|until| *until > now);
            if state.has_news(index) {
                all.extend((!is_held).then_some((Next::Tell(index), self.haste)));
            } else if state.is_unserved(index) {
                all.push((Next::End(index), 3));
            }
        }
        for (key, object) in &state.server.objects {
            if key.kind == "Bundle" && object.value["status"]["phase"].is_null() && !object.is_terminating {
                all.push((Next::Unpack(key.clone()), 2));
            }
            let mut finalizers = object.value["metadata"]["finalizers"].as_array().into_iter().flatten();
            if object.is_terminating && finalizers.any(|finalizer| finalizer == FINALIZER) {
                all.push((Next::Finish(key.clone()), 1));
            }
        }
        all.extend(is_garbage(state).then_some((Next::Collect, 2)));
        let down = self.slots.iter().enumerate().filter(|(_, slot)| slot.running.is_none());
        all.extend(down.map(|(index, _)| (Next::Start(index), 1)));
        all.into_iter().unzip()
    }

    fn go(&mut self, next: Next) -> Result<(), String> {
        match next {
            Next::Answer(index) => return self.answer(index),
            Next::Tell(index) => self.tell(index),
            Next::End(index) => {
                let watch = self.cluster.lock().watches[index].selection.kind.clone();
                self.say(&format!("the watch over {watch} ends"));
                self.cluster.lock().end_watch(index, false);
            }
            Next::Unpack(key) => self.unpack(key),
            Next::Collect => return self.collect(),
            Next::Finish(key) => {
                self.say(&format!("the operator takes its finalizer off {} {:?}", key.kind, key.name));
                let body = json!({"metadata": {"finalizers": []}});
                self.send(&Request::Patch {
                    key,
                    version: "v1".into(),
                    body,
                    manager: "operator".into(),
                    is_status: false,
                });
            }
            Next::Start(slot) => self.start(slot),
        }
        Ok(())
    }

    fn send(&self, request: &Request) {
        let mut state = self.cluster.lock();
        // A version that is not served answers nothing.
        let _ = state.server.answer(request);
        state.note();
    }

    fn tell(&mut self, index: usize) {
        let mut state = self.cluster.lock();
        let (process, kind) = (state.watches[index].process, state.watches[index].selection.kind.clone());
        if self.faults > 0 && self.numbers.is(40) {
            self.faults -= 1;
            let is_expired = self.numbers.is(2);
            state.end_watch(index, is_expired);
            drop(state);
            let why = if is_expired { "has to list anew" } else { "is cut" };
            return self.say(&format!("the watch of {process} over {kind} {why}"));
        }
        let told = state.tell(index);
        drop(state);
        self.say(&format!("{process} is told: {told}"));
        if self.hands + self.faults > 0 && self.numbers.is(30) {
            let until = Instant::now() + Duration::from_millis(self.numbers.below(20_000));
            self.held.insert((process, kind.clone()), until);
            self.say(&format!("the watch of {process} over {kind} hangs"));
        }
    }

    fn answer(&mut self, index: usize) -> Result<(), String> {
        self.size.requests += 1;
        let pending = self.cluster.lock().pending.remove(index);
        // Which of those that ask the same came first, nothing decides.
        let twins = self.cluster.lock().take_twins(&pending);
        let (number, told) = (pending.process, self.told);
        let text = words(&pending.asked, &self.cluster.lock().server);
        let fault = self.fault(&pending.asked);
        let said = |outcome: &str| format!("{number}: {text}{outcome}");
        match fault {
            Some(Fault::KilledBefore) => {
                self.say(&said(" -> killed before"));
                self.kill(number);
                return Ok(());
            }
            Some(Fault::Broken) => {
                self.say(&said(" -> the connection breaks"));
                twins.into_iter().chain([pending]).for_each(Pending::fail);
                return Ok(());
            }
            Some(fault @ (Fault::Conflict | Fault::Internal | Fault::Unavailable)) => {
                let (code, reason) = match fault {
                    Fault::Conflict => (409, "Conflict"),
                    Fault::Internal => (500, "InternalError"),
                    _ => (503, "ServiceUnavailable"),
                };
                self.say(&said(&format!(" -> {code}")));
                let reply = failure(code, reason, reason, &json!([]));
                twins.into_iter().chain([pending]).for_each(|pending| pending.reply(reply.clone()));
                return Ok(());
            }
            _ => {}
        }
        let mut state = self.cluster.lock();
        let before: Objects = state.server.objects.clone();
        let Some(reply) = state.carry_out(&pending.asked, &process::now().to_string()) else {
            state.begin_watch(pending);
            drop(state);
            self.say(&said(""));
            return Ok(());
        };
        let wrong = properties::of_write(&state, told, number, &before);
        let is_changed = state.server.objects != before;
        drop(state);
        let mut outcome = if reply.0 < 300 { String::new() } else { format!(" -> {}", reply.0) };
        outcome += if is_changed { " (written)" } else { "" };
        match fault {
            Some(Fault::Lost) => {
                outcome += " -> the answer is lost";
                twins.into_iter().chain([pending]).for_each(Pending::fail);
            }
            Some(Fault::KilledAfter) => {
                outcome += " -> killed after";
                self.kill(number);
            }
            _ => twins.into_iter().chain([pending]).for_each(|pending| pending.reply(reply.clone())),
        }
        self.say(&said(&outcome));
        wrong.map_or(Ok(()), Err)
    }

    fn fault(&mut self, asked: &Asked) -> Option<Fault> {
        let rarity = if asked.is_write() { 12 } else { 80 };
        if self.faults == 0 || !self.numbers.is(rarity) {
            return None;
        }
        self.faults -= 1;
        let all = [
            Fault::Internal,
            Fault::Unavailable,
            Fault::Broken,
            Fault::Lost,
            Fault::Lost,
            Fault::KilledBefore,
            Fault::KilledAfter,
            Fault::KilledAfter,
            Fault::Conflict,
        ];
        let fault = *self.numbers.one(&all);
        Some(fault).filter(|fault| *fault != Fault::Conflict || asked.is_write())
    }

    fn kill(&mut self, number: usize) {
        self.cluster.lock().kill(number);
        for slot in &mut self.slots {
            if slot.running.as_ref().is_some_and(|(running, _)| *running == number) {
                slot.running = None;
            }
        }
    }

    fn unpack(&mut self, key: Key) {
        let body = self.cluster.lock().server.objects[&key].clone();
        let release = release_of(&body.value["spec"]).expect("because all Bundles are ours");
        self.say(&format!("Bundle {:?} of release {release} is unpacked", key.name));
        let status = unpacked(&self.told.digests[release], body.generation.unwrap_or_default());
        let (version, manager) = ("v1alpha1".to_owned(), "unpack".to_owned());
        self.send(&Request::Patch { key, version, body: json!({"status": status}), manager, is_status: true });
    }

    fn collect(&mut self) -> Result<(), String> {
        self.say("garbage is collected");
        let mut state = self.cluster.lock();
        let before = state.server.objects.clone();
        collect(&mut state);
        properties::of_collection(&state, self.told, &before).map_or(Ok(()), Err)
    }
}

fn unpacked(content: &Digest, generation: u64) -> Value {
    let condition = json!({"type": "Unpacked", "status": "True", "reason": "UnpackSuccessful", "message": "unpacked",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation});
    json!({"phase": "Unpacked", "observedGeneration": generation, "conditions": [condition],
        "pin": {"contentDigest": content.to_string()}})
}

impl Numbers {
    /// A number of this range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// The index of one of these, by their weights.
    pub fn weighed(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum::<u64>().max(1));
        weights
            .iter()
            .position(|weight| {
                left < *weight || {
                    left -= weight;
                    false
                }
            })
            .unwrap_or_default()
    }
}
