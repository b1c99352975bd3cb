//! Charts, on a real API server and with the real Helm: what is installed is what `helm template` prints, once for a release.

pub mod case;
mod constructs;
mod every_bundle;
mod hooks;
mod hostile;
mod install;
mod own_chart;
mod published;
mod refusals;
mod rendering;
mod snippets;
mod sources;
mod takeover;
