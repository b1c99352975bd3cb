//! The walk-through of docs/olmv1.md, typed with the real programs.

use rukpak_tests::{CatalogImage, fixtures};

use super::session::Session;
use super::world::World;

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
    let session = Session::start(&world.plane, &world.controller, &names).await;
    session.follow("docs/olmv1.md", &[]).await;
}
