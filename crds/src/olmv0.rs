//! The API of OLM v0: `operators.coreos.com`, as far as clients write and read it.
//!
//! Source of the shapes: Operator Lifecycle Manager of 2026. What is only stored and shown is open in the definitions, and is not kept
//! in memory here.
//!
//! ```text
//! subscription        a package that is followed
//! catalog_source      where packages come from
//! operator_group      which namespaces the operators of a namespace watch, and whose rights install them
//! install_plan        what is to be installed, and whether somebody agreed
//! service_version     a version of an operator that is installed
//! operator_condition  what an operator says of itself
//! operator            what belongs to a package in a namespace
//! olm_config          settings of OLM, without effect
//! installation        the BundleDeployment that a Subscription is installed by
//! ```

pub mod catalog_source;
pub mod install_plan;
pub mod installation;
pub mod olm_config;
pub mod operator;
pub mod operator_condition;
pub mod operator_group;
pub mod service_version;
pub mod subscription;

pub use catalog_source::CatalogSource;
pub use install_plan::InstallPlan;
pub use olm_config::OLMConfig;
pub use operator::Operator;
pub use operator_condition::OperatorCondition;
pub use operator_group::OperatorGroup;
pub use service_version::ClusterServiceVersion;
pub use subscription::Subscription;

/// Label of a BundleDeployment that a Subscription is installed by: the namespace of the Subscription.
pub const NAMESPACE_LABEL: &str = "core.rukpak.io/subscription-namespace";
/// Annotation of such a BundleDeployment: the package, which names it together with the namespace.
pub const PACKAGE: &str = "core.rukpak.io/subscription-package";
/// Annotation of such a BundleDeployment: names and UIDs of the ClusterServiceVersions that were made for it.
pub const VERSIONS: &str = "core.rukpak.io/subscription-csvs";
/// Annotation of a ClusterServiceVersion and of an InstallPlan: the UID of the BundleDeployment that it speaks of.
pub const DEPLOYMENT_UID: &str = "core.rukpak.io/deployment-uid";
/// Annotation of an InstallPlan: what it stands for, which is the digest of a Plan where one has to be approved.
pub const PLANNED: &str = "core.rukpak.io/planned";
/// Label of what OLM has made, and of what is made in its place.
pub const MANAGED_LABEL: &str = "olm.managed";
/// Annotation of a ClusterServiceVersion: the OperatorGroup of its namespace.
pub const OPERATOR_GROUP: &str = "olm.operatorGroup";
/// Annotation of a ClusterServiceVersion: the namespace of that.
pub const OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";
/// Annotation of a ClusterServiceVersion and of Pods: the namespaces that the operator watches, with commas between them. Empty: all.
pub const TARGET_NAMESPACES: &str = "olm.targetNamespaces";

/// Longest name part of a label.
const LABEL_NAME_MAX: usize = 63;

/// Returns the name of the label by which everything of a package in a namespace is found. Its value is empty.
pub fn component_label(package: &str, namespace: &str) -> String {
    let name = format!("{package}.{namespace}");
    let cut: String = name.chars().take(LABEL_NAME_MAX).collect();
    format!("operators.coreos.com/{}", cut.trim_end_matches(['.', '_', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_components_is_cut_as_clients_cut_it() {
        assert_eq!(component_label("pump", "team-a"), "operators.coreos.com/pump.team-a");
        let long = component_label(&"p".repeat(62), "team-a");
        assert_eq!(long, format!("operators.coreos.com/{}", "p".repeat(62)), "no dot at the end");
    }
}
