//! A history: its fate decides what is next. Between two steps everything that can run has run.

#[path = "slots.rs"]
mod slots;

use std::collections::BTreeMap;
use std::time::Duration;

use rukpak_content::Digest;
use rukpak_store::Store;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use self::slots::Slot;
use crate::cluster::{Cluster, Pending};
use crate::fate::{Fate, Fault, News, Point, Turn};
use crate::garbage::{collect, is_garbage};
use crate::process;
use crate::properties::{self, Objects};
use crate::server::{Key, Request};
use crate::story::{FINALIZER, Told, release_of};
use crate::wire::{failure, words};

/// A step takes so long.
const TICK: Duration = Duration::from_millis(1);
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
    Insist,
    Start(usize),
}

pub struct History<'a> {
    told: &'a Told,
    store: &'a Store,
    cluster: Cluster,
    fate: &'a mut dyn Fate,
    words: Vec<String>,
    slots: Vec<Slot>,
    started: usize,
    /// Watches that are told nothing until then, by process and kind.
    held: BTreeMap<(usize, String), Instant>,
    /// Bundles that are not unpacked before that.
    late: BTreeMap<Key, Instant>,
    size: Size,
    calm_since: usize,
}

impl<'a> History<'a> {
    pub fn new(told: &'a Told, store: &'a Store, fate: &'a mut dyn Fate) -> Self {
        process::begin_time();
        let cluster = Cluster::default();
        told.story.begin(&mut cluster.lock());
        Self {
            told,
            store,
            cluster,
            fate,
            words: Vec::new(),
            slots: Slot::all(&told.story),
            started: 0,
            held: BTreeMap::new(),
            late: BTreeMap::new(),
            size: Size::default(),
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
            let wrong = self.cluster.lock().wrong.take();
            if let Some(wrong) = process::take_panic().or(wrong) {
                return Err(wrong);
            }
            self.note_ended();
            self.let_go_on();
            if self.fate.disturbs() {
                self.calm_since = self.size.steps;
            }
            if self.size.steps - self.calm_since > STEPS {
                return Err("there is no rest".to_owned());
            }
            if let Some(hand) = self.fate.hand(self.told.story.hands.len()) {
                self.act(hand);
                continue;
            }
            let (mut all, turns) = self.possible();
            if all.is_empty() {
                if self.wait().await? {
                    let state = self.cluster.lock();
                    return properties::of_rest(&state, self.told).map_or(Ok(()), Err);
                }
                continue;
            }
            self.size.steps += 1;
            let next = all.swap_remove(self.fate.next(&turns));
            self.go(next)?;
            if let Some(pause) = self.fate.pause() {
                sleep(pause).await;
            }
        }
    }

    /// Whether this is of somebody who only asks, or who hears that a Lease is renewed.
    fn is_poll(&self, next: &Next) -> bool {
        match next {
            Next::Answer(_) => true,
            Next::Tell(index) => self.cluster.lock().watches[*index].selection.kind == "Lease",
            _ => false,
        }
    }

    /// Nobody has anything to do before some time has passed. Whether that is so for good.
    async fn wait(&mut self) -> Result<bool, String> {
        if !self.held.is_empty() && !self.fate.lets_hang() {
            self.held.clear();
            return Ok(false);
        }
        if self.wait_for_who_is_late().await {
            return Ok(false);
        }
        let patience = self.fate.patience();
        let (longest, polled) = self.fate.stillness();
        let longest = patience.unwrap_or(longest);
        let (changes, begun, asked) = (self.cluster.lock().changes, Instant::now(), self.size.requests);
        let until = begun + longest;
        let is_polled = |requests: usize| begun.elapsed() >= polled.0 && requests - asked >= polled.1;
        while let Ok(()) =
            timeout(until.saturating_duration_since(Instant::now()), self.cluster.arrived.notified()).await
        {
            // Whoever only asks, and is answered, changes nothing.
            sleep(TICK).await;
            let (all, _) = self.possible();
            if !all.iter().all(|next| self.is_poll(next)) {
                return Ok(false);
            }
            // Those that stand by hear of each renewal.
            for index in all.iter().filter_map(|next| if let Next::Tell(index) = next { Some(*index) } else { None }) {
                self.cluster.lock().tell(index);
            }
            for _ in 0..all.iter().filter(|next| matches!(next, Next::Answer(_))).count() {
                // A process that was killed has asked nothing.
                if self.cluster.lock().pending.is_empty() {
                    break;
                }
                self.size.steps += 1;
                self.fate.begin(Point::Other);
                self.answer(0)?;
            }
            if self.slots.iter().any(|slot| slot.running.is_none()) {
                return Ok(false);
            }
            if is_polled(self.size.requests) {
                break;
            }
            let is_changed = self.cluster.lock().changes != changes || self.cluster.lock().wrong.is_some();
            if is_changed || self.size.steps - self.calm_since > STEPS {
                return Ok(false);
            }
        }
        // It is told of at once.
        if self.cluster.lock().wrong.is_some() {
            return Ok(false);
        }
        if patience.is_none() {
            properties::of_rest(&self.cluster.lock(), self.told).map_or(Ok(()), Err)?;
        }
        if let Some(hand) = self.fate.rest(self.told.story.hands.len()) {
            self.act(hand);
            return Ok(false);
        }
        // Webhooks come back, which nobody is told.
        Ok(std::mem::take(&mut self.cluster.lock().server.refused).is_empty())
    }

