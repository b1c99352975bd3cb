use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::Package;
use crate::choose::fixture::{channel, name, of, package};
use crate::choose::{Choice, Request};
use crate::version::Range;

fn findings(line: &str) -> String {
    check(&channel(line)).map_or_else(|error| error.to_string(), |()| "valid".to_owned())
}

#[test]
fn channels_are_judged_as_opm_judges_them() {
    const TABLE: &[(&str, &str)] = &[
        ("one: 1.0.0", "valid"),
        ("chain: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0", "valid"),
        ("tail outside: 1.0.0 replaces 0.9.0; 1.1.0 replaces 1.0.0", "valid"),
        ("skips of nobody: 1.0.0 skips 7.7.7", "valid"),
        ("fan in: 1.0.0; 1.1.0; 1.2.0 replaces 1.0.0 skips 1.1.0", "valid"),
        ("only skips: 1.0.0; 1.1.0 skips 1.0.0; 1.2.0 skips 1.1.0; 1.3.0 replaces 1.2.0", "valid"),
        ("skipped twice: 1.0.0; 1.1.0 skips 1.0.0; 1.2.0 replaces 1.1.0 skips 1.0.0", "valid"),
        // The walk ends at 1.1.0, which is skipped.
        (
            "below a skipped one: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0 skips 1.1.0",
            "channel contains one or more stranded bundles: p.v1.0.0",
        ),
        ("all below skipped: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0 skips 1.1.0 skips 1.0.0", "valid"),
        (
            "stranded: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 skips 1.1.0",
            "channel contains one or more stranded bundles: p.v1.0.0",
        ),
        (
            "two stranded: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0; 1.3.0 skips 1.2.0",
            "channel contains one or more stranded bundles: p.v1.0.0, p.v1.1.0",
        ),
        ("none:", "no channel head found in graph"),
        ("itself: 1.0.0 replaces 1.0.0", "no channel head found in graph"),
        ("skips itself: 1.0.0; 1.1.0 replaces 1.0.0 skips 1.1.0", "no channel head found in graph"),
        ("round: 1.0.0 replaces 1.1.0; 1.1.0 replaces 1.0.0", "no channel head found in graph"),
        ("two heads: 1.1.0; 1.0.0", "multiple channel heads found in graph: p.v1.0.0, p.v1.1.0"),
        ("a range is no edge: 1.0.0; 1.1.0 range <1.1.0", "multiple channel heads found in graph: p.v1.0.0, p.v1.1.0"),
        (
            "no hops: 1.0.0 replaces 1.0.0; 1.1.0 replaces 1.0.0",
            "detected cycle in replaces chain of upgrade graph: p.v1.0.0 -> p.v1.0.0",
        ),
        (
            "hops: 1.0.0 replaces 1.2.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0; 1.3.0 replaces 1.2.0",
            "detected cycle in replaces chain of upgrade graph: p.v1.2.0 -> p.v1.1.0 -> p.v1.0.0 -> p.v1.2.0",
        ),
    ];
    for (line, expected) in TABLE {
        assert_eq!(findings(line), *expected, "{line}");
    }
}

/// Each fault of the package, which a second channel does not hide.
fn faults_of(text: &str, change: impl FnOnce(&mut Package)) -> Vec<String> {
    let mut package = package(&format!("{text}\n other: 1.0.0"));
    change(&mut package);
    faults(&package).into_iter().collect()
}

#[test]
fn faults_of_a_package_are_told_in_the_words_of_opm() {
    let whole = |_: &mut Package| ();
    let place = "invalid package \"p\": invalid channel \"d\": ";
    assert_eq!(faults_of("d: 1.0.0; 1.1.0 replaces 1.0.0 range <1.1.0", whole), Vec::<String>::new());
    for (channel, problem) in [
        ("d:", "channel must contain at least one bundle"),
        ("d: 1.0.0 replaces 1.0.0", "no channel head found in graph"),
        ("d: 1.1.0; 1.0.0", "multiple channel heads found in graph: p.v1.0.0, p.v1.1.0"),
    ] {
        assert_eq!(faults_of(channel, whole), [format!("{place}{problem}")], "{channel}");
    }
    let ranged = faults_of("d: 1.0.0 range ^1.0", whole);
    let start = format!("{place}invalid bundle \"p.v1.0.0\": invalid skipRange \"^1.0\": ");
    assert!(ranged.len() == 1 && ranged[0].starts_with(&start), "{ranged:?}");
    let skips_nothing = |package: &mut Package| {
        package.channels.get_mut("d").unwrap().entries[0].skips.push(String::new());
    };
    let skip = format!("{place}invalid bundle \"p.v1.0.0\": skip[0] is empty");
    assert_eq!(faults_of("d: 1.0.0", skips_nothing), [skip]);
    let twice = "invalid package \"p\", channel \"d\": duplicate entry \"p.v1.0.0\"";
    assert_eq!(faults_of("d: 1.0.0; 1.0.0", whole), [twice]);
}

