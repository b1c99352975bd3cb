//! What parent and child say to each other, in JSON lines: a task and its reply, and where the task was to resolve, once
//! more an action and its reply, on the same connection to the server. After the reply to a fetch comes a tar.
//!
//! The forms carry secrets, so they are not the public types' own `Serialize`.

use std::io;
use std::path::{Path, PathBuf};

use rukpak_content::{Limits, RelativePath};
use rukpak_sandbox::{Attempts, Findings};
use serde::{Deserialize, Serialize};

use super::{Auth, Commit, Failure, Objects, Reference, Request};
use crate::Egress;

/// What the child is told.
#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    #[serde(with = "RequestWire")]
    pub(super) request: Request,
    pub(super) action: Action,
    /// Which addresses it may connect to.
    pub(super) egress: Egress,
    /// An empty folder, removed by the parent.
    pub(super) folder: PathBuf,
    pub(super) limits: Limits,
}

/// The same for writing, by reference: secrets are not copied.
#[derive(Serialize)]
struct TaskRef<'a> {
    #[serde(with = "RequestWire")]
    request: &'a Request,
    action: &'a Action,
    egress: &'a Egress,
    folder: &'a Path,
    limits: &'a Limits,
}

impl Task {
    /// The line that a child reads.
    pub(super) fn line(
        request: &Request,
        action: &Action,
        egress: &Egress,
        folder: &Path,
        limits: &Limits,
    ) -> Result<Vec<u8>, io::Error> {
        line(&TaskRef { request, action, egress, folder, limits })
    }
}

/// What the child is to do.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Action {
    /// Find the commit, stay connected, and wait for the next action.
    Resolve,
    /// Bring this commit, tell what can be signed of it, stay there, and wait for the next action.
    Look(Commit),
    /// Bring the tree of this commit.
    Fetch(Commit),
    /// Try what a child must not be able to do.
    Probe(Attempts),
}

impl Action {
    /// The line that a child reads which has resolved.
    pub(super) fn line(&self) -> Result<Vec<u8>, io::Error> {
        line(self)
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, io::Error> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// What the child answers. After `Done` to a fetch follows a tar.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Done(Commit),
    Failed(Failure),
    /// To [`Action::Look`].
    SignedObjects(SignedObjects),
    /// To [`Action::Probe`].
    Probed(Findings),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Request")]
struct RequestWire {
    repository: String,
    reference: Reference,
    directory: Option<RelativePath>,
    #[serde(with = "AuthWire")]
    auth: Auth,
    insecure_skip_verify: bool,
    strict_host_keys: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Auth")]
enum AuthWire {
    None,
    Basic { username: String, password: String },
    Ssh { private_key: String, known_hosts: Option<String> },
}

/// The objects that can be signed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SignedObjects {
    commit: Bytes,
    tag: Option<Bytes>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Bytes(#[serde(with = "bytes")] Vec<u8>);

impl From<Objects> for SignedObjects {
    fn from(Objects { commit, tag }: Objects) -> Self {
        Self { commit: Bytes(commit), tag: tag.map(Bytes) }
    }
}

impl From<SignedObjects> for Objects {
    fn from(SignedObjects { commit: Bytes(commit), tag }: SignedObjects) -> Self {
        Self { commit, tag: tag.map(|Bytes(tag)| tag) }
    }
}

/// Bytes as base64: objects of git are not always UTF-8.
mod bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_task_arrives_whole_and_in_one_line() {
        let secret = Auth::Ssh { private_key: "a\nb\n".into(), known_hosts: Some("h ssh-rsa AAAA\n".into()) };
        let request = Request {
            repository: "git@h:r".into(),
            reference: Reference::Tag("v1".into()),
            directory: Some(RelativePath::new("a/b").unwrap()),
            auth: secret.clone(),
            insecure_skip_verify: true,
            strict_host_keys: true,
        };
        let limits = Limits { git_bytes: 7, git_time: Duration::from_millis(1500), ..Limits::default() };
        let egress =
            Egress::default().allowing(["127.0.0.0/8".parse().unwrap()]).denying(["10.96.0.1".parse().unwrap()]);
        let line = Task::line(&request, &Action::Resolve, &egress, Path::new("/f"), &limits).unwrap();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let task: Task = serde_json::from_slice(&line).unwrap();
        assert_eq!((task.request.auth, task.limits, task.folder), (secret, limits, PathBuf::from("/f")));
        assert_eq!(task.egress, egress);
        assert_eq!((task.request.reference, task.request.directory), (request.reference, request.directory));
        assert!(
            task.request.insecure_skip_verify
                && task.request.strict_host_keys
                && matches!(task.action, Action::Resolve)
        );
    }
}
