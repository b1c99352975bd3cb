//! Names on the wire: provisioner classes, labels, annotations, managers.

/// Provisioner class of `plain+v0` bundles, and of BundleDeployments.
pub const CLASS_PLAIN: &str = "core-rukpak-io-plain";
/// Provisioner class of `registry+v1` bundles, and (additive) of BundleDeployments.
pub const CLASS_REGISTRY: &str = "core-rukpak-io-registry";
/// Provisioner class of `helm+v3`.
pub const CLASS_HELM: &str = "core-rukpak-io-helm";
/// Key of `spec.config` with the values of a chart.
pub const VALUES: &str = "values";

/// Label: the kind of the owner, `BundleDeployment`. On generated Bundles and on every applied object.
pub const OWNER_KIND: &str = "core.rukpak.io/owner-kind";
/// Label: the name of the owner.
pub const OWNER_NAME: &str = "core.rukpak.io/owner-name";
/// Label: the full template hash. On generated Bundles.
pub const TEMPLATE_HASH: &str = "core.rukpak.io/bundle-template-hash";
/// The value of [`OWNER_KIND`] on what a BundleDeployment owns.
pub const OWNER_KIND_VALUE: &str = "BundleDeployment";
/// Finalizer of a BundleDeployment whose objects are deleted in order: it is there as long as its deletion policy says so.
pub const DELETION_IN_ORDER: &str = "core.rukpak.io/deletion-in-order";
/// Finalizer that RukPak v0.16 put on Bundles. We add none and remove this one.
pub const UPSTREAM_FINALIZER: &str = "core.rukpak.io/delete-cached-bundle";

/// Annotation on an object of a bundle, by its owner: `keep` lets it outlive its BundleDeployment (Helm's convention).
pub const RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// Helm's release name, on objects that RukPak v0.16 installed.
pub const HELM_RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// Helm's release namespace, on objects that RukPak v0.16 installed.
pub const HELM_RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// Who manages an object, by convention.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// operator-lib's owner annotation, `<namespace>/<name>`: marks kept objects, which carry no owner reference.
pub const PRIMARY_RESOURCE: &str = "operator-sdk/primary-resource";
/// operator-lib's owner annotation, `<Kind>.<group>`.
pub const PRIMARY_RESOURCE_TYPE: &str = "operator-sdk/primary-resource-type";
/// UID of the BundleDeployment that applied a kept object (additive: a name alone can be reused).
pub const OWNER_UID: &str = "core.rukpak.io/owner-uid";

/// Annotation on a ControllerRevision, the record of a release: how the objects of that stand, as JSON (additive).
pub const OBJECT_STATES: &str = "core.rukpak.io/object-states";

/// Annotation on the object of a hook of a chart, by the controller: the run that it was made for (additive).
pub const HOOK_RUN: &str = "core.rukpak.io/hook-run";

/// Annotation on a Secret with files of a bundle: the name of the BundleDeployment that they are meant for. No other reads them.
pub const CONTENT_OF: &str = "core.rukpak.io/content-of";
/// Type of a Secret with files of a bundle.
pub const CONTENT_TYPE: &str = "core.rukpak.io/content";

/// Annotation on an existing object, by an administrator: the name of the BundleDeployment that may take it over.
pub const ADOPT_BY: &str = "core.rukpak.io/adopt-by";
/// Annotation on a guarded object (CustomResourceDefinition, Namespace, PersistentVolumeClaim), by an
/// administrator: `"true"` lets a pivot delete it together with the data that hangs on it.
pub const ALLOW_DELETION: &str = "core.rukpak.io/allow-deletion";

/// Annotation on an object of a bundle, in the manifest or on the object in the cluster: [`DISABLED`] has the object left as it is,
/// neither applied nor repaired nor pruned.
pub const RECONCILE: &str = "core.rukpak.io/reconcile";
/// The value of [`RECONCILE`] that has an effect.
pub const DISABLED: &str = "disabled";

/// Annotation on an object in a bundle: `enabled` has the object deleted and created again where a field cannot be changed.
pub const FORCE: &str = "core.rukpak.io/force";
/// The value of [`FORCE`] that has an effect.
pub const ENABLED: &str = "enabled";

/// Annotation on a Secret of the system namespace: the hosts that its login may be sent to, separated by commas.
pub const SECRET_HOSTS: &str = "core.rukpak.io/hosts";
/// What Tekton's annotations begin with that name the registries of a pull secret. They count as [`SECRET_HOSTS`] does.
pub const TEKTON_REGISTRY: &str = "tekton.dev/docker-";
/// Annotation on a Secret of the system namespace: `"true"` lets its login be sent without TLS, or to a server whose certificate
/// is not looked at.
pub const SECRET_ALLOW_INSECURE: &str = "core.rukpak.io/allow-insecure";

