//! Files to a [`Bundle`]: `metadata/` and the flat folder `manifests/`.

use std::collections::HashSet;
use std::sync::Arc;

use rukpak_content::{BundleTree, Entry, LimitExceeded, Limits};
use rukpak_plain::{Budget, Few, Object, Origin, Spent, Warning, object, yaml};
use serde_json::Value;

use crate::FieldError;
use crate::crd::{self, Crd};
use crate::csv::Csv;
use crate::metadata::{self, Metadata};

mod documents;

/// The folder of the manifests. Labels that name another one are not honoured, as in the reference.
pub const FOLDER: &str = "manifests";

/// The CSV annotation with the Namespace that an operator would like to live in, as JSON. Of it name, labels and annotations are
/// read.
pub(crate) const TEMPLATE: &str = "operatorframework.io/suggested-namespace-template";

/// A registry+v1 bundle that could be read; [`crate::validate`] says whether it makes sense.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// `metadata/`.
    pub metadata: Metadata,
    /// The ClusterServiceVersion; of several the last one.
    pub csv: Csv,
    /// Where it stands.
    pub csv_origin: Origin,
    /// Where the ClusterServiceVersions before it stand, which nobody looks at.
    pub(crate) other_csvs: Few<Origin>,
    /// The CRDs, in the order of the files.
    pub crds: Vec<Crd>,
    /// All other manifests, in the order of the files.
    pub others: Vec<Manifest>,
    /// What a reader of the manifests should know.
    pub warnings: Few<Warning>,
    /// What it was read within, and what is rendered of it keeps to.
    pub(crate) limits: Limits,
    /// What of them its values take.
    pub(crate) spent: Spent,
}

/// A manifest that is neither CSV nor CRD. It may be of a kind that is refused, or have no name.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Its kind, not empty.
    pub kind: String,
    /// Its name; may be empty.
    pub name: String,
    /// Where it stands.
    pub origin: Origin,
    /// The object, or why it cannot be sent.
    pub object: Result<Object, Arc<object::Error>>,
}

/// Why a tree is not a registry+v1 bundle. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of `metadata/` is missing or wrong.
    #[error(transparent)]
    Metadata(#[from] metadata::Error),
    /// There is no folder `manifests`.
    #[error("open manifests: file does not exist: a bundle keeps its manifests in a folder named {FOLDER} at its root")]
    ManifestsMissing,
    /// The folder holds a folder. The text is the reference's.
    #[error(
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"{0}\""
    )]
    Subdirectory(String),
    /// A file cannot be read as objects. The text is the reference's.
    #[error("error parsing objects in \"{file}\"")]
    Objects {
        /// The file.
        file: Arc<str>,
        /// What is wrong in it.
        source: Box<ObjectsError>,
    },
    /// There is no CSV. The text is the reference's.
    #[error("no ClusterServiceVersion found in \"manifests\"")]
    NoCsv,
}

/// Why a file cannot be read as objects.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// It is not YAML or JSON.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// Too large, or too many objects.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// A document is not a mapping.
    #[error("{origin}: {found}, not an object: every file in {FOLDER}/ is read as a manifest")]
    NotAnObject {
        /// Where it stands.
        origin: Origin,
        /// Its JSON type.
        found: &'static str,
    },
    /// A document has no kind or version. The text in the middle is the reference's.
    #[error("unable to decode \"{}\": Object '{field}' is missing: {origin}", .origin.file)]
    Missing {
        /// Where it stands.
        origin: Origin,
        /// `Kind` or `apiVersion`.
        field: &'static str,
    },
    /// The `items` of a List are not a list.
    #[error("{0}: items is not a list")]
    Items(Origin),
    /// The CSV has a field of a wrong type.
    #[error("ClusterServiceVersion: {origin}")]
    Csv {
        /// Where it stands.
        origin: Origin,
        /// The field.
        source: FieldError,
    },
    /// A CRD has a field of a wrong type or no name.
    #[error("CustomResourceDefinition: {origin}")]
    Crd {
        /// Where it stands.
        origin: Origin,
        /// What is wrong with it.
        source: crd::Error,
    },
}

/// What the manifests gave so far.
#[derive(Default)]
struct ManifestFiles {
    csv: Option<(Csv, Origin)>,
    other_csvs: Few<Origin>,
    crds: Vec<Crd>,
    others: Vec<Manifest>,
}

