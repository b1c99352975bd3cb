use std::time::Duration;

use super::super::codec;
use super::super::message::{self, GroupVersionKind, Property};
use super::super::{Class, Options};
use super::*;
use crate::document::{MAX_ITEMS, MAX_NAME};

fn bundle_of(package: &str, name: &str) -> Bundle {
    Bundle {
        package_name: package.to_owned(),
        channel_name: "stable".to_owned(),
        csv_name: name.to_owned(),
        version: "1.0.0".to_owned(),
        ..Bundle::default()
    }
}

/// Adds messages until one is refused.
fn add(messages: impl IntoIterator<Item = Bundle>) -> (Fold, Result<(), Error>) {
    let options = Options::new("c", Duration::from_secs(1));
    let call = Call::new(&options, "list bundles from".to_owned());
    let mut fold = Fold::default();
    let added = messages.into_iter().try_for_each(|message| fold.add(message, &call));
    (fold, added)
}

fn refusal(messages: impl IntoIterator<Item = Bundle>) -> String {
    let error = add(messages).1.unwrap_err();
    assert_eq!(error.class(), Class::Terminal, "{error}");
    error.to_string()
}

#[test]
fn lists_that_are_too_long_are_refused_before_they_are_read() {
    let full = |count: usize| Bundle {
        object: vec![String::new(); count],
        provided_apis: vec![GroupVersionKind::default(); count],
        required_apis: vec![GroupVersionKind::default(); count],
        dependencies: vec![Property::default(); count],
        properties: vec![Property::default(); count],
        skips: vec![String::new(); count],
        ..bundle_of("p", "p.v1")
    };
    assert_eq!(codec::check::<Bundle>(&full(MAX_ITEMS).encode_to_vec()), Ok(()));
    for (field, message) in [
        ("object", Bundle { object: vec![String::new(); MAX_ITEMS + 1], ..full(1) }),
        ("providedApis", Bundle { provided_apis: vec![GroupVersionKind::default(); MAX_ITEMS + 1], ..full(1) }),
        ("requiredApis", Bundle { required_apis: vec![GroupVersionKind::default(); MAX_ITEMS + 1], ..full(1) }),
        ("dependencies", Bundle { dependencies: vec![Property::default(); MAX_ITEMS + 1], ..full(1) }),
        ("properties", Bundle { properties: vec![Property::default(); MAX_ITEMS + 1], ..full(1) }),
        ("skips", Bundle { skips: vec![String::new(); MAX_ITEMS + 1], ..full(1) }),
    ] {
        let expected = format!("bundle \"p.v1\": {field}: more than 20000 items are not read");
        assert_eq!(codec::check::<Bundle>(&message.encode_to_vec()), Err(expected));
    }
    let package = |count: usize| message::Package {
        name: "p".to_owned(),
        channels: vec![message::Channel::default(); count],
        ..message::Package::default()
    };
    assert_eq!(codec::check::<message::Package>(&package(MAX_ITEMS).encode_to_vec()), Ok(()));
    assert_eq!(
        codec::check::<message::Package>(&package(MAX_ITEMS + 1).encode_to_vec()),
        Err("package \"p\": channels: more than 20000 items are not read".to_owned())
    );
}

#[test]
fn items_are_counted_wherever_they_stand() {
    // Between unknown fields of each kind, in pieces, and with a key that is longer than need be.
    let unknown: &[u8] = &[0x80, 1, 5, 0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x85, 1, 0, 0, 0, 0, 0x83, 1, 0x84, 1];
    let item: &[u8] = &[0x72, 0, 0xf2, 0x80, 0, 0];
    let bytes = [unknown.to_vec(), [unknown, item].concat().repeat(MAX_ITEMS / 2)].concat();
    assert_eq!(Bundle::decode(&*bytes).unwrap().skips.len(), MAX_ITEMS);
    assert_eq!(codec::check::<Bundle>(&bytes), Ok(()));
    let bytes = [&bytes[..], &[0x72, 0]].concat();
    assert!(codec::check::<Bundle>(&bytes).unwrap_err().ends_with("skips: more than 20000 items are not read"));
    // What is no message is left to the decoder.
    for broken in [&[0x72, 5, 0][..], &[0x72], &[0xff; 11], &[0x77, 0]] {
        assert_eq!(codec::check::<Bundle>(broken), Ok(()));
        assert!(Bundle::decode(broken).is_err());
    }
}

