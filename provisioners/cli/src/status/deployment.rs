//! `rukpakctl status <BundleDeployment>`: what its status says, in tables; above all what a deletion waits for.

use std::io::{self, Write};

use kube::ResourceExt as _;
use rukpak_crds::condition::Condition;
use rukpak_crds::{BundleDeployment, ConditionStatus, Conditions as _, condition};

use crate::answer::{self, DEPLOYMENTS};
use crate::args::OutputForm;
use crate::colour::Palette;
use crate::exit::Exit;
use crate::table::{self, count, one_line};
use crate::wait::is_seen;

/// Prints how the BundleDeployment is. Yes if it is ready.
pub(super) fn print(form: OutputForm, deployment: &BundleDeployment) -> Exit {
    let exit = if is_ready(deployment) { Exit::Yes } else { Exit::No };
    answer::print(
        form,
        &deployment.status,
        |out, palette, _| text(out, palette, deployment),
        |out| writeln!(out, "{DEPLOYMENTS}/{}", deployment.name_any()),
        exit,
    )
}

pub(super) fn is_ready(deployment: &BundleDeployment) -> bool {
    let status = deployment.status.as_ref();
    let is_ready = status.is_some_and(|status| {
        status.conditions.is(condition::READY, ConditionStatus::True)
            && status.observed_generation == deployment.metadata.generation
    });
    is_ready && deployment.metadata.deletion_timestamp.is_none()
}

fn text(out: &mut dyn Write, palette: Palette, deployment: &BundleDeployment) -> io::Result<()> {
    let status = deployment.status.clone().unwrap_or_default();
    let objects = status.inventory.as_ref().and_then(|inventory| inventory.objects);
    let objects = objects.and_then(|objects| usize::try_from(objects).ok()).unwrap_or_default();
    let bundle = status.active_bundle.as_deref().unwrap_or("no Bundle");
    writeln!(out, "{}: {}, {}", deployment.name_any(), one_line(bundle), count(objects, "object"))?;
    if !is_seen(&status, deployment.metadata.generation) {
        writeln!(out, "the controller has not seen the last change yet")?;
    }
    if deployment.metadata.deletion_timestamp.is_some() {
        writeln!(out, "it is being deleted")?;
    }
    let rows: Vec<Vec<String>> = status.conditions.iter().map(|found| row(found, &status.conditions)).collect();
    if rows.is_empty() {
        return writeln!(
            out,
            "no conditions yet: does a controller serve class {:?}?",
            deployment.spec.provisioner_class_name
        );
    }
    table::write(out, &["CONDITION", "STATUS", "REASON", "MESSAGE"], &rows)?;
    if status.history.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<String>> = status
        .history
        .iter()
        .map(|revision| {
            vec![
                revision.revision.to_string(),
                format!("{:?}", revision.result),
                revision.time.to_string(),
                revision.bundle.clone().unwrap_or_default(),
                revision.message.clone(),
            ]
        })
        .collect();
    writeln!(out)?;
    table::write_in_colour(out, palette, &["REVISION", "RESULT", "SINCE", "BUNDLE", "MESSAGE"], &rows)
}

/// A message that an earlier condition has, too, is not repeated.
fn row(condition: &Condition, all: &[Condition]) -> Vec<String> {
    let same = all.iter().find(|other| other.message == condition.message && !condition.message.is_empty());
    let message = match same {
        Some(other) if other.type_ != condition.type_ => format!("see {}", other.type_),
        _ => condition.message.clone(),
    };
    vec![condition.type_.clone(), format!("{:?}", condition.status), condition.reason.clone(), message]
}

#[cfg(test)]
mod tests;
