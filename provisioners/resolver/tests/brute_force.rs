//! On small random worlds the resolver finds what trying all sets of bundles finds, and its explanations are minimal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rukpak_resolver::{
    Answer, BundleId, Catalog, CatalogName, Entry, Fact, Facts, Installed, Package, Property, Request, World,
    newest_first, resolve,
};
use serde_json::json;

/// How many worlds.
const WORLDS: u32 = 20_000;

/// A bundle as the generator makes it, and as the reference reads it.
#[derive(Clone, Debug)]
struct Seed {
    package: usize,
    channel: usize,
    catalog: usize,
    number: usize,
    provides: BTreeSet<usize>,
    requires: BTreeSet<usize>,
    requires_package: Option<(usize, usize)>,
    skips_two: bool,
    is_prohibited: bool,
}

#[derive(Clone, Debug)]
struct Case {
    seeds: Vec<Seed>,
    /// Package and number of what is installed.
    installed: Vec<(usize, usize, BTreeSet<usize>, BTreeSet<usize>)>,
    /// Package and channel.
    requests: Vec<(usize, Option<usize>)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let apis = || prop::collection::btree_set(0..3_usize, 0..=1);
    let seed = (
        (0..3_usize, 0..2_usize, 0..2_usize, 2..5_usize),
        (apis(), apis(), prop::option::weighted(0.3, (0..3_usize, 2..5_usize))),
        (prop::bool::weighted(0.2), prop::bool::weighted(0.1)),
    );
    let seed = seed.prop_map(|((package, channel, catalog, number), (provides, requires, requires_package), flags)| {
        let (skips_two, is_prohibited) = flags;
        Seed { package, channel, catalog, number, provides, requires, requires_package, skips_two, is_prohibited }
    });
    let installed = (0..3_usize, 1..3_usize, apis(), apis());
    let request = (0..3_usize, prop::option::of(0..2_usize));
    let all = (
        prop::collection::vec(seed, 1..9),
        prop::collection::vec(installed, 0..=2),
        prop::collection::vec(request, 1..=3),
    );
    all.prop_map(|(mut seeds, mut installed, requests)| {
        let mut known = BTreeSet::new();
        seeds.retain(|seed| known.insert((seed.catalog, seed.package, seed.channel, seed.number)));
        let mut known = BTreeSet::new();
        installed.retain(|(package, ..)| known.insert(*package));
        Case { seeds, installed, requests }
    })
}

fn gvk(api: usize) -> serde_json::Value {
    json!({"group": "g", "version": "v1", "kind": format!("K{api}")})
}

fn bundle(package: usize, number: usize) -> String {
    format!("p{package}.v{number}")
}

fn facts(
    package: usize,
    number: usize,
    provides: &BTreeSet<usize>,
    requires: &BTreeSet<usize>,
    seed: Option<&Seed>,
) -> Arc<Facts> {
    let property = |kind: &str, value| Property { kind: kind.to_owned(), value };
    let mut properties = vec![property(
        "olm.package",
        json!({"packageName": format!("p{package}"), "version": format!("{number}.0.0")}),
    )];
    properties.extend(provides.iter().map(|api| property("olm.gvk", gvk(*api))));
    properties.extend(requires.iter().map(|api| property("olm.gvk.required", gvk(*api))));
    if let Some((package, least)) = seed.and_then(|seed| seed.requires_package) {
        let value = json!({"packageName": format!("p{package}"), "versionRange": format!(">={least}.0.0")});
        properties.push(property("olm.package.required", value));
    }
    if seed.is_some_and(|seed| seed.is_prohibited) {
        properties.push(property("olm.deprecated", json!({})));
    }
    let version = rukpak_catalog::Version::parse(&format!("{number}.0.0")).expect("a version");
    Arc::new(Facts::read(Some(version), properties).expect("readable properties"))
}

fn world(case: &Case) -> (World, Vec<Request>) {
    let mut catalogs: Vec<Catalog> = (0..2)
        .map(|index| Catalog {
            name: CatalogName { namespace: "ns".to_owned(), name: format!("c{index}") },
            ..Catalog::default()
        })
        .collect();
    for seed in &case.seeds {
        let package: &mut Package = catalogs[seed.catalog].packages.entry(format!("p{}", seed.package)).or_default();
        package.default_channel = Some("ch1".to_owned());
        package.channels.entry(format!("ch{}", seed.channel)).or_default().push(Entry {
            name: bundle(seed.package, seed.number),
            replaces: Some(bundle(seed.package, seed.number - 1)),
            skips: if seed.skips_two { vec![bundle(seed.package, seed.number - 2)] } else { Vec::new() },
            skip_range: None,
            is_deprecated: false,
            facts: facts(seed.package, seed.number, &seed.provides, &seed.requires, Some(seed)),
        });
    }
    let installed = case.installed.iter().map(|(package, number, provides, requires)| Installed {
        name: bundle(*package, *number),
        facts: facts(*package, *number, provides, requires, None),
    });
    let world = World { catalogs, installed: installed.collect(), namespace: "ns".to_owned() };
    let requests = case.requests.iter().enumerate().map(|(index, (package, channel))| Request {
        name: format!("r{index}"),
        package: format!("p{package}"),
        channel: channel.map(|channel| format!("ch{channel}")),
        installed: case.installed.iter().find(|(of, ..)| of == package).map(|(of, number, ..)| bundle(*of, *number)),
        ..Request::default()
    });
    let requests = requests.collect();
    (world, requests)
}

