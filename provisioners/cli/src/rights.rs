//! `rukpakctl rights`: the roles that a ServiceAccount needs to install a bundle.
//!
//! ```text
//! bundle, BundleDeployment --objects--> kinds --rukpak_plan::rights--> Role, ClusterRole, bindings
//! ```

use std::collections::{BTreeMap, BTreeSet};

use rukpak_crd_upgrade::Migration;
use rukpak_crds::{Bundle, BundleDeployment, BundlePhase};
use rukpak_plain::{Object, ObjectKey};
use rukpak_plan::rights::{Rights, Rules, needed, of_migration, powerful, roles, rules};
use rukpak_plan::{Identity, Kind, Owner, Step, builtin, kind};
use serde_json::{Value, json};

use crate::answer::name_of;
use crate::args::{RightsArgs, RoleForm};
use crate::chart::Rendering;
use crate::cluster::{Cluster, owner_labels};
use crate::diff::crds;
use crate::examine::{self, Purpose};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::{Detected, asked_or_detected};
use crate::output::{documents, pretty, to_stderr, to_stdout, to_stdout_raw, warn};
use crate::release::Reader;
use crate::service::Service;
use crate::source;
use crate::table::count;

pub async fn run(arguments: &RightsArgs) -> Result<Exit, Failure> {
    let (objects, of_migrations, deployment) = match arguments.source.deployment() {
        Some(name) => {
            let cluster = Cluster::connect(&arguments.cluster).await?;
            let deployment = cluster.existing(name).await?;
            let (objects, of_migrations) = of_deployment(&cluster, &deployment, arguments).await?;
            (objects, of_migrations, Some(deployment))
        }
        None => (of_bundle(arguments).await?, Rights::new(), None),
    };
    let named = deployment.as_ref().and_then(|deployment| deployment.metadata.name.as_deref());
    let name = arguments.name.as_deref().or(named);
    let of_spec = deployment.as_ref().and_then(|deployment| deployment.spec.service_account.as_ref());
    let account = arguments.service_account.as_ref().or(of_spec);
    if account.is_none() {
        to_stderr("note: the roles are bound to nobody; --service-account NAMESPACE/NAME adds the bindings");
    }
    let mut needed = needed(objects.iter().map(|(identity, body)| (identity, body)), name);
    needed.extend(of_migrations);
    let rules = rules(&needed);
    if !arguments.allow_powerful {
        refuse_powerful(&rules)?;
    }
    // What is installed is in its namespaces.
    let is_installed = deployment.as_ref().and_then(|found| found.status.as_ref()?.active_bundle.as_ref()).is_some();
    let mut all = if is_installed { Vec::new() } else { namespaces(&objects) };
    all.extend(roles(&rules, &format!("{}-installer", name.unwrap_or("bundle")), account));
    Ok(written(&all, arguments.output))
}

/// Refuses rules that make whoever holds them a cluster administrator: a bundle asks for them, and who prints roles to apply them
/// may not have read what it asks for.
fn refuse_powerful(rules: &Rules) -> Result<(), Failure> {
    let powerful = powerful(rules);
    if powerful.is_empty() {
        return Ok(());
    }
    let text = format!(
        "to be installed, this bundle needs rights that make its ServiceAccount as strong as a cluster administrator: {}",
        powerful.join("; ")
    );
    Err(Failure::no(text)
        .hint("read what the bundle does with them, then add --allow-powerful to print the roles all the same"))
}

pub(crate) fn written(all: &[Value], form: RoleForm) -> Exit {
    match form {
        RoleForm::Yaml => to_stdout_raw(|out| documents(out, all), Exit::Yes),
        RoleForm::Json => to_stdout(|out| pretty(out, &all), Exit::Yes),
        RoleForm::Name => {
            to_stdout(|out| all.iter().try_for_each(|object| writeln!(out, "{}", name_of(object))), Exit::Yes)
        }
    }
}

/// Objects, each with its body.
type Objects = Vec<(Identity, Value)>;

async fn of_bundle(arguments: &RightsArgs) -> Result<Objects, Failure> {
    let content = source::read(&arguments.source).await?;
    let Detected { format, why } = asked_or_detected(arguments.source.format, &content.tree);
    let examined =
        examine::examine_with(&content.tree, format, Purpose::Render(&arguments.registry), &arguments.source).await?;
    warn(content.remarks.iter().chain(&examined.warnings));
    examined.refuse_findings(&content.from, &content.tree, format, "there is nothing to grant rights for")?;
    to_stderr(&format!("{}: {} of a {format} bundle ({why})", content.from, count(examined.objects.len(), "object")));
    let mut kinds = Kinds { defined: defined(&examined.objects), cluster: None, arguments };
    let mut objects = Vec::with_capacity(examined.objects.len());
    for object in examined.objects {
        let kind = kinds.of(&object).await?;
        let namespace = object.namespace().unwrap_or(&arguments.service.system_namespace);
        let namespace = kind.namespaced.then(|| namespace.to_owned());
        let identity = Identity { kind, namespace, name: object.name().to_owned() };
        objects.push((identity, object.into_value()));
    }
    Ok(objects)
}

