//! The one check: is there exactly what the operation was to bring about?

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::sweep::operation::{End, Operation};
use crate::sweep::release::Release;
use crate::sweep::renewal;
use crate::sweep::stored;
use crate::sweep::subject::{OWNER_NAME, Objects, Subject, key, text};

/// Garbage collection does not pass the gate: this long without a write, and all is looked at again.
const INTERVAL: Duration = Duration::from_millis(250);

/// Waits until all is as it is to be at the end of the operation; else what is wrong.
pub async fn wait(subject: &Subject<'_>, operation: Operation, within: Duration) -> Result<(), String> {
    let deadline = Instant::now() + within;
    loop {
        let known = subject.stage.gate.writes().len();
        if operation == Operation::Migration
            && let Some(lost) = stored::lost(subject).await
        {
            return Err(lost);
        }
        let wrong = match problems(subject, operation).await {
            Ok(wrong) if wrong.is_empty() => return Ok(()),
            Ok(wrong) => wrong.join("; "),
            Err(error) => error.to_string(),
        };
        if Instant::now() > deadline {
            let status = verbs::get(&subject.stage.client, &subject.target()).await.ok().flatten();
            let status = status.map(|object| object.data["status"].clone());
            return Err(format!("{wrong}; status: {}", json!(status)));
        }
        // Whichever comes first.
        let _ = tokio::time::timeout(INTERVAL, subject.stage.gate.wait_for_more(known)).await;
    }
}

/// What is not as it is to be.
async fn problems(subject: &Subject<'_>, operation: Operation) -> anyhow::Result<Vec<String>> {
    let (mut wrong, end) = (Vec::new(), operation.end());
    let objects = subject.objects(&mut wrong).await?;
    if operation == Operation::Bundle {
        bundle(subject, &mut wrong).await?;
        return Ok(wrong);
    }
    let deployment = verbs::get(&subject.stage.client, &subject.target()).await?;
    if deployment.is_some() != end.is_there {
        wrong.push(format!("is the deployment there? {}", deployment.is_some()));
    }
    let bundles = subject.bundles().await?.len();
    if bundles != end.bundles {
        wrong.push(format!("{bundles} Bundles are left, not {}", end.bundles));
    }
    if operation == Operation::Migration {
        stored::problems(subject, &mut wrong).await?;
    }
    let owner = deployment.as_ref().filter(|_| end.is_owned).and_then(|deployment| deployment.metadata.uid.clone());
    if operation == Operation::Renewal {
        renewal::compare(&subject.before, &objects, &mut wrong);
    } else {
        compare(subject, &end, &objects, owner.as_deref(), &mut wrong);
    }
    if let Some(deployment) = &deployment {
        let count = end.release.map(|release| release.objects(&subject.name).len());
        settled(deployment, &end, count, &mut wrong);
        if operation == Operation::Status && deployment.data["status"]["lastHandledReconcileAt"] != "now" {
            wrong.push("the request is not echoed".to_owned());
        }
    }
    Ok(wrong)
}

/// Exactly the objects of the release, each whole, marked, and the same as before.
fn compare(subject: &Subject<'_>, end: &End, objects: &Objects, owner: Option<&str>, wrong: &mut Vec<String>) {
    let wanted = end.release.map(|release: Release| release.objects(&subject.name)).unwrap_or_default();
    let wanted_keys: BTreeSet<String> =
        wanted.iter().map(|object| key(text(&object["kind"]), text(&object["metadata"]["name"]))).collect();
    wrong.extend(objects.keys().filter(|key| !wanted_keys.contains(*key)).map(|key| format!("{key} is left over")));
    for (wanted, key) in
        wanted.iter().map(|wanted| (wanted, key(text(&wanted["kind"]), text(&wanted["metadata"]["name"]))))
    {
        let Some(live) = objects.get(&key) else {
            wrong.push(format!("{key} is missing"));
            continue;
        };
        let mut whole = json!(live);
        // A list does not say it of each.
        whole["apiVersion"] = wanted["apiVersion"].clone();
        whole["kind"] = wanted["kind"].clone();
        if !contains(&whole, wanted) || count(&whole["data"]) != count(&wanted["data"]) {
            wrong.push(format!("{key} has not what the release says"));
        }
        let labels = live.metadata.labels.as_ref();
        if labels.and_then(|labels| labels.get(OWNER_NAME)) != Some(&subject.name) {
            wrong.push(format!("{key} is not labelled"));
        }
        let owners: Vec<_> = live.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str()).collect();
        if owners != owner.into_iter().collect::<Vec<_>>() {
            wrong.push(format!("{key} has the owners {owners:?}"));
        }
        let before = subject.before.get(&key).filter(|_| !end.anew.contains(&key.as_str()));
        if before.is_some_and(|before| before.metadata.uid != live.metadata.uid) {
            wrong.push(format!("{key} was made anew"));
        }
    }
}

/// The status speaks of the last generation, and of nothing that is still to be done.
fn settled(deployment: &DynamicObject, end: &End, objects: Option<usize>, wrong: &mut Vec<String>) {
    let status = &deployment.data["status"];
    if status["observedGeneration"] != json!(deployment.metadata.generation) {
        wrong.push("the status is of an older generation".to_owned());
    }
    let conditions: BTreeSet<String> = status["conditions"].as_array().into_iter().flatten().map(condition).collect();
    for wanted in end.conditions.iter().filter(|wanted| !conditions.iter().any(|has| has.starts_with(**wanted))) {
        wrong.push(format!("not {wanted}, but {conditions:?}"));
    }
    for stuck in ["Deleting=True", "Suspended=True", "Contested=True"] {
        wrong.extend(conditions.iter().filter(|has| has.starts_with(stuck)).cloned());
    }
    if !status["inventory"]["pending"].is_null()
        || objects.is_some_and(|objects| status["inventory"]["objects"] != json!(objects))
    {
        wrong.push(format!("the inventory is {}", status["inventory"]));
    }
}

/// `type=status/reason`.
fn condition(condition: &Value) -> String {
    format!("{}={}/{}", text(&condition["type"]), text(&condition["status"]), text(&condition["reason"]))
}

/// The Bundle is unpacked, and its content whole in the store.
async fn bundle(subject: &Subject<'_>, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let found = verbs::get(&subject.stage.client, &Target::bundle(&subject.name)).await?;
    let status = found.map(|bundle| bundle.data["status"].clone()).unwrap_or_default();
    if status["phase"] != "Unpacked" {
        wrong.push(format!("the Bundle is {}", status["phase"]));
    } else if let Err(error) =
        crate::sweep::store::is_whole(&subject.stage.store(), text(&status["pin"]["contentDigest"]))
    {
        wrong.push(error);
    }
    Ok(())
}

fn count(data: &Value) -> usize {
    data.as_object().map_or(0, serde_json::Map::len)
}

/// Whether `live` has every field of `wanted`, with its value; lists are compared whole.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| contains(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}
