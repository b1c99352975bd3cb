//! Talking to the server: connect, and bring the objects of a commit.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use git2::{
    AutotagOption, CertificateCheckStatus, Cred, CredentialType, Direction, ErrorClass, ErrorCode, FetchOptions, Oid,
    ProxyOptions, RemoteCallbacks, RemoteRedirect, Repository,
};
use rukpak_content::{Limit, LimitExceeded, Limits};

use super::heads::Heads;
use super::{Error, latency, peers};
use crate::egress::Refused;
use crate::git::access::{Access, Login};
use crate::git::{Class, Commit, Failure, Step};

/// A server that refuses a login asks again, for good; libgit2 asks us each time.
const LOGIN_TRIES: u32 = 1;
/// Of the server's messages, in an error.
const PROGRESS_BYTES: usize = 512;
/// How git itself, and the large hosters, say over ssh that there is no such repository.
const NO_REPOSITORY: [&str; 3] =
    ["does not appear to be a git repository", "epository not found", "could not be found"];
/// Where fetched tips would be written; nothing is, objects are looked up by name.
const LOCAL_REF: &str = "refs/rukpak/fetched";

/// An empty bare repository in `folder`.
pub(super) fn repository(access: &Access, folder: &Path) -> Result<Repository, Failure> {
    let made = Repository::init_bare(folder.join("repository")).and_then(|repository| {
        // The only way to tell the first connection; fetch options come too late for it.
        repository.config()?.set_bool("http.followRedirects", false)?;
        Ok(repository)
    });
    made.map_err(|error| Talk::new(access, &Limits::default()).explain(&error))
}

/// Connects, lets `choose` name a commit in view of what the server has, and brings it and everything below it.
///
/// The cheapest way the server offers: the tip of an advertised ref, then the commit by name, both over the connection that is
/// there; then all heads, then all tags.
pub(super) fn fetch(
    access: &Access,
    repository: &Repository,
    limits: &Limits,
    choose: impl FnOnce(&Heads) -> Result<Commit, Error>,
) -> Result<Commit, Error> {
    Talk::new(access, limits).bring(repository, choose)
}

fn oid(commit: &Commit) -> Result<Oid, Failure> {
    // Not to be expected: a commit's name is always one.
    Oid::from_str(commit.as_str()).map_err(|error| Failure::new(Step::Checkout, Class::Terminal, error.message()))
}

/// The proxy of the environment, which the parent chose.
fn proxy<'a>() -> ProxyOptions<'a> {
    let mut options = ProxyOptions::new();
    options.auto();
    options
}

/// What happens between us and the server, and what came of it. Callbacks write here, since libgit2 drops their errors.
struct Talk<'a> {
    access: &'a Access,
    maximum_bytes: u64,
    notes: Rc<Notes>,
}

#[derive(Default)]
struct Notes {
    logins: Cell<u32>,
    refused: Cell<bool>,
    too_large: Cell<bool>,
    progress: RefCell<Vec<u8>>,
}

impl<'a> Talk<'a> {
    fn new(access: &'a Access, limits: &Limits) -> Self {
        Self { access, maximum_bytes: limits.git_bytes, notes: Rc::default() }
    }

    /// Over what was chosen on the first connection, then over all there is.
    fn bring(
        &self,
        repository: &Repository,
        choose: impl FnOnce(&Heads) -> Result<Commit, Error>,
    ) -> Result<Commit, Error> {
        let (commit, refused) = self.first(repository, choose)?;
        let wanted = oid(&commit)?;
        for specs in ["+refs/heads/*:refs/rukpak/heads/*", "+refs/tags/*:refs/rukpak/tags/*"] {
            if repository.find_commit(wanted).is_ok() {
                return Ok(commit);
            }
            if let Some(error) = refused.as_ref().filter(|_| self.notes.too_large.get() || self.notes.refused.get()) {
                return Err(self.explain(error).into());
            }
            // Not passed over: a server that breaks off is not one that lacks the commit.
            let mut options = self.options(0);
            repository
                .remote_anonymous(&self.access.address.url)
                .and_then(|mut remote| remote.download(&[specs], Some(&mut options)))
                .map_err(|error| self.explain(&error))?;
        }
        repository.find_commit(wanted).map_err(|_| self.gone(repository, wanted))?;
        Ok(commit)
    }

