//! Bodies of answers. A list is made while it is sent: of all packages of large catalogs, megabytes of JSON, 64 KiB and one package are in
//! memory at once.

use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use jiff::Timestamp;
use kube::core::{Selector, SelectorExt as _};
use rukpak_runtime::clock;
use rukpak_runtime::reply;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::manifest::Manifest;
use super::request::{Form, Route, Wanted};
use super::visible::Item;
use super::{GROUP, PLURAL, VERSION};

/// What is made of a list before it is sent, about.
const CHUNK_BYTES: usize = 64 * 1024;
/// The picture of packages that have none: an empty box.
const DEFAULT_ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><path d="M8 20 32 8l24 12v24L32 56 8 44zm0 0 24 12 24-12M32 32v24" fill="none" stroke="#6a6e73" stroke-width="3" stroke-linejoin="round"/></svg>"##;
/// What a browser may make of a picture that somebody put into a catalog: a picture, and nothing that runs.
const NO_SCRIPTS: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Which APIs there are.
pub(super) fn discovery(route: &Route<'_>) -> Response {
    let group_version = format!("{GROUP}/{VERSION}");
    let version = json!({"groupVersion": group_version, "version": VERSION});
    let mut group = json!({"name": GROUP, "versions": [version], "preferredVersion": version});
    let document = match route {
        Route::Groups => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}),
        Route::Group => {
            (group["kind"], group["apiVersion"]) = (json!("APIGroup"), json!("v1"));
            group
        }
        _ => {
            let resource = |name: &str, singular: &str, verbs: &[&str]| {
                json!({"name": name, "singularName": singular, "namespaced": true, "kind": "PackageManifest",
                    "verbs": verbs})
            };
            let object = resource(PLURAL, "packagemanifest", &["get", "list"]);
            let resources = [object, resource("packagemanifests/icon", "", &["get"])];
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
        }
    };
    Json(document).into_response()
}

/// One object, or a table with its row; `None` if it leads nowhere.
pub(super) fn one(item: &Item, namespace: &str, wanted: &Wanted) -> Option<Response> {
    let manifest = Manifest::of(&item.source, item.package()?)?;
    let document = match wanted.form {
        Form::Object => manifest.object(Some(namespace)),
        Form::Metadata => manifest.partial(Some(namespace)),
        Form::Table(rows) => {
            let mut table = table();
            table["rows"] = json!([manifest.row(Some(namespace), rows, clock::now())]);
            table
        }
    };
    Some(Json(document).into_response())
}

/// All of them that are wanted.
pub(super) fn list(items: Vec<Item>, namespace: Option<&str>, wanted: Wanted) -> Response {
    let pieces = Pieces::new(items, namespace, wanted).map(Ok::<Bytes, Infallible>);
    let mut response = Body::from_stream(stream::iter(pieces)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The picture of the package, or one for those without.
pub(super) fn icon(item: &Item, call: &Parts) -> Option<Response> {
    let package = item.package()?;
    let tag = Manifest::of(&item.source, package)?.tag();

    // Only with a version in the link, as upstream: else a client would keep what it has seen for ever.
    let mut query = form_urlencoded::parse(call.uri.query().unwrap_or_default().as_bytes());
    let is_versioned = query.any(|(key, value)| key == "resourceVersion" && !value.is_empty());
    if is_versioned && reply::is_known(&call.headers, &tag) {
        return Some(reply::known(&tag));
    }
    let (media_type, bytes) = match &package.icon {
        Some(icon) => (icon.media_type.as_str(), Bytes::from(icon.bytes.clone())),
        None => ("image/svg+xml", Bytes::from_static(DEFAULT_ICON.as_bytes())),
    };
    let mut response = Body::from(bytes).into_response();
    let headers = response.headers_mut();
    // Whatever the catalog says, it is a picture.
    let media_type = Some(media_type).filter(|name| name.starts_with("image/"));
    let media_type = media_type.and_then(|name| HeaderValue::from_str(name).ok());
    headers.insert(header::CONTENT_TYPE, media_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(NO_SCRIPTS));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(tag) = HeaderValue::try_from(format!("\"{tag}\"")) {
        headers.insert(header::ETAG, tag);
    }
    Some(response)
}

fn table() -> Value {
    let column = |name: &str, format: &str, description: &str| {
        json!({"name": name, "type": "string", "format": format,
            "description": description, "priority": 0})
    };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": [
        column("Name", "name", "Name of the package"),
        column("Catalog", "", "Name of the catalog for people"),
        column("Age", "", "Time since the CatalogSource was created"),
    ]})
}

/// A list, a piece after the other.
struct Pieces {
    items: std::vec::IntoIter<Item>,
    namespace: Option<String>,
    form: Form,
    labels: Selector,
    now: Timestamp,
    /// What is to be sent before the next object: the beginning at first.
    before: String,
    is_over: bool,
}

