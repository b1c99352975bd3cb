//! `rukpakctl render`.

use rukpak_content::Limits;

use crate::args::{CertProvider, ObjectForm, RenderArgs};
use crate::examine::{Purpose, examine_with};
use crate::exit::Exit;
use crate::format::{Detected, Format};
use crate::output::{chain, counted, json, to_stderr, to_stdout, to_stdout_raw, yaml};
use crate::source::{self, Content};

/// Prints the objects that a bundle installs. A bundle that is refused gives none.
pub async fn run(arguments: &RenderArgs) -> Exit {
    let content = match source::read(&arguments.source).await {
        Ok(content) => content,
        Err(error) => return failed(&error),
    };
    let limits = Limits::default();
    let Detected { format, why } = detect(&content, arguments.source.format, &limits);
    let flags = &arguments.registry;
    let unused = [
        ("--install-namespace", flags.install_namespace.is_some()),
        ("--target-namespaces", flags.target_namespaces.is_some()),
        ("--cert-provider", flags.cert_provider.is_some()),
    ];
    if format != Format::Registry
        && let Some((flag, _)) = unused.iter().find(|(_, is_set)| *is_set)
    {
        to_stderr(&format!("error: {flag} is for registry+v1 bundles; {} is a {format} bundle: {why}", content.from));
        return Exit::Unknown;
    }
    let examined = match examine_with(&content.tree, format, Purpose::Render(flags), &arguments.source).await {
        Ok(examined) => examined,
        Err(failure) => return failure.report(),
    };
    for warning in content.remarks.iter().chain(&examined.warnings) {
        to_stderr(&format!("warning: {warning}"));
    }
    let detected = Format::detect(&content.tree, &limits);
    if let Err(refused) = examined.refuse_findings(&content.from, &detected, format, "nothing was rendered") {
        return refused.report();
    }
    to_stderr(&format!("{}: {} of a {format} bundle ({why})", content.from, counted(examined.objects.len())));
    let has_secrets =
        examined.objects.iter().any(|object| object.annotation(rukpak_registry::render::CA_ANNOTATION).is_some());
    if has_secrets && flags.cert_provider.is_none_or(|provider| provider == CertProvider::Own) {
        to_stderr(
            "note: certificates are placeholders that the controller replaces; to apply the objects by hand, set --cert-provider",
        );
    }
    match arguments.output {
        ObjectForm::Yaml => to_stdout_raw(|out| yaml(out, &examined.objects), Exit::Yes),
        ObjectForm::Json => to_stdout(|out| json(out, &examined.objects), Exit::Yes),
    }
}

/// Says why there is no bundle to look at.
pub(crate) fn failed(error: &source::Error) -> Exit {
    to_stderr(&format!("error: {}", chain(error)));
    if error.is_refusal() { Exit::No } else { Exit::Unknown }
}

/// The format that was asked for, else that of the tree.
pub(crate) fn detect(content: &Content, asked: Option<Format>, limits: &Limits) -> Detected {
    match asked {
        Some(format) => Detected { format, why: "--format says so".to_owned() },
        None => Format::detect(&content.tree, limits),
    }
}
