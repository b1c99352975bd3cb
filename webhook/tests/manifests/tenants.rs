//! `overlays/tenants`: what keeps tenants to their accounts is there from the first moment.

use rukpak_webhook::registration::entry::{Asked, wanted};
use rukpak_webhook::{CONFIGURATION, DEPLOYMENT_WEBHOOK};
use serde_json::{Value, json};

use super::build::{build, folder, get, manager, options};

/// The account of the Deployment `core`.
const CONTROLLER: &str = "system:serviceaccount:rukpak-system:core-admin";

#[test]
fn the_entry_for_bundle_deployments_is_in_the_manifest_and_is_the_webhooks_own() {
    let objects = build(&folder().join("overlays/tenants"));
    let webhooks = get(&objects, "ValidatingWebhookConfiguration", CONFIGURATION)["webhooks"].as_array().unwrap();
    let entry = webhooks.iter().find(|entry| entry["name"] == DEPLOYMENT_WEBHOOK).unwrap();
    let asked =
        Asked { namespace: "rukpak-system".to_owned(), every_deployment: true, controller: CONTROLLER.to_owned() };
    // The API server defaults the selectors.
    let wanted = wanted(webhooks, &asked);
    let mut wanted = wanted.into_iter().find(|entry| entry["name"] == DEPLOYMENT_WEBHOOK).unwrap();
    for field in ["namespaceSelector", "objectSelector"] {
        assert_eq!(wanted.as_object_mut().unwrap().remove(field), Some(json!({})));
    }
    assert_eq!(*entry, wanted);
}

#[test]
fn webhook_and_controller_both_ask_for_an_account() {
    let objects = build(&folder().join("overlays/tenants"));
    assert!(options(get(&objects, "Deployment", "rukpak-webhooks")).require_service_account());
    let arguments = manager(get(&objects, "Deployment", "core"))["args"].as_array().cloned().unwrap_or_default();
    assert!(arguments.contains(&Value::from("--require=service-account")), "{arguments:?}");
}