impl Pieces {
    fn new(items: Vec<Item>, namespace: Option<&str>, wanted: Wanted) -> Self {
        let Wanted { form, labels, named: _ } = wanted;
        let (head, list) = match form {
            Form::Object => {
                let version = format!("{GROUP}/{VERSION}");
                (json!({"kind": "PackageManifestList", "apiVersion": version, "metadata": {}}), "items")
            }
            Form::Metadata => {
                (json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}}), "items")
            }
            Form::Table(_) => (table(), "rows"),
        };
        // The list is the last field of the object.
        let head = head.to_string();
        let before = format!("{},\"{list}\":[", head.strip_suffix('}').unwrap_or(&head));
        let (items, namespace) = (items.into_iter(), namespace.map(str::to_owned));
        Self { items, namespace, form, labels, now: clock::now(), before, is_over: false }
    }

    /// The object, if it is wanted.
    fn shown(&self, item: &Item) -> Option<Value> {
        let manifest = Manifest::of(&item.source, item.package()?)?;
        if !self.labels.selects_all() && !self.labels.matches(&manifest.labels()) {
            return None;
        }
        let namespace = self.namespace.as_deref();
        Some(match self.form {
            Form::Object => manifest.object(namespace),
            Form::Metadata => manifest.partial(namespace),
            Form::Table(rows) => manifest.row(namespace, rows, self.now),
        })
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = String::new();
        while piece.len() < CHUNK_BYTES && !self.is_over {
            let Some(item) = self.items.next() else {
                // Nothing was sent yet of a list without objects.
                piece.push_str(Some(self.before.as_str()).filter(|before| *before != ",").unwrap_or_default());
                piece.push_str("]}");
                self.is_over = true;
                break;
            };
            if let Some(shown) = self.shown(&item) {
                piece.push_str(&std::mem::replace(&mut self.before, ",".to_owned()));
                piece.push_str(&shown.to_string());
            }
        }
        Some(piece).filter(|piece| !piece.is_empty()).map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::{Request, StatusCode};
    use rukpak_catalog::model::Icon;

    use super::super::manifest::tests::{package, source};
    use super::super::request::Rows;
    use super::super::selector;
    use super::*;

    fn item(name: &str) -> Item {
        Item::of(source(), package(name))
    }

    fn wanted(form: Form, labels: &str) -> Wanted {
        Wanted { form, labels: selector::labels(labels).unwrap(), named: None }
    }

    async fn json_of(response: Response) -> Value {
        serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_list_of_many_is_one_document_and_is_made_in_pieces() {
        let items: Vec<Item> = (0..1000).map(|number| item(&format!("p{number}"))).collect();
        let whole = json_of(list(items.clone(), Some("pumps"), wanted(Form::Object, ""))).await;
        assert_eq!((&whole["kind"], whole["items"].as_array().unwrap().len()), (&json!("PackageManifestList"), 1000));
        assert_eq!(whole["items"][999]["metadata"]["namespace"], "pumps");
        let pieces: Vec<Bytes> = Pieces::new(items, None, wanted(Form::Object, "")).collect();
        assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() < CHUNK_BYTES + 8 * 1024));
    }

    #[tokio::test]
    async fn labels_select_and_a_list_of_none_is_a_document_too() {
        for (labels, expected) in [("catalog=community,tier", 2), ("catalog notin (community)", 0)] {
            for (form, field) in
                [(Form::Object, "items"), (Form::Metadata, "items"), (Form::Table(Rows::Metadata), "rows")]
            {
                let document = json_of(list(vec![item("a"), item("b")], None, wanted(form, labels))).await;
                assert_eq!(document[field].as_array().unwrap().len(), expected, "{labels} {field}");
            }
        }
    }

    #[tokio::test]
    async fn a_row_has_the_cells_of_upstream_and_the_metadata() {
        let table = json_of(list(vec![item("a")], None, wanted(Form::Table(Rows::Metadata), ""))).await;
        let names: Vec<&Value> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
        assert_eq!(names, ["Name", "Catalog", "Age"]);
        let row = &table["rows"][0];
        assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!("Ours")));
        assert_eq!(row["object"]["metadata"]["namespace"], "olm");
        let one = one(&item("a"), "pumps", &wanted(Form::Table(Rows::Cells), "")).unwrap();
        assert_eq!(json_of(one).await["rows"][0].get("object"), None);
    }

    #[tokio::test]
    async fn an_icon_is_the_packages_or_a_default_and_is_not_sent_again() {
        let call = |query: &str| {
            let request = Request::get(format!("/x?{query}")).header(header::IF_NONE_MATCH, "\"a.stable.a.v1.10.0\"");
            request.body(()).unwrap().into_parts().0
        };
        let response = icon(&item("a"), &call("")).unwrap();
        assert_eq!(
            (response.status(), &response.headers()[header::CONTENT_TYPE]),
            (StatusCode::OK, &HeaderValue::from_static("image/svg+xml"))
        );
        assert_eq!(icon(&item("a"), &call("resourceVersion=1")).unwrap().status(), StatusCode::NOT_MODIFIED);

        for (media_type, expected) in [("image/png", "image/png"), ("text/html", "application/octet-stream")] {
            let mut package = package("a");
            package.icon = Some(std::sync::Arc::new(Icon { media_type: media_type.to_owned(), bytes: vec![1, 2] }));
            let response = icon(&Item::of(source(), package), &call("")).unwrap();
            assert_eq!(response.headers()[header::CONTENT_TYPE], expected);
            assert_eq!(to_bytes(response.into_body(), 10).await.unwrap().to_vec(), [1, 2]);
        }
    }
}
