//! `rukpakctl plan`: the Plans of a cluster, and the answers to them.
//!
//! ```text
//! list    all of them            show     one: objects, rights, images and versions that change
//! approve yes                    reject   no
//! preview what a manifest would do, before there is a Plan
//! ```

mod preview;
mod show;

use std::collections::BTreeMap;
use std::io::{self, Write};

use kube::ResourceExt as _;
use rukpak_crds::{Plan, PlanApproval};

use crate::answer::print;
use crate::args::{ListPlansArgs, OutputForm, PlanArgs, PlanCommand, PlanVerb};
use crate::cluster::{self, Cluster};
use crate::colour::Palette;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table;

/// The resource of Plans, with its group.
const PLANS: &str = "plan.core.rukpak.io";

pub async fn run(verb: &PlanVerb) -> Result<Exit, Failure> {
    let Some(command) = &verb.command else { return Ok(preview::run(&verb.preview).await) };
    match command {
        PlanCommand::List(arguments) => list(arguments).await,
        PlanCommand::Show(arguments) => show(arguments).await,
        PlanCommand::Approve(arguments) => answer(arguments, PlanApproval::Approved).await,
        PlanCommand::Reject(arguments) => answer(arguments, PlanApproval::Rejected).await,
    }
}

async fn list(arguments: &ListPlansArgs) -> Result<Exit, Failure> {
    let mut plans: Vec<Plan> = Cluster::connect(&arguments.cluster).await?.list(None).await?;
    if let Some(name) = &arguments.deployment {
        plans.retain(|plan| plan.spec.deployment.name == *name);
    }
    // Those of a deployment together, the newest first.
    plans.sort_by_key(|plan| {
        (plan.spec.deployment.name.clone(), std::cmp::Reverse(plan.metadata.creation_timestamp.clone()))
    });
    for plan in &mut plans {
        plan.metadata.managed_fields = None;
    }
    let form = arguments.output.form;
    Ok(print(
        form,
        &BTreeMap::from([("plans", &plans)]),
        |out, palette, is_wide| text(out, palette, &plans, is_wide),
        |out| plans.iter().try_for_each(|plan| writeln!(out, "{PLANS}/{}", plan.name_any())),
        Exit::Yes,
    ))
}

fn text(out: &mut dyn Write, palette: Palette, plans: &[Plan], is_wide: bool) -> io::Result<()> {
    if plans.is_empty() {
        return writeln!(out, "No Plans are present in the cluster");
    }
    let wide: &[&str] = if is_wide { &["DIGEST", "MESSAGE"] } else { &[] };
    let heading = [&["NAME", "DEPLOYMENT", "PHASE", "SUMMARY"], wide].concat();
    let row = |plan: &Plan| {
        let status = plan.status.clone().unwrap_or_default();
        let mut row = vec![plan.name_any(), plan.spec.deployment.name.clone(), phase(plan), status.summary];
        if is_wide {
            row.extend([plan.spec.digest.clone(), status.message]);
        }
        row
    };
    table::write_in_colour(out, palette, &heading, &plans.iter().map(row).collect::<Vec<_>>())
}

pub(crate) fn phase(plan: &Plan) -> String {
    plan.status.as_ref().map(|status| format!("{:?}", status.phase)).unwrap_or_default()
}

async fn show(arguments: &PlanArgs) -> Result<Exit, Failure> {
    let plan = existing(&Cluster::connect(&arguments.cluster).await?, &arguments.name).await?;
    Ok(print_plan(arguments.output.form, plan, show::text))
}

fn print_plan(form: OutputForm, mut plan: Plan, text: impl FnOnce(&mut dyn Write, &Plan) -> io::Result<()>) -> Exit {
    plan.metadata.managed_fields = None;
    let names = |out: &mut dyn Write| writeln!(out, "{PLANS}/{}", plan.name_any());
    print(form, &plan, |out, _, _| text(out, &plan), names, Exit::Yes)
}

/// What `show` prints of a Plan.
pub(crate) fn shown(plan: &Plan) -> String {
    let mut out = Vec::new();
    // Memory takes everything.
    let _ = show::text(&mut out, plan);
    String::from_utf8_lossy(&out).into_owned()
}

/// Sets `spec.approval` of this very Plan. An answer to what is over would be none.
pub(crate) async fn give(cluster: &Cluster, plan: &Plan, approval: PlanApproval) -> Result<Plan, Failure> {
    if let Some(status) = plan.status.as_ref().filter(|status| status.phase.is_over()) {
        let why = if status.message.is_empty() { String::new() } else { format!(": {}", status.message) };
        let name = plan.name_any();
        return Err(Failure::no(format!("plan {name:?} is {:?} and takes no answer{why}", status.phase))
            .hint(format!("rukpakctl plan list {}", plan.spec.deployment.name)));
    }
    Ok(cluster.answer_plan(plan, approval).await?)
}

async fn answer(arguments: &PlanArgs, approval: PlanApproval) -> Result<Exit, Failure> {
    let (cluster, name) = (Cluster::connect(&arguments.cluster).await?, &arguments.name);
    let plan = existing(&cluster, name).await?;
    let written = give(&cluster, &plan, approval).await?;
    let what = match approval {
        PlanApproval::Approved => "approved",
        PlanApproval::Rejected => "rejected",
    };
    Ok(print_plan(arguments.output.form, written, |out, _| writeln!(out, "{PLANS}/{name} {what}")))
}

pub(crate) async fn existing(cluster: &Cluster, name: &str) -> Result<Plan, Failure> {
    cluster.get(name).await.map_err(|error| match error {
        cluster::Error::Refused(status) if status.code == 404 => {
            Failure::no(status.message).hint("rukpakctl plan list")
        }
        other => other.into(),
    })
}
