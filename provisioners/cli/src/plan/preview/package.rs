//! The bundle that a PlatformOperator or a ClusterExtension would get, with the packages that have to be installed with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use rukpak_catalog::Range;
use rukpak_catalog::choose::{self, choose};
use rukpak_catalog::resolve::{Request, resolve};
use rukpak_crds::config::API_ROLES;
use rukpak_crds::names::{self, CLASS_PLAIN, CLASS_REGISTRY};
use rukpak_crds::olm::cluster_extension::{CatalogFilter, ClusterExtensionSpec, CrdUpgradeSafetyEnforcement};
use rukpak_crds::olm::{ClusterExtension, deployment_name};
use rukpak_crds::plan::{ApprovalPolicy, PlannedDependency};
use rukpak_crds::platform_operator::{PlatformPackage, UpgradePolicy};
use rukpak_crds::{
    BundleDeployment, BundleDeploymentSpec, BundleSource, BundleSpec, DependencyPolicy, ImageSource, PlatformOperator,
    PlatformOperatorSpec,
};
use rukpak_plan::owner::controller;
use rukpak_resolver::set::{self, Needy, Offered};
use rukpak_resolver::{Facts, Installed, PACKAGE};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::manifest::Manifest;
use super::{Asked, Unplanned};
use crate::cluster::{self, Cluster};
use crate::extension::why;
use crate::failure::Failure;

/// What a status calls a ClusterCatalog.
const CATALOG: &str = "ClusterCatalog/";

/// What the ClusterCatalogs offer. The catalogs that the manager is configured with are not known here.
pub(super) struct Offers<'a> {
    cluster: &'a Cluster,
    system_namespace: &'a str,
    /// Packages that objects of the cluster or of the arguments ask for.
    asked_for: BTreeSet<String>,
    all: Option<Vec<Offered>>,
    /// Why one of all catalogs cannot be asked.
    unserved: Option<String>,
}

/// What an object says of what it installs.
struct Wish {
    needy: Needy,
    policy: DependencyPolicy,
    /// Where the policy is written.
    place: &'static str,
    ignores_dependencies: bool,
    notes: Vec<String>,
}

/// What the manager writes into a BundleDeployment.
#[derive(Clone, Default)]
struct Written {
    /// Kind and name of the object that it is made for.
    owner: (String, String),
    name: String,
    image: Option<String>,
    config: Option<Map<String, Value>>,
    approval: Option<ApprovalPolicy>,
    /// What a PlatformOperator says of it besides.
    operator: Option<PlatformOperatorSpec>,
    annotations: BTreeMap<String, String>,
}

impl<'a> Offers<'a> {
    pub async fn new(cluster: &'a Cluster, system_namespace: &'a str, manifests: &[Manifest]) -> Result<Self, Failure> {
        let of_extension = |extension: &ClusterExtension| {
            extension.spec.source.catalog.as_ref().map(|catalog| catalog.package_name.clone())
        };
        let of_manifest = |manifest: &Manifest| match manifest {
            Manifest::Deployment(_) => None,
            Manifest::Operator(operator) => Some(operator.spec.package.name.clone()),
            Manifest::Extension(extension) => of_extension(extension),
        };
        let mut asked_for: BTreeSet<String> = manifests.iter().filter_map(of_manifest).collect();

        let extensions = if_served(cluster.list::<ClusterExtension>(None).await)?;
        asked_for.extend(extensions.iter().filter_map(of_extension));
        let operators = if_served(cluster.list::<PlatformOperator>(None).await)?;
        asked_for.extend(operators.into_iter().map(|operator| operator.spec.package.name));
        Ok(Self { cluster, system_namespace, asked_for, all: None, unserved: None })
    }

