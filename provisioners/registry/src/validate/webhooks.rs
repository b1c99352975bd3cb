//! Rules on the webhooks of the CSV.

use std::collections::{BTreeMap, HashSet};

use super::dns::subdomain_problems;
use super::{Finding, Findings, Rule};
use crate::Bundle;
use crate::csv::{Webhook, WebhookKind};
use crate::install_mode::ALL;

/// Groups that a webhook may not rule over.
const FORBIDDEN_GROUPS: [&str; 2] = ["olm.operatorframework.io", "*"];
const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";
const FORBIDDEN_RESOURCES: [&str; 5] = [
    "*",
    "mutatingwebhookconfiguration",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfiguration",
    "validatingwebhookconfigurations",
];

/// The webhooks with their positions.
fn all(bundle: &Bundle) -> impl Iterator<Item = (usize, &Webhook)> {
    bundle.csv.spec.webhooks.iter().enumerate()
}

fn conversions(bundle: &Bundle) -> Vec<(usize, &Webhook)> {
    let is_conversion = |(_, webhook): &(usize, &Webhook)| webhook.webhook_kind() == Some(WebhookKind::Conversion);
    let mut webhooks: Vec<_> = all(bundle).filter(is_conversion).collect();
    webhooks.sort_by_key(|(_, webhook)| &webhook.generate_name);
    webhooks
}

fn finding(bundle: &Bundle, rule: Rule, index: usize, field: &str, message: String) -> Finding {
    Finding::of_csv(bundle, rule, format!("spec.webhookdefinitions[{index}].{field}"), message)
}

pub(super) fn conversion_install_mode(bundle: &Bundle, findings: &mut Findings) {
    let modes = bundle.csv.supported_modes();
    if modes == [ALL] {
        return;
    }
    findings.extend(conversions(bundle).into_iter().map(|(index, webhook)| {
        let message = format!(
            "bundle contains conversion webhook \"{}\" and supports install modes [{}] - conversion webhooks are only \
             supported for bundles that only support AllNamespaces install mode",
            webhook.generate_name,
            modes.join(" ")
        );
        finding(bundle, Rule::ConversionInstallMode, index, "type", message)
    }));
}

pub(super) fn deployments(bundle: &Bundle, findings: &mut Findings) {
    let known: HashSet<&str> =
        bundle.csv.spec.install.spec.deployments.iter().map(|deployment| deployment.name.as_str()).collect();
    let mut lost: Vec<_> =
        all(bundle).filter(|(_, webhook)| !known.contains(webhook.deployment_name.as_str())).collect();
    lost.sort_by_key(|(_, webhook)| (&webhook.deployment_name, &webhook.kind, &webhook.generate_name));
    findings.extend(lost.into_iter().map(|(index, webhook)| {
        let message = format!(
            "webhook of type '{}' with name '{}' references non-existent deployment '{}'",
            webhook.kind, webhook.generate_name, webhook.deployment_name
        );
        finding(bundle, Rule::WebhookDeployment, index, "deploymentName", message)
    }));
}

pub(super) fn unique(bundle: &Bundle, findings: &mut Findings) {
    let mut seen = HashSet::new();
    let mut repeated = BTreeMap::new();
    for (index, webhook) in all(bundle) {
        let key = (webhook.kind.as_str(), webhook.generate_name.as_str());
        if !seen.insert(key) {
            repeated.entry(key).or_insert(index);
        }
    }
    findings.extend(repeated.into_iter().map(|((kind, name), index)| {
        let message = format!("duplicate webhook '{name}' of type '{kind}'");
        finding(bundle, Rule::WebhookUnique, index, "generateName", message)
    }));
}

pub(super) fn names(bundle: &Bundle, findings: &mut Findings) {
    let mut wrong = BTreeMap::new();
    for (index, webhook) in all(bundle) {
        let problems = subdomain_problems(&webhook.generate_name);
        if !problems.is_empty() {
            wrong.entry((&webhook.kind, &webhook.generate_name)).or_insert((index, problems));
        }
    }
    findings.extend(wrong.into_iter().map(|((kind, name), (index, problems))| {
        let message = format!("webhook of type '{kind}' has invalid name '{name}': {}", problems.join(","));
        finding(bundle, Rule::WebhookName, index, "generateName", message)
    }));
}

pub(super) fn conversion_unique(bundle: &Bundle, findings: &mut Findings) {
    let mut by_crd: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (index, webhook) in conversions(bundle) {
        for crd in &webhook.conversion_crds {
            by_crd.entry(crd).or_default().push((index, &webhook.generate_name));
        }
    }
    for (crd, webhooks) in by_crd {
        let [_, .., (index, _)] = webhooks[..] else { continue };
        let names: Vec<_> = webhooks.iter().map(|(_, name)| *name).collect();
        let message =
            format!("conversion webhooks [{}] reference same custom resource definition '{crd}'", names.join(","));
        findings.extend([finding(bundle, Rule::ConversionUnique, index, "conversionCRDs", message)]);
    }
}

pub(super) fn conversion_owned(bundle: &Bundle, findings: &mut Findings) {
    let owned: HashSet<&str> = bundle.csv.spec.crds.owned.iter().map(|crd| crd.name.as_str()).collect();
    for (index, webhook) in conversions(bundle) {
        let mut crds: Vec<_> = webhook.conversion_crds.iter().filter(|crd| !owned.contains(crd.as_str())).collect();
        crds.sort_unstable();
        findings.extend(crds.into_iter().map(|crd| {
            let message = format!(
                "conversion webhook '{}' references custom resource definition '{crd}' not owned bundle",
                webhook.generate_name
            );
            finding(bundle, Rule::ConversionOwned, index, "conversionCRDs", message)
        }));
    }
}

pub(super) fn rules(bundle: &Bundle, findings: &mut Findings) {
    for (index, webhook) in all(bundle) {
        if webhook.webhook_kind() == Some(WebhookKind::Conversion) {
            continue;
        }
        for (rule_index, rule) in webhook.rules.iter().enumerate() {
            let resources = rule.resources.as_deref().unwrap_or_default();
            for group in rule.api_groups.as_deref().unwrap_or_default() {
                let what = forbidden(group, resources);
                findings.extend(what.into_iter().map(|what| {
                    let name = &webhook.generate_name;
                    let message = format!(
                        "webhook \"{name}\" contains forbidden rule: admission webhook rules cannot reference {what}"
                    );
                    finding(bundle, Rule::WebhookRules, index, &format!("rules[{rule_index}]"), message)
                }));
            }
        }
    }
}

fn forbidden(group: &str, resources: &[String]) -> Vec<String> {
    if FORBIDDEN_GROUPS.contains(&group) {
        return vec![format!("API group \"{group}\"")];
    }
    if group != ADMISSION_GROUP {
        return Vec::new();
    }
    let is_forbidden = |resource: &&String| FORBIDDEN_RESOURCES.contains(&resource.to_lowercase().as_str());
    let forbidden = resources.iter().filter(is_forbidden);
    forbidden.map(|resource| format!("resource \"{resource}\" for API group \"{group}\"")).collect()
}

pub(super) fn types(bundle: &Bundle, findings: &mut Findings) {
    findings.extend(all(bundle).filter(|(_, webhook)| webhook.webhook_kind().is_none()).map(|(index, webhook)| {
        let message = format!(
            "webhook '{}' has unknown type '{}': use ValidatingAdmissionWebhook, MutatingAdmissionWebhook or ConversionWebhook",
            webhook.generate_name, webhook.kind
        );
        finding(bundle, Rule::WebhookType, index, "type", message)
    }));
}
