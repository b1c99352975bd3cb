//! The BundleDeployment of a ClusterExtension: found, whose it is, and written. I/O.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use rukpak_crds::names::{self, SAFE_CRD_UPGRADE};
use rukpak_crds::olm::cluster_extension::{ClusterExtensionSpec, CrdUpgradeSafetyEnforcement};
use rukpak_crds::olm::{ClusterExtension, deployment_name, rules};
use rukpak_crds::{BundleDeployment, config};
use rukpak_runtime::api::Error;
use serde_json::{Map, Value, json};

use super::Context;
use super::set::Set;
use crate::image::warn_of_tag;
use crate::installed::Identity;
use crate::owned::{self, Existing, classify, controlled_by};

/// The field manager of what is written here.
pub(super) const FIELD_MANAGER: &str = "rukpak-clusterextension";

/// Longest name of an object.
const SUBDOMAIN_MAX: usize = 253;

/// What a BundleDeployment is to install.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub bundle: &'a Identity,
    /// Whether it is known that the packages which the bundle depends on are there.
    pub has_packages: bool,
    /// The upgrades that are made together with this one.
    pub set: Option<&'a Set>,
}

/// Looks for it; where the watch shows none, in the cluster.
pub(super) async fn find(extension: &ClusterExtension, context: &Context) -> Result<Option<Existing>, Error> {
    let name = deployment_name(&extension.name_any());
    let found = owned::find(&name, (&context.deployments, &*context.written), &context.client).await?;
    Ok(found.map(|found| classify(extension, found)))
}

/// Whether the configuration has a key that is not the user's. The text is upstream's; what a bundle takes is found out where it is.
pub(super) fn check_config(spec: &ClusterExtensionSpec) -> Result<(), String> {
    let inline = spec.config.as_ref().and_then(|config| config.inline.as_ref());
    let reserved = inline.and_then(|inline| inline.keys().find(|key| config::RESERVED.contains(&key.as_str())));
    reserved.map_or(Ok(()), |key| {
        Err(format!("invalid ClusterExtension configuration: invalid configuration: unknown field {key:?}"))
    })
}

/// Whether a bundle can be installed as its catalog names it: its image as upstream reads references, and its name and version as the
/// status of a ClusterExtension takes them, which would be refused as a whole otherwise.
pub(super) fn check_bundle(bundle: &Identity) -> Result<(), String> {
    let Identity { name, version, reference, .. } = bundle;
    let fault = |why: &str| Err(format!("error parsing image reference {reference:?}: {why}"));
    let Some((place, _)) = rukpak_source::image::location(reference) else { return fault("invalid reference format") };
    match reference.strip_prefix(&place) {
        None => return fault("repository name must be canonical"),
        Some("") => {
            return Err(format!(
                "error creating reference: Docker reference {reference} has neither a tag nor a digest"
            ));
        }
        Some(_) => {}
    }
    let named = rules::check(&rules::PACKAGE_NAME, name).is_ok() && name.len() <= SUBDOMAIN_MAX;
    if !named {
        return Err(format!(
            "the catalog names the bundle {name:?}, which is no DNS1123 subdomain: another name is needed in the catalog"
        ));
    }
    rules::check(&rules::BUNDLE_VERSION, version).map_err(|violation| format!("{violation}: {version:?}"))
}

/// Applies `body`, which installs the bundle. Writes nothing if it is applied already.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn apply(
    extension: &ClusterExtension,
    bundle: &Identity,
    body: Value,
    live: Option<&BundleDeployment>,
    context: &Context,
) -> Result<Arc<BundleDeployment>, Error> {
    if let Some(live) = live.filter(|live| is_applied(&body, live)) {
        return Ok(Arc::new(live.clone()));
    }
    if live.is_none() {
        owned::check_owner(extension, &context.client).await?;
    }
    let written = owned::apply(body, live, FIELD_MANAGER, (&context.client, &*context.written)).await?;
    let extension = extension.name_any();
    tracing::info!(
        extension,
        bundle = bundle.name,
        version = bundle.version,
        "BundleDeployment of ClusterExtension applied"
    );
    warn_of_tag(("ClusterExtension", &extension), None, &bundle.name, &bundle.reference);
    Ok(Arc::new(written))
}

/// Applies `body`, which installs what is installed.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn keep(body: Value, live: &BundleDeployment, context: &Context) -> Result<(), Error> {
    if !is_applied(&body, live) {
        owned::apply(body, Some(live), FIELD_MANAGER, (&context.client, &*context.written)).await?;
    }
    Ok(())
}

