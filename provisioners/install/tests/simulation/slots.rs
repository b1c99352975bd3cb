//! The processes of a history: they start, end, are killed and stopped.

use std::time::Duration;

use rukpak_install::Shard;
use tokio::time::{Instant, timeout};

use super::History;
use crate::process::{self, Process, Role};
use crate::story::{Program, Story};

/// One of the processes: what it is, and its number while it runs.
pub struct Slot {
    runs: Runs,
    pub running: Option<(usize, Process)>,
    /// Not before that the next one begins.
    pub away_until: Instant,
    /// The process stands still until then.
    stopped_until: Option<Instant>,
}

/// What a process is.
enum Runs {
    /// A controller, and what it works on.
    Controller(Shard),
    /// Another program, by its number in the story.
    Program(usize),
}

impl Slot {
    /// Those of a story.
    pub fn all(story: &Story) -> Vec<Self> {
        let controllers = story.shards.iter().map(|shard| Runs::Controller(shard.parse().expect("a selector")));
        let of = |runs| Self { runs, running: None, away_until: Instant::now(), stopped_until: None };
        controllers.chain((0..story.programs.len()).map(Runs::Program)).map(of).collect()
    }
}

impl History<'_> {
    /// Lets time pass until a process begins that is away, goes on or is reached again, a watch goes on, or a Bundle may be
    /// unpacked. Whether there is one.
    pub async fn wait_for_who_is_late(&mut self) -> bool {
        let now = Instant::now();
        let away = self.slots.iter().filter(|slot| slot.running.is_none()).map(|slot| slot.away_until);
        let stopped = self.slots.iter().filter_map(|slot| slot.stopped_until);
        let cut_off: Vec<Instant> = self.cluster.lock().cut_off.values().copied().collect();
        let late = self.late.values().chain(self.held.values()).copied();
        let all = away.chain(stopped).chain(cut_off).chain(late);
        let Some(until) = all.filter(|until| *until > now).min() else { return false };
        // Whoever asks meanwhile is answered.
        let _ = timeout(until - now, self.cluster.arrived.notified()).await;
        true
    }

    /// Processes that have ended are to begin anew.
    pub fn note_ended(&mut self) {
        let ended = std::mem::take(&mut self.cluster.lock().ended);
        for slot in &mut self.slots {
            let Some((number, _)) = slot.running.take_if(|(number, _)| ended.contains(number)) else { continue };
            slot.away_until = Instant::now();
            let time = process::elapsed();
            self.words.push(format!("{:>9.3}  controller {number} leads no more, and ends", time.as_secs_f64()));
        }
    }

    /// Processes that were stopped go on when it is time.
    pub fn let_go_on(&mut self) {
        let now = Instant::now();
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.stopped_until.take_if(|until| *until <= now).is_none() {
                continue;
            }
            let Some((number, process)) = &slot.running else { continue };
            let number = *number;
            if let Some((_, went_on)) = self.cluster.lock().candidates.get_mut(&number) {
                *went_on = Some(now);
            }
            process.gate.open();
            self.say(&format!("controller {number} goes on"));
        }
    }

    pub fn stop(&mut self, number: usize, time: Duration) {
        for slot in &mut self.slots {
            let Some((_, process)) = slot.running.as_ref().filter(|(running, _)| *running == number) else { continue };
            process.gate.shut();
            slot.stopped_until = Some(Instant::now() + time);
        }
    }

    pub fn is_stopped(&self, number: usize) -> bool {
        let runs = |slot: &Slot| slot.running.as_ref().is_some_and(|(running, _)| *running == number);
        self.slots.iter().any(|slot| slot.stopped_until.is_some() && runs(slot))
    }

    pub fn start(&mut self, index: usize) {
        self.started += 1;
        let number = self.started;
        let (story, slot) = (&self.told.story, &mut self.slots[index]);
        let (name, process) = match &slot.runs {
            Runs::Controller(shard) => {
                let candidate = story.is_led.then(|| format!("pod-{index}"));
                if let Some(name) = &candidate {
                    self.cluster.lock().candidates.insert(number, (name.clone(), None));
                }
                let role = Role { number, shard: shard.clone(), candidate, store: self.store };
                ("controller", Process::start(&self.cluster, role))
            }
            Runs::Program(program) => {
                let Program { name, start } = &story.programs[*program];
                (*name, start(&self.cluster, number))
            }
        };
        slot.stopped_until = None;
        slot.running = Some((number, process));
        self.say(&format!("{name} {number} starts"));
    }

    pub fn kill(&mut self, number: usize) {
        self.cluster.lock().kill(number);
        for slot in &mut self.slots {
            if slot.running.as_ref().is_some_and(|(running, _)| *running == number) {
                slot.running = None;
                slot.away_until = Instant::now() + self.fate.absence();
            }
        }
    }
}
