//! Whose content it is: what the ContentPolicies ask of a source, and whether it is signed so. Policies are those last seen;
//! keys are read from Secrets, signatures from the registry.
//!
//! A Bundle that is not unpacked yet is let in or not. One that is unpacked stays so: of it the status only tells what the
//! policies of today say.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use rukpak_crds::validate::{self, GitReference, Source};
use rukpak_crds::{Bundle, Pem, PolicyRule, SourceType};
use rukpak_runtime::api::answered;
use rukpak_runtime::error::Chain;
use rukpak_source::image::{self, Credentials, ResolvedImage};
use rukpak_source::{git, http};
use rukpak_trust::{Credential, Decision, Place, Policies, RuleName, Search, Subject, Verdict};
use tokio::sync::SemaphorePermit;

use super::failure::Failure;
use super::fetches;
use super::pin::Pinned;
use super::resolve::{self, Resolved};
use crate::context::Context;
use crate::metrics;

/// What is asked of a source.
pub struct Asked {
    place: Place,
    decision: Decision,
}

impl Asked {
    /// By the policies of now, of a source that is to be fetched for the first time.
    ///
    /// # Errors
    /// It is refused, whatever it holds: nobody need be asked for it.
    pub fn of(source: &Source, context: &Context) -> Result<Self, Failure> {
        let asked = Self::by_policies(source, context);
        match &asked.decision {
            Decision::Refused(why) => {
                let verdict = Verdict::refused(why.clone());
                metrics::count_verification(&verdict);
                Err(not_admitted(verdict))
            }
            _ => Ok(asked),
        }
    }

    fn by_policies(source: &Source, context: &Context) -> Self {
        let place = place(source);
        let decision = policies(context).decide(&place);
        Self { place, decision }
    }

    /// Whether what the source names now may be unpacked.
    ///
    /// # Errors
    /// It may not, or that could not be found out.
    pub async fn admit(&self, resolved: &Resolved, context: &Context) -> Result<Verdict, Failure> {
        let verdict = self.judge(resolved, context).await?;
        metrics::count_verification(&verdict);
        if verdict.admits() { Ok(verdict) } else { Err(not_admitted(verdict)) }
    }

    async fn judge(&self, resolved: &Resolved, context: &Context) -> Result<Verdict, Failure> {
        match (self.without_signature(), resolved) {
            (Some(verdict), _) => Ok(verdict),
            (None, Resolved::Image { reference, image, credentials }) => {
                self.search(reference, image, credentials, context).await
            }
            // Not reached: rules refuse what cannot be signed.
            (None, _) => Ok(Verdict::refused(format!("{} cannot be signed", self.place))),
        }
    }

    /// What can be said without a look at signatures.
    fn without_signature(&self) -> Option<Verdict> {
        Some(match &self.decision {
            Decision::NotCovered => Verdict::not_covered(&self.place),
            Decision::Accepted(rule) => Verdict::accepted(&self.place, rule),
            Decision::Refused(why) => Verdict::refused(why.clone()),
            Decision::Required(_) => return None,
        })
    }

    async fn search(
        &self,
        reference: &str,
        image: &ResolvedImage,
        credentials: &Credentials,
        context: &Context,
    ) -> Result<Verdict, Failure> {
        let Decision::Required(rules) = &self.decision else { return Ok(Verdict::not_covered(&self.place)) };
        let repository = self.place.location.as_deref().unwrap_or_default();
        let subject = Subject { digest: image.digest(), repository };
        let mut of_rules = Vec::new();
        for (_, rule) in rules {
            of_rules.push(known(rule, context).await?);
        }
        let mut search = Search::new(rules, of_rules, subject);
        let failed = |source| Failure::Signatures { reference: reference.to_owned(), source: Box::new(source) };
        context.images.attachments(image, credentials, &mut search).await.map_err(failed)?;
        Ok(search.verdict())
    }
}

/// Whether the status says already that these rules are met by this image.
fn is_known(bundle: &Bundle, rules: &[(RuleName, PolicyRule)], pinned: &Pinned) -> bool {
    let known = bundle.status.as_ref().and_then(|status| status.verification.as_ref());
    known.is_some_and(|known| {
        known.signed_by.is_some()
            && known.digest == pinned.revision.to_string()
            && known.rules_digest == rukpak_trust::decide::rules_digest(rules).to_string()
    })
}

