//! Logins of registries, git servers and web servers, from Secrets of the system namespace. Read when needed, never kept.

mod grant;

use std::sync::atomic::Ordering;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Resource as _};
use rukpak_crds::condition::reason;
use rukpak_crds::{Authorization, names};
use rukpak_runtime::api;
use rukpak_runtime::events::{EventType, News};
use rukpak_source::git::{self, Auth};
use rukpak_source::hosts::{HostsError, Server};
use rukpak_source::http::{self, Login};
use rukpak_source::image::{Credentials, PullSecretError};

use crate::context::Context;
use grant::{Grant, Use};

const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const SSH_KEY: &str = "ssh-privatekey";
const SSH_KNOWN_HOSTS: &str = "ssh-knownhosts";
const DOCKER_CONFIG_JSON: &str = ".dockerconfigjson";
const DOCKER_CFG: &str = ".dockercfg";
/// The ServiceAccount that upstream's unpack Pods ran as.
const SERVICE_ACCOUNT: &str = "default";

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Secret is not there, or may not be read.
    #[error("get secret {0}")]
    Get(String, #[source] api::Error),
    /// The ServiceAccount may not be read.
    #[error("get serviceaccount {0}")]
    GetServiceAccount(String, #[source] api::Error),
    /// The Secret holds none of the keys that are needed.
    #[error("secret {secret} has no key {keys}")]
    NoKey {
        secret: String,
        /// The keys, for reading.
        keys: &'static str,
    },
    /// A key does not hold text.
    #[error("secret {secret}: key {key} is not UTF-8 text")]
    NotText { secret: String, key: &'static str },
    /// The Secret names other hosts.
    #[error(
        "secret {secret} is not sent to {server}: its annotation names other hosts (core.rukpak.io/hosts; tekton.dev/git-0 and \
         tekton.dev/docker-0 count too)"
    )]
    OtherHost {
        secret: String,
        /// Who was to have it.
        server: String,
    },
    /// The Secret names no hosts.
    #[error(
        "secret {secret} is sent nowhere: it names no hosts, which --require=secret-hosts wants; name them in its annotation \
         core.rukpak.io/hosts"
    )]
    NoHosts { secret: String },
    /// The Secret was not made as a login.
    #[error(
        "secret {secret} is sent nowhere: it is not of type {wanted}, and holds other keys than a login has; name the hosts that \
         it is for in its annotation core.rukpak.io/hosts"
    )]
    NotALogin {
        secret: String,
        /// The type that would do.
        wanted: &'static str,
    },
    /// The login could be read on the way.
    #[error(
        "secret {secret} is not sent to {server} {how}: use https with a certificate that is known (--source-ca-file), or set \
         its annotation core.rukpak.io/allow-insecure to \"true\""
    )]
    Insecure {
        secret: String,
        /// Who was to have it.
        server: String,
        how: &'static str,
    },
    /// An annotation names no hosts.
    #[error("secret {secret}: annotation {annotation}")]
    Hosts {
        secret: String,
        annotation: String,
        /// What is wrong with it.
        source: HostsError,
    },
    /// A pull secret cannot be read.
    #[error("secret {secret}: key {key} cannot be used")]
    PullSecret {
        secret: String,
        key: &'static str,
        /// What is wrong with it.
        source: PullSecretError,
    },
}

/// Logins for pulling `reference`: those of `secret`, or else those that the system namespace gives every Pod.
pub async fn for_image(reference: &str, secret: Option<&str>, context: &Context) -> Result<Credentials, Error> {
    let Some(name) = secret else { return of_service_account(context).await };
    let opened = Opened::get(name, context).await?;
    Grant::of_pull_secret(&opened.shown, &opened.secret)?
        .names_one_of(&context.sources.images.registries(reference))?;
    pull_secret(&opened)
}

/// The login for a git repository.
pub async fn for_git(repository: &str, auth: &Authorization, context: &Context) -> Result<Auth, Error> {
    let Some(name) = auth.secret_name() else { return Ok(Auth::None) };
    let opened = Opened::get(name, context).await?;
    let login = git_auth(repository, &opened)?;
    // Where there is no server, nothing is sent: that is said of the repository.
    match git::server(repository) {
        Some(server) => opened.permits(&server, auth, context).map(|()| login),
        None => Ok(login),
    }
}

