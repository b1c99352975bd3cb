//! The bundle that a PlatformOperator or a ClusterExtension would get, with the packages that have to be installed with it.

use std::sync::Arc;

use kube::ResourceExt as _;
use rukpak_catalog::choose::{self, choose};
use rukpak_catalog::resolve::{Installed as Present, Offer, Request, resolve};
use rukpak_catalog::version::Constraint;
use rukpak_catalog::{Bundle, Catalog, Range};
use rukpak_crds::names::{self, CLASS_PLAIN, CLASS_REGISTRY};
use rukpak_crds::olm::cluster_extension::{CatalogFilter, UpgradeConstraintPolicy};
use rukpak_crds::olm::{ClusterExtension, deployment_name};
use rukpak_crds::plan::{ApprovalPolicy, PlannedDependency};
use rukpak_crds::{BundleDeployment, DependencyPolicy, PlatformOperator};
use rukpak_resolver::set::{self, Member, Needy, Offered};
use rukpak_resolver::{Facts, Installed, PACKAGE};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Asked;
use crate::cluster::Cluster;
use crate::extension::{installed, why};
use crate::failure::Failure;

/// What a status calls a ClusterCatalog.
const CATALOG: &str = "ClusterCatalog/";

/// What the ClusterCatalogs offer. The catalogs that the manager is configured with are not known here.
pub(super) struct Offers<'a> {
    cluster: &'a Cluster,
    system_namespace: &'a str,
    all: Option<Vec<Offered>>,
}

/// What an object says of what it installs.
struct Wish {
    package: String,
    /// The name of the catalog that its bundle is from.
    catalog: String,
    bundle: Bundle,
    policy: DependencyPolicy,
    ignores_dependencies: bool,
}

impl<'a> Offers<'a> {
    pub fn new(cluster: &'a Cluster, system_namespace: &'a str) -> Self {
        Self { cluster, system_namespace, all: None }
    }

