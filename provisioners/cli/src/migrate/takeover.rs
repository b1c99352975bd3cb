//! `rukpakctl migrate subscription/NAME`: what OLM v0 has installed becomes a BundleDeployment's, object by object, and back.
//!
//! ```text
//! olm      what OLM has                reads the cluster
//! check    whether that can be taken over                         pure
//! image    the bundle that is installed                           asks InstallPlans and catalogs
//! wanted   the objects that are made   pure
//! sorted   which objects are taken over, which are OLM's own      reads the cluster
//! record   what was before, in a ConfigMap                        forward, back: the writes
//! marks    the write by which an object changes hands             pure
//! stay     where the Subscription goes on with what OLM has written
//! version  whether it has the version still that OLM had          pure
//! ```

mod back;
mod check;
mod forward;
mod image;
mod marks;
mod olm;
mod record;
mod sorted;
mod stay;
mod version;
mod wanted;

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_content::Limits;
use rukpak_crds::olmv0::NAMESPACE_LABEL;
use rukpak_crds::olmv0::installation::deployment_name;
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_format::Format;
use rukpak_plan::Plan;
use serde_json::{Value, json};

use self::check::{Checked, package};
use self::olm::{Installed, Kinds};
use self::record::{Left, Record, Reference, State};
use self::sorted::Sorted;
use super::objects::Package;
use super::{Done, print_done, print_objects, say_steps};
use crate::args::{Kind, MigrateArgs};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::to_stderr;
use crate::release::Reader;
use crate::source;

/// What is to be done about one Subscription.
struct Planned {
    record: Record,
    plan: Plan,
    notes: Vec<String>,
    /// Whether it was begun before.
    is_begun: bool,
}

/// Takes over one Subscription, or gives it back.
pub(super) async fn one(cluster: &Cluster, arguments: &MigrateArgs, name: &str) -> Result<Exit, Failure> {
    let namespace = arguments.namespace.as_deref().unwrap_or(&cluster.config.default_namespace).to_owned();
    let mut made = Vec::new();
    let exit = Box::pin(of(cluster, arguments, (&namespace, name), &mut made)).await?;
    match (made.as_slice(), arguments.apply) {
        ([object], false) => Ok(print_objects(arguments.output.form, std::slice::from_ref(object), object, exit)),
        _ => Ok(exit),
    }
}

/// All of them, one after the other. One that is refused does not stop the others.
pub(super) async fn all(cluster: &Cluster, arguments: &MigrateArgs) -> Result<Exit, Failure> {
    let namespace = arguments.namespace.as_deref();
    let mut subjects = record::all(cluster, namespace).await?;
    if !arguments.takeover.back {
        let kinds = Kinds::find(cluster).await?;
        let there = cluster.all_of(&kinds.subscription, namespace, "").await?;
        // What a Subscription has here is OLM's no more.
        let ours: Vec<BundleDeployment> = cluster.list(Some(NAMESPACE_LABEL)).await?;
        let ours: BTreeSet<String> = ours.iter().map(kube::ResourceExt::name_any).collect();
        let there = there.iter().map(|found| (found.namespace().unwrap_or_default(), found));
        let there = there.filter(|(space, found)| !ours.contains(&deployment_name(space, package(found))));
        let there: Vec<(String, String)> = there.map(|(space, found)| (space, found.name_any())).collect();
        let mut unfinished = Vec::new();
        for (space, name) in subjects {
            if record::find(cluster, &space, &name).await?.is_some_and(|(_, state)| state != State::Done) {
                unfinished.push((space, name));
            }
        }
        subjects = unfinished.into_iter().chain(there).collect();
    }
    subjects.sort();
    subjects.dedup();
    if subjects.is_empty() {
        return Err(Failure::no("there is no subscription to migrate"));
    }
    let (mut made, mut exit) = (Vec::new(), Exit::Yes);
    for (space, name) in &subjects {
        to_stderr(&format!("subscription {name:?} in namespace {space:?}:"));
        if let Err(failure) = Box::pin(of(cluster, arguments, (space, name), &mut made)).await {
            exit = failure.report();
        }
    }
    if arguments.apply || made.is_empty() {
        return Ok(exit);
    }
    Ok(print_objects(arguments.output.form, &made, &json!({"apiVersion": "v1", "kind": "List", "items": made}), exit))
}

