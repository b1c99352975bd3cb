//! What the usual operations send to the API server and are answered, held to `tests/kept/requests.json`: requests of each kind, and
//! their bytes. `RUKPAK_GOLDEN=write` keeps what is sent now.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use rukpak_tests::meter::{Counts, Meter, Metered, counted, regressions};
use rukpak_tests::tools;
use rukpak_tests::world::{World, WorldOptions};
use serde_json::{Value, json};

use crate::engine::case::Case;

/// With the value `write`, what is sent is kept.
const SWITCH: &str = "RUKPAK_GOLDEN";
/// Deployments that are installed, upgraded and repaired.
const DEPLOYMENTS: usize = 10;
/// Objects of each.
const OBJECTS: usize = 10;
/// Text in each object.
const TEXT_BYTES: usize = 200;

#[tokio::test]
async fn no_operation_takes_more_requests_or_bytes_than_are_kept() {
    let world = World::start_with(WorldOptions { metered: true, ..WorldOptions::default() }).await.unwrap();
    let meter = world.meter.as_ref().expect("it was asked for");
    // What happens once in a process, or once for a kind, is no deployment's.
    let first = Case::in_world(&world, "kept").await;
    first.install(&objects(&first, "1")).await;
    first.pivot("v2", &objects(&first, "2")).await;
    let fleet: Vec<Case<'_>> = (0..DEPLOYMENTS).map(|_| first.sibling()).collect();

    let install = async {
        for case in &fleet {
            case.install(&objects(case, "1")).await;
        }
    };
    let install = measure(meter, install).await;
    let upgrade = async {
        for case in &fleet {
            case.pivot("v2", &objects(case, "2")).await;
        }
    };
    let upgrade = measure(meter, upgrade).await;
    let repair = async {
        let mut proofs = Vec::with_capacity(DEPLOYMENTS);
        for case in &fleet {
            let object = case.config_map_target(&object_name(case, 0));
            proofs.push(case.proof().await);
            case.edit("intruder", &object, json!({"data": {"version": "drift"}})).await;
            case.until_value(&object, "/data/version", &json!("2")).await;
        }
        // That comes some seconds later, and is part of what a repair takes.
        for (case, proof) in fleet.iter().zip(&proofs) {
            case.until_noted(proof).await;
        }
    };
    let repair = measure(meter, repair).await;
    let is = [("install", install), ("upgrade", upgrade), ("repair", repair)];
    compare(&is.map(|(operation, is)| (operation.to_owned(), is)).into());
}

/// The requests of what is done once nothing else is.
async fn measure(meter: &Meter, act: impl Future<Output = ()>) -> Counts {
    meter.at_rest().await.unwrap_or_else(|error| panic!("{error:#}"));
    meter.forget();
    act.await;
    meter.at_rest().await.unwrap_or_else(|error| panic!("{error:#}"));
    let metered = meter.metered();
    let (under_way, others): (Vec<&Metered>, Vec<&Metered>) = metered.iter().partition(|one| is_under_way(one));
    // A deployment that has a status before its first installation is looked for among Helm's releases.
    let mut looks = under_way.iter().filter(|one| one.kind.starts_with("patch bundledeployments")).count();
    counted(others.into_iter().filter(|one| {
        let is_look = one.kind == "list secrets" && looks > 0;
        looks -= usize::from(is_look);
        !is_look
    }))
}

/// Whether it writes a status that says that a Bundle is being unpacked. That is told only where it takes a while: how long it takes is
/// the machine's.
fn is_under_way(one: &Metered) -> bool {
    let body: Value = serde_json::from_slice(&one.body).unwrap_or_default();
    let status = &body["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    status["phase"] == "Unpacking" || ready.is_some_and(|ready| ready["reason"] == "UnpackPending")
}

/// The first of them is another one in each version.
fn objects(case: &Case<'_>, version: &str) -> Vec<Value> {
    let of = |index: usize| {
        let version = if index == 0 { version } else { "same" };
        case.config_map(&object_name(case, index), json!({"version": version, "text": "x".repeat(TEXT_BYTES)}))
    };
    (0..OBJECTS).map(of).collect()
}

fn object_name(case: &Case<'_>, index: usize) -> String {
    format!("{}-{index}", case.name)
}

fn file() -> PathBuf {
    tools::crate_folder().join("kept/requests.json")
}

/// Compares with what is kept, or keeps it.
fn compare(is: &BTreeMap<String, Counts>) {
    if std::env::var(SWITCH).is_ok_and(|value| value == "write") {
        assert!(std::env::var_os("CI").is_none(), "{SWITCH} is set, and nothing is kept under CI");
        let text = serde_json::to_string_pretty(is).expect("it is JSON");
        fs::create_dir_all(file().with_file_name("")).expect("a folder");
        fs::write(file(), text + "\n").expect("it is written");
        panic!("the requests are kept: read what changed, and run again without {SWITCH}");
    }

    let text = fs::read_to_string(file()).unwrap_or_else(|_| "{}".to_owned());
    let was: BTreeMap<String, Counts> = serde_json::from_str(&text).expect("it was written here");
    let none = Counts::new();
    let regressed: Vec<String> = is
        .iter()
        .flat_map(|(operation, is)| {
            let found = regressions(was.get(operation).unwrap_or(&none), is);
            found.into_iter().map(move |found| format!("{operation} of {DEPLOYMENTS} x {OBJECTS}: {found}"))
        })
        .collect();
    assert!(
        regressed.is_empty(),
        "{}\nWith {SWITCH}=write what is sent now is kept in {}. Read what changed.",
        regressed.join("\n"),
        file().display()
    );
}
