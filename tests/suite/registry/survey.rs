//! By hand: every published bundle that renders, installed and removed, and every two versions of a package, upgraded.
//!
//! `cargo test --workspace --test suites registry::survey -- --ignored --nocapture`; `ONLY=keda` looks at some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::World;
use serde_json::json;
use tokio::sync::{Mutex, RwLock};

use super::case::installed;
use super::corpus::{define_foreign_kinds, deployment, push};
use super::listing;
use super::published::{self, Published};

/// Bundles that are worked on at once.
const PARALLEL: usize = 6;
/// Longest installation: unoptimised programs read large schemas slowly.
const PATIENCE: Duration = Duration::from_secs(40);

/// What two bundles cannot both have, and requests that a webhook without a backend stops for all.
struct Locks {
    claims: BTreeMap<String, Arc<Mutex<()>>>,
    core: RwLock<()>,
}

/// Most of them come to their end, the others being refused for what they are; of a choice (`ONLY`) nothing is asked.
fn most(done: usize, of: usize) {
    let is_whole = std::env::var_os("ONLY").is_none();
    assert!(!is_whole || (of > 0 && done * 4 >= of * 3), "{done} of {of}");
}

/// Why a BundleDeployment is not installed.
async fn reasons(client: &Client, target: &Target) -> String {
    let object = verbs::get(client, target).await.expect("it can be read").expect("it exists");
    let text = |kind| verbs::condition(&object, kind).map(|condition| condition["message"].to_string());
    let texts = ["HasValidBundle", "Installed"].map(|kind| format!("{kind}: {}", text(kind).unwrap_or_default()));
    texts.join("; ")
}

async fn wait(
    client: &Client,
    target: &Target,
    is_it: impl Fn(&DynamicObject) -> bool,
) -> Result<DynamicObject, String> {
    let is_it = |object: Option<&DynamicObject>| object.is_some_and(&is_it);
    match verbs::await_object(client, target, "the installation", PATIENCE, is_it).await {
        Ok(Some(object)) => Ok(object),
        _ => Err(reasons(client, target).await),
    }
}

/// Installs one version after the other and removes the last: how far it came.
async fn try_out(world: &World, client: &Client, bundles: &[&Published]) -> Result<(), String> {
    let name = verbs::unique_name("survey");
    let target = Target::bundle_deployment(&name);
    let result = async {
        let source = push(world, bundles[0]).await;
        verbs::create(client, &deployment(&name, bundles[0], &source)).await.map_err(|error| format!("{error:#}"))?;
        let mut active = wait(client, &target, |object| installed().met_by(object)).await?;
        for next in &bundles[1..] {
            let source = push(world, next).await;
            let config = if next.config.is_null() { json!(null) } else { next.config.clone() };
            let patch = json!({"spec": {"config": config, "template": {"spec": {"source": source}}}});
            verbs::merge(client, &target, &patch).await.map_err(|error| format!("{error:#}"))?;
            let before = active.data["status"]["activeBundle"].clone();
            let is_next =
                |object: &DynamicObject| object.data["status"]["activeBundle"] != before && installed().met_by(object);
            active = wait(client, &target, is_next).await.map_err(|error| format!("to {}: {error}", next.name))?;
        }
        Ok(())
    };
    let result = result.await;
    verbs::delete(client, &target).await.expect("it can be deleted");
    let kinds: BTreeSet<(&str, &str)> = bundles.iter().flat_map(|bundle| bundle.kinds()).collect();
    let labels = format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={name}");
    let end = tokio::time::Instant::now() + Duration::from_mins(2);
    while tokio::time::Instant::now() < end {
        let mut left = 0;
        for (api_version, kind) in &kinds {
            left += verbs::list(client, api_version, kind, &labels).await.map_or(0, |objects| objects.len());
        }
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    result
}

/// Works on groups of versions, as many at once as do not meet; returns how many came to their end.
async fn all(world: &World, client: &Client, groups: &[Vec<&Published>]) -> usize {
    let claims =
        |group: &[&Published]| -> BTreeSet<String> { group.iter().flat_map(|bundle| bundle.claims()).collect() };
    let locks = Locks {
        claims: groups.iter().flat_map(|group| claims(group)).map(|claim| (claim, Arc::default())).collect(),
        core: RwLock::new(()),
    };
    let work = groups.iter().map(|group| {
        let (claims, locks) = (claims(group), &locks);
        async move {
            let mut held = Vec::new();
            for claim in claims {
                held.push(locks.claims[&claim].lock().await);
            }
            let result = if group.iter().any(|bundle| bundle.stops_others()) {
                let _alone = locks.core.write().await;
                try_out(world, client, group).await
            } else {
                let _together = locks.core.read().await;
                try_out(world, client, group).await
            };
            let names: Vec<&str> = group.iter().map(|bundle| bundle.name.as_str()).collect();
            eprintln!("{}: {}", names.join(" -> "), result.as_ref().err().map_or("done", String::as_str));
            usize::from(result.is_ok())
        }
    });
    futures::stream::iter(work).buffer_unordered(PARALLEL).collect::<Vec<_>>().await.into_iter().sum()
}

/// The bundles to look at, and a world for them.
async fn prepared() -> Option<(World, Client, Vec<Published>)> {
    let Some(corpus) = rukpak_tests::tools::corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no published bundle was tried");
        return None;
    };
    let filter = std::env::var("ONLY").unwrap_or_default();
    let mut bundles = Vec::new();
    for name in published::with_golden(&corpus).into_iter().filter(|name| name.contains(&filter)) {
        match published::read(&corpus, &name) {
            Ok(bundle) => bundles.push(bundle),
            Err(error) => eprintln!("{name}: not rendered: {}", error.lines().next().unwrap_or_default()),
        }
    }
    let world = World::start(Vec::new()).await.expect("a world can be started");
    let client = world.admin().await;
    define_foreign_kinds(&client).await;
    Some((world, client, bundles))
}

#[tokio::test]
#[ignore = "takes many minutes; read what it prints"]
async fn survey_of_installations() {
    let Some((world, client, bundles)) = prepared().await else { return };
    let before = listing::everything(&client).await;
    let groups: Vec<Vec<&Published>> = bundles.iter().map(|bundle| vec![bundle]).collect();
    let installed = all(&world, &client, &groups).await;
    eprintln!("{installed} of {} installed", groups.len());
    most(installed, groups.len());
    assert_eq!(listing::left_over(&client, &before, Duration::from_mins(2)).await, BTreeSet::new());
}

#[tokio::test]
#[ignore = "takes many minutes; read what it prints"]
async fn survey_of_upgrades() {
    let Some((world, client, bundles)) = prepared().await else { return };
    let before = listing::everything(&client).await;
    let mut packages: BTreeMap<&str, Vec<&Published>> = BTreeMap::new();
    for bundle in &bundles {
        packages.entry(bundle.package()).or_default().push(bundle);
    }
    let pairs = packages.values().flat_map(|versions| versions.windows(2).map(<[_]>::to_vec));
    let groups: Vec<Vec<&Published>> = pairs.collect();
    let upgraded = all(&world, &client, &groups).await;
    eprintln!("{upgraded} of {} upgraded", groups.len());
    most(upgraded, groups.len());
    assert_eq!(listing::left_over(&client, &before, Duration::from_mins(2)).await, BTreeSet::new());
}
