//! `rukpakctl plan WHAT`: what installing something would do, before anything is created.
//!
//! ```text
//! manifest  files, stdin and names -> objects
//! package   PlatformOperator, ClusterExtension -> the bundle, the packages that it needs, and the BundleDeployment of each
//! ```
//!
//! Bundles are chosen by the code of the manager and planned by the code of the controller; each object is tried as a dry run. Nothing is
//! written.

mod manifest;
mod package;

use std::io::{self, Write};

use kube::ResourceExt as _;
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::plan::{ApprovalPolicy, PlanStatus, PlannedDependency};
use rukpak_crds::{BundleDeployment, DependencyPolicy};
use rukpak_plan::approval::asks;
use serde::Serialize;
use serde_json::{Value, json};

use self::manifest::Manifest;
use self::package::Offers;
use super::show;
use crate::answer::structured;
use crate::args::{OutputForm, PreviewArgs};
use crate::cluster::Cluster;
use crate::diff::{Preview, preview};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{to_stderr, to_stdout};
use crate::source::{self, remote};
use crate::table;

/// What is asked for: a BundleDeployment as it is written, or as it would be made.
struct Asked {
    /// `clusterextension/pump`.
    what: String,
    deployment: BundleDeployment,
    /// Packages that would be installed with it; each has an answer of its own, before this one.
    dependencies: Vec<PlannedDependency>,
    /// What becomes of these.
    policy: DependencyPolicy,
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
    /// Whether somebody has to say yes first.
    asks: bool,
}

/// Exits with 2 if somebody has to say yes first, so what could not be found out is 1 here.
pub(super) async fn run(arguments: &PreviewArgs) -> Exit {
    match answers(arguments).await {
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
    let mut offers = Offers::new(&cluster, &arguments.service.system_namespace);
    let mut answers = Vec::new();
    for manifest in manifests {
        let what = manifest.to_string();
        let asked = match manifest {
            Manifest::Deployment(deployment) => {
                let deployment = as_applied(&cluster, *deployment).await?;
                Ok(vec![Asked::alone(what.clone(), deployment)])
            }
            Manifest::Operator(operator) => offers.for_operator(what.clone(), &operator).await?,
            Manifest::Extension(extension) => {
                let extension = with_status(&cluster, *extension).await?;
                offers.for_extension(what.clone(), &extension).await?
            }
        };
        match asked {
            Ok(asked) => {
                for one in asked {
                    answers.push(answer(&cluster, one, arguments).await?);
                }
            }
            Err(refusal) => answers.push(Answer::refused(what, refusal)),
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
    let live = cluster.extensions(None).await?.into_iter().find(|live| live.name_any() == wanted.name_any());
    Ok(ClusterExtension { status: live.and_then(|live| live.status), ..wanted })
}

async fn answer(cluster: &Cluster, asked: Asked, arguments: &PreviewArgs) -> Result<Answer, Failure> {
    let Asked { what, deployment, dependencies, policy } = asked;
    let template = &deployment.spec.template.spec;
    let class = template.provisioner_class_name.as_str();
    let limits = arguments.limits();
    let content = match remote::read(&template.source, &arguments.trust, &limits).await {
        Err(error @ source::Error::Remote(_)) => {
            let hint = format!("rukpakctl diff {} FOLDER", deployment.name_any());
            return Err(Failure::from(error).hint(hint));
        }
        other => other?,
    };
    let looked = preview(cluster, &deployment, (content, class), (&arguments.service, limits)).await?;
    let Preview { changes, why, obstacles, unknown, remarks } = looked;
    for remark in &remarks {
        to_stderr(&format!("note: {what}: {remark}"));
    }
    let approval = deployment.spec.approval.unwrap_or_default();
    let is_changed = !changes.actions.is_empty();
    let asks = (is_changed && approval != ApprovalPolicy::Automatic && asks(approval, why, &changes))
        || (!dependencies.is_empty() && policy == DependencyPolicy::Propose);
    let bundle = source_of(&deployment);
    let status = changes.status(&format!("installs {bundle}"));
    Ok(Answer { name: what, dependencies, status, obstacles, unknown, asks })
}

/// What the template names, for people.
fn source_of(deployment: &BundleDeployment) -> String {
    crate::history::source(&deployment.spec.template.spec.source)
}

impl Asked {
    fn alone(what: String, deployment: BundleDeployment) -> Self {
        Self { what, deployment, dependencies: Vec::new(), policy: DependencyPolicy::default() }
    }
}

impl Answer {
    fn refused(name: String, why: String) -> Self {
        let (dependencies, unknown) = (Vec::new(), Vec::new());
        Self { name, dependencies, status: PlanStatus::default(), obstacles: vec![why], unknown, asks: false }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        table::facts(out, &[("name", vec![self.name.clone()]), ("summary", vec![self.status.summary.clone()])])?;
        show::dependencies(out, &self.dependencies)?;
        show::changes(out, &self.status)?;
        for (word, lines) in [("refuse", &self.obstacles), ("unknown", &self.unknown)] {
            if !lines.is_empty() {
                writeln!(out)?;
            }
            lines.iter().try_for_each(|line| writeln!(out, "{word:8} {}", table::one_line(line)))?;
        }
        if self.asks { writeln!(out, "\nsomebody has to say yes: rukpakctl plan list") } else { Ok(()) }
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
    match form {
        OutputForm::Text | OutputForm::Wide => to_stdout(
            |out| {
                for (index, answer) in answers.iter().enumerate() {
                    if index > 0 {
                        writeln!(out)?;
                    }
                    answer.text(out)?;
                }
                Ok(())
            },
            worst,
        ),
        OutputForm::Name => {
            to_stdout(|out| answers.iter().try_for_each(|answer| writeln!(out, "{}", answer.name)), worst)
        }
        OutputForm::Json | OutputForm::Yaml => {
            let plans: Vec<Value> = answers.iter().map(Answer::value).collect();
            structured(form, &json!({ "plans": plans }), worst)
        }
    }
}