async fn of(
    cluster: &Cluster,
    arguments: &MigrateArgs,
    (namespace, name): (&str, &str),
    made: &mut Vec<Value>,
) -> Result<Exit, Failure> {
    let known = record::find(cluster, namespace, name).await?;
    let again = format!("rukpakctl migrate subscription/{name} -n {namespace} --back --apply");
    match known {
        None if arguments.takeover.back => {
            let text = format!("nothing is known of a take-over of subscription {name:?} in namespace {namespace:?}");
            Err(Failure::no(text).hint("kubectl get configmaps -A -l core.rukpak.io/takeover"))
        }
        Some((record, _)) if arguments.takeover.back => Box::pin(back(cluster, arguments, &record)).await,
        Some((_, State::Back)) => {
            Err(Failure::no(format!("subscription {name:?} is on its way back to OLM")).hint(again))
        }
        Some((_, State::Done)) => {
            Err(Failure::no(format!("subscription {name:?} was taken over already; the way back is open")).hint(again))
        }
        known => {
            let planned = match known {
                Some((record, _)) => resumed(cluster, arguments, record).await?,
                None => planned(cluster, arguments, (namespace, name)).await?,
            };
            let object = planned.record.owner.clone().unwrap_or_else(|| json!(planned.record.deployment));
            made.push(object);
            carry_out(cluster, arguments, &planned).await
        }
    }
}

async fn planned(
    cluster: &Cluster,
    arguments: &MigrateArgs,
    (namespace, name): (&str, &str),
) -> Result<Planned, Failure> {
    let kinds = Kinds::find(cluster).await?;
    let installed = olm::read(cluster, &kinds, namespace, name).await?;
    let checked = check::check(&installed, target(arguments) == Kind::Subscription)?;
    let image = image::find(&installed, checked.csv, arguments).await?;
    let deployment = if checked.stays {
        wanted::subscribed(&installed, &checked, &image)
    } else {
        let has_roles = has_api_roles(cluster, checked.csv).await?;
        wanted::deployment(&installed, &checked, &image, has_roles)
    };
    refuse_taken_names(cluster, arguments, &deployment.name_any()).await?;
    let owner = owner(cluster, arguments, &installed, &deployment, checked.csv).await?;
    let plan = render(cluster, arguments, &deployment, &checked.csv.name_any()).await?;
    let sorted = sorted::sort(cluster, &kinds, &installed, &checked, &plan).await?;
    let mut notes = checked.notes.clone();
    notes.extend(sorted.notes.iter().cloned());
    notes.extend(
        olm::refuse_running(cluster)
            .await
            .err()
            .map(|failure| format!("{}; stop it before --apply: {}", failure.text, failure.hint.unwrap_or_default())),
    );
    let record = recorded(&installed, &checked, &sorted, deployment, owner);
    Ok(Planned { record, plan, notes, is_begun: false })
}

/// Goes on with what was begun.
async fn resumed(cluster: &Cluster, arguments: &MigrateArgs, record: Record) -> Result<Planned, Failure> {
    if is_another(arguments.to, record.stays) {
        let text =
            format!("the take-over of subscription {:?} was begun with another --to", record.subscription_name());
        return Err(Failure::no(text).hint("finish it without --to, or go back by --back and begin again"));
    }
    let csv = record.csv["metadata"]["name"].as_str().unwrap_or_default();
    let plan = render(cluster, arguments, &record.deployment, csv).await?;
    Ok(Planned { record, plan, notes: Vec::new(), is_begun: true })
}

/// Whether what is asked for would keep the Subscription where what was begun deletes it, or the other way round.
fn is_another(to: Option<Kind>, stays: bool) -> bool {
    to.is_some_and(|to| (to == Kind::Subscription) != stays)
}

/// The objects of the bundle, as the controller will have them.
async fn render(
    cluster: &Cluster,
    arguments: &MigrateArgs,
    deployment: &BundleDeployment,
    csv: &str,
) -> Result<Plan, Failure> {
    let image = deployment.spec.template.spec.source.image.as_ref().map_or("", |image| image.reference.as_str());
    let content = source::read_image(image, &arguments.takeover.trust).await?;
    let bundle = rukpak_registry::load(&content.tree, &Limits::default())
        .map_err(|error| Failure::no(format!("{image}: {}", crate::output::chain(&error))))?;
    if bundle.csv.metadata.name != csv {
        let found = bundle.csv.metadata.name;
        return Err(Failure::no(format!("{image} is the bundle of {found:?}, and OLM has installed {csv:?}"))
            .hint("name the right one by --image"));
    }
    let certificates = arguments.takeover.cert_provider;
    let reader = Reader { certificates, ..Reader::of(deployment, &arguments.server.system_namespace) };
    reader.plan(cluster, &content.tree, Format::Registry, false).await
}

