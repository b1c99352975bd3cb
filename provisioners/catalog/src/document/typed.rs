//! The four known schemas, from their roots.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fields::Fields;
use super::properties::Properties;
use super::root::Root;
use super::{BundleDocument, Deprecation, Document, Error, MAX_ICON_BYTES, MAX_NAME};
use crate::model::Icon;
use crate::{Bundle, Channel, Entry};

pub(super) fn package(root: Root) -> Result<Document, Error> {
    let fields = Fields::new(&root.fields);
    let default_channel = fields.optional_name("defaultChannel").map_err(fault("package"))?;
    let icon = icon(&fields).map(Arc::new);
    Ok(Document::Package { name: root.name.unwrap_or_default(), default_channel, icon })
}

/// Only shown, so one that cannot be read refuses nothing.
fn icon(fields: &Fields<'_>) -> Option<Icon> {
    let icon = fields.object("icon").ok()??;
    let (media_type, data) = (icon.text("mediatype").ok()?, icon.text("base64data").ok()?);
    if data.is_empty() || data.len() > MAX_ICON_BYTES / 3 * 4 || media_type.len() > MAX_NAME {
        return None;
    }
    let bytes = STANDARD.decode(data).ok()?;
    Some(Icon { media_type, bytes })
}

pub(super) fn channel(root: Root) -> Result<Document, Error> {
    let items = Fields::new(&root.fields).items("entries").map_err(fault("channel"))?;
    let entries = items.map(entry).collect::<Result<Vec<_>, _>>().map_err(fault("channel"))?;
    let channel = Channel { name: root.name.unwrap_or_default(), entries, deprecation: None };
    Ok(Document::Channel { package: root.package.unwrap_or_default(), channel })
}

fn entry((path, value): (String, &Value)) -> Result<Entry, String> {
    if value.is_null() {
        return Ok(Entry::default());
    }
    let fields = Fields::at(path, value)?;
    Ok(Entry {
        name: fields.name("name")?,
        replaces: fields.optional_name("replaces")?,
        skips: fields.names("skips")?,
        skip_range: fields.optional_text("skipRange")?,
    })
}

pub(super) fn bundle(root: Root) -> Result<Document, Error> {
    let fields = Fields::new(&root.fields);
    let image = fields.optional_name("image").map_err(fault("bundle"))?;
    let mut properties = Properties::default();
    for (path, value) in fields.items("properties").map_err(fault("bundle"))? {
        properties.add_item(path, value);
    }
    let (identity, version) = (properties.identity(), properties.version());
    let bundle = Bundle {
        name: root.name.unwrap_or_default(),
        image,
        version,
        version_text: identity.map(|identity| identity.version.clone()).unwrap_or_default(),
        facts: properties.facts,
        deprecation: None,
    };
    Ok(Document::Bundle(Box::new(BundleDocument {
        package: root.package.unwrap_or_default(),
        bundle,
        identities: properties.identities,
        faults: properties.faults,
    })))
}

pub(super) fn deprecations(root: Root) -> Result<Document, Error> {
    let items = Fields::new(&root.fields).items("entries").map_err(fault("deprecation"))?;
    let entries = items.map(deprecation).collect::<Result<Vec<_>, _>>().map_err(fault("deprecation"))?;
    Ok(Document::Deprecations { package: root.package.unwrap_or_default(), entries })
}

fn deprecation((path, value): (String, &Value)) -> Result<Deprecation, String> {
    if value.is_null() {
        return Ok(Deprecation::default());
    }
    let fields = Fields::at(path, value)?;
    let message = fields.text("message")?;
    let Some(reference) = fields.object("reference")? else { return Ok(Deprecation { message, ..Default::default() }) };
    Ok(Deprecation { schema: reference.text("schema")?, name: reference.name("name")?, message })
}

fn fault(what: &'static str) -> impl Fn(String) -> Error {
    move |problem| Error::Field { what, problem }
}
