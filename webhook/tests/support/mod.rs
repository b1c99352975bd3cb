//! A cluster that is known beforehand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use rukpak_crd_upgrade::ObjectCheck;
use rukpak_webhook::call::Shared;
use rukpak_webhook::reads::{Error, Next, Page, Reads};
use rukpak_webhook::review::UserInfo;
use rukpak_webhook::rules::account::Identity;
use rukpak_webhook::rules::config_map::{Use, use_of};
use serde_json::Value;
use serde_json::value::to_raw_value;

/// The user name of the controller.
pub const CONTROLLER: &str = "system:serviceaccount:rukpak-system:core-admin";

/// The objects that matter.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// ConfigMaps that can be changed.
    pub mutable: Vec<&'static str>,
    /// Bundles.
    pub bundles: Vec<Value>,
    /// BundleDeployments with the annotation that switches checks off.
    pub unchecked: Vec<&'static str>,
    /// The CRD in the cluster.
    pub definition: Option<Value>,
    /// Custom resources, page by page.
    pub objects: Vec<Vec<Value>>,
    /// Namespaces in which anybody may create ClusterServiceVersions.
    pub open_namespaces: Vec<&'static str>,
    /// Whom anybody may impersonate, by their user names.
    pub impersonable: Vec<&'static str>,
    /// No answer to anything: the API server refuses.
    pub is_silent: bool,
    /// What was read.
    pub log: Arc<Mutex<Vec<String>>>,
    /// ConfigMaps that are being read, now and at most.
    pub reading: Arc<(AtomicUsize, AtomicUsize)>,
}

impl Known {
    /// What the handlers share in such a cluster.
    pub fn shared(self) -> Shared {
        Shared {
            metrics: Arc::default(),
            reads: Arc::new(self),
            namespace: "rukpak-system".into(),
            controller: CONTROLLER.into(),
            requires_account: false,
            gates: Arc::default(),
            tell: Arc::new(|_, _| {}),
        }
    }

    fn found(&self, name: &str) -> Option<&Value> {
        self.definition.as_ref().filter(|definition| definition["metadata"]["name"] == name)
    }

    fn note(&self, what: &str, name: &str) {
        self.log.lock().expect("nobody panicked").push(format!("{what} {name}"));
    }

    fn asked<T>(&self, answer: T) -> Result<T, Box<kube::Error>> {
        if self.is_silent { Err(Box::new(kube::Error::LinesCodecMaxLineLengthExceeded)) } else { Ok(answer) }
    }
}

impl Reads for Known {
    fn is_immutable<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Option<bool>, Error>> {
        self.note("configmap", config_map);
        let answer = self.asked(self.mutable.contains(&config_map).then_some(false));
        Box::pin(async move {
            let (now, most) = &*self.reading;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            answer.map_err(|error| Error::ConfigMap(config_map.to_owned(), error))
        })
    }

    fn uses<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Vec<Use>, Error>> {
        self.note("bundles", config_map);
        let answer = self.asked(self.bundles.iter().filter_map(|bundle| use_of(bundle, config_map)).collect());
        Box::pin(async move { answer.map_err(Error::Bundles) })
    }

    fn is_unchecked<'a>(&'a self, deployment: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        self.note("deployment", deployment);
        let answer = self.asked(self.unchecked.contains(&deployment));
        Box::pin(async move { answer.map_err(|error| Error::Deployment(deployment.to_owned(), error)) })
    }

    fn definition_uid<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, Error>> {
        self.note("uid", name);
        let uid = self.found(name).and_then(|definition| definition["metadata"]["uid"].as_str().map(str::to_owned));
        let answer = self.asked(uid);
        Box::pin(async move { answer.map_err(|error| Error::Crd(name.to_owned(), error)) })
    }

    fn definition<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        self.note("definition", name);
        let answer = self.asked(self.found(name).cloned());
        Box::pin(async move { answer.map_err(|error| Error::Crd(name.to_owned(), error)) })
    }

    fn objects<'a>(&'a self, check: &'a ObjectCheck, after: Option<Next>) -> BoxFuture<'a, Result<Page, Error>> {
        self.note("objects", &format!("{}/{}", check.group, check.plural));
        let index: usize = after.map_or(0, |after| after.token.parse().expect("because it is a number of ours"));
        let next = (index + 1 < self.objects.len()).then(|| Next { token: (index + 1).to_string(), limit: 1 });
        let objects =
            self.objects.get(index).into_iter().flatten().map(|object| to_raw_value(object).expect("it is JSON"));
        let answer = self.asked(Page { objects: objects.collect(), next });
        let kind = format!("{}/{}, Kind={}", check.group, check.list_version, check.kind);
        Box::pin(async move { answer.map_err(|error| Error::Objects(kind, error)) })
    }

    fn may_impersonate<'a>(&'a self, user: &'a UserInfo, whom: &'a Identity) -> BoxFuture<'a, Result<bool, Error>> {
        self.note("access", &format!("{} as {}", user.username, whom.user_name()));
        let answer = self.asked(self.impersonable.contains(&whom.user_name().as_str()));
        Box::pin(async move { answer.map_err(|error| Error::Access(user.username.clone(), error)) })
    }

    fn may_create_versions<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        self.note("versions", &format!("{} in {namespace}", user.username));
        let answer = self.asked(self.open_namespaces.contains(&namespace));
        Box::pin(async move { answer.map_err(|error| Error::Access(user.username.clone(), error)) })
    }
}
