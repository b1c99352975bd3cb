//! What every pass over a PlatformOperator is handed.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
use rukpak_crds::{BundleDeployment, PlatformOperator};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::catalogs::Catalogs;
use super::events::Events;
use super::operator::PACKAGE_NOT_UNIQUE;
use crate::context::{Failures, WrittenVersions};

/// Handed to every pass; cheap to share.
pub(crate) struct Context {
    /// For everything that is read and written.
    pub client: Client,
    /// All PlatformOperators, as last seen.
    pub operators: Store<PlatformOperator>,
    /// All BundleDeployments, as last seen.
    pub deployments: Store<BundleDeployment>,
    /// Cancelled when both of them have been filled for the first time.
    pub filled: CancellationToken,
    /// Where packages come from.
    pub catalogs: Arc<Catalogs>,
    /// Asks for passes.
    pub wake: Wake,
    /// Failures in a row, per object.
    pub failures: Failures,
    /// Resource versions of our own status writes, per object.
    pub written: WrittenVersions,
    /// Tells people what happened.
    pub events: Events,
}

/// Asks for passes.
#[derive(Clone)]
pub(crate) struct Wake {
    pub operators: UnboundedSender<ObjectRef<PlatformOperator>>,
    /// A pass over the ClusterOperator.
    pub cluster_operator: Arc<Notify>,
    /// A count of them.
    pub counted: Arc<Notify>,
}

impl Wake {
    /// A pass over the PlatformOperator `name`.
    pub fn operator(&self, name: &str) {
        // The receiver is dropped only when the process ends.
        let _ = self.operators.send(ObjectRef::new(name));
    }

    /// What all of them say together may be something else now.
    pub fn aggregate(&self) {
        self.cluster_operator.notify_one();
        self.counted.notify_one();
    }

    /// A pass over the ClusterOperator, in a while.
    pub fn cluster_operator_later(&self) {
        const WAIT: Duration = Duration::from_secs(5);
        let notify = self.cluster_operator.clone();
        tokio::spawn(async move {
            tokio::time::sleep(WAIT).await;
            notify.notify_one();
        });
    }

    /// A pass over each that waits for another one's package.
    pub fn duplicates(&self, operators: &Store<PlatformOperator>) {
        for operator in operators.state() {
            if operator.failing_reason() == Some(PACKAGE_NOT_UNIQUE) {
                self.operator(&operator.name_any());
            }
        }
    }

    /// A pass over each of them.
    pub fn all(&self, operators: &Store<PlatformOperator>) {
        for operator in operators.state() {
            let _ = self.operators.send(ObjectRef::from_obj(&*operator));
        }
    }
}