    /// The cheap attempt: one commit deep, by the name of a ref or of the commit. Servers allow the latter or not, some do not
    /// offer depth; which is only known by trying. So only a failure to connect is an error, the rest is returned as a value.
    fn first(
        &self,
        repository: &Repository,
        choose: impl FnOnce(&Heads) -> Result<Commit, Error>,
    ) -> Result<(Commit, Option<git2::Error>), Error> {
        let failed = |error| self.explain(&error);
        // Before the connection, so that it is dropped after it: the connection calls back through it.
        let mut options = self.options(1);
        let mut remote = repository.remote_anonymous(&self.access.address.url).map_err(failed)?;
        let connected = remote.connect_auth(Direction::Fetch, Some(self.callbacks()), Some(proxy()));
        let mut connection = connected.map_err(failed)?;
        self.notes.check_peers(self.access).map_err(failed)?;
        latency::lower();
        let heads = Heads::read(&connection).map_err(failed)?;
        let commit = choose(&heads)?;
        let source = heads.tip(&self.access.wanted, oid(&commit)?).unwrap_or_else(|| commit.to_string());
        let fetched = connection.remote().download(&[format!("+{source}:{LOCAL_REF}")], Some(&mut options));
        Ok((commit, fetched.err()))
    }

    /// For a fetch `depth` commits deep; 0 is all of them.
    fn options(&self, depth: i32) -> FetchOptions<'a> {
        let mut options = FetchOptions::new();
        options
            .remote_callbacks(self.callbacks())
            .proxy_options(proxy())
            .download_tags(AutotagOption::None)
            .follow_redirects(RemoteRedirect::None)
            .update_fetchhead(false)
            .depth(depth);
        options
    }

    fn callbacks(&self) -> RemoteCallbacks<'a> {
        let mut callbacks = RemoteCallbacks::new();
        let access = self.access;
        let skip_verify = access.insecure_skip_verify;
        let (notes, taken) = (Rc::clone(&self.notes), Rc::clone(&self.notes));
        notes.logins.set(0);
        callbacks.credentials(move |_, _, allowed| credentials(access, &notes, allowed));
        // Before anything is sent over TLS or ssh.
        callbacks.certificate_check(move |_, _| {
            taken.check_peers(access)?;
            Ok(if skip_verify {
                CertificateCheckStatus::CertificateOk
            } else {
                CertificateCheckStatus::CertificatePassthrough
            })
        });
        let (notes, maximum_bytes) = (Rc::clone(&self.notes), self.maximum_bytes);
        let mut permitted = None;
        callbacks.transfer_progress(move |progress| {
            if !*permitted.get_or_insert_with(|| notes.check_peers(access).is_ok()) {
                return false;
            }
            let too_large = progress.received_bytes() as u64 > maximum_bytes;
            notes.too_large.set(notes.too_large.get() || too_large);
            !too_large
        });
        let notes = Rc::clone(&self.notes);
        callbacks.sideband_progress(move |text| {
            let mut progress = notes.progress.borrow_mut();
            progress.extend_from_slice(text);
            let surplus = progress.len().saturating_sub(PROGRESS_BYTES);
            progress.drain(..surplus);
            true
        });
        callbacks
    }

    fn gone(&self, repository: &Repository, wanted: Oid) -> Failure {
        let shown = &self.access.shown;
        if let Some(kind) = repository.find_object(wanted, None).ok().and_then(|object| object.kind()) {
            let text = format!("in {shown} this names a {kind}, not a commit: tag a commit");
            return Failure::new(Step::Checkout, Class::Terminal, text);
        }
        let text = format!("no branch or tag of {shown} leads to it: check the hash, or whether history was rewritten");
        Failure::new(Step::Checkout, Class::NotFound, text)
    }

    /// libgit2's error in our terms. Only its text tells the status codes of http apart.
    fn explain(&self, error: &git2::Error) -> Failure {
        let shown = &self.access.shown;
        if self.notes.refused.get() {
            let refused = Refused { host: self.access.address.host.clone() };
            return Failure::new(Step::Clone, Class::Terminal, format!("{shown}: {refused}"));
        }
        if self.notes.too_large.get() {
            let limit = LimitExceeded { limit: Limit::GitBytes, maximum: self.maximum_bytes, place: shown.clone() };
            return Failure::new(Step::Clone, Class::Terminal, limit.to_string());
        }
        let (class, hint) = classify(error, self.access);
        let line = |text: &str| text.trim().replace(char::is_control, " ");
        let progress = line(&String::from_utf8_lossy(&self.notes.progress.borrow()));
        let progress = if progress.is_empty() { String::new() } else { format!(" - {progress}") };
        let hint = if hint.is_empty() { String::new() } else { format!(": {hint}") };
        Failure::new(Step::Clone, class, format!("{shown}: {}{hint}{progress}", line(error.message())))
    }
}