/// The login for the web server that `request` asks, if there is to be one.
pub async fn for_http(
    request: &http::Request,
    auth: &Authorization,
    context: &Context,
) -> Result<Option<Login>, Error> {
    let Some(name) = auth.secret_name() else { return Ok(None) };
    let opened = Opened::get(name, context).await?;
    let login = login(&opened)?;
    match request.server() {
        Some(server) => opened.permits(&server, auth, context).map(|()| Some(login)),
        None => Ok(None),
    }
}

/// As the kubelet does it: Secrets that are missing or unusable are passed over.
async fn of_service_account(context: &Context) -> Result<Credentials, Error> {
    let api: Api<ServiceAccount> = Api::namespaced(context.client.clone(), &context.system_namespace);
    let account = api.get_opt(SERVICE_ACCOUNT).await.map_err(|error| {
        Error::GetServiceAccount(format!("{}/{SERVICE_ACCOUNT}", context.system_namespace), error.into())
    })?;
    let references = account.and_then(|account| account.image_pull_secrets).unwrap_or_default();
    context.has_no_pull_secrets.store(references.is_empty(), Ordering::Relaxed);
    let mut credentials = Credentials::anonymous();
    for reference in references {
        let name = reference.name;
        match Opened::get(&name, context).await.and_then(|secret| pull_secret(&secret)) {
            Ok(more) => credentials.extend(more),
            Err(error) => tracing::debug!(secret = name, %error, "pull secret of the service account passed over"),
        }
    }
    Ok(credentials)
}

/// A Secret's data and how to call it. Has no `Debug`: it holds secrets.
struct Opened {
    shown: String,
    secret: Secret,
}

impl Opened {
    async fn get(name: &str, context: &Context) -> Result<Self, Error> {
        let shown = format!("{}/{name}", context.system_namespace);
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &context.system_namespace);
        match api.get(name).await {
            Ok(secret) => Ok(Self { shown, secret }),
            Err(error) => Err(Error::Get(shown, error.into())),
        }
    }

    fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.secret.data.as_ref()?.get(key).map(|ByteString(bytes)| bytes.as_slice())
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, Error> {
        let text = self.bytes(key).map(|bytes| String::from_utf8(bytes.to_vec())).transpose();
        text.map_err(|_| Error::NotText { secret: self.shown.clone(), key })
    }

    fn permits(&self, server: &Server, auth: &Authorization, context: &Context) -> Result<(), Error> {
        let requires_hosts = context.sources.policy.require_secret_hosts;
        let wanted = Use { skips_verification: auth.skips_verification(), requires_hosts };
        let grant = Grant::of_login(&self.shown, &self.secret)?;
        if grant.hosts().is_none() {
            context.events.tell_seldom(self.secret.object_ref(&()), &names_no_hosts(server, requires_hosts));
        }
        grant.permits(server, wanted)
    }

    fn no_key(&self, keys: &'static str) -> Error {
        Error::NoKey { secret: self.shown.clone(), keys }
    }
}

/// Tells the owner of a Secret what to write into it.
fn names_no_hosts(server: &Server, requires_hosts: bool) -> News {
    let becomes =
        if requires_hosts { "is sent nowhere" } else { "is sent to whatever https or ssh host a Bundle names" };
    News {
        type_: EventType::Warning,
        reason: reason::SECRET_NAMES_NO_HOSTS.to_owned(),
        message: format!(
            "A Bundle asks for this login for {server}, and it {becomes}, because it does not say which hosts it is for: name \
             them, and no others, in its annotation {}",
            names::SECRET_HOSTS
        ),
    }
}

fn pull_secret(opened: &Opened) -> Result<Credentials, Error> {
    let credentials = logins(opened)?;
    let grant = Grant::of_pull_secret(&opened.shown, &opened.secret)?;
    Ok(match grant.hosts() {
        Some(hosts) => credentials.only_for(hosts),
        None => credentials,
    })
}

fn logins(opened: &Opened) -> Result<Credentials, Error> {
    let wrong = |key| move |source| Error::PullSecret { secret: opened.shown.clone(), key, source };
    if let Some(json) = opened.bytes(DOCKER_CONFIG_JSON) {
        return Credentials::from_docker_config_json(json).map_err(wrong(DOCKER_CONFIG_JSON));
    }
    match opened.bytes(DOCKER_CFG) {
        Some(json) => Credentials::from_dockercfg(json).map_err(wrong(DOCKER_CFG)),
        None => Err(opened.no_key(".dockerconfigjson or .dockercfg")),
    }
}

