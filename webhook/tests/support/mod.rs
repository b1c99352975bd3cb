//! A cluster that is known beforehand.

use std::sync::Arc;

use futures::future::BoxFuture;
use rukpak_plan::crd_upgrade::ObjectCheck;
use rukpak_webhook::reads::{Error, Page, Reads};
use rukpak_webhook::router::Shared;
use rukpak_webhook::rules::config_map::{Use, use_of};
use serde_json::Value;

/// The objects that matter.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// ConfigMaps that can be changed.
    pub mutable: Vec<&'static str>,
    /// Bundles.
    pub bundles: Vec<Value>,
    /// BundleDeployments with the annotation that switches checks off.
    pub unchecked: Vec<&'static str>,
    /// Custom resources, page by page.
    pub objects: Vec<Vec<Value>>,
    /// No answer to anything: the API server refuses.
    pub is_silent: bool,
}

impl Known {
    /// What the handlers share in such a cluster.
    pub fn shared(self) -> Shared {
        Shared { metrics: Arc::default(), reads: Arc::new(self), namespace: "rukpak-system".into() }
    }

    fn asked<T>(&self, answer: T) -> Result<T, Box<kube::Error>> {
        if self.is_silent { Err(Box::new(kube::Error::LinesCodecMaxLineLengthExceeded)) } else { Ok(answer) }
    }
}

impl Reads for Known {
    fn is_immutable<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Option<bool>, Error>> {
        let answer = self.asked(self.mutable.contains(&config_map).then_some(false));
        Box::pin(async move { answer.map_err(|error| Error::ConfigMap(config_map.to_owned(), error)) })
    }

    fn uses<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Vec<Use>, Error>> {
        let answer = self.asked(self.bundles.iter().filter_map(|bundle| use_of(bundle, config_map)).collect());
        Box::pin(async move { answer.map_err(Error::Bundles) })
    }

    fn is_unchecked<'a>(&'a self, deployment: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        let answer = self.asked(self.unchecked.contains(&deployment));
        Box::pin(async move { answer.map_err(|error| Error::Deployment(deployment.to_owned(), error)) })
    }

    fn objects<'a>(&'a self, check: &'a ObjectCheck, after: Option<String>) -> BoxFuture<'a, Result<Page, Error>> {
        let index: usize = after.map_or(0, |after| after.parse().expect("because it is a number of ours"));
        let next = (index + 1 < self.objects.len()).then(|| (index + 1).to_string());
        let page = Page { objects: self.objects.get(index).cloned().unwrap_or_default(), next };
        let answer = self.asked(page);
        let kind = format!("{}/{}, Kind={}", check.group, check.list_version, check.kind);
        Box::pin(async move { answer.map_err(|error| Error::Objects(kind, error)) })
    }
}