impl Notes {
    /// The error is for libgit2; what it says is in the notes.
    fn check_peers(&self, access: &Access) -> Result<(), git2::Error> {
        self.refused.set(self.refused.get() || !peers::are_permitted(&access.egress));
        if self.refused.get() {
            Err(git2::Error::new(ErrorCode::User, ErrorClass::Callback, "refused"))
        } else {
            Ok(())
        }
    }
}

fn credentials(access: &Access, notes: &Notes, allowed: CredentialType) -> Result<Cred, git2::Error> {
    let refused = |text: &str| Err(git2::Error::new(ErrorCode::Auth, ErrorClass::Callback, text));
    if allowed.contains(CredentialType::USERNAME) {
        return Cred::username(access.address.user.as_deref().unwrap_or_default());
    }
    notes.check_peers(access)?;
    notes.logins.set(notes.logins.get() + 1);
    if notes.logins.get() > LOGIN_TRIES {
        return refused("the server refused the login");
    }
    match &access.login {
        Login::Basic { username, password } if allowed.contains(CredentialType::USER_PASS_PLAINTEXT) => {
            Cred::userpass_plaintext(username, password)
        }
        Login::Key { username, private_key, .. } if allowed.contains(CredentialType::SSH_MEMORY) => {
            Cred::ssh_key_from_memory(username, None, private_key, None)
        }
        Login::None => refused("the server asks for a login"),
        Login::Basic { .. } | Login::Key { .. } => refused("the server takes another kind of login"),
    }
}

/// What kind of trouble an error of libgit2 is, and what to do.
fn classify(error: &git2::Error, access: &Access) -> (Class, &'static str) {
    let text = error.message();
    let status = text.strip_prefix("unexpected http status code: ").and_then(|code| code.parse::<u16>().ok());
    match (error.code(), error.class(), status) {
        (ErrorCode::Auth, ..) | (_, _, Some(401 | 403)) => (Class::Unauthorized, login_hint(&access.login)),
        (_, _, Some(404)) | (ErrorCode::NotFound, ..) => (Class::NotFound, "check the repository's URL"),
        (_, _, Some(429 | 500..)) => (Class::Unavailable, ""),
        (_, _, Some(_)) => (Class::Terminal, "check the repository's URL"),
        (ErrorCode::Certificate, ErrorClass::Ssh, _) => {
            (Class::Terminal, "the host key is not among the Secret's ssh-knownhosts")
        }
        _ if text.contains("certificate") => {
            (Class::Terminal, "add its CA to the controller's, or set auth.insecureSkipVerify")
        }
        (_, ErrorClass::Ssh, _) if NO_REPOSITORY.iter().any(|words| text.contains(words)) => {
            (Class::NotFound, "check the repository's URL, and whether the key may read it")
        }
        _ if text.starts_with("cannot redirect") => {
            (Class::Terminal, "redirects to another host are not followed, use the final URL")
        }
        _ if text.starts_with("invalid content-type") => (Class::Terminal, "this is not a git server"),
        (_, ErrorClass::Ssh, _) if text.contains("private key") || text.contains("publickey") => {
            (Class::Unauthorized, login_hint(&access.login))
        }
        _ => (Class::Unavailable, ""),
    }
}

fn login_hint(login: &Login) -> &'static str {
    match login {
        Login::None => "the repository is private or does not exist, set auth.secret if it is private",
        Login::Basic { .. } => "check username and password in the Secret",
        Login::Key { .. } => "check ssh-privatekey in the Secret: no passphrase, and known to the server",
    }
}
