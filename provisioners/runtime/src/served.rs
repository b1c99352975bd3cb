//! Kinds that a cluster may or may not have.

use std::future::Future;
use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client};

/// Does `work`, which never ends by itself, while the cluster has the definition of this name, and `absent` each time it is
/// found not to have it, and `trouble` each time that cannot be found out; endlessly. A watch of that one object, no polling.
pub async fn while_defined<F: Future<Output = ()>>(
    client: Client,
    definition: &str,
    mut work: impl FnMut() -> F,
    absent: impl Fn(),
    trouble: impl Fn(&watcher::Error),
) {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let mut changes = pin!(watch_object(api, definition).default_backoff());
    let mut is_defined = false;
    loop {
        let change = if is_defined {
            let mut work = pin!(work());
            // The work begins once, however often the CRD changes meanwhile.
            loop {
                tokio::select! {
                    () = &mut work => break None,
                    change = changes.next() => match change {
                        Some(Ok(None)) | None => break change,
                        Some(Ok(Some(_))) => {}
                        Some(Err(error)) => trouble(&error),
                    },
                }
            }
        } else {
            changes.next().await
        };
        match change {
            Some(Ok(Some(_))) => is_defined = true,
            Some(Ok(None)) => {
                is_defined = false;
                absent();
            }
            Some(Err(error)) => trouble(&error),
            None => {
                tracing::error!(definition, "watch over a CRD ended");
                return;
            }
        }
    }
}