    fn say(&mut self, words: &str) {
        let time = process::elapsed();
        self.words.push(format!("{:>9.3}  {words}", time.as_secs_f64()));
    }

    /// Somebody does something: one of the hands, or of those of the course.
    fn act(&mut self, hand: usize) {
        let story = &self.told.story;
        let hand = story.hands.iter().chain(&story.course).nth(hand).expect("because there are as many");
        self.say(&hand.words);
        (hand.act)(&mut self.cluster.lock());
        self.cluster.lock().writes.clear();
        if std::mem::take(&mut self.cluster.lock().is_restarting) {
            let numbers = self.slots.iter().filter_map(|slot| Some(slot.running.as_ref()?.0));
            numbers.collect::<Vec<_>>().into_iter().for_each(|number| self.kill(number));
        }
    }

    /// What may be next.
    fn possible(&mut self) -> (Vec<Next>, Vec<Turn>) {
        let cluster = self.cluster.clone();
        let mut state = cluster.lock();
        let state = &mut *state;
        let mut all: Vec<(Next, Turn)> = Vec::new();
        // Those that came at once came in any order.
        state.pending.sort_by_cached_key(|pending| (pending.process, pending.asked.key()));
        let reaches = |index: &usize| !state.is_cut_off(state.pending[*index].process);
        all.extend((0..state.pending.len()).filter(reaches).map(|index| (Next::Answer(index), Turn::first(6))));
        state.watches.retain(|watch| !watch.is_over());
        let now = Instant::now();
        for index in 0..state.watches.len() {
            let watch = &state.watches[index];
            let held = self.held.get(&(watch.process, watch.selection.kind.clone()));
            let is_held = held.is_some_and(|until| *until > now)
                || state.is_cut_off(watch.process)
                || self.is_stopped(watch.process);
            if state.has_news(index) {
                let turn = Turn { weight: self.fate.haste(), place: state.watches[index].next };
                all.extend((!is_held).then_some((Next::Tell(index), turn)));
            } else if state.is_unserved(index) {
                all.push((Next::End(index), Turn::last(3)));
            }
        }
        for (key, object) in &state.server.objects {
            let is_late = self.late.get(key).is_some_and(|until| *until > now);
            if key.kind == "Bundle" && object.value["status"]["phase"].is_null() && !object.is_terminating && !is_late {
                all.push((Next::Unpack(key.clone()), Turn::last(2)));
            }
            let mut finalizers = object.value["metadata"]["finalizers"].as_array().into_iter().flatten();
            if object.is_terminating && finalizers.any(|finalizer| finalizer == FINALIZER) {
                all.push((Next::Finish(key.clone()), Turn::last(1)));
            }
        }
        all.extend(state.is_resisted().then_some((Next::Insist, Turn::last(1))));
        all.extend(is_garbage(state).then_some((Next::Collect, Turn::last(2))));
        let is_down = |slot: &Slot| slot.running.is_none() && slot.away_until <= now;
        let down = self.slots.iter().enumerate().filter(|(_, slot)| is_down(slot));
        all.extend(down.map(|(index, _)| (Next::Start(index), Turn::last(1))));
        all.into_iter().unzip()
    }

