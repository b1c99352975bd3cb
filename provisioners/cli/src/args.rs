//! The flags.

mod bundle;
mod catalog;
mod cluster;
mod deployment;
mod diff;
mod extension;
mod image;
mod install;
mod migrate;
mod namespace;
mod output;
mod plan;
mod rights;
mod shell;
mod trust;
mod ui;
mod values;
mod wait;

use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use bundle::{
    CertProvider, ChartArgs, ExamplesArgs, ObjectForm, RegistryArgs, RenderArgs, SourceArgs, ValidateArgs,
};
pub use catalog::{CatalogArgs, CatalogCommand, CatalogServerArgs, ListArgs, ShowArgs};
pub use cluster::{ClusterArgs, ContentArgs, ServiceArgs, StatusArgs};
pub use deployment::{DeploymentArgs, RollbackArgs, WaitingArgs, WhyArgs};
pub use diff::DiffArgs;
pub use extension::{ExtensionArgs, ExtensionCommand, ListExtensionsArgs, WhyExtensionArgs};
pub use image::{ExportArgs, ImportArgs, PackageArgs, PullArgs};
pub use install::{GitArgs, InstallArgs, RunArgs};
pub use migrate::{Kind, MigrateArgs};
pub use output::{AnswerForm, OutputArgs, OutputForm};
pub use plan::{ListPlansArgs, PlanArgs, PlanCommand, PlanVerb, PreviewArgs};
pub use rights::{PolicyArgs, RightsArgs, RoleForm};
pub use shell::{CompletionArgs, ManArgs};
pub use trust::TrustArgs;
pub use ui::UiArgs;
pub use values::ValuesArgs;
pub use wait::WaitArgs;

macro_rules! exit_codes {
    () => {
        "Exit codes: 0 yes, 1 no (what is wrong is said), 2 could not find out (also: wrong flags)"
    };
}

/// What stands below the flags of a verb.
macro_rules! examples {
    ($($line:literal)*) => {
        concat!("Examples:\n", $("  ", $line, "\n",)* "\n", exit_codes!())
    };
}

/// `diff` has exit codes of its own, those of the program of that name.
macro_rules! diff_examples {
    () => {
        concat!(
            "Examples:\n",
            "  rukpakctl diff pump-operator              # has anything drifted?\n",
            "  rukpakctl diff pump-operator registry.example.com/pump-operator:v1.1.0\n",
            "  rukpakctl diff pump-operator ./pump-operator -o json\n\n",
            "Exit codes: 0 no change, 1 changes, 2 could not find out (also: wrong flags)"
        )
    };
}

/// So has `plan`: whoever scripts it wants to know whether somebody is asked.
macro_rules! plan_examples {
    () => {
        concat!(
            "Examples:\n",
            "  rukpakctl plan pump-operator.yaml           # what would be installed, changed, granted and asked\n",
            "  rukpakctl plan clusterextension/pump-operator\n",
            "  rukpakctl plan list\n",
            "  rukpakctl plan show pump-operator-3c1f0a92be\n",
            "  rukpakctl plan approve pump-operator-3c1f0a92be\n\n",
            "Exit codes: 0 yes, 1 no or not found out (what is wrong is said), 2 somebody has to say yes first (also: wrong flags)"
        )
    };
}

const EXIT_CODES: &str = exit_codes!();
/// The name of the program.
pub const NAME: &str = "rukpakctl";
/// The name that makes it a plugin of kubectl.
const PLUGIN: &str = "kubectl-rukpak";

