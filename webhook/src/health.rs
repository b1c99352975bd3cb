//! What `/readyz` says: the truth.

use std::time::SystemTime;

use rukpak_runtime::probes::{Checks, Verdict};
use tokio::sync::watch;

/// What this process has and lacks to answer the API server.
#[derive(Debug)]
pub struct Readiness {
    state: watch::Sender<Facts>,
}

/// Tells when something about the readiness changed.
#[derive(Debug)]
pub struct Changes(watch::Receiver<Facts>);

#[derive(Debug)]
struct Facts {
    listening: bool,
    draining: bool,
    certificate_until: Option<SystemTime>,
    trust: Result<(), String>,
}

impl Readiness {
    /// Nothing is there yet; `trust` says whether the API server trusts the certificate that will be served, and if not, why.
    pub fn new(trust: Result<(), String>) -> Self {
        let state = Facts { listening: false, draining: false, certificate_until: None, trust };
        Self { state: watch::Sender::new(state) }
    }

    /// The TLS listener is bound.
    pub fn listening(&self) {
        self.state.send_modify(|facts| facts.listening = true);
    }

    /// The process is on its way out.
    pub fn draining(&self) {
        self.state.send_modify(|facts| facts.draining = true);
    }

    /// A certificate is served; it expires then.
    pub fn certificate_until(&self, expiry: SystemTime) {
        self.state.send_modify(|facts| facts.certificate_until = Some(expiry));
    }

    /// Whether the API server trusts it; if not, why.
    pub fn trust(&self, trust: Result<(), String>) {
        self.state.send_if_modified(|facts| {
            let is_new = facts.trust != trust;
            facts.trust = trust;
            is_new
        });
    }

    /// Every check with its verdict.
    pub fn checks(&self, now: SystemTime) -> [Verdict; 4] {
        let facts = self.state.borrow();
        let certificate = match facts.certificate_until {
            None => Err("no serving certificate is loaded yet".to_owned()),
            Some(expiry) if expiry <= now => Err("the serving certificate has expired".to_owned()),
            Some(_) => Ok(()),
        };
        [
            ("running", if facts.draining { Err("shutting down".to_owned()) } else { Ok(()) }),
            ("listener", if facts.listening { Ok(()) } else { Err("the listener is not bound yet".to_owned()) }),
            ("certificate", certificate),
            ("trust", facts.trust.clone()),
        ]
    }

    /// Whether every check passes.
    pub fn is_ready(&self, now: SystemTime) -> bool {
        self.checks(now).iter().all(|(_, verdict)| verdict.is_ok())
    }

    /// Tells of changes from now on.
    pub fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }
}

impl Changes {
    /// Waits for the next change; for good once there is nothing left to change.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Checks for Readiness {
    async fn verdicts(&self) -> Vec<Verdict> {
        self.checks(SystemTime::now()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failing(readiness: &Readiness, now: SystemTime) -> Vec<&'static str> {
        readiness.checks(now).into_iter().filter(|(_, verdict)| verdict.is_err()).map(|(name, _)| name).collect()
    }

    #[test]
    fn readiness_needs_everything() {
        let now = SystemTime::UNIX_EPOCH;
        let readiness = Readiness::new(Err("no caBundle".to_owned()));
        assert_eq!(failing(&readiness, now), ["listener", "certificate", "trust"]);
        readiness.listening();
        readiness.certificate_until(now + Duration::from_secs(1));
        assert_eq!(failing(&readiness, now), ["trust"]);
        readiness.trust(Ok(()));
        assert_eq!(failing(&readiness, now), [] as [&str; 0]);
        assert_eq!(failing(&readiness, now + Duration::from_secs(1)), ["certificate"]);
        readiness.draining();
        assert_eq!(failing(&readiness, now), ["running"]);
    }
}
