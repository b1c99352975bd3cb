//! Before the first write with the rights of a ServiceAccount: is there such an account, and may it do all that is to be done? So that
//! nothing is half applied, and everything that lacks is told at once. Asks the API server, writes nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, ResourceExt as _};
use rukpak_crd_upgrade::Migration;
use rukpak_crds::olm::cluster_object_set::LifecycleState;
use rukpak_crds::olm::{ClusterExtension, ClusterObjectSet, deployment_name, phase_deployment_name};
use rukpak_crds::{BundleDeployment, ConfigMapSource, PlatformOperator, ServiceAccountReference};
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::owner::controller;
use rukpak_plan::rights::{RBAC, Rights, needed, of_migration, of_object, rules, text};
use rukpak_plan::{Identity, Plan, Step};
use rukpak_runtime::error::Chain;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::members::Members;
use crate::cluster::{Account, Error};
use crate::deployment::observe::{Run, View};

/// Whether everything in `plan` can be installed and upgraded, and what leaves with it deleted or orphaned.
pub(super) async fn check(run: &Run, plan: &Plan, members: &Members) -> Result<(), Problem> {
    let Some(account) = run.objects.account() else { return unnamed(run).await };
    let steps = plan.steps.values().chain(plan.hooks.iter().map(|hook| &hook.step));
    let mut rights = needed_for(&run.view, steps);
    let leaving = members.objects.iter().filter(|(key, _)| !plan.steps.contains_key(key));
    rights.extend(leaving.flat_map(|(_, member)| ["delete", "patch"].map(|verb| of_object(&member.identity, verb))));
    held(&run.view, account, &rights).await
}

/// Whether these objects can be applied again.
pub(super) async fn check_some(run: &Run, steps: impl Iterator<Item = &Step>) -> Result<(), Problem> {
    let Some(account) = run.objects.account() else { return unnamed(run).await };
    held(&run.view, account, &needed_for(&run.view, steps)).await
}

/// Whether the stored objects of a CRD can be migrated. What the bundle takes does not include that.
pub(super) async fn check_migration(run: &Run, crd: &Identity, migration: &Migration) -> Result<(), Problem> {
    let Some(account) = run.objects.account() else { return Ok(()) };
    let who = &account.reference;
    let lacks = account.lacks(&of_migration(crd, migration)).await.map_err(|error| unknown(who, &error))?;
    if lacks.is_empty() {
        return Ok(());
    }
    let Migration { crd, from, to, .. } = migration;
    let message = format!(
        "{who} lacks rights to migrate the objects of {crd} that are stored as {} to {to}: {}; grant them until the upgrade is done \
         (rukpakctl rights bundledeployment/{} prints the roles); this BundleDeployment continues by itself",
        from.join(", "),
        text(&rules(&lacks)).join("; "),
        run.view.owner.name
    );
    Err(Problem::blocked(Stage::Rights, message))
}

/// Whether it may be installed with the controller's own rights. The webhook asks who wants that; here is what holds while its entry is
/// not there.
async fn unnamed(run: &Run) -> Result<(), Problem> {
    if !run.view.reads.settings.require_service_account {
        return Ok(());
    }
    match is_made_by_platform(run).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = "spec.serviceAccount is missing, and this controller runs with --require=service-account: name a \
                           ServiceAccount that the bundle is installed with; who may impersonate the controller's may name that";
            Err(Problem::blocked(Stage::Unnamed, message.to_owned()))
        }
        Err(error) => {
            let message = format!("it cannot be found out who owns this BundleDeployment: {}", Chain(&error));
            Err(Problem::unanswered(message))
        }
    }
}

/// Whether the BundleDeployment is that of a PlatformOperator, ClusterExtension or ClusterObjectSet. Anybody can write an owner
/// reference, so that the owner has to be there, and the name be the one that `rukpak-platform` gives: no other BundleDeployment can have
/// it.
async fn is_made_by_platform(run: &Run) -> Result<bool, Error> {
    let Some(owner) = controller(&run.view.observed.deployment.metadata) else { return Ok(false) };
    let client = &run.context.client;
    let (name, found) = match owner.kind.as_str() {
        "PlatformOperator" => (owner.name.clone(), uid_of::<PlatformOperator>(client, &owner.name).await?),
        "ClusterExtension" => (deployment_name(&owner.name), uid_of::<ClusterExtension>(client, &owner.name).await?),
        "ClusterObjectSet" => return is_of_phase(run, owner).await,
        _ => return Ok(false),
    };
    Ok(found.as_ref() == Some(&owner.uid) && name == run.view.owner.name)
}

/// Whether the BundleDeployment is that of a phase of the ClusterObjectSet.
async fn is_of_phase(run: &Run, owner: &OwnerReference) -> Result<bool, Error> {
    let sets: Api<ClusterObjectSet> = Api::all(run.context.client.clone());
    let found = if_served(sets.get_opt(&owner.name).await)?;
    let is_it = |set: &ClusterObjectSet| set.metadata.uid.as_ref() == Some(&owner.uid);
    Ok(found.filter(is_it).is_some_and(|set| is_phase_of(&set, &run.view.observed.deployment)))
}

