//! The words for content: [`Digest`], [`RelativePath`], [`BundleTree`], [`Limits`], [`Address`].
//!
//! A pure leaf of the crate graph: no I/O of its own, nothing of Kubernetes. Sources produce a [`Tree`], the
//! store seals a [`Tree`], the formats read a [`BundleTree`].

mod address;
mod attachment;
mod digest;
mod limits;
pub mod pack;
mod path;
mod reference;
mod tree;

pub use address::{Address, AddressError, Scheme};
pub use attachment::{Attachment, AttachmentVisitor};
pub use digest::{Algorithm, Digest, DigestError, Hasher};
pub use limits::{Limit, LimitExceeded, Limits};
pub use path::{PathError, RelativePath};
pub use reference::repository;
pub use tree::{BundleTree, CollectError, Entry, Node, Tree};
