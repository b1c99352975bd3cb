//! From ContentPolicies to the Bundles that they are about.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::ResourceExt;
use rukpak_crds::condition::{Conditions, VERIFIED, reason};
use rukpak_crds::{Bundle, BundlePhase, ContentPolicy};
use rukpak_runtime::watch::{Change, Streams};

use crate::bundle;
use crate::context::Context;

/// Follows ContentPolicies, endlessly: after each change every Bundle is looked at again.
pub(super) async fn follow(streams: Streams<ContentPolicy>, context: Arc<Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(policy) => {
                tracing::info!(policy = policy.name_any(), "ContentPolicy changed");
                reconsider(&context);
            }
            Change::Gone(policy) => {
                tracing::info!(policy = policy.name_any(), "ContentPolicy deleted");
                reconsider(&context);
            }
            Change::Listed { .. } => reconsider(&context),
        }
    }
    "the watch over ContentPolicies"
}

fn reconsider(context: &Context) {
    for bundle in context.bundles.state() {
        if bundle.is_in(BundlePhase::Unpacked) {
            context.wake.bundle(&bundle.name_any());
        } else if is_not_admitted(&bundle) {
            bundle::reconsider(&bundle, context);
        }
    }
}

/// Whether a policy is why it is not unpacked.
fn is_not_admitted(bundle: &Bundle) -> bool {
    let verified = bundle.status.as_ref().and_then(|status| status.conditions.find(VERIFIED));
    verified.is_some_and(|verified| {
        matches!(
            verified.reason.as_str(),
            reason::SIGNATURE_MISSING | reason::REFUSED_BY_POLICY | reason::VERIFICATION_PENDING
        )
    })
}
