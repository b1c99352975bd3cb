//! registry+v1 bundles: a [`BundleTree`](rukpak_content::BundleTree) to plain Kubernetes objects.
//!
//! ```text
//! load       files to a Bundle        csv, crd, metadata   what is read of them, typed
//! validate   all findings at once     gate                 what is never installed
//! remarks    what an author should know
//! config     the user's settings      install_mode         which namespaces may be watched
//! render     a Bundle to objects      name                 the names of generated objects
//! namespace  where it wants to live      proxy                what operators are told of the cluster's proxy
//! dependencies  what others have to bring          kubernetes  the oldest version that will do
//! ```
//!
//! Pure: no I/O, no clock, no client. The same bytes and options always give the same objects and errors.

pub mod config;
pub mod crd;
pub mod csv;
mod decode;
mod dependencies;
pub mod gate;
pub mod install_mode;
mod kubernetes;
pub mod load;
pub mod metadata;
pub mod name;
mod namespace;
pub mod proxy;
mod remarks;
pub mod render;
pub mod validate;

pub use config::DeploymentConfig;
pub use decode::FieldError;
pub use dependencies::Unresolvable;
pub use kubernetes::TooOld;
pub use load::{Bundle, load};
pub use namespace::NamespaceTemplate;
pub use proxy::Proxy;
pub use render::{Certificates, Places, RenderOptions, render};
pub use validate::{Finding, Rule, validate};