/// Renders and validates bundles without a cluster, installs them on one, and explains their state
#[derive(Parser, Debug)]
#[command(name = NAME, version, max_term_width = 120, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What is to be done.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Print the objects that a bundle installs
    #[command(after_help = examples!(
        "rukpakctl render ./pump-operator"
        "rukpakctl render registry.example.com/pump-operator:v1.0.0 --target-namespaces pumps"
        "rukpakctl render ./pump-chart --values values.yaml --set image.tag=v2"
    ))]
    Render(RenderArgs),
    /// Print everything that is wrong with a bundle
    #[command(after_help = examples!(
        "rukpakctl validate ./pump-operator"
        "rukpakctl validate registry.example.com/pump-operator:v1.0.0 -o json"
    ))]
    Validate(ValidateArgs),
    /// Print the roles that a ServiceAccount needs to install, upgrade and remove a bundle
    #[command(after_help = examples!(
        "rukpakctl rights registry.example.com/shop:v1.0.0 --name shop --service-account shop/installer | kubectl apply -f -"
        "rukpakctl rights ./shop -o name"
        "rukpakctl rights bundledeployment/shop          # bound to its spec.serviceAccount"
    ))]
    Rights(RightsArgs),
    /// Print objects of an operator's kinds, as its bundle shows them in alm-examples
    #[command(after_help = examples!(
        "rukpakctl examples pump-operator                # of what is installed"
        "rukpakctl examples pump-operator pump | kubectl apply -f -"
        "rukpakctl examples registry.example.com/pump-operator:v1.0.0"
        "rukpakctl examples ./pump-operator"
    ))]
    Examples(ExamplesArgs),
    /// Print the admission policies that keep tenants to what an InstallPolicy allows them
    #[command(after_help = examples!("rukpakctl policy shop.yaml | kubectl apply -f -"))]
    Policy(PolicyArgs),
    /// Install a bundle under a new name, and wait until it is installed and healthy
    #[command(after_help = examples!(
        "rukpakctl install pump-operator registry.example.com/pump-operator:v1.0.0"
        "rukpakctl install pump-operator https://example.com/pump-operator.git --tag v1.0.0 --directory bundle"
        "rukpakctl install pump-operator ./pump-operator              # a folder, uploaded"
        "rukpakctl install pump-operator pump-operator.tgz --timeout 10m"
        "rukpakctl install pump-operator ./pump-operator --wait=false"
    ))]
    Install(InstallArgs),
    /// Replace an installed bundle by another one, and wait until that is installed and healthy
    #[command(after_help = examples!(
        "rukpakctl upgrade pump-operator registry.example.com/pump-operator:v1.1.0"
        "rukpakctl upgrade pump-operator https://example.com/pump-operator.git --tag v1.1.0"
        "rukpakctl upgrade pump-operator ./pump-operator"
    ))]
    Upgrade(InstallArgs),
    /// Print what an upgrade would change, or how the cluster differs from what is installed
    #[command(after_help = diff_examples!())]
    Diff(DiffArgs),
    /// Install a folder as a bundle, or replace what was installed from it
    #[command(after_help = examples!(
        "rukpakctl run pump-operator ./pump-operator"
        "rukpakctl run pump-operator ./pump-operator --wait --timeout 10m"
    ))]
    Run(RunArgs),
    /// Build the image of a bundle and push it; the same files make the same image
    #[command(after_help = examples!(
        "rukpakctl package ./pump-operator registry.example.com/pump-operator:v1.0.0"
        "rukpakctl package ./pump-operator oci:./layout              # without a registry"
        "rukpakctl package ./pump-operator oci-archive:pump.tar"
    ))]
    Package(PackageArgs),
    /// Write the files of an image to a folder
    #[command(after_help = examples!("rukpakctl pull registry.example.com/pump-operator:v1.0.0 ./pump-operator"))]
    Pull(PullArgs),
    /// Write a bundle with every image that it names to an image layout, for a registry without a way out
    #[command(after_help = examples!(
        "rukpakctl export registry.example.com/pump-operator:v1.0.0 ./layout"
        "rukpakctl export ./pump-operator ./layout --image registry.example.com/extra:v1"
        "rukpakctl export pump-operator ./layout --catalog cluster:operatorhubio --channel stable"
        "rukpakctl export pump-operator ./layout --catalog image:registry.example.com/catalog:v1 --version 1.x"
    ))]
    Export(ExportArgs),
    /// Push the images of an image layout to a registry, and print where each of them is
    #[command(after_help = examples!("rukpakctl import ./layout registry.internal.example.com/mirror"))]
    Import(ImportArgs),
    /// Print the names of the files that a Bundle of the cluster holds, or write the files to a folder
    #[command(after_help = examples!(
        "rukpakctl content \"$(kubectl get bundledeployment pump-operator -o jsonpath='{.status.activeBundle}')\" --extract ./pump-operator"
    ))]
    Content(ContentArgs),
    /// Look into a catalog of packages: a ClusterCatalog, or one that no cluster has
    #[command(subcommand, after_help = examples!(
        "rukpakctl catalog list cluster:operatorhubio"
        "rukpakctl catalog show image:registry.example.com/catalog:v1 pump-operator --channel stable"
    ))]
    Catalog(CatalogCommand),
    /// Print the state of ClusterExtensions, and which bundles of the catalogs they could have
    #[command(subcommand, after_help = examples!(
        "rukpakctl extension list"
        "rukpakctl extension show pump-operator"
        "rukpakctl extension why pump-operator     # each bundle of each catalog, and why not"
    ))]
    Extension(ExtensionCommand),
    /// Write the ClusterExtension for an installed PlatformOperator or BundleDeployment, or the way back, or the PlatformOperator for
    /// what OLM v0 has installed; --apply hands over what is installed, without touching it
    #[command(after_help = examples!(
        "rukpakctl migrate subscription/pump-operator -n operators    # from OLM v0: prints the PlatformOperator, and what would be done"
        "rukpakctl migrate --all --apply                              # every subscription"
        "rukpakctl migrate subscription/pump-operator -n operators --back --apply"
        "rukpakctl migrate platformoperator/pump-operator             # prints the ClusterExtension, and what would be done"
        "rukpakctl migrate platformoperator/pump-operator --apply"
        "rukpakctl migrate bundledeployment/pump-operator --apply"
        "rukpakctl migrate clusterextension/pump-operator --to platformoperator --apply"
        "rukpakctl migrate clusterextension/pump-operator --to bundledeployment --apply"
    ))]
    Migrate(MigrateArgs),
    /// Print the state of all BundleDeployments and PlatformOperators, or of one BundleDeployment
    #[command(after_help = examples!(
        "rukpakctl status"
        "rukpakctl status -l team=water -o wide"
        "rukpakctl status pump-operator              # conditions and revisions"
        "rukpakctl status pump-operator -o yaml"
    ))]
    Status(StatusArgs),
    /// Print what installing something would do, before anything is created; or print what waits for a yes, and answer it
    #[command(after_help = plan_examples!())]
    Plan(PlanVerb),
    /// List the revisions of a BundleDeployment
    #[command(after_help = examples!(
        "rukpakctl history pump-operator"
        "rukpakctl history pump-operator -o wide     # with source and content"
    ))]
    History(DeploymentArgs),
    /// Install an earlier revision in place of the template of a BundleDeployment
    #[command(after_help = examples!(
        "rukpakctl rollback pump-operator                    # to the revision before"
        "rukpakctl rollback pump-operator --to-revision 3"
        "kubectl patch bundledeployment pump-operator --type=merge -p '{\"spec\":{\"rollbackTo\":null}}'   # follow the template again"
    ))]
    Rollback(RollbackArgs),
    /// Stop all writes for a BundleDeployment; its status is still reported
    #[command(after_help = examples!("rukpakctl suspend pump-operator"))]
    Suspend(DeploymentArgs),
    /// Undo suspend: upgrades go on, and what has drifted meanwhile is repaired
    #[command(after_help = examples!("rukpakctl resume pump-operator"))]
    Resume(DeploymentArgs),
    /// Try again at once what failed, whatever its back-off
    #[command(after_help = examples!(
        "rukpakctl reconcile pump-operator"
        "rukpakctl reconcile pump-operator --wait=false"
    ))]
    Reconcile(WaitingArgs),
    /// Delete a BundleDeployment with all that it installed, and say what holds that up
    #[command(after_help = examples!(
        "rukpakctl delete pump-operator"
        "rukpakctl delete pump-operator --timeout 10m"
        "rukpakctl delete pump-operator --wait=false"
    ))]
    Delete(WaitingArgs),
    /// Print a BundleDeployment with its Bundles, and its objects with their health
    #[command(after_help = examples!(
        "rukpakctl tree pump-operator"
        "rukpakctl tree pump-operator -o wide        # with sources, and why something is healthy"
    ))]
    Tree(DeploymentArgs),
    /// Print which BundleDeployment and bundle an object is from, and who else has changed it
    #[command(after_help = examples!(
        "rukpakctl why deployment/pump -n pumps"
        "rukpakctl why customresourcedefinitions.apiextensions.k8s.io pumps.example.com"
        "rukpakctl why deployment/pump -n pumps -o wide     # with fields of its status"
    ))]
    Why(WhyArgs),
    /// Serve a page on this machine that shows what is installed, and its state
    #[command(after_help = examples!(
        "rukpakctl ui              # open the URL that it prints; Ctrl-C ends it"
        "rukpakctl ui --port 8000"
        "rukpakctl ui --allow-approval     # and answer Plans on it"
    ))]
    Ui(UiArgs),
    /// Print the completions for a shell
    #[command(after_help = examples!(
        "source <(rukpakctl completions bash)"
        "rukpakctl completions fish > ~/.config/fish/completions/rukpakctl.fish"
    ))]
    Completions(CompletionArgs),
    /// Write man pages to a folder
    #[command(after_help = examples!("rukpakctl man ~/.local/share/man/man1 && man rukpakctl-install"))]
    Man(ManArgs),
    /// Print the version
    Version,
}

