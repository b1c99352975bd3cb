//! `rukpakctl suspend` and `resume`: whether anything is written for a BundleDeployment.

use serde_json::{Value, json};

use crate::answer::changed;
use crate::args::DeploymentArgs;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;

/// Sets `spec.suspend`, or removes it.
pub async fn run(arguments: &DeploymentArgs, is_suspended: bool) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let existing = cluster.existing(&arguments.name).await?;
    let what = match (existing.spec.suspend, is_suspended) {
        (true, true) => "is suspended already",
        (false, true) => "suspended",
        (true, false) => "resumed",
        (false, false) => "is not suspended",
    };
    let suspend = if is_suspended { json!(true) } else { Value::Null };
    let written = cluster.merge(&arguments.name, &json!({"spec": {"suspend": suspend}})).await?;
    Ok(changed(arguments.output.form, &written, what, Exit::Yes))
}
