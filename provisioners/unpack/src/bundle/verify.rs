//! Whose content it is: what the ContentPolicies ask of a source, and whether it is signed so. Policies are those last seen;
//! keys are read from Secrets, signatures from the registry or the repository.
//!
//! A Bundle that is not unpacked yet is let in or not. One that is unpacked stays so: of it the status only tells what the
//! policies of today say.

mod signers;

use std::time::Duration;

use kube::ResourceExt as _;
use rukpak_content::Digest;
use rukpak_crds::validate::{self, GitReference, Source};
use rukpak_crds::{Bundle, PolicyRule, SourceType};
use rukpak_runtime::error::Chain;
use rukpak_source::hosts::Scheme;
use rukpak_source::{git, http, image};
use rukpak_trust::{
    Asked, GitObjects, GitSubject, Insecure, Place, Policies, Requirement, RuleName, Search, Subject, Verdict,
    requirement,
};
use tokio::sync::SemaphorePermit;

use super::backoff;
use super::failure::Failure;
use super::pin::Pinned;
use super::resolve::{self, Resolved};
use super::turn;
use crate::context::Context;
use crate::metrics;

/// When a signature of something unpacked is searched for again that is missing, or could not be read.
pub const SEARCHED_AGAIN_AFTER: Duration = Duration::from_mins(5);

/// A source, and what is asked of it.
pub struct Check {
    place: Place,
    asked: Asked,
}

impl Check {
    /// By the policies of now, of a source that is to be fetched for the first time.
    ///
    /// # Errors
    /// It is refused, whatever it holds: nobody need be asked for it.
    pub fn of(source: &Source, context: &Context) -> Result<Self, Failure> {
        let check = Self::by_policies(source, context);
        match &check.asked {
            Asked::Answered(verdict) if !verdict.admits() => {
                metrics::count_verification(verdict);
                Err(Failure::NotAdmitted(Box::new(verdict.clone())))
            }
            Asked::Answered(_) | Asked::Signatures(_) => Ok(check),
        }
    }

    fn by_policies(source: &Source, context: &Context) -> Self {
        let place = place(source);
        let policies = context.policies.state();
        let asked = Asked::of(&place, &Policies { policies, closed: context.sources.policy.require_content_policy });
        Self { place, asked }
    }

    /// Whether what the source names now may be unpacked; and what is needed to fetch it.
    ///
    /// # Errors
    /// It may not, or that could not be found out.
    #[tracing::instrument(level = "debug", name = "verify", skip_all)]
    pub async fn admit(&self, resolved: Resolved, context: &Context) -> Result<(Verdict, Resolved), Failure> {
        let (verdict, resolved) = match &self.asked {
            Asked::Answered(verdict) => (verdict.clone(), resolved),
            Asked::Signatures(rules) => {
                let required = signers::read(rules, context).await?;
                search(&self.place, &required, resolved, context).await?
            }
        };
        metrics::count_verification(&verdict);
        Ok((admitted(verdict)?, resolved))
    }
}

/// Looks for the signatures: of an image in its registry, of a commit in its repository.
async fn search(
    place: &Place,
    required: &[Requirement],
    resolved: Resolved,
    context: &Context,
) -> Result<(Verdict, Resolved), Failure> {
    let repository = place.location.as_deref().unwrap_or_default();
    Ok(match resolved {
        Resolved::Image { reference, image, credentials } => {
            let mut search = Search::new(required, Subject { digest: image.digest(), repository });
            let failed = |source| Failure::Signatures { reference: reference.clone(), source: Box::new(source) };
            context.sources.images.attachments(&image, &credentials, &mut search).await.map_err(failed)?;
            (search.verdict(), Resolved::Image { reference, image, credentials })
        }
        Resolved::Git(resolved) => {
            let (resolved, objects) = context.sources.git.look(*resolved).await?;
            let (commit, tag) = (resolved.commit().as_str(), resolved.tag());
            let subject = GitSubject { repository, commit, tag };
            let objects = GitObjects { commit: &objects.commit, tag: objects.tag.as_deref() };
            (rukpak_trust::git::judge(required, subject, objects), Resolved::Git(Box::new(resolved)))
        }
        other @ (Resolved::Http(_) | Resolved::ConfigMaps(_) | Resolved::Upload { .. }) => {
            (Verdict::refused(format!("{place} cannot be signed")), other)
        }
    })
}