#[test]
fn bundles_and_a_default_channel_that_are_not_there_are_faults() {
    let pruned = |package: &mut Package| {
        package.bundles.clear();
    };
    let missing = "no olm.bundle blobs found in package \"p\" for olm.channel entries [p.v1.0.0 p.v1.1.0]";
    assert_eq!(faults_of("d: 1.0.0; 1.1.0 replaces 1.0.0", pruned), [missing]);
    let renamed = |package: &mut Package| {
        package.default_channel = Some("gone".to_owned());
    };
    let absent = "invalid package \"p\": invalid channel \"gone\": channel must contain at least one bundle: it is the default \
                  channel and is not in the catalog";
    assert_eq!(faults_of("d: 1.0.0", renamed), [absent]);
}

#[test]
fn the_head_is_what_nothing_leads_on_from() {
    assert_eq!(head(&channel("c: 2.0.0; 1.0.0; 3.0.0 replaces 1.0.0 skips 2.0.0")), Ok("p.v3.0.0"));
    assert_eq!(head(&channel("c: 1.0.0; 1.0.0")), Ok("p.v1.0.0"), "an entry twice is still one head");
}

/// The version of the bundle one step on, or `-`.
fn step(package: &Package, from: &str, channel: &str, range: &str) -> String {
    let version = Version::parse(from).ok();
    let installed = Installed { name: &name(from), version: version.as_ref() };
    let choice = successor(package, installed, &request(channel, range));
    choice.map_or_else(|| "-".to_owned(), |choice| choice.bundle.version_text.clone())
}

fn request(channel: &str, range: &str) -> Request {
    Request {
        channel: (!channel.is_empty()).then(|| channel.to_owned()),
        range: (!range.is_empty()).then(|| Range::parse(range).unwrap()),
    }
}

fn path(package: &Package, from: &str, request: &Request) -> Vec<String> {
    let version = Version::parse(from).ok();
    let path = upgrade_path(package, Installed { name: &name(from), version: version.as_ref() }, request);
    path.iter().map(|name| name.trim_start_matches("p.v").to_owned()).collect()
}

#[test]
fn one_edge_is_one_step() {
    let package = package(
        "stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0; 1.3.0 replaces 1.2.0 range >=1.1.5 <1.3.0
         fast: 1.0.0; 1.1.0 replaces 1.0.0; 1.3.0 replaces 1.1.0 skips 1.0.0; 2.0.0 replaces 1.3.0
         z: 1.0.0; 1.0.1 range >=1.0.0 <1.0.1; 1.0.2 replaces 0.9.0 range >=1.0.0 <1.0.2; 1.0.3 range broken
         down: 1.2.0; 1.1.0 replaces 1.2.0 range >=1.0.0
         itself: 1.0.0 replaces 1.0.0 skips 1.0.0 range <=1.0.0",
    );
    let table = [
        // Along replaces, one at a time.
        ("stable", "1.0.0", "", "1.1.0"),
        ("stable", "1.1.0", "", "1.2.0"),
        // A range as well as an edge by name; the installed bundle needs not be in the catalog.
        ("stable", "1.2.0", "", "1.3.0"),
        ("stable", "1.1.7", "", "1.3.0"),
        ("stable", "1.1.4", "", "-"),
        ("stable", "1.3.0", "", "-"),
        ("stable", "9.9.9", "", "-"),
        // The range that is asked for.
        ("stable", "1.0.0", ">=1.2.0", "-"),
        ("stable", "1.0.0", "<1.2.0", "1.1.0"),
        ("stable", "1.1.0", "<1.2.0", "-"),
        // skips is an edge; of two the higher.
        ("fast", "1.0.0", "", "1.3.0"),
        ("fast", "1.0.0", "<1.3.0", "1.1.0"),
        ("fast", "1.3.0", "", "2.0.0"),
        // z-stream; by name from one that is gone; a range that cannot be read is no edge.
        ("z", "1.0.0", "", "1.0.2"),
        ("z", "1.0.1", "", "1.0.2"),
        ("z", "0.9.0", "", "1.0.2"),
        ("z", "1.0.2", "", "-"),
        // Never down, never in place.
        ("down", "1.2.0", "", "-"),
        ("down", "1.3.0", "", "-"),
        ("down", "1.0.0", "", "1.1.0"),
        ("itself", "1.0.0", "", "-"),
        // Edges belong to their channel.
        ("nowhere", "1.0.0", "", "-"),
        ("", "1.0.0", "", "1.1.0"),
        ("", "1.3.0", "", "-"),
        ("", "2.0.0", "", "-"),
    ];
    for (channel, from, range, expected) in table {
        assert_eq!(step(&package, from, channel, range), expected, "{channel:?} {from} {range:?}");
    }
}

