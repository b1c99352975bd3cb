//! `rukpakctl plan WHAT`: what installing something would do, before anything is created.
//!
//! ```text
//! manifest  files, stdin and names -> objects
//! package   PlatformOperator, ClusterExtension -> the bundle, the packages that it needs, and the BundleDeployment of each
//! ```
//!
//! Bundles are chosen by the resolvers that the manager chooses them by, and planned by the code of the controller; each object is tried as a
//! dry run. Nothing is written. What the manager alone knows is not looked at: catalogs of its flags, and who would lose what they need.

mod manifest;
mod package;

use std::collections::BTreeSet;
use std::io::{self, Write};

use kube::ResourceExt as _;
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::plan::{ApprovalPolicy, PlanStatus, PlannedDependency};
use rukpak_crds::{BundleDeployment, DependencyPolicy};
use rukpak_plan::approval::asks;
use rukpak_plan::resolve::Why;
use serde::Serialize;
use serde_json::{Value, json};

use self::manifest::Manifest;
use self::package::Offers;
use super::show;
use crate::answer;
use crate::args::{OutputForm, PreviewArgs};
use crate::cluster::Cluster;
use crate::diff::{Planned, Preview, preview};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::history::source;
use crate::source::remote;
use crate::table;

/// What is asked for: a BundleDeployment as it is written, or as it would be made.
struct Asked {
    /// `clusterextension/pump`.
    what: String,
    deployment: BundleDeployment,
    /// Packages that would be installed with it; each has an answer of its own, before this one.
    dependencies: Vec<PlannedDependency>,
    policy: DependencyPolicy,
    notes: Vec<String>,
}

/// Why there is no answer about objects.
enum Unplanned {
    Refused(String),
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Unplanned {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What there is to say of one of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    name: String,
    /// Packages that would be installed first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<PlannedDependency>,
    #[serde(flatten)]
    status: PlanStatus,
    /// What keeps it from being done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    obstacles: Vec<String>,
    /// What could not be found out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    /// What somebody should know although it changes nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Whether somebody has to say yes first.
    asks: bool,
}

/// Exits with 2 if somebody has to say yes first, so what could not be found out is 1 here.
pub(super) async fn run(arguments: &PreviewArgs) -> Exit {
    match Box::pin(answers(arguments)).await {
        Ok(answers) => print(&answers, arguments.output.form),
        Err(failure) => {
            failure.report();
            Exit::No
        }
    }
}

async fn answers(arguments: &PreviewArgs) -> Result<Vec<Answer>, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let mut manifests = Vec::new();
    for what in &arguments.what {
        manifests.extend(manifest::read(what, &cluster).await?);
    }
    let mut offers = Offers::new(&cluster, &arguments.service.system_namespace, &manifests).await?;
    let (mut answers, mut coming) = (Vec::new(), BTreeSet::new());
    for manifest in manifests {
        let what = manifest.to_string();
        let asked = match manifest {
            Manifest::Deployment(deployment) => {
                Ok(vec![Asked::alone(what.clone(), as_applied(&cluster, *deployment).await?)])
            }
            Manifest::Operator(operator) => offers.for_operator(what.clone(), &operator).await,
            Manifest::Extension(extension) => {
                let extension = with_status(&cluster, *extension).await?;
                offers.for_extension(what.clone(), &extension).await
            }
        };
        match asked {
            Ok(asked) => {
                for one in asked {
                    answers.push(answer(&cluster, one, arguments, &mut coming).await?);
                }
            }
            Err(Unplanned::Refused(why)) => answers.push(Answer::refused(what, why)),
            Err(Unplanned::Failed(failure)) => return Err(failure),
        }
    }
    Ok(answers)
}

/// The manifest with what the cluster knows of the BundleDeployment.
async fn as_applied(cluster: &Cluster, wanted: BundleDeployment) -> Result<BundleDeployment, Failure> {
    let Some(live) = cluster.deployment(&wanted.name_any()).await? else { return Ok(wanted) };
    let (annotations, labels) = (wanted.metadata.annotations, wanted.metadata.labels);
    let mut merged = BundleDeployment { spec: wanted.spec, ..live };
    merged.annotations_mut().extend(annotations.into_iter().flatten());
    merged.labels_mut().extend(labels.into_iter().flatten());
    Ok(merged)
}

/// The manifest with what the cluster says is installed: upgrades lead on from there.
async fn with_status(cluster: &Cluster, wanted: ClusterExtension) -> Result<ClusterExtension, Failure> {
    let live =
        cluster.list::<ClusterExtension>(None).await?.into_iter().find(|live| live.name_any() == wanted.name_any());
    Ok(ClusterExtension { status: live.and_then(|live| live.status), ..wanted })
}

