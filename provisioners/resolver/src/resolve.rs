//! The preferred solution.

use std::collections::{BTreeSet, HashSet, VecDeque};

use crate::answer::{Answer, Fact, Need, Refusal, Step};
use crate::oracle::RuleId;
use crate::rules::{Rules, Source};
use crate::world::{Nodes, Place};
use crate::{Request, World};

/// Finds what has to be installed so that all requests are met that can be, and why the others cannot.
///
/// Choices are made in the order in which they arise: first each request, by name, then what the chosen bundles need, one after
/// the other. Each takes its first candidate with which all rules can still hold; a choice that an earlier one meets already adds
/// nothing. So early choices win over small results, as in OLM v0, and nothing is left to chance.
///
/// Requests that exclude each other are all refused, and hold back no others. What is installed and breaks a rule by itself is
/// taken as it is. Nothing is ever removed but for its successor.
pub fn resolve(world: &World, requests: &[Request]) -> Answer {
    let mut sorted = requests.to_vec();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    let mut search = Search::new(Rules::of(Nodes::of(world), &sorted));
    search.accept_what_is_broken();
    if !search.can_meet_all() {
        search.refuse_what_cannot_be();
        search.refuse_what_excludes_each_other();
    }
    let chosen = search.choose();
    search.answer(&chosen)
}

struct Search<'w> {
    rules: Rules<'w>,
    /// By number of the request.
    is_active: Vec<bool>,
    /// Needs that do not count, because what is installed breaks them.
    ignored: BTreeSet<RuleId>,
    /// The conflict that each of them is in.
    broken: Vec<Vec<Fact>>,
    refusals: Vec<Refusal>,
}

impl<'w> Search<'w> {
    fn new(rules: Rules<'w>) -> Self {
        let is_active = vec![true; rules.requests.len()];
        Self { rules, is_active, ignored: BTreeSet::new(), broken: Vec::new(), refusals: Vec::new() }
    }

    /// Ignores the needs of installed bundles that nothing can meet, for example because somebody deleted what met them. Each conflict
    /// without a request has one: rules that exclude bundles never speak of two installed ones.
    fn accept_what_is_broken(&mut self) {
        let installed = self.rules.nodes.world.installed.len();
        loop {
            let rules = self.counting(|_| false, |_| true);
            let core = self.rules.oracle.smallest_conflict(&rules);
            let is_need_of_installed =
                |rule: &&RuleId| matches!(self.rules.sources[**rule], Source::Needs { node, .. } if node < installed);
            let needs: Vec<RuleId> = core.iter().filter(is_need_of_installed).copied().collect();
            if needs.is_empty() {
                debug_assert!(core.is_empty(), "only needs can break what is installed");
                return;
            }
            self.broken.push(core.iter().map(|rule| self.rules.fact(*rule)).collect());
            self.ignored.extend(needs);
        }
    }

    fn can_meet_all(&mut self) -> bool {
        let rules = self.active_rules();
        self.rules.oracle.is_possible(&rules, &[])
    }

    /// Refuses each request that could not be met even if nobody else asked for anything.
    fn refuse_what_cannot_be(&mut self) {
        let followed = self.followed();
        for request in 0..self.rules.requests.len() {
            let rules = self.counting(|of| of == request, |node| !followed.contains(&node));
            let core = self.rules.oracle.smallest_conflict(&rules);
            if !core.is_empty() {
                self.refuse(&core);
            }
        }
    }

    fn refuse_what_excludes_each_other(&mut self) {
        loop {
            let rules = self.active_rules();
            let core = self.rules.oracle.smallest_conflict(&rules);
            if core.is_empty() {
                return;
            }
            self.refuse(&core);
        }
    }

    /// Gives up the requests that a conflict speaks of.
    fn refuse(&mut self, core: &[RuleId]) {
        let asked = |rule: &RuleId| match self.rules.sources[*rule] {
            Source::Asked(request) => Some(request),
            _ => None,
        };
        let blamed: Vec<usize> = core.iter().filter_map(asked).collect();
        debug_assert!(!blamed.is_empty(), "what is installed does not contradict itself");
        let names = blamed.iter().map(|request| self.rules.requests[*request].name.clone()).collect();
        let facts = core.iter().map(|rule| self.rules.fact(*rule)).collect();
        self.refusals.push(Refusal { requests: names, facts });
        for request in blamed {
            self.is_active[request] = false;
        }
    }

    /// The rules that count once it is known which requests are met.
    fn active_rules(&self) -> Vec<RuleId> {
        let followed = self.followed();
        let is_active = self.is_active.clone();
        self.counting(move |request| is_active[request], move |node| !followed.contains(&node))
    }

    /// Installed bundles of the requests that are met: a successor may take their place.
    fn followed(&self) -> BTreeSet<usize> {
        (0..self.rules.requests.len())
            .filter(|request| self.is_active[*request])
            .filter_map(|request| self.rules.installed_of(request))
            .collect()
    }

