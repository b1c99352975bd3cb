//! The BundleDeployment of a PlatformOperator: found, made, and whose it is. I/O.

use std::sync::Arc;

use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use rukpak_crds::condition::{Conditions, INSTALLED};
use rukpak_crds::config::API_ROLES;
use rukpak_crds::{
    BundleDeployment, BundleDeploymentSpec, BundleSource, BundleSpec, BundleTemplate, ConditionStatus, ImageSource,
    PlatformOperator, PlatformOperatorSpec, PlatformOperatorStatus, names,
};
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use serde_json::{Map, Value, json};

use super::source::{Chosen, Ignored};
use super::step::UpgradeState;
use super::{Error, Outcome, Pass, report, source};
use crate::outcome::class;
use crate::owned::{Existing, classify, controlled_by};

/// The field manager that OpenShift's manager writes with.
pub(super) const FIELD_MANAGER: &str = "platformoperator";

/// Looks at what the watch has shown.
pub(super) fn find(pass: &Pass) -> Option<Existing> {
    let deployment = pass.context.deployments.get(&ObjectRef::new(&pass.name))?;
    pass.context.unseen.remove(&pass.uid);
    Some(classify(&*pass.operator, deployment))
}

/// What of its spec the PlatformOperator says otherwise, as a merge patch; `None` if nothing. Pure.
fn changes(said: &PlatformOperatorSpec, live: &BundleDeploymentSpec) -> Option<Value> {
    let mut changes = Map::new();
    if let Some(approval) = said.approval.filter(|approval| live.approval != Some(*approval)) {
        changes.insert("approval".to_owned(), json!(approval));
    }
    if let Some(windows) = said.windows.as_ref().filter(|windows| **windows != live.windows) {
        changes.insert("windows".to_owned(), json!(windows));
    }
    if let Some(roles) = said.changed_api_roles(Some(live)) {
        changes.insert("config".to_owned(), Value::Object(roles_setting(roles)));
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

fn roles_setting(roles: bool) -> Map<String, Value> {
    [(API_ROLES.to_owned(), Value::Bool(roles))].into_iter().collect()
}

/// Has the BundleDeployment say what the PlatformOperator says. Returns whether it was changed, which wakes us again.
pub(super) async fn adjust(pass: &Pass, live: &BundleDeployment) -> Result<bool, Error> {
    let Some(spec) = changes(&pass.operator.spec, &live.spec) else { return Ok(false) };
    let api: Api<BundleDeployment> = Api::all(pass.context.client.clone());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    // Only the one that was seen, which is ours.
    let patch = json!({"metadata": {"resourceVersion": live.resource_version()}, "spec": spec});
    let set = api.patch(&pass.name, &params, &Patch::Merge(patch)).await;
    let set = set.map_err(api::Error::from).map_err(Error::Settings)?;
    pass.context.written.record(&set);
    // The definition of another release drops fields that it does not have: that must not hold up the rest.
    Ok(set.resource_version() != live.resource_version())
}

/// Notes what was chosen, then makes the BundleDeployment. `None` if the PlatformOperator is not what was seen any more.
pub(super) async fn create(pass: &mut Pass, chosen: Chosen) -> Result<Option<Outcome>, Error> {
    // The event of the BundleDeployment's deletion may come before that of its owner.
    let operators: Api<PlatformOperator> = Api::all(pass.context.client.clone());
    match operators.get_opt(&pass.name).await {
        Ok(Some(live)) if pass.is_about(&live) => {}
        Ok(_) => return Ok(None),
        Err(error) => return Ok(Some(not_created(&api::Error::from(error)))),
    }
    let api: Api<BundleDeployment> = Api::all(pass.context.client.clone());
    // What the watch has not shown yet must not be noted as something that it is not.
    match api.get_opt(&pass.name).await {
        Ok(None) => pass.context.unseen.remove(&pass.uid),
        Ok(Some(found)) => return Ok(Some(existing(pass, found))),
        Err(error) => return Ok(Some(not_created(&api::Error::from(error)))),
    }
    let Chosen { source: chosen, dependencies } = chosen;
    source::warn_of_tag(&pass.name, &chosen);
    let known = pass.status.source.clone();
    let image = chosen.image.clone();
    let mut status = noted(pass);
    status.source = Some(chosen);
    status.upgrade = None;
    pass.write(status).await?;

    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    // From here on it may be there, even if no answer comes.
    pass.context.unseen.add(&pass.uid);
    Ok(Some(match api.create(&params, &deployment(pass, image, dependencies)).await.map_err(api::Error::from) {
        Ok(made) => {
            pass.context.written.record(&made);
            Outcome::Deployed { deployment: Arc::new(made), upgrade: UpgradeState::taken() }
        }
        Err(error) if error.is_conflict() => {
            pass.status.source = known;
            match api.get_opt(&pass.name).await {
                Ok(Some(found)) => existing(pass, found),
                Ok(None) => refused(pass, &error),
                Err(error) => not_created(&api::Error::from(error)),
            }
        }
        Err(error) if error.is_transient() => not_created(&error),
        Err(error) => refused(pass, &error),
    }))
}

/// The status beside which a choice is noted. What was said of an earlier BundleDeployment, which is gone, is not true of the
/// one that is made now.
fn noted(pass: &Pass) -> PlatformOperatorStatus {
    if !pass.status.conditions.is(INSTALLED, ConditionStatus::True) {
        return pass.status.clone();
    }
    let message = format!("Waiting until the BundleDeployment {} is created", pass.name);
    report::report(pass, &Outcome::Waiting(message)).status
}

/// The name is taken: by what we made and the watch has not shown yet, or by somebody else.
fn existing(pass: &Pass, found: BundleDeployment) -> Outcome {
    pass.context.unseen.remove(&pass.uid);
    match classify(&*pass.operator, Arc::new(found)) {
        Existing::Ours(deployment) => {
            pass.context.unseen.add(&pass.uid);
            Outcome::Deployed { deployment, upgrade: UpgradeState::default() }
        }
        Existing::Leaving(message) => Outcome::Waiting(message),
        Existing::Foreign(message) => Outcome::Foreign(message),
    }
}

/// The API server has certainly not made it.
fn refused(pass: &Pass, error: &api::Error) -> Outcome {
    pass.context.unseen.remove(&pass.uid);
    not_created(error)
}

fn not_created(error: &api::Error) -> Outcome {
    Outcome::NotCreated { message: Chain(error).to_string(), class: class(error) }
}

/// As OpenShift's manager of the 4.12 line makes it, with roles for users as OLM v0 makes them.
fn deployment(pass: &Pass, image: String, dependencies: Ignored) -> BundleDeployment {
    let source = BundleSource {
        type_: "image".to_owned(),
        image: Some(ImageSource { reference: image, ..ImageSource::default() }),
        ..BundleSource::default()
    };
    let spec = BundleSpec { provisioner_class_name: names::CLASS_REGISTRY.to_owned(), source };
    let spec = BundleDeploymentSpec {
        provisioner_class_name: names::CLASS_PLAIN.to_owned(),
        template: BundleTemplate { metadata: None, spec },
        config: pass.operator.spec.changed_api_roles(None).map(roles_setting),
        approval: pass.operator.spec.approval,
        windows: pass.operator.spec.windows.clone().unwrap_or_default(),
        ..BundleDeploymentSpec::default()
    };
    let mut deployment = BundleDeployment::new(&pass.name, spec);
    if let Some(ignored) = dependencies {
        deployment.metadata.annotations = Some([(names::IGNORE_DEPENDENCIES.to_owned(), ignored.to_owned())].into());
    }
    deployment.metadata.owner_references = Some(controlled_by(&*pass.operator));
    deployment
}

/// The image that a BundleDeployment installs, if it is one.
pub(super) fn image(deployment: &BundleDeployment) -> Option<&str> {
    deployment.spec.template.spec.source.image.as_ref().map(|image| image.reference.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_platform_operator_says_is_changed() {
        let said = |mut spec: Value| -> PlatformOperatorSpec {
            spec["package"] = json!({"name": "p"});
            serde_json::from_value(spec).unwrap()
        };
        let live = |config: Value| -> BundleDeploymentSpec {
            let template =
                json!({"spec": {"provisionerClassName": names::CLASS_REGISTRY, "source": {"type": "image"}}});
            let spec =
                json!({"provisionerClassName": "c", "template": template, "approval": "Upgrades", "config": config});
            serde_json::from_value(spec).unwrap()
        };
        let own = live(json!({"apiRoles": false, "watchNamespace": "a"}));
        assert_eq!(changes(&said(json!({})), &own), None);
        assert_eq!(changes(&said(json!({"approval": "Upgrades", "apiRoles": false})), &own), None);
        assert_eq!(changes(&said(json!({"approval": "Always"})), &own), Some(json!({"approval": "Always"})));
        let roles = json!({"config": {"apiRoles": true}});
        assert_eq!(changes(&said(json!({"apiRoles": true})), &own), Some(roles.clone()), "the approval stays");
        assert_eq!(changes(&said(json!({})), &live(Value::Null)), Some(roles));
    }
}
