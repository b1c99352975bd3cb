//! The CustomResourceDefinitions as they are installed: what the derive makes of the types, plus the rules that a Rust
//! type cannot state (unions, name lengths).

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::names::{BUNDLE_DEPLOYMENT_NAME_MAX, BUNDLE_NAME_MAX};
use crate::olm::{ClusterCatalog, ClusterExtension, ClusterObjectSet, rules};
use crate::olmv0;
use crate::{Bundle, BundleDeployment, ContentPolicy, Plan, PlatformOperator, plan as plans};

/// The CRD of Bundle, as JSON.
///
/// # Errors
/// Only if the derived schema does not have the shape that the unions are added to: a mistake in this crate.
pub fn bundle() -> Result<Value, serde_json::Error> {
    let mut definition = of::<Bundle>("Bundle is content of Kubernetes manifests at one version, unpacked and kept.")?;
    let schema = schema(&mut definition);
    schema["properties"]["metadata"] =
        json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": BUNDLE_NAME_MAX}}});
    let source = &mut schema["properties"]["spec"]["properties"]["source"];
    source["oneOf"] = one_of(&["git", "image", "configMaps", "upload", "http"]);
    source["properties"]["git"]["properties"]["ref"]["oneOf"] = one_of(&["branch", "commit", "tag"]);
    Ok(definition)
}

/// The CRD of BundleDeployment, as JSON. Its template has no unions, as upstream's has none: a bad source in a
/// template surfaces in the status, not at admission.
pub fn bundle_deployment() -> Result<Value, serde_json::Error> {
    let mut definition = of::<BundleDeployment>("BundleDeployment installs a bundle and keeps it installed.")?;
    let schema = schema(&mut definition);
    schema["properties"]["metadata"] =
        json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": BUNDLE_DEPLOYMENT_NAME_MAX}}});
    Ok(definition)
}

/// The CRD of ContentPolicy, as JSON.
pub fn content_policy() -> Result<Value, serde_json::Error> {
    let mut definition = of::<ContentPolicy>("ContentPolicy says whose content may be unpacked.")?;
    let schema = schema(&mut definition);
    let rule = &mut schema["properties"]["spec"]["properties"]["rules"]["items"]["properties"];
    let signer = &mut rule["signers"]["items"];
    signer["oneOf"] = one_of(&["publicKey", "keyless", "sshKey"]);
    let keyless = ["/keyless/properties/certificateAuthority", "/keyless/properties/rekorKey"];
    for path in ["/publicKey", "/sshKey"].into_iter().chain(keyless) {
        if let Some(pem) = signer["properties"].pointer_mut(path) {
            pem["oneOf"] = one_of(&["data", "secretRef"]);
        }
    }
    Ok(definition)
}

/// The CRD of Plan, as JSON.
pub fn plan() -> Result<Value, serde_json::Error> {
    let mut definition =
        of::<Plan>("Plan is what the installation or upgrade of a BundleDeployment would do, and waits for a yes.")?;
    let schema = schema(&mut definition);
    schema["properties"]["spec"]["x-kubernetes-validations"] = plans::immutability();
    Ok(definition)
}

/// The CRD of PlatformOperator, as JSON.
pub fn platform_operator() -> Result<Value, serde_json::Error> {
    let mut definition = of::<PlatformOperator>("PlatformOperator is an OLM package, installed by its name.")?;
    // As in OpenShift's own CRD: the change that approved the API.
    definition["metadata"]["annotations"] =
        json!({"api-approved.openshift.io": "https://github.com/openshift/api/pull/1234"});
    Ok(definition)
}

/// The CRD of ClusterCatalog, as JSON.
pub fn cluster_catalog() -> Result<Value, serde_json::Error> {
    let mut definition =
        of::<ClusterCatalog>("ClusterCatalog is an image with a catalog of packages, unpacked and served.")?;
    let schema = schema(&mut definition);
    schema["required"] = json!(["metadata", "spec"]);
    rules::of_cluster_catalog(schema);
    Ok(definition)
}

/// The CRD of ClusterExtension, as JSON.
pub fn cluster_extension() -> Result<Value, serde_json::Error> {
    let mut definition =
        of::<ClusterExtension>("ClusterExtension is a package of the catalogs, installed and kept installed.")?;
    let schema = schema(&mut definition);
    let spec = &mut schema["properties"]["spec"]["properties"];
    spec["serviceAccount"]["minProperties"] = json!(1);
    spec["install"]["properties"]["preflight"]["required"] = json!(["crdUpgradeSafety"]);
    rules::of_cluster_extension(schema);
    Ok(definition)
}

/// The CRD of ClusterObjectSet, as JSON.
pub fn cluster_object_set() -> Result<Value, serde_json::Error> {
    let mut definition = of::<ClusterObjectSet>("ClusterObjectSet is objects, applied and kept phase by phase.")?;
    let schema = schema(&mut definition);
    let phase = &mut schema["properties"]["spec"]["properties"]["phases"]["items"]["properties"];
    phase["objects"]["items"]["oneOf"] = one_of(&["object", "ref"]);
    rules::of_cluster_object_set(schema);
    Ok(definition)
}

