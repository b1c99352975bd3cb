//! Breadth first through all that may happen in a world, by the number of disturbances. The first violation is the shortest one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rukpak_plan::Fingerprint;

use crate::properties;
use crate::reconcile::{Disturbance, Ended, reconcile};
use crate::world::{Deployment, Small, World};

/// With faults over, rest comes within so many reconciles.
const REST: usize = 24;
/// Nothing new comes of one that changed nothing so often.
const STILL: u8 = 6;

/// The reconciles since something disturbed.
#[derive(Clone, Copy, Debug, Default)]
struct Quiet {
    /// That changed something.
    changes: u8,
    /// That changed nothing, in a row.
    still: u8,
}

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Disturbances in a history: acts of people, faults, restarts, views that are late.
    pub disturbances: u8,
    /// Whether people also act between two requests of a reconcile.
    pub races: bool,
    /// Whether requests fail too.
    pub faults: bool,
    pub time: Duration,
}

/// What a search has come to.
#[derive(Debug, Default)]
pub struct Found {
    pub states: usize,
    pub reconciles: usize,
    /// Steps of the longest history.
    pub depth: usize,
    /// Whether all of it was seen.
    pub is_whole: bool,
    /// Each violation with the shortest history that ends in it, in words.
    pub violations: BTreeMap<String, String>,
}

struct Node {
    parent: Option<u32>,
    words: Vec<String>,
    depth: u32,
}

struct Search {
    bounds: Bounds,
    seen: HashMap<u64, u8>,
    nodes: Vec<Node>,
    /// States from which nothing more disturbs, by the number of disturbances that are left.
    open: Vec<VecDeque<(World, u32, Quiet)>>,
    found: Found,
}

/// Looks at every world that `small` can become.
pub fn search(small: Small, bounds: Bounds) -> Found {
    let start = Instant::now();
    let mut search = Search {
        bounds,
        seen: HashMap::new(),
        nodes: vec![Node { parent: None, words: Vec::new(), depth: 0 }],
        open: vec![VecDeque::new(); usize::from(bounds.disturbances) + 1],
        found: Found::default(),
    };
    let world = World::new(small);
    search.seen.insert(canonical(&world), 0);
    search.open[0].push_back((world, 0, Quiet::default()));
    search.found.is_whole = true;
    while let Some((used, (world, node, quiet))) = search.next() {
        if start.elapsed() > bounds.time {
            search.found.is_whole = false;
            break;
        }
        search.expand(&world, node, used, quiet);
    }
    search.found.states = search.seen.len();
    search.found
}

impl Search {
    /// What has the fewest disturbances, and of that the oldest.
    fn next(&mut self) -> Option<(u8, (World, u32, Quiet))> {
        let mut levels = self.open.iter_mut().zip(0..);
        levels.find_map(|(open, level)| Some((level, open.pop_front()?)))
    }

    fn expand(&mut self, world: &World, node: u32, used: u8, quiet: Quiet) {
        let is_last = used == self.bounds.disturbances;
        for deployment in 0..world.deployments.len() {
            let ended = self.quiet(world, node, quiet, used, deployment);
            if is_last {
                continue;
            }
            if let Some(ended) = ended {
                self.disturbed(world, node, used, deployment, &ended);
            }
        }
        if is_last {
            return;
        }
        for hand in world.small.hands.iter().chain(&world.small.pauses) {
            let mut next = world.clone();
            (hand.act)(&mut next);
            let words = vec![hand.words.to_owned()];
            match next.lost.take() {
                Some(lost) => self.violated(node, words, &lost),
                None => self.take(next, node, used + 1, words),
            }
        }
        for controller in 0..world.controllers.len() {
            let mut next = world.clone();
            next.restart(controller);
            self.take(next, node, used + 1, vec!["the controller is restarted".to_owned()]);
        }
    }

