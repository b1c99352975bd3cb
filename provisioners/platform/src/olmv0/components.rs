//! Operators: what belongs to a package in a namespace, found by its label. I/O but for what is said.
//!
//! An Operator is owned by the BundleDeployment of the package, and goes with it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource, ResourceExt};
use rukpak_crds::condition::{Conditions as _, READY};
use rukpak_crds::olmv0::install_plan::InstallPlanCondition;
use rukpak_crds::olmv0::operator::{Component, Components, OperatorStatus};
use rukpak_crds::olmv0::{ClusterServiceVersion, InstallPlan, Operator, Subscription, component_label};
use rukpak_crds::{BundleDeployment, ConditionStatus, Inventory};
use rukpak_runtime::api::Error;
use rukpak_runtime::status::StatusWriter;
use serde_json::{Value, json};

use super::context::{Context, FIELD_MANAGER};
use super::told::Known;
use super::unit::Unit;
use crate::owned::going_with;

/// So many components are told at most.
const COMPONENTS_MAX: u16 = 500;
const RBAC: &str = "rbac.authorization.k8s.io";
/// Kinds beside Deployments that are listed where something of them was installed, as group, kind and plural. OLM also lists ConfigMaps and
/// Secrets, which are not read here.
const KINDS: [(&str, &str, &str); 9] = [
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "APIService", "apiservices"),
    ("", "Service", "services"),
    ("", "ServiceAccount", "serviceaccounts"),
    (RBAC, "Role", "roles"),
    (RBAC, "RoleBinding", "rolebindings"),
    (RBAC, "ClusterRole", "clusterroles"),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings"),
    ("operators.coreos.com", "OperatorCondition", "operatorconditions"),
];

/// What is looked at of an Operator.
type Live = PartialObjectMeta<Operator>;

/// Has the Operator of a BundleDeployment be there, and say what belongs to it; `own` is what is known of that without a question.
pub(super) async fn tell(
    deployment: &BundleDeployment,
    unit: &Unit,
    own: Vec<Component>,
    context: &Context,
) -> Result<(), Error> {
    let Some((live, is_new)) = make(deployment, unit, context).await? else { return Ok(()) };
    // The event of our last write to it is still to come, and wakes us again.
    if context.written.is_stale(&*live) {
        return Ok(());
    }

    let (name, label) = (live.name_any(), component_label(&unit.package, &unit.namespace));
    let inventory = deployment.status.as_ref().and_then(|status| status.inventory.as_ref());
    let conditions = deployment.status.as_ref().map(|status| &status.conditions);
    let installed = (
        deployment.uid(),
        inventory.and_then(|inventory| inventory.applied_digest.clone()),
        inventory.and_then(|inventory| inventory.objects),
        conditions.is_some_and(|all| all.is(READY, ConditionStatus::True)),
    );
    let known = context.told.get(&name);
    let listed = match (&known, inventory) {
        (Some(known), _) if known.installed == installed => known.listed.clone(),
        (_, Some(inventory)) => list(inventory, &label, context).await?,
        (_, None) => Vec::new(),
    };
    let version = deployment.resource_version();
    let deployments = match &known {
        Some(known) if known.version == version => known.deployments.clone(),
        _ => list_deployments(unit, &label, context).await?,
    };
    let status = status(&label, own, &[deployments.as_slice(), &listed].concat());

    // Whatever somebody else has written there is written over.
    let before = known.filter(|_| !is_new && context.written.is_last(&*live)).map(|known| known.status);
    let mut writer = StatusWriter::new(&context.client, &*live, before.as_ref());
    writer.write(&status, &context.written).await?;
    context.told.put(name, Known { installed, listed, version, deployments, status });
    Ok(())
}

/// Makes the Operator, or takes over one that is not owned by the BundleDeployment; returns it, and whether it was written. `None` where
/// there can be none: the cluster has no such kind, or the name is too long.
async fn make(
    deployment: &BundleDeployment,
    unit: &Unit,
    context: &Context,
) -> Result<Option<(Arc<Live>, bool)>, Error> {
    let name = format!("{}.{}", unit.package, unit.namespace);
    let uid = deployment.uid().unwrap_or_default();
    let live = context.operators.get(&ObjectRef::new(&name));
    let is_owned = |live: &Arc<Live>| live.owner_references().iter().any(|owner| owner.uid == uid);
    if let Some(live) = live.filter(is_owned) {
        return Ok(Some((live, false)));
    }

    let api: Api<Live> = Api::all(context.client.clone());
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match api.patch(&name, &params, &Patch::Apply(body(&name, deployment))).await.map_err(Error::from) {
        Ok(made) => {
            context.written.record(&made);
            Ok(Some((Arc::new(made), true)))
        }
        Err(error) if error.is_not_found() || error.is_invalid() => Ok(None),
        Err(error) => Err(error),
    }
}

