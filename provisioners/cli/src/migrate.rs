//! `rukpakctl migrate`: from one kind of object that installs a package to another, without touching what is installed.
//!
//! ```text
//! plan      who has the BundleDeployment, and who shall    reads the cluster; for a ClusterExtension, its catalogs
//! objects   the object that is made                        pure
//! takeover  a Subscription of OLM v0, for which there is no BundleDeployment yet
//! ```
//!
//! The BundleDeployment stays, with all of its objects: it changes hands in one write, between the creation of the one and the deletion of
//! the other.

mod objects;
mod plan;
mod takeover;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_plan::owner::controller;
use rukpak_plan::{Identity, Kind};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{DEPLOYMENTS, name_of, object_name, print, structured};
use crate::args::{self, MigrateArgs, OutputForm};
use crate::cluster::{Cluster, Dependents};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{to_stderr, to_stdout};

/// A BundleDeployment that others write is read again this often.
const ATTEMPTS: usize = 8;
/// The kinds that may have a BundleDeployment.
const EXTENSION: &str = "ClusterExtension";
const OPERATOR: &str = "PlatformOperator";

/// What is to be done.
struct Plan {
    deployment: BundleDeployment,
    /// What shall have it; nothing if it is to stand alone.
    made: Option<Made>,
    /// What has it now.
    left: Option<OwnerReference>,
}

/// How an object that is made is named, and the object.
type Made = (Identity, Value);

/// A step that is done, as `--output json` prints it.
#[derive(Serialize)]
struct Done {
    /// `clusterextension.olm.operatorframework.io/pump`.
    object: String,
    action: &'static str,
}

/// Prints what would be done, or does it.
pub async fn run(arguments: &MigrateArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let (from, name) = match &arguments.object {
        None => return Box::pin(takeover::all(&cluster, arguments)).await,
        Some((args::Kind::Subscription, name)) => return Box::pin(takeover::one(&cluster, arguments, name)).await,
        Some(_) if arguments.takeover.back => {
            let text = "--back is for subscriptions: name what shall have it by --to";
            return Err(Failure::unknown(text).hint("rukpakctl migrate --help"));
        }
        Some((kind, name)) => (*kind, name),
    };
    let plan = plan::plan(&cluster, arguments, (from, name)).await?;
    if arguments.apply {
        return plan.carry_out(&cluster, arguments.output.form).await;
    }
    say_steps(&plan.steps());
    Ok(plan.print(arguments.output.form))
}

/// Says what `--apply` would do.
fn say_steps(steps: &[String]) {
    to_stderr("nothing is changed; with --apply:");
    for step in steps {
        to_stderr(&format!("  {step}"));
    }
}

/// Names an object that may have a BundleDeployment.
fn holder(kind: &str, name: &str) -> Identity {
    let resource = match kind {
        EXTENSION => ApiResource::erase::<ClusterExtension>(&()),
        _ => ApiResource::erase::<PlatformOperator>(&()),
    };
    let kind = Kind { resource: Arc::new(resource), namespaced: false };
    Identity { kind, namespace: None, name: name.to_owned() }
}

/// Names an object that is to have a BundleDeployment, and keeps the object with the name.
fn made(object: Value) -> Made {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    (holder(text("/kind"), text("/metadata/name")), object)
}

/// `clusterextension.olm.operatorframework.io/pump`.
fn named(identity: &Identity) -> String {
    object_name(&identity.kind.resource.group, &identity.kind.resource.kind, &identity.name)
}

impl Plan {
    fn steps(&self) -> Vec<String> {
        let deployment = format!("{DEPLOYMENTS}/{}", self.deployment.name_any());
        let made = self.made.as_ref().map(|(identity, _)| named(identity));
        let left = self.left.as_ref().map(|owner| named(&holder(&owner.kind, &owner.name)));
        let create = made.as_ref().map(|made| format!("create {made}"));
        let hand = match &made {
            Some(made) => {
                format!("hand {deployment} over to it: {made} is its owner from then on, its objects stay as they are")
            }
            None => format!("take {deployment} from its owner: its objects stay as they are"),
        };
        let delete = left.map(|left| format!("delete {left}, which has nothing to take along any more"));
        create.into_iter().chain([hand]).chain(delete).collect()
    }

    fn print(&self, form: OutputForm) -> Exit {
        let Some((_, object)) = &self.made else { return Exit::Yes };
        print_objects(form, std::slice::from_ref(object), object, Exit::Yes)
    }

