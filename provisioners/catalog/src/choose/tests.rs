use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::fixture::{bundle, name, of, package};
use super::*;
use crate::Version;

fn request(channel: &str, range: &str) -> Request {
    Request {
        channel: (!channel.is_empty()).then(|| channel.to_owned()),
        range: (!range.is_empty()).then(|| Range::parse(range).unwrap()),
    }
}

fn chosen(package: &Package, channel: &str, range: &str) -> String {
    match choose(package, &request(channel, range)) {
        Ok(choice) => format!("{} from {}", choice.bundle.version_text, choice.channel.unwrap_or("nowhere")),
        Err(error) => error.to_string(),
    }
}

const NOTHING: &str = "failed to find candidate olm.bundles from the p package";

#[test]
fn channels_and_ranges_narrow_the_choice() {
    let mut package = package(
        "stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0
         candidate: 1.2.0; 2.0.0-rc1 replaces 1.2.0
         split: 1.0.0; 1.1.0
         around: 1.0.0 replaces 1.1.0; 1.1.0 replaces 1.0.0
         back: 1.2.0; 1.1.0 replaces 1.2.0",
    );
    let twin = Bundle { name: "twin".to_owned(), ..bundle("1.1.0") };
    package.bundles.insert(twin.name.clone(), Bundle { image: None, ..twin });
    let table = [
        ("", "", "2.0.0-rc1 from candidate"),
        ("", "<2.0.0-0", "1.2.0 from stable"),
        ("", "1.1.x", "1.1.0 from stable"),
        ("stable", "", "1.2.0 from stable"),
        ("candidate", "", "2.0.0-rc1 from candidate"),
        ("candidate", "<2.0.0-0", "1.2.0 from candidate"),
        ("back", "", "1.1.0 from back"),
        ("split", "<2.0.0", "1.1.0 from split"),
        ("around", ">0.0.0", "1.1.0 from around"),
        (
            "split",
            "",
            "package \"p\": channel \"split\": multiple channel heads found in graph: p.v1.0.0, p.v1.1.0; choose by a version \
             range in place of the channel's head",
        ),
        (
            "around",
            "",
            "package \"p\": channel \"around\": no channel head found in graph; choose by a version range in place of the \
             channel's head",
        ),
    ];
    for (channel, range, expected) in table {
        assert_eq!(chosen(&package, channel, range), expected, "{channel} {range}");
    }
    let misses = [
        ("x", "", ": no channel \"x\"; there are around, back, candidate, split, stable"),
        ("x", ">1.0.0", ": no channel \"x\"; there are around, back, candidate, split, stable"),
        (
            "stable",
            ">=2.0.0",
            " matching version \">=2.0.0\" in channel \"stable\": the catalog has 1.0.0, 1.1.0, 1.2.0",
        ),
        ("", "9.x", " matching version \"9.x\": the catalog has 1.0.0, 1.1.0, 1.2.0, 2.0.0-rc1"),
    ];
    for (channel, range, expected) in misses {
        assert_eq!(chosen(&package, channel, range), format!("{NOTHING}{expected}"));
    }
}

#[test]
fn nothing_at_all_is_told_in_upstreams_words() {
    assert_eq!(chosen(&package(""), "", ""), NOTHING);
    assert_eq!(chosen(&package(""), "stable", ""), format!("{NOTHING}: no channel \"stable\"; there are no channels"));
    assert_eq!(chosen(&package(""), "", "1.x"), format!("{NOTHING} matching version \"1.x\": the catalog has none"));
    assert_eq!(
        chosen(&package("stable:"), "stable", "1.x"),
        format!("{NOTHING} matching version \"1.x\" in channel \"stable\": the catalog has none")
    );
}

#[test]
fn bundles_without_an_image_are_no_candidates() {
    let mut package = package("stable: 1.0.0; 1.1.0 replaces 1.0.0");
    of(&mut package, "1.1.0").image = None;
    assert_eq!(chosen(&package, "", ""), "1.0.0 from stable");
    assert_eq!(chosen(&package, "", ">=1.0.0"), "1.0.0 from stable");
    assert_eq!(
        chosen(&package, "stable", ""),
        format!(
            "{NOTHING} in channel \"stable\": its head \"p.v1.1.0\" has no image: its manifests lie in the catalog, and \
             only images can be installed"
        )
    );
    of(&mut package, "1.0.0").image = None;
    let inline = "manifests that lie in the catalog cannot be installed";
    assert_eq!(chosen(&package, "", ""), format!("{NOTHING}: no image is given for p.v1.0.0, p.v1.1.0: {inline}"));
    assert_eq!(
        chosen(&package, "stable", "1.1.x"),
        format!("{NOTHING} matching version \"1.1.x\" in channel \"stable\": no image is given for p.v1.1.0: {inline}")
    );
    package.bundles.clear();
    assert_eq!(
        chosen(&package, "stable", ""),
        format!("{NOTHING} in channel \"stable\": its head \"p.v1.1.0\" is not in the catalog")
    );
}

