//! The certificates that webhooks and aggregated APIs are served with, and the authority they are trusted by.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Certificates, Context, Error};
use crate::Bundle;
use crate::name::object_name;

/// On webhook configurations, CRDs and APIServices with self-managed certificates: `<namespace>/<name>` of the TLS Secret
/// whose authority belongs into `caBundle`.
pub const CA_ANNOTATION: &str = "core.rukpak.io/inject-ca-from";

/// What RukPak puts where certificates, keys and authorities belong: base64 of "set by the RukPak controller".
pub const PLACEHOLDER: &str = "c2V0IGJ5IHRoZSBSdWtQYWsgY29udHJvbGxlcg==";

/// The names that belong to a Deployment with webhooks or aggregated APIs.
pub(super) struct Names {
    pub(super) service: String,
    /// The Secret, and the Certificate.
    pub(super) secret: String,
    issuer: String,
}

/// A certificate that must exist before a Deployment of the bundle can serve its webhooks and aggregated APIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingCertificate {
    /// The Deployment that serves with it.
    pub deployment: String,
    /// Where the Secret and the Service lie.
    pub namespace: String,
    /// The Secret of type `kubernetes.io/tls`.
    pub secret: String,
    /// The common name and first DNS name, then the other DNS names.
    pub dns_names: Vec<String>,
}

impl Names {
    pub(super) fn of(deployment: &str) -> Self {
        let service = object_name(&deployment.replace('.', "-"), "service");
        let secret = object_name(&service, "cert");
        let issuer = object_name(&secret, "selfsigned-issuer");
        Self { service, secret, issuer }
    }
}

/// The certificates that a bundle needs, one for each Deployment with webhooks or aggregated APIs, in the order of the
/// Deployments.
pub fn serving_certificates(bundle: &Bundle, install_namespace: &str) -> Vec<ServingCertificate> {
    let serving: BTreeSet<&str> = serving_deployments(bundle).collect();
    let deployments = bundle.csv.spec.install.spec.deployments.iter();
    let deployments = deployments.filter(|deployment| serving.contains(deployment.name.as_str()));
    let certificate = |deployment: &crate::csv::Deployment| {
        let Names { service, secret, .. } = Names::of(&deployment.name);
        let host = format!("{service}.{install_namespace}");
        let dns_names = vec![host.clone(), format!("{host}.svc"), format!("{host}.svc.cluster.local")];
        ServingCertificate {
            deployment: deployment.name.clone(),
            namespace: install_namespace.to_owned(),
            secret,
            dns_names,
        }
    };
    deployments.map(certificate).collect()
}

/// The Deployments that the API server calls, for webhooks first; a name may come more than once.
fn serving_deployments(bundle: &Bundle) -> impl Iterator<Item = &str> {
    let webhooks = bundle.csv.spec.webhooks.iter().map(|webhook| webhook.deployment_name.as_str());
    webhooks.chain(bundle.csv.spec.api_services.owned.iter().map(|api| api.deployment_name.as_str()))
}

/// The names of the Services that are generated; a name may come more than once.
pub(super) fn generated_services(bundle: &Bundle) -> impl Iterator<Item = String> {
    serving_deployments(bundle).map(|deployment| Names::of(deployment).service)
}

/// The objects that bring the certificates about.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    for certificate in serving_certificates(context.bundle, context.namespace()) {
        let names = Names::of(&certificate.deployment);
        let objects = match &context.options.certificates {
            Certificates::CertManager => cert_manager(&names, &certificate),
            Certificates::ServiceCa => Vec::new(),
            Certificates::SelfManaged { placeholder } => vec![secret(&certificate, placeholder)],
        };
        for object in objects {
            context.push(object, &format!("spec.install.spec.deployments ({})", certificate.deployment))?;
        }
    }
    Ok(())
}

fn cert_manager(names: &Names, certificate: &ServingCertificate) -> Vec<Value> {
    let issuer = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Issuer",
        "metadata": {"name": names.issuer, "namespace": certificate.namespace},
        "spec": {"selfSigned": {}},
    });
    let certificate = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": names.secret, "namespace": certificate.namespace},
        "spec": {
            "secretName": names.secret,
            "commonName": certificate.dns_names[0],
            "dnsNames": certificate.dns_names,
            "usages": ["server auth"],
            "duration": "17520h0m0s",
            "renewBefore": "24h0m0s",
            "issuerRef": {"name": names.issuer},
        },
    });
    vec![issuer, certificate]
}

fn secret(certificate: &ServingCertificate, placeholder: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": certificate.secret, "namespace": certificate.namespace},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": placeholder, "tls.key": placeholder},
    })
}

impl Context<'_> {
    /// Has the authority of a Deployment's certificate put into `clients`, which are client configurations in `object`.
    pub(super) fn inject_ca(&self, names: &Names, object: &mut Value, clients: &mut [Value]) {
        let secret = format!("{}/{}", self.namespace(), names.secret);
        match &self.options.certificates {
            Certificates::CertManager => annotate(object, "cert-manager.io/inject-ca-from", &secret),
            Certificates::ServiceCa => annotate(object, "service.beta.openshift.io/inject-cabundle", "true"),
            Certificates::SelfManaged { placeholder } => {
                annotate(object, CA_ANNOTATION, &secret);
                for client in clients {
                    client["caBundle"] = Value::from(placeholder.as_str());
                }
            }
        }
    }
}

/// Sets an annotation, whatever the object has so far.
pub(super) fn annotate(object: &mut Value, name: &str, text: &str) {
    let metadata = &mut object["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][name] = Value::from(text);
}
