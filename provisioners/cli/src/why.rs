//! `rukpakctl why`: which BundleDeployment and bundle an object of the cluster is from, and who else writes to it.

mod manifest;

use std::io::{self, Write};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::names::{FIELD_MANAGER, OWNER_KIND, OWNER_KIND_VALUE, OWNER_NAME};
use rukpak_crds::{BundleDeployment, ContestedField};
use rukpak_plan::fields::{self, Taken};
use rukpak_plan::owner::{ForeignOwner, OWNER_API_VERSION, Predecessors, extension};
use rukpak_plan::{Kind, Owner, Ownership};
use serde::Serialize;
use serde_json::{Value, json};

use self::manifest::Manifest;
use crate::answer::{DEPLOYMENTS, print};
use crate::args::{OutputForm, WhyArgs};
use crate::cluster::Cluster;
use crate::colour::Palette;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::history::source;
use crate::table::{self, one_line};
use crate::tree::{self, ObjectNode};

/// Where RukPak v0.16 kept its releases, of which objects may be left.
const SYSTEM_NAMESPACE: &str = "rukpak-system";
/// The subresource whose fields are nobody's wish.
const STATUS: &str = "status";

/// What `--output json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Why {
    object: ObjectNode,
    /// The BundleDeployment that keeps it as its bundle has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle_deployment: Option<String>,
    /// Why it is none's, if it is none's.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign: Option<String>,
    /// The Bundle that is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
    /// Where that comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// Who needs what it has installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needed_by: Vec<String>,
    /// BundleDeployments that have installed what it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
    /// Where the bundle declares the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<Manifest>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest_unknown: Option<String>,
    /// What others wrote and the controller did not.
    fields: Vec<ManagedField>,
}

/// A field that another manager holds.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedField {
    manager: String,
    /// `status`, `scale` and so on; absent for the object itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
    field: String,
    /// Whether the bundle has it, too, and it was left to this manager, which keeps changing it.
    is_contested: bool,
}

/// Asks the cluster. Yes if the object is a BundleDeployment's.
pub async fn run(arguments: &WhyArgs) -> Result<Exit, Failure> {
    let (kind, name) = arguments.object().map_err(|text| Failure::unknown(text).hint("rukpakctl why --help"))?;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let served = kind_of(&cluster, kind).await?;
    let namespace = arguments.namespace.as_deref();
    let Some(mut object) = cluster.object(&served, namespace, name).await? else {
        return Err(missing(&served, namespace, name));
    };
    object.types.get_or_insert_default();
    let deployment = match claimed(&object.metadata) {
        Some(owner) => cluster.deployment(owner).await?,
        None => None,
    };
    let mut answer = Why::of(&object, deployment.as_ref(), Timestamp::now());
    if let Some(deployment) = deployment.as_ref().filter(|_| answer.bundle_deployment.is_some()) {
        answer.needed_by = tree::needed_by(deployment);
        answer.needs = tree::needs(deployment, &cluster.list(None).await?);
        match manifest::find(&cluster, arguments, deployment, &object).await {
            Ok(manifest) => answer.manifest = manifest,
            Err(failure) => answer.manifest_unknown = Some(failure.text),
        }
    }
    Ok(answer.print(arguments.output.form))
}

async fn kind_of(cluster: &Cluster, name: &str) -> Result<Kind, Failure> {
    let mut kinds = cluster.kinds(name).await?;
    match kinds.len() {
        0 => Err(Failure::no(format!("the cluster serves no kind {name:?}")).hint("kubectl api-resources")),
        1 => Ok(kinds.remove(0)),
        _ => {
            let all = kinds.iter().map(|kind| format!("{}.{}", kind.resource.plural, kind.resource.group));
            let text = format!("there is more than one kind {name:?}");
            Err(Failure::unknown(text).hint(format!("name one of {}", all.collect::<Vec<_>>().join(", "))))
        }
    }
}

fn missing(kind: &Kind, namespace: Option<&str>, name: &str) -> Failure {
    let plural = &kind.resource.plural;
    let found = Failure::no(format!("{plural} {name:?} not found"));
    match namespace {
        Some(namespace) => found.hint(format!("kubectl get {plural} -n {namespace}")),
        None if kind.namespaced => found.hint("name its namespace by --namespace"),
        None => found.hint(format!("kubectl get {plural}")),
    }
}

/// The BundleDeployment that the object names as its own.
fn claimed(meta: &ObjectMeta) -> Option<&str> {
    let owners = meta.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.kind == OWNER_KIND_VALUE && owner.api_version == OWNER_API_VERSION);
    let controller = owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.name.as_str());
    let labels =
        meta.labels.as_ref().filter(|labels| labels.get(OWNER_KIND).is_some_and(|kind| kind == OWNER_KIND_VALUE));
    controller.or_else(|| labels?.get(OWNER_NAME).map(String::as_str))
}

impl Why {
    fn of(object: &DynamicObject, deployment: Option<&BundleDeployment>, now: Timestamp) -> Self {
        let foreign = foreign(&object.metadata, deployment);
        let owner = deployment.filter(|_| foreign.is_none());
        let status = owner.and_then(|owner| owner.status.as_ref());
        let contested = status.and_then(|status| status.inventory.as_ref());
        let node = ObjectNode::of(object, owner, now);
        let contested = contested.map_or(&[][..], |inventory| &inventory.contested);
        let fields = held(&object.metadata, |taken| contested.iter().any(|field| is_of(field, &node, taken)));
        Self {
            fields,
            bundle_deployment: owner.map(kube::ResourceExt::name_any),
            foreign,
            bundle: status.and_then(|status| status.active_bundle.clone()),
            source: owner.map(|owner| source(&owner.spec.template.spec.source)),
            needed_by: Vec::new(),
            needs: Vec::new(),
            manifest: None,
            manifest_unknown: None,
            object: node,
        }
    }

