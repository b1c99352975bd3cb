//! From requests for a pass to passes.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt;
use kube::Resource;
use kube::runtime::controller::{Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

/// Requests for a pass, and what is cancelled when the stores have been filled.
pub(crate) type Requests<K> = (UnboundedReceiver<ObjectRef<K>>, CancellationToken);

/// Works off the requests, endlessly: never two passes over one object at once, at most `concurrency` in all.
pub(crate) async fn drain<K, C, F, E>(
    (requests, filled): Requests<K>,
    store: Store<K>,
    context: Arc<C>,
    concurrency: u16,
    mut reconcile: impl FnMut(Arc<K>, Arc<C>) -> F,
    error_policy: impl Fn(Arc<K>, &E, Arc<C>) -> Action,
) where
    K: Resource + Clone + 'static,
    K::DynamicType: Debug + Eq + Hash + Clone + Unpin,
    F: Future<Output = Result<Action, E>>,
    E: std::error::Error + 'static,
{
    // A pass before the stores are filled would take what it does not see for absent.
    filled.cancelled().await;
    let requests = futures::stream::unfold(requests, |mut requests| async {
        let next = requests.recv().await?;
        Some((Ok::<_, Infallible>(ReconcileRequest::from(next)), requests))
    });
    let config = Config::default().concurrency(concurrency);
    let passes = applier(
        move |object, context| Box::pin(reconcile(object, context)),
        error_policy,
        context,
        store,
        Box::pin(requests),
        config,
    );
    passes.for_each(|_| std::future::ready(())).await;
}
