//! From requests for a reconcile to reconciles.

use std::any::Any;
use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Resource;
use kube::runtime::controller::{self, Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{Instrument as _, Span};

use crate::metrics::{self, Running, Waiting};
use crate::traces;

/// Wait after a reconcile that panicked; a change of the object ends it.
const PANIC_PAUSE: Duration = Duration::from_mins(1);

/// Asks for reconciles of the objects of one kind. Cheap to clone.
pub struct Queue<K: Resource<DynamicType = ()>>(UnboundedSender<ObjectRef<K>>);

impl<K: Resource<DynamicType = ()>> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Resource<DynamicType = ()>> Queue<K> {
    /// An empty queue, and the end at which its requests come out.
    pub fn new() -> (Self, UnboundedReceiver<ObjectRef<K>>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// Asks for a reconcile of the object `name`, which has no namespace.
    pub fn add(&self, name: &str) {
        // The receiver is dropped only when the process ends.
        let _ = self.0.send(ObjectRef::new(name));
    }
}

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
/// A reconcile that panics is logged and counted, and tried again after a minute: an object that meets a bug in this program
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
    // Of a type, not of an object: the text is in the program.
    let kind = match K::kind(&()) {
        Cow::Borrowed(kind) => kind,
        Cow::Owned(_) => "",
    };
    let waiting = Arc::new(Waiting::of(kind));
    let (begins, is_gone) = (Arc::clone(&waiting), Arc::clone(&waiting));
    let requests = futures::stream::unfold((objects, waiting), |(mut requests, waiting)| async move {
        let next = requests.recv().await?;
        waiting.add(next.clone().erase());
        Some((Ok::<_, Infallible>(ReconcileRequest::from(next)), (requests, waiting)))
    });
    let config = Config::default().concurrency(concurrency);
    let reconciles = applier(
        move |object, context| {
            let name = object.meta().name.clone().unwrap_or_default();
            begins.remove(&ObjectRef::from_obj(&*object).erase());
            let span = traces::reconcile(kind, object.meta());
            let (running, reconcile) = (Running::begin(kind), reconcile(object, context));
            // A task of its own: what one computes holds up no other.
            let task = async move {
                let _running = running;
                reconcile.await
            };
            let task = tasks.spawn(task.instrument(span.clone()));
            Box::pin(guarded(name, kind, span, AbortOnDropHandle::new(task)))
        },
        error_policy,
        context,
        store,
        Box::pin(requests),
        config,
    );
    let done = reconciles.for_each(|done| {
        if let Err(controller::Error::ObjectNotFound(object)) = done {
            is_gone.remove(&object);
        }
        std::future::ready(())
    });
    done.await;
}

/// Turns a panic into a wait, and says in the span what kept a reconcile from reporting.
async fn guarded<E: std::error::Error>(
    name: String,
    kind: &str,
    span: Span,
    reconcile: AbortOnDropHandle<Result<Action, E>>,
) -> Result<Action, E> {
    // All that a lost reconcile leaves half-way is the memory of its own object; what is in the cluster is looked at again.
    let ended = reconcile.await.unwrap_or_else(|error| {
        // Nobody aborts it but the runtime when the process ends, and then this is not polled any more.
        let Ok(panic) = error.try_into_panic() else { return Ok(Action::await_change()) };
        metrics::count_panic();
        let panic = text(&*panic);
        traces::panicked(&span, panic);
        tracing::error!(kind, name, panic, retry_after = ?PANIC_PAUSE, "reconcile panicked: a bug in this program");
        Ok(Action::requeue(PANIC_PAUSE))
    });
    ended.inspect_err(|error| traces::error(&span, error))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(not a text)")
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use rukpak_crds::{Bundle, PlatformOperator};
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
        let text = shown();
        let counted = text.lines().find_map(|line| line.strip_prefix("rukpak_reconcile_panics_total "));
        assert!(counted.is_some_and(|counted| counted != "0"), "{text}");
        queue.abort();
    }

    fn shown() -> String {
        let mut registry = metrics::registry();
        metrics::add_reconciles(&mut registry);
        metrics::text(&registry)
    }

    #[tokio::test]
    async fn what_waits_and_what_runs_is_counted() {
        let (store, mut writer) = reflector::store();
        let (sender, objects) = unbounded_channel();
        let filled = CancellationToken::new();
        filled.cancel();
        // No other test has PlatformOperators.
        writer.apply_watcher_event(&watcher::Event::Init);
        for name in ["first", "second"] {
            let operator = json!({"metadata": {"name": name}, "spec": {"package": {"name": "p"}}});
            writer.apply_watcher_event(&watcher::Event::InitApply(serde_json::from_value(operator).unwrap()));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let (begun, mut told) = unbounded_channel();
        let go_on = Arc::new(tokio::sync::Semaphore::new(0));
        let reconcile = |operator: Arc<PlatformOperator>, context: Arc<(UnboundedSender<String>, Arc<_>)>| async move {
            let (begun, go_on): &(_, Arc<tokio::sync::Semaphore>) = &context;
            begun.send(operator.metadata.name.clone().unwrap()).unwrap();
            go_on.acquire().await.unwrap().forget();
            Ok::<_, Infallible>(Action::await_change())
        };
        let requests = Requests { objects, filled, tasks: TaskTracker::new() };
        let context = Arc::new((begun, go_on.clone()));
        let queue = tokio::spawn(drain(requests, store, context, 1, reconcile, |_, error, _| match *error {}));
        sender.send(ObjectRef::new("first")).unwrap();
        assert_eq!(told.recv().await.as_deref(), Some("first"));
        for name in ["second", "absent", "second"] {
            sender.send(ObjectRef::new(name)).unwrap();
        }
        let until = async |what: &[&str]| {
            let what = what.iter().map(|what| what.replace('}', "{kind=\"PlatformOperator\"} ")).collect::<Vec<_>>();
            while !what.iter().all(|what| shown().lines().any(|line| line == what)) {
                tokio::task::yield_now().await;
            }
        };
        // One at a time: that there is no such object is found out when its turn comes.
        let first = ["rukpak_queue_depth}2", "rukpak_reconciles_running}1"];
        tokio::time::timeout(PANIC_PAUSE, until(&first)).await.unwrap_or_else(|_| panic!("{}", shown()));
        go_on.add_permits(2);
        let last = ["rukpak_queue_depth}0", "rukpak_reconciles_running}0", "rukpak_reconcile_duration_seconds_count}2"];
        tokio::time::timeout(PANIC_PAUSE, until(&last)).await.unwrap_or_else(|_| panic!("{}", shown()));
        assert_eq!(told.recv().await.as_deref(), Some("second"));
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
        let action = guarded::<Infallible>("n".to_owned(), "Bundle", Span::none(), reconcile).await;
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
