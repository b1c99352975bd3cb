//! What Helm renders of a chart. It is rendered once for a release and kept in the store, under a digest that the status has before the
//! first object is written: passwords, certificates and times that templates make up stay what they are, whatever is reconciled.

use rukpak_content::BundleTree;
use rukpak_format::{Format, helm};
use rukpak_helm::{Capabilities, Request};
use rukpak_plan::Release;

use super::collect;
use super::prepare::{self, Unprepared};
use crate::deployment::observe::Run;

/// What was rendered for a release.
pub(super) struct Rendering {
    pub tree: BundleTree,
    /// Whether it was rendered just now: the store does not have it yet.
    pub is_new: bool,
}

/// What was rendered for the release; what Helm renders now, if nothing was, or it is lost.
pub(super) async fn find_or_render(run: &Run, release: &Release) -> Result<Rendering, Unprepared> {
    if let Some(rendering) = &release.rendering {
        match prepare::content(run, rendering, Format::Plain).await {
            Ok(tree) => return Ok(Rendering { tree, is_new: false }),
            Err(Unprepared::Lost(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let values = helm::values(release.config.as_ref()).map_err(|error| Unprepared::Format(Box::new(error.into())))?;
    let chart = prepare::content(run, &release.content, Format::Helm).await?;
    let folder = helm::chart_folder(&chart).to_owned();
    let request = Request {
        release: run.view.owner.name.clone(),
        namespace: run.view.reads.settings.system_namespace.clone(),
        values,
        capabilities: Some(capabilities(run).await?),
    };
    let (stage, limits) = (run.view.reads.store.stage_dir(), &run.view.reads.settings.limits);
    let rendered = run.context.helm.render(chart, &folder, request, stage, limits).await;
    let rendered = rendered.map_err(|error| Unprepared::Helm(Box::new(error)))?;
    if !rendered.warnings.is_empty() {
        tracing::warn!(deployment = %run.view.owner.name, warnings = rendered.warnings, "Helm warns of the chart");
    }
    Ok(Rendering { tree: helm::rendering(rendered.manifest), is_new: true })
}

/// What the templates are told of the cluster, as it is now. What was rendered already does not follow it.
async fn capabilities(run: &Run) -> Result<Capabilities, Unprepared> {
    let kubernetes = prepare::kubernetes(run).await?;
    let api_versions = run.view.reads.kinds.api_versions().await.map_err(Unprepared::Discovery)?;
    Ok(Capabilities { kubernetes, api_versions })
}

/// Keeps `tree`, which was rendered for the release, in the store. Returns the release with it.
///
/// # Errors
/// Something else was rendered for it before.
pub(super) async fn keep(run: &Run, release: Release, tree: BundleTree) -> Result<Release, Unprepared> {
    let store = run.view.reads.store.clone();
    let sealed = tokio::task::spawn_blocking(move || store.seal(&tree)).await.map_err(Unprepared::Interrupted)?;
    let sealed = sealed.map_err(Unprepared::Store)?;
    if release.rendering.as_ref().is_some_and(|known| *known != sealed.digest) {
        return Err(Unprepared::Rendering);
    }
    // The mark of what was sealed goes with the value.
    collect::keep_also(run, &sealed.digest).await.map_err(Unprepared::Store)?;
    Ok(Release { rendering: Some(sealed.digest.clone()), ..release })
}
