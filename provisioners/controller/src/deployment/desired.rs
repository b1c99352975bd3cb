//! The Bundle that the template asks for: found, or made. I/O.

use std::sync::Arc;

use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::condition::{Conditions, UNPACKED};
use rukpak_crds::names;
use rukpak_crds::template_hash::{generated_bundle_name, template_hash};
use rukpak_crds::{Bundle, BundlePhase, BundleSource};
use rukpak_plan::retry::Class;

use super::Pass;
use super::release::Release;
use crate::cluster::Error;
use crate::format::{self, Format};

/// How far the desired Bundle is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Desired {
    /// It could not be found out or made.
    Unknown { message: String, class: Class },
    /// It is neither unpacked nor failing yet, and this is what it waits for, if it tells.
    Waiting { bundle: String, why: Option<String> },
    /// It could not be unpacked.
    Failed { bundle: String, message: Option<String> },
    /// It is unpacked.
    Ready { bundle: String, release: Release },
}

impl Desired {
    /// The Bundle's name, where it is known.
    pub fn bundle(&self) -> Option<&str> {
        match self {
            Self::Unknown { .. } => None,
            Self::Waiting { bundle, .. } | Self::Failed { bundle, .. } | Self::Ready { bundle, .. } => Some(bundle),
        }
    }
}

/// Finds the Bundle for the template, or makes it.
pub(crate) async fn bundle(pass: &Pass) -> Desired {
    let owned = owned(pass);
    // Upstream counts before it matches, so that a deployment that runs wild stops whatever its template says.
    if owned.len() > names::GENERATED_BUNDLES_MAX {
        let message = "reached the maximum generated Bundle limit".to_owned();
        return Desired::Unknown { message, class: Class::Invalid };
    }
    let hash = template_hash(&pass.deployment.spec.template);
    let matching = owned.iter().find(|bundle| hash_label(bundle) == Some(hash.as_str()));
    match matching {
        Some(bundle) if bundle.meta().deletion_timestamp.is_some() => waiting(bundle.name_any()),
        Some(bundle) => state(pass, bundle),
        None => create(pass, &hash).await,
    }
}

/// The Bundles generated for this deployment: by the owner reference's UID, because labels can be copied.
pub(crate) fn owned(pass: &Pass) -> Vec<Arc<Bundle>> {
    let mut owned: Vec<_> =
        pass.context.bundles.state().into_iter().filter(|bundle| is_owned(bundle, &pass.owner.uid)).collect();
    owned.sort_by_key(|bundle| bundle.meta().creation_timestamp.clone());
    owned
}

/// Whether some Bundle of this deployment is pinned to `content` and does not fail, so that it can be fetched again.
pub(crate) fn unpacked(pass: &Pass, content: &Digest) -> bool {
    let content = content.to_string();
    owned(pass).iter().any(|bundle| {
        let pin = bundle.status.as_ref().and_then(|status| status.pin.as_ref());
        pin.is_some_and(|pin| pin.content_digest == content) && !bundle.is_in(BundlePhase::Failing)
    })
}

fn is_owned(bundle: &Bundle, uid: &str) -> bool {
    bundle.owner_references().iter().any(|owner| owner.uid == uid && owner.controller == Some(true))
}

fn hash_label(bundle: &Bundle) -> Option<&str> {
    bundle.meta().labels.as_ref()?.get(names::TEMPLATE_HASH).map(String::as_str)
}

fn state(pass: &Pass, bundle: &Bundle) -> Desired {
    let name = bundle.name_any();
    let status = bundle.status.clone().unwrap_or_default();
    if bundle.is_in(BundlePhase::Failing) {
        let message = status.conditions.find(UNPACKED).map(|condition| condition.message.clone());
        let is_settled_now = format::watches_namespace(pass.deployment.spec.config.as_ref())
            && message.as_ref().is_some_and(|message| message.contains(format::ALL_NAMESPACES_REQUIRED));
        if is_settled_now {
            crate::bundle::reconsider(bundle, &pass.context);
            return waiting(name);
        }
        return Desired::Failed { bundle: name, message };
    }
    let why = crate::bundle::waits_for(&status).map(str::to_owned);
    let content = status.pin.and_then(|pin| pin.content_digest.parse().ok());
    let format = Format::of_class(&bundle.spec.provisioner_class_name);
    match content.zip(format) {
        Some((content, format)) if bundle.is_in(BundlePhase::Unpacked) => {
            let release = Release::new(content, format, pass.deployment.spec.config.as_ref());
            Desired::Ready { bundle: name, release }
        }
        _ => Desired::Waiting { bundle: name, why },
    }
}

