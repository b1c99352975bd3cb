use futures::FutureExt as _;
use rukpak_plain::Origin;
use serde_json::json;

use super::*;

fn objects(nodes: usize) -> Vec<Object> {
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": vec![0; nodes]}});
    vec![Object::new(body, Origin { file: "a.yaml".into(), document: None, item: None }).expect("it is an object")]
}

/// The reservation, if nobody has to be waited for.
fn reserve(memory: &RenderMemory, name: &str, purpose: Purpose) -> Option<Reservation> {
    memory.reserve(&Digest::sha256(name.as_bytes()), purpose).now_or_never()
}

#[test]
fn what_is_not_known_yet_takes_turns() {
    let memory = RenderMemory::default();
    let first = reserve(&memory, "a", Purpose::Install).expect("nobody has any");
    let _second = reserve(&memory, "b", Purpose::Install).expect("two fit");
    assert!(reserve(&memory, "c", Purpose::Install).is_none());
    drop(first);
    assert!(reserve(&memory, "c", Purpose::Install).is_some());
}

#[test]
fn a_light_content_gives_everything_back_and_is_remembered() {
    let memory = RenderMemory::default();
    let _heavy = [(); 2].map(|()| reserve(&memory, "heavy", Purpose::Install));
    let light = Digest::sha256(b"light");
    let unknown = memory.reserve(&light, Purpose::Install).now_or_never();
    assert!(unknown.is_none(), "nothing is known of it");
    let reservation = reserve(&memory, "light", Purpose::Basis).expect("bases have a share of their own");
    drop(memory.settle(&light, &objects(10), reservation));
    assert!(reserve(&memory, "light", Purpose::Install).is_some(), "it waits for nobody");
}

#[test]
fn a_large_content_keeps_what_it_takes() {
    let memory = RenderMemory::default();
    let large = Digest::sha256(b"large");
    let objects = objects(1_000_000);
    let reservation = memory.reserve(&large, Purpose::Install).now_or_never().expect("nobody has any");
    let kept = memory.settle(&large, &objects, reservation);
    let left = memory.installs.available_permits();
    assert!(left > WORST_MIB as usize && left < INSTALLS_MIB as usize - 200, "{left} MiB are left");
    drop(kept);
    assert_eq!(memory.installs.available_permits(), INSTALLS_MIB as usize);
}

#[test]
fn whoever_waits_for_a_basis_never_waits_for_another_that_does() {
    let memory = RenderMemory::default();
    let installs = [(); 2].map(|()| reserve(&memory, "heavy", Purpose::Install).expect("two fit"));
    let basis = reserve(&memory, "installed", Purpose::Basis).expect("the share of bases is free");
    assert!(reserve(&memory, "installed", Purpose::Basis).is_none());
    drop(basis);
    assert!(reserve(&memory, "installed", Purpose::Basis).is_some());
    drop(installs);
}
