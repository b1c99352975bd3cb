//! A bundle with a webhook, whose certificate is renewed all the time.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::ImageBuilder;
use serde_json::{Value, json};

use crate::sweep::subject::{Objects, text};

/// The shortest life that there is: a renewal every seven seconds.
pub const LIFETIME: &str = "--bundle-cert-lifetime=10s";
const SECRET: &str = "Secret w-service-cert";

/// The bundle, for its own namespace.
pub fn image(namespace: &str) -> ImageBuilder {
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
                       operators.operatorframework.io.bundle.package.v1: sweep\n";
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes: Vec<Value> =
        modes.iter().map(|mode| json!({"type": mode, "supported": *mode == "AllNamespaces"})).collect();
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "sweep.v1.0.0", "annotations": {"operatorframework.io/suggested-namespace": namespace}},
        "spec": {"version": "1.0.0", "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "w", "spec": {"replicas": 0,
                "selector": {"matchLabels": {"app": "w"}}, "template": {"metadata": {"labels": {"app": "w"}},
                    "spec": {"serviceAccountName": "sa", "containers": [{"name": "main", "image": "example.com/none:1"}]}}}}]}},
            "webhookdefinitions": [{"type": "ValidatingAdmissionWebhook", "generateName": format!("v.{namespace}.sweep.test"),
                "deploymentName": "w", "admissionReviewVersions": ["v1"], "containerPort": 443, "failurePolicy": "Ignore",
                "sideEffects": "None", "webhookPath": "/validate", "rules": [{"apiGroups": [format!("{namespace}.sweep.test")],
                    "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["none"]}]}]}});
    ImageBuilder::of_files([
        ("metadata/annotations.yaml".to_owned(), annotations.to_owned()),
        ("manifests/csv.yaml".to_owned(), csv.to_string()),
    ])
}

/// The same objects as before, another certificate, and whoever calls trusts it.
pub fn compare(before: &Objects, objects: &Objects, wrong: &mut Vec<String>) {
    let keys = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    if keys(before) != keys(objects) && !before.is_empty() {
        wrong.push(format!("there are {:?}, not {:?}", keys(objects), keys(before)));
    }
    for (key, object) in objects {
        if before.get(key).is_some_and(|before| before.metadata.uid != object.metadata.uid) {
            wrong.push(format!("{key} was made anew"));
        }
    }
    let entry = |objects: &Objects, name: &str| objects.get(SECRET).map(|secret| secret.data["data"][name].clone());
    if entry(objects, "tls.crt").unwrap_or_default().is_null() || entry(before, "tls.crt") == entry(objects, "tls.crt")
    {
        wrong.push("the certificate is not another".to_owned());
    }
    let decoded = |value: &Value| BASE64_STANDARD.decode(text(value)).unwrap_or_default();
    let authority = decoded(&entry(objects, "ca.crt").unwrap_or_default());
    let callers: Vec<_> = objects
        .iter()
        .filter(|(key, _)| key.starts_with("ValidatingWebhookConfiguration"))
        .map(|(_, object)| object)
        .collect();
    let is_trusted = callers.iter().all(|caller| {
        let trusted = decoded(&caller.data["webhooks"][0]["clientConfig"]["caBundle"]);
        !authority.is_empty() && trusted.windows(authority.len()).any(|part| part == authority)
    });
    if callers.len() != 1 || !is_trusted {
        wrong.push("the certificate is not trusted by whoever calls".to_owned());
    }
}
