//! Measures resolutions over catalogs that were published: `cargo run --release -p rukpak-resolver --example published FOLDER...`.
//!
//! Each folder is a file-based catalog. First all packages of all catalogs are asked for at once; then each bundle that depends on
//! anything, as the manager of packages does it: over what it can reach.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rukpak_catalog::read;
use rukpak_content::Limits;
use rukpak_resolver::{Catalog, CatalogName, Request, World, reach, resolve};

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut read = Vec::new();
    for folder in &folders {
        match read::catalog(folder, &Limits::default()) {
            Ok(catalog) => read.push((folder.display().to_string(), catalog)),
            Err(error) => println!("{}: left out: {error}", folder.display()),
        }
    }
    let packages: usize = read.iter().map(|(_, catalog)| catalog.packages.len()).sum();
    let bundles: usize =
        read.iter().flat_map(|(_, catalog)| catalog.packages.values()).map(|package| package.bundles.len()).sum();
    println!("{} catalogs, {packages} packages, {bundles} bundles; {}", read.len(), peak()?);

    let named = |name: &str| CatalogName { name: name.to_owned(), ..CatalogName::default() };
    let begun = Instant::now();
    let catalogs = read.iter().map(|(name, catalog)| Catalog::of(named(name), 0, catalog).0).collect();
    let requests: Vec<Request> = read.iter().flat_map(|(_, catalog)| catalog.packages.keys()).map(request).collect();
    let answer = resolve(&World { catalogs, ..World::default() }, &requests);
    let took = begun.elapsed();
    println!("all at once: {} steps, {} refusals in {took:?}; {}", answer.steps.len(), answer.refusals.len(), peak()?);

    let contents: Vec<&rukpak_catalog::Catalog> = read.iter().map(|(_, catalog)| catalog).collect();
    let (mut needy, mut slowest) = (0_usize, Duration::ZERO);
    for (package, bundle) in contents
        .iter()
        .flat_map(|catalog| &catalog.packages)
        .flat_map(|(name, package)| package.bundles.values().map(move |bundle| (name, bundle)))
    {
        let facts = &bundle.facts;
        if facts.requires_packages.is_empty() && facts.requires.is_empty() && facts.constraints.is_empty() {
            continue;
        }
        needy += 1;
        let begun = Instant::now();
        let reached = reach(bundle, &contents);
        let wanted = |name: &str| name == package || reached.as_ref().is_none_or(|reached| reached.contains(name));
        let some =
            |(name, catalog): &(String, rukpak_catalog::Catalog)| Catalog::of_some(named(name), 0, catalog, wanted).0;
        let catalogs = read.iter().map(some).collect();
        let request = Request { starting: Some(bundle.name.clone()), ..request(package) };
        resolve(&World { catalogs, ..World::default() }, &[request]);
        slowest = slowest.max(begun.elapsed());
    }
    println!("{needy} bundles with dependencies, one after the other: the slowest in {slowest:?}; {}", peak()?);
    Ok(())
}

fn request(package: &String) -> Request {
    Request { name: package.clone(), package: package.clone(), ..Request::default() }
}

/// The most memory that the process had, as Linux tells.
fn peak() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM is not known");
    Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
}
