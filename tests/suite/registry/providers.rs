//! Certificates of webhooks that others make: cert-manager, or the service CA of OpenShift. Neither runs here; what we apply for
//! them, and what we leave to them, is what is shown.

use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::case::Case;
use super::serving::{SECRET, SERVICE};
use super::turn::turn;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

fn configuration(case: &Case<'_>) -> Target {
    Target::cluster(ADMISSION, "ValidatingWebhookConfiguration", &format!("vmills.{}", case.group()))
}

fn annotation<'a>(object: &'a DynamicObject, name: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Fills in an authority as an injector does, and sees it stay.
async fn inject(case: &Case<'_>) {
    let target = configuration(case);
    let api = target.api(&case.client).await.expect("the kind is served");
    let parameters = PatchParams { field_manager: Some("cainjector".to_owned()), ..PatchParams::default() };
    let patch = Patch::Json::<()>(
        serde_json::from_value(json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Y2E="}]))
            .expect("it is a patch"),
    );
    api.patch(&target.name, &parameters, &patch).await.expect("the API server agrees");
    // Drift is repaired within seconds; this is none.
    let same = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["webhooks"][0]["clientConfig"]["caBundle"] == "Y2E=")
    };
    if let Err(error) =
        verbs::holds_for(&case.client, &target, "the injected authority", Duration::from_secs(3), same).await
    {
        panic!("{error:#}");
    }
}

/// A kind of cert-manager, with any content.
async fn define(world: &World, kind: &str) {
    let singular = kind.to_lowercase();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{singular}s.cert-manager.io")},
        "spec": {
            "group": "cert-manager.io", "scope": "Namespaced",
            "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let client = world.admin().await;
    verbs::create(&client, &definition).await.expect("the API server agrees");
    verbs::await_served(&client, "cert-manager.io/v1", kind, Duration::from_secs(30)).await.expect("it is served");
}

#[tokio::test]
async fn cert_manager_is_asked_for_certificates() {
    let world = turn(&["--bundle-cert-provider=cert-manager"]).await;
    define(&world, "Issuer").await;
    define(&world, "Certificate").await;
    let case = Case::in_world(&world, "cert-manager").await;
    case.install("mill/v1").await;
    let certificate = case.get(&case.inside("cert-manager.io/v1", "Certificate", SECRET)).await;
    let host = format!("{SERVICE}.{}", case.namespace());
    assert_eq!(certificate.data["spec"]["secretName"], SECRET);
    assert_eq!(
        certificate.data["spec"]["dnsNames"],
        json!([host, format!("{host}.svc"), format!("{host}.svc.cluster.local")])
    );
    let issuer = certificate.data["spec"]["issuerRef"]["name"].as_str().expect("it is text").to_owned();
    case.get(&case.inside("cert-manager.io/v1", "Issuer", &issuer)).await;
    assert!(case.find(&case.inside("v1", "Secret", SECRET)).await.is_none(), "cert-manager makes it");
    let webhook = case.get(&configuration(&case)).await;
    let source = format!("{}/{SECRET}", case.namespace());
    assert_eq!(annotation(&webhook, "cert-manager.io/inject-ca-from"), Some(source.as_str()));
    assert_eq!(webhook.data["webhooks"][0]["clientConfig"].get("caBundle"), None);
    inject(&case).await;
}

#[tokio::test]
async fn the_service_ca_is_asked_for_certificates() {
    let world = turn(&["--bundle-cert-provider=service-ca"]).await;
    let case = Case::in_world(&world, "service-ca").await;
    case.install("mill/v1").await;
    let service = case.get(&case.inside("v1", "Service", SERVICE)).await;
    assert_eq!(annotation(&service, "service.beta.openshift.io/serving-cert-secret-name"), Some(SECRET));
    assert!(case.find(&case.inside("v1", "Secret", SECRET)).await.is_none(), "the service CA makes it");
    let webhook = case.get(&configuration(&case)).await;
    assert_eq!(annotation(&webhook, "service.beta.openshift.io/inject-cabundle"), Some("true"));
    assert_eq!(webhook.data["webhooks"][0]["clientConfig"].get("caBundle").unwrap_or(&Value::Null), &Value::Null);
    inject(&case).await;
}
