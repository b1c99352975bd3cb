//! CRDs of a bundle.

use rukpak_plain::object;
use rukpak_plain::{Budget, Few, Object, Origin, Warning};
use serde_json::Value;

use crate::FieldError;
use crate::decode::Path;

mod shape;

/// A CRD: an object whose fields have the types that Kubernetes gives them.
#[derive(Clone, Debug)]
pub struct Crd {
    /// The CRD. Fields that Kubernetes does not know are left out of version `v1`; older versions are as written.
    pub object: Object,
}

/// Why a manifest is not a CRD.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field has a wrong type.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// It is no object that can be sent.
    #[error(transparent)]
    Object(#[from] object::Error),
}

impl Crd {
    /// Checks a manifest of kind CustomResourceDefinition. `budget` keeps warnings about fields that are left out.
    pub fn read(mut value: Value, origin: Origin, budget: &mut Budget<'_>) -> Result<Self, Error> {
        let mut unknown_fields = Few::default();
        if value.get("apiVersion").is_some_and(|version| version == "apiextensions.k8s.io/v1") {
            shape::fit(&mut value, &shape::DEFINITION, &Path::Root, &mut unknown_fields)?;
        }
        budget.warn_all(unknown_fields, |field| Warning::UnknownField { origin: origin.clone(), field });
        Ok(Self { object: Object::new(value, origin)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// Whether fields that the schema does not name are kept for every version, which a conversion webhook excludes.
    pub(crate) fn preserves_unknown_fields(&self) -> bool {
        self.object.field(&["spec", "preserveUnknownFields"]).is_some_and(|value| value == true)
    }
}

#[cfg(test)]
#[path = "crd/tests.rs"]
mod tests;