/// The CRD of a kind of OLM v0, as JSON, with the words `description`, and the versions `others` served beside the stored one.
fn of_olmv0<K: CustomResourceExt>(description: &str, others: &[&str]) -> Result<Value, serde_json::Error> {
    let mut definition = of::<K>(description)?;
    let stored = definition["spec"]["versions"][0].clone();
    let served = others.iter().map(|name| {
        let mut version = stored.clone();
        version["name"] = json!(name);
        version["storage"] = json!(false);
        version
    });
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        versions.extend(served);
    }
    Ok(definition)
}

/// The same of a kind whose spec may be left out, as upstream's.
fn of_olmv0_without_spec<K: CustomResourceExt>(description: &str) -> Result<Value, serde_json::Error> {
    let mut definition = of_olmv0::<K>(description, &[])?;
    schema(&mut definition)["required"] = json!(["metadata"]);
    Ok(definition)
}

/// The CRDs of OLM v0's kinds with the names of their files.
fn all_of_olmv0() -> Result<Vec<(&'static str, Value)>, serde_json::Error> {
    Ok(vec![
        (
            "operators.coreos.com_subscriptions.yaml",
            of_olmv0::<olmv0::Subscription>("Subscription is a package of a catalog, installed and followed.", &[])?,
        ),
        (
            "operators.coreos.com_installplans.yaml",
            of_olmv0::<olmv0::InstallPlan>(
                "InstallPlan is what is to be installed for a Subscription, and whether somebody agreed.",
                &[],
            )?,
        ),
        (
            "operators.coreos.com_clusterserviceversions.yaml",
            of_olmv0::<olmv0::ClusterServiceVersion>(
                "ClusterServiceVersion is a version of an operator in a namespace.",
                &[],
            )?,
        ),
        (
            "operators.coreos.com_catalogsources.yaml",
            of_olmv0::<olmv0::CatalogSource>("CatalogSource is an image or a server with a catalog.", &[])?,
        ),
        (
            "operators.coreos.com_operatorgroups.yaml",
            of_olmv0::<olmv0::OperatorGroup>(
                "OperatorGroup says what the operators of a namespace watch, and whose rights install them.",
                &["v1alpha2"],
            )?,
        ),
        (
            "operators.coreos.com_operatorconditions.yaml",
            of_olmv0::<olmv0::OperatorCondition>("OperatorCondition is what an operator says of itself.", &["v1"])?,
        ),
        (
            "operators.coreos.com_operators.yaml",
            of_olmv0_without_spec::<olmv0::Operator>("Operator lists what belongs to a package in a namespace.")?,
        ),
        (
            "operators.coreos.com_olmconfigs.yaml",
            of_olmv0_without_spec::<olmv0::OLMConfig>(
                "OLMConfig has settings of OLM. It is served for those who set it, and has no effect.",
            )?,
        ),
    ])
}

/// Every CRD with the name of its file.
pub fn all() -> Result<Vec<(&'static str, Value)>, serde_json::Error> {
    let mut all = vec![
        ("core.rukpak.io_bundles.yaml", bundle()?),
        ("core.rukpak.io_bundledeployments.yaml", bundle_deployment()?),
        ("core.rukpak.io_contentpolicies.yaml", content_policy()?),
        ("core.rukpak.io_plans.yaml", plan()?),
        ("platform.openshift.io_platformoperators.yaml", platform_operator()?),
        ("olm.operatorframework.io_clustercatalogs.yaml", cluster_catalog()?),
        ("olm.operatorframework.io_clusterextensions.yaml", cluster_extension()?),
        ("olm.operatorframework.io_clusterobjectsets.yaml", cluster_object_set()?),
    ];
    all.extend(all_of_olmv0()?);
    Ok(all)
}

/// Returns the CRD that is derived from the type `K`, with this description of the kind.
fn of<K: CustomResourceExt>(description: &str) -> Result<Value, serde_json::Error> {
    let mut definition = serde_json::to_value(K::crd())?;
    let schema = schema(&mut definition);
    structural(schema);
    schema["description"] = json!(description);
    Ok(definition)
}

fn schema(definition: &mut Value) -> &mut Value {
    &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn one_of(members: &[&str]) -> Value {
    members.iter().map(|member| json!({"required": [member]})).collect()
}

/// What a Rust `Option` derives (`nullable`, `default: null`) is not in upstream's schema: a Go client's `null` is
/// pruned to absent either way, and `kubectl explain` reads better without. What a map of anything derives beside
/// `x-kubernetes-preserve-unknown-fields` (`additionalProperties: true`) would have all but its first level pruned.
fn structural(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("nullable");
            if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
                map.remove("additionalProperties");
            }
            map.values_mut().for_each(structural);
        }
        Value::Array(items) => items.iter_mut().for_each(structural),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_stand_in_bundle_and_not_in_the_template() {
        let mut bundle = bundle().unwrap();
        let source = &schema(&mut bundle)["properties"]["spec"]["properties"]["source"];
        assert_eq!(source["oneOf"].as_array().unwrap().len(), 5);
        assert_eq!(source["properties"]["git"]["properties"]["ref"]["oneOf"].as_array().unwrap().len(), 3);
        let mut deployment = bundle_deployment().unwrap();
        let template = &schema(&mut deployment)["properties"]["spec"]["properties"]["template"];
        assert!(template["properties"]["spec"]["properties"]["source"]["type"] == "object");
        assert!(template["properties"]["spec"]["properties"]["source"].get("oneOf").is_none());
    }
}
