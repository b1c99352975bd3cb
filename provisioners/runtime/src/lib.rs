//! What every server program has around its work, so that there is one of each.
//!
//! ```text
//! args       addresses, durations, logging, --kubeconfig, TLS, leader election: the flags that all have, and their grammar
//! process    signals, logging, tasks that must go on, leader election, the end
//! queue      from requests for a reconcile to reconciles
//! server     HTTP listeners with bounds    serving    HTTPS, and the certificate for it      certificates    made and renewed, without I/O
//! reply      a file as an answer, whole or in part      access     who calls, and whether they may
//! probes     /healthz, /readyz          metrics    /metrics
//! api        why a request failed, how long an answer is waited for
//! served     kinds that a cluster may or may not have
//! watch      all objects of a kind      status     its status, one merge patch      events     what kubectl describe shows
//! traces     a span for each reconcile, and how they get to a collector
//! finalizers those of upstream, which are taken off
//! failures   how often in a row         error      an error with its causes, in one line      lock    a mutex, for a short look
//! clock      what time it is
//! ```
//!
//! Nothing here knows what a bundle is.

pub mod access;
pub mod api;
pub mod args;
pub mod certificates;
pub mod clock;
pub mod error;
pub mod events;
pub mod failures;
pub mod finalizers;
pub mod lock;
pub mod metrics;
pub mod probes;
pub mod process;
pub mod queue;
pub mod reply;
pub mod served;
pub mod server;
pub mod serving;
pub mod status;
pub mod traces;
pub mod watch;

/// The C library's allocator keeps what a large bundle took: after one of 20,000 objects the controller held 223 MiB with it, and holds
/// 56 MiB with this one (docs/scaling.md). Its options are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
