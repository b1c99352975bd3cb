//! Ranges and choices of OLM v1, as tables.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use rukpak_catalog::resolve::{Error, Installed, Needs, Offer, Reason, Request, explain, newer, resolve};
use rukpak_catalog::version::Constraint;
use rukpak_catalog::{Bundle, Channel, Entry, Package, Version};

/// Source: the table of operator-controller's documentation, and the library's own.
#[test]
fn ranges_hold_what_masterminds_says() {
    let table: [(&str, &[&str], &[&str]); 36] = [
        ("1.2.3", &["1.2.3", "1.2.3+b"], &["1.2.4", "1.2.3-rc.1"]),
        ("v1.2.3", &["1.2.3"], &["1.2.2"]),
        ("=1.2.3", &["1.2.3"], &["1.2.2"]),
        ("1.2", &["1.2.0", "1.2.9"], &["1.3.0", "1.1.9", "1.2.9-rc.1"]),
        ("1", &["1.0.0", "1.9.9"], &["2.0.0", "0.9.0"]),
        ("1.2.x", &["1.2.0", "1.2.9"], &["1.3.0"]),
        ("1.X", &["1.0.0", "1.9.9"], &["2.0.0"]),
        ("1.*.*", &["1.0.0", "1.9.9"], &["2.0.0"]),
        ("*", &["0.0.1", "3.4.5"], &["1.0.0-rc.1"]),
        ("x", &["0.0.0", "3.4.5"], &[]),
        (">=1 <2", &["1.0.0", "1.9.9"], &["2.0.0", "0.9.9"]),
        (">=1,<2", &["1.0.0", "1.9.9"], &["2.0.0"]),
        (">= 1.2.3 , < 2", &["1.2.3"], &["1.2.2", "2.0.0"]),
        (">1.0 || 0.9", &["1.1.0", "0.9.5"], &["1.0.5", "0.8.0"]),
        (">1", &["2.0.0"], &["1.9.9", "1.0.0"]),
        (">1.2", &["1.3.0", "2.0.0"], &["1.2.9"]),
        (">1.2.3", &["1.2.4"], &["1.2.3"]),
        ("=>1.2", &["1.2.0"], &["1.1.9"]),
        ("=<1.2.3", &["1.2.3"], &["1.2.4"]),
        ("<=1.2", &["1.2.9", "0.1.0"], &["1.3.0"]),
        ("<=1", &["1.9.9"], &["2.0.0"]),
        ("<1.2", &["1.1.9"], &["1.2.0"]),
        ("!=1.2.3", &["1.2.4"], &["1.2.3"]),
        ("!=1.2", &["1.3.0", "2.2.0"], &["1.2.0", "1.2.9"]),
        ("!=1", &["2.0.0"], &["1.5.0"]),
        ("~1", &["1.9.0"], &["2.0.0"]),
        ("~1.2", &["1.2.9"], &["1.3.0"]),
        ("~>1.2.3", &["1.2.9"], &["1.2.2", "1.3.0"]),
        ("~0.0.0", &["0.0.0", "7.0.0"], &[]),
        ("^1.2", &["1.2.0", "1.9.0"], &["1.1.0", "2.0.0"]),
        ("^0.2", &["0.2.9"], &["0.3.0", "0.1.0"]),
        ("^0.0", &["0.0.9"], &["0.1.0"]),
        ("^0", &["0.9.0"], &["1.0.0"]),
        ("^0.0.3", &["0.0.3"], &["0.0.4"]),
        // One prerelease admits them all, in its alternative alone.
        (">=1.0.0-0 <2", &["1.5.0-rc.1", "1.0.0-rc.1"], &["2.0.0"]),
        (">=1.0.0-0 <2 || >=3", &["3.1.0"], &["3.1.0-rc.1"]),
    ];
    for (text, inside, outside) in table {
        let range = Constraint::parse(text).unwrap();
        for version in inside {
            assert!(range.contains(&Version::parse(version).unwrap()), "{text} holds {version}");
        }
        for version in outside {
            assert!(!range.contains(&Version::parse(version).unwrap()), "{text} does not hold {version}");
        }
    }
}

