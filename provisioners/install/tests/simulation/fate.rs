//! What is decided from outside in a history: which of what may be next is next, and what goes wrong.

use std::ops::Range;
use std::time::Duration;

use crate::numbers::Numbers;
use crate::wire::Asked;

/// What becomes of a request that is not just answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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
    /// The server does it, and the process stands still for so long.
    Stopped(Duration),
    /// Nothing comes from the process for so long, and nothing reaches it.
    CutOff(Duration),
}

/// What becomes of a watch that has something to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    Told,
    /// It ends, and goes on where it was.
    Cut,
    /// It ends, and has to list anew.
    Expired,
    /// It tells that, and nothing more before some time has passed.
    Hangs(Duration),
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    Read,
    Write,
    News,
    Unpack,
    Other,
    /// Nothing happens any more.
    Rest,
}

/// Something that may be next.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// How likely it is to be drawn.
    pub weight: u64,
    /// Its place in the order in which things usually happen.
    pub place: usize,
}

impl Turn {
    pub fn first(weight: u64) -> Self {
        Self { weight, place: 0 }
    }

    pub fn last(weight: u64) -> Self {
        Self { weight, place: usize::MAX }
    }
}

/// Decides. It is asked in the order in which things happen.
pub trait Fate {
    /// Whether anything may still disturb.
    fn disturbs(&self) -> bool;

    /// Which hand acts before the next step.
    fn hand(&mut self, hands: usize) -> Option<usize>;

    /// How soon watches are told, as a weight.
    fn haste(&self) -> u64;

    /// Which of what may be next is next.
    fn next(&mut self, turns: &[Turn]) -> usize;

    /// A step begins. Where it is to come later: after so long.
    fn begin(&mut self, point: Point) -> Option<Duration>;

    /// How long nothing happens after a step.
    fn pause(&mut self) -> Option<Duration>;

    fn news(&mut self) -> News;

    fn fault(&mut self, asked: &Asked) -> Option<Fault>;

    /// How long a controller that was killed is away.
    fn absence(&self) -> Duration;

    /// Whether a watch that hangs tells nothing though nothing else is to be done.
    fn lets_hang(&self) -> bool;

    /// When somebody acts if nothing happens; `None`: not before all is at rest.
    fn patience(&mut self) -> Option<Duration>;

    /// All is at rest when nothing was changed for so long; or for so long and so many requests of who polls.
    fn stillness(&self) -> (Duration, (Duration, usize));

    /// Which hand acts now that all is at rest; `None`: the history is over.
    fn rest(&mut self, hands: usize) -> Option<usize>;
}

/// Draws everything from a seed.
pub struct Chance {
    numbers: Numbers,
    hands: u64,
    faults: u64,
    /// Somebody acts at one of so many steps.
    pace: u64,
    haste: u64,
    /// Whether processes lead, and may lose that.
    is_led: bool,
}

impl Chance {
    pub fn new(seed: u64, is_led: bool) -> Self {
        let mut numbers = Numbers(seed);
        let (hands, faults) = (numbers.below(7), numbers.below(5));
        let pace = *numbers.one(&[15, 60, 250]);
        let haste = *numbers.one(&[1, 3, 20]);
        Self { numbers, hands, faults, pace, haste, is_led }
    }

    fn act(&mut self, hands: usize) -> usize {
        self.hands -= 1;
        usize::try_from(self.numbers.below(hands as u64)).unwrap_or_default()
    }
}

impl Fate for Chance {
    fn disturbs(&self) -> bool {
        self.hands + self.faults > 0
    }

    fn hand(&mut self, hands: usize) -> Option<usize> {
        (self.hands > 0 && self.numbers.is(self.pace)).then(|| self.act(hands))
    }

    fn haste(&self) -> u64 {
        self.haste
    }

    fn next(&mut self, turns: &[Turn]) -> usize {
        self.numbers.weighed(&turns.iter().map(|turn| turn.weight).collect::<Vec<_>>())
    }

    fn begin(&mut self, _: Point) -> Option<Duration> {
        None
    }

    fn pause(&mut self) -> Option<Duration> {
        self.numbers.is(50).then(|| Duration::from_millis(self.numbers.below(5_000)))
    }

    fn news(&mut self) -> News {
        if self.faults > 0 && self.numbers.is(40) {
            self.faults -= 1;
            return if self.numbers.is(2) { News::Expired } else { News::Cut };
        }
        if self.disturbs() && self.numbers.is(30) {
            return News::Hangs(Duration::from_millis(self.numbers.below(20_000)));
        }
        News::Told
    }

    fn fault(&mut self, asked: &Asked) -> Option<Fault> {
        let rarity = if asked.is_write() { 12 } else { 80 };
        if self.faults == 0 || !self.numbers.is(rarity) {
            return None;
        }
        self.faults -= 1;
        if self.is_led && self.numbers.is(2) {
            let time = Duration::from_millis(self.numbers.below(40_000));
            return Some(if self.numbers.is(2) { Fault::Stopped(time) } else { Fault::CutOff(time) });
        }
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

    fn absence(&self) -> Duration {
        Duration::ZERO
    }

    fn lets_hang(&self) -> bool {
        false
    }

    fn patience(&mut self) -> Option<Duration> {
        (self.hands > 0).then(|| Duration::from_secs(self.numbers.within(1..900)))
    }

    fn stillness(&self) -> (Duration, (Duration, usize)) {
        let polled = Duration::from_mins(if self.is_led { 3 } else { 20 });
        (Duration::from_hours(5), (polled, 100))
    }

    fn rest(&mut self, hands: usize) -> Option<usize> {
        if self.hands > 0 {
            return Some(self.act(hands));
        }
        // Faults that have found nothing to disturb are over.
        self.faults = 0;
        None
    }
}

impl Numbers {
    /// A number of this range.
    fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// The index of one of these, by their weights.
    fn weighed(&mut self, weights: &[u64]) -> usize {
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
