//! What somebody needs to look around, where everything is left running.

use anyhow::{Context, Result};
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::process::PLATFORM_ACCOUNT;
use rukpak_tests::tools;

use super::Setup;
use crate::Cluster;
use crate::show::Show;
use crate::steps::{INSTALLED_AGAIN, PLATFORM_OPERATOR};

/// How `rukpakctl` is called from the root of the repository.
const RUKPAKCTL: &str = "target/debug/rukpakctl";

impl Setup {
    /// For KEEP=1.
    pub fn say_how_to_look(&self, show: &Show) -> Result<()> {
        show.lines(["\n=== Left running"]);
        if self.cluster == Cluster::Embedded {
            show.lines([format!("  export KUBECONFIG={}", self.plane.kubeconfig_path().display())]);
        }
        let (ca, endpoint) = (self.ca_file.display(), format!("https://localhost:{}", self.controller.content_port));
        let operator = format!("platformoperator {PLATFORM_OPERATOR}");
        item(show, "installed again", format!("bundledeployment {INSTALLED_AGAIN}, {operator}"));
        item(show, "", "kubectl get bundledeployments,bundles,platformoperators");
        item(show, "rukpakctl", "cargo build --workspace --bin rukpakctl");
        item(show, "", format!("{RUKPAKCTL} status"));
        item(show, "image registry", format!("https://{}", self.registry.host()));
        item(show, "git server", self.git.base_url());
        item(show, "their CA file", &ca);
        if let Some((_, image)) = self.catalog.get() {
            item(show, "catalog", image);
            item(show, "", format!("{RUKPAKCTL} catalog list image:{image} --ca-file={ca}"));
        }
        item(show, "content service", format!("{endpoint}, for the user of the kubeconfig"));
        item(show, "", format!("{RUKPAKCTL} run NAME FOLDER --endpoint={endpoint}"));
        item(show, "", format!("{RUKPAKCTL} content BUNDLE --endpoint={endpoint}"));
        item(show, "another catalog", "end rukpak-platform, and start it with that (or dir:FOLDER):");
        for line in self.restart()? {
            item(show, "", line);
        }
        let programs = [Some(&self.controller), Some(&self.webhook), self.platform.get()];
        for (index, program) in programs.into_iter().flatten().enumerate() {
            item(show, if index == 0 { "logs" } else { "" }, program.log_path().display());
        }
        item(show, "to end it all", format!("Ctrl-C here, or: kill {}", std::process::id()));
        Ok(())
    }

    /// The commands that put another `rukpak-platform` in place of ours, under the same ServiceAccount.
    fn restart(&self) -> Result<Vec<String>> {
        let storage = self.folder.path().join("catalogs");
        std::fs::create_dir_all(&storage).with_context(|| format!("create {}", storage.display()))?;
        let program = tools::workspace_binary("rukpak-platform")?;
        let pid = self.platform.get().and_then(rukpak_tests::Process::pid).context("rukpak-platform does not run")?;
        let (catalog, image) = self.catalog.get().context("there is no catalog")?;
        let arguments = [
            format!("kill {pid}"),
            format!("KUBECONFIG={} \\", self.plane.account_kubeconfig(PLATFORM_ACCOUNT).display()),
            format!("  {} --system-namespace={SYSTEM_NAMESPACE} \\", program.display()),
            format!("  --storage-dir={} --source-ca-file={} \\", storage.display(), self.ca_file.display()),
            "  --metrics-bind-address=0 --health-probe-bind-address=0 --log-format=text \\".to_owned(),
            format!("  --catalog={catalog}=image:{image}"),
        ];
        Ok(arguments.into())
    }
}

fn item(show: &Show, label: &str, text: impl std::fmt::Display) {
    show.lines([format!("  {label:<15} {text}")]);
}
