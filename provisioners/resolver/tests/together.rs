//! Among packages that need each other, upgrades that go together are those that trying all of them finds, and no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rukpak_catalog::Bundle;
use rukpak_catalog::model::{Facts as Stated, RequiredPackage};
use rukpak_resolver::{Facts, Installed, Mover, together};

/// How many worlds.
const WORLDS: u32 = 5_000;
/// Packages of a world.
const PACKAGES: usize = 4;

/// Ranges, and which of the versions 1 to 3 are in each. All that is installed is of version 1: the first three hold it.
const RANGES: [(&str, [bool; 3]); 6] = [
    (">=1.0.0", [true, true, true]),
    ("1.0.0", [true, false, false]),
    ("<3.0.0", [true, true, false]),
    ("2.0.0", [false, true, false]),
    ("3.0.0", [false, false, true]),
    (">=2.0.0", [false, true, true]),
];

/// Packages, by number, and the range of each that is needed.
type Needs = Vec<(usize, usize)>;

/// What each version of a package needs, and whether there are versions above the first.
#[derive(Clone, Debug)]
struct Seed {
    needs: [Needs; 3],
    /// The preferred one first.
    next: Vec<usize>,
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let needs = |ranges: usize| prop::collection::vec((0..PACKAGES, 0..ranges), 0..=2);
    let next = prop::sample::select(vec![vec![], vec![2], vec![3], vec![3, 2]]);
    let seed = (needs(3), needs(RANGES.len()), needs(RANGES.len()), next);
    let seed = seed.prop_map(|(first, second, third, next)| Seed { needs: [first, second, third], next });
    prop::collection::vec(seed, PACKAGES).prop_map(|mut seeds| {
        for (own, seed) in seeds.iter_mut().enumerate() {
            for needs in &mut seed.needs {
                needs.retain(|(package, _)| *package != own);
            }
        }
        seeds
    })
}

fn name(package: usize) -> String {
    format!("p{package}")
}

fn bundle(package: usize, version: usize, needs: &[(usize, usize)]) -> Bundle {
    let required = |(package, range): &(usize, usize)| RequiredPackage {
        name: name(*package),
        range: RANGES[*range].0.to_owned(),
    };
    let version_text = format!("{version}.0.0");
    Bundle {
        name: format!("{}.v{version_text}", name(package)),
        version: version_text.parse().ok(),
        version_text,
        facts: Stated { requires_packages: needs.iter().map(required).collect(), ..Stated::default() },
        ..Bundle::default()
    }
}

fn movers(seeds: &[Seed]) -> Vec<Mover> {
    let mover = |(package, seed): (usize, &Seed)| {
        let now = bundle(package, 1, &seed.needs[0]);
        let facts = Arc::new(Facts::of(&name(package), &now).expect("it can be read"));
        let installed = Installed { name: now.name, facts };
        let next = seed.next.iter().map(|version| bundle(package, *version, &seed.needs[version - 1])).collect();
        Mover { name: name(package), package: name(package), installed, next }
    };
    seeds.iter().enumerate().map(mover).collect()
}

/// Whether all have what they need in these versions.
fn holds(seeds: &[Seed], versions: &[usize]) -> bool {
    let mut needs = seeds.iter().zip(versions).flat_map(|(seed, version)| &seed.needs[version - 1]);
    needs.all(|(package, range)| RANGES[*range].1[versions[*package] - 1])
}

/// All that the packages from `package` on can be in.
fn choices(seeds: &[Seed], package: usize) -> Vec<Vec<usize>> {
    let Some(seed) = seeds.get(package) else { return vec![Vec::new()] };
    let rest = choices(seeds, package + 1);
    let own = [1].into_iter().chain(seed.next.iter().copied());
    own.flat_map(|version| rest.iter().map(move |rest| [&[version], rest.as_slice()].concat())).collect()
}

/// The versions after the upgrades.
fn after(upgrades: &BTreeMap<String, String>) -> Vec<usize> {
    let of = |package| {
        let bundle = upgrades.get(&name(package))?;
        (1..=3).find(|version| bundle.ends_with(&format!(".v{version}.0.0")))
    };
    (0..PACKAGES).map(|package| of(package).unwrap_or(1)).collect()
}

fn check(seeds: &[Seed]) -> Result<bool, String> {
    let found = together(&name(0), &movers(seeds), Vec::new());
    let all = choices(seeds, 0);
    let is_possible = |version: &usize| all.iter().any(|choice| choice[0] == *version && holds(seeds, choice));
    let preferred = seeds[0].next.iter().copied().find(is_possible);
    let versions = after(&found);
    let Some(preferred) = preferred else {
        return if found.is_empty() { Ok(false) } else { Err(format!("{found:?}, and it cannot be upgraded")) };
    };
    if found.is_empty() {
        let mut alone = vec![1; PACKAGES];
        alone[0] = preferred;
        return if holds(seeds, &alone) { Ok(false) } else { Err("nothing, and it cannot go alone".to_owned()) };
    }
    if versions[0] != preferred || !holds(seeds, &versions) {
        return Err(format!(
            "{found:?}: it leaves somebody without what he needs, or version {preferred} is preferred"
        ));
    }
    for left in 1..PACKAGES {
        let mut fewer = versions.clone();
        fewer[left] = 1;
        if fewer != versions && holds(seeds, &fewer) {
            return Err(format!("{found:?}: {} need not go", name(left)));
        }
    }
    Ok(true)
}

#[test]
fn upgrades_that_go_together_are_those_that_trying_all_finds() {
    let mut runner = TestRunner::new(Config { cases: WORLDS, failure_persistence: None, ..Config::default() });
    let found = std::cell::Cell::new(0_u32);
    let outcome = runner.run(&seeds(), |seeds| {
        let is_found = check(&seeds).map_err(TestCaseError::fail)?;
        found.set(found.get() + u32::from(is_found));
        Ok(())
    });
    if let Err(problem) = outcome {
        panic!("{problem}");
    }
    eprintln!("{} of {WORLDS} worlds have upgrades that only go together", found.get());
    assert!(found.get() > WORLDS / 50, "{} of {WORLDS}", found.get());
}
