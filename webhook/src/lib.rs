//! The admission webhook of rukpak: a Bundle's spec never changes, and its source is whole.
//!
//! [`router::router`] answers the API server; [`rules`] decide and do no I/O; [`certificates`] keeps the serving
//! certificate current; [`run::run`] puts them together.

pub mod address;
pub mod certificates;
pub mod health;
pub mod metrics;
pub mod options;
pub mod review;
pub mod router;
pub mod rules;
pub mod run;
pub mod serve;
pub mod tls;

/// Where the API server posts Bundles.
pub const BUNDLE_PATH: &str = "/validate-core-rukpak-io-v1alpha1-bundle";
/// The Service in front of the webhook.
pub const SERVICE: &str = "rukpak-webhook-service";
/// The object that tells the API server about the webhook.
pub const CONFIGURATION: &str = "rukpak-validating-webhook-configuration";
/// The entries of [`CONFIGURATION`] that lead here.
pub const WEBHOOKS: [&str; 1] = ["vbundles.core.rukpak.io"];

/// An error with its causes, once each. What the API server said stands for itself: the client's errors repeat it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        if let Some(kube::Error::Api(status)) = error.downcast_ref::<Box<kube::Error>>().map(Box::as_ref) {
            text.push_str(&status.message);
            break;
        }
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
