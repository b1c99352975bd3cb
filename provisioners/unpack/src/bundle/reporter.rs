//! Writes a Bundle's status: at stage boundaries, from one value, and only where it differs.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, ResourceExt};
use rukpak_crds::{Bundle, BundleStatus};
use rukpak_runtime::api;
use rukpak_runtime::status::StatusWriter;
use rukpak_trust::Verdict;

use super::report::{self, Report};
use crate::context::Context;

/// The status of one Bundle during a reconcile.
pub struct Reporter {
    context: Arc<Context>,
    bundle: Arc<Bundle>,
    status: BundleStatus,
    verdict: Option<Verdict>,
    writer: StatusWriter<Bundle>,
}

impl Reporter {
    /// For a Bundle as it was observed.
    pub fn new(bundle: &Arc<Bundle>, context: &Arc<Context>) -> Self {
        Self {
            writer: StatusWriter::new(&context.client, &**bundle, bundle.status.as_ref()),
            status: bundle.status.clone().unwrap_or_default(),
            verdict: None,
            bundle: Arc::clone(bundle),
            context: Arc::clone(context),
        }
    }

    /// Says that work has begun, unless there is a failure to see.
    pub async fn begin(&mut self, report: &Report) -> Result<(), api::Error> {
        if report.hides_failure(&self.status) { Ok(()) } else { self.write(report).await.map(|_| ()) }
    }

    /// What the policies say of the content; goes with the next report.
    pub fn verified(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
    }

    /// What was said last by [`Reporter::verified`].
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Says how it ended. Returns whether that is news.
    ///
    /// Content that took minutes to fetch is not thrown away because somebody put a label on the Bundle meanwhile.
    pub async fn end(&mut self, report: &Report) -> Result<bool, api::Error> {
        match self.write(report).await {
            Err(error) if error.is_conflict() && !self.is_of_replicas(report) && self.look_again().await? => {
                self.write(report).await
            }
            other => other,
        }
    }

    /// Whether another replica may have taken another upload meanwhile, which is then what counts: a replica writes the status after
    /// it has stored the upload, and says so to its client after that.
    fn is_of_replicas(&self, report: &Report) -> bool {
        let is_upload = self.bundle.spec.source.upload.is_some();
        is_upload && self.context.store.is_shared() && matches!(report, Report::Unpacked(_))
    }

    async fn write(&mut self, report: &Report) -> Result<bool, api::Error> {
        let base = self.context.content_base_url.as_deref();
        let status = report::status(&self.bundle, &self.status, report, self.verdict.as_ref(), base, Timestamp::now());
        let written = self.writer.write(&status, &self.context.written).await?;
        self.status = status;
        Ok(written)
    }

    /// Reads the Bundle again; `false` if it is another one, or not to be worked on any more.
    async fn look_again(&mut self) -> Result<bool, api::Error> {
        let api: Api<Bundle> = Api::all(self.context.client.clone());
        let Some(live) = api.get_opt(&self.bundle.name_any()).await? else { return Ok(false) };
        let is_same = live.uid() == self.bundle.uid() && live.spec == self.bundle.spec;
        if !is_same || live.metadata.deletion_timestamp.is_some() {
            return Ok(false);
        }
        let live = Arc::new(live);
        let verdict = self.verdict.take();
        *self = Self { verdict, ..Self::new(&live, &self.context) };
        Ok(true)
    }
}
