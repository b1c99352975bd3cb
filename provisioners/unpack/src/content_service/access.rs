//! Whether who may upload may do so for this Bundle: a path says nothing of whose it is. So there is another SubjectAccessReview, on the
//! object that the content is installed for.

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use rukpak_crds::ServiceAccountReference;
use rukpak_runtime::access::{Denied, Gate};

/// The group of Bundles and BundleDeployments.
const GROUP: &str = "core.rukpak.io";

/// Whose content an upload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadOwner {
    /// `bundledeployments`, or `bundles` for one that nobody owns.
    pub resource: &'static str,
    /// The name of the object.
    pub name: String,
    /// With whose rights the content is installed.
    pub installed_by: InstalledBy,
}

/// With whose rights the content of a Bundle is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstalledBy {
    /// With those of the ServiceAccount that is named.
    Account(ServiceAccountReference),
    /// With those of this controller, which nobody gets unasked (`--require=service-account`).
    Controller,
    /// With nobody's, or with the controller's where that asks for nothing.
    Unasked,
}

/// Checks that the user may decide what the Bundle holds: may write the object that it belongs to, and act with the rights that its
/// objects are installed with.
pub async fn check_upload(gate: &Gate, user: &UserInfo, owner: &UploadOwner) -> Result<(), Denied> {
    let may = async |verb: &str, group: &str, resource: &str, namespace: Option<String>, name: &str| {
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            namespace,
            name: Some(name.to_owned()),
            ..ResourceAttributes::default()
        };
        let on_object =
            SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() };
        gate.may(user, on_object).await
    };
    let foreign = |verb, what: String| Denied::Forbidden {
        user: user.username.clone().unwrap_or_default(),
        verb,
        what: format!("{what}, whose content this is"),
    };

    // Either verb writes the spec.
    let (resource, name) = (owner.resource, &owner.name);
    if !may("update", GROUP, resource, None, name).await? && !may("patch", GROUP, resource, None, name).await? {
        return Err(foreign("update", format!("{resource}.{GROUP} {name:?}")));
    }
    let installer = match &owner.installed_by {
        InstalledBy::Account(account) => account.user_name(),
        InstalledBy::Controller => gate.own_name().await?,
        InstalledBy::Unasked => return Ok(()),
    };
    if user.username.as_ref() == Some(&installer) {
        return Ok(());
    }
    let (may, what) = match ServiceAccountReference::of_user(&installer) {
        Some(account) => {
            let (namespace, name) = (Some(account.namespace.clone()), &account.name);
            (may("impersonate", "", "serviceaccounts", namespace, name).await?, account.to_string())
        }
        None => (may("impersonate", "", "users", None, &installer).await?, format!("user {installer:?}")),
    };
    if may { Ok(()) } else { Err(foreign("impersonate", what)) }
}
