//! registry+v1 bundles.

use bytes::Bytes;
use rukpak_content::{BundleTree, Entry, Limits, RelativePath};
use rukpak_plain::yaml;
use rukpak_registry::gate::{self, Refusal};
use rukpak_registry::install_mode::{self, ALL, OWN, supports};
use rukpak_registry::load::{self, FOLDER, ObjectsError};
use rukpak_registry::render::PLACEHOLDER;
use rukpak_registry::{Bundle, Certificates, RenderOptions, render, validate};

use super::{Examined, Purpose};
use crate::args::{CertProvider, RegistryArgs};
use crate::finding::Finding;

/// A namespace to watch, where any will do.
const WATCHED: &str = "watched";

pub(super) fn examine(tree: &BundleTree, purpose: Purpose<'_>, limits: &Limits) -> Examined {
    let bundle = match rukpak_registry::load(tree, limits) {
        Ok(bundle) => bundle,
        Err(error) => return Examined { findings: load_findings(tree, limits, &error), ..Examined::default() },
    };
    let mut examined = Examined { warnings: bundle.remarks(), ..Examined::default() };
    if let Err(findings) = validate(&bundle) {
        examined.findings.extend(findings.0.into_iter().map(Finding::from));
    }
    examined.findings.extend(gate::check(&bundle).err().map(|refusal| of_refusal(&bundle, &refusal)));
    if !examined.findings.is_empty() {
        return examined;
    }
    let options = match purpose {
        Purpose::Render(arguments) => options(&bundle, arguments),
        Purpose::Validate => any_options(&bundle),
    };
    if matches!(purpose, Purpose::Validate) && !supports(&bundle.csv, ALL) {
        examined.warnings.push(format!("{}: {}", Refusal::NotAllNamespaces, Refusal::NotAllNamespaces.hint()));
    }
    match render(&bundle, &options) {
        Ok(objects) => examined.objects = objects,
        Err(error) => examined.findings = render_findings(&bundle, error),
    }
    examined
}

/// What is installed if a BundleDeployment says no more than the flags.
fn options(bundle: &Bundle, arguments: &RegistryArgs) -> RenderOptions {
    let certificates = match arguments.cert_provider.unwrap_or(CertProvider::Own) {
        CertProvider::Own => Certificates::SelfManaged { placeholder: PLACEHOLDER.to_owned() },
        CertProvider::CertManager => Certificates::CertManager,
        CertProvider::ServiceCa => Certificates::ServiceCa,
    };
    let mut options = RenderOptions::v1alpha1(bundle, certificates);
    if let Some(namespace) = &arguments.install_namespace {
        options.install_namespace.clone_from(namespace);
    }
    options.target_namespaces.clone_from(&arguments.target_namespaces);
    options
}

/// A way to install the bundle that its install modes allow.
fn any_options(bundle: &Bundle) -> RenderOptions {
    let mut options = options(bundle, &RegistryArgs::default());
    if !supports(&bundle.csv, ALL) {
        let own = supports(&bundle.csv, OWN).then(|| options.install_namespace.clone());
        options.target_namespaces = Some(vec![own.unwrap_or_else(|| WATCHED.to_owned())]);
    }
    options
}

fn of_refusal(bundle: &Bundle, refusal: &Refusal) -> Finding {
    let (rule, field) = match refusal {
        Refusal::InstallModes | Refusal::NotAllNamespaces => ("install-modes", "spec.installModes"),
        Refusal::Kind { .. } => ("kind", "kind"),
    };
    Finding::of_field(rule, &bundle.csv_origin, field, format!("{refusal}: {}", refusal.hint()))
}

fn render_findings(bundle: &Bundle, error: render::Error) -> Vec<Finding> {
    use rukpak_registry::render::Error;
    match error {
        Error::Invalid(findings) => findings.0.into_iter().map(Finding::from).collect(),
        Error::Options(problems) => problems.iter().map(|problem| of_option(bundle, problem)).collect(),
        Error::PreserveUnknownFields(ref name) => {
            let crd = bundle.crds.iter().find(|crd| crd.name() == name);
            let origin = crd.map_or(&bundle.csv_origin, |crd| crd.object.origin());
            vec![Finding::of_field("preserve-unknown-fields", origin, "spec.preserveUnknownFields", error.to_string())]
        }
        Error::Object { ref origin, .. } | Error::Json { ref origin, .. } | Error::Namespace { ref origin, .. } => {
            vec![Finding::of_error_at("object", origin, &error)]
        }
        Error::Limit(ref source) => vec![Finding::of_limit(source)],
        Error::Repeated(ref source) => vec![Finding::of_manifests(source)],
    }
}

fn of_option(bundle: &Bundle, problem: &str) -> Finding {
    let modes = bundle.csv.supported_modes().join(", ");
    let advice = if install_mode::default_targets(&bundle.csv).is_empty() {
        format!("; set --target-namespaces: the bundle supports {modes}")
    } else {
        String::new()
    };
    Finding::new("options", format!("invalid option(s): {problem}{advice}"))
}

/// One finding for each file that is wrong, where `first` tells of the first one only.
fn load_findings(tree: &BundleTree, limits: &Limits, first: &load::Error) -> Vec<Finding> {
    let mut findings = Vec::new();
    if matches!(first, load::Error::Metadata(_)) {
        findings.push(Finding::of_load(first));
    }
    let in_folder = |path: &RelativePath| path.parent().is_some_and(|folder| folder.as_str() == FOLDER);
    for (path, entry) in tree.iter().filter(|(path, _)| in_folder(path)) {
        if let Err(error @ (load::Error::Objects { .. } | load::Error::Subdirectory(_))) =
            load_alone(path, entry, limits)
        {
            findings.push(Finding::of_load(&error));
            if is_limit(&error) {
                break;
            }
        }
    }
    // Something that no file by itself is guilty of.
    if findings.is_empty() { vec![Finding::of_load(first)] } else { findings }
}

fn is_limit(error: &load::Error) -> bool {
    let load::Error::Objects { source, .. } = error else { return false };
    matches!(**source, ObjectsError::Limit(_) | ObjectsError::Yaml(yaml::Error::Limit(_)))
}

/// Loads a bundle of this one manifest.
fn load_alone(path: &RelativePath, entry: &Entry, limits: &Limits) -> Result<Bundle, load::Error> {
    let mut alone = BundleTree::new();
    if let Ok(annotations) = RelativePath::new("metadata/annotations.yaml") {
        alone.add_file(annotations, false, Bytes::from_static(b"annotations: {}"));
    }
    match entry {
        Entry::Directory => alone.add_directory(path.clone()),
        Entry::File { executable, body } => alone.add_file(path.clone(), *executable, body.clone()),
    }
    rukpak_registry::load(&alone, limits)
}
