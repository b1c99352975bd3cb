//! The Services in front of Deployments with webhooks.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::certificates::Names;
use super::crds::annotate;
use super::{Certificates, Context, Error};
use crate::csv::Webhook;

/// One for each Deployment that serves webhooks, in the order of the Deployments.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let mut ports: BTreeMap<&str, BTreeSet<Port>> = BTreeMap::new();
    for webhook in &context.bundle.csv.spec.webhooks {
        ports.entry(&webhook.deployment_name).or_default().insert(Port::of(webhook));
    }
    for (index, deployment) in context.bundle.csv.spec.install.spec.deployments.iter().enumerate() {
        let Some(ports) = ports.get(deployment.name.as_str()) else { continue };
        let names = Names::of(&deployment.name);
        let mut spec = json!({"ports": ports.iter().map(Port::to_json).collect::<Vec<_>>()});
        if let Some(labels) = &deployment.spec.selector.match_labels {
            spec["selector"] = json!(labels);
        }
        let mut service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": names.service, "namespace": context.namespace()},
            "spec": spec,
        });
        if context.options.certificates == Certificates::ServiceCa {
            annotate(&mut service, "service.beta.openshift.io/serving-cert-secret-name", &names.secret);
        }
        context.push(service, &format!("spec.install.spec.deployments[{index}]"))?;
    }
    Ok(())
}

/// A port of a Service; in the order they are listed in.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Port {
    number: i32,
    /// The target as the reference compares it: a name counts as 0.
    order: i32,
    target: Target,
}

/// What a port leads to.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Number(i32),
    Name(String),
}

impl Port {
    fn of(webhook: &Webhook) -> Self {
        let number = webhook.port();
        let (order, target) = match &webhook.target_port {
            None => (number, Target::Number(number)),
            Some(IntOrString::Int(target)) => (*target, Target::Number(*target)),
            Some(IntOrString::String(name)) => (name.parse().unwrap_or(0), Target::Name(name.clone())),
        };
        Self { number, order, target }
    }

    fn to_json(&self) -> Value {
        let target = match &self.target {
            Target::Number(number) => json!(number),
            Target::Name(name) => json!(name),
        };
        json!({"name": self.number.to_string(), "port": self.number, "targetPort": target})
    }
}
