//! How verbs answer, in each of their forms, and names as kubectl writes them.

use std::io::{self, Write};

use kube::ResourceExt as _;
use rukpak_crds::BundleDeployment;
use serde::Serialize;
use serde_json::Value;

use crate::args::{AnswerForm, OutputForm};
use crate::colour::Palette;
use crate::exit::Exit;
use crate::output::{pretty, to_stdout, to_stdout_raw};
use crate::table::one_line;

/// The resource of BundleDeployments, with its group.
pub const DEPLOYMENTS: &str = "bundledeployment.core.rukpak.io";
/// The resource of Bundles, with its group.
pub const BUNDLES: &str = "bundle.core.rukpak.io";

/// Names an object as `kubectl --output name` does: `deployment.apps/pump`. Names of roles may hold anything, and stay on one line.
pub fn object_name(group: &str, kind: &str, name: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    one_line(&format!("{}{dot}{group}/{name}", kind.to_lowercase()))
}

/// Names an object for people: `Deployment default/pump`.
pub fn called(kind: &str, namespace: Option<&str>, name: &str) -> String {
    let namespace = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    one_line(&format!("{kind} {namespace}{name}"))
}

/// Names the object of a manifest as [`object_name`] does.
pub fn name_of(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    object_name(group, text("/kind"), text("/metadata/name"))
}

/// Prints what was done: `bundledeployment.core.rukpak.io/pump suspended`, or the object.
pub fn changed(form: OutputForm, deployment: &BundleDeployment, what: &str, exit: Exit) -> Exit {
    let name = format!("{DEPLOYMENTS}/{}", deployment.name_any());
    match form {
        OutputForm::Text | OutputForm::Wide => to_stdout(|out| writeln!(out, "{name} {what}"), exit),
        OutputForm::Name => to_stdout(|out| writeln!(out, "{name}"), exit),
        OutputForm::Json | OutputForm::Yaml => {
            let mut deployment = deployment.clone();
            // Nobody reads it here; kubectl leaves it out, too.
            deployment.metadata.managed_fields = None;
            structured(form, &deployment, exit)
        }
    }
}

/// Prints an answer in the form that is asked for: by `text`, which is told whether it may be wide, as `names`, or as it is. A line of
/// `text` is without control characters, but for the colours.
pub fn print(
    form: OutputForm,
    answer: &impl Serialize,
    text: impl FnOnce(&mut dyn Write, Palette, bool) -> io::Result<()>,
    names: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    exit: Exit,
) -> Exit {
    match form {
        OutputForm::Text | OutputForm::Wide => {
            let palette = Palette::of(&io::stdout());
            to_stdout_raw(|out| text(out, palette, form == OutputForm::Wide), exit)
        }
        OutputForm::Name => to_stdout(names, exit),
        OutputForm::Json | OutputForm::Yaml => structured(form, answer, exit),
    }
}

/// Prints an answer that is not about the cluster: as `text` writes it, or as JSON.
pub fn print_either(
    form: AnswerForm,
    answer: &impl Serialize,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    exit: Exit,
) -> Exit {
    match form {
        AnswerForm::Text => to_stdout(text, exit),
        AnswerForm::Json => to_stdout(|out| pretty(out, answer), exit),
    }
}

/// Prints an answer as YAML if that is asked for, else as JSON.
pub fn structured(form: OutputForm, answer: &impl Serialize, exit: Exit) -> Exit {
    if form == OutputForm::Yaml {
        // It has escapes of its own.
        to_stdout_raw(|out| yaml(out, answer), exit)
    } else {
        to_stdout(|out| pretty(out, answer), exit)
    }
}

fn yaml(out: &mut dyn Write, answer: &impl Serialize) -> io::Result<()> {
    let text = serde_saphyr::to_string(answer).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}