/// Whether OLM has made roles for the users of the operator's APIs.
async fn has_api_roles(cluster: &Cluster, csv: &DynamicObject) -> Result<bool, Failure> {
    let Some(kind) = cluster.kind("rbac.authorization.k8s.io/v1", "ClusterRole").await? else { return Ok(false) };
    for definition in olm::list(csv, "/spec/customresourcedefinitions/owned") {
        let (name, version) = (definition["name"].as_str(), definition["version"].as_str());
        let name = format!("{}-{}-admin", name.unwrap_or_default(), version.unwrap_or_default());
        if cluster.live(&olm::identity(&kind, None, &name)).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses where something of the name is there already.
async fn refuse_taken_names(cluster: &Cluster, arguments: &MigrateArgs, name: &str) -> Result<(), Failure> {
    if cluster.deployment(name).await?.is_some() {
        let text = format!("bundledeployment {name:?} is there already: one package is installed once");
        return Err(Failure::no(text).hint(format!("rukpakctl status {name}")));
    }
    if target(arguments) != Kind::Operator {
        return Ok(());
    }
    let operators = match cluster.list::<PlatformOperator>(None).await {
        Ok(operators) => operators,
        Err(error) if error.is_refusal() => {
            return Err(Failure::no("the cluster has no PlatformOperators").hint("--to bundledeployment"));
        }
        Err(error) => return Err(error.into()),
    };
    match operators.iter().find(|operator| operator.spec.package.name == name || operator.name_any() == name) {
        None => Ok(()),
        Some(operator) => {
            let operator = operator.name_any();
            Err(Failure::no(format!("platformoperator {operator:?} has package {name:?} already")))
        }
    }
}

fn target(arguments: &MigrateArgs) -> Kind {
    arguments.to.unwrap_or(Kind::Operator)
}

/// The object that shall have the BundleDeployment.
async fn owner(
    cluster: &Cluster,
    arguments: &MigrateArgs,
    installed: &Installed,
    deployment: &BundleDeployment,
    csv: &DynamicObject,
) -> Result<Option<Value>, Failure> {
    match target(arguments) {
        Kind::Deployment | Kind::Subscription => Ok(None),
        Kind::Operator => Ok(Some(wanted::operator(&installed.subscription))),
        Kind::Extension => {
            let version = olm::text(csv, "/spec/version").to_owned();
            let package = Package { name: package(&installed.subscription).to_owned(), version };
            let space = (Some(installed.namespace.as_str()), arguments.server.system_namespace.as_str());
            super::plan::extension(cluster, space, deployment, Some(package)).await.map(Some)
        }
    }
}

fn recorded(
    installed: &Installed,
    checked: &Checked<'_>,
    sorted: &Sorted,
    deployment: BundleDeployment,
    owner: Option<Value>,
) -> Record {
    let referenced = olm::text(&installed.subscription, "/status/installPlanRef/name");
    let plan = if checked.stays {
        stay::plan(installed, &checked.csv.name_any())
    } else {
        installed.plans.iter().find(|plan| plan.name_any() == referenced)
    };
    let left = sorted.taken.iter().map(|taken| Left {
        object: Reference::of(&taken.identity, &taken.live.uid().unwrap_or_default()),
        marks: marks::Marks::of(&taken.live.metadata, &sorted.owners),
    });
    Record {
        namespace: installed.namespace.clone(),
        subscription: record::bare(&installed.subscription),
        csv: record::bare(checked.csv),
        group: record::bare(checked.group),
        plan: plan.map(record::bare),
        taken: left.collect(),
        made: sorted.made.iter().map(|identity| Reference::of(identity, "")).collect(),
        removed: sorted.removed.iter().map(|(_, object)| record::bare(object)).collect(),
        swept: sorted.swept.iter().map(|(identity, uid)| Reference::of(identity, uid)).collect(),
        deployment,
        owner,
        stays: checked.stays,
    }
}

async fn carry_out(cluster: &Cluster, arguments: &MigrateArgs, planned: &Planned) -> Result<Exit, Failure> {
    for note in &planned.notes {
        to_stderr(&format!("note: {note}"));
    }
    if !arguments.apply {
        say_steps(&planned.steps());
        return Ok(Exit::Yes);
    }
    olm::refuse_running(cluster).await?;
    if !planned.is_begun {
        planned.record.create(cluster).await?;
    }
    let mut done = Vec::new();
    let timeout = arguments.takeover.timeout;
    let outcome = forward::take_over(cluster, &planned.record, &planned.plan, timeout, &mut done).await;
    finish(arguments, &done, outcome, "run the command again, or go back by --back")
}

async fn back(cluster: &Cluster, arguments: &MigrateArgs, record: &Record) -> Result<Exit, Failure> {
    let deployment = cluster.deployment(&record.deployment.name_any()).await?;
    version::check(record, deployment.as_ref())?;
    if !arguments.takeover.all {
        let others: Vec<BundleDeployment> = cluster.list(Some(NAMESPACE_LABEL)).await?;
        let others = others.iter().map(kube::ResourceExt::name_any);
        if let Some(note) = still_followed(others.filter(|name| *name != record.deployment.name_any())) {
            to_stderr(&note);
        }
    }
    if !arguments.apply {
        say_steps(&steps_back(record));
        return Ok(Exit::Yes);
    }
    olm::refuse_running(cluster).await?;
    let mut done = Vec::new();
    let settings = (arguments.takeover.timeout, arguments.server.system_namespace.as_str());
    let outcome = back::go_back(cluster, record, settings, &mut done).await;
    finish(arguments, &done, outcome, "run the command again")
}

/// What is to be known about other BundleDeployments of Subscriptions before OLM runs again.
fn still_followed(others: impl Iterator<Item = String>) -> Option<String> {
    let others: Vec<String> = others.collect();
    let names = others.join(", ");
    (!others.is_empty()).then(|| {
        format!("note: OLM would act on what other Subscriptions have here, too: give it back before OLM runs again: {names}")
    })
}

/// What the way back would do, a line each.
fn steps_back(record: &Record) -> Vec<String> {
    let (name, csv) = (record.deployment.name_any(), Reference::of_value(&record.csv).name());
    let deployment = format!("delete bundledeployment.core.rukpak.io/{name} without its objects");
    let (made, given) = (record.removed.len(), record.taken.len());
    let given = format!("give {given} objects back: they stay as they are");
    if record.stays {
        return vec![deployment, given, format!("create {made} objects as they were")];
    }
    vec![
        format!("create {csv} and {made} objects as they were"),
        format!("{deployment}, and what has it"),
        given,
        format!("create subscription.{}/{}", olm::GROUP, record.subscription_name()),
    ]
}

/// Prints what was done; a failure says how to go on.
fn finish(
    arguments: &MigrateArgs,
    done: &[Done],
    outcome: Result<(), Failure>,
    way_out: &str,
) -> Result<Exit, Failure> {
    let exit = print_done(arguments.output.form, done);
    outcome.map(|()| exit).map_err(|failure| match failure.hint {
        None => failure.hint(way_out),
        Some(_) => failure,
    })
}

impl Planned {
    /// What would be done, a line each.
    fn steps(&self) -> Vec<String> {
        let record = &self.record;
        let listed = |names: Vec<String>| names.join(", ");
        let subscription = record.subscription_name();
        let deployment = record.deployment.name_any();
        let mut steps = vec![
            format!("write configmap/rukpak-takeover-{subscription}: what is needed to go back"),
            format!("take over: {}", listed(record.taken.iter().map(|left| left.object.name()).collect())),
            format!("create bundledeployment.core.rukpak.io/{deployment} of {}", record.image()),
        ];
        if !record.made.is_empty() {
            steps.push(format!("which adds: {}", listed(record.made.iter().map(Reference::name).collect())));
        }
        let gone = record.gone();
        if !gone.is_empty() {
            steps.push(format!("delete what is OLM's: {}", listed(gone.iter().map(Reference::name).collect())));
        }
        if record.stays {
            let subscription = Reference::of_value(&record.subscription).name();
            steps.push(format!(
                "hand the bundledeployment over to {subscription}, which stays, as what it has installed"
            ));
        } else if let Some(owner) = &record.owner {
            let owner = Reference::of_value(owner).name();
            steps.push(format!("create {owner}, and hand the bundledeployment over to it"));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_is_not_finished_in_another_way() {
        assert!(!is_another(None, true) && !is_another(None, false));
        assert!(!is_another(Some(Kind::Subscription), true) && is_another(Some(Kind::Subscription), false));
        assert!(!is_another(Some(Kind::Operator), false) && is_another(Some(Kind::Operator), true));
    }

    #[test]
    fn who_gives_one_back_is_told_of_the_others() {
        assert_eq!(still_followed(std::iter::empty()), None);
        let note = still_followed(["a.ns", "b.ns"].map(str::to_owned).into_iter()).expect("a note");
        assert!(note.contains("before OLM runs again") && note.ends_with(": a.ns, b.ns"), "{note}");
    }
}
