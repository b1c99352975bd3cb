//! The BundleDeployment of a package in a namespace: whose it is, what is written. I/O but for what is wanted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams, Preconditions};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource, ResourceExt};
use rukpak_crds::names::{self, IGNORE_DEPENDENCIES};
use rukpak_crds::olmv0::VERSIONS;
use rukpak_crds::olmv0::installation::{DEPLOYMENT_CONFIG, Installation};
use rukpak_crds::olmv0::subscription::{IMAGE_PULL_SECRETS, SubscriptionSpec};
use rukpak_crds::{BundleDeployment, config};
use rukpak_runtime::api::Error;
use serde_json::{Value, json};

use super::context::{Context, FIELD_MANAGER};
use super::membership::Group;
use super::neighbours;
use super::unit::Unit;
use crate::installed::Identity;
use crate::owned::{self, has_packages, ignored};

/// Fields of its spec that are all written here.
const WRITTEN: [&str; 6] =
    ["provisionerClassName", "template", "config", "deletionPolicy", "serviceAccount", "approval"];

/// What has the name of the BundleDeployment.
pub(super) enum Existing {
    Nothing,
    Ours(Arc<BundleDeployment>),
    /// It is on its way out.
    Leaving,
    /// Somebody else's. In words.
    Foreign(String),
}

/// Looks for the one of a unit; where the watch shows none, in the cluster.
pub(super) async fn find(unit: &Unit, context: &Context) -> Result<Existing, Error> {
    let name = unit.name();
    let seen = owned::find(&name, (&context.deployments, &*context.written), &context.client).await?;
    Ok(match seen {
        None => Existing::Nothing,
        Some(seen) if seen.meta().deletion_timestamp.is_some() => Existing::Leaving,
        Some(seen) if Unit::of(&seen).as_ref() == Some(unit) => Existing::Ours(seen),
        Some(_) => Existing::Foreign(format!(
            "BundleDeployment {name} exists and was not made for a Subscription; it is left alone. Delete the Subscription, or \
             what has that BundleDeployment: deleting the BundleDeployment itself would delete what it has installed"
        )),
    })
}

/// Makes the BundleDeployment install `bundle` as Subscription and OperatorGroup say. Writes nothing if it does already.
pub(super) async fn apply(
    unit: &Unit,
    (spec, group): (&SubscriptionSpec, &Group),
    (bundle, has_packages): (&Identity, bool),
    live: Option<&Arc<BundleDeployment>>,
    context: &Context,
) -> Result<Arc<BundleDeployment>, Error> {
    // Whoever said more on the BundleDeployment is not contradicted.
    let says_more = live.is_some_and(|live| ignored(live) == Some("true"));
    let roles = roles(spec, group, neighbours::have_roles(unit, context));
    let secrets = pull_secrets(unit, spec, live.map(|live| &**live), context);
    let body = desired(unit, (spec, group, roles, &secrets), (bundle, has_packages && !says_more));
    if let Some(live) = live.filter(|live| is_applied(&body, live)) {
        return Ok(live.clone());
    }
    let live = live.map(|live| &**live);
    let written = owned::apply(body, live, FIELD_MANAGER, (&context.client, &*context.written)).await?;
    let (namespace, package) = (&unit.namespace, &unit.package);
    tracing::info!(namespace, package, bundle = bundle.name, "BundleDeployment of a Subscription applied");
    Ok(Arc::new(written))
}

/// Approves the Plan with this digest.
pub(super) async fn approve(deployment: &BundleDeployment, digest: &str, context: &Context) -> Result<(), Error> {
    merge(deployment, json!({"spec": {"approvedPlan": digest}}), context).await
}

/// Notes the ClusterServiceVersions that were made for it.
pub(super) async fn note(
    deployment: &BundleDeployment,
    versions: &BTreeMap<String, String>,
    context: &Context,
) -> Result<(), Error> {
    merge(deployment, json!({"metadata": {"annotations": {VERSIONS: json!(versions).to_string()}}}), context).await
}

/// The ClusterServiceVersions that were noted: names and UIDs.
pub(super) fn noted(deployment: &BundleDeployment) -> BTreeMap<String, String> {
    let text = deployment.annotations().get(VERSIONS).map_or("", String::as_str);
    serde_json::from_str(text).unwrap_or_default()
}

/// Asks for a reconcile: what is missing is made again.
pub(super) async fn request(deployment: &BundleDeployment, now: Timestamp, context: &Context) -> Result<(), Error> {
    merge(deployment, json!({"metadata": {"annotations": {names::RECONCILE_REQUESTED_AT: now.to_string()}}}), context)
        .await
}

async fn merge(deployment: &BundleDeployment, mut patch: Value, context: &Context) -> Result<(), Error> {
    // Only the one that was seen.
    patch["metadata"]["resourceVersion"] = json!(deployment.resource_version());
    patch["metadata"]["uid"] = json!(deployment.uid());
    let api: Api<BundleDeployment> = Api::all(context.client.clone());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let written = api.patch(&deployment.name_any(), &params, &Patch::Merge(patch)).await.map_err(Error::from)?;
    context.written.record(&written);
    Ok(())
}

