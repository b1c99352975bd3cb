//! What the unpacker counts. Labels are enums, so the number of series is fixed. docs/metrics.md describes them.

use std::sync::LazyLock;
use std::time::Duration;

use prometheus_client::registry::Registry;
use rukpak_crds::condition::reason;
use rukpak_crds::validate::Source;
use rukpak_runtime::metrics::{Counters, Durations, Gauges, Outcome, durations};
use rukpak_sandbox::Findings;
use rukpak_trust::Verdict;

/// Types of sources, as the API calls them.
const SOURCES: [&str; 5] = ["image", "git", "http", "configMaps", "upload"];
/// How fetches end.
const FETCHED: [Outcome; 3] = [Outcome::Succeeded, Outcome::Waiting, Outcome::Failed];
/// What comes of a look at the policies, and at signatures where they ask for one.
const VERIFIED: [&str; 5] = ["verified", "not_required", "missing", "refused", "pending"];

/// Of the process: reconcilers run wherever they are called.
static COUNTED: LazyLock<Counted> = LazyLock::new(Counted::new);

struct Counted {
    fetches: Counters<2>,
    fetched_bytes: Counters<1>,
    fetch_durations: Durations,
    verifications: Counters<1>,
    /// Without a series until it is known.
    confinement: Gauges<1>,
}

impl Counted {
    /// Nothing has happened: what is known beforehand is shown as 0.
    fn new() -> Self {
        let counted = Self {
            fetches: Counters::default(),
            fetched_bytes: Counters::default(),
            fetch_durations: durations(),
            verifications: Counters::default(),
            confinement: Gauges::default(),
        };

        for source in SOURCES {
            drop(counted.fetched_bytes.get_or_create(&[("source", source)]));
            for outcome in FETCHED {
                drop(counted.fetches.get_or_create(&[("source", source), ("outcome", outcome.name())]));
            }
        }
        for outcome in VERIFIED {
            drop(counted.verifications.get_or_create(&[("outcome", outcome)]));
        }
        counted
    }
}

/// What a child process found out that it cannot do.
pub fn set_confinement(findings: Findings) {
    let Findings { files, memory, ports, programs } = findings;
    for (what, is_refused) in [("files", files), ("memory", memory), ("ports", ports), ("programs", programs)] {
        COUNTED.confinement.get_or_create(&[("from", what)]).set(is_refused.into());
    }
}

/// Counts one fetch of a type of [`source`](source_type): `bytes` are those of all files, unpacked, if it succeeded.
pub fn count_fetch(source: &'static str, outcome: Outcome, bytes: u64, took: Duration) {
    COUNTED.fetches.get_or_create(&[("source", source), ("outcome", outcome.name())]).inc();
    COUNTED.fetched_bytes.get_or_create(&[("source", source)]).inc_by(bytes);
    COUNTED.fetch_durations.get_or_create(&[("source", source)]).observe(took.as_secs_f64());
}

/// What the API calls a source of this type.
pub fn source_type(source: &Source) -> &'static str {
    match source {
        Source::Image { .. } => "image",
        Source::Git { .. } => "git",
        Source::Http { .. } => "http",
        Source::ConfigMaps(_) => "configMaps",
        Source::Upload => "upload",
    }
}

/// Counts what the policies, and the search for a signature, said of a source.
pub fn count_verification(verdict: &Verdict) {
    let outcome = match verdict.reason {
        reason::SIGNATURE_VERIFIED => "verified",
        reason::NOT_REQUIRED => "not_required",
        reason::SIGNATURE_MISSING => "missing",
        reason::REFUSED_BY_POLICY => "refused",
        _ => "pending",
    };
    COUNTED.verifications.get_or_create(&[("outcome", outcome)]).inc();
}

/// Adds what is counted here.
pub fn register(registry: &mut Registry) {
    let Counted { fetches, fetched_bytes, fetch_durations, verifications, confinement } = &*COUNTED;
    let help = "Attempts to fetch the content of a Bundle by how they ended";
    registry.register("rukpak_fetches", help, fetches.clone());
    let help = "Sizes of all files of what was fetched, unpacked";
    registry.register("rukpak_fetched_bytes", help, fetched_bytes.clone());
    let help = "How long attempts to fetch took, unpacking and storing included";
    registry.register("rukpak_fetch_duration_seconds", help, fetch_durations.clone());
    let help = "What the ContentPolicies, and the search for signatures, said of the sources of Bundles";
    registry.register("rukpak_verifications", help, verifications.clone());
    let help = "Whether this node's kernel keeps child processes from what they need not do";
    registry.register("rukpak_child_confined", help, confinement.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_fetch_is_shown() {
        // No other test counts these.
        count_fetch("http", Outcome::Succeeded, 5, Duration::from_millis(30));
        count_fetch("http", Outcome::Failed, 0, Duration::from_millis(30));
        let mut registry = Registry::default();
        register(&mut registry);
        let text = rukpak_runtime::metrics::text(&registry);
        for line in [
            "rukpak_fetches_total{source=\"http\",outcome=\"failed\"} 1\n",
            "rukpak_fetched_bytes_total{source=\"http\"} 5\n",
            "rukpak_fetch_duration_seconds_count{source=\"http\"} 2\n",
            "rukpak_fetch_duration_seconds_sum{source=\"http\"} 0.06\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
