//! Whose chart is rendered next: that of whoever has waited longest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// A permit is waited for so long: most charts take less than a tenth of a second. Whoever waits for one that does not end would keep
/// a worker from everybody else.
const PATIENCE: Duration = Duration::from_secs(2);
/// A permit is held so long for whoever was enqueued for it, and may be gone.
const HELD_FOR: Duration = Duration::from_secs(10);

/// Permits, and who waits for one.
pub struct Line {
    permits: Arc<Semaphore>,
    /// By whose place it is. A place has a permit as soon as it is the first.
    places: Arc<Mutex<HashMap<String, Place>>>,
}

type Place = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

impl Line {
    /// Nobody waits, and this many permits are there.
    pub fn new(permits: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), places: Arc::default() }
    }

    /// A permit for `who`, if there is one within a moment. Otherwise `who` has a place in the line, and `enqueue` is called when it is
    /// the first: ask again then.
    pub async fn permit(&self, who: &str, enqueue: impl FnOnce() + Send + 'static) -> Option<OwnedSemaphorePermit> {
        if let Some(place) = self.place(who) {
            let permit = lock(&place).take()?;
            self.leave(who, &place);
            return Some(permit);
        }

        let mut permit = Box::pin(Arc::clone(&self.permits).acquire_owned());
        if let Ok(permit) = timeout(PATIENCE, &mut permit).await {
            // Never closed.
            return permit.ok();
        }

        let place = Place::default();
        lock(&self.places).insert(who.to_owned(), Arc::clone(&place));
        let line = Self { permits: Arc::clone(&self.permits), places: Arc::clone(&self.places) };
        let who = who.to_owned();

        tokio::spawn(async move {
            *lock(&place) = permit.await.ok();
            enqueue();
            sleep(HELD_FOR).await;
            line.leave(&who, &place);
        });
        None
    }

    fn place(&self, who: &str) -> Option<Place> {
        lock(&self.places).get(who).cloned()
    }

    /// Gives up the place, with the permit if it is still there.
    fn leave(&self, who: &str, place: &Place) {
        let mut places = lock(&self.places);
        if places.get(who).is_some_and(|present| Arc::ptr_eq(present, place)) {
            places.remove(who);
        }
        drop(lock(place).take());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn permits_are_given_in_the_order_in_which_they_were_asked_for() {
        let line = Line::new(1);
        let (enqueued, mut queue) = unbounded_channel();
        let ask = |who: &'static str| {
            let enqueued = enqueued.clone();
            line.permit(who, move || enqueued.send(who).expect("it is read"))
        };
        let first = ask("a").await.expect("nobody is before it");
        assert!(ask("b").await.is_none());
        assert!(ask("c").await.is_none());
        assert!(ask("b").await.is_none(), "it has a place");
        assert!(queue.try_recv().is_err());

        drop(first);
        assert_eq!(queue.recv().await, Some("b"));
        assert!(ask("d").await.is_none(), "the permit is held for b");
        let second = ask("b").await.expect("it is the first");
        assert!(ask("b").await.is_none(), "it stands at the end again");
        drop(second);
        assert_eq!(queue.recv().await, Some("c"));

        // It does not come.
        assert_eq!(queue.recv().await, Some("d"));
        assert!(ask("d").await.is_some());
        assert_eq!(queue.recv().await, Some("b"));
    }
}