fn waiting(bundle: String) -> Desired {
    Desired::Waiting { bundle, why: None }
}

async fn create(pass: &Pass, hash: &str) -> Desired {
    let new = generated(pass, hash);
    let name = new.name_any();
    let api: Api<Bundle> = Api::all(pass.context.client.clone());
    let params = PostParams { field_manager: Some(names::FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&params, &new).await.map_err(Error::from) {
        Ok(_) => waiting(name),
        Err(error) if error.is_conflict() => existing(pass, &api, hash, &name, error).await,
        Err(error) => {
            let class = if error.is_transient() { Class::Transient } else { Class::Invalid };
            let mut message = crate::error::Chain(&error).to_string();
            if let Some(hint) = members(&pass.deployment.spec.template.spec.source).filter(|_| error.is_invalid()) {
                message.push_str("; ");
                message.push_str(&hint);
            }
            Desired::Unknown { message, class }
        }
    }
}

/// The name is taken: by the Bundle that we made a moment ago and the watch has not shown yet, or by somebody else.
async fn existing(pass: &Pass, api: &Api<Bundle>, hash: &str, name: &str, refusal: Error) -> Desired {
    match api.get_opt(name).await {
        Ok(Some(bundle)) if is_owned(&bundle, &pass.owner.uid) && hash_label(&bundle) == Some(hash) => {
            state(pass, &bundle)
        }
        Ok(Some(bundle)) if bundle.meta().deletion_timestamp.is_some() => waiting(name.to_owned()),
        Ok(_) => Desired::Unknown { message: refusal.to_string(), class: Class::Invalid },
        Err(error) => Desired::Unknown { message: Error::from(error).to_string(), class: Class::Transient },
    }
}

fn generated(pass: &Pass, hash: &str) -> Bundle {
    let template = &pass.deployment.spec.template;
    let mut bundle = Bundle::new(&generated_bundle_name(&pass.owner.name, hash), template.spec.clone());
    let metadata = template.metadata.as_ref();
    let mut labels = metadata.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    for (key, value) in [
        (names::OWNER_KIND, names::OWNER_KIND_VALUE),
        (names::OWNER_NAME, &pass.owner.name),
        (names::TEMPLATE_HASH, hash),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    bundle.metadata.labels = Some(labels);
    bundle.metadata.annotations = metadata.and_then(|metadata| metadata.annotations.clone());
    bundle.metadata.owner_references = Some(vec![pass.owner.reference()]);
    bundle
}

/// What to do about a source that has not exactly one member. The API server refuses it in words of its schema, which name
/// neither the members nor the field.
fn members(source: &BundleSource) -> Option<String> {
    let members = [
        ("image", source.image.is_some()),
        ("git", source.git.is_some()),
        ("configMaps", source.config_maps.is_some()),
        ("upload", source.upload.is_some()),
        ("http", source.http.is_some()),
    ];
    let has: Vec<&str> = members.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    let type_ = source.type_.as_str();
    let is_known = members.iter().any(|(name, _)| *name == type_);
    let way_out = match has.as_slice() {
        [_] => return None,
        [] if is_known => format!("set {type_}"),
        [] => "set the one that type names".to_owned(),
        many if many.contains(&type_) => {
            let others: Vec<&str> = many.iter().copied().filter(|name| *name != type_).collect();
            format!("remove {}", others.join(" and "))
        }
        _ => "keep the one that type names".to_owned(),
    };
    let has = if has.is_empty() { "none of its members".to_owned() } else { has.join(" and ") };
    Some(format!("spec.template.spec.source has {has}: {way_out}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_members_of_a_source_that_are_too_many_are_named() {
        let (image, git) = (json!({"ref": "r"}), json!({"repository": "r", "ref": {"branch": "main"}}));
        for (source, hint) in [
            (json!({"type": "git", "image": image, "git": git}), Some("has image and git: remove image")),
            (json!({"type": "image", "image": image, "git": git, "upload": {}}), Some("remove git and upload")),
            (
                json!({"type": "http", "image": image, "git": git}),
                Some("has image and git: keep the one that type names"),
            ),
            (json!({"type": "git"}), Some("has none of its members: set git")),
            (json!({"type": "Git"}), Some("set the one that type names")),
            (json!({"type": "git", "git": git}), None),
            // The webhook has clear words for it.
            (json!({"type": "git", "image": image}), None),
        ] {
            let found = members(&serde_json::from_value(source.clone()).unwrap());
            assert_eq!(found.is_some(), hint.is_some(), "{source}: {found:?}");
            assert!(found.as_deref().unwrap_or_default().ends_with(hint.unwrap_or_default()), "{source}: {found:?}");
        }
    }
}
