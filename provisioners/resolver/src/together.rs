//! Upgrades that can only be made together. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use rukpak_catalog::Bundle;

use crate::{Catalog, Entry, Facts, Installed, Package, Request, World, resolve};

/// A package that is installed, and what could take its place.
#[derive(Clone, Debug)]
pub struct Mover {
    /// Who has it installed. Names are unique.
    pub name: String,
    /// The package.
    pub package: String,
    /// What is installed.
    pub installed: Installed,
    /// What may take its place, the preferred one first.
    pub next: Vec<Bundle>,
}

/// Finds what has to be upgraded so that `first` can be: whoever would lose what it needs, whoever has to provide what it needs, and so
/// on. Returns the bundle of each, that of `first` among them, by name of the mover; nothing if it cannot be upgraded, or can be alone.
///
/// `others` are installed and stay. What cannot be read of the movers is not chosen.
pub fn together(first: &str, movers: &[Mover], others: Vec<Installed>) -> BTreeMap<String, String> {
    let moving: Vec<Moving<'_>> = movers.iter().map(Moving::of).filter(|one| !one.next.is_empty()).collect();
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for one in &moving {
        let package = packages.entry(one.mover.package.clone()).or_default();
        package.channels.insert(one.mover.name.clone(), one.entries());
    }
    let catalogs = vec![Catalog { packages, ..Catalog::default() }];
    let installed = movers.iter().map(|mover| mover.installed.clone()).chain(others).collect();
    let requests: Vec<Request> = moving.iter().map(|one| one.request(first)).collect();
    let answer = resolve(&World { catalogs, installed, ..World::default() }, &requests);
    let taken = answer.steps.iter().filter_map(|step| {
        let one = moving.iter().find(|one| one.mover.name == step.bundle.channel)?;
        one.taking(&step.bundle.name)
    });
    let bound = bound_to(first, &taken.collect::<Vec<_>>());
    if bound.len() > 1 { bound } else { BTreeMap::new() }
}

/// A mover, with what can be read of what may take its place.
struct Moving<'a> {
    mover: &'a Mover,
    next: Vec<(&'a str, Arc<Facts>)>,
}

/// What takes the place of what.
struct Taken<'a> {
    name: &'a str,
    bundle: &'a str,
    old: &'a Facts,
    new: &'a Facts,
}

impl<'a> Moving<'a> {
    fn of(mover: &'a Mover) -> Self {
        let read = |bundle: &'a Bundle| Some((&*bundle.name, Arc::new(Facts::of(&mover.package, bundle).ok()?)));
        Self { mover, next: mover.next.iter().filter_map(read).collect() }
    }

    /// A channel in the order of preference. An edge leads to each from what is installed.
    fn entries(&self) -> Vec<Entry> {
        let less_preferred = self.next.iter().skip(1).map(|(name, _)| Some((*name).to_owned())).chain([None]);
        let entry = |((name, facts), replaces): (&(&str, Arc<Facts>), Option<String>)| Entry {
            name: (*name).to_owned(),
            replaces,
            skips: vec![self.mover.installed.name.clone()],
            facts: facts.clone(),
            ..Entry::default()
        };
        self.next.iter().zip(less_preferred).map(entry).collect()
    }

    /// Whoever is first chooses first: no name goes before an empty one.
    fn request(&self, first: &str) -> Request {
        let Mover { name, package, installed, .. } = self.mover;
        Request {
            name: if name == first { String::new() } else { name.clone() },
            package: package.clone(),
            channel: Some(name.clone()),
            installed: Some(installed.name.clone()),
            ..Request::default()
        }
    }

    fn taking(&self, bundle: &str) -> Option<Taken<'_>> {
        let (bundle, new) = self.next.iter().find(|(name, _)| *name == bundle)?;
        Some(Taken { name: &self.mover.name, bundle, old: &self.mover.installed.facts, new })
    }
}

impl Taken<'_> {
    /// Whether it cannot be without the other one: it needs what only that brings, or takes away what that one needs so far.
    fn takes(&self, other: &Self) -> bool {
        let is_brought = self.new.requires.iter().any(|need| other.new.meets(need) && !other.old.meets(need));
        let is_lost = other.old.requires.iter().any(|need| self.old.meets(need) && !self.new.meets(need));
        is_brought || is_lost
    }
}