    /// Each package that would be installed, the one that is asked for last; or why nothing would be.
    pub async fn for_extension(
        &mut self,
        what: String,
        extension: &ClusterExtension,
    ) -> Result<Result<Vec<Asked>, String>, Failure> {
        let filter = extension.spec.catalog().map_err(|violation| Failure::no(violation.to_string()))?;
        let looked = why::look(self.cluster, filter, self.system_namespace).await?;
        let held: Vec<Held<'_>> = looked.iter().filter_map(why::AskedCatalog::offer).collect();
        let (catalog, bundle) = match chosen(extension, filter, &held)? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let said = |key: &str| extension.annotations().get(key).map(String::as_str);
        let wish = Wish {
            package: filter.package_name.clone(),
            catalog,
            bundle,
            policy: read(names::DEPENDENCIES, said(names::DEPENDENCIES))?,
            ignores_dependencies: said(names::IGNORE_DEPENDENCIES) == Some("true"),
        };
        let approval: ApprovalPolicy = read(names::APPROVAL, said(names::APPROVAL))?;
        let named = |name: &str| ClusterExtension {
            metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..kube::api::ObjectMeta::default() },
            ..extension.clone()
        };
        let deployment = |extension: &ClusterExtension| {
            (deployment_name(&extension.name_any()), json!(extension.deployment_config()))
        };
        let of_member = |package: &str| {
            let mut member = named(package);
            member.spec.config = None;
            deployment(&member)
        };
        self.asked((what, "clusterextension"), wish, (deployment(extension), of_member), approval).await
    }

    /// The same.
    pub async fn for_operator(
        &mut self,
        what: String,
        operator: &PlatformOperator,
    ) -> Result<Result<Vec<Asked>, String>, Failure> {
        let package = &operator.spec.package;
        let range = package.version.as_deref().map(Range::parse).transpose();
        let range = range.map_err(|error| Failure::no(format!("spec.package.version: {error}")))?;
        let request = choose::Request { channel: package.channel.clone(), range };
        let offers = self.all().await?;
        let is_named = |offered: &&Offered| match package.catalog.as_deref() {
            None => true,
            Some(name) => offered.name.strip_prefix(CATALOG).unwrap_or_default() == name.trim_start_matches(CATALOG),
        };
        let found =
            offers.iter().filter(is_named).filter(|offered| offered.content.packages.contains_key(&package.name));
        // The manager refuses a tie; here the first one answers.
        let Some(offered) = found.max_by_key(|offered| offered.priority) else {
            return Ok(Err(format!("no ClusterCatalog has the package {:?}", package.name)));
        };
        let bundle = match choose(&offered.content.packages[&package.name], &request) {
            Ok(choice) => choice.bundle.clone(),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let wish = Wish {
            package: package.name.clone(),
            catalog: offered.name.clone(),
            bundle,
            policy: operator.spec.dependencies.unwrap_or_default(),
            ignores_dependencies: operator.annotations().get(names::IGNORE_DEPENDENCIES).is_some_and(|it| it == "true"),
        };
        let of_member = |package: &str| (deployment_name(package), Value::Null);
        let own = (operator.name_any(), Value::Null);
        self.asked((what, "platformoperator"), wish, (own, of_member), operator.spec.approval.unwrap_or_default()).await
    }

    async fn asked(
        &mut self,
        (what, kind): (String, &str),
        wish: Wish,
        (own, of_member): ((String, Value), impl Fn(&str) -> (String, Value)),
        approval: ApprovalPolicy,
    ) -> Result<Result<Vec<Asked>, String>, Failure> {
        let Wish { package, catalog, bundle, policy, ignores_dependencies } = wish;
        let present = present(&self.cluster.all_deployments(None).await?, &package);
        let offers = self.all().await?;
        let needy = Needy { package, bundle, catalog };
        let members = if ignores_dependencies {
            Vec::new()
        } else {
            match set::find(&needy, present, offers) {
                Ok(members) => members,
                Err(why) => return Ok(Err(why)),
            }
        };
        let dependencies: Vec<PlannedDependency> = members.iter().map(planned).collect();
        if policy == DependencyPolicy::Refuse && !dependencies.is_empty() {
            let named: Vec<String> =
                dependencies.iter().map(|one| format!("{} {}", one.package, one.version)).collect();
            return Ok(Err(format!(
                "{} depends on packages that are not installed; what helps is to install {}: the policy Propose for dependencies asks \
                 for that, and Install does it",
                needy.bundle.name,
                named.join(", ")
            )));
        }
        let images: Vec<Option<String>> = dependencies.iter().map(|one| image(offers, one)).collect();
        let mut asked = Vec::new();
        for (dependency, image) in dependencies.iter().zip(images) {
            let (name, config) = of_member(&dependency.package);
            let deployment = self.deployment(&name, config, image.as_deref(), approval).await?;
            asked.push(Asked::alone(format!("{kind}/{}", dependency.package), deployment));
        }
        let (name, config) = own;
        let deployment = self.deployment(&name, config, needy.bundle.image.as_deref(), approval).await?;
        asked.push(Asked { what, deployment, dependencies, policy });
        Ok(Ok(asked))
    }

    /// The BundleDeployment as the manager would write it, with what the cluster knows of it.
    async fn deployment(
        &self,
        name: &str,
        config: Value,
        image: Option<&str>,
        approval: ApprovalPolicy,
    ) -> Result<BundleDeployment, Failure> {
        let Some(image) = image else {
            return Err(Failure::no(format!("the bundle for {name:?} has no image: only images can be installed")));
        };
        let template = json!({"spec": {"provisionerClassName": CLASS_REGISTRY,
                                       "source": {"type": "image", "image": {"ref": image}}}});
        let made: BundleDeployment = serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
            // What it depends on was found above.
            "metadata": {"name": name, "annotations": {names::IGNORE_DEPENDENCIES: names::PACKAGES}},
            "spec": {"provisionerClassName": CLASS_PLAIN, "template": template, "config": config, "approval": approval},
        }))
        .map_err(|error| Failure::unknown(error.to_string()))?;
        super::as_applied(self.cluster, made).await
    }

    /// Every ClusterCatalog that is served.
    async fn all(&mut self) -> Result<&[Offered], Failure> {
        if self.all.is_none() {
            let looked = why::look(self.cluster, &CatalogFilter::default(), self.system_namespace).await?;
            let offered = looked.into_iter().filter_map(why::AskedCatalog::into_offer);
            let offered = offered.map(|(name, priority, content)| {
                let name = format!("{CATALOG}{name}");
                Offered { name, priority, content: Arc::new(content) }
            });
            self.all = Some(offered.collect());
        }
        Ok(self.all.as_deref().unwrap_or_default())
    }
}