/// The definition of all flags.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the flags of this process. Help, version and wrong flags end the process, as is the custom.
pub fn parse() -> Command {
    let program = std::env::args_os().next().unwrap_or_default();
    let read = command_of(Path::new(&program)).get_matches();
    Cli::from_arg_matches(&read).unwrap_or_else(|error| error.exit()).command
}

/// As kubectl's plugin it is called as kubectl calls it, and says so.
fn command_of(program: &Path) -> clap::Command {
    if program.file_stem().is_some_and(|name| name == PLUGIN) {
        command().bin_name("kubectl rukpak")
    } else {
        command()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_fit_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_shows_an_example() {
        let command = Cli::command();
        let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "version");
        for verb in verbs {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("  rukpakctl {}", verb.get_name())), "{}: {help}", verb.get_name());
            assert!(help.ends_with("(also: wrong flags)"), "{}: {help}", verb.get_name());
        }
    }

    #[test]
    fn a_plugin_of_kubectl_calls_itself_so() {
        let usage = |program: &str| command_of(Path::new(program)).render_usage().to_string();
        assert_eq!(usage("/usr/bin/kubectl-rukpak"), "Usage: kubectl rukpak <COMMAND>");
        assert_eq!(usage("/usr/bin/rukpakctl"), "Usage: rukpakctl <COMMAND>");
    }

    #[test]
    fn target_namespaces_are_separated_by_commas_and_repeated() {
        let targets = |arguments: &[&str]| {
            let arguments = [&["rukpakctl", "render", "x"], arguments].concat();
            let Command::Render(render) = Cli::try_parse_from(arguments).unwrap().command else { panic!("render") };
            render.registry.target_namespaces
        };
        assert_eq!(targets(&[]), None);
        assert_eq!(targets(&["--target-namespaces="]), Some(vec![String::new()]));
        let several = targets(&["--target-namespaces", "a,b", "--target-namespaces=c"]);
        assert_eq!(several.unwrap(), ["a", "b", "c"]);
    }
}