    /// Each package that would be installed, the one that is asked for last; or why nothing would be.
    pub async fn for_extension(&mut self, what: String, extension: &ClusterExtension) -> Result<Vec<Asked>, Unplanned> {
        let filter = extension.spec.catalog().map_err(|violation| Failure::no(violation.to_string()))?;
        let looked = why::look(self.cluster, filter, self.system_namespace).await?;
        if let Some(unserved) = looked.iter().find_map(why::AskedCatalog::unserved) {
            return Err(Unplanned::Refused(unserved));
        }

        let range = why::range(filter)?;
        let request = Request { ignores_dependencies: true, ..why::request(extension, filter, range.as_ref()) };
        let found = resolve(&why::offers(&looked, filter), request);
        let found = found.map_err(|error| Unplanned::Refused(error.to_string()))?;
        let (catalog, bundle) = (format!("{CATALOG}{}", found.catalog), found.bundle.clone());

        let said = |key: &str| extension.annotations().get(key).map(String::as_str);
        let wish = Wish {
            needy: Needy { package: filter.package_name.clone(), bundle, catalog },
            policy: read(names::DEPENDENCIES, said(names::DEPENDENCIES))?.unwrap_or_default(),
            place: names::DEPENDENCIES,
            ignores_dependencies: said(names::IGNORE_DEPENDENCIES) == Some("true"),
            notes: Vec::new(),
        };

        let approval = read(names::APPROVAL, said(names::APPROVAL))?;
        let of = |extension: &ClusterExtension| {
            let safety = match extension.spec.crd_upgrade_safety() {
                CrdUpgradeSafetyEnforcement::Strict => "strict",
                CrdUpgradeSafetyEnforcement::None => "false",
            };
            Written {
                owner: ("ClusterExtension".to_owned(), extension.name_any()),
                name: deployment_name(&extension.name_any()),
                image: None,
                config: Some(extension.deployment_config()),
                approval,
                operator: None,
                annotations: [(names::SAFE_CRD_UPGRADE.to_owned(), safety.to_owned())].into(),
            }
        };
        let of_member = |package: &str| {
            let spec = ClusterExtensionSpec { config: None, install: None, ..extension.spec.clone() };
            of(&ClusterExtension::new(package, spec))
        };
        self.ask_for((what, of(extension)), wish, of_member).await
    }

    /// Returns the same for a PlatformOperator.
    pub async fn for_operator(&mut self, what: String, operator: &PlatformOperator) -> Result<Vec<Asked>, Unplanned> {
        let package = &operator.spec.package;
        let range = package.version.as_deref().map(Range::parse).transpose();
        let range = range.map_err(|error| Failure::no(format!("spec.package.version: {error}")))?;
        let request = choose::Request { channel: package.channel.clone(), range };
        let offered = find_offered(self.all(true).await?, package)?;
        let choice = choose(&offered.content.packages[&package.name], &request);
        let mut bundle = choice.map_err(|error| Unplanned::Refused(error.to_string()))?.bundle.clone();
        // APIs that it requires are waited for by the BundleDeployment.
        bundle.facts.requires.clear();

        let mut notes = Vec::new();
        if operator.spec.upgrade_policy != Some(UpgradePolicy::Automatic) {
            notes.push(
                "spec.upgradePolicy is Manual: what is installed stays while spec.package is what it is".to_owned(),
            );
        }
        let wish = Wish {
            needy: Needy { package: package.name.clone(), bundle, catalog: offered.name.clone() },
            policy: operator.spec.dependencies.unwrap_or_default(),
            place: "spec.dependencies",
            ignores_dependencies: operator.annotations().get(names::IGNORE_DEPENDENCIES).is_some_and(|it| it == "true"),
            notes,
        };

        let approval = operator.spec.approval;
        let of = |name: &str| Written {
            owner: ("PlatformOperator".to_owned(), name.to_owned()),
            name: name.to_owned(),
            approval,
            operator: Some(operator.spec.clone()),
            ..Written::default()
        };
        self.ask_for((what, of(&operator.name_any())), wish, |package| of(&deployment_name(package))).await
    }