/// Annotation on a BundleDeployment, by its owner: `"true"` says that the packages which a `registry+v1` bundle depends on
/// are taken care of, and that the cluster is new enough for it. [`PACKAGES`] says only that the packages are (additive).
pub const IGNORE_DEPENDENCIES: &str = "core.rukpak.io/ignore-dependencies";
/// Value of [`IGNORE_DEPENDENCIES`].
pub const PACKAGES: &str = "packages";
/// Annotation on a CRD in a bundle, or on a BundleDeployment: `"false"` lets CRDs be upgraded without a look at stored versions and
/// existing objects; on a BundleDeployment `"strict"` has the rules of OLM v1 refuse as well (additive).
pub const SAFE_CRD_UPGRADE: &str = "core.rukpak.io/safe-crd-upgrade-validation";
/// Annotation on a CRD, by the controller: it has versions that other BundleDeployments declare, or declared, and that stay until the
/// bundle declares it anew (additive).
pub const UNITED_VERSIONS: &str = "core.rukpak.io/united-versions";
/// Annotation on a CRD in a bundle, with the name of a package: the CRD outlives its BundleDeployment, and other BundleDeployments whose
/// bundles say the same of it use it, too (additive).
pub const IN_COMMON: &str = "core.rukpak.io/in-common";
/// Annotation on a BundleDeployment, by its owner: `"true"` has the releases that RukPak v0.16 kept for it (Secrets) deleted, once
/// everything is taken over (additive).
pub const DELETE_HELM_RELEASES: &str = "core.rukpak.io/delete-helm-releases";
/// Annotation on a ClusterCatalog, by its owner: the pull secret of the system namespace with which its image is pulled (additive).
pub const PULL_SECRET: &str = "core.rukpak.io/pull-secret";
/// Annotation on a ClusterExtension, by its owner: `"true"` suspends its BundleDeployment (additive).
pub const SUSPEND: &str = "core.rukpak.io/suspend";
/// Annotation on a ClusterExtension, by its owner: the deletion policy of its BundleDeployment (additive).
pub const DELETION_POLICY: &str = "core.rukpak.io/deletion-policy";
/// Annotation on a ClusterExtension, by its owner: when Plans of its BundleDeployment have to be approved (additive).
pub const APPROVAL: &str = "core.rukpak.io/approval";
/// Annotation on a ClusterExtension, by its owner: when its BundleDeployment may be upgraded, as a JSON list (additive).
pub const WINDOWS: &str = "core.rukpak.io/windows";
/// Annotation on a ClusterExtension, by its owner: what becomes of packages that its bundle depends on and that are not installed
/// (additive).
pub const DEPENDENCIES: &str = "core.rukpak.io/dependencies";
/// Label on a ClusterExtension or PlatformOperator that was made because another one needs its package: the BundleDeployment of that one.
/// On a Plan for such objects, too: that Plan was not made for a BundleDeployment (additive).
pub const INSTALLED_FOR: &str = "core.rukpak.io/installed-for";
/// Annotation on a BundleDeployment, and on the ClusterExtension or PlatformOperator that it was made for: who needs what it has
/// installed, as `Kind/name` with commas between them. The manager of these kinds keeps it (additive).
pub const NEEDED_BY: &str = "core.rukpak.io/needed-by";
/// Annotation on the same objects, by their owner: `"true"` lets them be deleted, and upgraded, although others need what they have
/// installed (additive).
pub const IGNORE_DEPENDENTS: &str = "core.rukpak.io/ignore-dependents";
/// Annotation on a BundleDeployment of a ClusterExtension: the upgrades that are made together with its own, as JSON, and why they were
/// taken back, if they were (additive).
pub const UPGRADED_WITH: &str = "core.rukpak.io/upgraded-with";
/// Annotation on a BundleDeployment of a ClusterExtension: the fields of its spec that the extension sets now and may set no more later,
/// with commas between them. What others set is left to them (additive).
pub const EXTENSION_FIELDS: &str = "core.rukpak.io/extension-fields";
/// Annotation on a BundleDeployment of a ClusterExtension, by the manager of these: `"true"` has the manifests of each release kept in
/// Secrets of the system namespace (additive).
pub const KEEP_MANIFESTS: &str = "core.rukpak.io/keep-manifests";
/// Type of a Secret with manifests of a release.
pub const MANIFESTS_TYPE: &str = "core.rukpak.io/manifests";
/// Annotation on a ClusterObjectSet that shows a revision of a ClusterExtension: the name of the record of the release (additive).
pub const SHOWN_RELEASE: &str = "core.rukpak.io/shown-release";
/// Names a revision of the status history that is to be installed in place of the template.
pub const ROLLBACK_TO: &str = "core.rukpak.io/rollback-to";
/// Any new value asks for a reconcile, whatever back-off holds; the status echoes it.
pub const RECONCILE_REQUESTED_AT: &str = "core.rukpak.io/reconcile-requested-at";

/// Annotations on a BundleDeployment that decide what is installed, or what is checked before. Whoever sets or removes one needs the
/// rights that a change of the spec takes, and the change has an upgrade that failed tried again. Other annotations are written by
/// anybody, and some every few seconds.
pub const DECIDING: [&str; 4] = [ROLLBACK_TO, SAFE_CRD_UPGRADE, IGNORE_DEPENDENCIES, DELETE_HELM_RELEASES];

/// The field manager of everything that the provisioners apply.
pub const FIELD_MANAGER: &str = "rukpak-core";
/// Label of the Pod whose process leads; the Service of the content service selects by it.
pub const LEADER: &str = "core.rukpak.io/leader";
/// The field manager of owner references to further users of a Namespace or CRD, and of versions that these add to a CRD. Not
/// [`FIELD_MANAGER`]: what that applies, it may take away again.
pub const SHARING_MANAGER: &str = "rukpak-core-sharing";

/// Longest Bundle name the API accepts.
pub const BUNDLE_NAME_MAX: usize = 52;
/// Longest BundleDeployment name the API accepts.
pub const BUNDLE_DEPLOYMENT_NAME_MAX: usize = 45;
/// More generated Bundles than this stop a BundleDeployment.
pub const GENERATED_BUNDLES_MAX: usize = 4;
