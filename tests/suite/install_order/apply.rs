//! Applying as installers do: whatever is refused is tried again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use rukpak_tests::verbs::{self, Target};
use serde_json::Value;
use tokio::time::Instant;

/// Between two tries of an object, or two passes over all. Nobody tells when a kind begins to be served.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest try: an API server that starts may take a connection and not answer.
const TRY: Duration = Duration::from_mins(1);

/// How an object gets there.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// Created; fine if it is there. So does the bootstrap of an installation.
    Create,
    /// Applied, as the cluster-version operator does for ever.
    Apply,
}

/// The objects in an order that the seed says.
pub fn shuffled(objects: &[Value], seed: u64) -> Vec<Value> {
    let mut state = seed;
    // SplitMix64: the same on every machine.
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut shuffled = objects.to_vec();
    for last in (1..shuffled.len()).rev() {
        let other = next() % (last as u64 + 1);
        shuffled.swap(last, usize::try_from(other).unwrap());
    }
    shuffled
}

/// Goes over the objects again and again until each was taken; returns in how many passes something was refused. What the API
/// server was too busy to answer was not.
pub async fn in_passes(client: &Client, objects: &[Value], how: How, deadline: Duration) -> Result<usize> {
    let end = Instant::now() + deadline;
    let mut left: Vec<&Value> = objects.iter().collect();
    let mut refusals = 0;
    loop {
        let mut refused = Vec::new();
        let mut errors = Vec::new();
        for object in left {
            if let Err(error) = once(client, object, how).await {
                refused.push(object);
                errors.push(error);
            }
        }
        if refused.is_empty() {
            return Ok(refusals);
        }
        if Instant::now() > end {
            bail!("not taken after {deadline:?}: {errors:#?}");
        }
        refusals += usize::from(errors.iter().any(is_refusal));
        left = refused;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tries every object by itself until it is taken; `refused` says of each whether it was not at first.
pub async fn all_at_once(
    client: &Client,
    objects: &[Value],
    how: How,
    deadline: Duration,
    refused: &[AtomicBool],
) -> Result<()> {
    let end = Instant::now() + deadline;
    let one = async |(object, refused): (&Value, &AtomicBool)| {
        while let Err(error) = once(client, object, how).await {
            refused.store(true, Ordering::Relaxed);
            if Instant::now() > end {
                return Err(error.context(format!("not taken after {deadline:?}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    };
    futures::future::try_join_all(objects.iter().zip(refused).map(one)).await.map(|_| ())
}

async fn once(client: &Client, object: &Value, how: How) -> Result<()> {
    let step = async {
        match how {
            How::Apply => verbs::apply(client, object).await,
            How::Create => verbs::create(client, object).await,
        }
    };
    let target = Target::of(object)?;
    match tokio::time::timeout(TRY, step).await.with_context(|| format!("no answer about {target}"))? {
        Err(error) if matches!(how, How::Create) && is_there(&error) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Whether it is the API server's word: not the lack of one, and not that it has no time.
fn is_refusal(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if ![429, 503, 504].contains(&status.code))
}

fn is_there(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.reason == "AlreadyExists")
}

#[test]
fn a_seed_is_an_order() {
    let objects: Vec<Value> = (0..40).map(Value::from).collect();
    let order = shuffled(&objects, 7);
    assert_eq!(order, shuffled(&objects, 7));
    assert_ne!(order, shuffled(&objects, 8));
    assert_ne!(order, objects);
    let mut sorted = order;
    sorted.sort_by_key(Value::as_u64);
    assert_eq!(sorted, objects);
}
