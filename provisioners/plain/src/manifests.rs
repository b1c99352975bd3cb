//! Files to objects: the flat `manifests/` folder, Lists, repeated objects. Shared by every bundle format.

use std::collections::HashMap;
use std::sync::Arc;

use rukpak_content::{BundleTree, Entry, LimitExceeded};
use serde_json::Value;

use crate::object::{self, Object, ObjectKey, Origin};
use crate::warning::Few;
use crate::{Budget, Warning, yaml};

/// The folder of a bundle that holds its manifests.
pub const FOLDER: &str = "manifests";

/// Objects and what to say about them.
#[derive(Debug, Default)]
pub struct Loaded {
    /// In the order of the files' names, and of the documents in them.
    pub objects: Vec<Object>,
    /// In the same order; the first ones only.
    pub warnings: Few<Warning>,
}

/// Why a folder or file of manifests cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `manifests` folder. The text before the colon is upstream's.
    #[error(
        "readdir manifests: file does not exist: a bundle keeps its manifests in a folder named manifests at its root"
    )]
    Missing,
    /// `manifests` is a file.
    #[error("readdir manifests: not a directory: a bundle keeps its manifests in a folder named manifests at its root")]
    NotADirectory,
    /// `manifests` holds a folder. The text is upstream's.
    #[error(
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"manifests/{0}\""
    )]
    Subdirectory(String),
    /// A file that does not look like a manifest by its name could not be read as one.
    #[error(
        "{file} is not a manifest, but every file in {FOLDER}/ is read as one, whatever its name: move it out of the folder"
    )]
    Stray {
        /// The file.
        file: Arc<str>,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A file is neither YAML nor JSON, or past a limit.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// A document is not an object.
    #[error("{origin}")]
    Object {
        /// Where it stands.
        origin: Origin,
        /// What is wrong with it.
        source: object::Error,
    },
    /// The `items` of a List are not a list.
    #[error("{0}: items is not a list")]
    Items(Origin),
    /// One object is declared twice, differently.
    #[error(transparent)]
    Conflict(Box<Conflict>),
    /// Too large, or too many.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
}

/// Two declarations of one object that differ.
#[derive(Debug, thiserror::Error)]
#[error("{key} is declared twice with different content: {first} and {second}: remove one of them")]
pub struct Conflict {
    /// The object.
    pub key: ObjectKey,
    /// The first declaration.
    pub first: Origin,
    /// The second one.
    pub second: Origin,
}

/// Reads the flat `manifests` folder: every file in byte order of the names, whatever its extension.
///
/// The first thing at fault in that order is what is reported. A folder inside is refused, empty or not.
pub fn read(tree: &BundleTree, budget: &mut Budget<'_>) -> Result<Vec<Object>, Error> {
    let Some(entries) = tree.list(FOLDER) else {
        return Err(if tree.get(FOLDER).is_some() { Error::NotADirectory } else { Error::Missing });
    };
    let mut objects = Vec::new();
    for (name, entry) in entries {
        match entry {
            Entry::Directory => return Err(Error::Subdirectory(name.to_owned())),
            Entry::File { body, .. } => read_file(&format!("{FOLDER}/{name}"), body, budget, &mut objects)?,
        }
    }
    Ok(objects)
}

/// Reads one file and adds its objects to `objects`. `file` is its path as messages should name it.
pub fn read_file(file: &str, body: &[u8], budget: &mut Budget<'_>, objects: &mut Vec<Object>) -> Result<(), Error> {
    let file = Arc::from(file);
    read_documents(&file, body, budget, objects).map_err(|error| match error {
        Error::Limit(_) | Error::Yaml(yaml::Error::Limit(_)) => error,
        error if is_named_as_manifest(&file) => error,
        error => Error::Stray { file, source: Box::new(error) },
    })
}

