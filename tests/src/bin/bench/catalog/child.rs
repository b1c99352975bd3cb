//! The process that loads a catalog and is measured.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rukpak_catalog::choose::{Request, choose};
use rukpak_catalog::origin::limits;
use rukpak_catalog::registry::Client;
use rukpak_catalog::{Catalog, read};
use serde::{Deserialize, Serialize};

/// The first argument of such a process.
pub(crate) const CHILD: &str = "catalog-child";
/// Longest silence of the catalog server.
const SILENCE: Duration = Duration::from_secs(30);

/// What it took.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub packages: usize,
    pub bundles: usize,
    pub seconds: f64,
    /// A package looked up by its name, and a bundle chosen of it.
    pub look_up_microseconds: f64,
    /// The most memory that was resident at any time.
    pub peak_mebibytes: f64,
}

/// Loads what `arguments` name (`folder`, `stream` or `grpc`, and where it is) and prints [`Measured`] as JSON.
pub(crate) async fn main(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let how = arguments.next().context("no form")?;
    let place = arguments.next().context("no place")?;
    let start = Instant::now();
    let catalog = match how.to_str() {
        Some("folder") => read::catalog(Path::new(&place), &limits())?,
        Some("stream") => read::catalog_of_stream("stream.json", &mut File::open(&place)?, &limits())?,
        Some("grpc") => Client::connect(&place.to_string_lossy(), SILENCE).await?.catalog().await?,
        _ => bail!("{} is no form of catalogs", how.display()),
    };
    let seconds = start.elapsed().as_secs_f64();
    let look_up_microseconds = look_up(&catalog)?;
    let measured = Measured {
        packages: catalog.packages.len(),
        bundles: catalog.packages.values().map(|package| package.bundles.len()).sum(),
        seconds,
        look_up_microseconds,
        peak_mebibytes: crate::rendering::peak_kibibytes()? / 1024.0,
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn look_up(catalog: &Catalog) -> Result<f64> {
    let name = catalog.packages.keys().next_back().context("the catalog is empty")?;
    let start = Instant::now();
    choose(&catalog.packages[name], &Request::default())?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}
