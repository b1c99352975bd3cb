//! The Services in front of Deployments with webhooks and aggregated APIs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rukpak_plain::Object;
use serde_json::{Value, json};

use super::certificates::{Names, annotate};
use super::{Certificates, Context, Error};
use crate::csv::{ApiReference, Deployment, Webhook};

/// One for each Deployment that serves webhooks or aggregated APIs, in the order of the Deployments. A Service that the bundle ships under
/// its name is where it begins: OLM applies the one over the other, on the server's side.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let bundle = context.bundle;
    let mut ports: BTreeMap<&str, BTreeSet<Port>> = BTreeMap::new();
    for webhook in &bundle.csv.spec.webhooks {
        ports.entry(&webhook.deployment_name).or_default().insert(Port::of_webhook(webhook));
    }
    for api in &bundle.csv.spec.api_services.owned {
        ports.entry(&api.deployment_name).or_default().insert(Port::of_api(api));
    }
    let mut shipped: HashMap<&str, Vec<&Object>> = HashMap::new();
    for object in
        bundle.others.iter().filter_map(|manifest| manifest.object.as_ref().ok()).filter(|object| is_service(object))
    {
        shipped.entry(object.name()).or_default().push(object);
    }

    for (index, deployment) in bundle.csv.spec.install.spec.deployments.iter().enumerate() {
        let Some(ports) = ports.get(deployment.name.as_str()) else { continue };
        let names = Names::of(&deployment.name);
        let shipped = shipped.get(names.service.as_str()).map(Vec::as_slice).unwrap_or_default();
        if shipped.is_empty() {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": names.service}});
            let service = lead_to_deployment(context, service, deployment, &names, ports);
            context.push(service, &format!("spec.install.spec.deployments[{index}]"))?;
        }
        // Of several, equal ones become one afterwards, and different ones are refused.
        for object in shipped {
            context.count(object)?;
            let service = lead_to_deployment(context, object.as_value(), deployment, &names, ports);
            context.push_from(service, object.origin().clone())?;
        }
    }
    Ok(())
}

/// Whether an object is a Service of Kubernetes: other APIs have a kind of that name.
pub(super) fn is_service(object: &Object) -> bool {
    (object.group(), object.kind()) == ("", "Service")
}

/// Sets what the API server needs of a Service; its labels, other annotations, other ports and other fields stay.
fn lead_to_deployment(
    context: &Context<'_>,
    mut service: Value,
    deployment: &Deployment,
    names: &Names,
    ports: &BTreeSet<Port>,
) -> Value {
    service["metadata"]["namespace"] = Value::from(context.namespace());
    let spec = &mut service["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    spec["ports"] = merge_ports(spec["ports"].take(), ports);
    if let Some(labels) = &deployment.spec.selector.match_labels {
        spec["selector"] = json!(labels);
    }
    if context.options.certificates == Certificates::ServiceCa {
        annotate(&mut service, "service.beta.openshift.io/serving-cert-secret-name", &names.secret);
    }
    service
}

/// Adds generated ports to those of a shipped Service, by number and protocol, as server-side apply does.
///
/// Ports without a name get one: the API server refuses them beside others.
fn merge_ports(shipped: Value, generated: &BTreeSet<Port>) -> Value {
    let Value::Array(mut ports) = shipped else { return generated.iter().map(Port::to_json).collect() };
    let mut places: HashMap<i64, usize> = HashMap::new();
    for (place, port) in ports.iter_mut().enumerate() {
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP").to_lowercase();
        let (Some(number), Some(port)) = (port.get("port").and_then(Value::as_i64), port.as_object_mut()) else {
            continue;
        };
        if port.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
            port.insert("name".to_owned(), Value::from(format!("{protocol}-{number}")));
        }
        if protocol == "tcp" {
            places.entry(number).or_insert(place);
        }
    }

    for port in generated {
        match places.get(&i64::from(port.number)) {
            Some(&place) => {
                ports[place]["name"] = Value::from(port.number.to_string());
                ports[place]["targetPort"] = port.target.to_json();
            }
            None => ports.push(port.to_json()),
        }
    }
    Value::Array(ports)
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
    fn of_api(api: &ApiReference) -> Self {
        let number = api.port();
        Self { number, order: number, target: Target::Number(number) }
    }

    fn of_webhook(webhook: &Webhook) -> Self {
        let number = webhook.port();
        let (order, target) = match &webhook.target_port {
            None => (number, Target::Number(number)),
            Some(IntOrString::Int(target)) => (*target, Target::Number(*target)),
            Some(IntOrString::String(name)) => (name.parse().unwrap_or(0), Target::Name(name.clone())),
        };
        Self { number, order, target }
    }

    fn to_json(&self) -> Value {
        json!({"name": self.number.to_string(), "port": self.number, "targetPort": self.target.to_json()})
    }
}

impl Target {
    fn to_json(&self) -> Value {
        match self {
            Self::Number(number) => json!(number),
            Self::Name(name) => json!(name),
        }
    }
}