fn is_named_as_manifest(file: &str) -> bool {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

fn read_documents(
    file: &Arc<str>,
    body: &[u8],
    budget: &mut Budget<'_>,
    objects: &mut Vec<Object>,
) -> Result<(), Error> {
    budget.add_file(file, body.len() as u64)?;
    for document in yaml::parse(file, body, budget)? {
        add(document.value, document.place.into(), budget, objects)?;
    }
    Ok(())
}

/// Adds a document's object, or those of a List. Recursion is bounded by [`yaml::MAX_DEPTH`].
fn add(mut value: Value, origin: Origin, budget: &mut Budget<'_>, objects: &mut Vec<Object>) -> Result<(), Error> {
    if !is_list(&value) {
        let object =
            Object::new(value, origin.clone()).map_err(|source| Error::Object { origin: origin.clone(), source })?;
        objects.push(object);
        return Ok(budget.add_object(|| origin.file.to_string())?);
    }
    let items = match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => return Ok(()),
        Some(_) => return Err(Error::Items(origin)),
    };
    for (index, mut item) in items.into_iter().enumerate() {
        give_kind(&mut item, &value).map_err(|source| Error::Object { origin: origin.clone(), source })?;
        let path = match &origin.item {
            Some(outer) => format!("{outer}.items[{index}]"),
            None => format!("items[{index}]"),
        };
        add(item, Origin { item: Some(Arc::from(path)), ..origin.clone() }, budget, objects)?;
    }
    Ok(())
}

/// A kind that ends in `List` and has `items`, and `v1` `List` with or without.
fn is_list(value: &Value) -> bool {
    let Some(kind) = value.get("kind").and_then(Value::as_str) else { return false };
    let has_items = matches!(value.get("items"), Some(Value::Array(_) | Value::Null));
    kind.ends_with("List") && (has_items || (kind == "List" && value.get("apiVersion").is_some_and(|v| v == "v1")))
}

/// The items of a typed list (`ConfigMapList`) are of its kind where they name neither version nor kind.
fn give_kind(item: &mut Value, list: &Value) -> Result<(), object::Error> {
    let (Some(version), Some(kind)) = (list.get("apiVersion"), list.get("kind").and_then(Value::as_str)) else {
        return Ok(());
    };
    let item_kind = kind.strip_suffix("List").unwrap_or_default();
    let Value::Object(item) = item else { return Ok(()) };
    let is_absent = |field: &str| matches!(item.get(field), None | Some(Value::Null));
    if !item_kind.is_empty() && is_absent("apiVersion") && is_absent("kind") {
        // Every item gets a copy: nothing is copied that could be large.
        object::check_kind(version, item_kind)?;
        item.insert("apiVersion".to_owned(), version.clone());
        item.insert("kind".to_owned(), Value::from(item_kind));
    }
    Ok(())
}

/// Drops repetitions of an object, with a warning; refuses two declarations that differ.
///
/// kubectl would let the last one win and Helm would fail to create the second: neither is what an author means.
pub fn merge_repeated(objects: Vec<Object>, budget: &mut Budget<'_>) -> Result<Vec<Object>, Error> {
    let mut kept: Vec<Object> = Vec::with_capacity(objects.len());
    let mut places: HashMap<ObjectKey, usize> = HashMap::with_capacity(objects.len());
    for object in objects {
        let key = object.key();
        let Some(known) = places.get(&key).map(|&index| &kept[index]) else {
            places.insert(key, kept.len());
            kept.push(object);
            continue;
        };
        let (first, second) = (known.origin().clone(), object.origin().clone());
        if !is_same(known, &object) {
            return Err(Error::Conflict(Box::new(Conflict { key, first, second })));
        }
        budget.warn(|| Warning::RepeatedObject { key, first, second });
    }
    Ok(kept)
}

/// Whether two declarations apply the same thing. Warnings about each were given or will be.
fn is_same(first: &Object, second: &Object) -> bool {
    first == second || first.without_server_fields(&mut Vec::new()) == second.without_server_fields(&mut Vec::new())
}