#[test]
fn what_cannot_be_installed_is_no_step() {
    let mut package = package("stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0 skips 1.0.0");
    assert_eq!(step(&package, "1.0.0", "", ""), "1.2.0");
    of(&mut package, "1.2.0").image = None;
    assert_eq!(step(&package, "1.0.0", "", ""), "1.1.0");
    of(&mut package, "1.1.0").version = None;
    assert_eq!(step(&package, "1.0.0", "", ""), "-");
    package.bundles.clear();
    assert_eq!(step(&package, "1.0.0", "stable", ""), "-");
}

#[test]
fn skipped_then_deprecated_bundles_come_last_and_the_head_first() {
    let mut skips = package("stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0 skips 1.1.0");
    let mut package =
        package("stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 range <1.2.0; 1.3.0 replaces 1.2.0 skips 1.1.0");
    assert_eq!(step(&package, "1.0.0", "stable", ""), "1.2.0");
    of(&mut package, "1.2.0").deprecation = Some(String::new());
    assert_eq!(step(&package, "1.0.0", "stable", ""), "1.2.0", "rather deprecated than skipped");
    of(&mut package, "1.2.0").image = None;
    assert_eq!(step(&package, "1.0.0", "stable", ""), "1.1.0", "rather skipped than none");
    assert_eq!(step(&skips, "1.0.0", "", ""), "1.1.0");
    of(&mut skips, "1.1.0").deprecation = Some("old".to_owned());
    let choice = successor(&skips, Installed { name: "p.v1.0.0", version: None }, &Request::default()).unwrap();
    assert_eq!(choice.deprecations, ["bundle \"p.v1.1.0\" is deprecated: old"]);
}

#[test]
fn the_head_is_preferred_to_a_higher_version() {
    let back = package("back: 1.0.0; 1.3.0 replaces 1.0.0; 1.2.0 replaces 1.3.0 range <1.2.0");
    assert_eq!(step(&back, "1.0.0", "", ""), "1.2.0");
    let heads = package("c: 1.0.0; 1.2.0 replaces 1.0.0; 1.3.0 replaces 1.0.0");
    assert_eq!(step(&heads, "1.0.0", "", ""), "1.3.0", "two heads are none");
}

#[test]
fn without_a_channel_it_is_the_one_that_holds_what_is_installed() {
    let mut package = package(
        "stable: 2.0.0; 2.1.0 replaces 2.0.0 range <2.1.0
         b: 1.0.0; 1.2.0 replaces 1.0.0
         a: 1.0.0; 1.1.0 replaces 1.0.0",
    );
    let at = |version: &str, package: &Package| {
        let version = Version::parse(version).unwrap();
        let name = name(&version.to_string());
        let installed = Installed { name: &name, version: Some(&version) };
        let summary = |choice: Choice<'_>| format!("{} {}", choice.channel.unwrap_or("-"), choice.bundle.version_text);
        successor(package, installed, &Request::default()).map(summary)
    };
    assert_eq!(at("2.0.0", &package).as_deref(), Some("stable 2.1.0"));
    assert_eq!(at("1.0.0", &package).as_deref(), Some("a 1.1.0"));
    assert_eq!(at("1.7.0", &package).as_deref(), Some("stable 2.1.0"), "gone from the catalog: the default one");
    package.default_channel = None;
    assert_eq!(at("1.7.0", &package), None);
}

