//! CRDs that several BundleDeployments declare: one leads, all have their versions, and the last one takes it along.

mod in_common;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, until};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget, is_owned};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::served_versions::with_versions;
use crate::engine::worlds;

const CRDS: [&str; 2] = ["apiextensions.k8s.io", "customresourcedefinitions"];

/// Two deployments that both have the definition, which the first leads.
async fn pair<'a>(one: &Case<'a>, two: &Case<'a>, definition: &Value) {
    one.install(&[definition.clone(), one.config_map("a", json!({"x": "1"}))]).await;
    two.install(&[definition.clone(), two.config_map("a", json!({"x": "1"}))]).await;
}

/// Creates an object of the kind; returns its UID.
async fn instance(case: &Case<'_>, group: &str) -> (Target, Option<String>) {
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.expect("it is served");
    let object = gadget(group, &case.namespace, "precious", 1);
    let made = case.foreign(&object).await;
    (Target::of(&object).expect("it has a name"), made.metadata.uid)
}

/// The names of the BundleDeployments that own the definition; the one that leads with a star.
async fn owners(case: &Case<'_>, group: &str) -> Vec<String> {
    let live = case.get(&definition_target(group)).await.expect("it is there");
    let star = |leads: Option<bool>| if leads == Some(true) { "*" } else { "" };
    let owners = live.metadata.owner_references.iter().flatten();
    owners.map(|owner| format!("{}{}", owner.name, star(owner.controller))).collect()
}

/// The versions of the definition, the stored one with a star.
fn versions(live: &DynamicObject) -> String {
    let star = |version: &Value| if version["storage"] == true { "*" } else { "" };
    let versions = live.data["spec"]["versions"].as_array().expect("a list").iter();
    let versions: Vec<String> =
        versions.map(|version| format!("{}{}", version["name"].as_str().expect("text"), star(version))).collect();
    versions.join(" ")
}

/// The definition with the leader owning again what the other has added.
async fn until_settled(leader: &Case<'_>, group: &str, expected: &str) -> DynamicObject {
    let is_so = |object: Option<&DynamicObject>| {
        let owns_versions = |object: &DynamicObject| {
            object.metadata.managed_fields.iter().flatten().any(|entry| {
                let set = entry.fields_v1.as_ref().map(|set| &set.0);
                entry.manager.as_deref() == Some("rukpak-core")
                    && set.is_some_and(|set| !set["f:spec"]["f:versions"].is_null())
            })
        };
        object.is_some_and(|object| versions(object) == expected && owns_versions(object))
    };
    leader.until(&definition_target(group), expected, is_so).await.expect("it is there")
}

async fn ready_message(case: &Case<'_>) -> String {
    let object = case.ready().await;
    let ready = verbs::condition(&object, "Ready").expect("it is there");
    ready["message"].as_str().expect("text").to_owned()
}

#[tokio::test]
async fn equal_definition_is_shared_and_goes_over_to_the_one_that_is_left() {
    let (one, two) = (Case::new("united").await, Case::new("united").await);
    let (definition, group) = definition("united");
    let target = definition_target(&group);
    pair(&one, &two, &definition).await;
    assert_eq!(owners(&one, &group).await, [format!("{}*", one.name), two.name.clone()]);
    let message = ready_message(&two).await;
    let used = format!("used as they are, and not changed: CustomResourceDefinition \"gadgets.{group}\"");
    assert!(message.contains(&used), "{message}");
    let (precious, uid) = instance(&two, &group).await;
    let before = one.get(&target).await.unwrap();

    one.delete(&one.target()).await;
    let after = two.until_owned(&target).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(owners(&two, &group).await, [format!("{}*", two.name)]);
    assert_eq!(two.get(&precious).await.expect("instances stay").metadata.uid, uid);
    assert!(!ready_message(&two).await.contains("used as they are"), "it is its own now");
    two.pivot("v2", &[definition, two.config_map("a", json!({"x": "2"}))]).await;
    assert_eq!(two.get(&precious).await.expect("instances stay").metadata.uid, uid);

    two.delete(&two.target()).await;
    two.until_gone(&target).await;
}