/// A bundle that the reference may choose: catalog (`None` if installed), package, channel, number.
type Key = (Option<usize>, usize, usize, usize);

/// The worlds once more, as plain sets.
struct Reference<'a> {
    case: &'a Case,
    keys: Vec<Key>,
}

impl<'a> Reference<'a> {
    fn of(case: &'a Case) -> Self {
        let installed = case.installed.iter().map(|(package, number, ..)| (None, *package, 0, *number));
        let offered = case.seeds.iter().map(|seed| (Some(seed.catalog), seed.package, seed.channel, seed.number));
        Self { case, keys: installed.chain(offered).collect() }
    }

    fn seed(&self, index: usize) -> Option<&Seed> {
        index.checked_sub(self.case.installed.len()).map(|index| &self.case.seeds[index])
    }

    fn provides(&self, index: usize) -> &BTreeSet<usize> {
        self.seed(index).map_or_else(|| &self.case.installed[index].2, |seed| &seed.provides)
    }

    fn requires(&self, index: usize) -> &BTreeSet<usize> {
        self.seed(index).map_or_else(|| &self.case.installed[index].3, |seed| &seed.requires)
    }

    /// The order of a channel, or nothing if it has none.
    fn channel(&self, world: &World, catalog: usize, package: usize, channel: usize) -> Option<Vec<usize>> {
        let (package_name, channel_name) = (format!("p{package}"), format!("ch{channel}"));
        let of = world.catalogs[catalog].packages.get(&package_name)?.channels.get(&channel_name)?;
        let order = newest_first(&package_name, &channel_name, of).ok()?;
        let index = |entry: &Entry| {
            (0..self.keys.len()).find(|index| {
                let (of, other, channel_of, number) = self.keys[*index];
                of == Some(catalog) && other == package && channel_of == channel && bundle(other, number) == entry.name
            })
        };
        order.into_iter().map(index).collect()
    }

    /// What each demand of a bundle can be met by, the preferred first.
    fn demands(&self, world: &World, index: usize) -> Vec<Vec<usize>> {
        let own = self.keys[index].0;
        let package_demand = self.seed(index).and_then(|seed| seed.requires_package);
        let by_package = package_demand.map(|demand| {
            self.providers(world, own, |other| self.keys[other].1 == demand.0 && self.keys[other].3 >= demand.1)
        });
        let by_api = self
            .requires(index)
            .iter()
            .map(|api| self.providers(world, own, |other| self.provides(other).contains(api)));
        by_api.chain(by_package).collect()
    }

    fn providers(&self, world: &World, own: Option<usize>, meets: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.case.installed.len()).filter(|index| meets(*index)).collect();
        let mut catalogs = vec![0, 1];
        catalogs.sort_by_key(|catalog| Some(*catalog) != own);
        for catalog in catalogs {
            // Default channels (1) of all packages go before the others.
            for channel in [1, 0] {
                for package in 0..3 {
                    let order = self.channel(world, catalog, package, channel).unwrap_or_default();
                    found.extend(order.into_iter().filter(|index| meets(*index)));
                }
            }
        }
        found
    }

    /// What a request can be met by; `None` if something stands against looking at all.
    fn candidates(&self, world: &World, request: (usize, Option<usize>)) -> Option<Vec<usize>> {
        let (package, asked) = request;
        let (mut found, mut any) = (Vec::new(), false);
        for catalog in 0..2 {
            for channel in [1, 0].into_iter().filter(|channel| asked.is_none_or(|asked| asked == *channel)) {
                let name = format!("ch{channel}");
                let offered = world.catalogs[catalog].packages.get(&format!("p{package}"));
                if offered.is_some_and(|offered| offered.channels.contains_key(&name)) {
                    match self.channel(world, catalog, package, channel) {
                        Some(order) => {
                            any = true;
                            found.extend(order);
                        }
                        None if asked.is_some() => return None,
                        None => {} // without an order: left out
                    }
                }
            }
        }
        if !any || found.is_empty() {
            return None;
        }
        let installed = (0..self.case.installed.len()).find(|index| self.keys[*index].1 == package);
        if let Some(old) = installed {
            let number = self.keys[old].3;
            found.retain(|index| {
                let seed = self.seed(*index).expect("offered");
                seed.number - 1 == number || seed.skips_two && seed.number - 2 == number
            });
            found.push(old);
        }
        Some(found)
    }

    fn is_solution(&self, set: u32, demands: &[Vec<Vec<usize>>]) -> bool {
        let chosen: Vec<usize> = (0..self.keys.len()).filter(|index| set & (1 << index) != 0).collect();
        let holds = |index: &usize| set & (1 << index) != 0;
        chosen.iter().all(|index| {
            !self.seed(*index).is_some_and(|seed| seed.is_prohibited)
                && demands[*index].iter().all(|candidates| candidates.iter().any(holds))
                && chosen.iter().all(|other| index == other || !self.are_rivals(*index, *other))
        })
    }

    /// Whether two bundles exclude each other. That two installed ones do is for whoever installed them.
    fn are_rivals(&self, one: usize, other: usize) -> bool {
        (self.seed(one).is_some() || self.seed(other).is_some())
            && (self.keys[one].1 == self.keys[other].1 || !self.provides(one).is_disjoint(self.provides(other)))
    }
}

