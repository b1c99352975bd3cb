//! BundleDeployments: what their conditions say when, the Bundle generated from the template, and the objects in the cluster.

#[path = "deployments/bundles.rs"]
mod bundles;
#[path = "deployments/case.rs"]
mod case;
#[path = "deployments/conditions.rs"]
mod conditions;
#[path = "deployments/deletion.rs"]
mod deletion;
#[path = "deployments/failures.rs"]
mod failures;
#[path = "deployments/kinds.rs"]
mod kinds;
#[path = "deployments/objects.rs"]
mod objects;
#[path = "deployments/templates.rs"]
mod templates;
#[path = "deployments/tired.rs"]
mod tired;
