//! The operator's Deployments.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;

use super::{Context, Error, overrides, serving_certificates, volumes};
use crate::csv::Deployment;

/// One for each entry of the CSV.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let certificates = serving_certificates(context.bundle, context.namespace());
    for (index, deployment) in context.bundle.csv.spec.install.spec.deployments.iter().enumerate() {
        let certificate = certificates.iter().find(|certificate| certificate.deployment == deployment.name);
        let secret = certificate.map(|certificate| certificate.secret.as_str());
        generate_one(context, deployment, secret, &format!("spec.install.spec.deployments[{index}]"))?;
    }
    Ok(())
}

fn generate_one(
    context: &mut Context<'_>,
    deployment: &Deployment,
    certificate: Option<&str>,
    field: &str,
) -> Result<(), Error> {
    let mut spec = deployment.spec.clone();
    spec.revision_history_limit = Some(1);
    let metadata = spec.template.metadata.get_or_insert_default();
    // Operators read where they are from annotations of the pod: the CSV's, the template's over them, ours over both.
    let mut annotations = context.bundle.csv.metadata.annotations.clone();
    annotations.extend(metadata.annotations.take().unwrap_or_default());
    annotations.insert("olm.targetNamespaces".to_owned(), context.targets.join(","));
    annotations.insert("olm.operatorNamespace".to_owned(), context.namespace().to_owned());
    metadata.annotations = Some(annotations);
    let pod = spec.template.spec.get_or_insert_default();
    if let Some(secret) = certificate {
        volumes::mount_certificate(pod, secret);
    }
    count_config(context, pod.containers.len(), field)?;
    let mut own_annotations = None;
    if let Some(config) = &context.options.deployment_config {
        overrides::apply(config, &mut spec.template);
        own_annotations = Some(&config.annotations).filter(|annotations| !annotations.is_empty());
    }
    name_condition(context, &mut spec.template, field)?;
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment.name, "namespace": context.namespace()},
        "spec": context.json(&spec, field)?,
    });
    if !deployment.label.is_empty() {
        object["metadata"]["labels"] = json!(deployment.label);
    }
    if let Some(annotations) = own_annotations {
        object["metadata"]["annotations"] = json!(annotations);
    }
    context.push(object, field)
}

/// Tells the containers the name of the OperatorCondition, if there is one.
fn name_condition(context: &mut Context<'_>, template: &mut PodTemplateSpec, field: &str) -> Result<(), Error> {
    if !context.options.operator_condition {
        return Ok(());
    }
    let (name, origin) = (&context.bundle.csv.metadata.name, context.bundle.origin_of(field));
    let containers = template.spec.as_ref().map_or(0, |pod| pod.containers.len());
    context.budget.add_copies(&json!(name), containers as u64, || origin.to_string())?;
    overrides::set_variable(template, "OPERATOR_CONDITION_NAME", name);
    Ok(())
}

/// Counts what the user's settings copy into each container.
fn count_config(context: &mut Context<'_>, containers: usize, field: &str) -> Result<(), Error> {
    let Some(config) = &context.options.deployment_config else { return Ok(()) };
    let copied = json!({
        "env": context.json(&config.env, field)?,
        "envFrom": context.json(&config.env_from, field)?,
        "volumeMounts": context.json(&config.volume_mounts, field)?,
        "resources": context.json(&config.resources, field)?,
    });
    let origin = context.bundle.origin_of(field);
    Ok(context.budget.add_copies(&copied, containers as u64, || origin.to_string())?)
}