#[test]
fn what_is_kept_is_counted_as_it_lies_in_memory() {
    // Each of these is small on the wire. A map's node for each package, the entries, the empty texts.
    let packages = (0..).map(|number| bundle_of(&number.to_string(), "b"));
    let skips = (0..).map(|_| Bundle { skips: vec![String::new(); MAX_ITEMS], ..bundle_of("p", "b") });
    for (what, mut messages) in
        [("packages", Box::new(packages) as Box<dyn Iterator<Item = Bundle>>), ("skips", Box::new(skips))]
    {
        let first = messages.next().unwrap();
        let (wire, kept) = (first.encoded_len() as u64, add([first]).0.kept_bytes);
        assert!(kept > wire * 10, "{what}: {wire} {kept}");
        let options = Options::new("c", Duration::from_secs(1));
        let call = Call::new(&options, "list bundles from".to_owned());
        let mut fold = Fold { kept_bytes: MAX_KEPT_BYTES - 2 * kept, ..Fold::default() };
        let error = messages.take(10).find_map(|message| fold.add(message, &call).err()).expect(what);
        assert_eq!(
            error.to_string(),
            "failed to list bundles from the c catalog: it sends more than 268435456 bytes that would be kept"
        );
    }
}

#[test]
fn long_names_are_refused_and_a_long_version_is_none() {
    let (long, longest) = ("n".repeat(MAX_NAME + 1), "n".repeat(MAX_NAME));
    let start = format!("{}...", "n".repeat(120));
    let plain = || bundle_of("p", "p.v1");
    for (field, message) in [
        ("packageName", Bundle { package_name: long.clone(), ..plain() }),
        ("channelName", Bundle { channel_name: long.clone(), ..plain() }),
        ("bundlePath", Bundle { bundle_path: long.clone(), ..plain() }),
        ("replaces", Bundle { replaces: long.clone(), ..plain() }),
        ("skips[1]", Bundle { skips: vec![longest.clone(), long.clone()], ..plain() }),
    ] {
        assert_eq!(
            refusal([message]),
            format!(
                "failed to list bundles from the c catalog: message 0: bundle \"p.v1\": {field}: 1025 bytes, and more than \
                 1024 are not read: {start}"
            )
        );
    }
    assert!(
        refusal([bundle_of("p", &long)])
            .ends_with(&format!(": bundle {start:?}: csvName: 1025 bytes, and more than 1024 are not read: {start}"))
    );
    let names = Bundle { bundle_path: longest.clone(), skips: vec![longest.clone()], ..bundle_of(&longest, &longest) };
    add([names]).1.unwrap();

    let (fold, added) = add([Bundle { version: format!("1.0.0-{long}"), ..plain() }]);
    added.unwrap();
    let package = &fold.finish().packages["p"];
    let bundle = &package.bundles["p.v1"];
    assert_eq!((&bundle.version, bundle.version_text.as_str()), (&None, ""));
    assert!(package.remarks.iter().any(|remark| remark.contains("version: 1031 bytes")), "{:?}", package.remarks);
}

#[test]
fn what_cannot_be_read_is_told_in_short() {
    let property = |kind: &str, value: String| Property { r#type: kind.to_owned(), value };
    let list = format!("[{}0]", "0,".repeat(100_000));
    let message = Bundle {
        csv_json: format!("{{\"spec\": {{\"installModes\": [{{}}{}]}}}}", ", {}".repeat(MAX_ITEMS)),
        properties: vec![
            property("olm.maxOpenShiftVersion", list.clone()),
            property("olm.constraint", list.clone()),
            property("olm.gvk", format!("\"{}\"", "x".repeat(100_000))),
            property("custom", list.clone()),
        ],
        ..bundle_of("p", "p.v1")
    };
    let (fold, added) = add([message]);
    added.unwrap();
    let package = &fold.finish().packages["p"];
    let told: Vec<&str> = package.remarks.iter().map(|remark| remark.trim_start_matches("bundle \"p.v1\": ")).collect();
    let [csv, constraint, gvk, newest] = told[..] else { panic!("{told:?}") };
    assert!(csv.starts_with("its ClusterServiceVersion cannot be read: more than 20000 items are not read"), "{csv}");
    assert_eq!(constraint, "property olm.constraint: 200003 bytes, and at most 131072 are allowed");
    assert_eq!(newest, "property olm.maxOpenShiftVersion: 200003 bytes, and at most 131072 are allowed");
    assert!(gvk.starts_with("property olm.gvk: invalid type: string \"xxx") && gvk.len() < 200, "{gvk}");
    // A bundle that asks for something unknown must not pass for one that asks for nothing.
    assert_eq!(package.bundles["p.v1"].facts.constraints, [list]);
}