    /// The next reconcile, to which nothing comes between. `None` if there is nothing to do.
    fn quiet(&mut self, world: &World, node: u32, quiet: Quiet, used: u8, deployment: usize) -> Option<Ended> {
        let controller = world.deployments[deployment].controller;
        if world.deployments[deployment].is_deleted {
            return None;
        }
        let mut next = world.clone();
        next.catch_up(controller);
        let Some(due) = due(&next, controller, deployment) else {
            if let Some(violation) =
                properties::of_state(&next, deployment).or_else(|| properties::of_rest(&next, deployment))
            {
                self.violated(node, vec!["nothing is to be done any more".to_owned()], &violation);
            }
            return None;
        };
        advance(&mut next, due);
        let ended = reconcile(&mut next, controller, deployment, None);
        self.found.reconciles += 1;
        let words = told(&next, deployment, world.now, &ended);
        let status = |world: &World| world.deployments[deployment].status.clone();
        // What is tried again after a minute and more may change something each time.
        let is_slow = due.duration_since(world.now).as_secs() >= 60;
        let is_still = is_slow || (next.server.objects == world.server.objects && status(&next) == status(world));
        let quiet =
            Quiet { changes: quiet.changes + u8::from(!is_still), still: if is_still { quiet.still + 1 } else { 0 } };
        next.catch_up(controller);
        let mut violation = ended.violation.clone();
        if !next.controllers[controller].known[deployment].is_due {
            violation = violation.or_else(|| properties::of_state(&next, deployment));
        }
        if usize::from(quiet.changes) > REST * world.deployments.len() {
            violation = violation.or_else(|| Some(format!("it changes something in more than {REST} reconciles")));
        }
        if let Some(violation) = violation {
            self.violated(node, words, &violation);
            return None;
        }
        // What is tried again ever more seldom, and changes nothing, is at rest.
        if quiet.still < STILL {
            self.keep(next, node, used, quiet, words);
        } else if let Some(violation) = properties::of_waiting(&next, deployment) {
            self.violated(node, words, &violation);
        }
        Some(ended)
    }

    /// The same, and at each of its requests something comes between.
    fn disturbed(&mut self, world: &World, node: u32, used: u8, deployment: usize, quiet: &Ended) {
        let controller = world.deployments[deployment].controller;
        for (number, is_write) in quiet.requests.iter().enumerate() {
            let hands = if self.bounds.races { world.small.hands.len() } else { 0 };
            let mut all: Vec<Disturbance> = (0..hands).map(Disturbance::Hand).collect();
            if self.bounds.faults {
                all.push(Disturbance::Unavailable);
            }
            if self.bounds.faults && *is_write {
                all.extend([Disturbance::Lost, Disturbance::Killed]);
            }
            for disturbance in all {
                self.with(world, node, used, (controller, deployment), Some((number, disturbance)));
            }
        }
        // It begins before its watches have told everything.
        if !world.controllers[controller].queue.is_empty() {
            self.with(world, node, used, (controller, deployment), None);
        }
    }

    fn with(
        &mut self,
        world: &World,
        node: u32,
        used: u8,
        (controller, deployment): (usize, usize),
        disturbance: Option<(usize, Disturbance)>,
    ) {
        let mut next = world.clone();
        let mut words = Vec::new();
        if disturbance.is_some() {
            next.catch_up(controller);
        } else {
            words.push("the watch is late".to_owned());
        }
        let Some(due) = due(&next, controller, deployment) else { return };
        advance(&mut next, due);
        let ended = reconcile(&mut next, controller, deployment, disturbance);
        self.found.reconciles += 1;
        words.extend(told(&next, deployment, world.now, &ended));
        match next.lost.take().as_ref().or(ended.violation.as_ref()) {
            Some(violation) => self.violated(node, words, violation),
            None => self.take(next, node, used + 1, words),
        }
    }

    /// Takes up what became of a disturbance.
    fn take(&mut self, next: World, node: u32, used: u8, mut words: Vec<String>) {
        if let Some(first) = words.first_mut() {
            first.insert_str(0, MARK);
        }
        self.keep(next, node, used, Quiet::default(), words);
    }

    fn keep(&mut self, next: World, node: u32, used: u8, quiet: Quiet, words: Vec<String>) {
        let id = canonical(&next);
        if self.seen.get(&id).is_some_and(|known| *known <= used) {
            return;
        }
        self.seen.insert(id, used);
        let depth = self.nodes[node as usize].depth + 1;
        self.found.depth = self.found.depth.max(depth as usize);
        let index = u32::try_from(self.nodes.len()).expect("because there are fewer states");
        self.nodes.push(Node { parent: Some(node), words, depth });
        self.open[usize::from(used)].push_back((next, index, quiet));
    }

    fn violated(&mut self, node: u32, last: Vec<String>, violation: &str) {
        if self.found.violations.contains_key(violation) {
            return;
        }
        let (mut steps, mut at) = (vec![last], Some(node));
        while let Some(index) = at {
            steps.push(self.nodes[index as usize].words.clone());
            at = self.nodes[index as usize].parent;
        }
        let mut text = String::new();
        let steps = steps.into_iter().rev().filter(|words| !words.is_empty());
        for (number, words) in steps.enumerate() {
            let _ = writeln!(text, "{:>3}. {}", number + 1, words.join("\n       "));
        }
        let _ = writeln!(text, "     {violation}");
        self.found.violations.insert(violation.to_owned(), text);
    }
}

/// Before what disturbs.
const MARK: &str = "! ";

/// When the next reconcile is; `None` if nothing is to be done.
fn due(world: &World, controller: usize, deployment: usize) -> Option<Timestamp> {
    let known = &world.controllers[controller].known[deployment];
    if known.is_due { Some(world.now) } else { known.next }
}

