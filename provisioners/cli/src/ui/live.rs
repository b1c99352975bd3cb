//! A server-sent event for each change in the cluster. What has changed is for the page to ask.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _};

use super::Site;

/// Watches BundleDeployments, Bundles and PlatformOperators for as long as the page is open.
pub(super) async fn changes(State(site): State<Arc<Site>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // An event without data is none, to a browser.
    let changes = site.cluster.changes().map(|()| Ok(Event::default().event("change").data("cluster")));
    Sse::new(changes).keep_alive(KeepAlive::default())
}
