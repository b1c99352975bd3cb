//! Whose catalogs may be unpacked: the ContentPolicies, and the signatures that they require.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kube::api::ListParams;
use kube::{Api, Client};
use rukpak_catalog::origin::{Admission, Gate};
use rukpak_crds::{ConditionStatus, ContentPolicy, Signer, SourceType};
use rukpak_runtime::error::Chain;
use rukpak_runtime::lock::lock;
use rukpak_source::image::{self, Credentials, Puller, ResolvedImage};
use rukpak_trust::{Asked, Place, Policies, Requirement, Search, Subject, Texts, Verdict};

/// Lets images of catalogs in, as the policies say at that moment. They are listed for each image that is to be unpacked, which are few:
/// a watch may be late to tell of a policy that was created just before its catalog.
pub(crate) struct ContentGate {
    policies: Api<ContentPolicy>,
    /// Whether images are refused that no rule covers.
    closed: bool,
    /// What is said of images.
    pub verdicts: Arc<Verdicts>,
}

/// What was last said of images, by their references.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<HashMap<String, Said>>);

/// What the condition `Verified` is to say of the image of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    /// What it says: nobody has looked at the image in this process.
    Unlooked,
    /// Nothing: no rule is for the image.
    Uncovered,
    Said {
        status: ConditionStatus,
        reason: String,
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    verdict: Verdict,
    /// Whether a rule is for the image.
    is_covered: bool,
}

impl Verdicts {
    /// What was last said of the image.
    pub fn of(&self, reference: &str) -> Verified {
        let said = lock(&self.0);
        match said.get(reference) {
            None => Verified::Unlooked,
            Some(said) if !said.is_covered => Verified::Uncovered,
            Some(Said { verdict: Verdict { status, reason, message, .. }, .. }) => {
                Verified::Said { status: *status, reason: (*reason).to_owned(), message: message.clone() }
            }
        }
    }

    /// Whether that is something else than was said before: attempts are repeated, words about them are not.
    fn set(&self, reference: &str, said: Said) -> bool {
        let mut all = lock(&self.0);
        all.insert(reference.to_owned(), said.clone()) != Some(said)
    }
}

impl ContentGate {
    /// Asks `client`. Nothing is sent yet.
    pub fn new(client: Client, closed: bool) -> Arc<Self> {
        Arc::new(Self { policies: Api::all(client), closed, verdicts: Arc::default() })
    }

    async fn judge(
        &self,
        puller: &Puller,
        place: &Place,
        image: &ResolvedImage,
        credentials: &Credentials,
    ) -> Result<Verdict, image::Error> {
        let listed = match self.policies.list(&ListParams::default()).await {
            Ok(listed) => listed,
            Err(error) => {
                let why = format!(
                    "cannot list contentpolicies, which core.rukpak.io_contentpolicies.yaml defines: {}",
                    Chain(&error)
                );
                return Ok(Verdict::pending(why));
            }
        };
        let policies = Policies { policies: listed.items.into_iter().map(Arc::new).collect(), closed: self.closed };
        let rules = match Asked::of(place, &policies) {
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
    fn tell(&self, image: &str, verdict: &Verdict, is_covered: bool) {
        let Verdict { reason, message: detail, .. } = verdict;
        if !self.verdicts.set(image, Said { verdict: verdict.clone(), is_covered }) {
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
            let (location, pinned) = image::location(reference).unzip();
            let place = Place { source: SourceType::Image, location, pinned: pinned.unwrap_or(false), insecure: None };
            let verdict = self.judge(puller, &place, image, credentials).await?;
            self.tell(reference, &verdict, verdict != Verdict::not_covered(&place));
            Ok(if verdict.admits() { Ok(()) } else { Err(verdict.message) })
        })
    }
}

/// What a signer is known by, which has to stand in the policy.
fn texts(signer: &Signer) -> Texts {
    let texts: Option<Vec<_>> = signer.pems().into_iter().map(|pem| pem.data.clone()).collect();
    texts.ok_or("rukpak-platform reads no Secrets: put it into the ContentPolicy (data)".to_owned())
}
