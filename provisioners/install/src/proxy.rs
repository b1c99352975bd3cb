//! The proxy that operators are told of. Memory.

use rukpak_format::Proxy;
use tokio::sync::watch;

/// The proxy that operators are told of, as it was seen last.
pub struct ClusterProxy {
    /// What counts where the cluster has no kind for it.
    own: Proxy,
    /// `None`: it is not known yet.
    seen: watch::Sender<Option<Proxy>>,
}

impl ClusterProxy {
    /// `own`: what counts where the cluster has no kind for it.
    pub fn new(own: Proxy) -> Self {
        Self { own, seen: watch::Sender::new(None) }
    }

    /// The proxy; none as long as it is not known.
    pub fn get(&self) -> Proxy {
        self.seen.borrow().clone().unwrap_or_default()
    }

    /// Waits until it is known.
    pub async fn known(&self) {
        let mut seen = self.seen.subscribe();
        // The sender lives as long as this does.
        let _ = seen.wait_for(Option::is_some).await;
    }

    /// What counts where the cluster has no kind for it.
    pub(crate) fn own(&self) -> Proxy {
        self.own.clone()
    }

    /// Whether it is known.
    pub(crate) fn is_known(&self) -> bool {
        self.seen.borrow().is_some()
    }

    /// Notes what was seen. Returns whether that is another than the one that was known.
    pub(crate) fn note(&self, proxy: Proxy) -> bool {
        let is_other = self.seen.borrow().as_ref().is_some_and(|known| *known != proxy);
        self.seen.send_replace(Some(proxy));
        is_other
    }
}
