//! Catalogs of OLM packages: which bundle a package name stands for, and where an upgrade leads.
//!
//! ```text
//! origin    image:, dir:, https:   ->  a catalog and its revision          registry  the same over gRPC (api.Registry)
//!    |                                                                        |
//! read      files  ->  documents (JSON or YAML streams, .indexignore)         |
//! document  one document: its schema and what is kept of it                   |
//!    |                                                                        |
//! model     Catalog: packages, channels, bundles  <---------------------------+
//!    |
//! graph     heads, successors, what is wrong with it
//! check     what a bundle asks that nobody gives       choose  the bundle for a request
//! resolve   the bundle for an OLM v1 extension, from several catalogs
//! served    a catalog on disk, as clients of catalogd's HTTP API get it
//! ```
//!
//! `model` and what stands below it is pure. Knows nothing of a cluster; versions and ranges are in [`version`].

pub mod check;
pub mod choose;
pub mod document;
pub mod graph;
pub mod model;
pub mod origin;
pub mod read;
pub mod registry;
pub mod resolve;
pub mod served;
pub mod version;

pub use model::{Bundle, Catalog, Channel, Entry, Package};
pub use version::{Range, Version};
