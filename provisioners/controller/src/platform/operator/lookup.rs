//! The package of a PlatformOperator, looked up for as long as nothing else happens to it. I/O.

use std::panic::resume_unwind;

use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use rukpak_crds::{BundleDeployment, PlatformOperatorStatus};

use super::{Pass, source};
use crate::platform::catalogs::{Error, Found};

/// Asks for the package. `None` if the PlatformOperator asks for something else by now, or its BundleDeployment is not
/// `deployment`: that is dealt with at once, however long a catalog takes. The question goes on by itself, for whoever asks next.
pub(super) async fn package(pass: &Pass, deployment: Option<&BundleDeployment>) -> Option<Result<Found, Error>> {
    let catalogs = pass.context.catalogs.clone();
    let (operator, status) = (pass.operator.clone(), pass.status.clone());
    // What is noted of something that is gone does not bind.
    let status = if deployment.is_some() { status } else { PlatformOperatorStatus::default() };
    let question = tokio::spawn(async move {
        let wanted = source::wanted(&operator, &status);
        catalogs.find(&operator.spec.package.name, wanted).await
    });
    tokio::select! {
        biased;
        answer = question => match answer.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(answer) => Some(answer),
            Err(Ok(panic)) => resume_unwind(panic),
            // The process ends.
            Err(Err(_)) => None,
        },
        () = superseded(pass, deployment) => None,
    }
}

/// Returns when a watch has shown something that the pass does not know.
async fn superseded(pass: &Pass, deployment: Option<&BundleDeployment>) {
    let context = &pass.context;
    let mut seen = context.seen.subscribe();
    let is_known = || {
        let operator = context.operators.get(&ObjectRef::new(&pass.name));
        let now = context.deployments.get(&ObjectRef::new(&pass.name));
        operator.is_some_and(|operator| pass.is_about(&operator))
            && now.as_ref().map(|now| &now.meta().resource_version)
                == deployment.map(|deployment| &deployment.meta().resource_version)
    };
    while is_known() {
        // The sender lives as long as the process.
        let _ = seen.changed().await;
    }
}
