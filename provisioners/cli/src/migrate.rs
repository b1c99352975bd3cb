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

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_plan::owner::controller;
use serde::Serialize;
use serde_json::Value;

use crate::answer::{DEPLOYMENTS, structured};
use crate::args::{Holder, MigrateArgs, OutputForm};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{to_stderr, to_stdout};

/// A BundleDeployment that others write is read again this often.
const ATTEMPTS: usize = 8;

/// What is to be done.
struct Plan {
    deployment: BundleDeployment,
    /// What shall have it; nothing if it is to stand alone.
    made: Option<(ApiResource, DynamicObject)>,
    left: Option<(ApiResource, OwnerReference)>,
}

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
        Some((Holder::Subscription, name)) => return Box::pin(takeover::one(&cluster, arguments, name)).await,
        Some((Holder::Ours(_), _)) if arguments.takeover.back => {
            let text = "--back is for subscriptions: name what shall have it by --to";
            return Err(Failure::unknown(text).hint("rukpakctl migrate --help"));
        }
        Some((Holder::Ours(kind), name)) => (*kind, name),
    };
    let plan = plan::plan(&cluster, arguments, (from, name)).await?;
    if arguments.apply {
        return plan.carry_out(&cluster, arguments.output.form).await;
    }
    to_stderr("nothing is changed; with --apply:");
    plan.steps().iter().for_each(|step| to_stderr(&format!("  {step}")));
    Ok(plan.print(arguments.output.form))
}

/// `clusterextension.olm.operatorframework.io/pump`.
fn named(resource: &ApiResource, name: &str) -> String {
    format!("{}.{}/{name}", resource.kind.to_lowercase(), resource.group)
}

impl Plan {
    fn steps(&self) -> Vec<String> {
        let deployment = format!("{DEPLOYMENTS}/{}", self.deployment.name_any());
        let made = self.made.as_ref().map(|(resource, object)| named(resource, &object.name_any()));
        let left = self.left.as_ref().map(|(resource, owner)| named(resource, &owner.name));
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
        let Some((resource, object)) = &self.made else { return Exit::Yes };
        match form {
            OutputForm::Name => to_stdout(|out| writeln!(out, "{}", named(resource, &object.name_any())), Exit::Yes),
            OutputForm::Json => structured(form, object, Exit::Yes),
            // What kubectl apply takes.
            OutputForm::Text | OutputForm::Wide | OutputForm::Yaml => structured(OutputForm::Yaml, object, Exit::Yes),
        }
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
        if let Some((resource, object)) = &self.made {
            let created = cluster.create_unless_there(resource, object).await?;
            if !objects::asks_for_the_same(object, &created) {
                let name = named(resource, &object.name_any());
                return Err(Failure::no(format!("{name} already exists and asks for something else")));
            }
            done.push(Done { object: named(resource, &created.name_any()), action: "created" });
            owner = Some(reference(resource, &created));
        }
        cluster.hand_over(&self.deployment, owner).await?;
        let object = format!("{DEPLOYMENTS}/{}", self.deployment.name_any());
        done.push(Done { object, action: "handed over" });
        if let Some((resource, owner)) = &self.left {
            cluster.delete_owner(resource, owner).await?;
            done.push(Done { object: named(resource, &owner.name), action: "deleted" });
        }
        Ok(())
    }
}

fn print_done(form: OutputForm, done: &[Done]) -> Exit {
    match form {
        OutputForm::Text | OutputForm::Wide => to_stdout(
            |out| done.iter().try_for_each(|Done { object, action }| writeln!(out, "{object} {action}")),
            Exit::Yes,
        ),
        OutputForm::Name => {
            to_stdout(|out| done.iter().try_for_each(|step| writeln!(out, "{}", step.object)), Exit::Yes)
        }
        OutputForm::Json | OutputForm::Yaml => structured(form, &done, Exit::Yes),
    }
}

/// Has an object made, and hands a BundleDeployment over to it. Others may write its status meanwhile.
async fn hand(cluster: &Cluster, deployment: &str, owner: &Value, done: &mut Vec<Done>) -> Result<(), Failure> {
    let object: DynamicObject =
        serde_json::from_value(owner.clone()).map_err(|error| Failure::unknown(error.to_string()))?;
    let resource = match object.types.as_ref().map(|types| types.kind.as_str()) {
        Some("ClusterExtension") => ApiResource::erase::<ClusterExtension>(&()),
        _ => ApiResource::erase::<PlatformOperator>(&()),
    };
    change_hands(cluster, deployment, (Some((resource, object)), None), done).await
}

/// Takes a BundleDeployment from whoever has it, and deletes that.
async fn release(cluster: &Cluster, deployment: BundleDeployment, done: &mut Vec<Done>) -> Result<(), Failure> {
    let Some(owner) = controller(&deployment.metadata).cloned() else { return Ok(()) };
    let resource = match owner.kind.as_str() {
        "ClusterExtension" => ApiResource::erase::<ClusterExtension>(&()),
        "PlatformOperator" => ApiResource::erase::<PlatformOperator>(&()),
        kind => {
            let name = deployment.name_any();
            return Err(Failure::no(format!("bundledeployment {name:?} belongs to {kind} {:?}", owner.name)));
        }
    };
    change_hands(cluster, &deployment.name_any(), (None, Some((resource, owner))), done).await
}

type Made = Option<(ApiResource, DynamicObject)>;
type Given = Option<(ApiResource, OwnerReference)>;

/// Reads the BundleDeployment again as long as others are faster.
async fn change_hands(
    cluster: &Cluster,
    name: &str,
    (made, left): (Made, Given),
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

fn reference(resource: &ApiResource, object: &DynamicObject) -> OwnerReference {
    OwnerReference {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
