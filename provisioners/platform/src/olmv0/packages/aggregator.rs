//! Who asks. The API server's aggregator calls for its users and says in headers who they are; that it is the aggregator, its certificate
//! says. Whom to believe stands in a ConfigMap, which is watched. API server.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{PoisonError, RwLock};

use axum::http::HeaderMap;
use futures::StreamExt as _;
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use rukpak_runtime::error::Chain;
use rukpak_runtime::serving::{ClientChain, Tls};
use rukpak_runtime::watch::is_forbidden;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// What the aggregator is known by. Believes nobody until the ConfigMap was read.
#[derive(Default)]
pub(super) struct Aggregator(RwLock<Known>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    /// Common names of its certificate; any, if there are none.
    names: Vec<String>,
    /// Headers with the user's name, of which the first counts that says something.
    users: Vec<String>,
    uids: Vec<String>,
    groups: Vec<String>,
    /// How headers begin with more about the user.
    extras: Vec<String>,
}

impl Aggregator {
    /// Whom the call is for, if the aggregator says so.
    pub fn user(&self, chain: &ClientChain, headers: &HeaderMap) -> Option<UserInfo> {
        // Verified in the handshake against the authorities of aggregators.
        let name = chain.common_name()?;
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if !known.names.is_empty() && !known.names.contains(&name) {
            return None;
        }
        known.user(headers)
    }

    /// Follows the ConfigMap, endlessly.
    pub async fn follow(&self, client: Client, tls: &Tls) {
        let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let mut events = pin!(watcher::watch_object(api, NAME).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(found) => self.learn(&found.and_then(|found| found.data).unwrap_or_default(), tls),
                Err(error) if is_forbidden(&error) => {
                    tracing::warn!(%error, "cannot read ConfigMap {NAMESPACE}/{NAME}: no PackageManifests are served");
                }
                Err(error) => tracing::debug!(%error, "watch over {NAMESPACE}/{NAME} interrupted; resuming"),
            }
        }
    }

    fn learn(&self, data: &BTreeMap<String, String>, tls: &Tls) {
        // Names first: who is taken at the handshake is looked at by them.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known::read(data);
        let authorities = data.get("requestheader-client-ca-file").map_or("", String::as_str);
        if authorities.is_empty() {
            tracing::warn!("{NAMESPACE}/{NAME} names no authority of aggregators: no PackageManifests are served");
        }
        if let Err(error) = tls.trust(authorities.as_bytes()) {
            tracing::warn!(error = %Chain(&error), "{NAMESPACE}/{NAME}: the API server's certificate is not accepted");
        }
    }
}

impl Known {
    /// Lists are JSON. One that cannot be read is empty: then nobody is known, but for that of names, which is not let through either.
    fn read(data: &BTreeMap<String, String>) -> Self {
        let list = |key: &str| data.get(key).and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
        Self {
            names: match data.get("requestheader-allowed-names") {
                Some(_) => list("requestheader-allowed-names").unwrap_or_else(|| vec![String::new()]),
                None => Vec::new(),
            },
            users: list("requestheader-username-headers").unwrap_or_default(),
            uids: list("requestheader-uid-headers").unwrap_or_default(),
            groups: list("requestheader-group-headers").unwrap_or_default(),
            extras: list("requestheader-extra-headers-prefix").unwrap_or_default(),
        }
    }

    fn user(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let texts = |name: &str| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let first = |names: &[String]| {
            let found = names.iter().flat_map(|name| texts(name)).find(|text| !text.is_empty());
            found.map(str::to_owned)
        };
        let groups = self.groups.iter().flat_map(|name| texts(name)).map(str::to_owned).collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            let key = self.extras.iter().find_map(|prefix| without_prefix(name.as_str(), prefix));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                extra.entry(decoded(key)).or_default().push(value.to_owned());
            }
        }
        let username = Some(first(&self.users)?);
        Some(UserInfo { username, uid: first(&self.uids), groups: Some(groups), extra: Some(extra) })
    }
}

/// Names of headers are in lower case here, and in any in the ConfigMap.
fn without_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// A key of `extra` without its percent signs: it stands in a header's name, where not everything may stand.
fn decoded(key: &str) -> String {
    let mut pieces = key.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.split_at_checked(2).and_then(|(hex, rest)| Some((u8::from_str_radix(hex, 16).ok()?, rest))) {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend(rest.as_bytes());
            }
            // As it is, like upstream.
            None => return key.to_owned(),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn known() -> Known {
        let data = [
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ];
        Known::read(&data.map(|(key, text)| (key.to_owned(), text.to_owned())).into())
    }

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        all.iter().map(pair).collect()
    }

    #[test]
    fn a_user_is_whom_the_headers_name_with_all_groups_and_extras() {
        let user = known().user(&headers(&[
            ("x-remote-user", "ann"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "system:authenticated"),
            ("x-remote-extra-scopes.authorization.openshift.io", "user:info"),
            ("x-remote-extra-example.com%2fteam", "water"),
            ("authorization", "Bearer x"),
        ]));
        let user = user.unwrap();
        assert_eq!((user.username.as_deref(), user.uid.as_deref()), (Some("ann"), Some("7")));
        assert_eq!(user.groups.unwrap(), ["a", "system:authenticated"]);
        let extra: Vec<(String, Vec<String>)> = user.extra.unwrap().into_iter().collect();
        let of = |key: &str, value: &str| (key.to_owned(), vec![value.to_owned()]);
        assert_eq!(extra, [of("example.com/team", "water"), of("scopes.authorization.openshift.io", "user:info")]);
        assert_eq!(known().user(&headers(&[("x-remote-group", "system:masters")])), None, "no name");
        assert_eq!(decoded("a%zz"), "a%zz");
    }

    #[test]
    fn nobody_is_believed_without_a_certificate_or_before_the_config_map_was_read() {
        let said = headers(&[("x-remote-user", "system:admin"), ("x-remote-group", "system:masters")]);
        let none = ClientChain(Arc::from([]));
        assert_eq!(Aggregator(RwLock::new(known())).user(&none, &said), None);
        assert_eq!(Known::default().user(&said), None);
        let unreadable = [("requestheader-allowed-names".to_owned(), "front-proxy-client".to_owned())];
        assert_eq!(Known::read(&unreadable.into()).names, [""], "no certificate has that name");
    }
}
