//! `rukpakctl examples`: objects of an operator's kinds, as its bundle shows them.
//!
//! ```text
//! ClusterServiceVersion --initialization-resource, alm-examples--> objects, ready for kubectl apply
//! ```

use std::sync::Arc;

use rukpak_content::Limits;
use rukpak_plain::{Budget, Object, Origin, yaml};
use rukpak_registry::Bundle;
use serde_json::Value;

use crate::args::{ExamplesArgs, ServiceArgs};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::{Format, asked_or_detected};
use crate::output::{chain, to_stderr, warn};
use crate::release::Reader;
use crate::render;
use crate::service::Service;
use crate::source::{self, Content};
use crate::table::count;

/// The annotation with the one object that the operator needs before it does anything.
const INITIAL: &str = "operatorframework.io/initialization-resource";
/// The annotation with a list of objects.
const EXAMPLES: &str = "alm-examples";

#[derive(Debug, Default, PartialEq)]
struct Examples {
    /// The object to begin with, if it names one, and the others in its order.
    objects: Vec<Object>,
    warnings: Vec<String>,
}

pub async fn run(arguments: &ExamplesArgs) -> Result<Exit, Failure> {
    let (content, format) = if let Some(name) = deployment(arguments) {
        let cluster = Cluster::connect(&arguments.cluster).await?;
        installed(&cluster, name, &arguments.service).await?
    } else {
        let content = source::read(&arguments.source).await?;
        let format = asked_or_detected(arguments.source.format, &content.tree).format;
        (content, format)
    };
    let refused = |problem: String| Failure::no(format!("{}: {problem}", content.from));
    let examples = Examples::read(&content, format).map_err(refused)?;
    warn(content.remarks.iter().chain(&examples.warnings));
    let objects = examples.of_kind(arguments.kind.as_deref()).map_err(refused)?;

    to_stderr(&format!("{}: {}", content.from, count(objects.len(), "example")));
    if let Some(initial) = objects.iter().find(|object| is_initial(object)) {
        to_stderr(&format!("note: the operator needs {} first ({INITIAL})", initial.key()));
    }
    Ok(render::print(&objects, arguments.output))
}

/// Returns the examples of the Bundle that is installed, the object to begin with first.
///
/// # Errors
/// The Bundle cannot be fetched, or has none.
pub(crate) async fn of_deployment(
    cluster: &Cluster,
    name: &str,
    service: &ServiceArgs,
) -> Result<Vec<Object>, Failure> {
    let (content, format) = installed(cluster, name, service).await?;
    let examples = Examples::read(&content, format).and_then(|examples| examples.of_kind(None));
    examples.map_err(|problem| Failure::no(format!("{}: {problem}", content.from)))
}

/// The BundleDeployment that is meant: a name that is neither a file nor written like an image or a path.
fn deployment(arguments: &ExamplesArgs) -> Option<&str> {
    let named = arguments.source.bundle.to_str()?;
    let is_name = !named.contains(['/', ':']) && !source::is_path(named) && !arguments.source.exists();
    arguments.source.deployment().or(is_name.then_some(named))
}

/// Fetches the files of the Bundle that is installed.
async fn installed(cluster: &Cluster, name: &str, service: &ServiceArgs) -> Result<(Content, Format), Failure> {
    let deployment = cluster.existing(name).await?;
    let reader = Reader::of(&deployment, &service.system_namespace);
    let service = Service::connect(cluster, service).await?;
    reader.installed(cluster, &service).await
}

impl Examples {
    /// Reads the examples of a bundle. Fails if its format has none, or it cannot be read.
    fn read(content: &Content, format: Format) -> Result<Self, String> {
        if format != Format::Registry {
            return Err("only registry+v1 bundles have examples".to_owned());
        }
        let bundle = rukpak_registry::load(&content.tree, &Limits::default()).map_err(|error| chain(&error))?;
        Self::of(&bundle)
    }

    /// Reads the annotations of the ClusterServiceVersion. Fails if one is not JSON, or too large as values.
    fn of(bundle: &Bundle) -> Result<Self, String> {
        let limits = Limits::default();
        let mut budget = Budget::new(&limits);
        let mut found = Self::default();
        for annotation in [INITIAL, EXAMPLES] {
            let text = bundle.csv.metadata.annotations.get(annotation).map_or("", |text| text.trim());
            if text.is_empty() {
                continue;
            }
            let place = format!("{}, metadata.annotations[{annotation:?}]", bundle.csv_origin);
            yaml::count_json(&place, text, &mut budget).map_err(|error| chain(&error))?;
            let items = match serde_json::from_str(text).map_err(|error| format!("{place}: {error}"))? {
                Value::Array(items) => items,
                item => vec![item],
            };
            for (index, item) in items.into_iter().enumerate() {
                let item_of = Some(Arc::from(format!("metadata.annotations[{annotation:?}][{index}]")));
                found.add(item, &Origin { item: item_of, ..bundle.csv_origin.clone() });
            }
        }
        Ok(found)
    }

    /// Adds an example, unless it is the object to begin with once more.
    fn add(&mut self, value: Value, origin: &Origin) {
        let object = match Object::new(value, origin.clone()) {
            Ok(object) => object,
            Err(error) => return self.warnings.push(format!("{origin}: left out: {}", chain(&error))),
        };
        let is_again =
            |initial: &Object| is_initial(initial) && (initial.gvk(), initial.name()) == (object.gvk(), object.name());
        if !self.objects.first().is_some_and(is_again) {
            self.objects.push(object);
        }
    }

    /// Returns those of a kind; all if none is named. Fails if there are none.
    fn of_kind(self, kind: Option<&str>) -> Result<Vec<Object>, String> {
        if self.objects.is_empty() {
            return Err(format!("the bundle has no examples (annotation {EXAMPLES} of its ClusterServiceVersion)"));
        }
        let Some(kind) = kind else { return Ok(self.objects) };
        let (wanted, others): (Vec<_>, Vec<_>) =
            self.objects.into_iter().partition(|object| object.kind().eq_ignore_ascii_case(kind));
        if wanted.is_empty() {
            let mut kinds: Vec<&str> = others.iter().map(Object::kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            return Err(format!("no example of kind {kind:?}: there are {}", kinds.join(", ")));
        }
        Ok(wanted)
    }
}

/// Whether it is the object to begin with.
pub(crate) fn is_initial(object: &Object) -> bool {
    object.origin().item.as_deref().is_some_and(|item| item.contains(INITIAL))
}
