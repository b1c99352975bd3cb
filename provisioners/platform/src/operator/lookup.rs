//! What is asked about a PlatformOperator, for as long as nothing else happens to it. I/O.

use futures::FutureExt;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use rukpak_crds::{BundleDeployment, PlatformOperator, PlatformOperatorStatus};

use super::Pass;
use crate::catalogs::Wanted;
use crate::context::{Answer, Question};

/// The catalogs to ask about what is installed: the one that it came from, unless the spec has moved to another one since.
pub(super) fn wanted<'a>(operator: &'a PlatformOperator, status: &'a PlatformOperatorStatus) -> Wanted<'a> {
    let origin = status.source.as_ref().map_or(Wanted::Any, |source| Wanted::Origin(&source.catalog));
    operator.spec.package.catalog.as_deref().map_or(origin, Wanted::Named)
}

/// Asks for the package. `None` if something else [happened](unless_superseded).
pub(super) async fn package(pass: &Pass, deployment: Option<&BundleDeployment>) -> Option<Answer> {
    let catalogs = pass.context.catalogs.clone();
    let (operator, status) = (pass.operator.clone(), pass.status.clone());
    // What is noted of something that is gone does not bind.
    let status = if deployment.is_some() { status } else { PlatformOperatorStatus::default() };
    let question = Question {
        generation: operator.meta().generation,
        origin: status.source.as_ref().map(|source| source.catalog.clone()),
        epoch: pass.epoch,
    };
    let ask = async move {
        let wanted = wanted(&operator, &status);
        catalogs.find(&operator.spec.package.name, wanted).await
    };
    let answer = pass.context.questions.ask(&pass.uid, &question, ask.boxed());
    unless_superseded(pass, deployment, answer).await.flatten()
}

/// What comes of `work`. `None` if the PlatformOperator asks for something else by now, or its BundleDeployment is not
/// `deployment`: that is dealt with at once, however long a catalog takes.
pub(super) async fn unless_superseded<T>(
    pass: &Pass,
    deployment: Option<&BundleDeployment>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
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
