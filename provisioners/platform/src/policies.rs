//! Whose catalogs may be unpacked: the ContentPolicies, and the signatures that they require.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::runtime::reflector::Store;
use rukpak_catalog::origin::{Admission, Gate};
use rukpak_crds::{ContentPolicy, Signer, SourceType};
use rukpak_runtime::watch::{Change, Streams};
use rukpak_source::image::{self, Credentials, Puller, ResolvedImage};
use rukpak_trust::{Asked, Place, Policies, Requirement, Search, Subject, Texts, Verdict};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// So long an image waits for the first list of policies.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

/// The policies as last seen.
pub(crate) struct ContentGate {
    policies: Store<ContentPolicy>,
    streams: Mutex<Option<Streams<ContentPolicy>>>,
    /// Cancelled when it is known which there are.
    listed: CancellationToken,
    /// Whether images are refused that no rule covers.
    closed: bool,
    /// Reason and message last said of an image, by its reference: attempts are repeated, words about them are not.
    said: Mutex<HashMap<String, (&'static str, String)>>,
}

impl ContentGate {
    /// Knows none yet.
    pub fn new(client: Client, closed: bool) -> Arc<Self> {
        let streams = Streams::new(client);
        let (policies, streams) = (streams.store.clone(), Mutex::new(Some(streams)));
        Arc::new(Self { policies, streams, listed: CancellationToken::new(), closed, said: Mutex::default() })
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
        if timeout(LISTED_WITHIN, self.listed.cancelled()).await.is_err() {
            let why = "the ContentPolicies could not be listed: see whether their CustomResourceDefinition is applied";
            return Ok(Verdict::pending(why.to_owned()));
        }
        let (location, pinned) = image::location(reference).unzip();
        let place = Place { source: SourceType::Image, location, pinned: pinned.unwrap_or(false) };
        let policies = Policies { policies: self.policies.state(), closed: self.closed };
        let rules = match Asked::of(&place, &policies) {
            Asked::Answered(verdict) => return Ok(verdict),
            Asked::Signatures(rules) => rules,
        };
        let required: Vec<_> = rules
            .into_iter()
            .map(|(name, rule)| {
                let texts = rule.signers.iter().map(texts).collect();
                Requirement { name, rule, texts }
            })
            .collect();
        let repository = place.location.as_deref().unwrap_or_default();
        let mut search = Search::new(&required, Subject { digest: image.digest(), repository });
        puller.attachments(image, credentials, &mut search).await?;
        Ok(search.verdict())
    }

    /// Logs what is new of it.
    fn tell(&self, image: &str, verdict: &Verdict) {
        let Verdict { reason, message: detail, .. } = verdict;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let before = said.insert(image.to_owned(), (*reason, detail.clone()));
        if before.is_some_and(|before| before == (*reason, detail.clone())) {
            tracing::debug!(image, reason, detail, "the ContentPolicies say the same of the image of a catalog");
        } else if verdict.admits() {
            tracing::info!(image, reason, detail, "image of a catalog is let in");
        } else {
            tracing::warn!(image, reason, detail, "image of a catalog is refused");
        }
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
            self.tell(reference, &verdict);
            Ok(if verdict.admits() { Ok(()) } else { Err(verdict.message) })
        })
    }
}

/// What a signer is known by, which has to stand in the policy.
fn texts(signer: &Signer) -> Texts {
    let texts: Option<Vec<_>> = signer.pems().into_iter().map(|pem| pem.data.clone()).collect();
    texts.ok_or("rukpak-platform reads no Secrets: put it into the ContentPolicy (data)".to_owned())
}
