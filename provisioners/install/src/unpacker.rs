//! What the installer asks of whoever unpacks Bundles. The program hands it in: this crate knows no source and no login.

use futures::future::BoxFuture;
use rukpak_crds::{Bundle, Revision};

/// Unpacks Bundles into the store that the installer reads.
pub trait Unpacker: Send + Sync {
    /// Retries a failed Bundle now: the cause of the failure is gone.
    fn retry(&self, bundle: &Bundle);

    /// Verifies the content of the Bundle `name`, and fetches it again if it is lost or damaged. Call it if loading the content failed with
    /// an error that is [`mended_by_refill`](rukpak_store::Error::mended_by_refill). The BundleDeployment that
    /// owns the Bundle is enqueued when the content is there.
    fn verify_content<'a>(&'a self, name: &'a str) -> BoxFuture<'a, ()>;

    /// Fetches the content of a revision again, by its pin and without a Bundle. The error says why it cannot be fetched.
    fn fetch_revision<'a>(&'a self, revision: &'a Revision) -> BoxFuture<'a, Result<(), String>>;

    /// Releases what the store keeps under the name of a Bundle that is gone.
    fn release<'a>(&'a self, bundle: &'a str) -> BoxFuture<'a, ()>;
}
