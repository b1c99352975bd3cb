//! A history that is written down: the course of a story, and what disturbs it at which step.

use std::time::Duration;

use crate::fate::{Fate, Fault, News, Point, Turn};
use crate::story::Story;
use crate::wire::Asked;

/// So long a watch hangs, and so late a Bundle is unpacked.
const LATE: Duration = Duration::from_mins(10);

/// Nothing that is tried again comes later for the first time.
const STILL: Duration = Duration::from_mins(16);

/// Where processes renew a Lease, that costs a request every two seconds.
const STILL_LED: Duration = Duration::from_mins(2);

/// What a story has that may disturb.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// So many hands may act.
    pub hands: usize,
    /// There are several processes, of which one may stand still while another works.
    pub has_others: bool,
}

/// What disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Somebody acts before the step.
    Hand(usize),
    Fault(Fault),
    /// The process is killed after the request, and the next one begins minutes later.
    Away,
    News(News),
    /// The Bundle is unpacked minutes later.
    Late,
}

use Disturbance::{Away, Hand, Late};

const OF_WRITES: [Disturbance; 6] = [
    Disturbance::Fault(Fault::Unavailable),
    Disturbance::Fault(Fault::Conflict),
    Disturbance::Fault(Fault::Lost),
    Disturbance::Fault(Fault::KilledBefore),
    Disturbance::Fault(Fault::KilledAfter),
    Away,
];
/// Where there are several processes. A Lease is over before that.
const OF_SEVERAL: [Disturbance; 2] = [
    Disturbance::Fault(Fault::Stopped(Duration::from_secs(40))),
    Disturbance::Fault(Fault::CutOff(Duration::from_secs(40))),
];
/// What the server has is not another after a read: whoever is killed then might as well be killed before the next one.
const OF_READS: [Disturbance; 2] = [Disturbance::Fault(Fault::Unavailable), Disturbance::Fault(Fault::KilledBefore)];
const OF_NEWS: [Disturbance; 3] =
    [Disturbance::News(News::Cut), Disturbance::News(News::Expired), Disturbance::News(News::Hangs(LATE))];

impl Point {
    /// All that may disturb it.
    fn disturbances(self, Means { hands, has_others }: Means) -> Vec<Disturbance> {
        let of_several = if has_others && self == Self::Write { &OF_SEVERAL[..] } else { &[] };
        let (own, hands): (&[Disturbance], usize) = match self {
            Self::Write => (&OF_WRITES, hands),
            Self::Read => (&OF_READS, hands),
            Self::News => (&OF_NEWS, 0),
            Self::Unpack => (&[Late], hands),
            Self::Other => (&[], 0),
            Self::Rest => (&[], hands),
        };
        own.iter().chain(of_several).copied().chain((0..hands).map(Hand)).collect()
    }
}

/// The disturbances of a history, each with the number of its step, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(pub Vec<(usize, Disturbance)>);

impl Script {
    /// Every disturbance that may come after the others. `points`: what the steps were.
    pub fn next<'a>(&self, points: &'a [Point], means: Means) -> impl Iterator<Item = (usize, Disturbance)> + use<'a> {
        let first = self.0.last().map_or(0, |(step, _)| step + 1);
        let all = points.iter().enumerate().skip(first);
        all.flat_map(move |(step, point)| point.disturbances(means).into_iter().map(move |one| (step, one)))
    }

    pub fn with(&self, one: (usize, Disturbance)) -> Self {
        Self(self.0.iter().copied().chain([one]).collect())
    }
}

/// Follows a script. Where nothing disturbs, what is asked is answered first, then watches are told what happened first.
pub struct Following<'a> {
    script: &'a Script,
    /// How many of its disturbances are over.
    done: usize,
    /// What the steps were so far.
    pub points: Vec<Point>,
    /// So many hands of the course have acted, of so many.
    course: (usize, usize),
    is_away: bool,
    still: Duration,
}

impl<'a> Following<'a> {
    pub fn new(script: &'a Script, story: &Story) -> Self {
        let still = if story.is_led { STILL_LED } else { STILL };
        Self { script, done: 0, points: Vec::new(), course: (0, story.course.len()), is_away: false, still }
    }

    /// Takes what disturbs the step that has begun, or else one before which nobody could act.
    fn take<T>(&mut self, read: impl Fn(Disturbance) -> Option<T>) -> Option<T> {
        let (step, disturbance) = self.script.0.get(self.done)?;
        let found = read(*disturbance).filter(|_| *step < self.points.len())?;
        self.done += 1;
        Some(found)
    }
}

impl Fate for Following<'_> {
    fn disturbs(&self) -> bool {
        self.done < self.script.0.len() || self.course.0 < self.course.1
    }

    fn hand(&mut self, _: usize) -> Option<usize> {
        let (step, disturbance) = self.script.0.get(self.done)?;
        let Hand(hand) = disturbance else { return None };
        (*step <= self.points.len()).then(|| {
            self.done += 1;
            *hand
        })
    }

    fn haste(&self) -> u64 {
        1
    }

    fn next(&mut self, turns: &[Turn]) -> usize {
        let first = turns.iter().enumerate().min_by_key(|(_, turn)| turn.place);
        first.map_or(0, |(index, _)| index)
    }

    fn begin(&mut self, point: Point) -> Option<Duration> {
        self.points.push(point);
        self.take(|disturbance| (disturbance == Late).then_some(LATE))
    }

    fn pause(&mut self) -> Option<Duration> {
        None
    }

    fn news(&mut self) -> News {
        let news = |disturbance| if let Disturbance::News(news) = disturbance { Some(news) } else { None };
        self.take(news).unwrap_or(News::Told)
    }

    fn fault(&mut self, _: &Asked) -> Option<Fault> {
        let (fault, is_away) = self.take(|disturbance| match disturbance {
            Disturbance::Fault(fault) => Some((fault, false)),
            Away => Some((Fault::KilledAfter, true)),
            _ => None,
        })?;
        self.is_away = is_away;
        Some(fault)
    }

    fn absence(&self) -> Duration {
        if self.is_away { LATE } else { Duration::ZERO }
    }

    fn lets_hang(&self) -> bool {
        true
    }

    fn patience(&mut self) -> Option<Duration> {
        None
    }

    fn stillness(&self) -> (Duration, (Duration, usize)) {
        (self.still, (self.still, 0))
    }

    fn rest(&mut self, hands: usize) -> Option<usize> {
        let hand = self.hand(hands);
        self.points.push(Point::Rest);
        hand.or_else(|| {
            (self.course.0 < self.course.1).then(|| {
                self.course.0 += 1;
                hands + self.course.0 - 1
            })
        })
    }
}
