//! What the phases of a set hold: manifests of the set itself, and of Secrets. Only the beginning asks the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rukpak_content::Digest;
use rukpak_crds::olm::ClusterObjectSet;
use rukpak_crds::olm::cluster_object_set::{CollisionProtection, ObjectReference, ObjectSetObject, ObservedPhase};
use rukpak_plain::ObjectKey;
use rukpak_plan::retry::Class;
use rukpak_runtime::api;
use serde_json::Value;

use super::{Context, Fault};

/// Largest manifest after it was decompressed. Upstream's bound.
const MANIFEST_BYTES: u64 = 10 * 1024 * 1024;
/// How data of gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What only the API server, or the engine, says of an object.
const FORBIDDEN: [&str; 6] = ["uid", "generation", "generateName", "finalizers", "ownerReferences", "resourceVersion"];

/// A phase whose manifests are all there.
pub(super) struct Phase {
    /// Its place in the spec.
    pub index: usize,
    pub name: String,
    pub objects: Vec<Value>,
    /// What becomes of each of them that exists already.
    pub protections: Vec<CollisionProtection>,
    pub digest: Digest,
}

/// Namespace and name of a Secret.
pub(super) type Place = (String, String);

/// UID and version of each Secret that a set names. One that was made anew has another UID.
pub(super) type Stamps = BTreeMap<Place, (Option<String>, Option<String>)>;

/// Looks which Secrets the phases name, without what they hold.
pub(super) async fn stamps(set: &ClusterObjectSet, context: &Context) -> Result<Stamps, Fault> {
    let mut stamps = Stamps::new();
    for place in places(set, context) {
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &place.0);
        let metadata = there(&place, api.get_metadata_opt(&place.1).await)?.metadata;
        stamps.insert(place, (metadata.uid, metadata.resource_version));
    }
    Ok(stamps)
}

/// Reads what all phases hold.
pub(super) async fn resolve(set: &ClusterObjectSet, context: &Context) -> Result<Vec<Phase>, Fault> {
    let mut secrets = BTreeMap::new();
    for place in places(set, context) {
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &place.0);
        let secret = there(&place, api.get_opt(&place.1).await)?;
        secrets.insert(place, secret);
    }
    check_immutable(&secrets)?;
    let phases = phases(set, |reference| secrets.get(&place(reference, context)))?;
    check_objects(&phases)?;
    Ok(phases)
}

fn places(set: &ClusterObjectSet, context: &Context) -> BTreeSet<Place> {
    let objects = set.spec.phases.iter().flat_map(|phase| &phase.objects);
    objects.filter_map(|object| object.reference.as_ref()).map(|reference| place(reference, context)).collect()
}

/// What was found at a place.
fn there<T>((namespace, name): &Place, found: Result<Option<T>, kube::Error>) -> Result<T, Fault> {
    let what = format!("resolving the reference to Secret {namespace}/{name}");
    match found.map_err(api::Error::from) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Fault::retried(format!("{what}: it is not there"), Class::Transient)),
        Err(error) => Err(Fault::of(&what, &error)),
    }
}

fn place(reference: &ObjectReference, context: &Context) -> Place {
    let namespace = reference.namespace.as_ref().filter(|namespace| !namespace.is_empty());
    (namespace.unwrap_or(&context.system_namespace).clone(), reference.name.clone())
}

/// The words are upstream's.
fn check_immutable(secrets: &BTreeMap<Place, Secret>) -> Result<(), Fault> {
    let mutable = secrets.iter().filter(|(_, secret)| secret.immutable != Some(true));
    let names: Vec<String> = mutable.map(|((namespace, name), _)| format!("{namespace}/{name}")).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Fault::blocked(format!(
        "the following secrets are not immutable (referenced secrets must have immutable set to true): {}",
        names.join(", ")
    )))
}

