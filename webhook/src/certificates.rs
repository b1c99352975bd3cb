//! Where the serving certificate comes from, and who sees that the API server trusts it.
//!
//! Either *files* ([`files`]): somebody else (cert-manager, OpenShift's service-ca) writes them, and puts the authority
//! into the webhook configuration. They are read again when they change.
//!
//! Or *self-made* ([`manager`]): a Secret holds the authority's certificate, the serving certificate and its key. Every
//! replica watches the Secret and the webhook configuration and takes the same [`rotation::next_step`], so any replica
//! may do any step, and one that dies is not missed. Writes carry the resourceVersion they were decided on: of several
//! replicas one wins, the others see what it wrote.
//!
//! ```text
//! 1 issue     a new authority and certificate are written to the Secret; the old authority stays beside the new
//! 2 publish   caBundle := both authorities; the API server now trusts old and new
//! 3 settle    wait until that has been in the configuration for a while: API servers watch it, each with its own lag
//! 4 serve     each replica hands new connections the new certificate
//! 5 prune     a third of a lifetime later the old authority leaves the Secret and caBundle (2 again)
//! ```
//!
//! No call is refused on the way: what is served is trusted at every moment. The authority's private key is never stored:
//! it signs one certificate and is forgotten, so nobody who reads the Secret can make a second one.

use std::sync::Arc;
use std::time::Duration;

use rukpak_certificates::Identity;
use rukpak_certificates::identity::since_epoch;

use crate::health::Readiness;
use crate::metrics::Metrics;
use crate::tls::Serving;

pub mod files;
pub mod manager;
pub mod rotation;

pub use rukpak_certificates::service_names;

/// Where a certificate is put to be used: the listener, with readiness and metrics told.
#[derive(Debug)]
pub struct Installed {
    /// The listener's certificate.
    pub serving: Arc<Serving>,
    /// What `/readyz` knows.
    pub readiness: Arc<Readiness>,
    /// What `/metrics` knows.
    pub metrics: Arc<Metrics>,
}

impl Installed {
    /// Hands the certificate to new connections.
    pub fn install(&self, identity: &Identity) {
        let until = identity.validity().until;
        self.serving.set(identity.key());
        self.readiness.certificate_until(until);
        self.metrics.set_certificate_expiry(since_epoch(until).as_secs());
    }
}

/// How long the configuration must have held the new authority before the new certificate is served; shorter for
/// lifetimes of minutes, see [`rotation::Policy`].
pub const SETTLE: Duration = Duration::from_secs(10);
