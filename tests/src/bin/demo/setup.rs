//! What has to run before anything can be shown: a control plane, a registry, a git server, and the programs under the
//! ServiceAccounts of the install manifests.

mod look;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::process::PLATFORM_ACCOUNT;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::bundle;
use rukpak_tests::{
    ControllerOptions, GitServer, InstallOptions, Plane, PlatformOptions, Process, Registry, RegistryOptions,
    WebhookOptions, tools,
};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::Cluster;
use crate::objects::named;
use crate::show::Show;
use crate::steps::{NAMESPACE, PACKAGE_NAMESPACE};
use rukpak_tests::kubectl::Terminal;
use rukpak_tests::kubelet::Kubelet;

/// What must go before its definitions; the maker before what it makes.
const MADE: [(&str, &str); 3] = [
    ("platform.openshift.io/v1alpha1", "PlatformOperator"),
    ("core.rukpak.io/v1alpha1", "BundleDeployment"),
    ("core.rukpak.io/v1alpha1", "Bundle"),
];
/// Longest wait for the API server to reach the webhook.
const ADMISSION_DEADLINE: Duration = Duration::from_secs(30);
/// Between two tries: what an API server knows of webhook configurations cannot be watched.
const ADMISSION_INTERVAL: Duration = Duration::from_millis(50);

/// The manifests, from the root of the repository: those of `manifests/install.yaml`, and what PlatformOperators need.
pub const MANIFESTS: &str = "manifests/install-platform.yaml";

/// Everything that runs.
pub struct Setup {
    // Order matters: the programs end before what they talk to.
    platform: OnceCell<Process>,
    /// What its catalog is called, and the image.
    catalog: OnceCell<(String, String)>,
    controller: Process,
    webhook: Process,
    kubelets: Vec<Kubelet>,
    pub registry: Registry,
    pub git: GitServer,
    pub admin: Client,
    plane: Plane,
    /// For the administrator.
    pub terminal: Terminal,
    cluster: Cluster,
    version: String,
    installed: Vec<Target>,
    /// Certificates of registry and git server.
    ca_file: PathBuf,
    folder: tempfile::TempDir,
}

impl Setup {
    /// Starts it all.
    pub async fn start(cluster: Cluster, show: &mut Show) -> Result<Self> {
        show.step("Install");
        let plane = plane(cluster).await?;
        let admin = plane.admin().await?;
        if cluster == Cluster::Current {
            refuse_occupied(&admin).await?;
        }
        let version = admin.apiserver_version().await.context("ask for the API server's version")?.git_version;
        let nodes: Api<Node> = Api::all(admin.clone());
        let has_nodes = !nodes.list(&ListParams::default().limit(1)).await.context("list nodes")?.items.is_empty();

        eprintln!("starting a registry and a git server on loopback");
        let (registry, git) = (Registry::start(RegistryOptions::default()).await?, GitServer::start()?);
        let folder = tools::temp_folder("demo")?;
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, [registry.ca_pem(), git.ca_pem()].concat()).context("write the CA file")?;

        let terminal = Terminal::new(plane.kubeconfig_path())?;