    async fn ask_for(
        &mut self,
        (what, own): (String, Written),
        wish: Wish,
        of_member: impl Fn(&str) -> Written,
    ) -> Result<Vec<Asked>, Unplanned> {
        let Wish { needy, policy, place, ignores_dependencies, mut notes } = wish;
        let present = present(&self.cluster.list(None).await?, &needy.package);
        let is_needy = !ignores_dependencies && !set::are_met(&needy.package, &needy.bundle, present.clone());
        let offers = if is_needy { self.all(false).await?.to_vec() } else { Vec::new() };
        let members =
            if is_needy { set::find(&needy, present, &offers).map_err(Unplanned::Refused)? } else { Vec::new() };

        let all = members.into_iter().map(|member| member.dependency);
        let (coming, new): (Vec<PlannedDependency>, Vec<PlannedDependency>) =
            all.partition(|one| self.asked_for.contains(&one.package));
        notes.extend(coming.iter().map(|one| format!("it waits until {} {} is installed", one.package, one.version)));
        if policy == DependencyPolicy::Refuse && !new.is_empty() {
            let named: Vec<String> = new.iter().map(|one| format!("{} {}", one.package, one.version)).collect();
            return Err(Unplanned::Refused(format!(
                "{} depends on packages that are not installed; what helps is to install {}: {place} Propose asks for that, and \
                 Install does it",
                needy.bundle.name,
                named.join(", ")
            )));
        }

        let mut asked = Vec::new();
        for dependency in &new {
            let written = Written { image: image(&offers, dependency), ..of_member(&dependency.package) };
            let what = format!("{}/{}", written.owner.0.to_lowercase(), dependency.package);
            asked.push(Asked::alone(what, self.deployment(written).await?));
        }
        let deployment = self.deployment(Written { image: needy.bundle.image, ..own }).await?;
        asked.push(Asked { what, deployment, dependencies: new, policy, notes });
        Ok(asked)
    }

    /// The BundleDeployment as the manager would leave it.
    async fn deployment(&self, written: Written) -> Result<BundleDeployment, Unplanned> {
        let Written { owner: (kind, owner), name, image, config, approval, operator, annotations } = written;
        let Some(reference) = image else {
            let text = format!("the bundle for {kind} {owner:?} has no image: only images can be installed");
            return Err(Unplanned::Refused(text));
        };
        let live = self.cluster.deployment(&name).await?;
        let is_owner = |reference: &OwnerReference| {
            reference.controller == Some(true) && reference.kind == kind && reference.name == owner
        };
        if live.as_ref().is_some_and(|live| !live.owner_references().iter().any(is_owner)) {
            return Err(Unplanned::Refused(format!(
                "BundleDeployment {name} exists and was not made for {kind} {owner}; it is left alone. Give the {kind} another name"
            )));
        }
        let roles = operator.and_then(|spec| spec.changed_api_roles(live.as_ref().map(|live| &live.spec)));
        let mut deployment = live.unwrap_or_else(|| {
            let spec = BundleDeploymentSpec {
                provisioner_class_name: CLASS_PLAIN.to_owned(),
                ..BundleDeploymentSpec::default()
            };
            BundleDeployment::new(&name, spec)
        });
        let image = ImageSource { reference, ..ImageSource::default() };
        deployment.spec.template.spec = BundleSpec {
            provisioner_class_name: CLASS_REGISTRY.to_owned(),
            source: BundleSource { type_: "image".to_owned(), image: Some(image), ..BundleSource::default() },
        };
        deployment.spec.config = config.or(deployment.spec.config);
        if let Some(roles) = roles {
            deployment.spec.config.get_or_insert_default().insert(API_ROLES.to_owned(), json!(roles));
        }
        deployment.spec.approval = approval.or(deployment.spec.approval);
        deployment.annotations_mut().extend(annotations);
        // What it depends on was found above.
        let ignored = deployment.annotations_mut().entry(names::IGNORE_DEPENDENCIES.to_owned());
        ignored.or_insert_with(|| names::PACKAGES.to_owned());
        Ok(deployment)
    }