/// Deletes it with all that it has installed, but for CustomResourceDefinitions.
pub(super) async fn delete(deployment: &BundleDeployment, context: &Context) -> Result<(), Error> {
    let api: Api<BundleDeployment> = Api::all(context.client.clone());
    let preconditions = Preconditions { uid: deployment.uid(), resource_version: None };
    owned::delete(&api, &deployment.name_any(), preconditions).await?;
    // Until the watch shows its end, nothing follows from it, and whoever looks for one asks the API server.
    context.written.record_gone::<BundleDeployment>(&deployment.uid().unwrap_or_default());
    Ok(())
}

/// Names of the Secrets by which images of a CatalogSource of the same namespace are pulled: the operator's own may need them too. Nothing
/// is read or copied. Those of another namespace open what is theirs: nobody here gets them.
fn pull_secrets(
    unit: &Unit,
    spec: &SubscriptionSpec,
    live: Option<&BundleDeployment>,
    context: &Context,
) -> Vec<String> {
    if spec.source_namespace != unit.namespace {
        return Vec::new();
    }
    match context.sources.get(&ObjectRef::new(&spec.source).within(&unit.namespace)) {
        Some(source) => source.spec.secrets.iter().filter(|name| !name.contains('/')).cloned().collect(),
        // What runs outlives its catalog as it is.
        None => live.map(named_secrets).unwrap_or_default(),
    }
}

fn named_secrets(live: &BundleDeployment) -> Vec<String> {
    let config = live.spec.config.as_ref().and_then(|config| config.get(DEPLOYMENT_CONFIG));
    let named = config.and_then(|config| config.get(IMAGE_PULL_SECRETS)).and_then(Value::as_array);
    named.into_iter().flatten().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
}

/// What is written. Pure.
fn desired(
    unit: &Unit,
    (spec, group, roles, secrets): (&SubscriptionSpec, &Group, Option<Value>, &[String]),
    (bundle, has_packages): (&Identity, bool),
) -> Value {
    let asked = Installation {
        namespace: &unit.namespace,
        package: &unit.package,
        targets: &group.targets,
        account: group.account.as_deref(),
        config: spec.config.as_ref(),
        secrets,
        roles,
        is_manual: spec.is_manual(),
        bundle: bundle.annotations(),
        image: &bundle.reference,
        has_packages,
    };
    asked.body()
}

/// Whether who has `admin`, `edit` or `view` in a namespace may use the operator's APIs there: as in OLM, if nobody says otherwise. An
/// account need not hold what these roles grant, and nothing would be installed: with one they are made where somebody asks for them. Nor
/// are they made where the package has them in another namespace, under the same names: they count in all.
fn roles(spec: &SubscriptionSpec, group: &Group, are_elsewhere: bool) -> Option<Value> {
    // What is no boolean is refused with the bundle's other settings.
    let said = spec.config.as_ref().and_then(|own| own.get(config::API_ROLES)).filter(|said| !said.is_null());
    let by_default = || group.account.is_none().then_some(Value::Bool(!are_elsewhere));
    said.cloned().or_else(by_default)
}