    async fn carry_out(&self, cluster: &Cluster, form: OutputForm) -> Result<Exit, Failure> {
        let mut done = Vec::new();
        let outcome = self.change(cluster, &mut done).await;
        let exit = print_done(form, &done);
        let left = || self.steps().split_off(done.len()).join("; ");
        outcome.map(|()| exit).map_err(|failure| failure.hint(format!("still to do: {}", left())))
    }

    async fn change(&self, cluster: &Cluster, done: &mut Vec<Done>) -> Result<(), Failure> {
        let mut owner = None;
        if let Some((identity, object)) = &self.made {
            let created = cluster.create_any(identity, object).await?;
            if !objects::says_all(&object["spec"], &created.data["spec"]) {
                let text = format!("{} already exists and asks for something else", named(identity));
                return Err(Failure::no(text));
            }
            done.push(Done { object: named(identity), action: "created" });
            owner = Some(reference(identity, &created));
        }
        cluster.hand_over(&self.deployment, owner).await?;
        let object = format!("{DEPLOYMENTS}/{}", self.deployment.name_any());
        done.push(Done { object, action: "handed over" });
        if let Some(owner) = &self.left {
            remove(cluster, &holder(&owner.kind, &owner.name), &owner.uid, done).await?;
        }
        Ok(())
    }
}

/// Prints the objects that would be made: `whole` is all of them, as kubectl apply takes it.
fn print_objects(form: OutputForm, objects: &[Value], whole: &Value, exit: Exit) -> Exit {
    match form {
        OutputForm::Name => {
            to_stdout(|out| objects.iter().try_for_each(|object| writeln!(out, "{}", name_of(object))), exit)
        }
        OutputForm::Json => structured(form, whole, exit),
        OutputForm::Text | OutputForm::Wide | OutputForm::Yaml => structured(OutputForm::Yaml, whole, exit),
    }
}

fn print_done(form: OutputForm, done: &[Done]) -> Exit {
    print(
        form,
        &done,
        |out, _, _| done.iter().try_for_each(|step| writeln!(out, "{} {}", step.object, step.action)),
        |out| done.iter().try_for_each(|step| writeln!(out, "{}", step.object)),
        Exit::Yes,
    )
}

/// Deletes the object of this UID, and notes it if it was there.
async fn remove(cluster: &Cluster, identity: &Identity, uid: &str, done: &mut Vec<Done>) -> Result<(), Failure> {
    if cluster.delete_any(identity, uid, Dependents::Go).await? {
        done.push(Done { object: named(identity), action: "deleted" });
    }
    Ok(())
}

/// Has an object made, and hands a BundleDeployment over to it. Others may write its status meanwhile.
async fn hand(cluster: &Cluster, deployment: &str, owner: &Value, done: &mut Vec<Done>) -> Result<(), Failure> {
    change_hands(cluster, deployment, (Some(made(owner.clone())), None), done).await
}

/// Takes a BundleDeployment from whoever has it, and deletes that.
async fn release(cluster: &Cluster, deployment: BundleDeployment, done: &mut Vec<Done>) -> Result<(), Failure> {
    let Some(owner) = controller(&deployment.metadata).cloned() else { return Ok(()) };
    let name = deployment.name_any();
    if ![EXTENSION, OPERATOR].contains(&owner.kind.as_str()) {
        return Err(Failure::no(format!("bundledeployment {name:?} belongs to {} {:?}", owner.kind, owner.name)));
    }
    change_hands(cluster, &name, (None, Some(owner)), done).await
}

/// Reads the BundleDeployment again as long as others are faster.
async fn change_hands(
    cluster: &Cluster,
    name: &str,
    (made, left): (Option<Made>, Option<OwnerReference>),
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let mut attempts = ATTEMPTS;
    loop {
        let deployment = cluster.existing(name).await?;
        let plan = Plan { deployment, made: made.clone(), left: left.clone() };
        let mut steps = Vec::new();
        attempts -= 1;
        match plan.change(cluster, &mut steps).await {
            Err(failure) if attempts > 0 && failure.exit == Exit::No && is_stale(cluster, &plan).await? => {}
            changed => {
                done.extend(steps);
                return changed;
            }
        }
    }
}

/// Whether the BundleDeployment was written since it was read.
async fn is_stale(cluster: &Cluster, plan: &Plan) -> Result<bool, Failure> {
    let now = cluster.existing(&plan.deployment.name_any()).await?;
    Ok(now.metadata.resource_version != plan.deployment.metadata.resource_version)
}

fn reference(identity: &Identity, object: &DynamicObject) -> OwnerReference {
    OwnerReference {
        api_version: identity.kind.resource.api_version.clone(),
        kind: identity.kind.resource.kind.clone(),
        name: identity.name.clone(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
