//! `rukpakctl tree`: a BundleDeployment, its Bundles, and its objects with their health, by the rules of the controller.

mod declared;

use std::io::{self, Write};

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::names::NEEDED_BY;
use rukpak_crds::{Bundle, BundleDeployment, InventoryKind};
use rukpak_plain::ObjectKey;
use rukpak_plan::health::{State, assess_by, check_of};
use rukpak_plan::owner::controller;
use serde::Serialize;
use serde_json::json;

use crate::answer::{BUNDLES, DEPLOYMENTS, called, object_name, print};
use crate::args::{DeploymentArgs, OutputForm};
use crate::cluster::{self, Cluster, owner_labels};
use crate::colour::{Palette, Tone};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::history::source;
use crate::output::chain;
use crate::table::one_line;
use crate::wait::Progress;

/// What `--output json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tree {
    name: String,
    /// As its condition has it.
    ready: bool,
    /// What it waits for or failed with.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    /// Who needs what it has installed, as the manager of packages notes it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needed_by: Vec<String>,
    /// BundleDeployments that have installed what it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
    bundles: Vec<BundleNode>,
    objects: Vec<ObjectNode>,
    /// Kinds that could not be asked for, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleNode {
    name: String,
    phase: String,
    /// Whether it is what is installed.
    is_active: bool,
    source: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectNode {
    group: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    /// In the names of kstatus.
    health: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    /// Whether the installation is whole without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_optional: bool,
    #[serde(skip)]
    state: State,
}

/// Asks the cluster. Yes if everything is healthy.
pub async fn run(arguments: &DeploymentArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let deployment = cluster.existing(&arguments.name).await?;
    Ok(gather(&cluster, &deployment).await?.print(arguments.output.form))
}

/// Asks for its Bundles and its objects.
pub(crate) async fn gather(cluster: &Cluster, deployment: &BundleDeployment) -> Result<Tree, Failure> {
    let bundles: Vec<Bundle> = cluster.list(Some(&owner_labels(&deployment.name_any()))).await?;
    let kinds =
        deployment.status.as_ref().and_then(|status| status.inventory.as_ref()).map(|inventory| &inventory.kinds);
    let (mut objects, mut unknown) = (Vec::new(), Vec::new());
    for kind in kinds.into_iter().flatten() {
        match cluster.owned(deployment, kind).await {
            Ok(found) => objects.extend(found.unwrap_or_default()),
            Err(error @ cluster::Error::Refused(_)) => unknown.push(format!("{}: {}", kind_name(kind), chain(&error))),
            Err(error) => return Err(error.into()),
        }
    }
    let mut tree = Tree::of(deployment, &bundles, &objects, unknown, Timestamp::now());
    tree.needs = needs(deployment, &cluster.list(None).await?);
    if tree.unknown.is_empty() {
        tree.objects.extend(declared::absent(cluster, deployment, &tree.objects).await);
        tree.sort();
    }
    Ok(tree)
}

/// Who needs what the BundleDeployment has installed: `ClusterExtension pump`.
pub(crate) fn needed_by(deployment: &BundleDeployment) -> Vec<String> {
    let noted = deployment.annotations().get(NEEDED_BY).map(String::as_str).unwrap_or_default();
    noted.split(',').filter(|name| !name.is_empty()).map(|name| one_line(&name.replacen('/', " ", 1))).collect()
}

/// The BundleDeployments of `all` of which is noted that whoever this one was made for needs them.
pub(crate) fn needs(deployment: &BundleDeployment, all: &[BundleDeployment]) -> Vec<String> {
    let owner = controller(&deployment.metadata);
    let Some(dependent) = owner.map(|owner| format!("{} {}", owner.kind, owner.name)) else { return Vec::new() };
    all.iter().filter(|other| needed_by(other).contains(&dependent)).map(kube::ResourceExt::name_any).collect()
}

fn kind_name(kind: &InventoryKind) -> String {
    if kind.group.is_empty() { kind.kind.clone() } else { format!("{}.{}", kind.kind, kind.group) }
}

impl Tree {
    fn of(
        deployment: &BundleDeployment,
        bundles: &[Bundle],
        objects: &[DynamicObject],
        unknown: Vec<String>,
        now: Timestamp,
    ) -> Self {
        let (ready, message) = match Progress::of(deployment, deployment.metadata.generation) {
            Progress::Ready => (true, String::new()),
            Progress::Working(line) => (false, line),
            Progress::Stalled { reason, message } => (false, format!("{reason}: {message}")),
        };
        let active = deployment.status.as_ref().and_then(|status| status.active_bundle.as_deref());
        let bundle = |bundle: &Bundle| BundleNode {
            name: bundle.name_any(),
            phase: phase(bundle),
            is_active: active == Some(&bundle.name_any()),
            source: source(&bundle.spec.source),
        };
        let objects = objects.iter().map(|object| ObjectNode::of(object, Some(deployment), now)).collect();
        let bundles = bundles.iter().map(bundle).collect();
        let mut tree = Self {
            name: deployment.name_any(),
            ready,
            message: one_line(&message),
            needed_by: needed_by(deployment),
            needs: Vec::new(),
            bundles,
            objects,
            unknown,
        };
        tree.sort();
        tree
    }

