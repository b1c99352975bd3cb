//! Why a Bundle is not unpacked, and what its status says of it. Pure.

use std::io;

use rukpak_content::PathError;
use rukpak_crds::BundlePhase;
use rukpak_crds::condition::{BACK_OFF_PULLING, reason};
use rukpak_crds::names::RECONCILE_REQUESTED_AT;
use rukpak_crds::validate::Findings;
use rukpak_plan::retry::Class;
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use rukpak_source::{git, http, image, upload};
use tokio::task::JoinError;

use super::{check, config_maps, credentials, pin};

/// Why content is not there. The beginnings of the texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The source in the spec is not whole. The spec cannot change, so neither can this.
    #[error("source bundle content")]
    Spec(#[source] Findings),
    /// The git directory is not a path.
    #[error("source bundle content")]
    Directory(#[source] PathError),
    /// The pin cannot be used, or the source no longer holds what it held.
    #[error("source bundle content")]
    Pin(#[source] pin::Error),
    /// There is no login.
    #[error("source bundle content")]
    Credentials(#[from] credentials::Error),
    /// The source trusts anyone, and none may.
    #[error(
        "source bundle content: auth.insecureSkipVerify is not allowed in this cluster (--require=tls-verification): have the \
         certificate of the server's CA added (--source-ca-file), or put the ssh host key into the Secret"
    )]
    InsecureSkipVerify,
    /// The image's reference could not be resolved.
    #[error("source bundle content")]
    ResolveImage { reference: String, source: Box<image::Error> },
    /// The image's layers could not be fetched.
    #[error("source bundle content")]
    PullImage { reference: String, source: Box<image::Error> },
    /// A policy does not let the source in.
    #[error("source bundle content: {}", .0.message)]
    NotAdmitted(Box<rukpak_trust::Verdict>),
    /// The signatures of an image could not be read.
    #[error("source bundle content: read the signatures")]
    Signatures { reference: String, source: Box<image::Error> },
    /// The key of a signer could not be read.
    #[error("source bundle content: read the key of signer {signer:?}")]
    SignerKey { signer: String, source: api::Error },
    /// The commit could not be resolved or fetched.
    #[error("source bundle content")]
    Git(#[from] git::Error),
    /// The archive could not be downloaded or read.
    #[error("source bundle content")]
    Http(#[from] http::Error),
    /// The ConfigMaps could not be read, or make no bundle.
    #[error("source bundle content")]
    ConfigMaps(#[from] config_maps::Error),
    /// Nobody has uploaded anything. The words are upstream's.
    #[error("waiting for bundle to be uploaded")]
    AwaitsUpload,
    /// What was uploaded, and unpacked, is not here any more. The words are upstream's for want of better ones there.
    #[error("waiting for bundle to be uploaded")]
    LostUpload,
    /// Nobody can upload anything.
    #[error(
        "source bundle content: this controller takes no uploads: the content service is off (--content-bind-address=0)"
    )]
    NoUploads,
    /// What was uploaded could not be read back.
    #[error("source bundle content: read the uploaded file")]
    ReadUpload(#[source] io::Error),
    /// What was uploaded is no archive of a bundle.
    #[error("source bundle content")]
    Upload(#[from] upload::Error),
    /// What was fetched is not a bundle of the class, and why.
    #[error(transparent)]
    Refused(check::Refusal),
    /// Whether it is one could not be found out.
    #[error(transparent)]
    Check(#[from] check::Error),
    /// The process was killed during each of the last attempts.
    #[error(
        "the controller was killed while it unpacked this Bundle, {0} times in a row, and leaves it alone now: see what its \
         source holds; a new value of the annotation {RECONCILE_REQUESTED_AT} asks for another attempt"
    )]
    PutAside(u32),
    /// That an attempt begins could not be noted.
    #[error("note the attempt to unpack in the store")]
    Attempts(#[source] io::Error),
    /// The content store could not be used.
    #[error("persist bundle content")]
    Store(#[source] Box<rukpak_store::Error>),
    /// Work on disk was lost.
    #[error("persist bundle content: the worker thread ended early")]
    Worker(#[source] JoinError),
}

/// What to do about an upload that is gone.
const LOST: &str = "its content was lost with the controller's storage: send it again, by rukpakctl run NAME FOLDER; until then what \
                    is installed stays as it is, and is not repaired";

/// What the status says of a [`Failure`], and whether to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub phase: BundlePhase,
    pub message: String,
    /// What upstream's words leave out, for the conditions that are not upstream's.
    pub detail: Option<String>,
    /// When to try again; `None` if it cannot help.
    pub retry: Option<Class>,
    /// Whether the settings of the owning BundleDeployment can help.
    pub wants_watched_namespace: bool,
}

impl Verdict {
    /// Whether it is a step of every upload: its content comes next.
    pub fn is_expected(&self) -> bool {
        self.phase == BundlePhase::Pending && self.retry.is_none() && self.detail.is_none()
    }

    /// Whether what was uploaded is gone.
    pub fn is_lost(&self) -> bool {
        self.detail.as_deref() == Some(LOST)
    }

    /// The reason that goes with the phase.
    pub fn reason(&self) -> &'static str {
        match self.phase {
            BundlePhase::Pending => reason::UNPACK_PENDING,
            _ => reason::UNPACK_FAILED,
        }
    }

    /// The reason of the conditions that are not upstream's.
    pub fn ready_reason(&self) -> &'static str {
        if self.wants_watched_namespace { reason::WATCH_NAMESPACE_REQUIRED } else { self.reason() }
    }

    /// The message, with the detail.
    pub fn whole(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}: {detail}", self.message),
            None => self.message.clone(),
        }
    }
}

impl Failure {
    /// What to say and do about it.
    ///
    /// An image that cannot be pulled is waited for, as the kubelet waited for it; everything else failed.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::ResolveImage { reference, source } if source.class() == image::Class::NotFound => {
                // Clients of upstream compare the whole message.
                let detail = Some(Chain(source.as_ref()).to_string());
                Verdict { detail, ..waiting(format!("{BACK_OFF_PULLING} {reference:?}")) }
            }
            Self::ResolveImage { reference, source }
            | Self::PullImage { reference, source }
            | Self::Signatures { reference, source }
                if source.class() != image::Class::Terminal =>
            {
                waiting(format!("{BACK_OFF_PULLING} {reference:?}: {}", Chain(source.as_ref())))
            }
            // The upload wakes the Bundle.
            Self::AwaitsUpload => Verdict { retry: None, ..waiting(self.to_string()) },
            Self::LostUpload => Verdict { retry: None, detail: Some(LOST.to_owned()), ..waiting(self.to_string()) },
            _ => {
                let (message, retry) = (Chain(self).to_string(), self.retry());
                let wants_watched_namespace = matches!(self, Self::Refused(refusal) if refusal.wants_watched_namespace);
                Verdict { phase: BundlePhase::Failing, message, detail: None, retry, wants_watched_namespace }
            }
        }
    }

    fn retry(&self) -> Option<Class> {
        match self {
            Self::Git(source) if source.class() != git::Class::Terminal => Some(Class::Transient),
            Self::Http(source) if source.class() != http::Class::Terminal => Some(Class::Transient),
            Self::Upload(upload::Error::Stage(_) | upload::Error::Worker(_)) => Some(Class::Transient),
            Self::Upload(upload::Error::Archive(source)) if source.is_passing() => Some(Class::Transient),
            // The spec stays what it is, and so does what was uploaded: the next upload wakes the Bundle. What is put aside waits
            // for its owner.
            Self::Spec(_)
            | Self::PutAside(_)
            | Self::Directory(_)
            | Self::InsecureSkipVerify
            | Self::NoUploads
            | Self::AwaitsUpload
            | Self::LostUpload
            | Self::Upload(_) => None,
            // A change of a policy wakes the Bundle; a signature that is still to come does not.
            Self::NotAdmitted(verdict) => verdict.may_come().then_some(Class::Terminal),
            Self::ConfigMaps(source) => Some(source.retry()),
            Self::Pin(_)
            | Self::ResolveImage { .. }
            | Self::PullImage { .. }
            | Self::Signatures { .. }
            | Self::Git(_)
            | Self::Http(_)
            | Self::Refused(_)
            | Self::Check(check::Error::Limit(_)) => Some(Class::Terminal),
            Self::Credentials(_)
            | Self::SignerKey { .. }
            | Self::ReadUpload(_)
            | Self::Store(_)
            | Self::Worker(_)
            | Self::Check(_)
            | Self::Attempts(_) => Some(Class::Transient),
        }
    }

    /// What it says about signatures, if it does.
    pub fn verification(&self) -> Option<rukpak_trust::Verdict> {
        match self {
            Self::NotAdmitted(verdict) => Some((**verdict).clone()),
            Self::Signatures { .. } | Self::SignerKey { .. } => {
                Some(rukpak_trust::Verdict::pending(Chain(self).to_string()))
            }
            _ => None,
        }
    }

    /// Whether bytes may lie in the store that nothing names.
    pub fn leaves_content(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Check(_) | Self::Pin(pin::Error::Changed { .. }))
    }
}