        let installed = plane.install(&manifests(has_nodes)).await?;
        show.command(&format!("kubectl apply --server-side -f {MANIFESTS}"));
        show.lines(installed.objects.iter().map(|target| format!("{} serverside-applied", named(target))));
        let webhook = plane.start_webhook(WebhookOptions::default()).await?;
        let helm = tools::helm().context("build Helm, which renders charts")?;
        let arguments = vec![format!("--source-ca-file={}", ca_file.display()), format!("--helm={}", helm.display())];
        let controller =
            plane.start_controller(ControllerOptions { arguments, ..ControllerOptions::default() }).await?;
        let namespaces: &[&str] = if has_nodes { &[] } else { &[NAMESPACE, PACKAGE_NAMESPACE] };
        let kubelets = namespaces.iter().map(|namespace| Kubelet::play(admin.clone(), namespace)).collect();
        let installed = installed.objects;
        let setup = Self {
            platform: OnceCell::new(),
            catalog: OnceCell::new(),
            controller,
            webhook,
            kubelets,
            registry,
            git,
            admin,
            plane,
            terminal,
            cluster,
            version,
            installed,
            ca_file,
            folder,
        };
        if let Err(error) = setup.await_ready().await {
            setup.end().await?;
            return Err(error);
        }
        setup.remark(show);
        show.done("manifests applied; controller and webhook run under their own ServiceAccounts");
        Ok(setup)
    }

    /// Starts the manager of PlatformOperators with one catalog, an image, and returns when it is ready.
    pub async fn start_platform(&self, catalog: &str, image: &str) -> Result<()> {
        eprintln!("starting rukpak-platform");
        let (catalog, image) = self.catalog.get_or_init(async || (catalog.to_owned(), image.to_owned())).await;
        let source_ca = format!("--source-ca-file={}", self.ca_file.display());
        let arguments = vec![format!("--catalog={catalog}=image:{image}"), source_ca];
        let options = PlatformOptions { arguments, ..PlatformOptions::default() };
        let platform = self.platform.get_or_try_init(|| self.plane.start_platform(options)).await?;
        platform.wait_ready().await
    }

    /// Where it runs, in words.
    pub fn description(&self) -> String {
        let whose = match self.cluster {
            Cluster::Embedded => "embedded control plane",
            Cluster::Current => "current cluster",
        };
        format!("Kubernetes {}, {whose}", self.version)
    }

    /// Whether Pods become ready, because this demo says so.
    pub fn pods_become_ready(&self) -> bool {
        !self.kubelets.is_empty()
    }

    fn remark(&self, show: &Show) {
        show.lines([""]);
        show.remark(&format!(
            "{}. rukpak-controller, rukpak-webhook and later rukpak-platform run on this machine with the tokens of their \
             ServiceAccounts, never as administrator. The lines after \"$\" are typed as they stand, with kubectl, and what follows \
             is what it prints; only what is timed or listed for all kinds at once, and the manifests above, the demo asks for itself.",
            self.description()
        ));
        show.remark(if self.pods_become_ready() {
            "There is no node here: the demo plays the kubelet and writes that Pods are Running and Ready. Nothing runs in them."
        } else {
            "This cluster has nodes, and the image of the example operator does not exist: its Pod never becomes ready, so \
             Healthy stays False and the replaced Bundles stay until the deployment is deleted. The package asks for no Pods."
        });
    }

    async fn await_ready(&self) -> Result<()> {
        self.webhook.wait_ready().await?;
        self.controller.wait_ready().await?;
        self.await_admission().await
    }

    /// Until a Bundle is admitted, tried without writing anything.
    async fn await_admission(&self) -> Result<()> {
        let probe = bundle("demo-probe", json!({"type": "image", "image": {"ref": "localhost/probe"}}));
        let target = Target::of(&probe)?;
        let probe = serde_json::from_value(probe)?;
        let dry_run = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
        let end = tokio::time::Instant::now() + ADMISSION_DEADLINE;
        let bundles = target.api(&self.admin).await?;
        while let Err(error) = bundles.create(&dry_run, &probe).await {
            if tokio::time::Instant::now() > end {
                bail!(
                    "the API server does not reach the webhook, which listens on this machine's loopback interface only \
                     ({error}). CLUSTER=current works with an API server on this machine."
                );
            }
            tokio::time::sleep(ADMISSION_INTERVAL).await;
        }
        Ok(())
    }

    /// Ends everything; on a cluster that was there before, takes away what was installed.
    pub async fn end(self) -> Result<()> {
        if self.cluster == Cluster::Current {
            eprintln!("removing what was installed from the cluster");
            for (api_version, kind) in MADE {
                for target in all(&self.admin, api_version, kind).await? {
                    verbs::delete(&self.admin, &target).await?;
                    verbs::await_deleted(&self.admin, &target, tools::PATIENCE).await?;
                }
            }
            for target in self.installed.iter().rev() {
                verbs::delete(&self.admin, target).await?;
            }
            // The namespace goes last, with what is in it.
            if let Some(namespace) = self.installed.first() {
                verbs::await_deleted(&self.admin, namespace, tools::PATIENCE).await?;
            }
        }
        Ok(())
    }
}

async fn plane(cluster: Cluster) -> Result<Plane> {
    match cluster {
        Cluster::Embedded => {
            eprintln!("starting etcd, kube-apiserver and kube-controller-manager on loopback");
            Plane::start().await
        }
        Cluster::Current => {
            eprintln!("using the cluster of the current kubeconfig context");
            Plane::current().await
        }
    }
}

/// The manifests with what their accounts need; without Pods where there are nodes to run them.
fn manifests(has_nodes: bool) -> InstallOptions {
    let mut options = InstallOptions { without_pods: has_nodes, ..InstallOptions::default() };
    options.files = vec![tools::workspace_folder().join(MANIFESTS)];
    options.accounts.push(PLATFORM_ACCOUNT.to_owned());
    options
}

/// All objects of a cluster-scoped kind.
async fn all(client: &Client, api_version: &str, kind: &str) -> Result<Vec<Target>> {
    let objects = verbs::list(client, api_version, kind, "").await?;
    let target = |name: Option<String>| Target::cluster(api_version, kind, &name.unwrap_or_default());
    Ok(objects.into_iter().map(|object| target(object.metadata.name)).collect())
}

/// The demo installs and removes rukpak: never where one is in use.
async fn refuse_occupied(client: &Client) -> Result<()> {
    let definitions = ["bundles.core.rukpak.io", "platformoperators.platform.openshift.io"]
        .map(|name| Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", name));
    let namespaces =
        [SYSTEM_NAMESPACE, NAMESPACE, PACKAGE_NAMESPACE].map(|name| Target::cluster("v1", "Namespace", name));
    for target in definitions.into_iter().chain(namespaces) {
        if verbs::get(client, &target).await?.is_some() {
            bail!(
                "the current cluster has {target} already; the demo would take it over and delete it at the end, so it stops here"
            );
        }
    }
    Ok(())
}