/// The phases, of whose Secrets `secret` knows.
fn phases<'a>(
    set: &ClusterObjectSet,
    secret: impl Fn(&ObjectReference) -> Option<&'a Secret>,
) -> Result<Vec<Phase>, Fault> {
    let phases = set.spec.phases.iter().enumerate().map(|(index, phase)| {
        let manifests = phase.objects.iter().map(|object| manifest(object, &secret));
        let objects = manifests
            .collect::<Result<Vec<Value>, String>>()
            .map_err(|why| Fault::retried(format!("phase {index} validation error: {why}"), Class::Terminal))?;
        // Of the same objects in the same order: the API server keeps both.
        let digest = Digest::sha256(Value::from(objects.clone()).to_string().as_bytes());
        let protections = phase.objects.iter().map(|object| set.spec.protection(phase, object)).collect();
        Ok(Phase { index, name: phase.name.clone(), objects, protections, digest })
    });
    phases.collect()
}

/// One manifest. What is wrong with it is said without what it holds, which may be secret.
fn manifest<'a>(
    object: &ObjectSetObject,
    secret: impl Fn(&ObjectReference) -> Option<&'a Secret>,
) -> Result<Value, String> {
    let Some(reference) = &object.reference else {
        return object.object.clone().map(Value::Object).ok_or_else(|| "an object is empty".to_owned());
    };
    let what = format!("key {:?} of Secret {:?}", reference.key, reference.name);
    let data = secret(reference).and_then(|secret| secret.data.as_ref()).and_then(|data| data.get(&reference.key));
    let data = &data.ok_or_else(|| format!("{what} is not there"))?.0;
    let mut text = Vec::new();
    if data.starts_with(&GZIP) {
        let unpacked = GzDecoder::new(data.as_slice()).take(MANIFEST_BYTES + 1).read_to_end(&mut text);
        unpacked.map_err(|_| format!("{what} cannot be decompressed"))?;
    } else {
        text.clone_from(data);
    }
    if text.len() as u64 > MANIFEST_BYTES {
        return Err(format!("{what} is larger than {MANIFEST_BYTES} bytes"));
    }
    let value: Value = serde_json::from_slice(&text).map_err(|_| format!("{what} is no JSON"))?;
    if value.is_object() { Ok(value) } else { Err(format!("{what} is no object")) }
}

/// Refuses objects that are there twice, and those that say what is not theirs to say.
fn check_objects(phases: &[Phase]) -> Result<(), Fault> {
    let mut keys = BTreeSet::new();
    for Phase { index, objects, .. } in phases {
        let fault = |why: String| Fault::retried(format!("phase {index} validation error: {why}"), Class::Terminal);
        for object in objects {
            let key = key(object).ok_or_else(|| fault("an object has no apiVersion, kind or name".to_owned()))?;
            if let Some(field) = FORBIDDEN.iter().find(|field| !object["metadata"][**field].is_null()) {
                return Err(fault(format!("{key}: metadata.{field} must not be set")));
            }
            let twice = format!("revision validation error: {key} is there more than once");
            if !keys.insert(key) {
                return Err(Fault::retried(twice, Class::Terminal));
            }
        }
    }
    Ok(())
}

/// What identifies an object; `None` if it does not say.
pub(super) fn key(object: &Value) -> Option<ObjectKey> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let version = text(&object["apiVersion"])?;
    let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let (kind, name) = (text(&object["kind"])?, text(&object["metadata"]["name"])?);
    Some(ObjectKey { group, kind, namespace: text(&object["metadata"]["namespace"]), name })
}