/// Whether the BundleDeployment says all that is written, and nothing in its place.
fn is_applied(body: &Value, live: &BundleDeployment) -> bool {
    let Ok(spec) = serde_json::to_value(&live.spec) else { return false };
    let has = |(key, value): (&String, &Value)| live.annotations().get(key).map(String::as_str) == value.as_str();
    WRITTEN.iter().all(|field| body["spec"][field] == spec[field])
        && body["metadata"]["annotations"].as_object().is_some_and(|wanted| wanted.iter().all(has))
        && body["metadata"]["annotations"].get(IGNORE_DEPENDENCIES).is_some() == has_packages(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Unit {
        Unit { namespace: "team-a".to_owned(), package: "pump".to_owned() }
    }

    fn group(targets: &[&str], account: Option<&str>) -> Group {
        let targets = targets.iter().map(|target| (*target).to_owned()).collect();
        Group { name: "g".to_owned(), targets, account: account.map(str::to_owned) }
    }

    fn spec(more: &Value) -> SubscriptionSpec {
        let mut spec = json!({"name": "pump", "source": "c", "sourceNamespace": "olm"});
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        serde_json::from_value(spec).unwrap()
    }

    fn bundle() -> Identity {
        let [package, name, version, reference] = ["pump", "pump.v1", "1.0.0", "r.example/p:1"].map(str::to_owned);
        Identity { package, name, version, reference, release: None }
    }

    fn body(more: &Value, group: &Group) -> Value {
        let spec = spec(more);
        let roles = roles(&spec, group, false);
        desired(&unit(), (&spec, group, roles, &[]), (&bundle(), false))
    }

    #[test]
    fn targets_become_the_namespaces_that_are_watched() {
        let config = |targets: &[&str]| body(&json!({}), &group(targets, None))["spec"]["config"].clone();
        assert!(config(&[""]).get("watchNamespace").is_none() && config(&[""]).get("watchNamespaces").is_none());
        assert_eq!(config(&["team-a"])["watchNamespace"], "team-a");
        assert_eq!(config(&["a", "b"])["watchNamespaces"], json!(["a", "b"]));
        assert_eq!(config(&[""])["installNamespace"], "team-a");
        assert_eq!(config(&[""])["operatorCondition"], true);
        assert_eq!(config(&[""])["objectLabels"]["operators.coreos.com/pump.team-a"], "");
    }

    #[test]
    fn the_account_is_one_of_the_namespace_and_only_the_operator_group_names_it() {
        let bound = body(&json!({"config": {"serviceAccount": "x"}}), &group(&[""], Some("installer")));
        assert_eq!(bound["spec"]["serviceAccount"], json!({"name": "installer", "namespace": "team-a"}));
        assert!(bound["spec"]["config"].get("deploymentConfig").is_none(), "what is not known is left out");
        let live: BundleDeployment = serde_json::from_value(bound.clone()).unwrap();
        assert!(is_applied(&bound, &live));
        assert!(!is_applied(&body(&json!({}), &group(&[""], None)), &live), "it is bound no more");
    }

    #[test]
    fn roles_for_users_are_made_with_our_rights_unless_left_out_and_with_an_accounts_on_request() {
        let roles = |config: Value, account: Option<&str>| {
            body(&json!({"config": config}), &group(&[""], account))["spec"]["config"].get("apiRoles").cloned()
        };
        assert_eq!(roles(Value::Null, None), Some(json!(true)));
        assert_eq!(roles(json!({"apiRoles": false}), None), Some(json!(false)));
        assert_eq!(roles(json!({"apiRoles": "false"}), None), Some(json!("false")), "it is refused");
        assert_eq!(roles(json!({"apiRoles": null}), Some("installer")), None);
        assert_eq!(roles(json!({"apiRoles": true}), Some("installer")), Some(json!(true)));
        let elsewhere = |more: Value| super::roles(&spec(&more), &group(&[""], None), true);
        assert_eq!(elsewhere(json!({})), Some(json!(false)), "another namespace has them");
        assert_eq!(elsewhere(json!({"config": {"apiRoles": true}})), Some(json!(true)), "it is refused, with the name");
    }

    #[test]
    fn secrets_of_the_catalog_are_named_beside_those_of_the_subscription() {
        let (group, secrets) = (group(&[""], None), ["mine".to_owned(), "theirs".to_owned()]);
        let config = |own: Value, secrets: &[String]| {
            let spec = spec(&json!({"config": {"imagePullSecrets": own}}));
            desired(&unit(), (&spec, &group, None, secrets), (&bundle(), false))
        };
        let named = |body: &Value| body["spec"]["config"]["deploymentConfig"]["imagePullSecrets"].clone();
        let both = config(json!([{"name": "mine"}]), &secrets);
        assert_eq!(named(&both), json!([{"name": "mine"}, {"name": "theirs"}]));
        assert_eq!(named_secrets(&serde_json::from_value(both).unwrap()), secrets);
        assert_eq!(named(&config(Value::Null, &secrets)), json!([{"name": "mine"}, {"name": "theirs"}]));
        assert!(config(Value::Null, &[])["spec"]["config"].get("deploymentConfig").is_none());
        assert_eq!(named(&config(json!("mine"), &secrets)), json!("mine"), "it is refused");
    }

    #[test]
    fn manual_asks_always_and_everything_else_never() {
        let approval = |more: Value| body(&more, &group(&[""], None))["spec"]["approval"].clone();
        assert_eq!(approval(json!({"installPlanApproval": "Manual"})), "Always");
        assert_eq!(approval(json!({"installPlanApproval": "manual"})), "Automatic");
        assert_eq!(approval(json!({})), "Automatic");
    }

    #[test]
    fn what_is_written_is_recognised() {
        let config = json!({"config": {"env": [{"name": "A", "value": "b"}], "selector": {}}});
        let written = body(&config, &group(&["a", "b"], None));
        assert_eq!(written["spec"]["config"]["deploymentConfig"], json!({"env": [{"name": "A", "value": "b"}]}));
        let mut live: BundleDeployment = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(Unit::of(&live), Some(unit()));
        live.spec.approved_plan = Some("sha256:0".to_owned());
        live.annotations_mut().insert("other".to_owned(), "x".to_owned());
        assert!(is_applied(&written, &live), "what others say is theirs");
        assert!(!is_applied(&body(&json!({}), &group(&["a", "b"], None)), &live));
        let (config, group) = (spec(&config), group(&["a", "b"], None));
        let packages = desired(&unit(), (&config, &group, roles(&config, &group, false), &[]), (&bundle(), true));
        assert!(!is_applied(&packages, &live));
        live.metadata.name = Some("another".to_owned());
        assert_eq!(Unit::of(&live), None, "labels are copied");
    }
}