#[tokio::test]
async fn definition_that_leaves_one_bundle_stays_for_the_other() {
    let (one, two) = (Case::new("leaves").await, Case::new("leaves").await);
    let (definition, group) = definition("leaves");
    let target = definition_target(&group);
    pair(&one, &two, &definition).await;
    let (precious, uid) = instance(&two, &group).await;

    one.pivot("v2", &[one.config_map("a", json!({"x": "2"}))]).await;
    two.until_owned(&target).await;
    assert_eq!(two.get(&precious).await.expect("instances stay").metadata.uid, uid);
    assert_eq!(one.status().await["inventory"].get("released"), None, "it has an owner");

    // The one that left it comes back as a further owner, and leaves again.
    one.pivot("v3", &[definition, one.config_map("a", json!({"x": "3"}))]).await;
    assert_eq!(owners(&two, &group).await, [format!("{}*", two.name), one.name.clone()]);
    one.pivot("v4", &[one.config_map("a", json!({"x": "4"}))]).await;
    let is_alone = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.metadata.owner_references.as_ref().is_some_and(|owners| owners.len() == 1))
    };
    let live = two.until(&target, "one owner", is_alone).await.expect("it is there");
    assert!(is_owned(&live, &two.name, &two.uid().await));
    one.ready().await;

    // The last one has instances in it, and so leaves it.
    two.pivot("v2", &[two.config_map("a", json!({"x": "2"}))]).await;
    let is_free =
        |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.owner_references.is_none());
    two.until(&target, "no owner", is_free).await;
    assert_eq!(two.get(&precious).await.expect("instances stay").metadata.uid, uid);
    two.delete(&target).await;
}

#[tokio::test]
async fn version_that_one_adds_is_there_for_both_and_stays() {
    let (one, two) = (Case::new("adds").await, Case::new("adds").await);
    let (first, group) = definition("adds");
    let target = definition_target(&group);
    pair(&one, &two, &first).await;
    let (precious, uid) = instance(&one, &group).await;

    // The sharer adds one, and has it stored.
    let both = with_versions(&first, &[("v1", true, false), ("v2", true, true)]);
    two.pivot("v2", &[both, two.config_map("a", json!({"x": "2"}))]).await;
    until_settled(&one, &group, "v1 v2*").await;
    assert_eq!(owners(&one, &group).await, [format!("{}*", one.name), two.name.clone()], "nobody else leads");
    verbs::await_served(&one.client, &format!("{group}/v2"), "Gadget", SOON).await.expect("it is served");

    // The leader declares less, and another version.
    one.pivot("v2", &[first.clone(), one.config_map("a", json!({"x": "2"}))]).await;
    until_settled(&one, &group, "v1 v2*").await;
    let third = with_versions(&first, &[("v1", true, true), ("v3", true, false)]);
    one.pivot("v3", &[third, one.config_map("a", json!({"x": "3"}))]).await;
    until_settled(&one, &group, "v1 v2* v3").await;
    let message = ready_message(&one).await;
    assert!(message.contains("has the versions v2 as other BundleDeployments declare or declared them"), "{message}");
    two.ready().await;

    // Whoever inherits it lets none go in which objects may be stored.
    one.delete(&one.target()).await;
    two.until_owned(&target).await;
    let live = two.get(&target).await.unwrap();
    assert_eq!(versions(&live), "v1 v2* v3");
    let in_v2 = Target { api_version: format!("{group}/v2"), ..precious };
    assert_eq!(two.get(&in_v2).await.expect("instances stay").metadata.uid, uid);
    two.delete(&two.target()).await;
    two.until_gone(&target).await;
}

