//! Programs that know logins (`docker-credential-NAME`), asked as Docker asks them: `get` with the registry on stdin, answered in
//! JSON on stdout. Source: the protocol of docker-credential-helpers.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_source::image::Credentials;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A helper may ask somebody for a password, or a server.
const PATIENCE: Duration = Duration::from_mins(1);
/// What helpers answer where they know nothing.
const NOTHING: &str = "credentials not found";
/// Docker's own registry, by the name under which logins to it are kept.
const DOCKER: (&str, &str) = ("docker.io", "https://index.docker.io/v1/");
/// The user name that marks a token for another protocol than ours.
const TOKEN: &str = "<token>";

/// Which program knows the login of which registry, as Docker's configuration says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Helpers {
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

impl Helpers {
    /// The program for a registry, and what it is asked for.
    fn of<'a>(&'a self, registry: &'a str) -> Option<(&'a str, &'a str)> {
        let server = if registry == DOCKER.0 { DOCKER.1 } else { registry };
        let own = self.cred_helpers.get(registry).or_else(|| self.cred_helpers.get(server));
        let name = own.or(self.creds_store.as_ref()).filter(|name| !name.is_empty())?;
        Some((name, server))
    }

    /// The login of a registry; `None` if no program is named for it, or that knows none.
    ///
    /// # Errors
    /// A sentence. It never holds what the program knows.
    pub(super) async fn login(&self, registry: &str) -> Result<Option<Credentials>, String> {
        let Some((name, server)) = self.of(registry) else { return Ok(None) };
        let program = format!("docker-credential-{name}");
        let asked = tokio::time::timeout(PATIENCE, ask(&program, server)).await;
        let answer = asked.map_err(|_| format!("{program} does not answer within {} s", PATIENCE.as_secs()))??;
        let Some(Answer { username, secret }) = answer else { return Ok(None) };
        if username == TOKEN {
            return Err(format!("{program} has an identity token for {server}, which is not supported"));
        }
        let auth = BASE64_STANDARD.encode(format!("{username}:{secret}"));
        let config = json!({"auths": {server: {"auth": auth}}}).to_string();
        Credentials::from_docker_config_json(config.as_bytes()).map(Some).map_err(|error| format!("{program}: {error}"))
    }
}

async fn ask(program: &str, server: &str) -> Result<Option<Answer>, String> {
    let failed = |error: std::io::Error| format!("{program} cannot be run: {error}");
    let mut command = Command::new(program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // One that ends without reading says why.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(failed)?;
    if output.status.success() {
        let answer = serde_json::from_slice(&output.stdout);
        // The error could quote the password.
        return answer.map(Some).map_err(|_| format!("{program} answers something that is no login"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.trim();
    if text.contains(NOTHING) {
        return Ok(None);
    }
    Err(format!("{program} failed ({}): {text}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_of_a_registry_wins_over_the_store() {
        let json =
            r#"{"credsStore": "desktop", "credHelpers": {"quay.io": "quay", "index.docker.io": "x"}, "auths": {}}"#;
        let helpers: Helpers = serde_json::from_str(json).unwrap();
        assert_eq!(helpers.of("quay.io"), Some(("quay", "quay.io")));
        assert_eq!(helpers.of("example.com:5000"), Some(("desktop", "example.com:5000")));
        assert_eq!(helpers.of("docker.io"), Some(("desktop", "https://index.docker.io/v1/")));
        assert_eq!(Helpers::default().of("quay.io"), None);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let helpers: Helpers = serde_json::from_str(r#"{"credsStore": "none-of-that-name"}"#).unwrap();
        let error = helpers.login("quay.io").await.unwrap_err();
        assert!(error.starts_with("docker-credential-none-of-that-name cannot be run: "), "{error}");
    }
}