/// What the policies of now say of a Bundle that has its pin; `None` if the status says so already.
///
/// # Errors
/// Only of a Bundle that was never unpacked itself, whose pin is that of an earlier one: it may not be.
pub async fn reconsider(
    bundle: &Bundle,
    pinned: &Pinned,
    pass: &mut Option<SemaphorePermit<'_>>,
    context: &Context,
) -> Result<Option<Verdict>, Failure> {
    // A source that cannot be read was never unpacked, or was by other rules.
    let Ok(source) = validate::source(&bundle.spec.source) else { return Ok(None) };
    let asked = Asked::by_policies(&source, context);
    let verdict = match &asked.decision {
        Decision::Required(rules) if is_known(bundle, rules, pinned) => return Ok(None),
        Decision::Required(_) => {
            // Who waits for a server must not stand in the way of a look at the disk.
            drop(pass.take());
            let _permit = context.fetches.acquire(fetches::host(&source).as_deref()).await;
            let resolved = resolve::resolve(bundle, source, Some(&pinned.revision), context).await;
            let found = match resolved {
                Ok(resolved) => asked.judge(&resolved, context).await,
                Err(failure) => Err(failure),
            };
            found.inspect(metrics::count_verification)
        }
        _ => Ok(asked.without_signature().unwrap_or_else(|| Verdict::not_covered(&asked.place))),
    };
    let is_unpacked = bundle.status.as_ref().is_some_and(|status| status.pin.is_some());
    match verdict {
        Ok(verdict) if is_unpacked || verdict.admits() => Ok(Some(verdict)),
        Ok(verdict) => Err(not_admitted(verdict)),
        Err(failure) if is_unpacked => {
            let name = bundle.name_any();
            tracing::debug!(bundle = name, error = %Chain(&failure), "cannot verify what is unpacked; will retry");
            Ok(Some(Verdict::pending(Chain(&failure).to_string())))
        }
        Err(failure) => Err(failure),
    }
}

fn not_admitted(verdict: Verdict) -> Failure {
    Failure::NotAdmitted(Box::new(verdict))
}

fn policies(context: &Context) -> Policies {
    let all = context.policies.state();
    let policies = all.iter().map(|policy| (policy.name_any(), policy.spec.clone())).collect();
    Policies { policies, closed: context.sources.require_content_policy }
}

fn place(source: &Source) -> Place {
    let (source, location, pinned) = match source {
        Source::Image { reference, .. } => {
            let found = image::location(reference);
            let pinned = found.as_ref().is_some_and(|(_, pinned)| *pinned);
            (SourceType::Image, found.map(|(location, _)| location), pinned)
        }
        Source::Git { repository, reference, .. } => {
            let pinned = matches!(reference, GitReference::Commit(_));
            (SourceType::Git, git::location(repository), pinned)
        }
        Source::Http { url, .. } => {
            let location = http::Request::new(url).ok().and_then(|request| request.location());
            (SourceType::Http, location, false)
        }
        Source::ConfigMaps(_) => (SourceType::ConfigMaps, None, false),
        Source::Upload => (SourceType::Upload, None, false),
    };
    Place { source, location, pinned }
}

/// What the signatures of a rule's signers are checked with, by their names, or why one cannot be used.
async fn known(rule: &PolicyRule, context: &Context) -> Result<rukpak_trust::Credentials, Failure> {
    let mut credentials = Vec::new();
    for signer in &rule.signers {
        let failed = |source| Failure::SignerKey { signer: signer.name.clone(), source };
        let mut texts = Vec::new();
        for named in signer.pems() {
            texts.push(pem(named, context).await.map_err(failed)?);
        }
        let pems: Result<Vec<_>, _> = texts.into_iter().collect();
        credentials.push((signer.name.clone(), pems.and_then(|pems| Credential::new(signer, &pems))));
    }
    Ok(credentials)
}

/// The text, or why there is none.
async fn pem(pem: &Pem, context: &Context) -> Result<Result<String, String>, crate::cluster::Error> {
    if let Some(data) = &pem.data {
        return Ok(Ok(data.clone()));
    }
    let Some(reference) = &pem.secret_ref else { return Ok(Err("there is neither data nor secretRef".to_owned())) };
    let namespace = &context.system_namespace;
    let shown = format!("secret {namespace}/{}", reference.name);
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let Some(secret) = answered(api.get_opt(&reference.name)).await? else {
        return Ok(Err(format!("there is no {shown}")));
    };
    let data = secret.data.unwrap_or_default();
    let Some(ByteString(bytes)) = data.get(&reference.key) else {
        return Ok(Err(format!("{shown} has no key {}", reference.key)));
    };
    Ok(String::from_utf8(bytes.clone()).map_err(|_| format!("{shown}: key {} is not text", reference.key)))
}