#[tokio::test]
async fn newer_schema_of_one_is_not_taken_from_it_by_the_other() {
    let (one, two) = (Case::new("newer").await, Case::new("newer").await);
    let (first, group) = definition("newer");
    let target = definition_target(&group);
    let mut more = first.clone();
    more["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] =
        json!({"type": "string"});
    one.install(&[more, one.config_map("a", json!({}))]).await;
    two.install(&[first, two.config_map("a", json!({}))]).await;
    let (precious, _) = instance(&one, &group).await;
    one.edit("user", &precious, json!({"spec": {"colour": "red"}})).await;

    one.delete(&one.target()).await;
    two.until_owned(&target).await;
    // A write under the older schema would take the colour away.
    one.edit("user", &precious, json!({"spec": {"size": 2}})).await;
    assert_eq!(two.get(&precious).await.unwrap().data["spec"], json!({"size": 2, "colour": "red"}));
    two.edit("user", &target, json!({"metadata": {"labels": {"core.rukpak.io/owner-name": "nobody"}}})).await;
    two.until_owned(&target).await;
    two.edit("user", &precious, json!({"spec": {"size": 3}})).await;
    assert_eq!(two.get(&precious).await.unwrap().data["spec"], json!({"size": 3, "colour": "red"}));
    two.delete(&two.target()).await;
    two.until_gone(&target).await;
}

/// Taken over it would be what the other one declares, and the API server would drop the rest of what is stored.
#[tokio::test]
async fn definition_that_another_leads_is_shared_whatever_the_spec_takes_over() {
    let (one, two) = (Case::new("led").await, Case::new("led").await);
    let (first, group) = definition("led");
    let mut more = first.clone();
    more["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] =
        json!({"type": "string"});
    one.install(&[more, one.config_map("a", json!({}))]).await;
    two.install(&[first.clone(), two.config_map("a", json!({"x": "1"}))]).await;
    let (precious, _) = instance(&one, &group).await;
    one.edit("user", &precious, json!({"spec": {"colour": "red"}})).await;
    let rules = json!([{"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "controlled": true}]);
    two.edit("user", &two.target(), json!({"spec": {"takeOver": rules}})).await;
    two.pivot("v2", &[first, two.config_map("a", json!({"x": "2"}))]).await;
    assert_eq!(owners(&two, &group).await, [format!("{}*", one.name), two.name.clone()]);
    one.edit("user", &precious, json!({"spec": {"size": 2}})).await;
    assert_eq!(one.get(&precious).await.unwrap().data["spec"], json!({"size": 2, "colour": "red"}));
    two.delete(&two.target()).await;
    one.delete(&one.target()).await;
    one.until_gone(&definition_target(&group)).await;
}

#[tokio::test]
async fn incompatible_definition_is_refused_with_both_names_before_anything_is_written() {
    let (one, two) = (Case::new("clash").await, Case::new("clash").await);
    let (first, group) = definition("clash");
    let target = definition_target(&group);
    let mut other = first.clone();
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
        json!({"type": "string"});
    one.install(&[first.clone(), one.config_map("a", json!({"x": "1"}))]).await;
    let live = one.get(&target).await.unwrap();
    let differs = format!(
        "CustomResourceDefinition \"gadgets.{group}\" in namespace \"\" exists and cannot be imported into the current release: \
         invalid ownership metadata; it is controlled by BundleDeployment {:?}, which declares it otherwise: ",
        one.name
    );

    two.create(&[other.clone(), two.config_map("a", json!({"x": "1"}))]).await;
    let object =
        until(&two.client, &two.name, Expected { kind: "Installed", status: "False", reason: None, message: &differs })
            .await;
    let message = verbs::condition(&object, "Installed").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("v1: ^.spec.size: type: ") && message.contains("declare the object compatibly"),
        "{message}"
    );
    assert!(two.get(&two.config_map_target("a")).await.is_none(), "nothing was written");
    assert_eq!(one.get(&target).await.unwrap().metadata.resource_version, live.metadata.resource_version);

    // Both have it; then either of them wants it otherwise.
    two.pivot("v2", &[first.clone(), two.config_map("a", json!({"x": "2"}))]).await;
    two.ready().await;
    let live = one.get(&target).await.unwrap();
    two.change("v3", &[other.clone(), two.config_map("a", json!({"x": "3"}))]).await;
    let object =
        until(&two.client, &two.name, Expected { kind: "Installed", status: "False", reason: None, message: &differs })
            .await;
    assert_eq!(
        two.get(&two.config_map_target("a")).await.unwrap().data["data"]["x"],
        "2",
        "{:#}",
        object.data["status"]
    );
    one.change("v2", &[other, one.config_map("a", json!({"x": "2"}))]).await;
    let message = one
        .refused("ErrorGettingReleaseState", &format!("and BundleDeployment {:?} declares the CRD too", two.name))
        .await;
    assert!(message.contains(&group), "{message}");
    assert_eq!(one.get(&target).await.unwrap().metadata.resource_version, live.metadata.resource_version);
    assert_eq!(one.get(&one.config_map_target("a")).await.unwrap().data["data"]["x"], "1");

    // As soon as the other goes, it is the first one's alone.
    two.delete(&two.target()).await;
    let is_alone = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.metadata.owner_references.as_ref().is_some_and(|owners| owners.len() == 1))
    };
    one.until(&target, "one owner", is_alone).await;
    one.delete(&one.target()).await;
    one.until_gone(&target).await;
}

/// What is kept when its deployment goes cannot be shared by owner references: it would go with the last of them.
#[tokio::test]
async fn definition_that_is_to_be_kept_is_not_shared() {
    let (one, two) = (Case::new("kept").await, Case::new("kept").await);
    let (definition, group) = definition("kept");
    let target = definition_target(&group);
    pair(&one, &two, &definition).await;
    one.edit("user", &one.target(), json!({"spec": {"deletionPolicy": "KeepCRDs"}})).await;
    let told = format!("it is shared with BundleDeployment {:?}, and could not be kept when that goes", two.name);
    let ready = Expected { kind: "Ready", status: "False", reason: None, message: &told };
    until(&one.client, &one.name, ready).await;
    assert_eq!(owners(&one, &group).await, [format!("{}*", one.name), two.name.clone()], "it would go with the second");

    let third = Case::new("kept").await;
    let reference = third.push("v1", &[definition]).await;
    let mut keeps = rukpak_tests::world::deployment(&third.name, rukpak_tests::world::image(&reference));
    keeps["spec"]["deletionPolicy"] = json!("KeepCRDs");
    verbs::create(&third.client, &keeps).await.unwrap();
    let foreign = format!("it is controlled by BundleDeployment {:?}", one.name);
    until(&third.client, &third.name, Expected { kind: "Installed", status: "False", reason: None, message: &foreign })
        .await;
    third.delete(&third.target()).await;

    // As soon as nobody else has it, it is kept.
    two.delete(&two.target()).await;
    let is_kept =
        |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.owner_references.is_none());
    one.until(&target, "no owner", is_kept).await;
    one.ready().await;
    one.delete(&one.target()).await;
    one.until_gone(&one.target()).await;
    assert!(one.get(&target).await.is_some(), "it outlives its deployment");
    one.delete(&target).await;
}

/// Whoever leads it is asked as well: the other goes on using what it declares.
#[tokio::test]
async fn leader_changes_nothing_that_the_other_declares_otherwise() {
    let (one, two) = (Case::new("leads").await, Case::new("leads").await);
    let (first, group) = definition("leads");
    let target = definition_target(&group);
    pair(&one, &two, &first).await;
    let live = one.get(&target).await.unwrap();
    let mut other = first.clone();
    other["spec"]["versions"][0]["subresources"] = json!({"scale": {"specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size"}});
    one.change("v2", &[other, one.config_map("a", json!({"x": "2"}))]).await;
    let told =
        format!("the subresources of version \"v1\" differ, and BundleDeployment {:?} declares the CRD too", two.name);
    one.refused("ErrorGettingReleaseState", &told).await;
    assert_eq!(one.get(&target).await.unwrap().metadata.resource_version, live.metadata.resource_version);
    assert_eq!(one.get(&one.config_map_target("a")).await.unwrap().data["data"]["x"], "1", "nothing was written");

    // It is looked at again within a minute, and nothing is in the way any more.
    two.delete(&two.target()).await;
    one.until_value(&one.config_map_target("a"), "/data/x", &json!("2")).await;
    one.delete(&one.target()).await;
    one.until_gone(&target).await;
}

/// The owner reference by which it was shared would have it deleted with the heir.
#[tokio::test]
async fn definition_that_is_to_be_kept_is_inherited_without_an_owner() {
    let (one, two) = (Case::new("heir").await, Case::new("heir").await);
    let (definition, group) = definition("heir");
    let target = definition_target(&group);
    pair(&one, &two, &definition).await;
    let (precious, uid) = instance(&two, &group).await;
    two.edit("user", &two.target(), json!({"spec": {"deletionPolicy": "KeepCRDs"}})).await;
    let is_refused = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| verbs::condition(object, "Ready").is_some_and(|ready| ready["status"] == "False"))
    };
    two.until(&two.target(), "a refusal", is_refused).await;
    one.delete(&one.target()).await;
    let is_kept =
        |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.owner_references.is_none());
    two.until(&target, "no owner", is_kept).await;
    two.ready().await;
    two.delete(&two.target()).await;
    two.until_gone(&two.target()).await;
    assert_eq!(two.get(&precious).await.expect("it outlives its deployment").metadata.uid, uid);
    two.delete(&target).await;
}