/// Whether the BundleDeployment is one that `rukpak-platform` makes for the set. Its name may be free: the phases of an archived set are
/// gone, and those of one that is held up are not there yet. So it has to install what lies in Secrets, which are read for it alone. A set
/// that is left alone, such as one that shows a revision of a ClusterExtension, has none.
fn is_phase_of(set: &ClusterObjectSet, deployment: &BundleDeployment) -> bool {
    let (set_name, name) = (set.name_any(), deployment.name_any());
    let source = &deployment.spec.template.spec.source;
    let entries = source.config_maps.as_deref().unwrap_or_default();
    set.spec.lifecycle_state == LifecycleState::Active
        && !set.is_left_alone()
        && set.spec.phases.iter().any(|phase| phase_deployment_name(&set_name, &phase.name) == name)
        && source.type_ == "configMaps"
        && entries.iter().all(ConfigMapSource::is_secret)
}

/// Reads the UID of a cluster-scoped object. `None` too where its kind is not served.
async fn uid_of<K>(client: &Client, name: &str) -> Result<Option<String>, Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let objects: Api<K> = Api::all(client.clone());
    let found = if_served(objects.get_metadata_opt(name).await)?;
    Ok(found.and_then(|object| object.metadata.uid))
}

/// No object, where its kind is not served: that answer is none of the API's own, which an optional read takes for one.
fn if_served<T>(found: Result<Option<T>, kube::Error>) -> Result<Option<T>, Error> {
    match found {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        found => found.map_err(Error::from),
    }
}

fn needed_for<'a>(view: &View, steps: impl Iterator<Item = &'a Step>) -> Rights {
    // Of objects that are no roles and no bindings the body says nothing of rights.
    let body = |step: &Step| if step.key.group == RBAC { step.body() } else { Value::Null };
    let bodies: Vec<_> = steps.map(|step| (&step.identity, body(step))).collect();
    needed(bodies.iter().map(|(identity, body)| (*identity, body)), Some(&view.owner.name))
}

/// Whether there is the account, and has the rights. Nobody tells when one is made or bound to a role, so that it is looked at again
/// within a minute.
async fn held(view: &View, account: &Account, rights: &Rights) -> Result<(), Problem> {
    let who = &account.reference;
    if !account.exists().await.map_err(|error| unknown(who, &error))? {
        let message = format!("{who} does not exist; create it, or name another one in spec.serviceAccount");
        return Err(Problem::blocked(Stage::Account, message));
    }
    let lacks = account.lacks(rights).await.map_err(|error| unknown(who, &error))?;
    if lacks.is_empty() {
        return Ok(());
    }
    let name = &view.owner.name;
    tracing::debug!(deployment = %name, account = %who, rights = lacks.len(), "the ServiceAccount lacks rights");
    let message = format!(
        "{who} lacks rights: {}; grant them (rukpakctl rights bundledeployment/{name} prints the roles); this \
         BundleDeployment continues by itself",
        text(&rules(&lacks)).join("; ")
    );
    Err(Problem::blocked(Stage::Rights, message))
}

fn unknown(who: &ServiceAccountReference, error: &Error) -> Problem {
    Problem::unanswered(format!("it cannot be found out what {who} may do: {}", Chain(error)))
}

#[cfg(test)]
mod tests {
    use rukpak_crds::names::SHOWN_RELEASE;
    use serde_json::json;

    use super::*;

    fn deployment(name: &str, source: &Value) -> BundleDeployment {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
            "spec": {"provisionerClassName": "c", "template": {"spec": {"provisionerClassName": "c", "source": source}}},
        }))
        .unwrap()
    }

    #[test]
    fn a_phase_is_of_an_active_set_and_installs_what_lies_in_secrets() {
        let set = |state: &str| -> ClusterObjectSet {
            serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "s"},
                "spec": {"lifecycleState": state, "revision": 1, "collisionProtection": "Prevent", "phases": [{"name": "p", "objects": []}]},
            }))
            .unwrap()
        };
        let entries = |kinds: &[&str]| {
            let entries = kinds.iter().map(|kind| json!({"configMap": {"name": "n"}, "kind": kind}));
            json!({"type": "configMaps", "configMaps": entries.collect::<Vec<_>>()})
        };
        let phase = deployment("s.p", &entries(&["Secret", "Secret"]));
        assert!(is_phase_of(&set("Active"), &phase));
        assert!(!is_phase_of(&set("Archived"), &phase), "it has none");
        let mut controlled = set("Active");
        controlled.metadata.owner_references =
            Some(vec![OwnerReference { controller: Some(true), ..OwnerReference::default() }]);
        assert!(!is_phase_of(&controlled, &phase), "it shows what another installs");
        let mut left = set("Active");
        left.metadata.annotations = Some([(SHOWN_RELEASE.to_owned(), "e-1234567890".to_owned())].into());
        assert!(!is_phase_of(&left, &phase), "it was left behind by what it shows");
        assert!(!is_phase_of(&set("Active"), &deployment("s.q", &entries(&["Secret"]))), "no phase of the set");
        let image = json!({"type": "image", "image": {"ref": "registry.example.com/any:v1"}, "configMaps": [{"configMap": {"name": "n"}, "kind": "Secret"}]});
        for source in [entries(&["Secret", "ConfigMap"]), image] {
            assert!(!is_phase_of(&set("Active"), &deployment("s.p", &source)), "{source}");
        }
    }
}
