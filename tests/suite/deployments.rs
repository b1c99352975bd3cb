//! BundleDeployments: what their conditions say when, the Bundle generated from the template, and the objects in the cluster.

mod bundles;
mod case;
mod conditions;
mod deletion;
mod failures;
mod kinds;
mod objects;
mod templates;
pub mod tired;