fn body(name: &str, deployment: &BundleDeployment) -> Value {
    json!({
        "apiVersion": Operator::api_version(&()),
        "kind": Operator::kind(&()),
        "metadata": {
            "name": name,
            "ownerReferences": going_with(deployment),
        },
        "spec": {},
    })
}

/// Lists what has the label, of kinds of which something was installed.
async fn list(inventory: &Inventory, label: &str, context: &Context) -> Result<Vec<Component>, Error> {
    let params = ListParams::default().labels(label).limit(COMPONENTS_MAX.into());
    let mut components = Vec::new();
    for (group, kind, plural) in KINDS {
        let Some(known) = inventory.kinds.iter().find(|known| known.group == group && known.kind == kind) else {
            continue;
        };
        let gvk = GroupVersionKind::gvk(group, &known.version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
        let objects = match api.list_metadata(&params).await.map_err(Error::from) {
            Ok(listed) => listed.items,
            // The kind has gone, or the role is that of an older release.
            Err(error) if error.is_not_found() || error.code() == 403 => {
                tracing::debug!(kind, label, %error, "components are not listed");
                continue;
            }
            Err(error) => return Err(error),
        };

        let component = |object: PartialObjectMeta<DynamicObject>| Component {
            api_version: resource.api_version.clone(),
            kind: kind.to_owned(),
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name.unwrap_or_default(),
            conditions: Vec::new(),
        };
        let mut of_kind: Vec<Component> = objects.into_iter().map(component).collect();
        of_kind.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        components.extend(of_kind);
    }
    Ok(components)
}

/// Lists the Deployments with their conditions. How healthy they are the BundleDeployment tells, so that each of its changes is news of them.
async fn list_deployments(unit: &Unit, label: &str, context: &Context) -> Result<Vec<Component>, Error> {
    let api: Api<Deployment> = Api::namespaced(context.client.clone(), &unit.namespace);
    let listed = api.list(&ListParams::default().labels(label).limit(COMPONENTS_MAX.into())).await?;
    let mut components: Vec<Component> =
        listed.items.iter().map(|found| component(found, conditions_of_deployment(found))).collect();
    components.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(components)
}

/// What the status says. Pure.
fn status(label: &str, own: Vec<Component>, listed: &[Component]) -> OperatorStatus {
    let exists = LabelSelectorRequirement { key: label.to_owned(), operator: "Exists".to_owned(), values: None };
    let label_selector = LabelSelector { match_expressions: Some(vec![exists]), match_labels: None };
    let mut refs = own;
    refs.extend_from_slice(listed);
    refs.truncate(COMPONENTS_MAX.into());
    OperatorStatus { components: Some(Components { label_selector, refs }) }
}

/// The objects of OLM's kinds that follow from a Subscription, with it: of its InstallPlans the latest. Pure.
pub(super) fn own(
    subscription: Option<&Subscription>,
    versions: &[Arc<ClusterServiceVersion>],
    plans: &[Arc<InstallPlan>],
) -> Vec<Component> {
    let mut own: Vec<Component> = subscription.map(|one| component(one, conditions_of(one))).into_iter().collect();
    let mut versions: Vec<Component> = versions.iter().map(|one| component(&**one, phase_of(one))).collect();
    versions.sort_by(|one, other| one.name.cmp(&other.name));
    own.append(&mut versions);

    let latest = plans.iter().max_by_key(|plan| plan.spec.generation);
    own.extend(latest.map(|plan| {
        let conditions = plan.status.as_ref().map(|status| status.conditions.clone());
        component(&**plan, conditions.unwrap_or_default())
    }));
    own
}

fn component<K: Resource<DynamicType = ()>>(object: &K, conditions: Vec<InstallPlanCondition>) -> Component {
    Component {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        conditions,
    }
}

fn conditions_of(subscription: &Subscription) -> Vec<InstallPlanCondition> {
    let said = subscription.status.iter().flat_map(|status| &status.conditions);
    said.map(|said| InstallPlanCondition {
        type_: said.type_.clone(),
        status: said.status,
        reason: said.reason.clone(),
        message: said.message.clone(),
        last_update_time: said.last_heartbeat_time,
        last_transition_time: said.last_transition_time,
    })
    .collect()
}

fn conditions_of_deployment(deployment: &Deployment) -> Vec<InstallPlanCondition> {
    let said = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    said.map(|said| InstallPlanCondition {
        type_: said.type_.clone().unwrap_or_default(),
        status: match said.status.as_deref() {
            Some("True") => ConditionStatus::True,
            Some("False") => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        },
        reason: said.reason.clone().unwrap_or_default(),
        message: said.message.clone().unwrap_or_default(),
        last_update_time: said.last_update_time.as_ref().map(|time| time.0),
        last_transition_time: said.last_transition_time.as_ref().map(|time| time.0),
    })
    .collect()
}

/// The phase, as clients look for it: as a condition of that type.
fn phase_of(version: &ClusterServiceVersion) -> Vec<InstallPlanCondition> {
    let status = version.status.iter().filter(|status| !status.phase.is_empty());
    status
        .map(|status| InstallPlanCondition {
            type_: status.phase.clone(),
            status: ConditionStatus::True,
            reason: status.reason.clone(),
            message: status.message.clone(),
            last_update_time: status.last_update_time,
            last_transition_time: status.last_transition_time,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &str, name: &str) -> Component {
        Component { kind: kind.to_owned(), name: name.to_owned(), ..Component::default() }
    }

    #[test]
    fn what_olm_made_is_told_first_and_nothing_beyond_the_limit() {
        let object = |name: &str, more: Value| {
            let mut object = json!({"metadata": {"name": name, "namespace": "team-a"}, "spec": {}});
            if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
                object.extend(more.clone());
            }
            object
        };
        let spec = json!({"spec": {"name": "pump", "source": "c", "sourceNamespace": "olm"}});
        let subscription: Subscription = serde_json::from_value(object("pump", spec)).unwrap();
        let version = |name: &str, phase: &str| -> Arc<ClusterServiceVersion> {
            let more = json!({"spec": {"displayName": name}, "status": {"phase": phase, "reason": "Why"}});
            Arc::new(serde_json::from_value(object(name, more)).unwrap())
        };
        let plan = |name: &str, generation: i64| -> Arc<InstallPlan> {
            let spec = json!({"clusterServiceVersionNames": [], "approval": "Automatic", "approved": true, "generation": generation});
            Arc::new(serde_json::from_value(object(name, json!({"spec": spec}))).unwrap())
        };
        let versions = [version("pump.v2", "Pending"), version("pump.v1", "Replacing")];
        let plans = [plan("install-b", 2), plan("install-a", 1)];
        let own = own(Some(&subscription), &versions, &plans);
        let names: Vec<(&str, &str)> = own.iter().map(|one| (&*one.kind, &*one.name)).collect();
        let expected = [
            ("Subscription", "pump"),
            ("ClusterServiceVersion", "pump.v1"),
            ("ClusterServiceVersion", "pump.v2"),
            ("InstallPlan", "install-b"),
        ];
        assert_eq!(names, expected);
        assert!(own.iter().all(|one| one.api_version == "operators.coreos.com/v1alpha1" && one.namespace == "team-a"));
        let phase = &own[2].conditions[0];
        assert_eq!((&*phase.type_, phase.status, &*phase.reason), ("Pending", ConditionStatus::True, "Why"));

        let listed: Vec<Component> = (0..600).map(|number| named("Role", &format!("r{number}"))).collect();
        let told = status("operators.coreos.com/pump.team-a", own.clone(), &listed).components.unwrap();
        assert_eq!(told.refs.len(), 500);
        assert_eq!((&told.refs[..4], &told.refs[4]), (own.as_slice(), &listed[0]));
        let selector = json!({"matchExpressions": [{"key": "operators.coreos.com/pump.team-a", "operator": "Exists"}]});
        assert_eq!(serde_json::to_value(&told.label_selector).unwrap(), selector);
    }
}
