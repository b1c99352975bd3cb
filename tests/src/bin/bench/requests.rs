//! What the API server has been asked for, by its own counters.

use anyhow::{Context, Result};
use http::Request;
use kube::Client;

/// Requests so far, of the kinds that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Writes to `bundles/status`.
    pub bundle_status: usize,
    /// Writes to `bundledeployments/status`.
    pub deployment_status: usize,
    /// All other writes to Bundles and BundleDeployments.
    pub own: usize,
    /// Reads of anything, watches left out.
    pub reads: usize,
}

/// The counters themselves: the labels of each as they are written, and how often.
pub(crate) async fn answered(client: &Client) -> Result<Vec<(String, f64)>> {
    let request = Request::get("/metrics").body(Vec::new())?;
    let text = client.request_text(request).await.context("read the API server's metrics")?;
    let counters = text.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")).map(|counter| {
        let (labels, value) = counter.rsplit_once("} ").context("a metric without a value")?;
        Ok((labels.to_owned(), value.trim().parse().context("a count")?))
    });
    counters.collect()
}

impl Counts {
    /// Reads the counters.
    pub async fn read(client: &Client) -> Result<Self> {
        let mut counts = Self::default();
        for (labels, value) in answered(client).await? {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
            counts.add(&labels, value as usize);
        }
        Ok(counts)
    }

    /// What came since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            bundle_status: self.bundle_status - earlier.bundle_status,
            deployment_status: self.deployment_status - earlier.deployment_status,
            own: self.own - earlier.own,
            reads: self.reads - earlier.reads,
        }
    }

    fn add(&mut self, labels: &str, value: usize) {
        let is = |label: &str, value: &str| labels.contains(&format!("{label}=\"{value}\""));
        if is("verb", "GET") || is("verb", "LIST") {
            self.reads += value;
        }
        let writes = ["POST", "PUT", "PATCH", "APPLY"].iter().any(|verb| is("verb", verb));
        if !writes || !is("group", "core.rukpak.io") {
            return;
        }
        let counter =
            match (is("subresource", "status"), is("resource", "bundles"), is("resource", "bundledeployments")) {
                (true, true, _) => &mut self.bundle_status,
                (true, _, true) => &mut self.deployment_status,
                _ => &mut self.own,
            };
        *counter += value;
    }
}
