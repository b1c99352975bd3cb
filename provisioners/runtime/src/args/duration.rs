//! Durations, as Go programs write them, and days.

use std::time::Duration;

use jiff::SignedDuration;

const DAY: Duration = Duration::from_hours(24);
/// Shorter lifetimes of a certificate leave no time to renew it.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(10);
/// A little more than ten years, leap days included.
const LONGEST_LIFETIME: Duration = Duration::from_hours(10 * 366 * 24);

/// Reads what Go's `time.ParseDuration` reads (`1m30s`, `500ms`, `0`), and days (`90d`).
///
/// # Errors
/// How to write one. Negative ones are none.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    sum(text)
        .or_else(|| part(text))
        .ok_or_else(|| format!("{text:?} is not a duration: write 30s, 1m30s, 500ms or 90d"))
}

/// How long a certificate lives.
///
/// # Errors
/// As [`duration`]; and less than 10 s cannot be renewed in time, more than ten years cannot be said.
pub fn certificate_lifetime(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        lifetime if (SHORTEST_LIFETIME..=LONGEST_LIFETIME).contains(&lifetime) => Ok(lifetime),
        _ => Err("a certificate lives from 10s to 10 years".to_owned()),
    }
}

/// Numbers with a unit each, in any order.
fn sum(text: &str) -> Option<Duration> {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let unit = rest.find(|letter| !is_number(letter)).filter(|unit| *unit > 0)?;
        let end = rest[unit..].find(is_number).map_or(rest.len(), |length| unit + length);
        let (this, after) = rest.split_at(end);
        let duration = match this.strip_suffix('d') {
            Some(days) => DAY.checked_mul(days.parse().ok()?)?,
            None => part(this)?,
        };
        sum = sum.checked_add(duration)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

/// A duration of hours and smaller units.
fn part(text: &str) -> Option<Duration> {
    let signed: SignedDuration = text.parse().ok()?;
    signed.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them_and_as_people_write_them() {
        for (text, milliseconds) in [
            ("0", 0),
            ("0s", 0),
            ("10s", 10_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("2160h", 7_776_000_000),
            ("90d", 7_776_000_000),
            ("1d12h500ms", 129_600_500),
            ("30m1d", 88_200_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        let huge = ["99999999999999999999d", "300000000000000000d", "4294967295d99999999999999999999h"];
        for text in ["", "5", "s", "d", "-1s", "1.5d", "1x", "1d5", "1dd", "90"].into_iter().chain(huge) {
            assert!(duration(text).unwrap_err().contains("write 30s"), "{text}");
        }
    }

    #[test]
    fn a_certificate_lives_long_enough_to_be_renewed() {
        for text in ["10s", "90d", "3650d", "87840h"] {
            assert!(certificate_lifetime(text).is_ok(), "{text}");
        }
        for text in ["9s", "0", "4000d"] {
            assert!(certificate_lifetime(text).is_err(), "{text}");
        }
    }
}
