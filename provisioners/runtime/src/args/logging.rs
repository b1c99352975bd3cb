//! Flags of logging: ours, and those of upstream's logger.

use std::io::{IsTerminal, stderr};

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// What is logged, and how.
#[derive(Clone, Debug)]
pub struct Logging {
    /// How log lines are written.
    pub format: LogFormat,
    /// Which log lines are written, as [`EnvFilter`] reads it.
    pub filter: String,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// [`Logging`] as flags.
#[derive(Args, Clone, Debug)]
pub struct LoggingArgs {
    /// Form of log lines [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Least level of log lines (error, warn, info, debug, trace), or directives such as info,rukpak_runtime=debug
    #[arg(long, alias = "zap-log-level", value_name = "LEVEL", env = "RUST_LOG", default_value = "info", value_parser = level)]
    log_level: String,
    /// Accepted and unused: flags of upstream's logger
    #[arg(long = "zap-devel", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    _zap_devel: Option<bool>,
    #[arg(long = "zap-encoder", hide = true)]
    _zap_encoder: Option<String>,
    #[arg(long = "zap-stacktrace-level", hide = true)]
    _zap_stacktrace_level: Option<String>,
    #[arg(long = "zap-time-encoding", hide = true)]
    _zap_time_encoding: Option<String>,
}

impl From<LoggingArgs> for Logging {
    fn from(args: LoggingArgs) -> Self {
        Self { format: args.log_format.unwrap_or_else(LogFormat::for_stderr), filter: args.log_level }
    }
}

impl LogFormat {
    /// Text for people who look on, JSON for machines.
    fn for_stderr() -> Self {
        if stderr().is_terminal() { Self::Text } else { Self::Json }
    }
}

/// Upstream's logger also takes a number: the higher, the more is said.
fn level(text: &str) -> Result<String, String> {
    /// The client logs each answer of a failed request as an error, without what was asked: for us a refused dry run is an
    /// answer. What is wrong is logged by us, once.
    const NOISE: &str = "kube_client::client::builder=off";
    let text = match text.parse::<u32>() {
        Ok(0) => "info",
        Ok(_) => "debug",
        Err(_) => text,
    };
    let wrong =
        |error| format!("{error}; write error, warn, info, debug, trace, or directives such as info,kube=debug");
    EnvFilter::try_new(text).map_err(wrong)?;
    let is_quiet = ["error", "warn", "info"].iter().any(|level| text.eq_ignore_ascii_case(level));
    Ok(if is_quiet { format!("{text},{NOISE}") } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_upstream_and_directives() {
        for (written, filter) in [
            ("0", "info,kube_client::client::builder=off"),
            ("Warn", "Warn,kube_client::client::builder=off"),
            ("5", "debug"),
            ("trace", "trace"),
            ("info,kube=debug", "info,kube=debug"),
        ] {
            assert_eq!(level(written).as_deref(), Ok(filter));
        }
        assert!(level("kube=loud").unwrap_err().contains("write error, warn"));
    }
}
