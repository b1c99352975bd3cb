//! Before the first write of an upgrade: does the installed operator let itself be upgraded? Reads its OperatorCondition, as the API server
//! has it now. [`rukpak_plan::operator_condition`] decides.

use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::operator_condition::{API_VERSION, KIND, is_asked, is_operator_condition, problem, refusal};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::Class;
use rukpak_plan::{Identity, Plan};
use rukpak_runtime::error::Chain;

use super::apply::Bases;
use crate::cluster::Error;
use crate::deployment::observe::View;

/// Stops where an OperatorCondition of the installed release says no. Without the content of that release nothing tells of one.
pub(super) async fn ask(view: &View, plan: &Plan, why: Why, bases: &Bases) -> Result<(), Problem> {
    let Some(installed) = bases.installed.as_ref().filter(|_| is_asked(&view.observed, &plan.release, why)) else {
        return Ok(());
    };
    for step in installed.steps.values().filter(|step| is_operator_condition(&step.key)) {
        let said = read(view, &step.identity).await.map_err(|error| unknown(&step.identity, &error))?;
        if let Some(refusal) = said {
            return Err(problem(refusal));
        }
    }
    Ok(())
}

/// What the object says against an upgrade. One that is not there says nothing.
async fn read(view: &View, identity: &Identity) -> Result<Option<String>, Error> {
    let Some(kind) = view.reads.kinds.get(API_VERSION, KIND).await? else { return Ok(None) };
    let identity = Identity { kind, ..identity.clone() };
    let live = view.reads.reader.get(&identity).await?;
    Ok(live.and_then(|live| refusal(&live.body, live.metadata.generation)))
}

fn unknown(identity: &Identity, error: &Error) -> Problem {
    let message = format!("whether the operator is upgradeable cannot be read from {identity}: {}", Chain(error));
    Problem { stage: Stage::Ask, message, class: Class::Transient, is_definite: false, can_go_back: true }
}
