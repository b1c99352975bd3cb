//! Servers of catalogs: the registry's gRPC API, catalogd's HTTPS API, and catalog images for the real registry.
//!
//! All three serve the same [`Documents`]. They are read here and not by the code under test.

mod documents;
mod front;
mod grpc;
mod https;
mod image;
mod server;

pub use self::documents::{Documents, nothing};
pub use self::front::CatalogFront;
pub use self::https::CatalogdServer;
pub use self::image::{CONFIGS_LABEL, CatalogImage, SQLITE_LABEL};
pub use self::server::{CatalogServer, Cut, Ending};