    /// Every ClusterCatalog that is served. Where a choice would depend on it, one that is not is a refusal.
    async fn all(&mut self, must_be_served: bool) -> Result<&[Offered], Unplanned> {
        if self.all.is_none() {
            let looked = why::look(self.cluster, &CatalogFilter::default(), self.system_namespace).await?;
            self.unserved = looked.iter().find_map(why::AskedCatalog::unserved);
            let offered = looked.into_iter().filter_map(why::AskedCatalog::into_offer);
            let offered = offered.map(|(name, priority, content)| {
                let name = format!("{CATALOG}{name}");
                Offered { name, priority, content: Arc::new(content) }
            });
            self.all = Some(offered.collect());
        }
        if let Some(unserved) = self.unserved.clone().filter(|_| must_be_served) {
            return Err(Unplanned::Refused(unserved));
        }
        Ok(self.all.as_deref().unwrap_or_default())
    }
}

/// Clusters without a kind have no object of it.
fn if_served<T>(listed: Result<Vec<T>, cluster::Error>) -> Result<Vec<T>, Failure> {
    match listed {
        Err(cluster::Error::Refused(status)) if status.code == 404 => Ok(Vec::new()),
        listed => Ok(listed?),
    }
}

/// Finds the catalog that the manager takes a package from.
fn find_offered<'a>(offers: &'a [Offered], package: &PlatformPackage) -> Result<&'a Offered, Unplanned> {
    let is_named = |offered: &&Offered| match package.catalog.as_deref() {
        None => true,
        Some(name) => offered.name.strip_prefix(CATALOG).unwrap_or_default() == name.trim_start_matches(CATALOG),
    };
    let has_package = |offered: &&Offered| offered.content.packages.contains_key(&package.name);
    let found: Vec<&Offered> = offers.iter().filter(is_named).filter(has_package).collect();

    let highest = found.iter().map(|offered| offered.priority).max();
    let mut first = found.into_iter().filter(|offered| Some(offered.priority) == highest);
    let refused = |text: &str| Unplanned::Refused(format!("{text} the package {:?}", package.name));
    let Some(offered) = first.next() else { return Err(refused("no ClusterCatalog has")) };
    match first.next() {
        Some(_) => Err(refused("several ClusterCatalogs of the same priority have")),
        None => Ok(offered),
    }
}

/// What BundleDeployments have installed beside `package`, as their status states it. What a tenant's account has installed does not count.
fn present(deployments: &[BundleDeployment], package: &str) -> Vec<Installed> {
    let counts = |deployment: &&BundleDeployment| {
        let is_active = deployment.status.as_ref().is_some_and(|status| status.active_bundle.is_some());
        let owner = controller(&deployment.metadata);
        let is_told = match owner {
            Some(owner) => matches!(owner.kind.as_str(), "ClusterExtension" | "PlatformOperator"),
            None => deployment.spec.service_account.is_none(),
        };
        is_active && is_told && deployment.metadata.deletion_timestamp.is_none()
    };
    let stated = |deployment: &BundleDeployment| {
        let properties = &deployment.status.as_ref()?.inventory.as_ref()?.properties;
        let is_package = properties.iter().any(|one| one.type_ == PACKAGE && one.value["packageName"] == package);
        let facts = Facts::stated(properties.iter().map(|one| (&*one.type_, &one.value))).ok()?;
        (!is_package).then(|| Installed { name: deployment.name_any(), facts: Arc::new(facts) })
    };
    deployments.iter().filter(counts).filter_map(stated).collect()
}

fn image(offers: &[Offered], dependency: &PlannedDependency) -> Option<String> {
    let offered = offers.iter().find(|offered| offered.name == dependency.catalog)?;
    offered.content.packages.get(&dependency.package)?.bundles.get(&dependency.bundle)?.image.clone()
}

/// Reads an annotation that stands for a field.
fn read<T: DeserializeOwned>(key: &str, said: Option<&str>) -> Result<Option<T>, Failure> {
    let read = said.map(|said| serde_json::from_value(json!(said))).transpose();
    read.map_err(|error| Failure::no(format!("annotation {key}: {error}")))
}
