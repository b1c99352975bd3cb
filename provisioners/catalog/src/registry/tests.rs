//! Bytes on the wire, folding and addresses. Calls over a connection are in the system tests.

use std::time::Duration;

use prost::Message as _;

use super::message::{self, Bundle};
use super::*;
use crate::model::{Gvk, RequiredPackage};

/// A length-delimited field, by hand: none of this comes from the library that reads it.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let key = u32::from(number) << 3 | 2;
    [varint(key as usize), varint(body.len()), body.to_vec()].concat()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).unwrap();
        value >>= 7;
        bytes.push(if value == 0 { low } else { low | 0x80 });
        if value == 0 {
            return bytes;
        }
    }
}

fn pair(one: &str, other: &str) -> Vec<u8> {
    [field(1, one.as_bytes()), field(2, other.as_bytes())].concat()
}

#[test]
fn every_field_of_a_bundle_has_its_number() {
    let gvk = |kind: &str| [field(1, b"g"), field(2, b"v1"), field(3, kind.as_bytes()), field(4, b"ps")].concat();
    let bytes = [
        field(1, b"p.v1.0.0"),
        field(2, b"p"),
        field(3, b"stable"),
        field(4, b"{}"),
        field(5, b"one"),
        field(5, b"two"),
        field(6, b"registry.example/p@sha256:0"),
        field(7, &gvk("Provided")),
        field(8, &gvk("Required")),
        field(9, b"1.0.0"),
        field(10, b"<1.0.0"),
        field(11, &pair("olm.package", "{\"a\":1}")),
        field(12, &pair("olm.gvk", &"x".repeat(300))),
        field(13, b"p.v0.9.0"),
        field(14, b"p.v0.8.0"),
        field(14, b"p.v0.8.1"),
        field(15, &field(1, b"old")),
        field(16, b"of a later release"),
    ]
    .concat();
    let api = |kind: &str| message::GroupVersionKind {
        group: "g".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: "ps".into(),
    };
    let property = |kind: &str, value: &str| message::Property { r#type: kind.into(), value: value.into() };
    let expected = Bundle {
        csv_name: "p.v1.0.0".into(),
        package_name: "p".into(),
        channel_name: "stable".into(),
        csv_json: "{}".into(),
        object: vec!["one".into(), "two".into()],
        bundle_path: "registry.example/p@sha256:0".into(),
        provided_apis: vec![api("Provided")],
        required_apis: vec![api("Required")],
        version: "1.0.0".into(),
        skip_range: "<1.0.0".into(),
        dependencies: vec![property("olm.package", "{\"a\":1}")],
        properties: vec![property("olm.gvk", &"x".repeat(300))],
        replaces: "p.v0.9.0".into(),
        skips: vec!["p.v0.8.0".into(), "p.v0.8.1".into()],
        deprecation: Some(message::Deprecation { message: "old".into() }),
    };
    assert_eq!(Bundle::decode(bytes.as_slice()).unwrap(), expected);
    // And back: all but the unknown field.
    assert_eq!(expected.encode_to_vec(), bytes[..bytes.len() - field(16, b"of a later release").len()]);
}

#[test]
fn every_field_of_a_package_and_of_requests_has_its_number() {
    let channel = [field(1, b"stable"), field(2, b"p.v1"), field(3, &field(1, b"gone"))].concat();
    let bytes = [field(1, b"p"), field(2, &channel), field(3, b"stable"), field(4, &field(1, b"old"))].concat();
    let deprecation = |text: &str| Some(message::Deprecation { message: text.into() });
    let expected = message::Package {
        name: "p".into(),
        channels: vec![message::Channel {
            name: "stable".into(),
            csv_name: "p.v1".into(),
            deprecation: deprecation("gone"),
        }],
        default_channel_name: "stable".into(),
        deprecation: deprecation("old"),
    };
    assert_eq!(message::Package::decode(bytes.as_slice()).unwrap(), expected);
    let request = message::GetBundleRequest { pkg_name: "p".into(), channel_name: "c".into(), csv_name: "b".into() };
    assert_eq!(request.encode_to_vec(), [field(1, b"p"), field(2, b"c"), field(3, b"b")].concat());
    assert_eq!(message::GetPackageRequest { name: "p".into() }.encode_to_vec(), field(1, b"p"));
    assert_eq!(message::PackageName::decode(&*field(1, b"p")).unwrap().name, "p");
}

fn property(kind: &str, value: &str) -> message::Property {
    message::Property { r#type: kind.to_owned(), value: value.to_owned() }
}

#[test]
fn facts_come_from_properties_dependencies_and_older_fields_once() {
    let gvk = |kind: &str| Gvk { group: "g.io".into(), version: "v1".into(), kind: kind.into() };
    let provided = message::GroupVersionKind {
        group: "g.io".into(),
        version: "v1".into(),
        kind: "Given".into(),
        plural: String::new(),
    };
    let bundle = Bundle {
        provided_apis: vec![provided],
        properties: vec![
            property("olm.gvk", r#"{"group":"g.io","kind":"Given","version":"v1"}"#),
            property("olm.gvk.required", r#"{"group":"g.io","kind":"Wanted","version":"v1"}"#),
            property("olm.package.required", r#"{"packageName":"other","versionRange":">=1.0.0"}"#),
            property("olm.constraint", "{\n  \"all\": {\"constraints\": []}\n}"),
            property("olm.maxOpenShiftVersion", r#""4.9""#),
            property("olm.gvk", "not JSON"),
            property("olm.constraint", "not JSON either"),
            property("olm.package", r#"{"packageName":"p","version":"1.0.0","release":"2"}"#),
            property("olm.later", "anything"),
        ],
        dependencies: vec![
            property("olm.gvk", r#"{"group":"g.io","kind":"Wanted","version":"v1"}"#),
            property("olm.package", r#"{"packageName":"other","version":">=1.0.0"}"#),
        ],
        ..Bundle::default()
    };
    let facts::BundleClaims { facts, release, faults } = facts::read(&bundle);
    assert_eq!(facts.provides, [gvk("Given")]);
    assert_eq!(facts.requires, [gvk("Wanted")]);
    assert_eq!(facts.requires_packages, [RequiredPackage { name: "other".into(), range: ">=1.0.0".into() }]);
    assert_eq!(facts.constraints, ["not JSON either", r#"{"all":{"constraints":[]}}"#], "one is kept even so");
    assert_eq!(release, "2");
    let told: Vec<_> = faults.iter().filter_map(|fault| fault.split(": ").next()).collect();
    assert_eq!(told, ["property olm.gvk", "property olm.constraint"]);
    assert_eq!(facts.max_openshift_version.as_deref(), Some("4.9"));
    assert_eq!(facts.install_modes, None);
    let number = Bundle { properties: vec![property("olm.maxOpenShiftVersion", "4.9")], ..Bundle::default() };
    assert_eq!(facts::read(&number).facts.max_openshift_version.as_deref(), Some("4.9"));
}

#[test]
fn a_cluster_service_version_tells_how_a_bundle_is_installed() {
    let mut facts = Facts::default();
    csv::add("", &mut facts).unwrap();
    assert_eq!(facts, Facts::default());
    let json = r#"{"metadata": {"labels": {"operatorframework.io/arch.arm64": "supported", "team": "water"},
        "annotations": {"features.operators.openshift.io/proxy-aware": "true", "alm-examples": "[]"}}, "spec": {
        "displayName": "Pump", "minKubeVersion": "1.20.0", "icon": [{"base64data": "AAAA"}], "provider": {"name": "Us"},
        "installModes": [{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": false}],
        "apiservicedefinitions": {"owned": [{"name": "pumps", "group": "g.io", "version": "v1", "kind": "Pump"}]}
    }}"#;
    csv::add(json, &mut facts).unwrap();
    let expected = Facts {
        install_modes: Some(vec!["AllNamespaces".into()]),
        owned_api_services: vec!["v1.g.io".into()],
        min_kube_version: Some("1.20.0".into()),
        display_name: Some("Pump".into()),
        provider: Some("Us".into()),
        architectures: vec!["arm64"],
        features: vec!["proxy-aware"],
        ..Facts::default()
    };
    assert_eq!(facts, expected);
    assert!(csv::add("{", &mut facts).is_err());
    csv::add("{}", &mut facts).unwrap();
    assert_eq!(facts.install_modes, Some(Vec::new()), "one that names no mode supports none");
}

#[tokio::test]
async fn an_address_is_a_host_and_a_port() {
    for address in
        ["", "catalog", "http://catalog:50051", "user@catalog:50051", "catalog:50051/x", "catalog:x", ":50051", "a b:1"]
    {
        let error = Client::connect(address, Duration::from_secs(1)).await.unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{address}: {error}");
        assert!(error.to_string().starts_with("failed to register client from the "), "{error}");
    }
    for address in ["catalog.ns.svc:50051", "127.0.0.1:1", "[::1]:50051"] {
        assert!(endpoint(address, &Options::new("c", Duration::from_secs(1))).is_ok(), "{address}");
    }
}
