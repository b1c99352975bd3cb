//! AdmissionReview v1, as the API server sends it and expects it back.
//!
//! Objects stay raw JSON: what a rule compares must be what the API server has, not what our types kept of it. kube's AdmissionReview
//! reads an object's metadata into types, and refuses a review where they do not fit.

use std::collections::BTreeMap;

use kube::core::{GroupVersionKind, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::metrics::Operation;

mod tree;

pub use tree::MAX_VALUES;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What the API server asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Echoed in the answer.
    pub uid: String,
    /// The kind of the object, converted to the version that the webhook registered for.
    pub kind: GroupVersionKind,
    /// The namespace of the object; empty for kinds without.
    #[serde(default)]
    pub namespace: String,
    /// The name of the object, as far as the request gives it.
    #[serde(default)]
    pub name: String,
    /// Set when a part of the object is written, such as `status`.
    #[serde(default)]
    pub sub_resource: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// Whether nothing is to be kept of it, whatever the answer.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// Who asks. As good as whoever sent the review: it may refuse, and never allow what would be refused to others.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it shall be; null on DELETE.
    #[serde(default)]
    pub object: Value,
    /// The object as it is; null on CREATE.
    #[serde(default)]
    pub old_object: Value,
}

/// Who asks the API server.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct UserInfo {
    /// The name, such as `system:serviceaccount:rukpak-system:core-admin`.
    #[serde(default)]
    pub username: String,
    /// The UID, where there is one.
    #[serde(default)]
    pub uid: String,
    /// The groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// What else the authenticator said.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The answer, serialised as an AdmissionReview.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    api_version: &'static str,
    kind: &'static str,
    #[serde(rename = "response")]
    body: Body,
}

#[derive(Debug, Serialize)]
struct Body {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

/// Why a body is not an AdmissionReview that can be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or not of this shape.
    #[error("the body is not an AdmissionReview")]
    Decode(#[source] serde_json::Error),
    /// Another kind, or a version we do not speak.
    #[error("the body is {kind:?} of {api_version:?}, expected {KIND:?} of {API_VERSION:?}")]
    Type {
        /// The version given.
        api_version: String,
        /// The kind given.
        kind: String,
    },
    /// An AdmissionReview without a question.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Value>,
}

impl Request {
    /// Reads the body of a call.
    pub fn decode(body: &[u8]) -> Result<Self, Error> {
        Self::decode_counted(body).map(|(request, _)| request)
    }

    /// The same, and how many values the body has.
    pub(crate) fn decode_counted(body: &[u8]) -> Result<(Self, usize), Error> {
        let (body, values) = tree::read(body).map_err(Error::Decode)?;
        let Review { api_version, kind, request } = serde_json::from_value(body).map_err(Error::Decode)?;
        if api_version != API_VERSION || kind != KIND {
            return Err(Error::Type { api_version, kind });
        }
        let request = serde_json::from_value(request.ok_or(Error::NoRequest)?).map_err(Error::Decode)?;
        Ok((request, values))
    }

    /// The operation, for counting and choosing.
    pub fn operation(&self) -> Operation {
        match self.operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            _ => Operation::Other,
        }
    }

    /// Whether the object is of this kind.
    pub fn is(&self, group: &str, version: &str, kind: &str) -> bool {
        self.kind.group == group && self.kind.version == version && self.kind.kind == kind
    }
}

impl Response {
    /// Admits.
    pub fn allow(uid: String) -> Self {
        Self::new(uid, None)
    }

    /// Refuses with the HTTP status that the user's client shall see. The text goes into `reason` too, because
    /// `kubectl` prints `Error from server (<reason>): <message>`, and users of RukPak know that line.
    pub fn deny(uid: String, code: u16, text: &str) -> Self {
        Self::new(uid, Some(Status::failure(text, text).with_code(code)))
    }

    /// Whether it admits.
    pub fn allowed(&self) -> bool {
        self.body.allowed
    }

    /// The HTTP status and the text of a refusal.
    pub(crate) fn denial(&self) -> Option<(u16, &str)> {
        self.body.status.as_ref().map(|failure| (failure.code, failure.message.as_str()))
    }

    fn new(uid: String, status: Option<Status>) -> Self {
        let body = Body { uid, allowed: status.is_none(), status };
        Self { api_version: API_VERSION, kind: KIND, body }
    }
}