#[test]
fn an_unknown_version_trusts_names_and_a_known_one_is_looked_up() {
    let package = package(
        "stable: 1.1.0 replaces gone; 1.0.0; 0.9.0 replaces 1.0.0
         x: latest replaces gone",
    );
    let step = |name: &str, version: Option<&str>, channel: &str| {
        let version = version.map(|text| Version::parse(text).unwrap());
        let installed = Installed { name, version: version.as_ref() };
        successor(&package, installed, &request(channel, "")).map(|choice| choice.bundle.version_text.as_str())
    };
    assert_eq!(step("p.vgone", None, ""), Some("1.1.0"), "in no channel, so the default one is asked");
    assert_eq!(step("p.vgone", None, "stable"), Some("1.1.0"));
    assert_eq!(step("p.vgone", Some("1.1.0"), "stable"), None, "not in place");
    assert_eq!(step("p.vgone", None, "x"), None, "a step leads to a version");
    assert_eq!(step("p.v1.0.0", None, "stable"), None, "the catalog knows its version, so 0.9.0 is no step");
    assert_eq!(step("p.v1.0.0", Some("0.8.0"), "stable"), Some("0.9.0"), "the caller knows better");
    assert_eq!(step("other", None, "stable"), None);
}

#[test]
fn a_rebuild_is_a_step_and_the_same_is_none() {
    let mut package = package("c: 1.0.0+1; 1.0.0+2 replaces 1.0.0+1; 1.0.0 range <=1.0.0");
    assert_eq!(step(&package, "1.0.0+1", "c", ""), "1.0.0+2");
    assert_eq!(step(&package, "1.0.0+2", "c", ""), "-");
    let renamed = Installed { name: "other", version: package.bundles["p.v1.0.0"].version.as_ref() };
    assert_eq!(successor(&package, renamed, &Request::default()), None, "the same version under another name");
    let older = Version::parse("0.9.0").unwrap();
    let same = Installed { name: "p.v1.0.0", version: Some(&older) };
    assert_eq!(successor(&package, same, &Request::default()), None, "the same name under another version");
    // Equal versions are decided by name, whatever the order of the entries.
    for reversed in [false, true] {
        let channel = package.channels.get_mut("c").unwrap();
        *channel = crate::choose::fixture::channel("c: 0.1.0; 1.0.0 replaces 0.1.0; 2.0.0 replaces 0.1.0");
        if reversed {
            channel.entries.reverse();
        }
        for name in ["p.v1.0.0", "p.v2.0.0"] {
            let bundle = crate::Bundle { name: name.to_owned(), ..crate::choose::fixture::bundle("5.0.0") };
            package.bundles.insert(name.to_owned(), bundle);
        }
        let installed = Installed { name: "p.v0.1.0", version: Some(&older) };
        assert_eq!(successor(&package, installed, &Request::default()).unwrap().bundle.name, "p.v2.0.0");
    }
}

#[test]
fn a_release_that_was_not_noted_is_looked_up() {
    let mut package = package("c: 2.0.0; 3.0.0 replaces 2.0.0; 4.0.0 skips 3.0.0 replaces 2.0.0");
    for (version, release) in [("2.0.0", "2"), ("3.0.0", "1"), ("4.0.0", "3")] {
        of(&mut package, version).version = Version::with_release("1.0.0", release).ok();
    }
    let noted = Version::parse("1.0.0").unwrap();
    let step = |package: &Package| {
        let installed = Installed { name: "p.v2.0.0", version: Some(&noted) };
        successor(package, installed, &Request::default()).map(|choice| choice.bundle.name.clone())
    };
    assert_eq!(step(&package).as_deref(), Some("p.v4.0.0"));
    of(&mut package, "4.0.0").image = None;
    assert_eq!(step(&package), None, "release 1 is older than release 2");
}

#[test]
fn paths_take_safe_steps_and_end() {
    let chain = package(
        "stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0; 1.2.1 replaces 1.2.0 skips 1.2.0 range >=1.1.0 <1.2.1
         round: 1.0.0 replaces 1.2.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0",
    );
    assert_eq!(path(&chain, "1.0.0", &request("stable", "")), ["1.1.0", "1.2.1"]);
    assert_eq!(path(&chain, "1.0.0", &request("stable", "<1.2.1")), ["1.1.0", "1.2.0"]);
    assert_eq!(path(&chain, "1.2.1", &request("stable", "")), Vec::<String>::new());
    assert_eq!(path(&chain, "1.0.0", &request("round", "")), ["1.1.0", "1.2.0"]);
    let unknown = package("round: 1.0.0 replaces gone; gone replaces 1.0.0; 1.1.0 replaces 1.0.0");
    assert_eq!(path(&unknown, "gone", &request("", "")), ["1.0.0", "1.1.0"]);
    // A path stays in the channel that it began in, though the default one would lead on.
    let two = package("stable: 1.1.0; 1.2.0 replaces 1.1.0\n other: 1.0.0; 1.1.0 replaces 1.0.0");
    assert_eq!(path(&two, "1.0.0", &request("", "")), ["1.1.0"]);
}

