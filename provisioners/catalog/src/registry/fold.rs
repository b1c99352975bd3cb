//! Messages of `ListBundles` into a catalog, one by one: none is kept.

use prost::Message as _;

use super::call::Call;
use super::facts::{self, Told};
use super::message::Bundle;
use super::{Error, KEPT_BYTES, STREAM_BYTES, csv};
use crate::model::{self, Entry};
use crate::{Catalog, Package, Version};

/// The catalog so far.
#[derive(Default)]
pub(super) struct Fold {
    catalog: Catalog,
    stream_bytes: u64,
    kept_bytes: u64,
}

impl Fold {
    /// One message: a bundle in a channel. The same bundle comes once for each channel; its first message describes it.
    pub(super) fn add(&mut self, message: Bundle, call: &Call<'_>) -> Result<(), Error> {
        let bytes = message.encoded_len() as u64;
        let manifests = message.csv_json.len() + message.object.iter().map(String::len).sum::<usize>();
        self.stream_bytes += bytes;
        self.kept_bytes += bytes.saturating_sub(manifests as u64);
        call.bounded(self.stream_bytes, STREAM_BYTES, "bytes")?;
        call.bounded(self.kept_bytes, KEPT_BYTES, "bytes without manifests")?;
        for (name, what) in
            [(&message.package_name, "package"), (&message.channel_name, "channel"), (&message.csv_name, "bundle")]
        {
            if name.is_empty() {
                return Err(call.incomplete(what));
            }
        }
        let package = self
            .catalog
            .packages
            .entry(message.package_name.clone())
            .or_insert_with(|| Package { name: message.package_name.clone(), ..Package::default() });
        if !package.bundles.contains_key(&message.csv_name) {
            let (bundle, faults) = bundle(&message);
            package.remarks.extend(faults.iter().map(|fault| format!("bundle {:?}: {fault}", bundle.name)));
            package.bundles.insert(bundle.name.clone(), bundle);
        }
        let channel = package.channels.entry(message.channel_name.clone()).or_default();
        channel.name = message.channel_name;
        channel.entries.push(Entry {
            name: message.csv_name,
            replaces: said(message.replaces),
            skips: message.skips,
            skip_range: said(message.skip_range),
        });
        Ok(())
    }

    /// The catalog. A server that sends an entry twice is believed once.
    pub(super) fn finish(mut self) -> Catalog {
        for channel in self.catalog.packages.values_mut().flat_map(|package| package.channels.values_mut()) {
            channel.entries.sort_by(|one, other| one.name.cmp(&other.name));
            channel.entries.dedup_by(|one, other| one.name == other.name);
            channel.entries.shrink_to_fit();
        }
        for package in self.catalog.packages.values_mut() {
            package.remarks.sort();
            package.remarks.dedup();
        }
        self.catalog
    }
}

/// Text that is there. The wire format has no other way to say that there is none.
pub(super) fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// The bundle, and what cannot be read of it.
fn bundle(message: &Bundle) -> (model::Bundle, Vec<String>) {
    let Told { mut facts, release, mut faults } = facts::read(message);
    // Only where the manifests lie in the catalog. A listing does not fail because of one that cannot be read.
    if let Err(error) = csv::add(&message.csv_json, &mut facts) {
        faults.push(format!("its ClusterServiceVersion cannot be read: {error}"));
    }
    let bundle = model::Bundle {
        name: message.csv_name.clone(),
        image: said(message.bundle_path.clone()),
        version: Version::with_release(&message.version, &release).ok(),
        version_text: message.version.clone(),
        facts,
        deprecation: message.deprecation.as_ref().map(|deprecation| deprecation.message.clone()),
    };
    if bundle.version.is_none() {
        faults.push(format!("{:?} is no version: it cannot be chosen by it", bundle.version_text));
    }
    (bundle, faults)
}
