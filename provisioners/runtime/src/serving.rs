//! HTTPS with a certificate that is made, renewed and published here, or by somebody else.
//!
//! ```text
//! certificate  a Secret with the certificate, and the object that tells clients whom to trust      API server
//! folder       a certificate in two files that somebody else writes                               disk
//! tls          what new connections are served with; changes while calls are served               memory
//! ```

pub mod certificate;
pub mod folder;
pub mod tls;

pub use certificate::{AuthoritySecret, Keeper, Serving, TrustBundle};
pub use tls::{ClientChain, OverTls, Tls};
