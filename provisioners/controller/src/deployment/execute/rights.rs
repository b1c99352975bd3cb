//! Before the first write with the rights of a ServiceAccount: is there such an account, and may it do all that is to be done? So that
//! nothing is half applied, and everything that lacks is told at once. Asks the API server, writes nothing.

use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::retry::Class;
use rukpak_plan::{Plan, Step};
use rukpak_rights::{RBAC, Rights, needed, of_object, rules, text};
use rukpak_runtime::error::Chain;
use serde_json::Value;

use super::members::Members;
use crate::cluster::Account;
use crate::deployment::observe::Run;

/// Whether everything in `plan` can be installed and upgraded, and what leaves with it deleted or orphaned.
pub(super) async fn check(run: &Run, plan: &Plan, members: &Members) -> Result<(), Problem> {
    let Some(account) = run.objects.account() else { return Ok(()) };
    let mut rights = needed_for(run, plan.steps.values());
    let leaving = members.objects.iter().filter(|(key, _)| !plan.steps.contains_key(key));
    rights.extend(leaving.flat_map(|(_, member)| ["delete", "patch"].map(|verb| of_object(&member.identity, verb))));
    held(run, account, &rights).await
}

/// Whether these objects can be applied again.
pub(super) async fn check_some(run: &Run, steps: impl Iterator<Item = &Step>) -> Result<(), Problem> {
    let Some(account) = run.objects.account() else { return Ok(()) };
    held(run, account, &needed_for(run, steps)).await
}

fn needed_for<'a>(run: &Run, steps: impl Iterator<Item = &'a Step>) -> Rights {
    // Of objects that are no roles and no bindings the body says nothing of rights.
    let body = |step: &Step| if step.key.group == RBAC { step.body() } else { Value::Null };
    let bodies: Vec<_> = steps.map(|step| (&step.identity, body(step))).collect();
    needed(bodies.iter().map(|(identity, body)| (*identity, body)), Some(&run.owner.name))
}

async fn held(run: &Run, account: &Account, rights: &Rights) -> Result<(), Problem> {
    let who = &account.reference;
    // Nobody tells when an account is made or bound to a role, so that it is looked at again within a minute.
    let refused =
        |stage, message| Problem { stage, message, class: Class::Blocked, is_definite: false, can_go_back: true };
    let unknown = |error: crate::cluster::Error| Problem {
        stage: Stage::Ask,
        message: format!("it cannot be found out what {who} may do: {}", Chain(&error)),
        class: Class::Transient,
        is_definite: false,
        can_go_back: true,
    };
    if !account.exists().await.map_err(unknown)? {
        let message = format!("{who} does not exist; create it, or name another one in spec.serviceAccount");
        return Err(refused(Stage::Account, message));
    }
    let lacks = account.lacks(rights).await.map_err(unknown)?;
    if lacks.is_empty() {
        return Ok(());
    }
    let name = &run.owner.name;
    tracing::debug!(deployment = %name, account = %who, rights = lacks.len(), "the ServiceAccount lacks rights");
    let message = format!(
        "{who} lacks rights: {}; grant them (rukpakctl rights bundledeployment/{name} prints the roles); this \
         BundleDeployment continues by itself",
        text(&rules(&lacks)).join("; ")
    );
    Err(refused(Stage::Rights, message))
}
