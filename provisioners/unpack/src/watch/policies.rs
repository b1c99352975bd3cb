//! From ContentPolicies to the Bundles that they are about.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::ResourceExt;
use rukpak_crds::condition::{Conditions, VERIFIED, reason};
use rukpak_crds::{Bundle, BundlePhase, ContentPolicy, validate};
use rukpak_runtime::watch::{Change, Streams};
use rukpak_trust::{Policies, RuleName};

use crate::bundle;
use crate::context::Context;

/// Follows ContentPolicies, endlessly: after each change every Bundle is looked at again.
pub async fn follow(streams: Streams<ContentPolicy>, context: Arc<Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(policy) => {
                tracing::info!(policy = policy.name_any(), "ContentPolicy changed");
                retry_all(&context);
            }
            Change::Gone(policy) => {
                tracing::info!(policy = policy.name_any(), "ContentPolicy deleted");
                retry_all(&context);
            }
            Change::Listed { .. } => retry_all(&context),
        }
    }
    "the watch over ContentPolicies"
}

/// Looks at every Bundle again, and warns of rules that are for none of them.
fn retry_all(context: &Context) {
    warn_of_unused(context);
    for bundle in context.bundles.state() {
        if bundle.is_in(BundlePhase::Unpacked) {
            context.bundle_queue.add(&bundle.name_any());
        } else if is_not_admitted(&bundle) {
            bundle::retry(&bundle, context);
        }
    }
}

/// A rule that fits no source requires nothing, though its author may believe so: a scope can be misspelled.
fn warn_of_unused(context: &Context) {
    let sources = context.bundles.state().into_iter().filter_map(|bundle| validate::source(&bundle.spec.source).ok());
    let places: Vec<_> = sources.map(|source| bundle::place(&source)).collect();
    if places.is_empty() {
        return;
    }
    let policies = Policies { policies: context.policies.state(), closed: false };
    for RuleName { policy, rule } in policies.unused(&places) {
        tracing::warn!(
            policy,
            rule,
            "the rule of this ContentPolicy is for no Bundle of now: look whether its scopes are spelled as meant"
        );
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