/// `body` with what `live` says of the bundle, of its settings and of what is checked.
pub(super) fn kept(mut body: Value, live: &BundleDeployment) -> Value {
    body["spec"]["config"] = json!(live.spec.config);
    body["spec"]["template"] = json!(live.spec.template);
    if let Some(annotations) = body["metadata"]["annotations"].as_object_mut() {
        for key in [SAFE_CRD_UPGRADE, names::IGNORE_DEPENDENCIES] {
            annotations.remove(key);
            annotations.extend(live.annotations().get(key).map(|value| (key.to_owned(), json!(value))));
        }
    }
    body
}

/// Adds what is noted of a set. On the way back a CRD may lose again what the upgrade has added: what guards stored objects stays on.
pub(super) fn note(body: &mut Value, set: Option<&Set>) {
    let Some(set) = set else { return };
    let Some(annotations) = body["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(names::UPGRADED_WITH.to_owned(), json!(set.text()));
    let is_way_back = set.failure.is_some() && !set.is_over;
    if is_way_back && annotations.get(SAFE_CRD_UPGRADE).is_some_and(|safety| safety == "strict") {
        annotations.remove(SAFE_CRD_UPGRADE);
    }
}

/// Has the manifests of each release kept, if they are to be shown.
pub(super) fn keep_manifests(body: &mut Value, are_shown: bool) {
    if are_shown && let Some(annotations) = body["metadata"]["annotations"].as_object_mut() {
        annotations.insert(names::KEEP_MANIFESTS.to_owned(), json!("true"));
    }
}

/// What is written of a BundleDeployment that installs the bundle. Pure.
pub(super) fn desired(
    extension: &ClusterExtension,
    (bundle, has_packages): (&Identity, bool),
    optional: Map<String, Value>,
) -> Value {
    let mut annotations = bundle.annotations();
    let safety = match extension.spec.crd_upgrade_safety() {
        CrdUpgradeSafetyEnforcement::Strict => "strict",
        CrdUpgradeSafetyEnforcement::None => "false",
    };
    annotations.insert(SAFE_CRD_UPGRADE.to_owned(), safety.to_owned());
    // What the catalog did not tell is looked at once more with the bundle.
    if extension.annotations().get(names::IGNORE_DEPENDENCIES).is_some_and(|said| said == "true") {
        annotations.insert(names::IGNORE_DEPENDENCIES.to_owned(), "true".to_owned());
    } else if has_packages {
        annotations.insert(names::IGNORE_DEPENDENCIES.to_owned(), names::PACKAGES.to_owned());
    }
    let config = extension.deployment_config();
    if !optional.is_empty() {
        let names: Vec<&str> = optional.keys().map(String::as_str).collect();
        annotations.insert(names::EXTENSION_FIELDS.to_owned(), names.join(","));
    }
    let mut body = json!({
        "apiVersion": BundleDeployment::api_version(&()),
        "kind": BundleDeployment::kind(&()),
        "metadata": {
            "name": deployment_name(&extension.name_any()),
            "annotations": annotations,
            "ownerReferences": controlled_by(extension),
        },
        "spec": {
            "provisionerClassName": names::CLASS_PLAIN,
            "config": config,
            "template": {
                // They tell which bundle a Bundle is: also of the one that stays when an upgrade fails.
                "metadata": {"annotations": bundle.annotations()},
                "spec": {
                    "provisionerClassName": names::CLASS_REGISTRY,
                    "source": {"type": "image", "image": {"ref": bundle.reference}},
                },
            },
        },
    });
    for (field, value) in optional {
        body["spec"][field] = value;
    }
    body
}

/// Whether the BundleDeployment says all that is written; what others added to it does not count.
pub(super) fn is_applied(body: &Value, live: &BundleDeployment) -> bool {
    let Ok(spec) = serde_json::to_value(&live.spec) else { return false };
    let annotations = live.annotations();
    let has = |(key, value): (&String, &Value)| annotations.get(key).map(String::as_str) == value.as_str();
    // What is said no more, as a field that the extension set, is known by these alone: the watch does not keep whose it is.
    let is_gone = |key: &&str| annotations.contains_key(*key) && body["metadata"]["annotations"].get(*key).is_none();
    let has_no_more = [names::EXTENSION_FIELDS, names::UPGRADED_WITH, names::KEEP_MANIFESTS].iter().any(is_gone);
    !has_no_more
        && body["spec"].as_object().is_some_and(|wanted| wanted.iter().all(|(field, value)| spec[field] == *value))
        && body["metadata"]["annotations"].as_object().is_some_and(|wanted| wanted.iter().all(has))
}

#[cfg(test)]
mod tests {
    use rukpak_crds::names::BUNDLE_DEPLOYMENT_NAME_MAX;

    use super::*;

    fn extension(config: &Value) -> ClusterExtension {
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "uid": "u"},
            "spec": {"namespace": "ns", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        });
        if !config.is_null() {
            object["spec"]["config"] = json!({"configType": "Inline", "inline": config});
        }
        serde_json::from_value(object).unwrap()
    }

    fn bundle() -> Identity {
        let [package, name, version, reference] = ["p", "p.v1.0.0", "1.0.0", "r.example/p:1"].map(str::to_owned);
        Identity { package, name, version, reference, release: None }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        assert_eq!(deployment_name("short"), "short");
        let (one, other) = (deployment_name(&"a".repeat(60)), deployment_name(&format!("{}b", "a".repeat(59))));
        assert!(one.len() <= BUNDLE_DEPLOYMENT_NAME_MAX && other.len() <= BUNDLE_DEPLOYMENT_NAME_MAX);
        assert_ne!(one, other);
        assert!(!deployment_name(&format!("{}-{}", "a".repeat(35), "b".repeat(30))).contains("--"));
    }

    #[test]
    fn a_bundle_that_cannot_be_named_is_refused() {
        let digest = format!("r.example/p@sha256:{}", "0a".repeat(32));
        for reference in ["r.example/p:1", &digest, "localhost:5000/p:v1", "docker.io/library/p:1"] {
            assert_eq!(check_bundle(&Identity { reference: reference.to_owned(), ..bundle() }), Ok(()));
        }
        for (reference, why) in [
            ("p:1", "error parsing image reference \"p:1\": repository name must be canonical"),
            ("a/p:1", "error parsing image reference \"a/p:1\": repository name must be canonical"),
            ("docker.io/p:1", "error parsing image reference \"docker.io/p:1\": repository name must be canonical"),
            ("r.example/P:1", "error parsing image reference \"r.example/P:1\": invalid reference format"),
            ("", "error parsing image reference \"\": invalid reference format"),
            ("r.example/p", "error creating reference: Docker reference r.example/p has neither a tag nor a digest"),
        ] {
            let found = check_bundle(&Identity { reference: reference.to_owned(), ..bundle() });
            assert_eq!(found, Err(why.to_owned()));
        }
        let found = check_bundle(&Identity { name: "rel.v1.0.0+2".to_owned(), ..bundle() });
        assert!(found.unwrap_err().starts_with("the catalog names the bundle \"rel.v1.0.0+2\""));
        let found = check_bundle(&Identity { version: "1.0".to_owned(), ..bundle() });
        assert_eq!(found.unwrap_err(), "version must be well-formed semver: \"1.0\"");
    }

    #[test]
    fn what_is_written_is_recognised() {
        let extension = extension(&json!({"watchNamespace": "w"}));
        let body = desired(&extension, (&bundle(), false), Map::new());
        assert_eq!(body["spec"]["config"]["installNamespace"], "ns");
        assert_eq!(body["metadata"]["annotations"][names::IGNORE_DEPENDENCIES], Value::Null);
        let dependent = desired(&extension, (&bundle(), true), Map::new());
        assert_eq!(dependent["metadata"]["annotations"][names::IGNORE_DEPENDENCIES], "packages");
        assert_eq!(body["spec"]["config"]["watchNamespace"], "w");
        let labels = &body["spec"]["config"]["objectLabels"];
        assert_eq!(labels["olm.operatorframework.io/owner-name"], "e");
        let mut live: BundleDeployment = serde_json::from_value(body.clone()).unwrap();
        assert!(is_applied(&body, &live));
        live.annotations_mut().insert("other".to_owned(), "x".to_owned());
        live.spec.suspend = true;
        assert!(is_applied(&body, &live), "what others say is theirs");
        let other = Identity { reference: "r.example/p:2".to_owned(), ..bundle() };
        assert!(!is_applied(&desired(&extension, (&other, false), Map::new()), &live));
        assert!(
            !is_applied(&desired(&self::extension(&Value::Null), (&bundle(), false), Map::new()), &live),
            "a key that is gone"
        );
        let renamed = Identity { name: "p.v1".to_owned(), ..bundle() };
        assert!(
            !is_applied(&desired(&extension, (&renamed, false), Map::new()), &live),
            "the same content by another name"
        );
        let packed = Identity { release: Some("2".to_owned()), ..bundle() };
        assert!(
            !is_applied(&desired(&extension, (&packed, false), Map::new()), &live),
            "the same version in another release"
        );
    }

    #[test]
    fn manifests_are_kept_as_long_as_revisions_are_shown() {
        let plain = || desired(&extension(&Value::Null), (&bundle(), false), Map::new());
        let of = |are_shown: bool| {
            let mut body = plain();
            keep_manifests(&mut body, are_shown);
            body
        };
        let live: BundleDeployment = serde_json::from_value(of(true)).unwrap();
        assert_eq!(live.annotations()[names::KEEP_MANIFESTS], "true");
        assert_eq!(of(false), plain());
        assert!(is_applied(&of(true), &live));
        assert!(!is_applied(&of(false), &live), "it is taken back");
    }

    #[test]
    fn an_extension_without_a_namespace_has_the_bundle_make_one() {
        let mut extension = extension(&json!({"watchNamespace": "w"}));
        extension.spec.namespace = None;
        let body = desired(&extension, (&bundle(), false), Map::new());
        let config = body["spec"]["config"].as_object().unwrap();
        assert_eq!((config.get("installNamespace"), &config["createNamespace"]), (None, &json!(true)));
        assert_eq!(config["watchNamespace"], "w");
    }

    #[test]
    fn takes_back_what_the_extension_sets_no_more_and_nothing_else() {
        let extension = extension(&Value::Null);
        let plain = || desired(&extension, (&bundle(), false), Map::new());
        let optional = json!({"progressDeadline": "10m", "suspend": true}).as_object().cloned().unwrap_or_default();
        let body = desired(&extension, (&bundle(), false), optional);
        assert_eq!((&body["spec"]["progressDeadline"], &body["spec"]["suspend"]), (&json!("10m"), &json!(true)));
        let mut live: BundleDeployment = serde_json::from_value(plain()).unwrap();
        assert!(!is_applied(&body, &live));
        live.spec.progress_deadline = Some("3m".to_owned());
        assert!(is_applied(&plain(), &live), "somebody else's");
        let live: BundleDeployment = serde_json::from_value(body.clone()).unwrap();
        assert!(is_applied(&body, &live));
        assert!(!is_applied(&plain(), &live), "they are not set any more");
        let one = json!({"suspend": true}).as_object().cloned().unwrap_or_default();
        assert!(!is_applied(&desired(&extension, (&bundle(), false), one), &live), "one of them is not set any more");
    }

    #[test]
    fn keeps_the_bundle_and_its_settings_while_none_is_chosen() {
        let live: BundleDeployment = serde_json::from_value(desired(
            &extension(&json!({"watchNamespace": "w"})),
            (&bundle(), false),
            Map::new(),
        ))
        .unwrap();
        let mut changed = extension(&json!({"watchNamespace": "other"}));
        changed.annotations_mut().insert(names::IGNORE_DEPENDENCIES.to_owned(), "true".to_owned());
        let body = |optional: Map<String, Value>| kept(desired(&changed, (&bundle(), false), optional), &live);
        assert!(is_applied(&body(Map::new()), &live), "{:#}", body(Map::new()));
        let optional = json!({"suspend": true}).as_object().cloned().unwrap_or_default();
        assert_eq!(body(optional.clone())["spec"]["config"]["watchNamespace"], "w");
        assert!(!is_applied(&body(optional), &live));
    }

    #[test]
    fn keys_of_our_own_are_not_the_users() {
        assert_eq!(check_config(&extension(&json!({"watchNamespace": "w"})).spec), Ok(()));
        for key in ["installNamespace", "createNamespace"] {
            let error = check_config(&extension(&json!({key: "x"})).spec).unwrap_err();
            assert!(error.ends_with(&format!("unknown field {key:?}")), "{error}");
        }
    }

    #[test]
    fn notes_a_set_until_it_is_over_and_does_not_hold_its_way_back_up() {
        let extension = extension(&Value::Null);
        let plain = || desired(&extension, (&bundle(), false), Map::new());
        let noted = |set: &Set| {
            let mut body = plain();
            note(&mut body, Some(set));
            body
        };
        let begun = Set { leader: "e".to_owned(), ..Set::default() };
        let live: BundleDeployment = serde_json::from_value(noted(&begun)).unwrap();
        assert!(is_applied(&noted(&begun), &live));
        assert!(!is_applied(&plain(), &live), "the note is to go");
        let back = Set { failure: Some("no".to_owned()), ..begun.clone() };
        let over = Set { is_over: true, ..back.clone() };
        assert!(!is_applied(&noted(&back), &live));
        for (set, safety) in [(&begun, json!("strict")), (&back, Value::Null), (&over, json!("strict"))] {
            assert_eq!(noted(set)["metadata"]["annotations"][SAFE_CRD_UPGRADE], safety);
        }
    }
}
