//! What `--feature-gates` opens.

use std::str::FromStr;

use rukpak_runtime::args::{FeatureGatesError, is_gate_open};

/// Which gates are open. Those of RukPak v0.16, with its defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// `BundleDeploymentHealth`: BundleDeployments report `Healthy`.
    pub bundle_deployment_health: bool,
}

impl FromStr for FeatureGates {
    type Err = FeatureGatesError;

    fn from_str(text: &str) -> Result<Self, FeatureGatesError> {
        Ok(Self { bundle_deployment_health: is_gate_open(text, "BundleDeploymentHealth")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_read_behind_its_gate() {
        assert_eq!("BundleDeploymentHealth=true".parse(), Ok(FeatureGates { bundle_deployment_health: true }));
        assert_eq!("".parse(), Ok(FeatureGates::default()));
    }
}