#[test]
fn versions_that_cannot_be_read_lose() {
    let mut package = package("stable: latest; 0.0.1-alpha");
    assert_eq!(chosen(&package, "", ""), "0.0.1-alpha from stable");
    assert_eq!(chosen(&package, "", "!=9.9.9"), "0.0.1-alpha from stable");
    package.bundles.remove("p.v0.0.1-alpha");
    assert_eq!(chosen(&package, "", ""), "latest from stable", "better than nothing, as upstream");
    assert_eq!(
        chosen(&package, "", "!=9.9.9"),
        format!("{NOTHING} matching version \"!=9.9.9\": the catalog has latest")
    );
    of(&mut package, "latest").version_text.clear();
    assert!(chosen(&package, "", "1.x").ends_with("the catalog has p.vlatest"));
}

#[test]
fn ties_are_decided_by_release_then_build_then_name() {
    let mut package = package("stable: 1.0.0+1; 1.0.0+2; 1.0.0+10");
    assert_eq!(chosen(&package, "", ""), "1.0.0+10 from stable");
    of(&mut package, "1.0.0+1").version = Some(Version::with_release("1.0.0", "1").unwrap());
    assert_eq!(choose(&package, &Request::default()).unwrap().bundle.name, "p.v1.0.0+1");
    for each in package.bundles.values_mut() {
        each.version = Some(Version::parse("1.0.0").unwrap());
    }
    assert_eq!(choose(&package, &Request::default()).unwrap().bundle.name, "p.v1.0.0+2", "the last by name");
}

#[test]
fn deprecated_bundles_come_second_where_a_range_leaves_a_choice() {
    let mut package = package("stable: 1.0.0; 1.1.0 replaces 1.0.0");
    of(&mut package, "1.1.0").deprecation = Some(" Use 1.0.0,\nplease. ".to_owned());
    assert_eq!(chosen(&package, "", ""), "1.1.0 from stable", "upstream's rule");
    assert_eq!(chosen(&package, "stable", ""), "1.1.0 from stable", "the head");
    assert_eq!(chosen(&package, "", ">=1.0.0"), "1.0.0 from stable");
    assert_eq!(chosen(&package, "stable", ">=1.0.0"), "1.0.0 from stable");
    assert_eq!(chosen(&package, "", "1.1.0"), "1.1.0 from stable", "better than nothing");
    package.deprecation = Some(String::new());
    package.channels.get_mut("stable").unwrap().deprecation = Some("stable is gone".to_owned());
    assert_eq!(
        choose(&package, &Request::default()).unwrap().deprecations,
        [
            "package \"p\" is deprecated",
            "channel \"stable\" is deprecated: stable is gone",
            "bundle \"p.v1.1.0\" is deprecated: Use 1.0.0,\nplease."
        ]
    );
}

#[test]
fn the_channel_is_the_one_asked_for_else_the_default_else_the_first() {
    let mut package = package(
        "stable: 1.0.0
         beta: 1.0.0; 2.0.0 replaces 1.0.0
         alpha: 1.0.0; 2.0.0 replaces 1.0.0",
    );
    assert_eq!(chosen(&package, "", ""), "2.0.0 from alpha");
    assert_eq!(chosen(&package, "beta", ""), "2.0.0 from beta");
    assert_eq!(chosen(&package, "", "1.x"), "1.0.0 from stable");
    package.default_channel = None;
    assert_eq!(chosen(&package, "", "1.x"), "1.0.0 from alpha");
    package.bundles.insert(name("3.0.0"), bundle("3.0.0"));
    assert_eq!(chosen(&package, "", ""), "3.0.0 from nowhere");
}