    fn go(&mut self, next: Next) -> Result<(), String> {
        let point = match &next {
            Next::Answer(index) => {
                let is_change = self.cluster.lock().pending[*index].asked.is_change();
                self.fate.begin(if is_change { Point::Write } else { Point::Read });
                return self.answer(*index);
            }
            Next::Tell(_) => Point::News,
            Next::Unpack(_) => Point::Unpack,
            _ => Point::Other,
        };
        if let (Some(late), Next::Unpack(key)) = (self.fate.begin(point), &next) {
            self.say(&format!("Bundle {:?} takes its time", key.name));
            self.late.insert(key.clone(), Instant::now() + late);
            return Ok(());
        }
        match next {
            Next::Answer(_) => {}
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
            Next::Insist => {
                let insisted = self.cluster.lock().insisted.clone();
                let Some((key, body)) = insisted else { return Ok(()) };
                self.say(&format!("somebody insists on {} {:?}", key.kind, key.name));
                let (version, manager) = ("v1".to_owned(), "hand".to_owned());
                self.send(&Request::Patch { key, version, body, manager, is_status: false });
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
        let news = self.fate.news();
        let mut state = self.cluster.lock();
        let (process, kind) = (state.watches[index].process, state.watches[index].selection.kind.clone());
        if matches!(news, News::Cut | News::Expired) {
            state.end_watch(index, news == News::Expired);
            drop(state);
            let why = if news == News::Expired { "has to list anew" } else { "is cut" };
            return self.say(&format!("the watch of {process} over {kind} {why}"));
        }
        let told = state.tell(index);
        drop(state);
        self.say(&format!("{process} is told: {told}"));
        if let News::Hangs(duration) = news {
            self.held.insert((process, kind.clone()), Instant::now() + duration);
            self.say(&format!("the watch of {process} over {kind} hangs"));
        }
    }

    fn answer(&mut self, index: usize) -> Result<(), String> {
        self.size.requests += 1;
        let pending = self.cluster.lock().pending.remove(index);
        // Which of those that ask the same came first, nothing decides.
        let twins = self.cluster.lock().take_twins(&pending);
        let text = format!("{}: {}", pending.process, words(&pending.asked, &self.cluster.lock().server));
        let fault = self.fate.fault(&pending.asked);
        match fault {
            Some(Fault::Lost | Fault::KilledAfter | Fault::Stopped(_)) | None => {
                self.carry_out((pending, twins), fault, text)
            }
            Some(fault) => {
                let outcome = self.keep_from((pending, twins), fault);
                self.say(&format!("{text} -> {outcome}"));
                Ok(())
            }
        }
    }

    /// The server does not get a request, or refuses it. Returns what came of it.
    fn keep_from(&mut self, (pending, twins): (Pending, Vec<Pending>), fault: Fault) -> String {
        let number = pending.process;
        if fault == Fault::KilledBefore {
            self.kill(number);
            return "killed before".to_owned();
        }
        let mut state = self.cluster.lock();
        if let Fault::CutOff(time) = fault {
            state.pending.extend(twins.into_iter().chain([pending]));
            state.cut_off.insert(number, Instant::now() + time);
            return format!("{number} is cut off for {time:?}");
        }
        // A conflict is tried again like what may pass.
        state.note_answer(number, &pending.asked, 503);
        drop(state);
        let all = twins.into_iter().chain([pending]);
        let (code, reason) = match fault {
            Fault::Conflict => (409, "Conflict"),
            Fault::Internal => (500, "InternalError"),
            Fault::Unavailable => (503, "ServiceUnavailable"),
            _ => {
                all.for_each(Pending::fail);
                return "the connection breaks".to_owned();
            }
        };
        let reply = failure(code, reason, reason, &json!([]));
        all.for_each(|pending| pending.reply(reply.clone()));
        code.to_string()
    }

    /// The server does what it was asked for, and whoever asked is told, or not.
    fn carry_out(
        &mut self,
        (pending, twins): (Pending, Vec<Pending>),
        fault: Option<Fault>,
        mut text: String,
    ) -> Result<(), String> {
        let number = pending.process;
        let mut state = self.cluster.lock();
        let before: Objects = state.server.objects.clone();
        let Some(reply) =
            state.carry_out((number, fault != Some(Fault::Lost)), &pending.asked, &process::now().to_string())
        else {
            state.begin_watch(pending);
            drop(state);
            self.say(&text);
            return Ok(());
        };
        let wrong = properties::of_apply(&state, self.told, &pending, &before);
        let wrong = wrong.or_else(|| properties::of_write(&state, self.told, number, &before));
        let is_changed = state.server.objects != before;
        if fault == Some(Fault::Lost) {
            state.note_answer(number, &pending.asked, 503);
        }
        drop(state);
        if reply.0 >= 300 {
            text = format!("{text} -> {}", reply.0);
        }
        text += if is_changed { " (written)" } else { "" };
        let all = twins.into_iter().chain([pending]);
        match fault {
            Some(Fault::Lost) => {
                text += " -> the answer is lost";
                all.for_each(Pending::fail);
            }
            Some(Fault::KilledAfter) => {
                text += " -> killed after";
                self.kill(number);
            }
            _ => {
                if let Some(Fault::Stopped(time)) = fault {
                    text = format!("{text} -> {number} is stopped for {time:?}");
                    self.stop(number, time);
                }
                all.for_each(|pending| pending.reply(reply.clone()));
            }
        }
        self.say(&text);
        wrong.map_or(Ok(()), Err)
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
