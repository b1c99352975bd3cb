//! ContentPolicy: whose content may be unpacked (not in RukPak v0.16).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Host and beginning of a path, domain, or everything.
const SCOPE: &str = r"^(\*|(\*\.)?[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]+)?(/[^/\s@]+)*)$";

/// ContentPolicySpec says what is asked of content before it is unpacked.
///
/// Of all rules of all ContentPolicies those decide whose scope fits a source best. If there are several, all of them have to
/// be met.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "ContentPolicy",
    plural = "contentpolicies",
    singular = "contentpolicy",
    shortname = "cpol",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"First Rule","type":"string","jsonPath":".spec.rules[0].name"}"#,
    printcolumn = r#"{"name":"Action","type":"string","jsonPath":".spec.rules[0].action"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ContentPolicySpec {
    /// Rules of this policy. Their order does not matter.
    #[schemars(length(min = 1, max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub rules: Vec<PolicyRule>,
}

/// PolicyRule says what is asked of content from some places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// Name of the rule, as statuses and messages call it.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Scopes are the places that the rule is for: a host (registry.example.com, registry.example.com:5000), a host and the
    /// beginning of a path (quay.io/org, github.com/org/repo), all hosts below a domain (*.example.com), or everything (*). Of
    /// the scopes that fit a source one that names its host decides, before the longest domain, before *; and of these the
    /// one with the longest path.
    /// Sources without a host, configMaps and upload, are covered by * alone.
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(max = 512), regex(pattern = SCOPE)))]
    pub scopes: Vec<String>,
    /// Sources are the types of sources that the rule is for. All, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub sources: Vec<SourceType>,
    /// Action: Require a signature by one of the signers, Accept without one, or Refuse.
    pub action: PolicyAction,
    /// RequireDigest refuses sources that do not name their version for good: an image without a digest, a git repository
    /// without a commit.
    #[serde(default, skip_serializing_if = "is_false")]
    pub require_digest: bool,
    /// AllowInsecure lets in sources that are fetched without TLS, or from a server that need not prove who it is
    /// (auth.insecureSkipVerify): whoever is between can answer in its place. Without it the rule refuses them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_insecure: bool,
    /// Signers are those who may sign, where a signature is required. One of them is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub signers: Vec<Signer>,
    /// SignedAs are the repositories that a signature may name, in the form of scopes. Without any it has to be the repository
    /// that the source names. Images that were copied from elsewhere together with their signatures need the name that they
    /// were signed under, or *.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[schemars(inner(length(max = 512), regex(pattern = SCOPE)))]
    pub signed_as: Vec<String>,
}

/// What becomes of content that a rule is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyAction {
    /// It must be signed.
    #[default]
    Require,
    /// It need not be signed.
    Accept,
    /// It is not unpacked.
    Refuse,
}

/// The types of sources, as BundleSource names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SourceType {
    /// Images, those of catalogs too.
    Image,
    /// Git repositories.
    Git,
    /// Archives on web servers.
    Http,
    /// ConfigMaps of the system namespace.
    ConfigMaps,
    /// Archives that clients uploaded.
    Upload,
}

/// Signer is somebody who may sign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Signer {
    /// Name of the signer, as statuses and messages call it.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// PublicKey of the signer: ECDSA on P-256 or P-384, Ed25519, or RSA of at least 2048 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<Pem>,
    /// Keyless names a signer without a key of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyless: Option<KeylessSigner>,
    /// SSHKey of the signer, who signs commits and tags of git repositories with it: one or more lines as in authorized_keys, of
    /// ssh-ed25519, ecdsa-sha2-nistp256, ecdsa-sha2-nistp384, or ssh-rsa of at least 2048 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key: Option<Pem>,
}

/// KeylessSigner is somebody whom a certificate authority vouches for, and a log for when they signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeylessSigner {
    /// CertificateAuthority is the certificates of the authority (Fulcio), from the root or from between it and signers.
    pub certificate_authority: Pem,
    /// RekorKey is the public key of the log (Rekor).
    pub rekor_key: Pem,
    /// Issuer is who knows the signer: the URL of an OpenID Connect provider, as the certificate names it.
    #[schemars(length(min = 1, max = 512))]
    pub issuer: String,
    /// Identity is as whom: the mail address or the URI in the certificate. * stands for anything.
    #[schemars(length(min = 1, max = 512))]
    pub identity: String,
}

impl Signer {
    /// The texts that it names: its key, or certificates and the key of the log, or keys of ssh.
    pub fn pems(&self) -> Vec<&Pem> {
        let keyless = self.keyless.iter().flat_map(|keyless| [&keyless.certificate_authority, &keyless.rekor_key]);
        self.public_key.iter().chain(keyless).chain(&self.ssh_key).collect()
    }
}

/// Pem is text in the form of PEM, or of keys of OpenSSH: in place or in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pem {
    /// Data is the text itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub data: Option<String>,
    /// SecretRef names a Secret of the system namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
}

/// SecretKeyRef is a key of a Secret in the system namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
    /// Key in its data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Verification is what a ContentPolicy said of the content of an object, and who had signed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Digest that the signature is for.
    pub digest: String,
    /// Rules that asked for a signature, as policy/rule, separated by commas.
    pub rules: String,
    /// RulesDigest tells whether the rules are still what they were.
    pub rules_digest: String,
    /// SignedBy names the signers of the rules, separated by commas. Absent if there was no valid signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}
