//! From requests for a reconcile to reconciles.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Resource;
use kube::runtime::controller::{Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::metrics;

/// Wait after a reconcile that panicked; a change of the object ends it.
const PANIC_PAUSE: Duration = Duration::from_mins(1);

/// Requests for reconciles.
pub struct Requests<K: Resource<DynamicType = ()>> {
    /// Which objects.
    pub objects: UnboundedReceiver<ObjectRef<K>>,
    /// Cancelled when the stores have been filled.
    pub filled: CancellationToken,
    /// Where reconciles run: they are aborted when the queue is dropped, and have ended when this says so.
    pub tasks: TaskTracker,
}

/// Works off the requests, endlessly: never two reconciles of one object at once, at most `concurrency` in all (0: any number).
///
/// A reconcile that panics is logged and counted, and tried again after a minute: an object that meets a mistake in this program
/// must not keep all others from being reconciled, restart after restart.
pub async fn drain<K, C, F, E>(
    requests: Requests<K>,
    store: Store<K>,
    context: Arc<C>,
    concurrency: u16,
    mut reconcile: impl FnMut(Arc<K>, Arc<C>) -> F,
    error_policy: impl Fn(Arc<K>, &E, Arc<C>) -> Action,
) where
    K: Resource<DynamicType = ()> + Clone + 'static,
    F: Future<Output = Result<Action, E>> + Send + 'static,
    E: std::error::Error + Send + 'static,
{
    // A reconcile before the stores are filled would take what it does not see for absent.
    let Requests { objects, filled, tasks } = requests;
    filled.cancelled().await;
    let requests = futures::stream::unfold(objects, |mut requests| async {
        let next = requests.recv().await?;
        Some((Ok::<_, Infallible>(ReconcileRequest::from(next)), requests))
    });
    let config = Config::default().concurrency(concurrency);
    let reconciles = applier(
        move |object, context| {
            let name = object.meta().name.clone().unwrap_or_default();
            // A task of its own: what one computes holds up no other.
            let task = AbortOnDropHandle::new(tasks.spawn(reconcile(object, context)));
            Box::pin(guarded(name, K::kind(&()).into_owned(), task))
        },
        error_policy,
        context,
        store,
        Box::pin(requests),
        config,
    );
    reconciles.for_each(|_| std::future::ready(())).await;
}

/// Turns a panic into a wait.
async fn guarded<E>(name: String, kind: String, reconcile: AbortOnDropHandle<Result<Action, E>>) -> Result<Action, E> {
    // All that a lost reconcile leaves half-way is the memory of its own object; what is in the cluster is looked at again.
    reconcile.await.unwrap_or_else(|error| {
        // Nobody aborts it but the runtime when the process ends, and then this is not polled any more.
        let Ok(panic) = error.try_into_panic() else { return Ok(Action::await_change()) };
        metrics::count_panic();
        let panic = text(&*panic);
        tracing::error!(kind, name, panic, retry_after = ?PANIC_PAUSE, "reconcile panicked: a mistake in this program");
        Ok(Action::requeue(PANIC_PAUSE))
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(not a text)")
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use rukpak_crds::Bundle;
    use serde_json::json;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    fn bundle(name: &str) -> Bundle {
        let spec = json!({"provisionerClassName": "c", "source": {"type": "image"}});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[tokio::test]
    async fn a_reconcile_that_panics_stops_no_other_and_is_tried_again() {
        let (store, mut writer) = reflector::store();
        let (sender, receiver) = unbounded_channel();
        let filled = CancellationToken::new();
        filled.cancel();
        writer.apply_watcher_event(&watcher::Event::Init);
        for name in ["bad", "good"] {
            writer.apply_watcher_event(&watcher::Event::InitApply(bundle(name)));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
        sender.send(ObjectRef::new("bad")).unwrap();
        let (done, mut told) = unbounded_channel();
        let reconcile = |bundle: Arc<Bundle>, done: Arc<UnboundedSender<String>>| async move {
            let name = bundle.metadata.name.clone().unwrap();
            done.send(name.clone()).unwrap();
            tokio::task::yield_now().await;
            assert_ne!(name, "bad");
            Ok::<_, Infallible>(Action::await_change())
        };
        let requests = Requests { objects: receiver, filled, tasks: TaskTracker::new() };
        let queue = drain(requests, store, Arc::new(done), 1, reconcile, |_, error, _| match *error {});
        let queue = tokio::spawn(queue);
        assert_eq!(told.recv().await.as_deref(), Some("bad"));
        // Another one, and a change of the first.
        for name in ["good", "bad"] {
            sender.send(ObjectRef::new(name)).unwrap();
            assert_eq!(told.recv().await.as_deref(), Some(name));
        }
        assert!(!queue.is_finished());
        let mut text = String::new();
        metrics::reconcile_panics(&mut text);
        let counted = text.lines().find_map(|line| line.strip_prefix("rukpak_reconcile_panics_total "));
        assert!(counted.is_some_and(|counted| counted != "0"), "{text}");
        queue.abort();
    }

    #[tokio::test]
    async fn a_queue_that_is_dropped_takes_its_reconciles_with_it() {
        let (store, mut writer) = reflector::store();
        let (sender, objects) = unbounded_channel();
        let (filled, tasks) = (CancellationToken::new(), TaskTracker::new());
        filled.cancel();
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitApply(bundle("endless")));
        writer.apply_watcher_event(&watcher::Event::InitDone);
        sender.send(ObjectRef::new("endless")).unwrap();
        let (begun, mut told) = unbounded_channel();
        let reconcile = |_: Arc<Bundle>, begun: Arc<UnboundedSender<()>>| async move {
            begun.send(()).unwrap();
            std::future::pending::<Result<Action, Infallible>>().await
        };
        let requests = Requests { objects, filled, tasks: tasks.clone() };
        let queue = tokio::spawn(drain(requests, store, Arc::new(begun), 1, reconcile, |_, error, _| match *error {}));
        told.recv().await.unwrap();
        assert_eq!(tasks.len(), 1);
        queue.abort();
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn without_a_change_it_is_tried_again_after_a_minute() {
        let reconcile = AbortOnDropHandle::new(tokio::spawn(async { std::panic::panic_any(3) }));
        let action = guarded::<Infallible>("n".to_owned(), "Bundle".to_owned(), reconcile).await;
        assert_eq!(action, Ok(Action::requeue(PANIC_PAUSE)));
    }

    #[test]
    fn a_panic_says_what_it_says() {
        let caught = |work: fn()| text(&*std::panic::catch_unwind(work).unwrap_err()).to_owned();
        assert_eq!(caught(|| panic!("plain")), "plain");
        assert_eq!(caught(|| panic!("of {}", 2)), "of 2");
        assert_eq!(caught(|| std::panic::panic_any(3)), "(not a text)");
    }
}
