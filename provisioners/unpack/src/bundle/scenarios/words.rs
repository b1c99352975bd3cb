//! The words of scenarios for sources, versions, failures and verdicts.

use std::io;

use rukpak_content::{Digest, Limit, LimitExceeded};
use rukpak_crds::{PolicyRule, SourceType};
use rukpak_source::{git, http, image};
use rukpak_trust::{Place, Requirement, RuleName, Verdict};
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::pin::{Pinned, Revision};
use super::super::{check, config_maps, credentials};
use super::Error;

const IMAGE: &str = "registry.example/app:v1";
const URL: &str = "https://files.example/app.tgz";

/// A source of a type; one of an unknown type has nothing else.
pub fn source(type_: &str) -> Value {
    let member = match type_ {
        "image" => json!({"ref": IMAGE, "pullSecret": "login"}),
        "git" => json!({"repository": "https://git.example/app", "ref": {"branch": "main"}}),
        "http" => json!({"url": URL}),
        "configMaps" => json!([{"configMap": {"name": "files"}}]),
        "upload" => json!({}),
        _ => return json!({"type": type_}),
    };
    json!({"type": type_, type_: member})
}

/// What a version of a source resolves to.
pub fn version(name: &str, source: &str) -> Pinned {
    let digest = Digest::sha256(format!("revision of {name}").as_bytes());
    let revision = match source {
        "image" => Revision::Image(digest),
        "git" => Revision::Git(digest.to_string()["sha256:".len()..][..40].parse().unwrap()),
        "configMaps" => Revision::ConfigMaps,
        _ => Revision::Archive(digest),
    };
    Pinned { revision, content: Digest::sha256(name.as_bytes()) }
}

/// The text, with `revision-of-v1` and `content-of-v1` for digests and commits.
pub fn named(text: &str) -> String {
    let mut text = text.to_owned();
    for name in ["v1", "v2"] {
        // An image first: its digest begins as the commit.
        for source in ["image", "git"] {
            let Pinned { revision, content } = version(name, source);
            text = text.replace(&revision.to_string(), &format!("revision-of-{name}"));
            text = text.replace(&content.to_string(), &format!("content-of-{name}"));
        }
    }
    text
}

/// A word, and what follows it.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Why an attempt failed: `manifest 404`, `refused why`.
pub fn attempt(text: &str) -> Result<Failure, Error> {
    let (what, rest) = split(text);
    let refused =
        |wants_watched_namespace| Failure::Refused(check::Refusal { text: rest.to_owned(), wants_watched_namespace });
    let reference = IMAGE.to_owned();
    Ok(match what {
        "manifest" => Failure::ResolveImage { reference, source: Box::new(registry(rest)?) },
        "layer" => Failure::PullImage { reference, source: Box::new(registry(rest)?) },
        "large" => Failure::PullImage { reference, source: Box::new(limit(Limit::TreeBytes).into()) },
        "login" => Failure::Credentials(credentials::Error::NoKey { secret: "login".into(), keys: "username" }),
        "insecure" => Failure::InsecureSkipVerify,
        "git" => {
            let (class, message) = split(rest);
            let class = if class == "terminal" { git::Class::Terminal } else { git::Class::Unavailable };
            let source = git::Failure { step: git::Step::Clone, class, message: message.to_owned() };
            Failure::Git(git::Error::Clone { source })
        }
        "http" => Failure::Http(http::Error::Status {
            url: URL.to_owned(),
            status: rest.parse::<u16>()?.try_into()?,
            host: None,
        }),
        "noConfigMap" => {
            let (namespace, name) = ("rukpak-system".to_owned(), "files".to_owned());
            Failure::ConfigMaps(config_maps::Error::NotFound { namespace, name })
        }
        "noUpload" => Failure::AwaitsUpload,
        "lostUpload" => Failure::LostUpload,
        "noUploads" => Failure::NoUploads,
        "refused" => refused(false),
        "wantsNamespace" => refused(true),
        "memory" => Failure::Check(check::Error::Limit(limit(Limit::ChildBytes))),
        "killed" => Failure::PutAside(rest.parse()?),
        "unnoted" => Failure::Attempts(io::ErrorKind::StorageFull.into()),
        "full" => {
            let (path, source) = ("/store".into(), io::ErrorKind::StorageFull.into());
            Failure::Store(Box::new(rukpak_store::Error::Write { path, source }))
        }
        other => return Err(format!("{other:?} is no outcome of an attempt").into()),
    })
}

/// What the policies say: `uncovered`, `signed by`, `missing why`, `refused why`, `unread 503`.
pub fn verdict(text: &str) -> Result<Result<Verdict, Failure>, Error> {
    let (what, rest) = split(text);
    let location = Some("registry.example/app".to_owned());
    let place = Place { source: SourceType::Image, location, pinned: false, insecure: None };
    let name = RuleName { policy: "releases".into(), rule: "ours".into() };
    let required = [Requirement { name, rule: PolicyRule::default(), texts: Vec::new() }];
    let version = version("v1", "image").revision.to_string();
    Ok(Ok(match what {
        "uncovered" => Verdict::not_covered(&place),
        "signed" => Verdict::searched(&required, &version, Ok(vec![rest.to_owned()])),
        "missing" => Verdict::searched(&required, &version, Err(rest.to_owned())),
        "refused" => Verdict::refused(rest.to_owned()),
        "unread" => {
            let (reference, source) = (IMAGE.to_owned(), Box::new(registry(rest)?));
            return Ok(Err(Failure::Signatures { reference, source }));
        }
        other => return Err(format!("{other:?} is no verdict").into()),
    }))
}

/// A registry that answers with this status.
fn registry(status: &str) -> Result<image::Error, Error> {
    let (what, detail) = (IMAGE.to_owned(), String::new());
    let status: u16 = status.parse()?;
    Ok(match status {
        401 | 403 => {
            image::Error::Unauthorized { what, status: status.try_into()?, detail, hint: "check the pull secret" }
        }
        _ => image::Error::Status { what, status: status.try_into()?, detail },
    })
}

fn limit(limit: Limit) -> LimitExceeded {
    LimitExceeded { limit, maximum: 1000, place: "layer 1".into() }
}
