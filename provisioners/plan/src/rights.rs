//! Which rights installing a bundle takes, which of them a ServiceAccount lacks, and the roles that grant them.
//!
//! ```text
//! objects --needed--> Rights --missing(what the account holds)--> Rights --rules--> PolicyRules --roles--> Role, ClusterRole, bindings
//! ```
//!
//! | file | question |
//! |---|---|
//! | `right.rs` | What is one right, and which one includes another? |
//! | `needed.rs` | Which rights does it take to write these objects? |
//! | `held.rs` | Which of them does an account lack? |
//! | `growth.rs` | Which rights does one bundle grant that another does not? |
//! | `rules.rs` | As few rules as say the same? |
//! | `powerful.rs` | Which of them make somebody a cluster administrator? |
//! | `roles.rs` | Which objects grant them? |
//! | `policy.rs` | Which admission policies keep tenants to what an InstallPolicy allows them? |
//!
//! Pure: the caller asks the API server what an account holds.

mod growth;
mod held;
mod needed;
pub mod policy;
mod powerful;
mod right;
mod roles;
mod rules;

pub use growth::growth;
pub use held::Held;
pub use needed::{RBAC, needed, of_migration, of_object};
pub use powerful::powerful;
pub use right::{Right, Rights, Scope};
pub use roles::roles;
pub use rules::{Rules, rules, text};
