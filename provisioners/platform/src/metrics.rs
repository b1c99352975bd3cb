//! What this program counts.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rukpak_runtime::metrics::reconcile_panics;

/// How many there are of each of two states; `u64::MAX` where nobody counts them.
type Gauge = [AtomicU64; 2];

static PLATFORM_OPERATORS: Gauge = [const { AtomicU64::new(u64::MAX) }; 2];
static CATALOGS: Gauge = [const { AtomicU64::new(u64::MAX) }; 2];

/// How many PlatformOperators there are.
pub(crate) fn set_platform_operators(installed: usize, failing: usize) {
    set(&PLATFORM_OPERATORS, [installed, failing]);
}

/// How many catalogs could be loaded when they were last looked at, and how many could not.
pub(crate) fn set_catalogs(loaded: usize, failing: usize) {
    set(&CATALOGS, [loaded, failing]);
}

fn set(gauge: &Gauge, counts: [usize; 2]) {
    for (gauge, count) in gauge.iter().zip(counts) {
        gauge.store(count as u64, Ordering::Relaxed);
    }
}

/// Adds everything counted so far, in Prometheus' text form.
pub(crate) fn render(text: &mut String) {
    reconcile_panics(text);
    let help = "PlatformOperators, by whether their packages are installed.";
    show(text, ("rukpak_platform_operators", help), ["installed", "failing"], &PLATFORM_OPERATORS);
    let help = "Catalogs that were asked for, by whether they could be loaded when they were last looked at.";
    show(text, ("rukpak_platform_catalogs", help), ["loaded", "failing"], &CATALOGS);
}

fn show(text: &mut String, (name, help): (&str, &str), states: [&str; 2], gauge: &Gauge) {
    let counts = gauge.each_ref().map(|count| count.load(Ordering::Relaxed));
    if counts.contains(&u64::MAX) {
        return;
    }
    // Writing to a String does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (state, count) in states.into_iter().zip(counts) {
        let _ = writeln!(text, "{name}{{state=\"{state}\"}} {count}");
    }
}
