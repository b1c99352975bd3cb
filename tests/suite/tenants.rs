//! What tenants cannot do, on a real API server with the webhook: InstallPolicies, accounts, and a bench where every field of every kind is
//! tried by somebody who may not.
//!
//! Every try of the bench is a dry run: admission answers it in full, and nothing changes.
//!
//! ```text
//! scene           the control plane, the tenants and what is there; no controller runs
//! install_policy  what an InstallPolicy decides, and one that is too large
//! bench           everything that tenants might try, from the schemas
//! schema          values for fields, from the schemas
//! controller      what the controller refuses itself, where the webhook does not
//! ```

mod bench;
mod controller;
mod install_policy;
mod scene;
mod schema;
