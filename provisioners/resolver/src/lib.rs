//! Which bundles have to be installed together, and why a request cannot be met. Pure.
//!
//! ```text
//! property    a property, as a catalog has it
//! constraint  `olm.constraint` and the older forms -> what is demanded               cel   its rules in CEL
//! facts       properties of a bundle -> what it is, provides and requires, and which constraints it meets
//! world       catalogs and what is installed -> the nodes that a resolution looks at   order   newest first, in a channel
//! offer       a catalog as it was read -> one of the world
//! set         a bundle -> the packages that have to be installed with it
//! reach       a bundle -> the packages that can matter to it
//! together    an upgrade -> the upgrades that have to be made with it
//! candidates  a request or a constraint -> the nodes that meet it, by preference
//! rules       what holds for every solution, as clauses
//! oracle      whether some rules can hold together (a SAT solver), and the fewest that cannot
//! resolve     the preferred solution                                                   answer   its steps, or an explanation
//! ```

mod answer;
mod candidates;
mod cel;
mod constraint;
mod facts;
#[cfg(test)]
mod fixtures;
mod offer;
mod oracle;
mod order;
mod property;
mod reach;
mod resolve;
mod rules;
pub mod set;
mod together;
mod world;

pub use answer::{Answer, BundleId, Fact, Missing, Need, Refusal, Step, explain};
pub use constraint::{Constraint, MAX_CONSTRAINT_BYTES, Unreadable};
pub use facts::Facts;
pub use order::newest_first;
pub use property::{PACKAGE, Property};
pub use reach::reach;
pub use resolve::resolve;
pub use together::{Mover, together};
pub use world::{Catalog, CatalogName, Entry, Installed, Package, Request, World};
