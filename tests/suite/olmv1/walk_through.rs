//! The walk-through of docs/olmv1.md, and what docs/rukpakctl.md says of ClusterExtensions, typed with the real programs.

use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::{CatalogImage, fixtures};

use super::world::World;
use crate::tutorial::session::Session;

/// What docs/rukpakctl.md takes for granted: an extension that asks for less than the newest version.
const EXTENSION: &str = "kubectl create namespace pumps && kubectl apply -f - <<EOF
apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata: {name: pumps}
spec: {source: {type: Image, image: {ref: registry.example.com/catalogs/pumps:v1}}}
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {name: pump-operator}
spec: {namespace: pumps, source: {sourceType: Catalog, catalog: {packageName: pump-operator, version: 1.0.x}}}
EOF
kubectl wait --for=condition=Available clusterextension/pump-operator";

#[tokio::test]
async fn the_walk_through_is_true() {
    // Nobody else's catalogs are asked.
    let world = World::new().await;
    let published = fixtures::publish_pump(&world.registry, &["1.0.0", "1.1.0"]).await;
    let (documents, images) = published.unwrap_or_else(|error| panic!("{error:#}"));
    let image = CatalogImage::of(documents).expect("an image");
    image.push(&world.registry, "catalogs/pumps", "v1").await.expect("the registry takes it");
    let registry = images[0].split('/').next().expect("a reference has a host");
    let names = [("registry.example.com", registry.to_owned())];
    let _kubelet = Kubelet::play(world.admin().await, "pumps");
    let session = Session::start(&world.plane, &world.controller, &names, &world.registry.ca_pem()).await;
    session.follow("docs/olmv1.md", &[]).await;
    session
        .enter("kubectl wait --for=delete --timeout=2m bundledeployment/pump-operator crd/pumps.example.rukpak.io")
        .await;
    session.enter("kubectl delete namespace pumps").await;
    session.enter(EXTENSION).await;
    session.follow_only("docs/rukpakctl.md", "rukpakctl extension").await;
}