/// What was observed of the phases: at first what they hold, later that they hold nothing else. The words are upstream's.
pub(super) fn observed(set: &ClusterObjectSet, phases: &[Phase]) -> Result<Vec<ObservedPhase>, Fault> {
    let now: Vec<ObservedPhase> = phases
        .iter()
        .map(|phase| ObservedPhase { name: phase.name.clone(), digest: phase.digest.to_string() })
        .collect();
    let before = set.status.as_ref().map(|status| status.observed_phases.clone()).unwrap_or_default();
    if before.is_empty() {
        return Ok(now);
    }
    let changed: Vec<String> = before
        .iter()
        .filter_map(|before| {
            let now = now.iter().find(|now| now.name == before.name)?;
            (now.digest != before.digest)
                .then(|| format!("phase {:?} (expected digest {}, got {})", before.name, before.digest, now.digest))
        })
        .collect();
    if changed.is_empty() {
        return Ok(before);
    }
    Err(Fault::blocked(format!(
        "resolved content of {} phase(s) has changed: {}; a referenced object source may have been deleted and recreated with \
         different content",
        changed.len(),
        changed.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn set(phases: &Value, observed: &Value) -> ClusterObjectSet {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "s", "uid": "u"},
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent", "phases": phases},
            "status": {"observedPhases": observed},
        }))
        .unwrap()
    }

    fn secret(data: &[u8], immutable: bool) -> Secret {
        let data = Some(BTreeMap::from([("k".to_owned(), ByteString(data.to_vec()))]));
        Secret { data, immutable: Some(immutable), ..Secret::default() }
    }

    fn map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}})
    }

    fn read(data: &[u8]) -> Result<Vec<Phase>, Fault> {
        let phases_of = json!([{"name": "a", "objects": [{"ref": {"name": "x", "namespace": "n", "key": "k"}}]}]);
        let secret = secret(data, true);
        phases(&set(&phases_of, &json!([])), |_| Some(&secret))
    }

    #[test]
    fn a_manifest_is_read_from_a_secret_and_decompressed() {
        let text = map("m").to_string();
        assert_eq!(read(text.as_bytes()).unwrap()[0].objects, [map("m")]);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        assert_eq!(read(&gzip.finish().unwrap()).unwrap()[0].objects, [map("m")]);
        for (data, why) in [
            (Vec::from("hush"), "is no JSON"),
            (Vec::from("\"hush\""), "is no object"),
            (b"\x1f\x8bhush".to_vec(), "cannot be decompressed"),
        ] {
            let fault = read(&data).err().unwrap();
            assert_eq!(fault.message, format!("phase 0 validation error: key \"k\" of Secret \"x\" {why}"));
            assert_eq!(fault.retry, Some(Class::Terminal));
        }
    }

    #[test]
    fn mutable_secrets_are_named() {
        let at = |name: &str| ("n".to_owned(), name.to_owned());
        let of = |immutable| BTreeMap::from([(at("a"), secret(b"", immutable)), (at("b"), secret(b"", true))]);
        assert_eq!(check_immutable(&of(true)), Ok(()));
        let words = "the following secrets are not immutable (referenced secrets must have immutable set to true): n/a";
        assert_eq!(check_immutable(&of(false)), Err(Fault::blocked(words)));
    }

    #[test]
    fn an_object_is_there_once_and_says_nothing_of_its_own() {
        let of = |objects: &[Value]| {
            let objects: Vec<Value> = objects.iter().map(|object| json!({"object": object})).collect();
            let set = set(&json!([{"name": "a", "objects": objects}]), &json!([]));
            let phases = phases(&set, |_| None).unwrap();
            check_objects(&phases).map_err(|fault| fault.message)
        };
        assert_eq!(of(&[map("a"), map("b")]), Ok(()));
        assert!(of(&[map("a"), map("a")]).unwrap_err().starts_with("revision validation error: "));
        let mut owned = map("a");
        owned["metadata"]["ownerReferences"] = json!([]);
        assert!(of(&[owned]).unwrap_err().ends_with("metadata.ownerReferences must not be set"));
        assert!(of(&[json!({"kind": "ConfigMap"})]).is_err());
    }

    #[test]
    fn other_content_is_noticed() {
        let phases_of = |name: &str| {
            let set = set(&json!([{"name": "a", "objects": [{"object": map(name)}]}]), &json!([]));
            phases(&set, |_| None).unwrap()
        };
        let first = observed(&set(&json!([]), &json!([])), &phases_of("m")).unwrap();
        let known = set(&json!([]), &json!(first));
        assert_eq!(observed(&known, &phases_of("m")), Ok(first));
        let fault = observed(&known, &phases_of("other")).unwrap_err();
        assert!(fault.message.starts_with("resolved content of 1 phase(s) has changed: phase \"a\" (expected digest"));
        assert_eq!(fault.retry, None);
    }
}