/// Whether the status says already that what has this digest is met by this version.
fn is_known(bundle: &Bundle, asked: &Digest, pinned: &Pinned) -> bool {
    let known = bundle.status.as_ref().and_then(|status| status.verification.as_ref());
    known.is_some_and(|known| {
        known.signed_by.is_some()
            && known.digest == pinned.revision.to_string()
            && known.rules_digest == asked.to_string()
    })
}

/// Returns whether the policies of now ask for a signature of the Bundle's source.
pub fn asks_signature(bundle: &Bundle, context: &Context) -> bool {
    let Ok(source) = validate::source(&bundle.spec.source) else { return false };
    matches!(Check::by_policies(&source, context).asked, Asked::Signatures(_))
}

/// Whether it was ever unpacked itself.
fn is_unpacked(bundle: &Bundle) -> bool {
    bundle.status.as_ref().is_some_and(|status| status.pin.is_some())
}

/// What the policies of now say of a Bundle that has its pin; `None` if the status says so already, or it is not yet time to
/// search again for a signature that was missing or could not be read.
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
    let Check { place, asked } = Check::by_policies(&source, context);
    let verdict = match asked {
        Asked::Answered(verdict) => {
            // What was searched for before is asked anew when it is asked again: the status says something else meanwhile.
            backoff::SEARCHES.clear(&bundle.uid().unwrap_or_default());
            Ok(Some(verdict))
        }
        Asked::Signatures(rules) => search_again(bundle, pinned, source, (&place, &rules), pass, context).await,
    };
    weigh(bundle, verdict)
}

/// Returns what is said of a Bundle that has its pin. One that was unpacked itself stays so, whatever was found; one with the pin of
/// an earlier Bundle is let in or not.
pub fn weigh(bundle: &Bundle, found: Result<Option<Verdict>, Failure>) -> Result<Option<Verdict>, Failure> {
    match found {
        Ok(Some(verdict)) if !is_unpacked(bundle) => admitted(verdict).map(Some),
        Err(failure) if is_unpacked(bundle) => {
            let name = bundle.name_any();
            tracing::debug!(bundle = name, error = %Chain(&failure), "cannot verify what is unpacked; will retry");
            Ok(Some(Verdict::pending(Chain(&failure).to_string())))
        }
        other => other,
    }
}

async fn search_again(
    bundle: &Bundle,
    pinned: &Pinned,
    source: Source,
    (place, rules): (&Place, &[(RuleName, PolicyRule)]),
    pass: &mut Option<SemaphorePermit<'_>>,
    context: &Context,
) -> Result<Option<Verdict>, Failure> {
    let (uid, required) = (bundle.uid().unwrap_or_default(), signers::read(rules, context).await?);
    let asked = requirement::digest(&required);
    if is_known(bundle, &asked, pinned) || backoff::SEARCHES.left_of(&uid, &asked).is_some() {
        return Ok(None);
    }
    // Who waits for a server must not stand in the way of a look at the disk.
    drop(pass.take());
    let _permits = turn::permits(bundle, &source, context).await;
    let found = async {
        let resolved = resolve::resolve(bundle, source, Some(&pinned.revision), context).await?;
        search(place, &required, resolved, context).await.map(|(verdict, _)| verdict)
    };
    let found = found.await.inspect(metrics::count_verification);
    match &found {
        Ok(verdict) if verdict.admits() => backoff::SEARCHES.clear(&uid),
        // Of what is not unpacked each attempt has to ask.
        _ if is_unpacked(bundle) => backoff::SEARCHES.wait(&uid, asked, SEARCHED_AGAIN_AFTER),
        _ => {}
    }
    found.map(Some)
}

/// Returns the verdict if content may be unpacked by it.
pub fn admitted(verdict: Verdict) -> Result<Verdict, Failure> {
    if verdict.admits() { Ok(verdict) } else { Err(Failure::NotAdmitted(Box::new(verdict))) }
}

/// Where a source is, for those who judge it by that.
pub(crate) fn place(source: &Source) -> Place {
    let insecure = insecure(source);
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
    Place { source, location, pinned, insecure }
}

/// How somebody between could answer in the place of the server. Registries without TLS are named by an administrator's flag.
fn insecure(source: &Source) -> Option<Insecure> {
    let (server, auth) = match source {
        Source::Git { repository, auth, .. } => (git::server(repository), auth),
        Source::Http { url, auth } => (http::Request::new(url).ok().and_then(|request| request.server()), auth),
        Source::Image { .. } | Source::ConfigMaps(_) | Source::Upload => return None,
    };
    if server.is_some_and(|server| server.scheme == Scheme::Http) {
        return Some(Insecure::WithoutTls);
    }
    auth.skips_verification().then_some(Insecure::SkipsVerification)
}
