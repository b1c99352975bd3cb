//! What everything says of one package in one namespace, with words for what differs from run to run: names, times, UIDs and digests.

use std::sync::LazyLock;

use kube::Api;
use kube::api::{DynamicObject, ListParams};
use regex::Regex;
use rukpak_tests::verbs::{Target, discover};
use serde_json::{Value, json};

use crate::olmv0::facade::case::Case;
use crate::platform::packages;

const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
/// Patterns, and the words that stand for their matches.
static PATTERNS: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"install-[0-9a-f]{5}\b", "PLAN"),
        // Generated names are cut where the hash begins.
        (r"\bPACKAGE\.v[0-9.]*-+[0-9a-z]{40,}\b", "GENERATED"),
    ]
    .map(|(pattern, word)| (Regex::new(pattern).expect("it is a pattern"), word))
});

/// Everything as it is now.
pub async fn take(case: &Case) -> Value {
    let subscription = case.find(&case.subscribed()).await;
    let owner = subscription.as_ref().and_then(|object| object.metadata.uid.clone());
    let mut plans = list(case, "InstallPlan").await;
    // Garbage collection takes those of a Subscription that is gone, later.
    plans.retain(|plan| plan.metadata.owner_references.iter().flatten().any(|one| Some(&one.uid) == owner.as_ref()));
    plans.sort_by_key(|plan| plan.data["spec"]["generation"].as_i64());
    let versions = list(case, "ClusterServiceVersion").await;
    let operator = Target::cluster("operators.coreos.com/v1", "Operator", &case.target().name);
    let deployment = case.find(&case.target()).await;
    let workload = owned(case, &case.named("Deployment", packages::DEPLOYMENT), deployment.as_ref()).await;
    let settings = owned(case, &case.settings(), deployment.as_ref()).await;
    let targets =
        workload.map(|it| it.data["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"].clone());
    let found = json!({
        "subscription": subscription.map(|object| of_subscription(&object, &plans)),
        "plans": plans.iter().map(of_plan).collect::<Vec<_>>(),
        "versions": versions.iter().map(of_version).collect::<Vec<_>>(),
        "group": case.find(&case.named("OperatorGroup", "group")).await.map(|object| {
            json!({"namespaces": object.data["status"]["namespaces"], "conditions": conditions(&object)})
        }),
        "source": case.find(&case.named("CatalogSource", &case.package)).await.map(|object| {
            object.data["status"]["connectionState"]["lastObservedState"].clone()
        }),
        "operator": case.find(&operator).await.filter(|_| deployment.is_some()).map(|object| of_operator(&object)),
        "settings": settings.map(|object| object.data["data"].clone()),
        "targets": targets,
        "deployment": deployment.as_ref().map(of_deployment),
    });
    normalised(case, &found)
}

/// Where two of them differ, in words.
pub fn differences(now: &Value, end: &Value) -> Vec<String> {
    let (now, end) = (now.as_object().cloned().unwrap_or_default(), end.as_object().cloned().unwrap_or_default());
    let differs = |(key, wanted): (&String, &Value)| {
        let has = now.get(key).unwrap_or(&Value::Null);
        (has != wanted).then(|| format!("{key} is {has}\n    and not {wanted}"))
    };
    end.iter().filter_map(differs).collect()
}

async fn list(case: &Case, kind: &str) -> Vec<DynamicObject> {
    let (resource, _) = discover(&case.client, V1ALPHA1, kind).await.expect("it is served");
    let api: Api<DynamicObject> = Api::namespaced_with(case.client.clone(), &case.space, &resource);
    let mut objects = api.list(&ListParams::default()).await.expect("the API server agrees").items;
    objects.retain(|object| object.metadata.deletion_timestamp.is_none());
    objects
}

/// An object that the BundleDeployment has, if both are there: garbage collection takes it later than that.
async fn owned(case: &Case, target: &Target, deployment: Option<&DynamicObject>) -> Option<DynamicObject> {
    let uid = deployment?.metadata.uid.as_ref()?;
    let object = case.find(target).await?;
    let is_owned = object.metadata.owner_references.iter().flatten().any(|owner| owner.uid == *uid);
    is_owned.then_some(object)
}

fn of_subscription(object: &DynamicObject, plans: &[DynamicObject]) -> Value {
    let status = &object.data["status"];
    let referenced = status["installPlanRef"]["uid"].as_str();
    let health = status["catalogHealth"].as_array().into_iter().flatten();
    json!({
        "state": status["state"],
        "currentCSV": status["currentCSV"],
        "installedCSV": status["installedCSV"],
        "installPlanGeneration": status["installPlanGeneration"],
        "plan": plans.iter().position(|plan| plan.metadata.uid.as_deref() == referenced),
        "catalogHealth": health.map(|health| &health["healthy"]).collect::<Vec<_>>(),
        "conditions": conditions(object),
    })
}

fn of_plan(object: &DynamicObject) -> Value {
    let status = &object.data["status"];
    let step = |step: &Value| {
        let resource = &step["resource"];
        json!([resource["kind"], resource["name"], step["status"]])
    };
    json!({
        "annotations": object.metadata.annotations,
        "spec": object.data["spec"],
        "phase": status["phase"],
        "catalogSources": status["catalogSources"],
        "steps": status["plan"].as_array().into_iter().flatten().map(step).collect::<Vec<_>>(),
        "conditions": conditions(object),
    })
}

fn of_version(object: &DynamicObject) -> Value {
    let status = &object.data["status"];
    json!({
        "name": object.metadata.name,
        "labels": object.metadata.labels,
        "annotations": object.metadata.annotations,
        "replaces": object.data["spec"]["replaces"],
        "phase": status["phase"],
        "reason": status["reason"],
        "message": status["message"],
        "requirementStatus": status["requirementStatus"],
    })
}

fn of_operator(object: &DynamicObject) -> Value {
    let refs = object.data["status"]["components"]["refs"].as_array().into_iter().flatten();
    // Names of roles have a hash in them.
    let name = |one: &Value| if one["apiVersion"] == V1ALPHA1 { one["name"].clone() } else { Value::Null };
    refs.map(|one| json!([one["kind"], name(one)])).collect()
}

fn of_deployment(object: &DynamicObject) -> Value {
    let (mut spec, status) = (object.data["spec"].clone(), &object.data["status"]);
    spec["approvedPlan"] = json!(!spec["approvedPlan"].is_null());
    let version = |revision: &Value| revision["annotations"]["olm.operatorframework.io/bundle-version"].clone();
    json!({
        "annotations": object.metadata.annotations,
        "labels": object.metadata.labels,
        "spec": spec,
        "history": status["history"].as_array().into_iter().flatten().map(version).collect::<Vec<_>>(),
        "objects": status["inventory"]["objects"],
        "conditions": conditions(object),
    })
}

/// `type=status/reason`, sorted.
fn conditions(object: &DynamicObject) -> Vec<String> {
    let all = object.data["status"]["conditions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let words = |one: &Value| format!("{}={}/{}", text(&one["type"]), text(&one["status"]), text(&one["reason"]));
    let mut words: Vec<String> = all.map(words).collect();
    words.sort();
    words
}

fn normalised(case: &Case, found: &Value) -> Value {
    // Both are called the same here, and the namespace stands alone in more places.
    let mut text = found.to_string().replace(&format!("\"{}\"", case.space), "\"SPACE\"");
    text = text.replace(&case.package, "PACKAGE");
    for (pattern, word) in &*PATTERNS {
        text = pattern.replace_all(&text, *word).into_owned();
    }
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
