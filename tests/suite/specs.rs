//! Specs that nobody would write: sequences over every field that the schema of a BundleDeployment, or of a ClusterExtension, has, with values that fit, that
//! lie at a bound, and that do not fit, back and forth.
//!
//! After each accepted spec the cluster is as if a new deployment had been made with that spec; where a new one is not installed
//! either, the release of before is whole. Nothing is refused without words, and nothing is stuck: the plain spec at the end of each
//! sequence is installed. `RUKPAK_SPECS=N` tries N sequences, `RUKPAK_SEED=N` others.

mod extensions;
mod fields;
mod subject;

use std::env;
use std::io::Write as _;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures::StreamExt as _;
use rukpak_tests::metrics;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::World;
use serde_json::Value;

use self::fields::{Field, fields, remove, set};
use self::subject::{Subject, Tried};
use crate::harness::conformance::requests::Numbers;

/// Sequences, where `RUKPAK_SPECS` does not say otherwise.
const SEQUENCES: u64 = 4;
/// Specs of one sequence.
const LENGTH: u64 = 12;
/// Sequences at a time: most of them is waiting.
const PARALLEL: usize = 4;

/// What was tried.
#[derive(Default)]
struct Counts {
    refused: u32,
    like_a_new_one: u32,
    whole_as_before: u32,
    of_others: u32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_spec_ends_as_a_new_deployment_with_it_would() {
    let begun = Instant::now();
    let (seed, sequences) = numbers(SEQUENCES);
    let world = World::start(Vec::new()).await.expect("the world starts");
    let client = world.admin().await;
    let definition =
        Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", "bundledeployments.core.rukpak.io");
    let definition = verbs::get(&client, &definition).await.expect("the API server agrees").expect("it is installed");
    let fields = fields(&definition.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
    assert!(fields.len() >= 40, "the schema has only {} fields", fields.len());

    let sequences = (0..sequences).map(|index| sequence(&world, &fields, seed + index));
    let counts: Vec<Counts> = futures::stream::iter(sequences).buffer_unordered(PARALLEL).collect().await;

    let shown = metrics::text(&world.controller).await.expect("the controller runs");
    let panics = shown.lines().find(|line| line.starts_with("rukpak_reconcile_panics_total"));
    assert_eq!(panics, Some("rukpak_reconcile_panics_total 0"), "{}", world.controller.log_tail(60));
    let sum = |of: fn(&Counts) -> u32| counts.iter().map(of).sum::<u32>();
    let (refused, alike) = (sum(|one| one.refused), sum(|one| one.like_a_new_one));
    let (whole, others) = (sum(|one| one.whole_as_before), sum(|one| one.of_others));
    let figures = format!(
        "seed {seed}: {} fields, {} specs: {refused} refused, {alike} as a new deployment, {whole} whole as before, {others} of other \
         provisioners, {:?}",
        fields.len(),
        refused + alike + whole + others,
        begun.elapsed()
    );
    say(&figures);
    assert!(refused > 0 && alike > 0 && whole > 0, "{figures}");
}

/// The seed of the first sequence, and how many there are.
fn numbers(sequences: u64) -> (u64, u64) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("it is a number"));
    let seed = number("RUKPAK_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
        u64::try_from(now.as_millis()).expect("it fits for a while")
    });
    (seed, number("RUKPAK_SPECS").unwrap_or(sequences))
}

/// To the terminal, whether or not the output of tests is captured.
fn say(text: &str) {
    // Whoever closed it does not want to know.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// One deployment through its specs.
async fn sequence(world: &World, fields: &[Field], seed: u64) -> Counts {
    let mut numbers = Numbers(seed);
    let subject = Subject::create(world).await;
    let meant = subject.meant();
    let mut counts = Counts::default();
    let mut spec = subject.plain(1);
    let mut story = vec![format!("seed {seed}, {}", subject.name)];
    for _ in 0..LENGTH {
        let before = spec.clone();
        // One spec in four differs in two fields.
        for _ in 0..=u64::from(numbers.below(4) == 0) {
            change(&mut spec, &mut numbers, fields, &meant);
        }
        story.push(spec.to_string());
        match subject.attempt(&spec).await.unwrap_or_else(|wrong| panic!("{wrong}\n{}", story.join("\n"))) {
            Tried::Refused => {
                counts.refused += 1;
                spec = before;
            }
            Tried::LikeANewOne => counts.like_a_new_one += 1,
            Tried::WholeAsBefore => {
                counts.whole_as_before += 1;
                // As people do, every other time.
                if numbers.below(2) == 0 {
                    spec = before;
                }
            }
            Tried::OfOthers => counts.of_others += 1,
        }
    }
    subject.end_plainly().await.unwrap_or_else(|wrong| panic!("{wrong}\n{}", story.join("\n")));
    counts.like_a_new_one += 1;
    subject.delete().await;
    counts
}

/// Changes one field: to a value that means something in half of the cases, to one that the schema suggests in a third, else away.
fn change(spec: &mut Value, numbers: &mut Numbers, fields: &[Field], meant: &[Field]) {
    match numbers.below(6) {
        0..=2 => {
            let field = numbers.one(meant);
            set(spec, &field.path, numbers.one(&field.values).clone());
        }
        3 | 4 => {
            let field = numbers.one(fields);
            set(spec, &field.path, numbers.one(&field.values).clone());
        }
        _ => remove(spec, &numbers.one(meant).path),
    }
}
