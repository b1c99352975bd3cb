//! What a handler is given: a call, and what all calls share.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use rukpak_runtime::events::News;
use rukpak_runtime::server::{Connection, Phase};

use crate::gates::{Gate, Gates, Pass};
use crate::metrics::Metrics;
use crate::reads::Reads;
use crate::review::Request;

/// What the handlers share.
#[derive(Clone)]
pub struct Shared {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What is known of the cluster.
    pub reads: Arc<dyn Reads>,
    /// The system namespace.
    pub namespace: Arc<str>,
    /// The user name of the controller.
    pub controller: Arc<str>,
    /// Whether every BundleDeployment has to name a ServiceAccount.
    pub requires_account: bool,
    /// What calls may take.
    pub gates: Arc<Gates>,
    /// Writes Events about objects, and does not make anybody wait for it.
    pub tell: Tell,
}

/// Tells something about an object.
pub type Tell = Arc<dyn Fn(ObjectReference, &News) + Send + Sync>;

/// A call that was read.
pub(crate) struct Call {
    pub request: Request,
    /// Whether judging it takes long.
    pub is_large: bool,
    connection: Connection,
    _memory: Pass,
}

impl Call {
    /// A call that keeps its part of the memory for reviews for as long as it lives.
    pub(crate) fn new(request: Request, is_large: bool, connection: Connection, memory: Pass) -> Self {
        Self { request, is_large, connection, _memory: memory }
    }

    /// Waits for its turn. While it does it holds a place that a new connection may need more.
    pub(crate) async fn turn(&self, gate: &Gate) -> Pass {
        self.connection.enter(Phase::Waiting);
        let pass = gate.pass(self.connection.address(), 1).await;
        self.connection.enter(Phase::Admitted);
        pass
    }
}