    fn print(&self, form: OutputForm) -> Exit {
        let exit = if self.bundle_deployment.is_some() { Exit::Yes } else { Exit::No };
        print(
            form,
            self,
            |out, palette, is_wide| self.text(out, palette, is_wide),
            |out| self.bundle_deployment.iter().try_for_each(|owner| writeln!(out, "{DEPLOYMENTS}/{owner}")),
            exit,
        )
    }

    fn text(&self, out: &mut dyn Write, palette: Palette, is_wide: bool) -> io::Result<()> {
        writeln!(out, "{}   {}", self.object.called(), self.object.health(palette, true))?;
        if let Some(foreign) = &self.foreign {
            writeln!(out, "no BundleDeployment manages it: {}", one_line(foreign))?;
        }
        if let Some(owner) = &self.bundle_deployment {
            let (bundle, source) = (self.bundle.as_deref().unwrap_or("none yet"), self.source.as_deref());
            let manifest = match (&self.manifest, &self.manifest_unknown) {
                (Some(manifest), _) => manifest.text(),
                (None, Some(why)) => format!("not known: {why}"),
                (None, None) => "none: the bundle does not declare it any more".to_owned(),
            };
            let facts = [
                ("bundledeployment", vec![owner.clone()]),
                ("bundle", vec![bundle.to_owned()]),
                ("source", source.map(str::to_owned).into_iter().collect()),
                ("needed by", self.needed_by.clone()),
                ("needs", self.needs.clone()),
                ("manifest", vec![manifest]),
            ];
            table::facts(out, &facts)?;
        }
        // What controllers write to a status is theirs, as it should be.
        let shown = self.fields.iter().filter(|field| is_wide || field.subresource != STATUS);
        let rows: Vec<Vec<String>> = shown.map(ManagedField::row).collect();
        if rows.is_empty() {
            return writeln!(out, "nobody else has changed it");
        }
        writeln!(out)?;
        table::write(out, &["MANAGER", "FIELD", "CONTESTED"], &rows)
    }
}

impl ManagedField {
    fn row(&self) -> Vec<String> {
        let through = if self.subresource.is_empty() { String::new() } else { format!(" ({})", self.subresource) };
        let contested = if self.is_contested { "yes: left to it" } else { "no" };
        vec![format!("{}{through}", self.manager), self.field.clone(), contested.to_owned()]
    }
}

/// Why the object is not the BundleDeployment's; `None` if it is.
fn foreign(meta: &ObjectMeta, deployment: Option<&BundleDeployment>) -> Option<String> {
    let owner = deployment.map_or_else(
        || Owner { name: String::new(), uid: String::new() },
        |deployment| Owner { name: deployment.name_any(), uid: deployment.uid().unwrap_or_default() },
    );
    if deployment.is_some() && owner.owns_fully(meta) {
        return None;
    }
    let extension = deployment.and_then(|deployment| extension(&deployment.metadata));
    Some(match owner.ownership(meta, Predecessors { system_namespace: SYSTEM_NAMESPACE, extension }) {
        Ownership::Ours => "its labels do not name its owner; they are restored soon".to_owned(),
        Ownership::Terminating => "it is being deleted".to_owned(),
        Ownership::HelmRelease => "a release of RukPak v0.16 installed it, and it is not adopted yet".to_owned(),
        Ownership::Extension => "operator-controller installed it, and it is not taken over yet".to_owned(),
        Ownership::AdoptionAllowed => "its annotation allows to adopt it, which has not happened yet".to_owned(),
        Ownership::Inherited => "the BundleDeployment that created it is gone; it is taken over soon".to_owned(),
        Ownership::LeftBehind { .. } => "it is of an earlier BundleDeployment of this name".to_owned(),
        Ownership::Foreign(ForeignOwner::Unknown) => "none has created it".to_owned(),
        Ownership::Foreign(owner) => owner.why(),
    })
}

/// What managers other than the controller hold, and it does not.
fn held(meta: &ObjectMeta, is_contested: impl Fn(&Taken) -> bool) -> Vec<ManagedField> {
    let sets = meta.managed_fields.iter().flatten().filter_map(|entry| Some(&entry.fields_v1.as_ref()?.0));
    let all: Value = sets.fold(json!({}), |all, set| fields::union(&all, set));
    let mut held: Vec<ManagedField> = fields::taken(&all, meta, FIELD_MANAGER)
        .into_iter()
        .map(|taken| ManagedField {
            is_contested: is_contested(&taken),
            field: taken.words(),
            manager: taken.manager,
            subresource: taken.subresource,
        })
        .collect();
    held.sort_by(|a, b| (&a.manager, &a.subresource, &a.field).cmp(&(&b.manager, &b.subresource, &b.field)));
    held
}

fn is_of(field: &ContestedField, object: &ObjectNode, taken: &Taken) -> bool {
    object.is(&field.group, &field.kind, &field.namespace, &field.name)
        && field.path == taken.path
        && field.manager == taken.manager
}

#[cfg(test)]
#[path = "why/tests.rs"]
mod tests;