/// The steps that trying everything finds, where nothing is broken and nothing refused.
fn try_everything(case: &Case, world: &World) -> Option<BTreeSet<usize>> {
    let reference = Reference::of(case);
    let demands: Vec<_> = (0..reference.keys.len()).map(|index| reference.demands(world, index)).collect();
    let asked: Option<Vec<_>> = case.requests.iter().map(|request| reference.candidates(world, *request)).collect();
    let asked = asked?;
    let is_followed = |index: &usize| case.requests.iter().any(|(package, _)| reference.keys[*index].1 == *package);
    let staying: Vec<usize> = (0..case.installed.len()).filter(|index| !is_followed(index)).collect();
    let solutions: Vec<u32> = (0..1_u32 << reference.keys.len())
        .filter(|set| staying.iter().all(|index| set & (1 << index) != 0))
        .filter(|set| asked.iter().all(|candidates| candidates.iter().any(|index| set & (1 << index) != 0)))
        .filter(|set| reference.is_solution(*set, &demands))
        .collect();
    if solutions.is_empty() {
        return None;
    }

    let mut open: VecDeque<Vec<usize>> = asked.into();
    let mut chosen = 0_u32;
    for index in staying {
        chosen |= 1 << index;
        open.extend(demands[index].iter().cloned());
    }
    while let Some(candidates) = open.pop_front() {
        if candidates.iter().any(|index| chosen & (1 << index) != 0) {
            continue;
        }
        let fits = |index: &&usize| solutions.iter().any(|set| set & (chosen | 1 << **index) == chosen | 1 << **index);
        let index = candidates.iter().find(fits)?;
        chosen |= 1 << index;
        open.extend(demands[*index].iter().cloned());
    }
    assert!(reference.is_solution(chosen, &demands), "the choices alone are a solution");
    Some((0..reference.keys.len()).filter(|index| chosen & (1 << index) != 0).collect())
}

fn key(id: &BundleId) -> Key {
    let number =
        |text: &str, prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.parse().ok()).expect("a number");
    let (package, version) = id.name.split_once('.').expect("a bundle's name");
    let catalog = id.catalog.as_ref().map(|catalog| number(&catalog.name, "c"));
    let channel = if catalog.is_some() { number(&id.channel, "ch") } else { 0 };
    (catalog, number(package, "p"), channel, number(version, "v"))
}

fn check(case: &Case) -> Result<(), String> {
    let (world, requests) = world(case);
    let answer = resolve(&world, &requests);
    let conflicts = answer.refusals.iter().map(|refusal| &refusal.facts).chain(&answer.broken);
    if let Some(problem) = conflicts.into_iter().find_map(|facts| minimal(facts).err()) {
        return Err(format!("{problem}\n{answer:#?}"));
    }
    let reference = Reference::of(case);
    steps_are_whole(&reference, &world, &answer)?;
    if !answer.broken.is_empty() {
        return Ok(()); // trying everything takes nothing for granted
    }
    match try_everything(case, &world) {
        None if answer.refusals.is_empty() => Err(format!("nothing can be found, and this was:\n{answer:#?}")),
        None => Ok(()),
        Some(_) if !answer.refusals.is_empty() => Err(format!("there is a solution, and this was found:\n{answer:#?}")),
        Some(chosen) => {
            let keys: BTreeSet<Key> =
                chosen.into_iter().map(|index| reference.keys[index]).filter(|key| key.0.is_some()).collect();
            let found: BTreeSet<Key> = answer.steps.iter().map(|step| key(&step.bundle)).collect();
            if keys == found { Ok(()) } else { Err(format!("{found:?} instead of {keys:?}")) }
        }
    }
}

