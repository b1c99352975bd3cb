//! When an upgrade may begin: the windows of a BundleDeployment.

use std::time::Duration;

use cronexpr::{MakeTimestamp, parse_crontab};
use jiff::Timestamp;
use rukpak_crds::UpgradeWindow;

use crate::memory::{Problem, Stage};
use crate::observed::{Observed, duration};
use crate::release::Release;
use crate::resolve::Why;
use crate::retry::Class;

/// What keeps an upgrade to `release` from beginning now: no window is open for as long as it may take. What has begun goes on.
pub fn problem(observed: &Observed, release: &Release, why: Why, now: Timestamp) -> Option<Problem> {
    let is_begun = observed.pending().is_some_and(|(pending, _)| pending == *release);
    if why != Why::Upgrade || is_begun {
        return None;
    }

    let needed = observed.progress_deadline().unwrap_or_default();
    let (opens, message) = match opens(&observed.deployment.spec.windows, needed, now)? {
        Ok(opens) if opens <= now => return None,
        Ok(opens) => (Some(opens), format!("an upgrade waits for a window of spec.windows: the next opens at {opens}")),
        Err(message) => (None, format!("no upgrade can begin: {message}")),
    };
    Some(Problem { stage: Stage::Closed(opens), message, class: Class::Blocked, is_definite: false, can_go_back: true })
}

/// When the first window opens in which there is time for `needed`; not after `now` if one is open. `None` without windows.
fn opens(windows: &[UpgradeWindow], needed: Duration, now: Timestamp) -> Option<Result<Timestamp, String>> {
    let opens = windows
        .iter()
        .enumerate()
        .map(|(index, window)| next(window, needed, now).map_err(|problem| format!("spec.windows[{index}].{problem}")));
    // One that cannot be read holds up all: what it was to allow or to keep from happening is not known.
    let all: Result<Vec<Timestamp>, String> = opens.collect();
    all.map(|all| all.into_iter().min()).transpose()
}

/// The first opening that leaves time enough: one in the past may.
fn next(window: &UpgradeWindow, needed: Duration, now: Timestamp) -> Result<Timestamp, String> {
    let zone = window.time_zone.as_deref().unwrap_or("UTC");
    let schedule = parse_crontab(&format!("{} {zone}", window.schedule)).map_err(|error| {
        let words: Vec<String> = error.to_string().split_whitespace().map(str::to_owned).collect();
        format!("schedule: {:?} in time zone {zone}: {}", window.schedule, words.join(" "))
    })?;
    let open = duration(&window.duration).ok_or_else(|| format!("duration: {:?} is none", window.duration))?;
    let slack = open.checked_sub(needed).filter(|slack| !slack.is_zero()).ok_or_else(|| {
        format!("duration: {} is not longer than spec.progressDeadline, which an upgrade may take", window.duration)
    })?;

    // Times of a schedule are whole minutes.
    let since = now.checked_sub(slack).map_err(|_| format!("duration: {} is too long", window.duration))?;
    let found = schedule.find_next(MakeTimestamp(since)).map_err(|_| "schedule: it never comes".to_owned())?;
    Ok(found.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(schedule: &str, duration: &str, zone: Option<&str>) -> UpgradeWindow {
        let [schedule, duration] = [schedule, duration].map(str::to_owned);
        UpgradeWindow { schedule, duration, time_zone: zone.map(str::to_owned) }
    }

    /// When there is time for 30 minutes, seen at a time; `open` if it is now.
    fn at(now: &str, windows: &[UpgradeWindow]) -> String {
        let now: Timestamp = now.parse().unwrap();
        match opens(windows, Duration::from_mins(30), now).expect("there are windows") {
            Ok(opens) if opens <= now => "open".to_owned(),
            Ok(opens) => opens.to_string(),
            Err(message) => message,
        }
    }

    #[test]
    fn a_window_is_open_from_its_time_until_the_deadline_would_pass_its_end() {
        // 2026-01-03 is a Saturday.
        let nights = [window("0 22 * * 6", "4h", None)];
        for (now, expected) in [
            ("2026-01-03T21:59:59Z", "2026-01-03T22:00:00Z"),
            ("2026-01-03T22:00:00Z", "open"),
            ("2026-01-04T01:29:59Z", "open"),
            ("2026-01-04T01:31:00Z", "2026-01-10T22:00:00Z"),
        ] {
            assert_eq!(at(now, &nights), expected, "{now}");
        }
    }

    #[test]
    fn the_first_of_several_counts_and_each_has_its_zone() {
        let windows = [window("0 22 * * 6", "4h", None), window("30 2 * * *", "1h", Some("Europe/Prague"))];
        assert_eq!(at("2026-01-03T12:00:00Z", &windows), "2026-01-03T22:00:00Z");
        assert_eq!(at("2026-01-04T12:00:00Z", &windows), "2026-01-05T01:30:00Z");
        assert_eq!(at("2026-07-05T00:30:00Z", &windows[1..]), "open", "in summer it is two hours ahead");
        // Windows that follow each other closely.
        assert_eq!(at("2026-01-03T12:47:00Z", &[window("*/15 * * * *", "45m", None)]), "open");
    }

    #[test]
    fn what_can_never_be_is_said_with_its_place() {
        let now = "2026-01-03T12:00:00Z";
        let daily = || window("0 2 * * *", "4h", None);
        let short = at(now, &[daily(), window("0 2 * * *", "30m", None)]);
        assert!(short.starts_with("spec.windows[1].duration: 30m is not longer than spec.progressDeadline"), "{short}");
        assert_eq!(at(now, &[window("0 2 30 2 *", "4h", None)]), "spec.windows[0].schedule: it never comes");
        for (schedule, zone) in [("0 25 * * *", None), ("0 2 * * *", Some("Mars/Base")), ("0 2 * * * UTC", None)] {
            let message = at(now, &[window(schedule, "4h", zone)]);
            assert!(message.starts_with("spec.windows[0].schedule: ") && !message.contains('\n'), "{message}");
        }
        assert!(at(now, &[window("0 2 * * *", "99999999999999999999h", None)]).contains("too long"));
    }
}
