//! What is wrong with a bundle, as it is printed.

use std::error::Error;

use rukpak_content::LimitExceeded;
use rukpak_plain::{Origin, manifests, object, yaml};
use rukpak_registry::load::{self, ObjectsError};
use rukpak_registry::validate::{self, Rule};
use rukpak_registry::{crd, metadata};
use serde::Serialize;

use crate::output::chain;

/// One thing that refuses a bundle. It serialises as `validate --output json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is broken: one of the words in `docs/rukpakctl.md`.
    pub rule: &'static str,
    /// The file; `None` where the bundle as a whole, or a flag, is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The document in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<usize>,
    /// The line, from 1: of what is wrong, where that is known, else the first of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The field, such as `spec.install.spec.deployments[0].name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong and, where that is known, what to do.
    pub message: String,
    /// The whole line for people.
    #[serde(skip)]
    pub text: String,
}

/// Where something is, as far as it is known.
#[derive(Default)]
struct FilePosition {
    file: Option<String>,
    document: Option<usize>,
    line: Option<usize>,
    field: Option<String>,
}

impl Finding {
    /// A finding about the bundle as a whole.
    pub fn new(rule: &'static str, message: String) -> Self {
        Self::at(rule, FilePosition::default(), message.clone(), message)
    }

    /// A finding about `field` of what stands at `origin`.
    pub fn of_field(rule: &'static str, origin: &Origin, field: &str, message: String) -> Self {
        let text = format!("{origin}, {field}: {message}");
        Self::at(rule, FilePosition { field: Some(field.to_owned()), ..FilePosition::of(origin) }, message, text)
    }

    /// Why a registry+v1 bundle cannot be loaded.
    pub fn of_load(error: &load::Error) -> Self {
        Self::of_error("load", FilePosition::of_load(error), error)
    }

    /// Why the objects would be too many or too large.
    pub fn of_limit(error: &LimitExceeded) -> Self {
        Self::of_error("load", FilePosition::of_limit(error), error)
    }

    /// Why manifests cannot be read.
    pub fn of_manifests(error: &manifests::Error) -> Self {
        Self::of_error("load", FilePosition::of_manifests(error), error)
    }

    /// Why something cannot be rendered, which is wrong in the object that is made from `origin`.
    pub fn of_error_at(rule: &'static str, origin: &Origin, error: &dyn Error) -> Self {
        Self::of_error(rule, FilePosition::of(origin), error)
    }

    fn of_error(rule: &'static str, position: FilePosition, error: &dyn Error) -> Self {
        let text = chain(error);
        Self::at(rule, position, text.clone(), text)
    }

    fn at(rule: &'static str, position: FilePosition, message: String, text: String) -> Self {
        let FilePosition { file, document, line, field } = position;
        Self { rule, file, document, line, field, message, text }
    }
}

impl From<validate::Finding> for Finding {
    fn from(finding: validate::Finding) -> Self {
        let text = finding.located();
        let position = FilePosition::of(&finding.origin);
        let field = finding.field.or(position.field);
        Self::at(word(finding.rule), FilePosition { field, ..position }, finding.message, text)
    }
}

/// The stable word for a rule.
fn word(rule: Rule) -> &'static str {
    match rule {
        Rule::DeploymentUnique => "deployment-unique",
        Rule::DeploymentName => "deployment-name",
        Rule::CrdUnique => "crd-unique",
        Rule::CrdShipped => "crd-shipped",
        Rule::PackageName => "package-name",
        Rule::ConversionInstallMode => "conversion-install-mode",
        Rule::WebhookDeployment => "webhook-deployment",
        Rule::WebhookUnique => "webhook-unique",
        Rule::WebhookName => "webhook-name",
        Rule::ConversionUnique => "conversion-unique",
        Rule::ConversionOwned => "conversion-owned",
        Rule::WebhookRules => "webhook-rules",
        Rule::Kind => "kind",
        Rule::Object => "object",
        Rule::WebhookType => "webhook-type",
        Rule::ApiServiceDeployment => "api-service-deployment",
        Rule::ApiServiceGroup => "api-service-group",
    }
}

impl FilePosition {
    fn of(origin: &Origin) -> Self {
        let (document, line) = origin.document.unzip();
        let field = origin.item.as_ref().map(ToString::to_string);
        Self { file: Some(origin.file.to_string()), document, line, field }
    }

