//! What the tests stand on: a plane with our programs, OLM v0's kinds and a CatalogSource, and a registry.

use std::ops::Deref;
use std::path::Path;

use rukpak_tests::openshift::{self, CatalogSource};
use rukpak_tests::{InstallOptions, Plane, olmv0, tools};
use tokio::sync::OnceCell;

use crate::olmv1::world::{World as Programs, ca_file};

/// Namespace and name of the CatalogSource.
pub const CATALOG: (&str, &str) = ("olm", "community");

/// Everything that runs.
pub struct World {
    programs: Programs,
    pub source: CatalogSource,
}

/// Beside the catalog it is a world of OLM v1.
impl Deref for World {
    type Target = Programs;

    fn deref(&self) -> &Programs {
        &self.programs
    }
}

/// What the program did.
#[derive(Debug)]
pub struct Did {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

static SHARED: OnceCell<World> = OnceCell::const_new();

impl World {
    /// The world of tests that do not meet.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::new).await
    }

    /// One of its own.
    pub async fn new() -> Self {
        let mut manifests = InstallOptions { without_webhooks: true, ..InstallOptions::with_olm() };
        manifests.files.extend(openshift::definitions());
        manifests.files.push(olmv0::definitions());
        let catalog = format!("--catalog-source={}/{}", CATALOG.0, CATALOG.1);
        let programs = Programs::start(&manifests, &[&catalog]).await;
        let source = CatalogSource::new(CATALOG);
        source.connect(&programs.admin().await).await;
        Self { programs, source }
    }

    /// Runs `rukpakctl migrate` with the administrator's kubeconfig.
    pub async fn migrate(&self, arguments: &[&str]) -> Did {
        self.migrate_by(self.plane.kubeconfig_path(), arguments).await
    }

    /// Runs `rukpakctl migrate` with a kubeconfig.
    pub async fn migrate_by(&self, kubeconfig: &Path, arguments: &[&str]) -> Did {
        migrate(&self.plane, kubeconfig, arguments).await
    }
}

/// Runs `rukpakctl migrate` on a plane.
pub async fn migrate(plane: &Plane, kubeconfig: &Path, arguments: &[&str]) -> Did {
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let mut command = tokio::process::Command::new(program);
    command.arg("migrate").args(arguments).arg("--ca-file").arg(ca_file(plane)).env("KUBECONFIG", kubeconfig);
    command.kill_on_drop(true);
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE"] {
        command.env_remove(proxy);
    }
    let output = command.output().await.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Did { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}