/// Checks that what is installed anew has all that it needs, whatever is broken among the rest, and comes in no other's place.
fn steps_are_whole(reference: &Reference<'_>, world: &World, answer: &Answer) -> Result<(), String> {
    let index = |id: &BundleId| reference.keys.iter().position(|other| *other == key(id)).expect("one of the world's");
    let steps: Vec<usize> = answer.steps.iter().map(|step| index(&step.bundle)).collect();
    let replaced = |package: usize| steps.iter().any(|step| reference.keys[*step].1 == package);
    let staying = (0..reference.case.installed.len()).filter(|index| !replaced(reference.keys[*index].1));
    let all: BTreeSet<usize> = steps.iter().copied().chain(staying).collect();
    for step in &steps {
        let is_met = reference.demands(world, *step).iter().all(|demand| demand.iter().any(|one| all.contains(one)));
        let has_rival = all.iter().any(|other| other != step && reference.are_rivals(*step, *other));
        if !is_met || has_rival {
            return Err(format!("{:?} lacks something or has a rival\n{answer:#?}", reference.keys[*step]));
        }
    }
    Ok(())
}

/// Checks that the facts exclude each other, and that none can be left out.
fn minimal(facts: &[Fact]) -> Result<(), String> {
    if can_hold(facts.iter()) {
        return Err("the facts do not exclude each other".to_owned());
    }
    for left_out in facts {
        if !can_hold(facts.iter().filter(|fact| !std::ptr::eq(*fact, left_out))) {
            return Err(format!("{left_out:?} can be left out"));
        }
    }
    Ok(())
}

/// Where all of the first are, some of the second are; of the third at most one.
type Clause = (u32, u32, Option<u32>);

/// Whether some set of bundles and requests obeys all facts.
fn can_hold<'a>(facts: impl Iterator<Item = &'a Fact>) -> bool {
    let facts: Vec<&Fact> = facts.collect();
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut bit = |name: String| {
        let next = u32::try_from(names.len()).expect("few names");
        1_u32 << *names.entry(name).or_insert(next)
    };
    let mut clauses: Vec<Clause> = Vec::new();
    let union = |bundles: &[BundleId], bit: &mut dyn FnMut(String) -> u32| {
        bundles.iter().fold(0, |bits, bundle| bits | bit(bundle.to_string()))
    };
    for fact in facts {
        clauses.push(match fact {
            Fact::Asked { request } => (0, bit(request.clone()), None),
            Fact::Accepts { request, candidates } => (bit(request.clone()), union(candidates, &mut bit), None),
            Fact::NotFound { request, .. } => (bit(request.name.clone()), 0, None),
            Fact::Stays { bundle } => (0, bit(bundle.to_string()), None),
            Fact::Needs { bundle, candidates, .. } => (bit(bundle.to_string()), union(candidates, &mut bit), None),
            Fact::OnePerPackage { bundles, .. } | Fact::OneProvider { bundles, .. } => {
                (0, 0, Some(union(bundles, &mut bit)))
            }
            Fact::Prohibited { bundle } => (bit(bundle.to_string()), 0, None),
            Fact::Replaces { bundle, installed } => (0, 0, Some(bit(bundle.to_string()) | bit(installed.to_string()))),
        });
    }
    let obeys = |set: u32| {
        clauses.iter().all(|(all, some, most)| match most {
            Some(most) => (set & most).count_ones() <= 1,
            None => set & all != *all || set & some != 0,
        })
    };
    (0..1_u32 << names.len()).any(obeys)
}

#[test]
fn finds_what_trying_everything_finds() {
    // The runner prints the case that fails, and shrinks it.
    let mut runner = TestRunner::new(Config { cases: WORLDS, failure_persistence: None, ..Config::default() });
    let mut met = std::cell::Cell::new(0_u32);
    let refused = std::cell::Cell::new(0_u32);
    let outcome = runner.run(&cases(), |case| {
        let (world, requests) = world(&case);
        let Answer { refusals, .. } = resolve(&world, &requests);
        let count = if refusals.is_empty() { &met } else { &refused };
        count.set(count.get() + 1);
        check(&case).map_err(TestCaseError::fail)
    });
    if let Err(problem) = outcome {
        panic!("{problem}");
    }
    eprintln!("{WORLDS} worlds: all was met in {}, something refused in {}", met.get(), refused.get());
    assert!(*met.get_mut() > WORLDS / 20 && refused.get() > WORLDS / 20, "worlds of both kinds: {met:?}, {refused:?}");
}