fn waiting(message: String) -> Verdict {
    let (phase, retry) = (BundlePhase::Pending, Some(Class::Transient));
    Verdict { phase, message, detail: None, retry, wants_watched_namespace: false }
}

#[cfg(test)]
mod tests {
    use rukpak_content::{Digest, Limit, LimitExceeded};
    use rukpak_crds::validate::Finding;

    use super::*;

    fn image_failure(source: image::Error) -> Verdict {
        Failure::ResolveImage { reference: "h:5000/r:v1".into(), source: Box::new(source) }.verdict()
    }

    fn status(code: u16) -> image::Error {
        let detail = ": CODE: in its own words".to_owned();
        image::Error::Status { what: "h:5000/r:v1".into(), status: code.try_into().unwrap(), detail }
    }

    #[test]
    fn a_missing_image_is_waited_for_in_upstreams_words() {
        let verdict = image_failure(status(404));
        assert_eq!(verdict.phase, BundlePhase::Pending);
        assert_eq!(verdict.message, r#"Back-off pulling image "h:5000/r:v1""#);
        let whole = r#"Back-off pulling image "h:5000/r:v1": h:5000/r:v1: the registry answered 404 Not Found: CODE: in its own words"#;
        assert_eq!(verdict.whole(), whole);
        assert_eq!((verdict.reason(), verdict.retry), ("UnpackPending", Some(Class::Transient)));
    }

    #[test]
    fn a_registry_in_trouble_is_waited_for_with_the_cause() {
        let verdict = image_failure(status(503));
        assert_eq!(verdict.phase, BundlePhase::Pending);
        let begin = r#"Back-off pulling image "h:5000/r:v1": h:5000/r:v1: the registry answered 503"#;
        assert!(verdict.message.starts_with(begin), "{}", verdict.message);
        let layer = Failure::PullImage { reference: "r".into(), source: Box::new(status(404)) }.verdict();
        assert!(layer.message.contains("404"), "a layer that is missing is not a missing image: {}", layer.message);
    }

    #[test]
    fn an_image_that_is_wrong_fails() {
        let limit = LimitExceeded { limit: Limit::Entries, maximum: 1, place: "layer".into() };
        let verdict = image_failure(image::Error::Limit(limit));
        assert_eq!((verdict.phase, verdict.reason()), (BundlePhase::Failing, "UnpackFailed"));
        assert!(verdict.message.starts_with("source bundle content: layer: more than"), "{}", verdict.message);
    }

    #[test]
    fn a_spec_that_cannot_be_used_is_not_tried_again() {
        let findings = Findings(vec![Finding::UnsupportedType("local".into())]);
        let verdict = Failure::Spec(findings).verdict();
        assert_eq!(verdict.message, r#"source bundle content: source type "local" not supported"#);
        assert_eq!(verdict.retry, None);
    }

    #[test]
    fn an_upload_is_waited_for_in_upstreams_words() {
        let verdict = Failure::AwaitsUpload.verdict();
        assert_eq!((verdict.phase, verdict.reason()), (BundlePhase::Pending, "UnpackPending"));
        assert_eq!(verdict.message, "waiting for bundle to be uploaded");
        let lost = Failure::LostUpload.verdict();
        assert_eq!((lost.phase, &lost.message, lost.retry), (BundlePhase::Pending, &verdict.message, None));
        assert!(lost.is_lost() && !verdict.is_lost());
        assert!(lost.whole().contains(": its content was lost with the controller's storage: send it again"));
        assert_eq!(verdict.retry, None, "the upload wakes the Bundle");
    }

    #[test]
    fn a_format_refusal_has_no_prefix() {
        let text = "invalid bundle: found zero objects".to_owned();
        let refusal = check::Refusal { text, wants_watched_namespace: false };
        let verdict = Failure::Refused(refusal.clone()).verdict();
        assert_eq!(verdict.message, "invalid bundle: found zero objects");
        assert_eq!((verdict.ready_reason(), verdict.retry), ("UnpackFailed", Some(Class::Terminal)));

        let verdict = Failure::Refused(check::Refusal { wants_watched_namespace: true, ..refusal }).verdict();
        assert_eq!((verdict.reason(), verdict.ready_reason()), ("UnpackFailed", "WatchNamespaceRequired"));
    }

    #[test]
    fn a_bundle_that_is_put_aside_says_the_way_out_and_is_not_tried_again() {
        let verdict = Failure::PutAside(2).verdict();
        assert_eq!((verdict.phase, verdict.reason(), verdict.retry), (BundlePhase::Failing, "UnpackFailed", None));
        for words in ["2 times in a row", "core.rukpak.io/reconcile-requested-at"] {
            assert!(verdict.message.contains(words), "{}", verdict.message);
        }
    }

    #[test]
    fn content_that_takes_too_much_to_check_stays_so() {
        let limit = LimitExceeded { limit: Limit::ChildBytes, maximum: 1, place: "its manifests".into() };
        let failure = Failure::Check(limit.into());
        assert!(failure.leaves_content());
        let verdict = failure.verdict();
        assert_eq!((verdict.phase, verdict.retry), (BundlePhase::Failing, Some(Class::Terminal)));
        assert!(verdict.message.contains("--limit=child-bytes"), "{}", verdict.message);
    }

    #[test]
    fn content_without_a_name_is_collected() {
        let (pinned, found) = (Digest::sha256(b"a"), Digest::sha256(b"b"));
        let revision = pin::Revision::Image(pinned.clone());
        assert!(Failure::Pin(pin::Error::Changed { revision, pinned, found }).leaves_content());
        assert!(!Failure::AwaitsUpload.leaves_content());
    }
}
