//! Keys of `spec.config` of a BundleDeployment that other programs set, and what refuses a configuration.

/// Where the namespaced objects of a `registry+v1` bundle go, in place of the namespace that it suggests. It has to exist: it is none
/// of the objects. The bundle is then rendered as OLM v1 renders it (additive).
pub const INSTALL_NAMESPACE: &str = "installNamespace";
/// Whether the namespace that a `registry+v1` bundle asks for is chosen and made as by OLM v1: it is one of the objects, and stays the
/// one that it is when a later version asks for another (additive).
pub const CREATE_NAMESPACE: &str = "createNamespace";
/// Labels of every object of a `registry+v1` bundle, beside its own (additive).
pub const OBJECT_LABELS: &str = "objectLabels";
/// Whether a `registry+v1` bundle has the ClusterRoles of OLM v0 by which the users of a namespace may use the operator's APIs (additive).
pub const API_ROLES: &str = "apiRoles";
/// Whether other installations of the package of a `registry+v1` bundle may be in other namespaces (additive).
pub const SEVERAL_NAMESPACES: &str = "severalNamespaces";
/// Keys that whoever makes BundleDeployments for others sets, so that these others may not.
pub const RESERVED: [&str; 4] = [INSTALL_NAMESPACE, CREATE_NAMESPACE, OBJECT_LABELS, SEVERAL_NAMESPACES];
/// Part of the message of a condition where `spec.config` does not fit the bundle; behind it stands a colon and what is wrong.
pub const REFUSED: &str = "invalid BundleDeployment configuration (spec.config)";
