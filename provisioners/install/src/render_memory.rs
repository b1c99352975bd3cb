//! Memory for rendered bundles. A small bundle is rendered whenever somebody asks; large ones, and those of which it is not known
//! yet, take turns, so that any number of deployments stays within the memory limit of the Pod.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rukpak_content::Digest;
use rukpak_plain::Object;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const MIB: u64 = 1024 * 1024;
/// What the worst content within the limits was seen to take until it is applied, in MiB.
const WORST_MIB: u32 = 1024;
/// For what is to be installed: two of the worst at once.
const INSTALLS_MIB: u32 = 2 * WORST_MIB;
/// For what it is compared with. A share of its own, because whoever waits for it holds one of the other.
const BASES_MIB: u32 = WORST_MIB;
/// Less than this is not counted: as many as there are workers fit beside everything else.
const LIGHT_BYTES: u64 = 16 * MIB;
/// Of one key or value in memory, beside its text, in an object and in the two bodies made of it.
const NODE_BYTES: u64 = 300;
/// Text is in memory so many times.
const COPIES: u64 = 3;
/// So many contents are remembered as light; after that it is found out again.
const REMEMBERED: usize = 10_000;

/// Hands out memory.
pub struct RenderMemory {
    installs: Arc<Semaphore>,
    bases: Arc<Semaphore>,
    light: Mutex<HashSet<Digest>>,
}

/// What a release is rendered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To apply it.
    Install,
    /// To know what else was applied. Whoever asks holds a [`Reservation`] for [`Purpose::Install`] already.
    Basis,
}

/// Memory for one rendered release, until it is dropped.
#[derive(Debug, Default)]
pub struct Reservation(Option<OwnedSemaphorePermit>);

impl Default for RenderMemory {
    fn default() -> Self {
        Self {
            installs: Arc::new(Semaphore::new(INSTALLS_MIB as usize)),
            bases: Arc::new(Semaphore::new(BASES_MIB as usize)),
            light: Mutex::default(),
        }
    }
}

impl RenderMemory {
    /// Waits until the content may be rendered.
    pub async fn reserve(&self, content: &Digest, purpose: Purpose) -> Reservation {
        if self.light.lock().unwrap_or_else(PoisonError::into_inner).contains(content) {
            return Reservation::default();
        }
        let share = match purpose {
            Purpose::Install => &self.installs,
            Purpose::Basis => &self.bases,
        };
        // The semaphores are never closed.
        Reservation(Arc::clone(share).acquire_many_owned(WORST_MIB).await.ok())
    }

    /// Gives back what the rendered objects do not need.
    pub fn settle(&self, content: &Digest, objects: &[Object], reservation: Reservation) -> Reservation {
        let bytes: u64 = objects.iter().map(|object| map_bytes(object.as_map())).sum();
        if bytes <= LIGHT_BYTES {
            let mut light = self.light.lock().unwrap_or_else(PoisonError::into_inner);
            if light.len() >= REMEMBERED {
                light.clear();
            }
            light.insert(content.clone());
            return Reservation::default();
        }
        let needed = usize::try_from(bytes.div_ceil(MIB)).unwrap_or(usize::MAX);
        let Some(mut permit) = reservation.0 else { return reservation };
        let spare = permit.num_permits().saturating_sub(needed);
        drop(permit.split(spare));
        Reservation(Some(permit))
    }
}

fn map_bytes(map: &Map<String, Value>) -> u64 {
    map.iter().map(|(key, value)| NODE_BYTES + key.len() as u64 * COPIES + bytes(value)).sum()
}

/// About what a value takes.
fn bytes(value: &Value) -> u64 {
    match value {
        Value::Object(map) => NODE_BYTES + map_bytes(map),
        Value::Array(items) => NODE_BYTES + items.iter().map(bytes).sum::<u64>(),
        Value::String(text) => NODE_BYTES + text.len() as u64 * COPIES,
        Value::Null | Value::Bool(_) | Value::Number(_) => NODE_BYTES,
    }
}

#[cfg(test)]
mod tests;
