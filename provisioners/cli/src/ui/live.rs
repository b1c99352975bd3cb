//! A server-sent event for each change in the cluster. What has changed is for the page to ask.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _};

use super::Site;
use crate::cluster::Change;

/// Watches what the pages are about for as long as one is open. Its data is `listed` where a watch begins, so that nothing is
/// missed that happened before; else `changed`.
pub(super) async fn changes(State(site): State<Arc<Site>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = site.cluster.changes().map(|change| {
        let data = match change {
            Change::Listed => "listed",
            Change::Changed => "changed",
        };
        Ok(Event::default().event("change").data(data))
    });
    Sse::new(changes).keep_alive(KeepAlive::default())
}
