//! What tenants cannot do, on a real API server with the webhook: InstallPolicies, accounts, and a bench where every field of every kind is
//! tried by somebody who may not.
//!
//! Every try is a dry run: admission answers it in full, and nothing changes. No controller runs.
//!
//! ```text
//! scene    the control plane, the tenants and what is there
//! policy   what an InstallPolicy decides, and one that is too large
//! bench    everything that tenants might try, from the schemas
//! schema   values for fields, from the schemas
//! ```

mod bench;
mod policy;
mod scene;
mod schema;