#[test]
fn what_is_no_range_is_refused() {
    for text in ["", "==1", "1.2.3.4", "01.2.3", "1,", "||1", "|", "1.*]", "a", "1.2 - 1.4", ">", "1.x.y"] {
        let error = Constraint::parse(text).unwrap_err();
        assert_eq!(error.to_string(), format!("improper constraint: {text}"));
    }
    assert!(Constraint::parse(&["1"; 32].join("||")).is_ok());
    assert!(Constraint::parse(&["1"; 33].join("||")).is_err());
}

fn bundle(version: &str) -> Bundle {
    Bundle {
        name: format!("p.v{version}"),
        image: Some(format!("r.example/p:{version}")),
        version: Version::parse(version).ok(),
        version_text: version.to_owned(),
        ..Bundle::default()
    }
}

fn entry(version: &str, replaces: &str, skips: &[&str], skip_range: &str) -> Entry {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Entry {
        name: format!("p.v{version}"),
        replaces: given(replaces).map(|version| format!("p.v{version}")),
        skips: skips.iter().map(|version| format!("p.v{version}")).collect(),
        skip_range: given(skip_range),
    }
}

/// A package `p` with these channels, and a bundle for each entry.
fn package(channels: Vec<(&str, Vec<Entry>)>) -> Package {
    let mut package = Package { name: "p".to_owned(), ..Package::default() };
    for (name, entries) in channels {
        for entry in &entries {
            package.bundles.insert(entry.name.clone(), bundle(entry.name.trim_start_matches("p.v")));
        }
        package.channels.insert(name.to_owned(), Channel { name: name.to_owned(), entries, deprecation: None });
    }
    package
}

/// 1.0.0 -> 1.0.1 -> 1.2.0 in beta, 1.0.2 in alpha, and 1.0.4 without an edge: operator-controller's own test catalog.
fn upstream() -> Package {
    package(vec![
        ("alpha", vec![entry("1.0.2", "1.0.1", &[], "")]),
        (
            "beta",
            vec![
                entry("1.0.0", "", &[], ""),
                entry("1.0.1", "1.0.0", &[], ""),
                entry("1.0.4", "", &[], ""),
                entry("1.2.0", "1.0.1", &[], ""),
            ],
        ),
    ])
}

fn request() -> Request<'static> {
    Request {
        package: "p",
        version: None,
        channels: &[],
        installed: None,
        is_self_certified: false,
        ignores_dependencies: false,
    }
}

