//! What a bundle means to a BundleDeployment: the files of a Bundle, rendered by the code and the settings by which the
//! controller renders them.

use rukpak_content::{BundleTree, Digest, Limits};
use rukpak_crds::names::{IGNORE_DEPENDENCIES, PACKAGES};
use rukpak_crds::{Bundle, BundleDeployment, DeletionPolicy};
use rukpak_format::{BundleFormat as _, Certificates, Format, Proxy, Rendered, Settings};
use rukpak_plan::hook::{self, Event};
use rukpak_plan::owner_metadata::OwnerMetadata;
use rukpak_plan::plan::{DeclaredTwice, Objects};
use rukpak_plan::{Owner, Plan, Release};

use crate::args::CertProvider;
use crate::chart::{self, Rendering};
use crate::cluster::Cluster;
use crate::content::unpack;
use crate::failure::Failure;
use crate::output::chain;
use crate::service::Service;
use crate::source::{self, Content};

/// The UID of a BundleDeployment that is not there yet.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Reads bundles as the controller reads them for a BundleDeployment.
pub struct Reader<'a> {
    /// The BundleDeployment, if it is there.
    pub deployment: Option<&'a BundleDeployment>,
    pub name: &'a str,
    /// Where RukPak runs: the namespace of objects that name none.
    pub system_namespace: &'a str,
    /// Who makes the certificates of webhooks.
    pub certificates: Option<CertProvider>,
    pub rendering: Rendering,
}

impl<'a> Reader<'a> {
    /// Reads for a BundleDeployment as it is, by the settings of a controller without flags.
    pub fn of(deployment: &'a BundleDeployment, system_namespace: &'a str) -> Self {
        Self {
            deployment: Some(deployment),
            name: deployment.metadata.name.as_deref().unwrap_or_default(),
            system_namespace,
            certificates: None,
            rendering: Rendering::default(),
        }
    }
}

impl Reader<'_> {
    /// Whom the objects belong to.
    pub fn owner(&self) -> Owner {
        let uid = self.deployment.and_then(|deployment| deployment.metadata.uid.clone());
        Owner { name: self.name.to_owned(), uid: uid.unwrap_or_else(|| NO_UID.to_owned()) }
    }

    /// Renders a bundle and plans its objects, and its hooks at every event. `is_installed`: what it depends on is not asked for again.
    pub async fn plan(
        &self,
        cluster: &Cluster,
        tree: &BundleTree,
        format: Format,
        is_installed: bool,
    ) -> Result<Plan, Failure> {
        let Rendered { objects, hooks, optional, required, .. } =
            self.render(cluster, tree, format, is_installed).await?;
        let objects = Objects { all: objects, optional: &optional, required: &required };
        let mut kinds = objects.kinds();
        kinds.extend(hook::kinds(&hooks));
        let served = cluster.served(kinds).await?;
        let policy = self.deployment.and_then(|deployment| deployment.spec.deletion_policy);
        let stamp = OwnerMetadata {
            owner: self.owner(),
            default_namespace: self.system_namespace.to_owned(),
            policy: policy.unwrap_or(DeletionPolicy::Delete),
        };
        // Nothing here is told apart by its content.
        let release = Release::new(Digest::sha256(b""), format, None);
        let twice = |twice: DeclaredTwice| Failure::no(twice.to_string());
        let mut plan = objects.plan(release, &served, &stamp, is_installed).map_err(twice)?;
        let (hooks, missing) = hook::plan(&hooks, &Event::ALL, &served, &stamp);
        hook::check(&hooks, &plan.steps).map_err(twice)?;
        if !is_installed {
            plan.missing.extend(missing);
        }
        Ok(Plan { hooks, ..plan })
    }

    pub async fn render(
        &self,
        cluster: &Cluster,
        tree: &BundleTree,
        format: Format,
        is_installed: bool,
    ) -> Result<Rendered, Failure> {
        let annotations = self.deployment.and_then(|deployment| deployment.metadata.annotations.as_ref());
        let ignored = annotations.and_then(|all| all.get(IGNORE_DEPENDENCIES)).map(String::as_str);
        let ignores_all = is_installed || ignored == Some("true");
        let mut config = self.deployment.and_then(|deployment| deployment.spec.config.clone());
        if let Some(values) = chart::config(self.rendering.values.clone()) {
            config.get_or_insert_default().extend(values);
        }
        let chart = match format {
            Format::Helm => {
                let release = (self.name, self.system_namespace);
                Some(chart::render_for(cluster, tree, release, config.as_ref(), &self.rendering).await?)
            }
            Format::Plain | Format::Registry => None,
        };
        let kubernetes = match format {
            Format::Registry if !ignores_all => Some(cluster.kubernetes().await?),
            _ => None,
        };
        let proxy = match format {
            Format::Registry => cluster.proxy().await?,
            Format::Plain | Format::Helm => Proxy::default(),
        };
        let inventory = self.deployment.and_then(|deployment| deployment.status.as_ref()?.inventory.as_ref());
        let settings = Settings {
            config,
            namespace: inventory.and_then(|inventory| inventory.namespace.clone()),
            certificates: certificates(self.certificates),
            ignores_dependencies: ignores_all || ignored == Some(PACKAGES),
            kubernetes,
            proxy,
        };
        format
            .render(chart.as_ref().unwrap_or(tree), &Limits::default(), &settings)
            .map_err(|error| Failure::no(chain(&error)))
    }

    /// The files of the Bundle that is installed, and their format.
    pub async fn installed(&self, cluster: &Cluster, service: &Service) -> Result<(Content, Format), Failure> {
        let status = self.deployment.and_then(|deployment| deployment.status.as_ref());
        let Some(bundle) = status.and_then(|status| status.active_bundle.clone()) else {
            let text = format!("bundledeployment {:?} has installed nothing yet", self.name);
            return Err(Failure::no(text).hint(format!("rukpakctl status {}", self.name)));
        };
        let found: Bundle = cluster.get(&bundle).await?;
        self.of_bundle(service, &found).await
    }

    /// The files of an unpacked Bundle, and their format.
    pub async fn of_bundle(&self, service: &Service, bundle: &Bundle) -> Result<(Content, Format), Failure> {
        let class = &bundle.spec.provisioner_class_name;
        let format = Format::of_class(class).ok_or_else(|| foreign_class(class))?;
        let name = bundle.metadata.name.as_deref().unwrap_or_default();
        let file = service.fetch_source(name).await?;
        let unreadable =
            |failure: Failure| Failure::unknown(format!("read the content of bundle {name:?}: {}", failure.text));
        let stage = unpack(file).map_err(unreadable)?;
        let content = source::content(&stage, format!("bundle {name:?}"), Vec::new());
        content.map(|content| (content, format)).map_err(unreadable)
    }
}

/// Nobody but its provisioner knows what such a bundle means.
pub fn foreign_class(class: &str) -> Failure {
    Failure::unknown(format!("bundles of class {class:?} are read by another provisioner"))
}

fn certificates(provider: Option<CertProvider>) -> Certificates {
    match provider {
        None | Some(CertProvider::Own) => Certificates::SelfManaged,
        Some(CertProvider::CertManager) => Certificates::CertManager,
        Some(CertProvider::ServiceCa) => Certificates::ServiceCa,
    }
}