/// Time goes on. A reconcile that is late finds the time to be later.
fn advance(world: &mut World, until: Timestamp) {
    world.now = world.now.max(until);
    world.server.time = world.now.to_string();
}

fn told(world: &World, deployment: usize, before: Timestamp, ended: &Ended) -> Vec<String> {
    let name = &world.deployments[deployment].owner.name;
    let waited = world.now.duration_since(before).as_secs();
    let after = if waited > 0 { format!(" {waited} s later") } else { String::new() };
    let mut words = vec![format!("the controller reconciles {name:?}{after}")];
    words.extend(ended.story.iter().cloned());
    words
}

/// What makes two worlds the same: times are relative, versions are in order, and what is only told is left out.
fn canonical(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut versions: Vec<u64> = world.server.objects.values().map(|object| object.version).collect();
    for controller in &world.controllers {
        versions.extend(controller.seen.values().filter_map(|seen| seen.fingerprint.version));
        versions.extend(controller.queue.iter().map(|event| event.object.version));
        let tracked = controller.known.iter().flat_map(|known| known.inbox.objects.values());
        versions.extend(tracked.filter_map(|tracked| tracked.fingerprint.version));
    }
    versions.sort_unstable();
    versions.dedup();
    let rank = |version: u64| versions.binary_search(&version).unwrap_or_default();
    let fingerprint = |print: &Fingerprint| {
        let mut ranked = print.clone();
        ranked.version = print.version.map(|version| rank(version) as u64);
        format!("{ranked:?}")
    };
    for (key, object) in &world.server.objects {
        (
            key,
            rank(object.version),
            &object.uid,
            object.generation,
            object.is_terminating,
            &object.untidy,
            &object.value,
        )
            .hash(&mut hasher);
        for (manager, owned) in &object.managers {
            (manager, &owned.set).hash(&mut hasher);
        }
    }
    (&world.server.undeletable, &world.server.refused, world.is_granted).hash(&mut hasher);
    for this in &world.deployments {
        hash_deployment(this, world.now, &mut hasher);
    }
    for controller in &world.controllers {
        for (key, seen) in &controller.seen {
            (key, fingerprint(&seen.fingerprint), &seen.owner.uid, seen.has_controller, seen.sharers.len())
                .hash(&mut hasher);
        }
        for event in &controller.queue {
            (&event.key, rank(event.object.version), event.is_gone).hash(&mut hasher);
        }
        for known in &controller.known {
            // Clocks are not put back here.
            let mut memory = (*known.memory).clone();
            memory.looked_at = None;
            relative(&format!("{memory:?} {:?} {:?}", known.next, known.failing_since), world.now).hash(&mut hasher);
            let tracked = &known.inbox;
            for (key, object) in &tracked.objects {
                let is_healthy = object.health.is_healthy();
                (key, fingerprint(&object.fingerprint), is_healthy, object.is_read).hash(&mut hasher);
            }
            (&tracked.drifted, &tracked.declined, &tracked.gone, &tracked.missing_groups, &known.blocking)
                .hash(&mut hasher);
            (&tracked.leaving, tracked.has_left, &tracked.unread).hash(&mut hasher);
            (tracked.is_unblocked, known.is_touched, known.is_due).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The deployment without when its conditions changed.
fn hash_deployment(this: &Deployment, now: Timestamp, hasher: &mut DefaultHasher) {
    let mut status = (*this.status).clone();
    for condition in &mut status.conditions {
        condition.last_transition_time = Timestamp::UNIX_EPOCH;
        condition.observed_generation = None;
    }
    let status = relative(&format!("{status:?}"), now);
    let spec = format!("{:?} {:?}", this.spec, this.annotations);
    let current = Some(this.generation) == this.status.observed_generation;
    (
        this.has_dependencies,
        this.template,
        this.is_unpacked,
        this.generation,
        current,
        this.is_deleted,
        this.controller,
        status,
        spec,
    )
        .hash(hasher);
    (this.has_finalizer, this.is_terminating, &this.asked).hash(hasher);
}

/// The text with every time in it as seconds from now; those that are long past are all the same.
fn relative(text: &str, now: Timestamp) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("20").filter(|at| rest[*at..].len() >= 20) {
        let end = rest[at..].find('Z').map(|end| at + end + 1).filter(|end| end - at <= 30);
        let time = end.and_then(|end| rest[at..end].parse::<Timestamp>().ok());
        if let (Some(time), Some(end)) = (time, end) {
            told.push_str(&rest[..at]);
            let seconds = time.duration_since(now).as_secs();
            let _ = write!(told, "{}", if seconds < -600 { -601 } else { seconds });
            rest = &rest[end..];
        } else {
            told.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
        }
    }
    told.push_str(rest);
    told
}
