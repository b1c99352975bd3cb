//! rukpak-platform as a process of a history, and the catalogs that it reads. There is no network: images of catalogs are here.

use std::path::PathBuf;
use std::sync::{Arc, Once};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rukpak_catalog::origin::{self, Revision};
use rukpak_catalog::served::Served;
use rukpak_platform::args::Options;
use rukpak_platform::{Images, Pulled, lead};
use rukpak_source::image::Credentials;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::process::{Gate, Process};
use crate::run;
use crate::story::{Program, SYSTEM};

/// A bundle of a catalog. Its image is named after the release of the story that it is.
pub struct Offer {
    pub package: &'static str,
    pub version: &'static str,
    pub release: usize,
    /// Packages that it requires, with a range of versions.
    pub requires: &'static [Needs],
}

const fn offer(package: &'static str, version: &'static str, release: usize) -> Offer {
    Offer { package, version, release, requires: &[] }
}

/// A version of one of two packages that need the same version of each other.
const fn paired(package: &'static str, version: &'static str, release: usize, other: &'static [Needs]) -> Offer {
    Offer { package, version, release, requires: other }
}

type Needs = (&'static str, &'static str);

/// What the images `example.com/catalog:NUMBER` offer, the oldest version of a package first. Each replaces the one before.
const CATALOGS: [&[Offer]; 4] = [
    &[offer("app", "1.0.0", 0)],
    &[offer("app", "1.0.0", 0), offer("app", "1.1.0", 1)],
    &[paired("app", "1.0.0", 0, &[("pair", "1.0.0")]), paired("pair", "1.0.0", 2, &[("app", "1.0.0")])],
    &[
        paired("app", "1.0.0", 0, &[("pair", "1.0.0")]),
        paired("app", "1.1.0", 1, &[("pair", "1.1.0")]),
        paired("pair", "1.0.0", 2, &[("app", "1.0.0")]),
        paired("pair", "1.1.0", 3, &[("app", "1.1.0")]),
    ],
];

pub fn image(number: usize) -> String {
    format!("example.com/catalog:{number}")
}

/// What an image of a catalog offers.
pub fn offers(reference: &str) -> &'static [Offer] {
    let number = reference.rsplit(':').next().and_then(|number| number.parse::<usize>().ok());
    CATALOGS[number.expect("because stories name no others")]
}

/// What any of them offers; of a bundle that several offer, the one that says most comes first.
pub fn all_offers() -> impl Iterator<Item = &'static Offer> {
    CATALOGS.iter().rev().copied().flatten()
}

/// The program, which has lost what it had on disk when it starts again.
pub fn platform() -> Program {
    Program { name: "rukpak-platform", start }
}

fn start(cluster: &Cluster, number: usize) -> Process {
    static PROVIDER: Once = Once::new();
    // Clients of registries are made, though nobody asks them.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let folder = run::folder();
    let storage = folder.path().to_str().expect("because it is ours");
    let flags = ["rukpak-platform", "--system-namespace", SYSTEM, "--storage-dir", storage];
    let options = Options::read(&flags).expect("because there are such flags");
    let mut process = rukpak_runtime::process::Process::default();
    lead(&mut process, cluster.client(number), &options, Arc::new(Published)).expect("because the folder is empty");
    // It cannot be stopped: its gate is nobody's.
    Process::new((process, folder), Gate::default())
}

/// The images of catalogs.
struct Published;

impl Images for Published {
    fn unpack<'a>(
        &'a self,
        reference: &'a str,
        known: Option<&'a Revision>,
        _: &'a Credentials,
        folder: PathBuf,
    ) -> BoxFuture<'a, Pulled> {
        async move {
            let revision = Revision(digest(reference));
            if known == Some(&revision) {
                return Ok(None);
            }
            let source = run::folder();
            std::fs::write(source.path().join("catalog.json"), text(offers(reference))).unwrap();
            let catalog = Served::write(source.path(), &origin::limits(), &folder).unwrap();
            Ok(Some((catalog, revision)))
        }
        .boxed()
    }
}

fn digest(reference: &str) -> String {
    let number: usize = reference.rsplit(':').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    format!("sha256:{number:064x}")
}

/// A file-based catalog.
fn text(offers: &[Offer]) -> String {
    let mut packages: Vec<&str> = offers.iter().map(|offer| offer.package).collect();
    packages.dedup();
    let name = |offer: &Offer| format!("{}.v{}", offer.package, offer.version);
    let mut documents: Vec<Value> = Vec::new();
    for package in packages {
        let mut before = Value::Null;
        let of = offers.iter().filter(|offer| offer.package == package);
        let entries: Vec<Value> = of
            .map(|offer| {
                let replaces = std::mem::replace(&mut before, json!(name(offer)));
                if replaces.is_null() {
                    json!({"name": name(offer)})
                } else {
                    json!({"name": name(offer), "replaces": replaces})
                }
            })
            .collect();
        documents.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        documents.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
    }
    for offer in offers {
        let required = offer.requires.iter().map(|(package, range)| {
            json!({"type": "olm.package.required", "value": {"packageName": package, "versionRange": range}})
        });
        let own = json!({"type": "olm.package", "value": {"packageName": offer.package, "version": offer.version}});
        let properties: Vec<Value> = std::iter::once(own).chain(required).collect();
        documents.push(json!({"schema": "olm.bundle", "name": name(offer), "package": offer.package,
            "image": format!("example.com/{}:{}", offer.package, offer.release), "properties": properties}));
    }
    documents.iter().map(|document| document.to_string() + "\n").collect()
}
