//! Entries of the log Rekor, and what the log promises of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rukpak_content::Digest;
use serde::Deserialize;
use x509_parser::pem::Pem;

/// An entry, as it is told beside a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was logged, JSON.
    pub body: Vec<u8>,
    /// When, in seconds since 1970.
    pub integrated_time: u64,
    /// Its place.
    pub log_index: u64,
    /// SHA-256 of the log's key, in hexadecimal.
    pub log_id: String,
    /// What the log has signed of all this.
    pub promise: Vec<u8>,
}

impl Entry {
    /// What the log signs: JSON in canonical form (RFC 8785).
    pub fn promised(&self) -> String {
        let Self { body, integrated_time, log_index, log_id, promise: _ } = self;
        let body = STANDARD.encode(body);
        format!(r#"{{"body":"{body}","integratedTime":{integrated_time},"logID":"{log_id}","logIndex":{log_index}}}"#)
    }

    /// Whether it is about the signature of these bytes, of a payload with this digest and by the owner of this certificate.
    ///
    /// # Errors
    /// It is about another one.
    pub fn check(&self, signature: &[u8], payload: &Digest, certificate: &[u8]) -> Result<(), String> {
        let logged = Logged::read(&self.body)?;
        let is_same = logged.payload == payload.hex()
            && STANDARD.decode(&logged.signature).is_ok_and(|logged| logged == signature)
            && certificate_of(&logged.certificate).is_some_and(|logged| logged == certificate);
        if is_same { Ok(()) } else { Err("its entry in the log is about another signature".to_owned()) }
    }
}

/// What an entry says.
struct Logged {
    payload: String,
    signature: String,
    certificate: String,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Body {
    HashedRekord { spec: HashedRekord },
    Dsse { spec: Dsse },
}

#[derive(Deserialize)]
struct HashedRekord {
    data: Data,
    signature: LoggedSignature,
}

#[derive(Deserialize)]
struct Data {
    hash: Hash,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoggedSignature {
    content: String,
    public_key: Content,
}

#[derive(Deserialize)]
struct Content {
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dsse {
    payload_hash: Hash,
    signatures: Vec<DsseSignature>,
}

#[derive(Deserialize)]
struct DsseSignature {
    signature: String,
    verifier: String,
}

impl Logged {
    fn read(body: &[u8]) -> Result<Self, String> {
        let body: Body =
            serde_json::from_slice(body).map_err(|error| format!("its entry in the log cannot be read ({error})"))?;
        let (hash, signature, certificate) = match body {
            Body::HashedRekord { spec: HashedRekord { data, signature } } => {
                (data.hash, signature.content, signature.public_key.content)
            }
            Body::Dsse { spec: Dsse { payload_hash, mut signatures } } => {
                match (signatures.pop(), signatures.is_empty()) {
                    (Some(DsseSignature { signature, verifier }), true) => (payload_hash, signature, verifier),
                    _ => return Err("its entry in the log has not one signature".to_owned()),
                }
            }
        };
        if hash.algorithm != "sha256" {
            return Err(format!("its entry in the log has a hash of kind {:?}", hash.algorithm));
        }
        Ok(Self { payload: hash.value, signature, certificate })
    }
}

/// The certificate of a PEM text in base64.
fn certificate_of(text: &str) -> Option<Vec<u8>> {
    let pem = STANDARD.decode(text).ok()?;
    Some(Pem::read(std::io::Cursor::new(pem)).ok()?.0.contents)
}
