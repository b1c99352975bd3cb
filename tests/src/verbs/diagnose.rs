//! What a person wants to see when a wait was in vain.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::Target;
use crate::openshift;

/// Logs of the running programs under test.
static LOGS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Lines shown of each.
const LOG_LINES: usize = 40;

/// Adds a log to what [`diagnose`] shows.
pub(crate) fn show_log(path: &Path) {
    if let Ok(mut logs) = LOGS.lock() {
        logs.push(path.to_owned());
    }
}

/// Takes a log out again.
pub(crate) fn hide_log(path: &Path) {
    if let Ok(mut logs) = LOGS.lock() {
        logs.retain(|log| log != path);
    }
}

/// Everything that goes by these names where a package or a bundle is installed: the PlatformOperator, the BundleDeployment, its
/// Bundles; and the ClusterOperator. Never fails: a part that cannot be had, as in a cluster that is no OpenShift, says why.
pub async fn story(client: &Client, names: &[&str]) -> String {
    let mut targets = vec![openshift::cluster_operator()];
    for name in names {
        targets.extend([openshift::platform_operator(name), Target::bundle_deployment(name)]);
        let labels = format!("core.rukpak.io/owner-name={name}");
        let bundles = super::list(client, "core.rukpak.io/v1alpha1", "Bundle", &labels).await;
        targets.extend(bundles.unwrap_or_default().iter().map(|bundle| Target::bundle(&bundle.name_any())));
    }
    let mut text = String::new();
    for target in targets {
        let (object, events) = (shown(client, &target).await, events(client, &target).await);
        let _ = writeln!(text, "--- {target}\n{object}\n--- its events\n{events}"); // writing to a String cannot fail
    }
    text
}

/// The object, its events, and the ends of the logs. Never fails: a part that cannot be had says why.
pub async fn diagnose(client: &Client, target: &Target) -> String {
    let mut text = format!("--- object\n{}\n--- events\n", shown(client, target).await);
    text.push_str(&events(client, target).await);
    let logs = LOGS.lock().map(|logs| logs.clone()).unwrap_or_default();
    for log in logs {
        let _ = writeln!(text, "--- end of {}\n{}", log.display(), crate::tools::tail(&log, LOG_LINES));
    }
    text
}

/// The object without its managed fields.
async fn shown(client: &Client, target: &Target) -> String {
    match super::get(client, target).await {
        Ok(Some(mut object)) => {
            object.metadata.managed_fields = None;
            let json = serde_json::to_string_pretty(&object);
            json.unwrap_or_else(|error| format!("(cannot be shown: {error})"))
        }
        Ok(None) => "(does not exist)".to_owned(),
        Err(error) => format!("(cannot be read: {error:#})"),
    }
}

async fn events(client: &Client, target: &Target) -> String {
    let api: Api<Event> = Api::namespaced(client.clone(), target.namespace.as_deref().unwrap_or("default"));
    let parameters = ListParams::default().fields(&format!("involvedObject.name={}", target.name));
    match api.list(&parameters).await {
        Ok(events) if events.items.is_empty() => "(none)\n".to_owned(),
        Ok(events) => events.items.into_iter().fold(String::new(), |mut text, event| {
            let (kind, reason, message) =
                (event.type_.unwrap_or_default(), event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            let _ = writeln!(text, "{kind} {reason}: {message}");
            text
        }),
        Err(error) => format!("(cannot be read: {error})\n"),
    }
}
