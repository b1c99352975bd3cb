//! ClusterRole `rukpak-webhooks-admin` and the Roles `rukpak-webhooks` and `rukpak-webhooks-certificate`: what the webhook needs to be
//! ready, verb by verb, and that it may do no more. What it reads to answer a review: `reviews`.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;
use kube::Api;
use kube::api::PostParams;
use rukpak_tests::Process;
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, WEBHOOK_ACCOUNT};
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use super::{Access, Turn, may, rules, without};

const SECRET: &str = "rukpak-webhook-certificate";
const CONFIGURATION: &str = "rukpak-validating-webhook-configuration";
const REGISTRATION: &str = "admissionregistration.k8s.io";

pub(super) const RBAC: &str = "rbac.authorization.k8s.io/v1";

const SECRETS: Access<'_> = Access::to("", "", "secrets").within(SYSTEM_NAMESPACE).named(SECRET);
const CONFIGURATIONS: Access<'_> = Access::to("", REGISTRATION, "validatingwebhookconfigurations").named(CONFIGURATION);

/// A rule of the manifests: its role and its place there.
pub(super) struct Rule {
    role: Target,
    index: usize,
}

pub(super) fn cluster_rule(index: usize) -> Rule {
    Rule { role: Target::cluster(RBAC, "ClusterRole", "rukpak-webhooks-admin"), index }
}

pub(super) fn rule(role: &str, index: usize) -> Rule {
    Rule { role: Target::namespaced(RBAC, "Role", SYSTEM_NAMESPACE, role), index }
}

impl Rule {
    fn full(&self) -> Vec<Value> {
        rules(&self.role.kind, &self.role.name)
    }

    /// The rules of the role without this verb of this rule.
    fn without(&self, verb: &str) -> Vec<Value> {
        let mut rules = self.full();
        rules[self.index] = without(&rules[self.index], verb);
        if rules[self.index]["verbs"] == json!([]) {
            rules.remove(self.index);
        }
        rules
    }
}

/// Without the verb the webhook that begins anew says what it lacks; with it, it is ready.
async fn needs(verb: &str, on: Access<'_>, rule: Rule) {
    let turn = Turn::take().await;
    let access = Access { verb, ..on };
    turn.set(&rule.role, &rule.without(verb), WEBHOOK_ACCOUNT, access, false).await;
    let secret = Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, SECRET);
    verbs::delete(&turn.client, &secret).await.expect("the administrator may");

    let webhook = &turn.world.webhook;
    // Not an orderly end: it would wait for calls that nobody makes.
    webhook.kill().await.expect("it runs");
    let said = webhook.log().len();
    webhook.restart().await.expect("it starts");
    let refusal = match verb {
        // An apply that may not create; as it stands in a log line of JSON.
        "create" => format!("{} \\\"{}\\\" is forbidden: ", access.resource, access.name),
        _ => format!("cannot {verb} resource \\\"{}\\\"", access.resource),
    };
    webhook.until_logged(said, &refusal).await.unwrap_or_else(|error| panic!("{error:#}"));
    // With a list and no watch it works until something changes; without anything else it never does.
    assert!(verb == "watch" || !is_ready(webhook).await, "{access:?}");

    turn.set(&rule.role, &rule.full(), WEBHOOK_ACCOUNT, access, true).await;
    webhook.kill().await.expect("it runs");
    webhook.restart().await.expect("it starts");
    webhook.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
}

