//! What a signature says: which digest, and of which repository.

use rukpak_content::repository;
use serde::Deserialize;

/// The type that cosign writes into its payloads.
const COSIGN: &str = "cosign container image signature";
/// What an in-toto statement of cosign says of its subject: that it is signed, and nothing else.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
/// The versions of in-toto statements.
const STATEMENTS: [&str; 2] = ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"];

/// What was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Digests of manifests or indexes, `algorithm:hex`. One, but for statements of several subjects.
    pub digests: Vec<String>,
    /// `registry/repository` that the signer named, if the format has a place for it.
    pub repository: Option<String>,
}

/// Why bytes are not a payload.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// Not the JSON that it should be.
    #[error("its payload cannot be read ({0})")]
    Json(#[from] serde_json::Error),
    /// A payload of something else.
    #[error("its payload is of type {0:?}, not a signature of an image")]
    Type(String),
}

impl Payload {
    /// Reads a payload in the format "simple signing", as `cosign sign` writes it.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn of_simple_signing(bytes: &[u8]) -> Result<Self, PayloadError> {
        #[derive(Deserialize)]
        struct Document {
            critical: Critical,
        }
        #[derive(Deserialize)]
        struct Critical {
            #[serde(rename = "type")]
            type_: String,
            identity: Identity,
            image: Image,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Identity {
            docker_reference: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Image {
            docker_manifest_digest: String,
        }
        let Document { critical } = serde_json::from_slice(bytes)?;
        if critical.type_ != COSIGN {
            return Err(PayloadError::Type(critical.type_));
        }
        let reference = critical.identity.docker_reference;
        let repository = (!reference.is_empty()).then(|| repository(&reference).to_owned());
        Ok(Self { digests: vec![critical.image.docker_manifest_digest], repository })
    }

    /// Reads an in-toto statement, as newer versions of `cosign sign` write it. It names no repository.
    ///
    /// # Errors
    /// It is something else, such as a statement about how the image was built.
    pub(crate) fn of_statement(bytes: &[u8]) -> Result<Self, PayloadError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Statement {
            #[serde(rename = "_type")]
            type_: String,
            predicate_type: String,
            subject: Vec<Subject>,
        }
        #[derive(Deserialize)]
        struct Subject {
            digest: std::collections::BTreeMap<String, String>,
        }
        let Statement { type_, predicate_type, subject } = serde_json::from_slice(bytes)?;
        if !STATEMENTS.contains(&type_.as_str()) {
            return Err(PayloadError::Type(type_));
        }
        if predicate_type != SIGNED {
            return Err(PayloadError::Type(predicate_type));
        }
        let digests = subject.into_iter().flat_map(|subject| subject.digest);
        Ok(Self { digests: digests.map(|(algorithm, hex)| format!("{algorithm}:{hex}")).collect(), repository: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(type_: &str, reference: &str) -> String {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"{reference}"}},"image":{{"docker-manifest-digest":"sha256:0"}},
                "type":"{type_}"}},"optional":{{"creator":"somebody"}}}}"#
        )
    }

    #[test]
    fn simple_signing_names_digest_and_repository() {
        for (reference, repository) in [
            ("quay.io/a/b", Some("quay.io/a/b")),
            ("localhost:5000/a", Some("localhost:5000/a")),
            ("localhost:5000/a:v1@sha256:0", Some("localhost:5000/a")),
            ("", None),
        ] {
            let payload = Payload::of_simple_signing(simple(COSIGN, reference).as_bytes()).unwrap();
            assert_eq!(payload.digests, ["sha256:0"]);
            assert_eq!(payload.repository.as_deref(), repository);
        }
    }

    #[test]
    fn a_statement_names_its_subjects() {
        let statement = |type_: &str, predicate: &str| {
            format!(r#"{{"_type":"{type_}","predicateType":"{predicate}","subject":[{{"digest":{{"sha256":"0"}}}}]}}"#)
        };
        let payload = Payload::of_statement(statement(STATEMENTS[0], SIGNED).as_bytes()).unwrap();
        assert_eq!(payload, Payload { digests: vec!["sha256:0".to_owned()], repository: None });
        for odd in [statement("x", SIGNED), statement(STATEMENTS[0], "https://slsa.dev/provenance/v1")] {
            assert!(matches!(Payload::of_statement(odd.as_bytes()), Err(PayloadError::Type(_))), "{odd}");
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        let twice =
            simple(COSIGN, "a").replace(r#""image""#, r#""image":{"docker-manifest-digest":"sha256:1"},"image""#);
        assert!(matches!(Payload::of_simple_signing(twice.as_bytes()), Err(PayloadError::Json(_))));
        assert!(matches!(Payload::of_simple_signing(b"{}"), Err(PayloadError::Json(_))));
        let other = simple("atomic container signature", "a");
        assert!(matches!(Payload::of_simple_signing(other.as_bytes()), Err(PayloadError::Type(_))));
    }
}