async fn answer(
    cluster: &Cluster,
    asked: Asked,
    arguments: &PreviewArgs,
    coming: &mut BTreeSet<(String, String)>,
) -> Result<Answer, Failure> {
    let Asked { what, deployment, dependencies, policy, notes } = asked;
    let content = match remote::read(&deployment.spec.template.spec.source, &arguments.trust).await {
        Err(remote::Error::Unfetched(failure)) => {
            return Err(failure.hint(format!("rukpakctl diff {} FOLDER", deployment.name_any())));
        }
        other => other?,
    };
    let planned = Planned { deployment: &deployment, content, service: &arguments.service };
    let Preview { changes, why, mut obstacles, unknown, remarks } = preview(cluster, planned, coming).await?;
    let approval = deployment.spec.approval.unwrap_or_default();
    let is_changed = !changes.actions.is_empty();
    let asks = (is_changed && approval != ApprovalPolicy::Automatic && asks(approval, why, &changes))
        || (!dependencies.is_empty() && policy == DependencyPolicy::Propose);
    obstacles.extend(held_up(&deployment));
    let mut notes = [notes, remarks].concat();
    if why == Why::Upgrade && is_changed && !deployment.spec.windows.is_empty() {
        notes.push("it waits for the next of spec.windows".to_owned());
    }
    let status = changes.status(&format!("installs {}", source(&deployment.spec.template.spec.source)));
    Ok(Answer { name: what, dependencies, status, obstacles, unknown, notes, asks })
}

/// What keeps a BundleDeployment from installing its template.
fn held_up(deployment: &BundleDeployment) -> Vec<String> {
    let spec = &deployment.spec;
    let suspended = spec.suspend.then(|| "spec.suspend is true: nothing is written until that is taken out".to_owned());
    let rolled_back = spec
        .rollback_to
        .map(|revision| format!("spec.rollbackTo is {revision}: that revision is installed, and the template is not"));
    suspended.into_iter().chain(rolled_back).collect()
}

impl Asked {
    fn alone(what: String, deployment: BundleDeployment) -> Self {
        let (dependencies, notes, policy) = (Vec::new(), Vec::new(), DependencyPolicy::default());
        Self { what, deployment, dependencies, policy, notes }
    }
}

impl Answer {
    fn refused(name: String, why: String) -> Self {
        let (dependencies, unknown, notes) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, dependencies, status: PlanStatus::default(), obstacles: vec![why], unknown, notes, asks: false }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        table::facts(out, &[("name", vec![self.name.clone()]), ("summary", vec![self.status.summary.clone()])])?;
        show::dependencies(out, &self.dependencies)?;
        show::changes(out, &self.status)?;
        for (word, lines) in [("refuse", &self.obstacles), ("unknown", &self.unknown), ("note", &self.notes)] {
            if !lines.is_empty() {
                writeln!(out)?;
            }
            lines.iter().try_for_each(|line| writeln!(out, "{word:8} {}", table::one_line(line)))?;
        }
        if self.asks {
            writeln!(out, "\nsomebody has to say yes once it is applied: rukpakctl plan list")?;
        }
        Ok(())
    }

    /// Without what is said of a Plan that there is.
    fn value(&self) -> Value {
        let mut value = json!(self);
        for field in ["phase", "message"] {
            value.as_object_mut().map(|fields| fields.remove(field));
        }
        value
    }

    fn exit(&self) -> Exit {
        match (self.obstacles.is_empty() && self.unknown.is_empty(), self.asks) {
            (false, _) => Exit::No,
            (true, true) => Exit::Asks,
            (true, false) => Exit::Yes,
        }
    }
}

fn print(answers: &[Answer], form: OutputForm) -> Exit {
    let exits: Vec<Exit> = answers.iter().map(Answer::exit).collect();
    let worst = [Exit::No, Exit::Asks].into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Yes);
    let plans: Vec<Value> = answers.iter().map(Answer::value).collect();
    let text = |out: &mut dyn Write| -> io::Result<()> {
        for (index, answer) in answers.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            answer.text(out)?;
        }
        Ok(())
    };
    let names = |out: &mut dyn Write| answers.iter().try_for_each(|answer| writeln!(out, "{}", answer.name));
    answer::print(form, &json!({ "plans": plans }), |out, _, _| text(out), names, worst)
}