fn login(opened: &Opened) -> Result<Login, Error> {
    match (opened.text(USERNAME)?, opened.text(PASSWORD)?) {
        (None, None) => Err(opened.no_key("username or password")),
        (username, password) => Ok(Login::new(username.unwrap_or_default(), password.unwrap_or_default())),
    }
}

/// What begins with `http` is logged in to with a password, the rest with a key: upstream's rule.
fn git_auth(repository: &str, opened: &Opened) -> Result<Auth, Error> {
    if repository.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")) {
        return match (opened.text(USERNAME)?, opened.text(PASSWORD)?) {
            (None, None) => Err(opened.no_key("username or password: an http or https repository needs them")),
            (username, password) => {
                Ok(Auth::Basic { username: username.unwrap_or_default(), password: password.unwrap_or_default() })
            }
        };
    }
    match opened.text(SSH_KEY)? {
        Some(private_key) => Ok(Auth::Ssh { private_key, known_hosts: opened.text(SSH_KNOWN_HOSTS)? }),
        None => Err(opened.no_key("ssh-privatekey: an ssh repository needs it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(data: &[(&str, &[u8])]) -> Opened {
        let data = data.iter().map(|(key, bytes)| ((*key).to_owned(), ByteString(bytes.to_vec()))).collect();
        Opened { shown: "ns/s".into(), secret: Secret { data: Some(data), ..Secret::default() } }
    }

    #[test]
    fn the_repository_tells_which_keys_are_needed() {
        let basic = opened(&[("username", b"u"), ("password", b"p")]);
        let expected = Auth::Basic { username: "u".into(), password: "p".into() };
        assert!(git_auth("https://h/r", &basic).unwrap() == expected);
        let text = git_auth("git@h:r", &basic).unwrap_err().to_string();
        assert_eq!(text, "secret ns/s has no key ssh-privatekey: an ssh repository needs it");

        let key = opened(&[("ssh-privatekey", b"k"), ("ssh-knownhosts", b"h")]);
        let expected = Auth::Ssh { private_key: "k".into(), known_hosts: Some("h".into()) };
        assert!(git_auth("git@h:r", &key).unwrap() == expected);
        assert!(git_auth("HTTPS://h/r", &key).unwrap_err().to_string().contains("username or password"));
    }

    #[test]
    fn a_token_alone_is_enough() {
        let token = opened(&[("password", b"t")]);
        let expected = Auth::Basic { username: String::new(), password: "t".into() };
        assert!(git_auth("https://h/r", &token).unwrap() == expected);
    }

    #[test]
    fn a_web_server_wants_a_name_and_a_password() {
        let both = opened(&[("username", b"u"), ("password", b"p")]);
        assert!(login(&both).unwrap() == Login::new("u", "p"));
        assert!(login(&opened(&[("password", b"t")])).unwrap() == Login::new("", "t"));
        let text = login(&opened(&[("token", b"t")])).unwrap_err().to_string();
        assert_eq!(text, "secret ns/s has no key username or password");
    }

    #[test]
    fn a_pull_secret_is_of_either_form() {
        let entry = br#"{"h":{"auth":"dTpw"}}"#;
        assert!(!pull_secret(&opened(&[(".dockercfg", entry)])).unwrap().is_anonymous());
        let config = br#"{"auths":{"h":{"auth":"dTpw"}}}"#;
        assert!(!pull_secret(&opened(&[(".dockerconfigjson", config)])).unwrap().is_anonymous());
        let text = pull_secret(&opened(&[("other", config)])).unwrap_err().to_string();
        assert_eq!(text, "secret ns/s has no key .dockerconfigjson or .dockercfg");
        let error = pull_secret(&opened(&[(".dockerconfigjson", b"{")])).unwrap_err();
        assert_eq!(error.to_string(), "secret ns/s: key .dockerconfigjson cannot be used");
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        let error = git_auth("https://h/r", &opened(&[("password", b"\xff")])).unwrap_err();
        assert_eq!(error.to_string(), "secret ns/s: key password is not UTF-8 text");
    }
}
