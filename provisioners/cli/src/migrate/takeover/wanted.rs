//! The objects that are made in the place of a Subscription. Pure.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::config;
use rukpak_crds::names::{self, IGNORE_DEPENDENCIES, PACKAGES};
use rukpak_crds::olm::{BUNDLE_NAME, BUNDLE_REFERENCE, BUNDLE_VERSION, PACKAGE_NAME};
use rukpak_crds::olmv0::installation::Installation;
use rukpak_crds::olmv0::{NAMESPACE_LABEL, PACKAGE};
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleSource, BundleSpec, BundleTemplate, ImageSource};
use serde_json::{Map, Value, json};

use super::check::{Checked, carried, package};
use super::olm::{Installed, text};

/// Where OLM notes the properties of a bundle.
const PROPERTIES: &str = "operatorframework.io/properties";
/// Dependencies that only a catalog can resolve.
const NEEDS: [&str; 2] = ["olm.package.required", "olm.constraint"];

/// The BundleDeployment: the image that is installed, where it is, with its settings.
pub(super) fn deployment(
    installed: &Installed,
    checked: &Checked<'_>,
    image: &str,
    has_roles: bool,
) -> BundleDeployment {
    let mut settings = Map::new();
    settings.insert(config::INSTALL_NAMESPACE.to_owned(), json!(installed.namespace));
    match checked.targets.as_slice() {
        [all] if all.is_empty() => {}
        [only] => drop(settings.insert("watchNamespace".to_owned(), json!(only))),
        several => drop(settings.insert("watchNamespaces".to_owned(), json!(several))),
    }
    let config = carried(&installed.subscription);
    if !config.is_empty() {
        settings.insert("deploymentConfig".to_owned(), Value::Object(config));
    }
    // Whoever may use the APIs by OLM's roles may go on, and nobody else begins.
    settings.insert(config::API_ROLES.to_owned(), json!(has_roles));
    let image = ImageSource { reference: image.to_owned(), ..ImageSource::default() };
    let source = BundleSource { type_: "image".to_owned(), image: Some(image), ..BundleSource::default() };
    let spec = BundleSpec { provisioner_class_name: names::CLASS_REGISTRY.to_owned(), source };
    let spec = BundleDeploymentSpec {
        provisioner_class_name: names::CLASS_PLAIN.to_owned(),
        template: BundleTemplate { metadata: None, spec },
        config: Some(settings),
        ..BundleDeploymentSpec::default()
    };
    let mut deployment = BundleDeployment::new(package(&installed.subscription), spec);
    // OLM has seen to them.
    if needs_packages(checked.csv) {
        deployment.metadata.annotations = Some([(IGNORE_DEPENDENCIES.to_owned(), PACKAGES.to_owned())].into());
    }
    deployment
}

/// The BundleDeployment of a Subscription that stays, as `rukpak-platform` has it from then on, but for what makes it the Subscription's.
/// Nobody is asked about what is installed already.
pub(super) fn subscribed(installed: &Installed, checked: &Checked<'_>, image: &str) -> BundleDeployment {
    let (package, config) = (package(&installed.subscription), carried(&installed.subscription));
    let account = Some(text(checked.group, "/spec/serviceAccountName")).filter(|account| !account.is_empty());
    let (name, version) = (checked.csv.name_any(), text(checked.csv, "/spec/version"));
    let bundle =
        [(PACKAGE_NAME, package), (BUNDLE_NAME, name.as_str()), (BUNDLE_VERSION, version), (BUNDLE_REFERENCE, image)];
    let asked = Installation {
        namespace: &installed.namespace,
        package,
        targets: &checked.targets,
        account,
        config: Some(&config),
        // Those of the catalog are named later, by what follows the Subscription: nothing changes during the take-over.
        secrets: &[],
        roles: account.is_none().then_some(Value::Bool(true)),
        is_manual: false,
        bundle: bundle.map(|(key, text)| (key.to_owned(), text.to_owned())).into(),
        image,
        // OLM has seen to them.
        has_packages: needs_packages(checked.csv),
    };
    let made = serde_json::from_value(asked.body());
    let mut deployment: BundleDeployment = made.expect("because it was made to be one");
    deployment.labels_mut().remove(NAMESPACE_LABEL);
    deployment.annotations_mut().remove(PACKAGE);
    deployment
}

fn needs_packages(csv: &DynamicObject) -> bool {
    let text = csv.annotations().get(PROPERTIES).map_or("", String::as_str);
    let read: Value = serde_json::from_str(text).unwrap_or_default();
    let properties = read["properties"].as_array().into_iter().flatten();
    properties.filter_map(|property| property["type"].as_str()).any(|name| NEEDS.contains(&name))
}

/// A PlatformOperator that follows what the Subscription follows.
pub(super) fn operator(subscription: &DynamicObject) -> Value {
    let (source, space) = (text(subscription, "/spec/source"), text(subscription, "/spec/sourceNamespace"));
    let mut asked = json!({"name": package(subscription), "catalog": format!("{space}/{source}")});
    let channel = text(subscription, "/spec/channel");
    if !channel.is_empty() {
        asked["channel"] = json!(channel);
    }
    // In OLM whatever is not Manual is Automatic.
    let is_manual = text(subscription, "/spec/installPlanApproval") == "Manual";
    json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": package(subscription)},
        "spec": {"package": asked, "upgradePolicy": if is_manual { "Manual" } else { "Automatic" }},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_manual_is_automatic_and_no_channel_is_any() {
        let subscription = |spec: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap()
        };
        let spec = json!({"name": "pump", "source": "cat", "sourceNamespace": "olm", "channel": "stable",
                          "installPlanApproval": "Manual"});
        let made = operator(&subscription(spec));
        assert_eq!(made["metadata"]["name"], "pump");
        let package = json!({"name": "pump", "catalog": "olm/cat", "channel": "stable"});
        assert_eq!(made["spec"], json!({"package": package, "upgradePolicy": "Manual"}));
        let made = operator(&subscription(json!({"name": "pump", "source": "cat", "sourceNamespace": "olm"})));
        let package = json!({"name": "pump", "catalog": "olm/cat"});
        assert_eq!(made["spec"], json!({"package": package, "upgradePolicy": "Automatic"}));
    }

    #[test]
    fn packages_that_a_bundle_needs_are_told_from_apis() {
        let csv = |properties: Value| -> DynamicObject {
            let text = json!({ "properties": properties }).to_string();
            serde_json::from_value(json!({"metadata": {"name": "c", "annotations": {PROPERTIES: text}}})).unwrap()
        };
        assert!(needs_packages(&csv(json!([{"type": "olm.package.required", "value": {}}]))));
        assert!(needs_packages(&csv(json!([{"type": "olm.gvk"}, {"type": "olm.constraint"}]))));
        assert!(!needs_packages(&csv(json!([{"type": "olm.gvk.required", "value": {}}, {"type": "olm.package"}]))));
    }
}