/// The objects of what is installed and of what is to be installed: both are written in an upgrade that fails. And what it takes to
/// migrate stored objects before.
async fn of_deployment(
    cluster: &Cluster,
    deployment: &BundleDeployment,
    arguments: &RightsArgs,
) -> Result<(Objects, Rights), Failure> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let reader = Reader {
        certificates: arguments.registry.cert_provider,
        rendering: Rendering { values: None, helm: arguments.source.chart.values.helm.clone() },
        ..Reader::of(deployment, &arguments.service.system_namespace)
    };
    let bundles: Vec<Bundle> = cluster.list(Some(&owner_labels(name))).await?;
    let unpacked: Vec<&Bundle> = bundles.iter().filter(|bundle| bundle.is_in(BundlePhase::Unpacked)).collect();
    if unpacked.is_empty() {
        let text = format!("no Bundle of bundledeployment {name:?} is unpacked");
        return Err(Failure::no(text).hint(format!("rukpakctl status {name}")));
    }
    let service = Service::connect(cluster, &arguments.service).await?;
    let mut all: BTreeMap<ObjectKey, (Identity, Value)> = BTreeMap::new();
    let mut of_migrations = Rights::new();
    for bundle in unpacked {
        let (content, format) = reader.of_bundle(&service, bundle).await?;
        let plan = reader.plan(cluster, &content.tree, format, true).await?;
        to_stderr(&format!("{}: {} of a {format} bundle", content.from, count(plan.steps.len(), "object")));
        for step in plan.steps.values().filter(|step| kind::is_crd(&step.key)) {
            let migration = migration(cluster, name, deployment, step).await?;
            of_migrations.extend(migration.iter().flat_map(|migration| of_migration(&step.identity, migration)));
        }
        let hooks = plan.hooks.into_iter().map(|hook| hook.step);
        all.extend(plan.steps.into_values().chain(hooks).map(|step| {
            let body = step.body();
            (step.key, (step.identity, body))
        }));
    }
    Ok((all.into_values().collect(), of_migrations))
}

/// What has to happen to stored objects before the CRD can be installed.
async fn migration(
    cluster: &Cluster,
    name: &str,
    deployment: &BundleDeployment,
    step: &Step,
) -> Result<Option<Migration>, Failure> {
    let owner = Owner { name: name.to_owned(), uid: deployment.metadata.uid.clone().unwrap_or_default() };
    let live = cluster.live(&step.identity).await?;
    let migration = live.as_ref().and_then(|live| crds::needed_migration(&owner, step, live));
    if let Some(Migration { crd, from, to, .. }) = &migration {
        let from = from.join(", ");
        to_stderr(&format!(
            "note: objects of {crd} that are stored as {from} are migrated to {to} first; the rights for that are needed until the \
             upgrade is done"
        ));
    }
    Ok(migration)
}

/// Finds out how objects of a kind are named in URLs, and whether they are in namespaces.
struct Kinds<'a> {
    defined: BTreeMap<(String, String), Kind>,
    cluster: Option<Cluster>,
    arguments: &'a RightsArgs,
}

fn defined(objects: &[Object]) -> BTreeMap<(String, String), Kind> {
    let crds = objects.iter().filter(|object| kind::is_crd(&object.key()));
    let kinds = crds.flat_map(kind::defined_by);
    kinds.map(|kind| ((kind.resource.group.clone(), kind.resource.kind.clone()), kind)).collect()
}

impl Kinds<'_> {
    /// By a CRD of the bundle, by what is known of Kubernetes, or else by the cluster.
    async fn of(&mut self, object: &Object) -> Result<Kind, Failure> {
        let id = (object.group().to_owned(), object.kind().to_owned());
        if let Some(found) = self.defined.get(&id) {
            return Ok(found.clone());
        }
        let found = match builtin::kind(object.api_version(), object.kind()) {
            Some(found) => found,
            None => self.ask(object).await?,
        };
        self.defined.insert(id, found.clone());
        Ok(found)
    }

    async fn ask(&mut self, object: &Object) -> Result<Kind, Failure> {
        let what = format!("kind {} of {}", object.kind(), object.api_version());
        let cluster = if let Some(cluster) = &self.cluster {
            cluster
        } else {
            to_stderr(&format!(
                "note: asking the cluster for {what}, which is neither the bundle's nor Kubernetes' own"
            ));
            self.cluster.insert(Cluster::connect(&self.arguments.cluster).await?)
        };
        let found = cluster.kind(object.api_version(), object.kind()).await?;
        found.ok_or_else(|| Failure::no(format!("{}: the cluster does not serve {what}", object.origin())))
    }
}

/// The Namespaces that the bundle brings and a Role has to be in before the bundle is: with their labels, which say what Pods may do.
fn namespaces(objects: &Objects) -> Vec<Value> {
    let used: BTreeSet<&str> = objects.iter().filter_map(|(identity, _)| identity.namespace.as_deref()).collect();
    let brought = objects.iter().filter(|(identity, _)| {
        let resource = &identity.kind.resource;
        resource.group.is_empty() && resource.kind == "Namespace" && used.contains(identity.name.as_str())
    });
    brought
        .map(|(identity, body)| {
            let mut metadata = json!({"name": identity.name});
            let labels = body.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
            let labels: serde_json::Map<String, Value> =
                labels.into_iter().filter(|(key, _)| !key.starts_with("core.rukpak.io/")).collect();
            if !labels.is_empty() {
                metadata["labels"] = labels.into();
            }
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        })
        .collect()
}
