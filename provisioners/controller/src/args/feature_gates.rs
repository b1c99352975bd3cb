//! `--feature-gates`, in the form that Kubernetes programs share: `Name=true,Other=false`. `AllAlpha` and `AllBeta` set all gates of
//! that stage that are not set by their names (k8s.io/component-base/featuregate).

use std::str::FromStr;

/// Which gates are open. Those of RukPak v0.16, with its defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// `BundleDeploymentHealth`: BundleDeployments report `Healthy`.
    pub bundle_deployment_health: bool,
}

/// The text does not set feature gates.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FeatureGatesError {
    /// No `=`.
    #[error("{0:?} does not set a feature gate: write {name}=true", name = BUNDLE_DEPLOYMENT_HEALTH)]
    Form(String),
    /// There is no such gate.
    #[error("{0:?} is not a feature gate: there is only {known}", known = BUNDLE_DEPLOYMENT_HEALTH)]
    Unknown(String),
    /// Neither true nor false.
    #[error("feature gate {name} cannot be {value:?}: write true or false")]
    Value {
        /// The gate.
        name: String,
        /// What it was set to.
        value: String,
    },
}

/// Alpha in RukPak v0.16.
const BUNDLE_DEPLOYMENT_HEALTH: &str = "BundleDeploymentHealth";
const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

impl FromStr for FeatureGates {
    type Err = FeatureGatesError;

    fn from_str(text: &str) -> Result<Self, FeatureGatesError> {
        let (mut health, mut all_alpha) = (None, None);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| FeatureGatesError::Form(part.to_owned()))?;
            let is_open = value.trim().to_ascii_lowercase().parse();
            let is_open: bool =
                is_open.map_err(|_| FeatureGatesError::Value { name: name.to_owned(), value: value.to_owned() })?;
            match name.trim() {
                BUNDLE_DEPLOYMENT_HEALTH => health = Some(is_open),
                ALL_ALPHA => all_alpha = Some(is_open),
                // There is none of that stage.
                ALL_BETA => {}
                other => return Err(FeatureGatesError::Unknown(other.to_owned())),
            }
        }
        Ok(Self { bundle_deployment_health: health.or(all_alpha).unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_and_unknown_ones_named() {
        let open = FeatureGates { bundle_deployment_health: true };
        assert_eq!("BundleDeploymentHealth=true".parse(), Ok(open));
        assert_eq!("BundleDeploymentHealth=false, BundleDeploymentHealth=True,".parse(), Ok(open));
        assert_eq!("".parse(), Ok(FeatureGates::default()));
        assert_eq!("AllAlpha=true".parse(), Ok(open));
        assert_eq!("AllBeta=true".parse(), Ok(FeatureGates::default()));
        for text in ["AllAlpha=true,BundleDeploymentHealth=false", "BundleDeploymentHealth=false,AllAlpha=true"] {
            assert_eq!(text.parse(), Ok(FeatureGates::default()), "{text}");
        }
        for (bad, word) in [
            ("Other=true", "only BundleDeploymentHealth"),
            ("BundleDeploymentHealth", "BundleDeploymentHealth=true"),
            ("BundleDeploymentHealth=yes", "true or false"),
        ] {
            let error = bad.parse::<FeatureGates>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
