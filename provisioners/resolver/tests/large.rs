//! Measures a resolution over as many bundles as all public catalogs have together. A program of its own, whose memory is nothing else's:
//! `cargo test --workspace --test large -- --nocapture`.
//!
//! Four catalogs of 150 packages, 20 bundles each, in two channels: 12,000 bundles, 24,000 entries. Each package requires the
//! next one, and one package of every catalog is asked for, so that 600 bundles have to be found.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rukpak_catalog::Version;
use rukpak_resolver::{Catalog, CatalogName, Entry, Facts, Package, Property, Request, World, resolve};
use serde_json::json;

const CATALOGS: usize = 4;
const PACKAGES: usize = 150;
const BUNDLES: usize = 20;

#[test]
fn resolves_as_many_bundles_as_all_public_catalogs_have_in_a_second_and_100_mebibytes() -> Result<(), Box<dyn Error>> {
    let catalogs = (0..CATALOGS).map(catalog).collect::<Result<_, _>>()?;
    let world = World { catalogs, ..World::default() };
    let request =
        |number: usize| Request { name: format!("r{number}"), package: package_name(number, 0), ..Request::default() };

    // What else this machine does slows down one of them, and not the quickest.
    let (mut quickest, mut first_peak_kib) = (Duration::MAX, u64::MAX);
    for _ in 0..3 {
        let before = processor_time()?;
        let answer = resolve(&world, &(0..CATALOGS).map(request).collect::<Vec<_>>());
        quickest = quickest.min(processor_time()?.saturating_sub(before));
        assert_eq!((answer.steps.len(), answer.refusals.len()), (CATALOGS * PACKAGES, 0));
        first_peak_kib = first_peak_kib.min(peak_kib()?);
    }
    println!("{quickest:?}, with {} MiB", first_peak_kib >> 10);
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
    assert!(first_peak_kib < 100 << 10, "{first_peak_kib} KiB");
    Ok(())
}

fn package_name(catalog: usize, package: usize) -> String {
    format!("c{catalog}-p{package}")
}

fn catalog(number: usize) -> Result<Catalog, Box<dyn Error>> {
    let mut catalog =
        Catalog { name: CatalogName { namespace: String::new(), name: format!("c{number}") }, ..Catalog::default() };
    for package in 0..PACKAGES {
        let mut offered = Package { default_channel: Some("stable".to_owned()), ..Package::default() };
        let entries = (0..BUNDLES).map(|bundle| entry(number, package, bundle)).collect::<Result<Vec<_>, _>>()?;
        for channel in ["stable", "candidate"] {
            offered.channels.insert(channel.to_owned(), entries.clone());
        }
        catalog.packages.insert(package_name(number, package), offered);
    }
    Ok(catalog)
}

fn entry(catalog: usize, package: usize, bundle: usize) -> Result<Entry, Box<dyn Error>> {
    let property = |kind: &str, value| Property { kind: kind.to_owned(), value };
    let name = package_name(catalog, package);
    let version = format!("1.{bundle}.0");
    let mut properties = vec![
        property("olm.package", json!({"packageName": name, "version": version})),
        property("olm.gvk", json!({"group": format!("{name}.example.com"), "version": "v1", "kind": "Thing"})),
    ];
    if package + 1 < PACKAGES {
        let value = json!({"packageName": package_name(catalog, package + 1), "versionRange": ">=1.5.0"});
        properties.push(property("olm.package.required", value));
    }
    Ok(Entry {
        name: format!("{name}.v{version}"),
        replaces: bundle.checked_sub(1).map(|before| format!("{name}.v1.{before}.0")),
        facts: Arc::new(Facts::read(Some(Version::parse(&version)?), properties)?),
        ..Entry::default()
    })
}

/// How long this thread has been running, not counting the time in which others had the processor.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = line.split_whitespace().next().ok_or("schedstat is empty")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

/// The most memory that the process had, in KiB, as Linux tells.
fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("VmHWM is not known")?;
    Ok(line.split_whitespace().nth(1).ok_or("VmHWM has no value")?.parse()?)
}
