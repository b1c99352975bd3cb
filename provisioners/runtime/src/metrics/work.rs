//! What a queue has before it, and what it is at.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kube::api::DynamicObject;
use kube::runtime::reflector::ObjectRef;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::COUNTED;

/// The objects of a kind that a reconcile was asked for, and has not begun for: each once, however often it was asked.
pub(crate) struct Waiting {
    objects: Mutex<HashSet<ObjectRef<DynamicObject>>>,
    depth: Gauge,
}

impl Waiting {
    /// None yet.
    pub(crate) fn of(kind: &'static str) -> Self {
        let depth = COUNTED.waiting.get_or_create_owned(&[("kind", kind)]);
        Self { objects: Mutex::default(), depth }
    }

    /// A reconcile was asked for.
    pub(crate) fn add(&self, object: ObjectRef<DynamicObject>) {
        self.change(|objects| objects.insert(object));
    }

    /// It begins, or the object is gone.
    pub(crate) fn remove(&self, object: &ObjectRef<DynamicObject>) {
        self.change(|objects| objects.remove(object));
    }

    fn change(&self, change: impl FnOnce(&mut HashSet<ObjectRef<DynamicObject>>) -> bool) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut objects);
        self.depth.set(i64::try_from(objects.len()).unwrap_or(i64::MAX));
    }
}

/// A reconcile: dropped, it has ended, and its time is counted.
pub(crate) struct Running {
    begun: Instant,
    gauge: Gauge,
    duration: Histogram,
}

impl Running {
    /// It begins now.
    pub(crate) fn begin(kind: &'static str) -> Self {
        let labels = [("kind", kind)];
        let running = COUNTED.running.get_or_create_owned(&labels);
        running.inc();
        Self { begun: Instant::now(), gauge: running, duration: COUNTED.durations.get_or_create_owned(&labels) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.gauge.dec();
        self.duration.observe(self.begun.elapsed().as_secs_f64());
    }
}