async fn is_ready(webhook: &Process) -> bool {
    let answer = reqwest::get(format!("{}/readyz", webhook.health_url)).await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

const CERTIFICATE: &str = "rukpak-webhooks-certificate";

#[tokio::test]
async fn it_lists_its_secret() {
    needs("list", SECRETS, rule(CERTIFICATE, 0)).await;
}

#[tokio::test]
async fn it_watches_its_secret() {
    needs("watch", SECRETS, rule(CERTIFICATE, 0)).await;
}

#[tokio::test]
async fn it_creates_its_secret() {
    needs("create", SECRETS, rule(CERTIFICATE, 0)).await;
}

#[tokio::test]
async fn it_patches_its_secret() {
    needs("patch", SECRETS, rule(CERTIFICATE, 0)).await;
}

#[tokio::test]
async fn it_watches_its_configuration() {
    needs("watch", CONFIGURATIONS, cluster_rule(4)).await;
}

#[tokio::test]
async fn it_patches_its_configuration() {
    needs("patch", CONFIGURATIONS, cluster_rule(4)).await;
}

#[tokio::test]
async fn it_lists_its_configuration() {
    needs("list", CONFIGURATIONS, cluster_rule(4)).await;
}

/// Takes the verb away, and gives it back when `lacking` has seen what happens.
pub(super) async fn lacks(turn: &Turn, rule: &Rule, access: Access<'_>, lacking: impl Future<Output = ()>) {
    turn.set(&rule.role, &rule.without(access.verb), WEBHOOK_ACCOUNT, access, false).await;
    lacking.await;
    turn.set(&rule.role, &rule.full(), WEBHOOK_ACCOUNT, access, true).await;
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
        ("core.rukpak.io", "bundles", None, vec!["list"]),
        ("apiextensions.k8s.io", "customresourcedefinitions", None, vec!["get"]),
        ("core.rukpak.io", "bundledeployments", None, vec!["get"]),
        ("authorization.k8s.io", "subjectaccessreviews", None, vec!["create"]),
        (REGISTRATION, "validatingwebhookconfigurations", Some(CONFIGURATION), vec!["list", "watch", "patch"]),
        ("events.k8s.io", "events", None, vec!["create"]),
        ("", "configmaps", None, vec!["get"]),
        ("", "secrets", Some(SECRET), vec!["list", "watch", "create", "patch"]),
    ];
    let mut expected: BTreeSet<String> = expected
        .into_iter()
        .map(|(group, resource, name, verbs)| {
            let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
            if let Some(name) = name {
                rule["resourceNames"] = json!([name]);
            }
            rule.to_string()
        })
        .collect();
    // Everybody may ask what they may do, and other tests have definitions.
    let is_of_definition = |rule: &&String| {
        let rule: Value = serde_json::from_str(rule).expect("JSON");
        let group = rule["apiGroups"][0].as_str().unwrap_or_default().to_owned();
        rule["verbs"] == json!(["list"])
            && group.contains('.')
            && !group.ends_with(".k8s.io")
            && group != "core.rukpak.io"
    };
    expected.extend(granted.iter().filter(is_of_definition).cloned());
    expected.extend(granted.iter().filter(|rule| rule.contains("selfsubject")).cloned());
    // Newer API servers let every ServiceAccount read the certificates that are published for all.
    expected.extend(granted.iter().filter(|rule| rule.contains("[\"clustertrustbundles\"]")).cloned());
    assert_eq!(granted, expected);

    for access in [
        Access::to("get", "", "secrets").within(SYSTEM_NAMESPACE).named(SECRET),
        Access::to("delete", "", "secrets").within(SYSTEM_NAMESPACE).named(SECRET),
        Access::to("watch", "", "secrets").within(SYSTEM_NAMESPACE),
        Access::to("get", "", "configmaps").within("default").named("a"),
        Access::to("get", "", "namespaces").within("default").named("default"),
        Access::to("list", "apiextensions.k8s.io", "customresourcedefinitions"),
        Access::to("list", "", "secrets"),
        Access::to("list", "", "secrets").within(SYSTEM_NAMESPACE),
        Access::to("list", "", "configmaps").within(SYSTEM_NAMESPACE),
        Access::to("list", "", "pods"),
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
        pair("rukpak-webhooks-admin", "rukpak-webhook-objects"),
        pair("rukpak-webhooks-admin", "rukpak-webhooks"),
        pair("rukpak-webhooks-admin", "rukpak-webhooks-admin"),
        pair("rukpak-webhooks-admin", "rukpak-webhooks-certificate"),
    ];
    assert_eq!(bound, expected, "cluster-admin never");
}