/// The version, or the message.
fn found(offers: &[Offer<'_>], request: Request<'_>) -> Result<String, String> {
    resolve(offers, request).map(|found| found.bundle.version_text.clone()).map_err(|error: Error| error.to_string())
}

fn offer<'a>(catalog: &'a str, priority: i32, package: &'a Package) -> Offer<'a> {
    Offer { catalog, priority, package }
}

#[test]
fn to_begin_with_the_highest_version_that_fits() {
    let package = upstream();
    let offers = [offer("c", 0, &package)];
    assert_eq!(found(&offers, request()), Ok("1.2.0".to_owned()));
    let range = Constraint::parse("<1.2").unwrap();
    assert_eq!(found(&offers, Request { version: Some(&range), ..request() }), Ok("1.0.4".to_owned()));
    let alpha = ["alpha".to_owned()];
    assert_eq!(found(&offers, Request { channels: &alpha, ..request() }), Ok("1.0.2".to_owned()));
    let (range, channels) = (Constraint::parse("^3").unwrap(), ["alpha".to_owned(), "b".to_owned()]);
    let none = Request { version: Some(&range), channels: &channels, ..request() };
    let expected = "no bundles found for package \"p\" matching version \"^3\" in channels [alpha b]";
    assert_eq!(found(&offers, none), Err(expected.to_owned()));
    assert_eq!(found(&[], request()), Err("no bundles found for package \"p\"".to_owned()));
}

#[test]
fn upgrades_follow_edges_unless_somebody_knows_better() {
    let package = upstream();
    let offers = [offer("c", 0, &package)];
    let from = |version: &'static str, name: &'static str| Request {
        installed: Some(Installed { name, version, release: None }),
        ..request()
    };
    assert_eq!(found(&offers, from("1.0.0", "p.v1.0.0")), Ok("1.0.1".to_owned()), "one step");
    assert_eq!(found(&offers, from("1.0.1", "p.v1.0.1")), Ok("1.2.0".to_owned()), "the highest of two");
    assert_eq!(found(&offers, from("1.2.0", "p.v1.2.0")), Ok("1.2.0".to_owned()), "what is installed will do");
    let range = Constraint::parse("1.2.0").unwrap();
    let jump = Request { version: Some(&range), ..from("1.0.0", "p.v1.0.0") };
    let expected = "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"p\" matching version \
                    \"1.2.0\"";
    assert_eq!(found(&offers, jump), Err(expected.to_owned()));
    assert_eq!(found(&offers, Request { is_self_certified: true, ..jump }), Ok("1.2.0".to_owned()));
    let down = Constraint::parse("1.0.0").unwrap();
    let down = Request { version: Some(&down), ..from("1.2.0", "p.v1.2.0") };
    assert!(found(&offers, down).is_err());
    assert_eq!(found(&offers, Request { is_self_certified: true, ..down }), Ok("1.0.0".to_owned()));
    // Edges of channels that are not asked for do not count.
    let alpha = ["alpha".to_owned()];
    assert!(found(&offers, Request { channels: &alpha, ..from("1.0.0", "p.v1.0.0") }).is_err());
    assert_eq!(found(&offers, Request { channels: &alpha, ..from("1.0.1", "p.v1.0.1") }), Ok("1.0.2".to_owned()));
}

#[test]
fn skips_and_skip_ranges_are_edges_too() {
    let package = package(vec![(
        "stable",
        vec![
            entry("1.0.0", "", &[], ""),
            entry("1.1.0", "1.0.0", &[], ""),
            entry("1.2.0", "1.1.0", &["1.0.0"], ""),
            entry("2.0.0", "", &[], ">=1.2.0 <2.0.0"),
            entry("3.0.0", "", &[], "nonsense"),
        ],
    )]);
    let offers = [offer("c", 0, &package)];
    let from = |version: &'static str, name: &'static str| Request {
        installed: Some(Installed { name, version, release: None }),
        ..request()
    };
    assert_eq!(found(&offers, from("1.0.0", "p.v1.0.0")), Ok("1.2.0".to_owned()));
    assert_eq!(found(&offers, from("1.2.0", "p.v1.2.0")), Ok("2.0.0".to_owned()));
    // One that the catalog does not hold any more is followed by its version.
    assert_eq!(found(&offers, from("1.2.9", "gone")), Ok("2.0.0".to_owned()));
    assert!(found(&offers, from("2.5.0", "gone")).is_err());
}

#[test]
fn priorities_decide_between_catalogs_after_deprecations() {
    let (old, mut new) = (upstream(), upstream());
    new.bundles.insert("p.v9.0.0".to_owned(), bundle("9.0.0"));
    let tie = "found bundles for package \"p\" in multiple catalogs with the same priority [a b]";
    assert_eq!(found(&[offer("b", 0, &new), offer("a", 0, &old)], request()), Err(tie.to_owned()));
    assert_eq!(found(&[offer("b", -1, &new), offer("a", 0, &old)], request()), Ok("1.2.0".to_owned()));
    assert_eq!(found(&[offer("b", 0, &new), offer("a", -1, &old)], request()), Ok("9.0.0".to_owned()));
    // A package that one of them does not have, or not so, is none of its business.
    let range = Constraint::parse("9").unwrap();
    let high = Request { version: Some(&range), ..request() };
    assert_eq!(found(&[offer("b", 0, &new), offer("a", 0, &old)], high), Ok("9.0.0".to_owned()));
    // Deprecated: the next in its own catalog, and one of another catalog before it.
    let deprecate = |package: &mut Package, name: &str| {
        package.bundles.get_mut(name).unwrap().deprecation = Some("use another".to_owned());
    };
    deprecate(&mut new, "p.v9.0.0");
    assert_eq!(found(&[offer("b", 0, &new)], request()), Ok("1.2.0".to_owned()));
    let mut only = package(vec![("stable", vec![entry("5.0.0", "", &[], "")])]);
    deprecate(&mut only, "p.v5.0.0");
    assert_eq!(found(&[offer("a", 7, &only), offer("b", -7, &old)], request()), Ok("1.2.0".to_owned()));
    assert_eq!(found(&[offer("a", 7, &only)], request()), Ok("5.0.0".to_owned()), "better than none");
}

#[test]
fn dependencies_are_refused_unless_somebody_takes_care() {
    let mut package = upstream();
    package.bundles.get_mut("p.v1.2.0").unwrap().facts.constraints.push("{}".to_owned());
    let expected = "validating bundle \"p.v1.2.0\": bundle \"p.v1.2.0\" has a dependency declared via property \"olm.constraint\" \
                    which is currently not supported";
    assert_eq!(found(&[offer("c", 0, &package)], request()), Err(expected.to_owned()));
    let ignores = Request { ignores_dependencies: true, ..request() };
    assert_eq!(found(&[offer("c", 0, &package)], ignores), Ok("1.2.0".to_owned()));
}

#[test]
fn a_version_counts_with_its_release() {
    let mut package =
        package(vec![("stable", vec![entry("1.0.0+1", "", &[], ""), entry("1.0.0+2", "1.0.0+1", &[], "")])]);
    let offers = [offer("c", 0, &package)];
    assert_eq!(found(&offers, request()), Ok("1.0.0+2".to_owned()));
    let from =
        Request { installed: Some(Installed { name: "p.v1.0.0+1", version: "1.0.0+1", release: None }), ..request() };
    assert_eq!(found(&offers, from), Ok("1.0.0+2".to_owned()));
    // Nothing can be fetched without an image.
    package.bundles.get_mut("p.v1.0.0+2").unwrap().image = None;
    assert_eq!(found(&[offer("c", 0, &package)], request()), Ok("1.0.0+1".to_owned()));
}

/// Of one version in two releases an edge leads from one to the other; where it was not noted which is installed, none does.
#[test]
fn another_release_of_the_same_version_is_an_upgrade() {
    let name = |release: &str| format!("p.v1.0.0-r{release}");
    let mut package = package(vec![("stable", vec![])]);
    for release in ["1", "2"] {
        let version = Version::with_release("1.0.0", release).ok();
        let version_text = "1.0.0".to_owned();
        let bundle =
            Bundle { name: name(release), version, version_text, image: Some(name(release)), ..Bundle::default() };
        package.bundles.insert(name(release), bundle);
    }
    let chosen = |package: &Package, release: Option<&str>| {
        let installed = Some(Installed { name: "p.v1.0.0-r1", version: "1.0.0", release });
        resolve(&[offer("c", 0, package)], Request { installed, ..request() }).map(|found| found.bundle.name.clone())
    };
    assert_eq!(chosen(&package, Some("1")), Ok(name("1")), "no edge");
    assert_eq!(chosen(&package, None), Ok(name("2")), "both may be what is installed");
    let edge = Entry { name: name("2"), replaces: Some(name("1")), ..Entry::default() };
    package.channels.get_mut("stable").unwrap().entries.push(edge);
    assert_eq!(chosen(&package, Some("1")), Ok(name("2")));
    assert!(chosen(&package, Some("3")).is_ok_and(|found| found == name("2")), "its name leads on");
}

#[test]
fn names_the_newer_version_that_is_left_out_and_what_it_takes() {
    let mut package = upstream();
    let far = entry("3.0.0", "", &[], "");
    package.bundles.insert(far.name.clone(), bundle("3.0.0"));
    package
        .channels
        .insert("far".to_owned(), Channel { name: "far".to_owned(), entries: vec![far], deprecation: None });
    let offers = [offer("c", 0, &package)];
    let from = |version: &'static str, name: &'static str| Request {
        installed: Some(Installed { name, version, release: None }),
        ..request()
    };
    let told = |request: Request<'_>| {
        let found = newer(&offers, request)?;
        Some((found.bundle.version_text.as_str(), found.needs, found.is_out_of_range, found.is_out_of_channels))
    };
    let pin = Constraint::parse("1.0.0").unwrap();
    let (alpha, beta) = (["alpha".to_owned()], ["beta".to_owned()]);
    let first = from("1.0.0", "p.v1.0.0");
    let pinned = Request { version: Some(&pin), ..first };
    assert_eq!(told(pinned), Some(("1.0.1", Needs::Version, true, false)), "one step");
    assert_eq!(told(Request { channels: &beta, ..pinned }), Some(("1.0.1", Needs::Version, true, false)));
    assert_eq!(told(Request { channels: &alpha, ..pinned }), Some(("1.0.1", Needs::Channels, true, true)));
    assert_eq!(told(Request { channels: &alpha, ..first }), Some(("1.0.1", Needs::Channels, false, true)));
    // No edge leads to 3.0.0.
    let last = from("1.2.0", "p.v1.2.0");
    assert_eq!(told(last), Some(("3.0.0", Needs::SelfCertification, false, false)));
    assert_eq!(told(Request { channels: &beta, ..last }), Some(("3.0.0", Needs::SelfCertification, false, true)));
    let certified = Request { is_self_certified: true, version: Some(&pin), ..first };
    assert_eq!(told(certified), Some(("3.0.0", Needs::Version, true, false)));
    assert_eq!(told(from("3.0.0", "p.v3.0.0")), None, "it is the newest");
    assert_eq!(told(from("9.0.0", "gone")), None, "what is installed is newer than all");
    assert_eq!(told(request()), None, "nothing is installed");
    // What cannot be installed is nothing that could be had.
    package.bundles.get_mut("p.v3.0.0").unwrap().facts.constraints.push("{}".to_owned());
    assert_eq!(newer(&[offer("c", 0, &package)], last), None);
}

