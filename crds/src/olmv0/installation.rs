//! The BundleDeployment that a Subscription is installed by. Pure.

use std::collections::BTreeMap;

use kube::Resource as _;
use serde_json::{Map, Value, json};

use super::subscription::{CARRIED_SETTINGS, IMAGE_PULL_SECRETS};
use super::{MANAGED_LABEL, NAMESPACE_LABEL, PACKAGE, component_label};
use crate::names::{self, IGNORE_DEPENDENCIES};
use crate::{BundleDeployment, config, olm};

/// The field manager of what is written for a Subscription.
pub const FIELD_MANAGER: &str = "rukpak-subscription";

/// Where the settings of the operator's Deployments are in `spec.config`.
pub const DEPLOYMENT_CONFIG: &str = "deploymentConfig";

/// What Subscription and OperatorGroup ask for, and the bundle that was chosen.
#[derive(Clone, Debug)]
pub struct Installation<'a> {
    /// Namespace of both.
    pub namespace: &'a str,
    /// The package.
    pub package: &'a str,
    /// Namespaces that are watched; one empty name stands for all.
    pub targets: &'a [String],
    /// The ServiceAccount whose rights are used; the controller's, if there is none.
    pub account: Option<&'a str>,
    /// `spec.config` of the Subscription.
    pub config: Option<&'a Map<String, Value>>,
    /// Names of the Secrets by which the catalog's images are pulled: the operator's own may need them too.
    pub secrets: &'a [String],
    /// Whether there are roles for users, as somebody says; nothing where nobody does.
    pub roles: Option<Value>,
    /// Whether somebody has to agree.
    pub is_manual: bool,
    /// Annotations that tell which bundle it is.
    pub bundle: BTreeMap<String, String>,
    /// Its image.
    pub image: &'a str,
    /// Whether packages that it depends on were found installed.
    pub has_packages: bool,
}

/// The name of the BundleDeployment of a package in a namespace. No namespace has a dot, so that two of them have two names.
pub fn deployment_name(namespace: &str, package: &str) -> String {
    olm::deployment_name(&format!("{package}.{namespace}"))
}

impl Installation<'_> {
    /// What is written.
    pub fn body(&self) -> Value {
        let mut annotations = self.bundle.clone();
        annotations.insert(PACKAGE.to_owned(), self.package.to_owned());
        if self.has_packages {
            annotations.insert(IGNORE_DEPENDENCIES.to_owned(), names::PACKAGES.to_owned());
        }
        let mut body = json!({
            "apiVersion": BundleDeployment::api_version(&()),
            "kind": BundleDeployment::kind(&()),
            "metadata": {
                "name": deployment_name(self.namespace, self.package),
                "labels": {NAMESPACE_LABEL: self.namespace},
                "annotations": annotations,
            },
            "spec": {
                "provisionerClassName": names::CLASS_PLAIN,
                "config": self.settings(),
                "deletionPolicy": "KeepCRDs",
                "approval": if self.is_manual { "Always" } else { "Automatic" },
                "template": {
                    // They tell which bundle a Bundle is: also of the one that stays when an upgrade fails.
                    "metadata": {"annotations": self.bundle},
                    "spec": {
                        "provisionerClassName": names::CLASS_REGISTRY,
                        "source": {"type": "image", "image": {"ref": self.image}},
                    },
                },
            },
        });
        if let Some(account) = self.account {
            // Of the namespace of the OperatorGroup and of no other.
            body["spec"]["serviceAccount"] = json!({"name": account, "namespace": self.namespace});
        }
        body
    }

    /// `spec.config` of the BundleDeployment.
    fn settings(&self) -> Map<String, Value> {
        let mut settings = Map::new();
        settings.insert(config::INSTALL_NAMESPACE.to_owned(), json!(self.namespace));
        match self.targets {
            [all] if all.is_empty() => {}
            [only] => drop(settings.insert("watchNamespace".to_owned(), json!(only))),
            several => drop(settings.insert("watchNamespaces".to_owned(), json!(several))),
        }
        let mut changes = self.config.cloned().unwrap_or_default();
        changes.retain(|key, value| CARRIED_SETTINGS.contains(&key.as_str()) && !value.is_null());
        add_pull_secrets(&mut changes, self.secrets);
        if !changes.is_empty() {
            settings.insert(DEPLOYMENT_CONFIG.to_owned(), Value::Object(changes));
        }
        let labels =
            BTreeMap::from([(MANAGED_LABEL.to_owned(), "true"), (component_label(self.package, self.namespace), "")]);
        settings.insert(config::OBJECT_LABELS.to_owned(), json!(labels));
        settings.insert("operatorCondition".to_owned(), json!(true));
        settings.insert(config::SEVERAL_NAMESPACES.to_owned(), json!(true));
        settings.extend(self.roles.clone().map(|roles| (config::API_ROLES.to_owned(), roles)));
        settings
    }
}

fn add_pull_secrets(changes: &mut Map<String, Value>, secrets: &[String]) {
    if secrets.is_empty() {
        return;
    }
    // What is no list is refused with the bundle's other settings.
    let said = changes.entry(IMAGE_PULL_SECRETS).or_insert_with(|| json!([]));
    let Some(list) = said.as_array_mut() else { return };
    for name in secrets {
        let reference = json!({"name": name});
        if !list.contains(&reference) {
            list.push(reference);
        }
    }
}