    fn in_file(file: &str) -> Self {
        Self { file: Some(file.to_owned()), ..Self::default() }
    }

    /// `field` of what stands at this place, which may be an item of a List.
    fn below(self, field: &str) -> Self {
        let field = self.field.map_or_else(|| field.to_owned(), |outer| format!("{outer}.{field}"));
        Self { field: Some(field), ..self }
    }

    /// The place of a refusal for size begins with a file.
    fn of_limit(error: &LimitExceeded) -> Self {
        Self::in_file(error.place.split(", ").next().unwrap_or_default())
    }

    fn of_load(error: &load::Error) -> Self {
        match error {
            load::Error::Metadata(error) => Self::of_metadata(error),
            load::Error::Subdirectory(path) => Self::in_file(path),
            load::Error::Objects { file, source } => Self { file: Some(file.to_string()), ..Self::of_objects(source) },
            load::Error::ManifestsMissing | load::Error::NoCsv => Self::default(),
        }
    }

    fn of_metadata(error: &metadata::Error) -> Self {
        match error {
            metadata::Error::Missing(file) => Self::in_file(file),
            metadata::Error::Yaml(error) => Self::of_yaml(error),
            metadata::Error::Limit(error) => Self::of_limit(error),
            metadata::Error::Field { file, source } => {
                Self { field: Some(source.field.clone()), ..Self::in_file(file) }
            }
            metadata::Error::Annotation(_) => Self::default(),
        }
    }

    fn of_objects(error: &ObjectsError) -> Self {
        match error {
            ObjectsError::Yaml(error) => Self::of_yaml(error),
            ObjectsError::Limit(error) => Self::of_limit(error),
            ObjectsError::NotAnObject { origin, .. } | ObjectsError::Items(origin) => Self::of(origin),
            ObjectsError::Missing { origin, field } => {
                Self::of(origin).below(if *field == "Kind" { "kind" } else { field })
            }
            ObjectsError::Csv { origin, source } | ObjectsError::Crd { origin, source: crd::Error::Field(source) } => {
                Self::of(origin).below(&source.field)
            }
            ObjectsError::Crd { origin, source: crd::Error::Object(error) } => Self::of_object(origin, error),
        }
    }

    fn of_manifests(error: &manifests::Error) -> Self {
        match error {
            manifests::Error::Missing | manifests::Error::NotADirectory => Self::default(),
            manifests::Error::Subdirectory(name) => Self::in_file(&format!("{}/{name}", manifests::FOLDER)),
            manifests::Error::Stray { file, source } => {
                Self { file: Some(file.to_string()), ..Self::of_manifests(source) }
            }
            manifests::Error::Yaml(error) => Self::of_yaml(error),
            manifests::Error::Object { origin, source } => Self::of_object(origin, source),
            manifests::Error::Items(origin) => Self::of(origin).below("items"),
            manifests::Error::Conflict(conflict) => Self::of(&conflict.second),
            manifests::Error::Limit(error) => Self::of_limit(error),
        }
    }

    fn of_object(origin: &Origin, error: &object::Error) -> Self {
        let field = match error {
            object::Error::NotAnObject { .. } => None,
            object::Error::KindMissing => Some("kind"),
            object::Error::ApiVersionMissing | object::Error::ApiVersion(_) => Some("apiVersion"),
            object::Error::GenerateName | object::Error::NameMissing => Some("metadata.name"),
            object::Error::Type { field, .. } => Some(field.as_str()),
            object::Error::PathSegment { field, .. } => Some(*field),
        };
        field.map_or_else(|| Self::of(origin), |field| Self::of(origin).below(field))
    }

    fn of_yaml(error: &yaml::Error) -> Self {
        let at = |place: &yaml::Position| Self {
            document: Some(place.document),
            line: Some(place.line),
            ..Self::in_file(&place.file)
        };
        match error {
            yaml::Error::Encoding { file, line } | yaml::Error::Control { file, line, .. } => {
                Self { line: Some(*line), ..Self::in_file(file) }
            }
            yaml::Error::Syntax { place, .. } | yaml::Error::Depth(place) => at(place),
            yaml::Error::Meaning { place, path, .. } => Self { field: Some(path.clone()), ..at(place) },
            yaml::Error::Limit(error) => Self::of_limit(error),
        }
    }
}