/// Each bundle with the reason that it is not chosen for; `catalog/version: reason`.
fn reasons(offers: &[Offer<'_>], request: Request<'_>) -> Vec<String> {
    let explanation = explain(offers, request);
    assert_eq!(explanation.outcome, resolve(offers, request));
    let line = |reason: &Option<Reason>| reason.as_ref().map_or_else(|| "chosen".to_owned(), Reason::to_string);
    let each = explanation.candidates.iter();
    each.map(|each| format!("{}/{}: {}", each.catalog, each.bundle.version_text, line(&each.reason))).collect()
}

#[test]
fn every_bundle_is_told_why_it_is_not_chosen() {
    let package = upstream();
    let one = [Offer { catalog: "a", priority: 0, package: &package }];
    let told = reasons(&one, request());
    let higher = |version: &str| format!("a/{version}: p.v1.2.0 is higher");
    assert_eq!(
        told,
        ["a/1.2.0: chosen".to_owned(), higher("1.0.4"), higher("1.0.2"), higher("1.0.1"), higher("1.0.0")]
    );

    let range = Constraint::parse("1.0.x").unwrap();
    let channels = ["beta".to_owned()];
    let installed = Some(Installed { name: "p.v1.0.0", version: "1.0.0", release: None });
    let asked = Request { version: Some(&range), channels: &channels, installed, ..request() };
    assert_eq!(
        reasons(&one, asked),
        [
            "a/1.2.0: its version is not in the range that is asked for",
            "a/1.0.4: no upgrade leads to it from p.v1.0.0, which is installed",
            "a/1.0.2: it is in none of the channels that are asked for",
            "a/1.0.1: chosen",
            "a/1.0.0: p.v1.0.1 is higher",
        ]
    );
}

#[test]
fn catalogs_are_told_of_by_priority_tie_and_deprecation() {
    let (mut good, mut old) = (upstream(), upstream());
    good.bundles.retain(|_, bundle| bundle.version_text == "1.0.0");
    old.bundles.retain(|_, bundle| bundle.version_text == "1.2.0");
    let offers = |second| {
        let offer = |catalog, priority, package| Offer { catalog, priority, package };
        [offer("a", 0, &good), offer("b", second, &old)]
    };
    let priority = "a/1.0.0: catalog b has a higher priority, 1";
    assert_eq!(reasons(&offers(1), request()), [priority, "b/1.2.0: chosen"]);
    let tie =
        "catalogs a and b have the same priority: give one of them another, or choose by spec.source.catalog.selector";
    assert_eq!(reasons(&offers(0), request()), [format!("a/1.0.0: {tie}"), format!("b/1.2.0: {tie}")]);
    old.bundles.get_mut("p.v1.2.0").unwrap().deprecation = Some("leaks".to_owned());
    let deprecated = "b/1.2.0: it is deprecated, and p.v1.0.0 is not";
    let offers =
        [Offer { catalog: "a", priority: 0, package: &good }, Offer { catalog: "b", priority: 1, package: &old }];
    assert_eq!(reasons(&offers, request()), ["a/1.0.0: chosen", deprecated]);
    good.bundles.get_mut("p.v1.0.0").unwrap().image = None;
    old.bundles.get_mut("p.v1.2.0").unwrap().facts.constraints.push("{}".to_owned());
    let offers =
        [Offer { catalog: "a", priority: 0, package: &good }, Offer { catalog: "b", priority: 1, package: &old }];
    let dependency =
        "b/1.2.0: it has a dependency (property olm.constraint), and what it depends on is not installed with it";
    assert_eq!(reasons(&offers, request()), ["a/1.0.0: it has no image", dependency]);
}