/// Reads a bundle. Files outside `metadata/` and `manifests/` are not looked at.
///
/// Limits: [`Limits::manifest_bytes`], [`Limits::text_bytes`], [`Limits::yaml_nodes`], [`Limits::objects`]. The first thing at
/// fault, in the order of the files' names, is what is reported.
pub fn load(tree: &BundleTree, limits: &Limits) -> Result<Bundle, Error> {
    let mut budget = Budget::new(limits);
    let metadata = Metadata::read(tree, &mut budget)?;
    let mut found = ManifestFiles::default();
    for (name, entry) in tree.list(FOLDER).ok_or(Error::ManifestsMissing)? {
        let path = format!("{FOLDER}/{name}");
        let Entry::File { body, .. } = entry else { return Err(Error::Subdirectory(path)) };
        let file = Arc::from(path);
        read_file(&file, body, &mut budget, &mut found)
            .map_err(|source| Error::Objects { file, source: Box::new(source) })?;
    }
    let (mut csv, csv_origin) = found.csv.take().ok_or(Error::NoCsv)?;
    let annotations = &mut csv.metadata.annotations;
    // JSON in a text: whoever asks for the dependencies or the namespace makes values of it.
    for text in [metadata::PROPERTIES, TEMPLATE].iter().filter_map(|name| annotations.get(*name)) {
        yaml::count_json(&csv_origin.to_string(), text, &mut budget).map_err(metadata::Error::from)?;
    }
    if !metadata.properties.is_empty() {
        let merged = metadata::merged(annotations.get(metadata::PROPERTIES).map(String::as_str), &metadata.properties)?;
        annotations.insert(metadata::PROPERTIES.to_owned(), merged);
    }
    let (warnings, spent) = (budget.take_warnings(), budget.spent());
    let ManifestFiles { other_csvs, crds, others, .. } = found;
    Ok(Bundle { metadata, csv, csv_origin, other_csvs, crds, others, warnings, limits: limits.clone(), spent })
}

fn read_file(
    file: &Arc<str>,
    body: &[u8],
    budget: &mut Budget<'_>,
    found: &mut ManifestFiles,
) -> Result<(), ObjectsError> {
    budget.add_file(file, body.len() as u64)?;
    for document in yaml::parse(file, body, budget)? {
        documents::flatten(document.value, document.place.into(), &mut |value, origin| {
            budget.add_object(|| file.to_string())?;
            found.add(value, origin, budget)
        })?;
    }
    Ok(())
}

impl ManifestFiles {
    fn add(&mut self, mut value: Value, origin: Origin, budget: &mut Budget<'_>) -> Result<(), ObjectsError> {
        let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        documents::complete_version(&mut value, &kind, &origin, budget)?;
        match kind.as_str() {
            "ClusterServiceVersion" => {
                count_typed(&value, &origin, budget)?;
                let csv = Csv::read(value).map_err(|source| ObjectsError::Csv { origin: origin.clone(), source })?;
                if let Some((_, before)) = self.csv.replace((csv, origin)) {
                    self.other_csvs.push_with(|| before);
                }
            }
            "CustomResourceDefinition" => {
                let crd =
                    Crd::read(value, origin.clone(), budget).map_err(|source| ObjectsError::Crd { origin, source })?;
                self.crds.push(crd);
            }
            _ => {
                let object = Object::new(value, origin.clone()).map_err(Arc::new);
                self.others.push(Manifest { kind, name, origin, object });
            }
        }
        Ok(())
    }
}

impl Bundle {
    /// The package; empty if the bundle does not name it.
    pub fn package(&self) -> &str {
        self.metadata.annotations.get(metadata::PACKAGE).map_or("", String::as_str)
    }

    /// Those objects of the rendering that may be left out where their kind is not served.
    pub fn optional<'a>(&self, objects: &'a [Object]) -> impl Iterator<Item = &'a Object> {
        let listed = self.metadata.optional_manifests();
        let listed: HashSet<_> = listed.into_iter().map(|it| (it.group, it.kind, it.name)).collect();
        let key = |object: &Object| (object.group().to_owned(), object.kind().to_owned(), object.name().to_owned());
        objects.iter().filter(move |object| !listed.is_empty() && listed.contains(&key(object)))
    }

    /// The origin of what a field of the CSV gives rise to.
    pub(crate) fn origin_of(&self, field: &str) -> Origin {
        Origin { item: Some(Arc::from(field)), ..self.csv_origin.clone() }
    }
}

/// How many nodes a node of a Deployment counts for, beside itself: the typed structures of a container or volume take up to
/// 2 KiB where a mapping without fields takes 32 bytes.
const TYPED: u64 = 16;

/// Counts what the typed parts of a CSV take: its Deployments, and the objects that it stands for.
fn count_typed(csv: &Value, origin: &Origin, budget: &mut Budget<'_>) -> Result<(), LimitExceeded> {
    let place = |field: &str| format!("{origin}, {field}");
    if let Some(deployments) = csv.pointer("/spec/install/spec/deployments") {
        budget.add_copies(deployments, TYPED, || place("spec.install.spec.deployments"))?;
    }
    for list in [
        "/spec/install/spec/deployments",
        "/spec/install/spec/permissions",
        "/spec/install/spec/clusterPermissions",
        "/spec/webhookdefinitions",
    ] {
        let mut items = csv.pointer(list).and_then(Value::as_array).into_iter().flatten();
        items.try_for_each(|_| budget.add_object(|| place(list.trim_start_matches('/'))))?;
    }
    Ok(())
}

#[cfg(test)]
impl Bundle {
    /// A bundle without other manifests.
    pub(crate) fn made_of(metadata: Metadata, csv: Csv) -> Self {
        Self {
            metadata,
            csv,
            csv_origin: Origin::made_from("csv.yaml"),
            other_csvs: Few::default(),
            crds: Vec::new(),
            others: Vec::new(),
            warnings: Few::default(),
            limits: Limits::default(),
            spent: Spent::default(),
        }
    }
}
