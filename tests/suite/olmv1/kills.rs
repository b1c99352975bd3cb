//! The manager ends at its writes while a set of five packages is asked about and installed: nothing is written before the yes, and no half
//! set is called installed. And while a set of upgrades is begun and taken back: all go back. And while the phases of a ClusterObjectSet
//! are installed and archived: nothing is left. Some of the writes by default, all of them with `SWEEP=all`.

use std::sync::atomic::{AtomicBool, Ordering};

use rukpak_tests::verbs::{Expected, unique_name};
use rukpak_tests::{Act, Gate, PlatformOptions, TestCa, process, tools};
use serde_json::json;

use super::case::{Case, installed, text};
use super::dependencies::{Offer, asked, documents, extend, extension, plan};
use super::object_sets::{config_map, inline, map, object, set, until_there};
use super::set_contents::contents;
use super::sets::{both, broken, lock, until_back};
use super::world::{World, ca_file};

/// A write of everything.
const ANY: &str = "/";
/// No set of five takes so many writes.
const MOST: usize = 150;
/// Every how many of the writes are tried by default.
const STEP: usize = 7;

/// A world whose manager reaches the API server through a gate.
async fn gated() -> (World, Gate) {
    let mut world = World::new().await;
    world.manager.end();
    let authority = std::fs::read_to_string(world.plane.certificate_authority_path()).expect("the API server's CA");
    let ca = TestCa::new("gate-ca").expect("a CA");
    let gate = Gate::before(&ca, world.plane.server(), &authority).expect("the gate starts");
    let url = gate.url();
    let through = world.plane.kubeconfig_through(process::PLATFORM_ACCOUNT, &url, gate.ca_pem());
    let kubeconfig = Some(through.await.expect("a kubeconfig"));
    let catalogs = format!("localhost:{}", tools::free_port().expect("a port"));
    let arguments = vec![
        format!("--source-ca-file={}", ca_file(&world.plane).display()),
        "--catalog-source=none".to_owned(),
        format!("--catalogs-bind-address={catalogs}"),
        format!("--catalogs-external-address={catalogs}"),
    ];
    let environment = vec![("POD_NAME".to_owned(), "gated".to_owned())];
    let options = PlatformOptions { arguments, environment, kubeconfig };
    world.manager = world.plane.start_platform(options).await.expect("the manager starts");
    world.manager.wait_ready().await.expect("the manager is ready");
    (world, gate)
}

/// Has a set installed, and the manager end at the write with this number. Returns that write, if there was one.
async fn at(world: &World, gate: &Gate, number: usize, act: Act) -> Option<String> {
    let case = Case::within(world, "killed").await;
    let [ponds, rains, springs, wells] = &["ponds", "rains", "springs", "wells"].map(unique_name);
    let offers = [
        Offer::new(&case.name, &["1.0.0"], &[(wells, ">=1.0.0"), (ponds, ">=1.0.0")]),
        Offer::new(wells, &["1.0.0"], &[(springs, ">=1.0.0")]),
        Offer::new(springs, &["1.0.0"], &[(rains, ">=1.0.0")]),
        Offer::new(ponds, &["1.0.0"], &[(rains, ">=1.0.0")]),
        Offer::new(rains, &["1.0.0"], &[]),
    ];
    case.serve(documents(&case, &offers).await).await;
    let members = [ponds, rains, springs, wells];
    let install = async {
        extend(&case, "Propose").await;
        let asked = asked(&case, &case.extension(), "Progressing").await;
        for name in members {
            assert!(case.find(&extension(name)).await.is_none(), "{name} was created before the yes ({number})");
        }
        let target = plan(asked.metadata.name.as_deref().expect("it has a name"));
        case.merge_into(&target, &json!({"spec": {"approval": "Approved"}})).await;
        case.until_version("1.0.0").await;
        for name in members {
            let object = case.find(&extension(name)).await.expect("it is installed first");
            assert!(installed().met_by(&object), "half a set is called installed ({number}): {:#}", object.data);
        }
        case.until_object(&target, "applied", |plan| text(plan, "/status/phase") == "Applied").await;
    };
    ended_while(install, world, (gate, number, act)).await
}

