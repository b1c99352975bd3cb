//! Whether OLM itself runs: then its kinds are its own. API server.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use rukpak_runtime::error::Chain;

use crate::args::Olmv0;

/// The programs of OLM, which its manifests label so, upstream's and OpenShift's.
const PROGRAMS: [&str; 2] = ["olm-operator", "catalog-operator"];
/// How long until it is looked again.
const PAUSE: Duration = Duration::from_secs(15);

/// Returns once the kinds may be followed: no program of OLM runs, or somebody said that it does not matter.
pub(super) async fn open(client: &Client, mode: Olmv0) {
    if mode == Olmv0::TakeOver {
        return;
    }
    let mut told = None;
    loop {
        let found = match running(client).await {
            Ok(None) => return,
            Ok(Some(running)) => format!(
                "OLM runs ({running}): Subscriptions are left to it; scale its Deployments to 0, or start with --olmv0=take-over"
            ),
            Err(error) => format!("cannot find out whether OLM runs: {}", Chain(&error)),
        };
        if told.as_ref() != Some(&found) {
            tracing::warn!("{found}");
            told = Some(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The first of them that runs.
async fn running(client: &Client) -> Result<Option<String>, kube::Error> {
    let api: Api<Deployment> = Api::all(client.clone());
    for program in PROGRAMS {
        let found = api.list(&ListParams::default().fields(&format!("metadata.name={program}"))).await?;
        if let Some(found) = found.iter().find(|found| runs(found)) {
            let namespace = found.namespace().unwrap_or_default();
            return Ok(Some(format!("Deployment {program} in namespace {namespace}")));
        }
    }
    Ok(None)
}

fn runs(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas;
    let there = deployment.status.as_ref().and_then(|status| status.replicas);
    wanted != Some(0) || there.unwrap_or(0) > 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_scaled_to_nothing_does_not_run() {
        let deployment = |replicas: i64, there: i64| -> Deployment {
            let spec = json!({"replicas": replicas, "selector": {}, "template": {}});
            serde_json::from_value(json!({"metadata": {"name": "olm-operator"}, "spec": spec,
                "status": {"replicas": there}}))
            .unwrap()
        };
        assert!(runs(&deployment(1, 0)) && runs(&deployment(0, 1)));
        assert!(!runs(&deployment(0, 0)));
    }
}
