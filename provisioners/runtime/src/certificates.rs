//! Serving certificates that we make ourselves. No I/O: the caller reads and writes the Secret, and says what time it is.
//!
//! ```text
//! authority   an authority and the one certificate that it signs; its key is dropped on return
//! identity    a certificate chain with its key, ready to be served
//! stored      what a Secret holds: read, checked as a client would, written
//! renewal     the next state of the Secret: stage, then promote
//! ```

pub mod authority;
pub mod identity;
pub mod renewal;
pub(crate) mod stored;

pub use authority::{Issued, issue};
pub use identity::Identity;

/// The names that a Service is called by in its cluster, and `localhost`; the first is the one that the API server uses.
pub fn service_names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
        "localhost".to_owned(),
    ]
}
