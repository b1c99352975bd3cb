//! Whose catalogs may be unpacked: the ContentPolicies, and the signatures that they require.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use kube::runtime::reflector::Store;
use kube::{Client, ResourceExt};
use rukpak_catalog::origin::{Admission, Gate};
use rukpak_crds::{ContentPolicy, PolicyRule, SourceType};
use rukpak_runtime::watch::{Change, Streams};
use rukpak_source::image::{self, Credentials, Puller, ResolvedImage};
use rukpak_trust::{Credential, Decision, Place, Policies, Search, Subject, Verdict};
use tokio_util::sync::CancellationToken;

/// The policies as last seen.
pub(crate) struct ContentGate {
    policies: Store<ContentPolicy>,
    streams: Mutex<Option<Streams<ContentPolicy>>>,
    /// Cancelled when it is known which there are.
    listed: CancellationToken,
    /// Whether images are refused that no rule covers.
    closed: bool,
}

impl ContentGate {
    /// Knows none yet.
    pub fn new(client: Client, closed: bool) -> Arc<Self> {
        let streams = Streams::new(client);
        let (policies, streams) = (streams.store.clone(), Mutex::new(Some(streams)));
        Arc::new(Self { policies, streams, listed: CancellationToken::new(), closed })
    }

    /// Follows the policies, endlessly. Call it once.
    pub async fn follow(self: Arc<Self>) -> &'static str {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(streams) = streams else { return "the second watch over ContentPolicies" };
        let mut changes = pin!(streams.changes());
        while let Some(change) = changes.next().await {
            if matches!(change, Change::Listed) {
                self.listed.cancel();
            }
        }
        "the watch over ContentPolicies"
    }

    async fn judge(
        &self,
        puller: &Puller,
        reference: &str,
        image: &ResolvedImage,
        credentials: &Credentials,
    ) -> Result<Verdict, image::Error> {
        self.listed.cancelled().await;
        let (location, pinned) = image::location(reference).unzip();
        let place = Place { source: SourceType::Image, location, pinned: pinned.unwrap_or(false) };
        let all = self.policies.state();
        let policies = all.iter().map(|policy| (policy.name_any(), policy.spec.clone())).collect();
        let rules = match (Policies { policies, closed: self.closed }).decide(&place) {
            Decision::NotCovered => return Ok(Verdict::not_covered(&place)),
            Decision::Accepted(rule) => return Ok(Verdict::accepted(&place, &rule)),
            Decision::Refused(why) => return Ok(Verdict::refused(why)),
            Decision::Required(rules) => rules,
        };
        let repository = place.location.as_deref().unwrap_or_default();
        let subject = Subject { digest: image.digest(), repository };
        let known = rules.iter().map(|(_, rule)| known(rule)).collect();
        let mut search = Search::new(&rules, known, subject);
        puller.attachments(image, credentials, &mut search).await?;
        Ok(search.verdict())
    }
}

impl std::fmt::Debug for ContentGate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ContentGate").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Gate for ContentGate {
    fn admit<'a>(
        &'a self,
        puller: &'a Puller,
        reference: &'a str,
        image: &'a ResolvedImage,
        credentials: &'a Credentials,
    ) -> Admission<'a> {
        Box::pin(async move {
            let verdict = self.judge(puller, reference, image, credentials).await?;
            let Verdict { reason, message, .. } = &verdict;
            tracing::info!(image = reference, reason, detail = message, "catalog image looked at");
            Ok(if verdict.admits() { Ok(()) } else { Err(verdict.message) })
        })
    }
}

/// What the signatures of a rule's signers are checked with, or why one cannot be used.
fn known(rule: &PolicyRule) -> rukpak_trust::Credentials {
    let credential = |signer: &rukpak_crds::Signer| {
        let text = |pem: &&rukpak_crds::Pem| pem.data.clone();
        let texts: Option<Vec<_>> = signer.pems().iter().map(text).collect();
        let texts = texts.ok_or("rukpak-platform reads no Secrets: put it into the ContentPolicy (data)".to_owned());
        texts.and_then(|texts| Credential::new(signer, &texts))
    };
    rule.signers.iter().map(|signer| (signer.name.clone(), credential(signer))).collect()
}
