//! What a replica that only stands by stores: the content that the leader's statuses name, so that it serves the same, and is not
//! empty when it leads. Writes nothing to the cluster.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use rukpak_catalog::origin::Revision;
use rukpak_crds::olm::ClusterCatalog;
use rukpak_runtime::error::Chain;
use rukpak_runtime::watch::Change;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::images::Images;
use super::logins::CatalogLogins;
use super::store::CatalogStore;
use crate::follow::Optional;

/// Until content that could not be had is asked for again.
const PAUSE: Duration = Duration::from_secs(10);

/// Where content comes from and goes to.
pub(crate) struct Mirror {
    pub content: Arc<CatalogStore>,
    pub images: Arc<dyn Images>,
    pub logins: CatalogLogins,
}

impl Mirror {
    /// Follows the statuses of ClusterCatalogs until `until`: then this process leads, or ends.
    pub async fn keep(self, catalogs: Optional<ClusterCatalog>, until: CancellationToken) {
        let (sender, mut names) = unbounded_channel();
        let (store, again) = (catalogs.store.clone(), sender.clone());
        let all = {
            let (store, content) = (store.clone(), self.content.clone());
            move || store.state().iter().map(|catalog| catalog.name_any()).chain(content.names()).collect::<Vec<_>>()
        };
        let follow = catalogs.follow(CancellationToken::new(), move |change| {
            let names = match change {
                Change::Present(catalog) | Change::Gone(catalog) => vec![catalog.name_any()],
                Change::Listed { .. } => all(),
            };
            for name in names {
                // The receiver lives as long as this.
                let _ = sender.send(name);
            }
        });
        let work = async {
            while let Some(name) = names.recv().await {
                let catalog = store.get(&ObjectRef::new(&name));
                Box::pin(self.take(&name, catalog.as_deref(), &again)).await;
            }
        };
        tokio::select! {
            () = until.cancelled() => {}
            () = follow => {}
            () = work => {}
        }
    }

    /// Makes the content that the status of `catalog` names what is stored.
    async fn take(&self, name: &str, catalog: Option<&ClusterCatalog>, again: &UnboundedSender<String>) {
        let found = catalog.and_then(|catalog| Some((catalog, catalog.status.as_ref()?.resolved_source.as_ref()?)));
        let Some((catalog, resolved)) = found else {
            if let Err(error) = self.content.remove(name).await {
                tracing::warn!(catalog = name, %error, "stored content cannot be removed");
            }
            return;
        };
        let reference = &resolved.image.reference;
        let digest = reference.rsplit_once('@').map(|(_, digest)| digest);
        if self.content.get(name).is_some_and(|stored| Some(stored.digest.as_str()) == digest) {
            return;
        }
        if let Err(error) = self.fetch(name, catalog, reference).await {
            tracing::warn!(catalog = name, error, retry_after = ?PAUSE, "content that the leader serves cannot be had");
            let (again, name) = (again.clone(), name.to_owned());
            tokio::spawn(async move {
                tokio::time::sleep(PAUSE).await;
                let _ = again.send(name);
            });
        }
    }

    async fn fetch(&self, name: &str, of: &ClusterCatalog, reference: &str) -> Result<(), String> {
        let credentials = self.logins.of(of).await?;
        let stage = self.content.stage().map_err(|error| Chain(&error).to_string())?;
        let taken = self.images.unpack(reference, None, &credentials, stage.path().to_owned()).await;
        let Some((catalog, Revision(digest))) = taken.map_err(|error| Chain(&error).to_string())? else {
            return Ok(());
        };
        let put = self.content.put(name, &digest, stage, catalog).await;
        put.map_err(|error| Chain(&error).to_string())?;
        tracing::info!(catalog = name, digest, "ClusterCatalog copied from the leader");
        Ok(())
    }
}
