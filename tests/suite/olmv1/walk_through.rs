//! The walk-through of docs/olmv1.md, typed with the real kubectl.

use std::time::{Duration, Instant};

use rukpak_tests::kubectl::Terminal;
use rukpak_tests::{CatalogImage, Documents, ImageBuilder, fixtures};

use super::page::{Block, Page, Step, shown};
use super::world::World;

/// What the page calls the registry.
const REGISTRY: &str = "registry.example.com";
/// So long what one object says of another may lag behind.
const SETTLED: Duration = Duration::from_secs(30);

async fn pushed(world: &World, version: &str) -> String {
    let mut files = fixtures::read("registry/pump").expect("the fixture can be read");
    for (_, text) in &mut files {
        *text = text.replace("1.0.0", version);
    }
    let tag = format!("v{version}");
    let image = ImageBuilder::of_files(files);
    world.registry.push("bundles/pump-operator", &tag, &image).await.expect("the registry takes it").reference
}

#[tokio::test]
async fn the_walk_through_is_true() {
    // Nobody else's catalogs are asked.
    let world = World::new().await;
    let (old, new) = (pushed(&world, "1.0.0").await, pushed(&world, "1.1.0").await);
    let documents = Documents::package("pump-operator", &[("1.0.0", &old), ("1.1.0", &new)]);
    let image = CatalogImage::of(documents).expect("an image");
    image.push(&world.registry, "catalogs/pumps", "v1").await.expect("the registry takes it");
    let registry = old.split('/').next().expect("a reference has a host");
    let terminal = Terminal::new(world.plane.kubeconfig_path()).unwrap_or_else(|error| panic!("{error:#}"));

    let page = Page::read("docs/olmv1.md");
    let steps: Vec<Step> = page.blocks().iter().filter(|block| block.has_output()).flat_map(Block::steps).collect();
    assert!(steps.len() > 10, "only {} commands were found", steps.len());
    let mut differences = Vec::new();
    for step in steps {
        let (command, told) = (step.command.replace(REGISTRY, registry), shown(&step.output));
        // Who only looks or waits may do so again.
        let may_repeat = ["get", "wait"].contains(&command.split(' ').nth(1).unwrap_or_default());
        let end = Instant::now() + SETTLED;
        let printed = loop {
            let printed = terminal.enter(&command).await.unwrap_or_else(|error| panic!("{command}: {error:#}"));
            let lines: Vec<String> = printed.lines.iter().map(|line| line.replace(registry, REGISTRY)).collect();
            if shown(&lines) == told || !may_repeat || Instant::now() > end {
                break lines;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        if shown(&printed) != told {
            let (page, here) = (step.output.join("\n"), printed.join("\n"));
            differences.push(format!("line {}: $ {command}\n--- the page\n{page}\n--- here\n{here}", step.line));
        }
    }
    assert!(differences.is_empty(), "docs/olmv1.md is not true any more:\n{}", differences.join("\n\n"));
}
