//! Lookups in catalogs that are under way: one for each object, however often it is reconciled meanwhile.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use rukpak_runtime::lock::lock;

/// By who asks, and what about. A question goes on by itself: who stops waiting for it, and asks the same again, waits for
/// the same answer, instead of asking once more.
pub(crate) struct SingleFlight<Q, A>(Mutex<HashMap<String, (Q, Pending<A>)>>);

/// An answer to come.
type Pending<A> = Shared<BoxFuture<'static, Option<A>>>;

impl<Q: Eq + Hash + Clone, A: Clone + Send + Sync + 'static> SingleFlight<Q, A> {
    /// The answer to `question`. `None` if the process ends.
    pub async fn ask(&self, who: &str, question: &Q, ask: BoxFuture<'static, A>) -> Option<A> {
        let answer = {
            let mut all = lock(&self.0);
            match all.get(who) {
                Some((asked, answer)) if asked == question => answer.clone(),
                _ => {
                    let task = tokio::spawn(ask);
                    let answer = async move { answered(task.await) }.boxed().shared();
                    all.insert(who.to_owned(), (question.clone(), answer.clone()));
                    answer
                }
            }
        };
        let answer = answer.await;
        // It is about what was there when it was asked.
        self.forget(who);
        answer
    }

    /// Whoever it was is gone, or has the answer.
    pub fn forget(&self, who: &str) {
        lock(&self.0).remove(who);
    }
}

impl<Q, A> Default for SingleFlight<Q, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

fn answered<A>(joined: Result<A, tokio::task::JoinError>) -> Option<A> {
    match joined.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(answer) => Some(answer),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The process ends.
        Err(Err(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn who_stops_waiting_and_asks_again_waits_for_the_same_answer() {
        let (questions, asked) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let catalog = Arc::new(Notify::new());
        let ask = |question: u8| {
            let (asked, catalog) = (asked.clone(), catalog.clone());
            let answer = async move {
                asked.fetch_add(1, Ordering::Relaxed);
                catalog.notified().await;
                question
            };
            let questions = &questions;
            async move { questions.ask("a", &question, answer.boxed()).await }.boxed()
        };
        for _ in 0..3 {
            let mut first = ask(1);
            assert!(futures::poll!(&mut first).is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        catalog.notify_one();
        assert_eq!(ask(1).await, Some(1));
        // Another question, and one that was answered, are asked.
        for question in [1, 2] {
            catalog.notify_one();
            assert_eq!(ask(question).await, Some(question));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }
}
