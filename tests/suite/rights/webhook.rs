//! ClusterRole `rukpak-webhooks-admin` and Role `rukpak-webhooks-certificate`, verb by verb.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;
use kube::Api;
use kube::api::PostParams;
use rukpak_tests::Process;
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, WEBHOOK_ACCOUNT};
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use super::{Access, INTERVAL, PATIENCE, Turn, may, rules, without};

const SECRET: &str = "rukpak-webhook-certificate";
const CONFIGURATION: &str = "rukpak-validating-webhook-configuration";
const REGISTRATION: &str = "admissionregistration.k8s.io";

const SECRETS: Access<'_> = Access::to("", "", "secrets").within(SYSTEM_NAMESPACE).named(SECRET);
const CONFIGURATIONS: Access<'_> = Access::to("", REGISTRATION, "validatingwebhookconfigurations").named(CONFIGURATION);

/// Without the verb the webhook that begins anew says what it lacks; with it, it is ready.
async fn needs(verb: &str, on: Access<'_>) {
    let turn = Turn::take().await;
    let role = if on.group == REGISTRATION {
        Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", "rukpak-webhooks-admin")
    } else {
        Target::namespaced("rbac.authorization.k8s.io/v1", "Role", SYSTEM_NAMESPACE, "rukpak-webhooks-certificate")
    };
    let full = rules(&role.kind, &role.name);
    let [only] = full.as_slice() else { panic!("{role} has one rule: {full:?}") };
    let access = Access { verb, ..on };
    turn.set(&role, &[without(only, verb)], WEBHOOK_ACCOUNT, access, false).await;
    let secret = Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, SECRET);
    verbs::delete(&turn.client, &secret).await.expect("the administrator may");

    let webhook = &turn.world.webhook;
    // Not an orderly end: it would wait for calls that nobody makes.
    webhook.kill().await.expect("it runs");
    let said = log(webhook).len();
    webhook.restart().await.expect("it starts");
    let refusal = match verb {
        // An apply that may not create; as it stands in a log line of JSON.
        "create" => format!("{} \\\"{}\\\" is forbidden: ", access.resource, access.name),
        _ => format!("cannot {verb} resource \\\"{}\\\"", access.resource),
    };
    await_log(webhook, said, &refusal).await;
    // With a list and no watch it works until something changes; without anything else it never does.
    assert!(verb == "watch" || !is_ready(webhook).await, "{access:?}");

    turn.set(&role, &full, WEBHOOK_ACCOUNT, access, true).await;
    webhook.kill().await.expect("it runs");
    webhook.restart().await.expect("it starts");
    webhook.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
}

async fn is_ready(webhook: &Process) -> bool {
    let answer = reqwest::get(format!("{}/readyz", webhook.health_url)).await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

fn log(webhook: &Process) -> String {
    std::fs::read_to_string(webhook.log_path()).expect("it has a log")
}

async fn await_log(webhook: &Process, from: usize, text: &str) {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let log = log(webhook);
        let new = log.get(from..).unwrap_or_default();
        if new.contains(text) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "the webhook does not say {text}, but:\n{new}");
        tokio::time::sleep(INTERVAL).await;
    }
}

#[tokio::test]
async fn it_lists_its_secret() {
    needs("list", SECRETS).await;
}

#[tokio::test]
async fn it_watches_its_secret() {
    needs("watch", SECRETS).await;
}

#[tokio::test]
async fn it_creates_its_secret() {
    needs("create", SECRETS).await;
}

#[tokio::test]
async fn it_patches_its_secret() {
    needs("patch", SECRETS).await;
}

#[tokio::test]
async fn it_lists_its_configuration() {
    needs("list", CONFIGURATIONS).await;
}

#[tokio::test]
async fn it_watches_its_configuration() {
    needs("watch", CONFIGURATIONS).await;
}

#[tokio::test]
async fn it_patches_its_configuration() {
    needs("patch", CONFIGURATIONS).await;
}

#[tokio::test]
async fn the_webhook_may_do_no_more() {
    let turn = Turn::take().await;
    let client = turn.world.plane.as_account(WEBHOOK_ACCOUNT).await.unwrap();
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let review = serde_json::from_value(json!({"metadata": {}, "spec": {"namespace": SYSTEM_NAMESPACE}})).unwrap();
    let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
    let granted: BTreeSet<String> =
        answer.status.unwrap().resource_rules.iter().map(|rule| json!(rule).to_string()).collect();
    let expected = [
        ("", "secrets", Some(SECRET), vec!["list", "watch", "create", "patch"]),
        (REGISTRATION, "validatingwebhookconfigurations", Some(CONFIGURATION), vec!["list", "watch", "patch"]),
    ];
    let mut expected: BTreeSet<String> = expected
        .into_iter()
        .map(|(group, resource, name, verbs)| {
            json!({"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": verbs}).to_string()
        })
        .collect();
    // Everybody may ask what they may do.
    expected.extend(granted.iter().filter(|rule| rule.contains("selfsubject")).cloned());
    assert_eq!(granted, expected);

    for access in [
        Access::to("get", "", "secrets").within(SYSTEM_NAMESPACE).named(SECRET),
        Access::to("delete", "", "secrets").within(SYSTEM_NAMESPACE).named(SECRET),
        Access::to("list", "", "secrets").within(SYSTEM_NAMESPACE),
        Access::to("create", "", "secrets").within(SYSTEM_NAMESPACE).named("another"),
        Access::to("patch", "", "secrets").within("default").named(SECRET),
        Access::to("patch", REGISTRATION, "validatingwebhookconfigurations").named("another"),
        Access::to("delete", REGISTRATION, "validatingwebhookconfigurations").named(CONFIGURATION),
        Access::to("patch", REGISTRATION, "mutatingwebhookconfigurations").named(CONFIGURATION),
        Access::to("get", "core.rukpak.io", "bundles"),
        Access::to("create", "authentication.k8s.io", "tokenreviews"),
    ] {
        assert!(!may(&client, access).await, "{access:?}");
    }
}

#[test]
fn only_these_roles_are_bound_to_accounts() {
    let mut bound: Vec<(String, String)> = Vec::new();
    for binding in super::installed("ClusterRoleBinding").into_iter().chain(super::installed("RoleBinding")) {
        let text = |pointer: &str| binding.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        assert_eq!(binding.data["subjects"].as_array().map(Vec::len), Some(1), "{:?}", binding.metadata.name);
        bound.push((text("/subjects/0/name"), text("/roleRef/name")));
    }
    bound.sort();
    let pair = |account: &str, role: &str| (account.to_owned(), role.to_owned());
    let expected = [
        pair("core-admin", "core-admin"),
        pair("rukpak-webhooks-admin", "rukpak-webhooks-admin"),
        pair("rukpak-webhooks-admin", "rukpak-webhooks-certificate"),
    ];
    assert_eq!(bound, expected, "cluster-admin never");
}