/// Has the manager end at the write with this number of `work`, and waits until that is done. Returns that write, if there was one.
async fn ended_while(
    work: impl Future<Output = ()>,
    world: &World,
    (gate, number, act): (&Gate, usize, Act),
) -> Option<String> {
    let has_sprung = AtomicBool::new(false);
    let end = async {
        let write = gate.sprung().await.expect("the gate stands");
        has_sprung.store(true, Ordering::Relaxed);
        world.manager.kill().await.expect("it ran");
        gate.drop_held();
        world.manager.restart().await.expect("it starts");
        world.manager.wait_ready().await.expect("it is ready");
        write
    };
    gate.arm(ANY, number, act);
    let mut work = std::pin::pin!(work);
    let mut end = std::pin::pin!(end);
    tokio::select! {
        () = &mut work => {}
        write = &mut end => {
            work.await;
            return Some(write);
        }
    }
    // It may be done before the manager is ready again.
    if has_sprung.load(Ordering::Relaxed) { Some(end.as_mut().await) } else { None }
}

/// Has a set of two upgrades taken back, and the manager end at the write with this number. Returns that write, if there was one.
async fn back_at(world: &World, gate: &Gate, number: usize, act: Act) -> Option<String> {
    let case = Case::within(world, "taken").await;
    let pair = &unique_name("pair");
    lock(&case, pair, "Install").await;
    let documents = both(&case, pair, &["1.0.0", "2.0.0"], broken).await;
    let upgrade = async {
        case.renew("v2", documents).await;
        until_back(&case, pair).await;
    };
    ended_while(upgrade, world, (gate, number, act)).await
}

/// Has a ClusterObjectSet of three phases installed and archived, and the manager end at the write with this number. Returns that write,
/// if there was one.
async fn phases_at(world: &World, gate: &Gate, number: usize, act: Act) -> Option<String> {
    let case = Case::within(world, "phased").await;
    case.make_space().await;
    let names = ["first", "second", "third"];
    let phases = names.map(|name| (name, vec![inline(&config_map(&case, name, &json!({})))]));
    let set_of_three = object(&case, phases.to_vec(), &json!({}));
    let life = async {
        case.create(&set_of_three).await;
        until_there(&case).await;
        for name in names {
            case.get(&map(&case, name)).await;
        }
        case.merge_into(&set(&case), &json!({"spec": {"lifecycleState": "Archived"}})).await;
        case.until_at(&set(&case), Expected::is_false("Progressing", "Archived")).await;
        for name in names {
            assert!(case.find(&map(&case, name)).await.is_none(), "{name} is called gone ({number})");
        }
        let left = contents(&case).await;
        assert!(left.is_empty(), "{left:?} ({number})");
    };
    ended_while(life, world, (gate, number, act)).await
}

/// Has the manager end at every `STEP`th write, at all of them with `SWEEP=all`, until there is none; at least at so many.
async fn end_at_writes(least: usize, at: impl AsyncFn(&World, &Gate, usize, Act) -> Option<String>) {
    let (world, gate) = gated().await;
    let step = if std::env::var("SWEEP").is_ok_and(|value| value == "all") { 1 } else { STEP };
    let (mut tried, mut acts) = (0, [Act::HoldRequest, Act::HoldAnswer].into_iter().cycle());
    for number in (1..=MOST).step_by(step) {
        let act = acts.next().expect("it never ends");
        let Some(write) = at(&world, &gate, number, act).await else { break };
        eprintln!("{number} {act:?}: {write}");
        tried += 1;
    }
    eprintln!("{tried} writes tried, each {step} apart");
    assert!((least..MOST / step).contains(&tried), "{tried} writes");
}

#[tokio::test]
async fn a_set_is_whole_at_whatever_write_the_manager_ends() {
    end_at_writes(5, at).await;
}

#[tokio::test]
async fn upgrades_go_back_together_at_whatever_write_the_manager_ends() {
    end_at_writes(2, back_at).await;
}

#[tokio::test]
async fn phases_stand_and_go_at_whatever_write_the_manager_ends() {
    end_at_writes(2, phases_at).await;
}