fn any_package() -> impl Strategy<Value = Package> {
    let version = || "[01]\\.[0-2]\\.[01]";
    let extra = prop_oneof![
        version().prop_map(|version| format!(" replaces {version}")),
        version().prop_map(|version| format!(" skips {version}")),
        Just(String::new()),
    ];
    let range = prop_oneof![version().prop_map(|version| format!(" range <{version}")), Just(String::new())];
    let entry = (version(), prop::collection::vec(extra, 0..3), range)
        .prop_map(|(version, extra, range)| format!("{version}{}{range}", extra.concat()));
    let marks = (prop::collection::vec(any::<bool>(), 12), prop::collection::vec(any::<bool>(), 12));
    (prop::collection::vec(entry, 0..9), marks).prop_map(|(entries, (deprecated, inline))| {
        let mut package = package(&format!("c: {}", entries.join(";")));
        for (bundle, (deprecated, inline)) in package.bundles.values_mut().zip(deprecated.into_iter().zip(inline)) {
            bundle.deprecation = deprecated.then(String::new);
            bundle.image = bundle.image.take().filter(|_| !inline);
        }
        package
    })
}

proptest! {
    #[test]
    fn steps_never_lead_down_and_paths_end(package in any_package(), from in "[01]\\.[0-2]\\.[01]|gone") {
        let path = path(&package, &from, &Request::default());
        let versions = path.iter().map(|text| Version::parse(text).unwrap());
        let all: Vec<Version> = Version::parse(&from).ok().into_iter().chain(versions).collect();
        prop_assert!(all.is_sorted_by(|lower, higher| lower < higher), "{:?}", path);
        prop_assert!(path.iter().all(|step| package.bundles[&name(step)].image.is_some()));
        prop_assert!(path.len() <= package.bundles.len());
    }

    #[test]
    fn the_order_of_entries_does_not_matter(package in any_package(), from in "[01]\\.[0-2]\\.[01]") {
        let mut other = package.clone();
        other.channels.get_mut("c").unwrap().entries.reverse();
        prop_assert_eq!(step(&package, &from, "c", ""), step(&other, &from, "c", ""));
        let mut names: Vec<&str> = package.channels["c"].entries.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() == package.channels["c"].entries.len() {
            prop_assert_eq!(check(&package.channels["c"]), check(&other.channels["c"]));
        }
        prop_assert_eq!(faults(&package), faults(&other));
    }

    #[test]
    fn valid_channels_have_a_head_that_is_an_entry(package in any_package()) {
        let channel = &package.channels["c"];
        if check(channel).is_ok() {
            let head = head(channel).unwrap();
            prop_assert!(channel.entries.iter().any(|entry| entry.name == head));
            prop_assert!(channel.entries.iter().all(|entry| entry.replaces.as_deref() != Some(head)));
        }
    }
}

#[test]
fn a_path_is_found_without_looking_at_every_entry_for_every_step() {
    let package = |count: u32| {
        let mut package = package("c: 1.0.0");
        for number in 1..count {
            let version = format!("1.{number}.0");
            let entry = crate::Entry {
                name: name(&version),
                replaces: Some(name(&format!("1.{}.0", number - 1))),
                skips: vec![name(&format!("0.{number}.0"))],
                skip_range: None,
            };
            package.bundles.insert(name(&version), crate::choose::fixture::bundle(&version));
            package.channels.get_mut("c").unwrap().entries.push(entry);
        }
        package
    };
    let time = |package: &Package| {
        let began = Instant::now();
        let path = upgrade_path(package, Installed { name: &name("1.0.0"), version: None }, &Request::default());
        assert_eq!(path.len(), package.bundles.len() - 1);
        began.elapsed()
    };
    // Hundredths of a second. With a look at each entry for each step it would be half a minute.
    let package = package(5_000);
    assert!((0..3).any(|_| time(&package) < Duration::from_secs(5)));
}