/// The bundles that `first` takes, directly or not, with its own.
fn bound_to(first: &str, taken: &[Taken<'_>]) -> BTreeMap<String, String> {
    let mut bound = BTreeMap::new();
    let mut open: Vec<&Taken<'_>> = taken.iter().filter(|one| one.name == first).collect();
    while let Some(one) = open.pop() {
        if bound.insert(one.name.to_owned(), one.bundle.to_owned()).is_none() {
            open.extend(taken.iter().filter(|other| other.name != one.name && one.takes(other)));
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::bundle;

    fn installed(bundle: &Bundle) -> Installed {
        let package = bundle.name.split('.').next().unwrap();
        Installed { name: bundle.name.clone(), facts: Arc::new(Facts::of(package, bundle).unwrap()) }
    }

    fn mover(package: &str, now: &Bundle, next: &[Bundle]) -> Mover {
        let (name, package) = (format!("of-{package}"), package.to_owned());
        Mover { name, package, installed: installed(now), next: next.to_vec() }
    }

    fn found(first: &str, movers: &[Mover], others: Vec<Installed>) -> Vec<String> {
        together(first, movers, others).into_iter().map(|(name, bundle)| format!("{name}: {bundle}")).collect()
    }

    #[test]
    fn two_that_hold_each_other_go_together() {
        let locked = |package: &str, other: &str| {
            let version = |version: &str| bundle(package, version, &[(other, version)]);
            mover(package, &version("1.0.0"), &[version("2.0.0")])
        };
        let free = mover("free", &bundle("free", "1.0.0", &[]), &[bundle("free", "2.0.0", &[])]);
        let movers = [locked("p", "q"), free, locked("q", "p")];
        let both = ["of-p: p.v2.0.0", "of-q: q.v2.0.0"];
        assert_eq!(found("of-p", &movers, Vec::new()), both);
        assert_eq!(found("of-q", &movers, Vec::new()), both);
        assert!(found("of-free", &movers, Vec::new()).is_empty(), "it goes alone");
    }

    #[test]
    fn a_third_that_stays_holds_both() {
        let p = mover("p", &bundle("p", "1.0.0", &[("q", "<2.0.0")]), &[bundle("p", "2.0.0", &[("q", ">=2.0.0")])]);
        let q = mover("q", &bundle("q", "1.0.0", &[]), &[bundle("q", "2.0.0", &[])]);
        let movers = [p, q];
        assert_eq!(found("of-p", &movers, Vec::new()), ["of-p: p.v2.0.0", "of-q: q.v2.0.0"]);
        let stays = installed(&bundle("r", "1.0.0", &[("q", "<2.0.0")]));
        assert!(found("of-p", &movers, vec![stays]).is_empty());
    }

    #[test]
    fn what_is_needed_by_what_goes_along_goes_along() {
        let chain = [("p", "q"), ("q", "r")];
        let mut movers: Vec<Mover> = chain
            .into_iter()
            .map(|(package, needed)| {
                let version = |version: &str| bundle(package, version, &[(needed, version)]);
                mover(package, &version("1.0.0"), &[version("2.0.0")])
            })
            .collect();
        movers.push(mover("r", &bundle("r", "1.0.0", &[]), &[bundle("r", "2.0.0", &[])]));
        let all = ["of-p: p.v2.0.0", "of-q: q.v2.0.0", "of-r: r.v2.0.0"];
        for first in ["of-p", "of-q", "of-r"] {
            assert_eq!(found(first, &movers, Vec::new()), all, "{first}");
        }
    }

    #[test]
    fn the_preferred_version_that_all_can_do_with_is_taken() {
        let p = |version: &str, needed: &str| bundle("p", version, &[("q", needed)]);
        let movers = [
            mover("p", &p("1.0.0", "1.0.0"), &[p("3.0.0", "3.0.0"), p("2.0.0", "2.0.0")]),
            mover("q", &bundle("q", "1.0.0", &[]), &[bundle("q", "2.0.0", &[])]),
        ];
        assert_eq!(found("of-p", &movers, Vec::new()), ["of-p: p.v2.0.0", "of-q: q.v2.0.0"]);
    }

    #[test]
    fn what_cannot_be_read_stays() {
        let unreadable = bundle("q", "2.0.0", &[("p", "no range")]);
        let movers = [
            mover("p", &bundle("p", "1.0.0", &[("q", "1.0.0")]), &[bundle("p", "2.0.0", &[("q", "2.0.0")])]),
            mover("q", &bundle("q", "1.0.0", &[]), &[unreadable]),
        ];
        assert!(found("of-p", &movers, Vec::new()).is_empty());
    }
}
