//! `rukpakctl render`.

use rukpak_plain::Object;

use crate::args::{CertProvider, ObjectForm, RenderArgs};
use crate::examine::{Purpose, examine_with};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::{Detected, Format, asked_or_detected};
use crate::output::{documents, pretty, to_stderr, to_stdout, to_stdout_raw, warn};
use crate::source;
use crate::table::count;

/// Prints the objects that a bundle installs. A bundle that is refused gives none.
pub async fn run(arguments: &RenderArgs) -> Result<Exit, Failure> {
    let content = source::read(&arguments.source).await?;
    let Detected { format, why } = asked_or_detected(arguments.source.format, &content.tree);
    let flags = &arguments.registry;
    let unused = [
        ("--install-namespace", flags.install_namespace.is_some()),
        ("--target-namespaces", flags.target_namespaces.is_some()),
        ("--cert-provider", flags.cert_provider.is_some()),
    ];
    if format != Format::Registry
        && let Some((flag, _)) = unused.iter().find(|(_, is_set)| *is_set)
    {
        let text = format!("{flag} is for registry+v1 bundles; {} is a {format} bundle: {why}", content.from);
        return Err(Failure::unknown(text));
    }

    let examined = examine_with(&content.tree, format, Purpose::Render(flags), &arguments.source).await?;
    warn(content.remarks.iter().chain(&examined.warnings));
    examined.refuse_findings(&content.from, &content.tree, format, "nothing was rendered")?;
    to_stderr(&format!("{}: {} of a {format} bundle ({why})", content.from, count(examined.objects.len(), "object")));
    let has_secrets =
        examined.objects.iter().any(|object| object.annotation(rukpak_registry::render::CA_ANNOTATION).is_some());
    if has_secrets && flags.cert_provider.is_none_or(|provider| provider == CertProvider::Own) {
        to_stderr(
            "note: certificates are placeholders that the controller replaces; to apply the objects by hand, set --cert-provider",
        );
    }
    Ok(print(&examined.objects, arguments.output))
}

/// Prints objects as documents of YAML, or as one JSON array.
pub(crate) fn print(objects: &[Object], form: ObjectForm) -> Exit {
    match form {
        ObjectForm::Yaml => to_stdout_raw(|out| documents(out, objects), Exit::Yes),
        ObjectForm::Json => to_stdout(|out| pretty(out, &objects), Exit::Yes),
    }
}
