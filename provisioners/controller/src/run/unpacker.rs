//! Joins the two reconcilers: gives the installer the unpacker of this process.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rukpak_crds::{Bundle, BundleDeployment, Revision};
use rukpak_install::Unpacker;
use rukpak_unpack::{Context, bundle};

/// The Bundle reconciler of this process.
pub(super) struct InProcess(pub Arc<Context>);

impl Unpacker for InProcess {
    fn retry(&self, bundle: &Bundle) {
        bundle::retry(bundle, &self.0);
    }

    fn verify_content<'a>(&'a self, name: &'a str) -> BoxFuture<'a, ()> {
        bundle::verify_content(name, &self.0).boxed()
    }

    fn fetch_revision<'a>(
        &'a self,
        revision: &'a Revision,
        deployment: &'a BundleDeployment,
    ) -> BoxFuture<'a, Result<(), String>> {
        bundle::fetch_revision(revision, deployment, &self.0).boxed()
    }

    fn release<'a>(&'a self, bundle: &'a str) -> BoxFuture<'a, ()> {
        bundle::release(bundle, &self.0).boxed()
    }
}
