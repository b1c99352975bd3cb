//! Flags of verbs that can wait for the cluster.

use std::time::Duration;

use clap::{ArgAction, Args};
use jiff::SignedDuration;

/// Whether the outcome is waited for, and for how long.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Waiting")]
pub struct WaitArgs {
    /// Wait for the outcome; --wait=false ends as soon as the API server has accepted the change
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set
    )]
    pub wait: bool,
    /// How long to wait: 90s, 5m, 1h30m, or a number of seconds
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

/// A duration as kubectl takes it; a bare number counts seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed: SignedDuration = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from(parsed).map_err(|_| "a duration is not negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_kubectl_or_seconds() {
        for (text, seconds) in [("0", 0), ("60", 60), ("90s", 90), ("5m", 300), ("1h30m", 5400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "-1", "-5m", "soon", "5 apples"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}