    fn counting(&self, is_asked: impl Fn(usize) -> bool, does_stay: impl Fn(usize) -> bool) -> Vec<RuleId> {
        let counts = |rule: &RuleId| match &self.rules.sources[*rule] {
            Source::Asked(request) => is_asked(*request),
            Source::Stays(node) => does_stay(*node),
            _ => !self.ignored.contains(rule),
        };
        (0..self.rules.sources.len()).filter(counts).collect()
    }

    /// Makes the choices; see [`resolve`].
    ///
    /// Nearly always each choice can have its first candidate that no earlier one excludes. That takes one question to the solver, and
    /// what it finds is the same: if the whole can hold, so can each of its beginnings.
    fn choose(&mut self) -> BTreeSet<usize> {
        let rules = self.active_rules();
        self.rules.oracle.settle(&rules);
        let first = self.choose_by(|rules, chosen, candidate| !rules.excludes(chosen, candidate));
        if let Some(first) = first
            && self.rules.can_hold(&first)
        {
            return first.into_iter().collect();
        }
        let exact = self.choose_by(|rules, chosen, candidate| {
            let all: Vec<usize> = chosen.iter().copied().chain([candidate]).collect();
            rules.can_hold(&all)
        });
        debug_assert!(exact.is_some(), "the rules can hold, so each choice has a candidate");
        exact.unwrap_or_default().into_iter().collect()
    }

    /// Makes each choice by its first candidate that `can_join` those that are chosen. `None` if one has none.
    fn choose_by(&mut self, mut can_join: impl FnMut(&mut Rules<'w>, &[usize], usize) -> bool) -> Option<Vec<usize>> {
        let followed = self.followed();
        let mut open: VecDeque<Vec<usize>> = VecDeque::new();
        for source in &self.rules.sources {
            if let Source::Accepts(request, found) = source
                && self.is_active[*request]
            {
                open.push_back(found.clone());
            }
        }
        let (mut chosen, mut is_chosen) = (Vec::new(), HashSet::new());
        let staying: Vec<usize> = self.rules.stays.keys().copied().filter(|node| !followed.contains(node)).collect();
        for node in staying {
            open.extend(self.needs_of(node));
            chosen.push(node);
            is_chosen.insert(node);
        }
        while let Some(candidates) = open.pop_front() {
            if candidates.iter().any(|candidate| is_chosen.contains(candidate)) {
                continue;
            }
            let candidate = candidates.into_iter().find(|candidate| can_join(&mut self.rules, &chosen, *candidate))?;
            chosen.push(candidate);
            is_chosen.insert(candidate);
            open.extend(self.needs_of(candidate));
        }
        Some(chosen)
    }

    fn needs_of(&self, node: usize) -> Vec<Vec<usize>> {
        let rules = self.rules.needs.get(&node).into_iter().flatten();
        let counting = rules.filter(|rule| !self.ignored.contains(rule));
        counting
            .filter_map(|rule| match &self.rules.sources[*rule] {
                Source::Needs { candidates, .. } => Some(candidates.clone()),
                _ => None,
            })
            .collect()
    }

    fn answer(self, chosen: &BTreeSet<usize>) -> Answer {
        let is_new = |node: &&usize| matches!(self.rules.nodes.all[**node].place, Place::Offered { .. });
        let reasons = self.reasons(chosen);
        let mut steps: Vec<Step> = chosen.iter().filter(is_new).map(|node| self.step(*node, &reasons)).collect();
        steps.sort_by(|one, other| one.bundle.name.cmp(&other.bundle.name));
        Answer {
            steps,
            refusals: self.refusals,
            broken: self.broken,
            remarks: self.rules.remarks.into_iter().collect(),
        }
    }

    /// The rules because of which bundles are chosen: few of all that were looked at.
    fn reasons(&self, chosen: &BTreeSet<usize>) -> Vec<&Source> {
        let counts = |source: &&Source| match source {
            Source::Accepts(request, _) => self.is_active[*request],
            Source::Needs { node, .. } => chosen.contains(node),
            _ => false,
        };
        self.rules.sources.iter().filter(counts).collect()
    }

    fn step(&self, node: usize, reasons: &[&Source]) -> Step {
        let (mut requests, mut needed_by, mut replaced) = (BTreeSet::new(), BTreeSet::new(), None);
        for source in reasons {
            match source {
                Source::Accepts(request, found) if found.contains(&node) => {
                    requests.insert(self.rules.requests[*request].name.clone());
                    replaced = replaced.or(self.rules.installed_of(*request));
                }
                Source::Needs { node: needing, constraint, candidates }
                    if *needing != node && candidates.contains(&node) =>
                {
                    let bundle = self.rules.nodes.all[*needing].name.to_owned();
                    needed_by.insert(Need { bundle, what: self.rules.what(*needing, *constraint) });
                }
                _ => {}
            }
        }
        let replaced = replaced.map(|installed| self.rules.nodes.all[installed].name.to_owned());
        let Place::Offered { entry, .. } = self.rules.nodes.all[node].place else {
            unreachable!("only new bundles are steps")
        };
        Step {
            bundle: self.rules.id(node),
            replaces: replaced.or_else(|| entry.replaces.clone()),
            requests: requests.into_iter().collect(),
            needed_by: needed_by.into_iter().collect(),
        }
    }
}