/// Garbage collection takes the owner reference of a deployment off after that is gone, and the definition with the last one.
#[tokio::test]
async fn definition_is_not_left_to_a_deployment_that_is_being_deleted() {
    let (one, two) = (Case::new("dead").await, Case::new("dead").await);
    let (definition, group) = definition("dead");
    let target = definition_target(&group);
    pair(&one, &two, &definition).await;
    let (precious, uid) = instance(&two, &group).await;
    two.edit("user", &two.target(), json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    two.delete(&two.target()).await;
    one.pivot("v2", &[one.config_map("a", json!({"x": "2"}))]).await;
    let is_free = |object: Option<&DynamicObject>| object.is_some_and(|object| !has_owner(object, &one.name));
    let live = one.until(&target, "the leader gone", is_free).await.expect("it stays");
    assert_eq!(live.metadata.owner_references, None, "it has instances, and nobody who would keep it");
    two.edit("user", &two.target(), json!({"metadata": {"finalizers": null}})).await;
    two.until_gone(&two.target()).await;
    assert_eq!(one.get(&precious).await.expect("instances stay").metadata.uid, uid);
    one.delete(&target).await;
}

fn has_owner(object: &DynamicObject, name: &str) -> bool {
    object.metadata.owner_references.iter().flatten().any(|owner| owner.name == name)
}

/// Without its owner reference the definition would go with the leader.
#[tokio::test]
async fn owner_that_somebody_takes_off_a_shared_definition_comes_back() {
    let (one, two) = (Case::new("stolen").await, Case::new("stolen").await);
    let (definition, group) = definition("stolen");
    let target = definition_target(&group);
    pair(&one, &two, &definition).await;
    let live = one.get(&target).await.unwrap();
    let leader: Vec<_> =
        live.metadata.owner_references.iter().flatten().filter(|owner| owner.name == one.name).collect();
    one.edit("intruder", &target, json!({"metadata": {"ownerReferences": leader}})).await;
    let is_back = |object: Option<&DynamicObject>| object.is_some_and(|object| has_owner(object, &two.name));
    two.until(&target, "the owner that was taken off", is_back).await;
    one.delete(&one.target()).await;
    two.until_owned(&target).await;
    two.delete(&two.target()).await;
    two.until_gone(&target).await;
}

#[tokio::test]
async fn version_that_one_has_added_stays_though_the_leader_was_suspended_meanwhile() {
    let (one, two) = (Case::new("asleep").await, Case::new("asleep").await);
    let (first, group) = definition("asleep");
    let target = definition_target(&group);
    pair(&one, &two, &first).await;
    one.edit("user", &one.target(), json!({"spec": {"suspend": true}})).await;
    until(&one.client, &one.name, Expected::is_true("Suspended", "Suspended")).await;
    let both = with_versions(&first, &[("v1", true, false), ("v2", true, true)]);
    two.pivot("v2", &[both, two.config_map("a", json!({"x": "2"}))]).await;
    two.delete(&two.target()).await;
    two.until_gone(&two.target()).await;
    one.edit("user", &one.target(), json!({"spec": {"suspend": false}})).await;
    one.pivot("v2", &[first, one.config_map("a", json!({"x": "2"}))]).await;
    assert_eq!(versions(&one.get(&target).await.unwrap()), "v1 v2*", "objects may be stored in it");
    one.delete(&one.target()).await;
    one.until_gone(&target).await;
}

/// The controller is killed before it shares, before the leader owns the union, and before the heir leads.
#[tokio::test]
async fn definition_is_shared_and_inherited_whenever_the_controller_is_killed() {
    let alone = worlds::alone().await;
    let (one, two) = (alone.case("united-kill").await, alone.case("united-kill").await);
    let (first, group) = definition("unitedkill");
    let (target, name) = (definition_target(&group), format!("gadgets.{group}"));
    let both = with_versions(&first, &[("v1", true, true), ("v2", true, false)]);
    one.install(&[first, one.config_map("a", json!({"x": "1"}))]).await;
    let (precious, uid) = instance(&one, &group).await;

    let gate = async |number: usize| {
        let (count, name) = (std::sync::atomic::AtomicUsize::new(0), name.clone());
        Hook::start(&one, &[CRDS], move |request| {
            let is_it = request.name == name && count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == number;
            if is_it { Verdict::AtGate } else { Verdict::Allow }
        })
        .await
    };
    let hook = gate(1).await;
    two.create(&[both, two.config_map("a", json!({"x": "1"}))]).await;
    hook.until_at_gate().await;
    alone.kill().await;
    assert_eq!(owners(&one, &group).await, [format!("{}*", one.name)], "nothing is shared yet");
    hook.end().await;

    let hook = gate(2).await;
    alone.start().await;
    hook.until_at_gate().await;
    let live = one.get(&target).await.unwrap();
    assert_eq!(versions(&live), "v1* v2", "the second has its version, and the leader does not own it yet");
    alone.kill().await;
    hook.end().await;
    alone.start().await;
    two.ready().await;
    until_settled(&one, &group, "v1* v2").await;
    one.ready().await;

    let hook = gate(1).await;
    one.delete(&one.target()).await;
    hook.until_at_gate().await;
    assert_eq!(owners(&two, &group).await, std::slice::from_ref(&two.name), "nobody leads");
    alone.kill().await;
    hook.end().await;
    alone.start().await;
    let live = two.until_owned(&target).await;
    assert_eq!(versions(&live), "v1* v2");
    assert_eq!(two.get(&precious).await.expect("instances stay").metadata.uid, uid);
    two.delete(&two.target()).await;
    two.until_gone(&target).await;
}