#[test]
fn what_is_there_is_described_as_a_choice() {
    let mut package = package(
        "stable: 1.0.0
         beta: 1.0.0; 2.0.0 replaces 1.0.0",
    );
    of(&mut package, "2.0.0").deprecation = Some("Use 3.".to_owned());
    package.channels.get_mut("beta").unwrap().deprecation = Some("no more".to_owned());
    let of = |version: &str, channel| described(&package, &name(version), channel).map(|choice| choice.channel);
    assert_eq!(of("1.0.0", None), Some(Some("stable")));
    assert_eq!(of("1.0.0", Some("beta")), Some(Some("beta")));
    assert_eq!(of("2.0.0", Some("stable")), Some(Some("beta")), "stable does not hold it");
    assert_eq!(of("9.0.0", Some("stable")), None);
    let deprecations = described(&package, "p.v2.0.0", None).unwrap().deprecations;
    assert_eq!(deprecations, ["channel \"beta\" is deprecated: no more", "bundle \"p.v2.0.0\" is deprecated: Use 3."]);
}

#[test]
fn long_lists_are_cut_to_the_highest() {
    let versions: Vec<String> = (0..30).map(|minor| format!("1.{minor}.0")).collect();
    let package = package(&format!("stable: {}", versions.join(";")));
    let message = chosen(&package, "", "2.x");
    assert!(
        message.ends_with("the catalog has 1.22.0, 1.23.0, 1.24.0, 1.25.0, 1.26.0, 1.27.0, 1.28.0, 1.29.0 and 22 more")
    );
}

#[test]
fn time_grows_with_the_bundles_and_not_with_their_square() {
    let package = |count: u32| {
        let mut package = Package { name: "p".to_owned(), ..Package::default() };
        let mut channel = Channel { name: "c".to_owned(), ..Channel::default() };
        for number in 0..count {
            let bundle = bundle(&format!("1.{number}.0"));
            channel.entries.push(crate::Entry { name: bundle.name.clone(), ..crate::Entry::default() });
            package.bundles.insert(bundle.name.clone(), bundle);
        }
        package.channels.insert(channel.name.clone(), channel);
        package
    };
    let time = |package: &Package| {
        let began = Instant::now();
        assert!(
            choose(package, &request("c", ">=1.0.0")).is_ok() && choose(package, &request("c", ">=2.0.0")).is_err()
        );
        began.elapsed()
    };
    // A tenth of a second. If each bundle were looked for among all entries, it would be half a minute and more: no load on the
    // machine makes the one look like the other, in each of several runs.
    let package = package(40_000);
    assert!((0..5).any(|_| time(&package) < Duration::from_secs(5)));
}

fn any_bundles() -> impl Strategy<Value = Vec<Bundle>> {
    let version = "[01]\\.[01]\\.0(-rc[12])?(\\+[12])?|latest|1";
    let one =
        (version, any::<bool>(), any::<bool>(), "[a-d]").prop_map(|(version, image, deprecated, suffix)| Bundle {
            name: format!("{suffix}.{version}"),
            image: image.then(|| "example.org/p".to_owned()),
            deprecation: deprecated.then(String::new),
            ..bundle(&version)
        });
    prop::collection::vec(one, 0..8)
}

proptest! {
    #[test]
    fn the_order_of_the_catalog_does_not_matter(bundles in any_bundles(), range in ">=0\\.[01]\\.0|<1\\.0\\.0|1\\.x|") {
        let build = |bundles: &mut dyn Iterator<Item = &Bundle>| {
            let mut package = Package { name: "p".to_owned(), ..Package::default() };
            let mut channel = Channel { name: "c".to_owned(), ..Channel::default() };
            for bundle in bundles {
                if package.bundles.insert(bundle.name.clone(), bundle.clone()).is_none() {
                    channel.entries.push(crate::Entry { name: bundle.name.clone(), ..crate::Entry::default() });
                }
            }
            package.channels.insert("c".to_owned(), channel);
            package
        };
        let mut seen = std::collections::BTreeSet::new();
        let bundles: Vec<Bundle> = bundles.into_iter().filter(|bundle| seen.insert(bundle.name.clone())).collect();
        let (forth, back) = (build(&mut bundles.iter()), build(&mut bundles.iter().rev()));
        for channel in ["", "c"] {
            let request = request(channel, &range);
            prop_assert_eq!(choose(&forth, &request), choose(&back, &request));
            let Ok(choice) = choose(&forth, &request) else { continue };
            prop_assert!(choice.bundle.image.is_some());
            prop_assert!(is_in(choice.bundle, request.range.as_ref()));
            let better = bundles.iter().filter(|bundle| bundle.image.is_some() && is_in(bundle, request.range.as_ref()));
            let mut better = better.filter(|bundle| bundle.version > choice.bundle.version);
            prop_assert!(channel == "c" && range.is_empty() || better.all(|bundle| !range.is_empty() && bundle.deprecation.is_some()));
        }
    }
}
