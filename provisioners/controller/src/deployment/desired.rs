//! The Bundle that the template asks for: found, or made. I/O.

use std::sync::Arc;

use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::condition::{Conditions, UNPACKED};
use rukpak_crds::names;
use rukpak_crds::template_hash::{generated_bundle_name, template_hash};
use rukpak_crds::{Bundle, BundlePhase};
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
    /// It is neither unpacked nor failing yet.
    Waiting { bundle: String },
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
            Self::Waiting { bundle } | Self::Failed { bundle, .. } | Self::Ready { bundle, .. } => Some(bundle),
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
        Some(bundle) if bundle.meta().deletion_timestamp.is_some() => Desired::Waiting { bundle: bundle.name_any() },
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
            return Desired::Waiting { bundle: name };
        }
        return Desired::Failed { bundle: name, message };
    }
    let content = status.pin.and_then(|pin| pin.content_digest.parse().ok());
    let format = Format::of_class(&bundle.spec.provisioner_class_name);
    match content.zip(format) {
        Some((content, format)) if bundle.is_in(BundlePhase::Unpacked) => {
            let release = Release::new(content, format, pass.deployment.spec.config.as_ref());
            Desired::Ready { bundle: name, release }
        }
        _ => Desired::Waiting { bundle: name },
    }
}

async fn create(pass: &Pass, hash: &str) -> Desired {
    let new = generated(pass, hash);
    let name = new.name_any();
    let api: Api<Bundle> = Api::all(pass.context.client.clone());
    let params = PostParams { field_manager: Some(names::FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&params, &new).await.map_err(Error::from) {
        Ok(_) => Desired::Waiting { bundle: name },
        Err(error) if error.is_conflict() => existing(pass, &api, hash, &name, error).await,
        Err(error) => {
            let class = if error.is_transient() { Class::Transient } else { Class::Invalid };
            Desired::Unknown { message: crate::error::Chain(&error).to_string(), class }
        }
    }
}

/// The name is taken: by the Bundle that we made a moment ago and the watch has not shown yet, or by somebody else.
async fn existing(pass: &Pass, api: &Api<Bundle>, hash: &str, name: &str, refusal: Error) -> Desired {
    match api.get_opt(name).await {
        Ok(Some(bundle)) if is_owned(&bundle, &pass.owner.uid) && hash_label(&bundle) == Some(hash) => {
            state(pass, &bundle)
        }
        Ok(Some(bundle)) if bundle.meta().deletion_timestamp.is_some() => Desired::Waiting { bundle: name.to_owned() },
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
