//! Messages of `ListBundles` into a catalog, one by one: none is kept.

use prost::Message as _;

use super::call::Call;
use super::facts::{self, BundleClaims};
use super::message::{Bundle, said};
use super::{Error, STREAM_BYTES, csv};
use crate::document::{self, check_name};
use crate::model::{self, Entry, MAX_KEPT_BYTES, weight};
use crate::{Catalog, Channel, Package, Version};

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
        self.stream_bytes += message.encoded_len() as u64;
        call.bounded(self.stream_bytes, STREAM_BYTES, "bytes")?;
        for (name, what) in
            [(&message.package_name, "package"), (&message.channel_name, "channel"), (&message.csv_name, "bundle")]
        {
            if name.is_empty() {
                return Err(call.incomplete(what));
            }
        }
        check_names(&message).map_err(|problem| {
            call.too_long(format!("bundle {:?}: {problem}", document::excerpt(&message.csv_name)))
        })?;
        self.kept_bytes += self.keep(message);
        call.bounded(self.kept_bytes, MAX_KEPT_BYTES, "bytes that would be kept")
    }

    /// Puts it into the catalog. Gives the memory that it takes there.
    fn keep(&mut self, message: Bundle) -> u64 {
        let mut kept = 0;
        let name = &message.package_name;
        let package = self.catalog.packages.entry(name.clone()).or_insert_with(|| {
            kept += weight::package(name);
            Package { name: name.clone(), ..Package::default() }
        });
        if !package.bundles.contains_key(&message.csv_name) {
            let (bundle, faults) = bundle(&message);
            let remarks: Vec<String> =
                faults.iter().map(|fault| format!("bundle {:?}: {fault}", bundle.name)).collect();
            kept += weight::bundle(&bundle) + weight::texts(&remarks);
            package.remarks.extend(remarks);
            package.bundles.insert(bundle.name.clone(), bundle);
        }
        let name = message.channel_name;
        let channel = package.channels.entry(name.clone()).or_insert_with(|| {
            kept += weight::channel(&name);
            Channel { name, ..Channel::default() }
        });
        let mut skips = message.skips;
        skips.shrink_to_fit();
        let (replaces, skip_range) = (said(message.replaces), said(message.skip_range));
        let entry = Entry { name: message.csv_name, replaces, skips, skip_range };
        kept += weight::entry(&entry);
        channel.entries.push(entry);
        kept
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

/// What is too long in it. The length of lists was looked at before it was decoded.
fn check_names(message: &Bundle) -> Result<(), String> {
    let Bundle { csv_name, package_name, channel_name, bundle_path, replaces, skips, .. } = message;
    for (field, name) in [
        ("csvName", csv_name),
        ("packageName", package_name),
        ("channelName", channel_name),
        ("bundlePath", bundle_path),
        ("replaces", replaces),
    ] {
        check_name(field, name)?;
    }
    skips.iter().enumerate().try_for_each(|(index, name)| match name.len() {
        0..=document::MAX_NAME => Ok(()),
        _ => check_name(&format!("skips[{index}]"), name),
    })
}

/// The bundle, and what cannot be read of it.
fn bundle(message: &Bundle) -> (model::Bundle, Vec<String>) {
    let BundleClaims { mut facts, release, mut faults } = facts::read(message);
    // Only where the manifests lie in the catalog. A listing does not fail because of one that cannot be read.
    if let Err(error) = csv::add(&message.csv_json, &mut facts) {
        let problem = document::excerpt(&error.to_string());
        faults.push(format!("its ClusterServiceVersion cannot be read: {problem}"));
    }
    let mut version_text = message.version.clone();
    if let Err(problem) = check_name("version", &version_text) {
        faults.push(problem);
        version_text = String::new();
    }
    let bundle = model::Bundle {
        name: message.csv_name.clone(),
        image: said(message.bundle_path.clone()),
        version: Version::with_release(&version_text, &release).ok(),
        version_text,
        facts,
        deprecation: message.deprecation.as_ref().map(|deprecation| deprecation.message.clone()),
    };
    if bundle.version.is_none() {
        faults.push(format!("{:?} is no version: it cannot be chosen by it", bundle.version_text));
    }
    (bundle, faults)
}

#[cfg(test)]
mod tests;