/// A catalog, its priority, and what it holds.
type Held<'a> = (&'a str, i32, &'a Catalog);

/// The bundle that the catalogs make of the request, and its catalog; or why there is none.
fn chosen(
    extension: &ClusterExtension,
    filter: &CatalogFilter,
    held: &[Held<'_>],
) -> Result<Result<(String, Bundle), String>, Failure> {
    let range = filter.version.as_deref().filter(|text| !text.is_empty()).map(Constraint::parse).transpose();
    let range = range.map_err(|error| Failure::no(format!("desired version range is invalid: {error}")))?;
    let offers: Vec<Offer<'_>> = held
        .iter()
        .filter_map(|(catalog, priority, content)| {
            let package = content.packages.get(&filter.package_name)?;
            Some(Offer { catalog, priority: *priority, package })
        })
        .collect();
    let present = installed(extension);
    let request = Request {
        package: &filter.package_name,
        version: range.as_ref(),
        channels: &filter.channels,
        installed: present.map(|it| Present { name: it.bundle, version: it.version, release: it.release }),
        is_self_certified: filter.upgrade_constraint_policy == UpgradeConstraintPolicy::SelfCertified,
        ignores_dependencies: true,
    };
    let found = resolve(&offers, request).map_err(|error| error.to_string());
    Ok(found.map(|found| (format!("{CATALOG}{}", found.catalog), found.bundle.clone())))
}

/// What BundleDeployments have installed beside `package`, as their status states it. What a tenant's account has installed does not
/// count, as in the manager.
fn present(deployments: &[BundleDeployment], package: &str) -> Vec<Installed> {
    let counts = |deployment: &&BundleDeployment| {
        let is_owned = deployment.owner_references().iter().any(|owner| owner.controller == Some(true));
        deployment.metadata.deletion_timestamp.is_none() && (is_owned || deployment.spec.service_account.is_none())
    };
    let stated = |deployment: &BundleDeployment| {
        let properties = &deployment.status.as_ref()?.inventory.as_ref()?.properties;
        let is_package = properties.iter().any(|one| one.type_ == PACKAGE && one.value["packageName"] == package);
        let facts = Facts::stated(properties.iter().map(|one| (&*one.type_, &one.value))).ok()?;
        (!is_package).then(|| Installed { name: deployment.name_any(), facts: Arc::new(facts) })
    };
    deployments.iter().filter(counts).filter_map(stated).collect()
}

fn planned(Member { step, .. }: &Member) -> PlannedDependency {
    let bundle = step.bundle.clone();
    PlannedDependency {
        package: bundle.package,
        version: bundle.version,
        bundle: bundle.name,
        channel: bundle.channel,
        catalog: bundle.catalog.map(|catalog| catalog.name).unwrap_or_default(),
        needed_by: step.needed_by.iter().map(ToString::to_string).collect(),
    }
}

fn image(offers: &[Offered], dependency: &PlannedDependency) -> Option<String> {
    let offered = offers.iter().find(|offered| offered.name == dependency.catalog)?;
    offered.content.packages.get(&dependency.package)?.bundles.get(&dependency.bundle)?.image.clone()
}

/// The value of an annotation that stands for a field.
fn read<T: DeserializeOwned + Default>(key: &str, said: Option<&str>) -> Result<T, Failure> {
    let Some(said) = said else { return Ok(T::default()) };
    serde_json::from_value(json!(said)).map_err(|error| Failure::no(format!("annotation {key}: {error}")))
}