    fn sort(&mut self) {
        self.objects.sort_by(|a, b| (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name)));
    }

    fn print(&self, form: OutputForm) -> Exit {
        let exit = if !self.unknown.is_empty() {
            Exit::Unknown
        } else if self.ready && self.objects.iter().all(|object| object.state == State::Current || object.is_optional) {
            Exit::Yes
        } else {
            Exit::No
        };
        print(form, self, |out, palette, is_wide| self.text(out, palette, is_wide), |out| self.names(out), exit)
    }

    fn text(&self, out: &mut dyn Write, palette: Palette, is_wide: bool) -> io::Result<()> {
        let ready = if self.ready { palette.paint(Tone::Good, "Ready") } else { palette.paint(Tone::Bad, "not Ready") };
        let message = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
        writeln!(out, "BundleDeployment {}   {ready}{message}", self.name)?;
        for (what, names) in [("needed by", &self.needed_by), ("needs", &self.needs)] {
            if !names.is_empty() {
                writeln!(out, "{what}: {}", names.join(", "))?;
            }
        }
        let mut lines: Vec<String> = self.bundles.iter().map(|bundle| bundle.line(palette, is_wide)).collect();
        lines.extend(self.objects.iter().map(|object| object.line(palette, is_wide)));
        lines.extend(self.unknown.iter().map(|line| format!("{}   {}", palette.paint(Tone::Bad, "?"), one_line(line))));
        let last = lines.len().saturating_sub(1);
        for (index, line) in lines.iter().enumerate() {
            writeln!(out, "{} {line}", if index == last { "└──" } else { "├──" })?;
        }
        Ok(())
    }

    fn names(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{DEPLOYMENTS}/{}", self.name)?;
        for bundle in &self.bundles {
            writeln!(out, "{BUNDLES}/{}", bundle.name)?;
        }
        let mut names = self.objects.iter().map(|object| object_name(&object.group, &object.kind, &object.name));
        names.try_for_each(|name| writeln!(out, "{name}"))
    }
}

impl BundleNode {
    fn line(&self, palette: Palette, is_wide: bool) -> String {
        let tone = match self.phase.as_str() {
            "Unpacked" => Tone::Good,
            "Failing" => Tone::Bad,
            _ => Tone::Pending,
        };
        let active = if self.is_active { ", active" } else { "" };
        let source = if is_wide { format!("   {}", one_line(&self.source)) } else { String::new() };
        format!("Bundle {}   {}{active}{source}", self.name, palette.paint(tone, &self.phase))
    }
}

fn phase(bundle: &Bundle) -> String {
    bundle.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_else(|| "Pending".to_owned())
}

impl ObjectNode {
    /// What an object is called, and how healthy it is, by the checks of whom it belongs to.
    pub(crate) fn of(object: &DynamicObject, owner: Option<&BundleDeployment>, now: Timestamp) -> Self {
        let types = object.types.clone().unwrap_or_default();
        let mut whole = object.data.clone();
        if whole.is_null() {
            whole = json!({});
        }
        whole["apiVersion"] = json!(types.api_version);
        whole["kind"] = json!(types.kind);
        whole["metadata"] = serde_json::to_value(&object.metadata).unwrap_or_default();
        let group = types.api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let (namespace, name) = (object.metadata.namespace.clone(), object.name_any());
        let key = ObjectKey { group: group.clone(), kind: types.kind.clone(), namespace, name };
        let health = assess_by(&whole, owner.and_then(|owner| check_of(&owner.spec.health_checks, &key)), now);
        Self {
            group,
            kind: types.kind,
            namespace: object.metadata.namespace.clone(),
            name: object.name_any(),
            health: health.state.to_string(),
            message: one_line(&health.message),
            is_optional: false,
            state: health.state,
        }
    }

    /// Whether it is this one. The namespace of what is in none is empty.
    pub(crate) fn is(&self, group: &str, kind: &str, namespace: &str, name: &str) -> bool {
        (self.group.as_str(), self.kind.as_str(), self.name.as_str()) == (group, kind, name)
            && self.namespace.as_deref().unwrap_or_default() == namespace
    }

    /// `Deployment default/pump`.
    pub(crate) fn called(&self) -> String {
        called(&self.kind, self.namespace.as_deref(), &self.name)
    }

    /// What it is like, with why if that is of interest.
    pub(crate) fn health(&self, palette: Palette, is_wide: bool) -> String {
        let tone = match self.state {
            State::Current => Tone::Good,
            State::InProgress | State::Terminating => Tone::Pending,
            State::Failed | State::NotFound | State::Unknown => Tone::Bad,
        };
        let is_told = is_wide || self.state != State::Current;
        let message = if is_told && !self.message.is_empty() { format!(": {}", self.message) } else { String::new() };
        format!("{}{message}", palette.paint(tone, &self.health))
    }

    fn line(&self, palette: Palette, is_wide: bool) -> String {
        format!("{}   {}", self.called(), self.health(palette, is_wide))
    }
}

#[cfg(test)]
#[path = "tree/tests.rs"]
mod tests;
