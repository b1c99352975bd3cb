//! Certificates that webhooks and aggregated APIs of bundles are served with, where nobody else makes them. Reads Secrets, writes nothing: what is to
//! be in them goes into the objects, which are then applied like all others.
//!
//! What a Secret in the cluster holds stays as long as it is good; so rendering the same release twice changes nothing.

use std::collections::BTreeMap;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use rukpak_content::Digest;
use rukpak_format::Rendered;
use rukpak_plain::{Object, object};
use rukpak_plan::Identity;
use rukpak_registry::render::{CA_ANNOTATION, PLACEHOLDER, ServingCertificate};
use rukpak_runtime::certificates::authority;
use rukpak_runtime::certificates::renewal::{Held, Wanted, advance};
use serde_json::{Value, json};

use crate::cluster;
use crate::deployment::observe::View;

/// Why the certificates of a bundle are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Secret that may hold one cannot be read.
    #[error("read the certificate of the bundle's webhooks: Secret {name:?} in namespace {namespace:?}")]
    Read {
        namespace: String,
        name: String,
        #[source]
        source: cluster::Error,
    },
    /// No certificate can be made.
    #[error("make a certificate for the bundle's webhooks")]
    Make(#[source] authority::Error),
    /// An object with its certificate in it is none.
    #[error("put a certificate into the bundle's objects")]
    Object(#[source] object::Error),
}

/// Puts certificates into the TLS Secrets of `rendered`, and their authorities where they are to be trusted.
pub(crate) async fn put_in(view: &View, mut rendered: Rendered, is_published: bool) -> Result<Rendered, Error> {
    let now = SystemTime::now();
    let mut authorities = Vec::new();
    for certificate in std::mem::take(&mut rendered.certificates) {
        let live = secret(view, &certificate).await?;
        let lifetime = view.reads.settings.bundle_certificate_lifetime;
        let wanted = Wanted { names: &certificate.dns_names, lifetime, beside: &[] };
        let held = advance(live.as_ref(), wanted, now, is_published).map_err(Error::Make)?;
        let objects = std::mem::take(&mut rendered.objects);
        rendered.objects = objects
            .into_iter()
            .map(|object| filled(object, &certificate, &held))
            .collect::<Result<_, _>>()
            .map_err(Error::Object)?;
        rendered.certificates_due = Some(rendered.certificates_due.map_or(held.due, |due| due.min(held.due)));
        authorities.extend(held.authorities);
    }
    rendered.authorities = (!authorities.is_empty()).then(|| Digest::sha256(&authorities));
    Ok(rendered)
}

/// What the Secret holds now, if there is one.
async fn secret(view: &View, certificate: &ServingCertificate) -> Result<Option<BTreeMap<String, ByteString>>, Error> {
    let (namespace, name) = (&certificate.namespace, &certificate.secret);
    let failed = |source| Error::Read { namespace: namespace.clone(), name: name.clone(), source };
    let reads = &view.reads;
    let Some(kind) = reads.kinds.get("v1", "Secret").await.map_err(failed)? else { return Ok(None) };
    let identity = Identity { kind, namespace: Some(namespace.clone()), name: name.clone() };
    let found = reads.reader.get(&identity).await.map_err(failed)?;
    // Whatever else lies there is as good as nothing.
    Ok(found.and_then(|secret| serde_json::from_value(secret.body.get("data")?.clone()).ok()))
}

fn filled(object: Object, certificate: &ServingCertificate, held: &Held) -> Result<Object, object::Error> {
    let is_secret = object.group().is_empty()
        && object.kind() == "Secret"
        && object.name() == certificate.secret
        && object.namespace() == Some(&certificate.namespace);
    let source = format!("{}/{}", certificate.namespace, certificate.secret);
    let trusts = object.annotation(CA_ANNOTATION) == Some(&source);
    if !is_secret && !trusts {
        return Ok(object);
    }
    let origin = object.origin().clone();
    let mut value = object.into_value();
    if is_secret {
        value["data"] = json!(held.entries);
    } else {
        trust(&mut value, &json!(ByteString(held.authorities.clone())));
    }
    Object::new(value, origin)
}

/// Puts the authorities wherever the placeholder stands.
fn trust(object: &mut Value, authorities: &Value) {
    // Of CRDs, and of APIServices.
    let clients = ["/spec/conversion/webhook/clientConfig", "/spec/conversion/webhookClientConfig", "/spec"];
    for path in clients {
        replace(object.pointer_mut(path), authorities);
    }
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        replace(webhook.get_mut("clientConfig"), authorities);
    }
}

fn replace(client: Option<&mut Value>, authorities: &Value) {
    if let Some(bundle) = client.and_then(|client| client.get_mut("caBundle")).filter(|bundle| *bundle == PLACEHOLDER) {
        *bundle = authorities.clone();
    }
}
