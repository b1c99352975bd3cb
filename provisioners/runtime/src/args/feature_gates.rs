//! `--feature-gates`, in the form that Kubernetes programs share: `Name=true,Other=false`. `AllAlpha` and `AllBeta` set all gates of
//! that stage that are not set by their names (k8s.io/component-base/featuregate).

/// The text does not set feature gates.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FeatureGatesError {
    /// No `=`.
    #[error("{text:?} does not set a feature gate: write {known}=true")]
    Form {
        /// What was written.
        text: String,
        /// The gate that there is.
        known: &'static str,
    },
    /// There is no such gate.
    #[error("{name:?} is not a feature gate: there is only {known}")]
    Unknown {
        /// What was written.
        name: String,
        /// The gate that there is.
        known: &'static str,
    },
    /// Neither true nor false.
    #[error("feature gate {name} cannot be {value:?}: write true or false")]
    Value {
        /// The gate.
        name: String,
        /// What it was set to.
        value: String,
    },
}

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// Reads whether the text opens `known`, the only gate of a program, which is alpha.
///
/// # Errors
/// The text names another gate, or says neither true nor false.
pub fn is_gate_open(text: &str, known: &'static str) -> Result<bool, FeatureGatesError> {
    let (mut is_open, mut all_alpha) = (None, None);
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) =
            part.split_once('=').ok_or_else(|| FeatureGatesError::Form { text: part.to_owned(), known })?;
        let is_set = value.trim().to_ascii_lowercase().parse();
        let is_set: bool =
            is_set.map_err(|_| FeatureGatesError::Value { name: name.to_owned(), value: value.to_owned() })?;
        match name.trim() {
            ALL_ALPHA => all_alpha = Some(is_set),
            // There is none of that stage.
            ALL_BETA => {}
            name if name == known => is_open = Some(is_set),
            other => return Err(FeatureGatesError::Unknown { name: other.to_owned(), known }),
        }
    }
    Ok(is_open.or(all_alpha).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_read_and_unknown_ones_are_named() {
        let read = |text: &str| is_gate_open(text, "Health");
        for text in ["Health=true", "Health=false, Health=True,", "AllAlpha=true"] {
            assert_eq!(read(text), Ok(true), "{text}");
        }
        for text in ["", "AllBeta=true", "AllAlpha=true,Health=false", "Health=false,AllAlpha=true"] {
            assert_eq!(read(text), Ok(false), "{text}");
        }
        for (bad, word) in [("Other=true", "only Health"), ("Health", "Health=true"), ("Health=yes", "true or false")] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
