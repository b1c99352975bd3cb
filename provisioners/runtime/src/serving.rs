//! HTTPS with a certificate that is made, renewed and published here, or by somebody else.
//!
//! ```text
//! certificate  two Secrets: the certificate, and the authorities that clients trust      API server
//! folder       a certificate in two files that somebody else writes                    disk
//! tls          what new connections are served with; changes while calls are served     memory
//! ```

pub mod certificate;
pub mod folder;
pub mod tls;

pub use certificate::{Keeper, Serving};
pub use tls::{ClientChain, OverTls, Tls};
