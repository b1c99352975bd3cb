//! What a call asks for, and why it is refused, in the API server's words. Pure.

use axum::Json;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::core::Selector;
use rukpak_runtime::access::Denied;
use rukpak_runtime::error::Chain;
use serde_json::json;
use url::form_urlencoded;

use super::selector;
use super::{GROUP, PLURAL, VERSION};

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group,
    /// `/apis/GROUP/VERSION`
    Resources,
    /// The PackageManifests that a namespace sees, or those of all.
    Collection(Option<&'a str>),
    /// That of this name.
    Package(&'a str, &'a str),
    /// Its picture.
    Icon(&'a str, &'a str),
}

/// In which form objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Object,
    /// Their metadata alone.
    Metadata,
    /// As rows of a table, for people.
    Table(Rows),
}

/// What a row of a table has beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Cells,
    Metadata,
    Object,
}

/// What is wanted of the objects.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub form: Form,
    /// Labels that they must have.
    pub labels: Selector,
    /// The name that they must have.
    pub named: Option<String>,
}

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("Unauthorized")]
    Unauthenticated,
    #[error("{}", forbidden(.user, .asked))]
    Forbidden { user: String, asked: Box<ResourceAttributes> },
    #[error("the API server cannot be asked what you may do; try again")]
    Unasked(#[source] Denied),
    #[error("the server could not find the requested resource")]
    NoPath,
    #[error("{PLURAL}.{GROUP} {0:?} not found")]
    NoPackage(String),
    #[error("{0} is not supported on resources of kind \"{PLURAL}.{GROUP}\"")]
    Method(&'static str),
    #[error("only the following media types are accepted: application/json")]
    NotAcceptable,
    #[error("{0}")]
    Invalid(String),
    #[error(
        "CatalogSources are not read yet, or not by this replica of rukpak-platform (--olmv0=on, --leader-elect); try again"
    )]
    NotRead,
    #[error(
        "OLM runs: CatalogSources are left to it, and its PackageManifests are at the APIService of OLM's manifests"
    )]
    NotOurs,
}

impl<'a> Route<'a> {
    pub fn read(path: &'a str) -> Option<Self> {
        let segments: Vec<&str> = path.strip_prefix('/')?.trim_end_matches('/').split('/').collect();
        let rest = match segments.as_slice() {
            ["apis"] => return Some(Self::Groups),
            ["apis", GROUP] => return Some(Self::Group),
            ["apis", GROUP, VERSION, rest @ ..] => rest,
            _ => return None,
        };
        match *rest {
            [] => Some(Self::Resources),
            [PLURAL] => Some(Self::Collection(None)),
            ["namespaces", namespace, PLURAL] => Some(Self::Collection(Some(namespace))),
            ["namespaces", namespace, PLURAL, name] => Some(Self::Package(namespace, name)),
            ["namespaces", namespace, PLURAL, name, "icon"] => Some(Self::Icon(namespace, name)),
            _ => None,
        }
    }

    /// What the right has to be for; `None` for discovery.
    pub fn attributes(&self) -> Option<ResourceAttributes> {
        let (verb, namespace, name, subresource) = match *self {
            Self::Groups | Self::Group | Self::Resources => return None,
            Self::Collection(namespace) => ("list", namespace, None, None),
            Self::Package(namespace, name) => ("get", Some(namespace), Some(name), None),
            Self::Icon(namespace, name) => ("get", Some(namespace), Some(name), Some("icon")),
        };
        Some(ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(GROUP.to_owned()),
            version: Some(VERSION.to_owned()),
            resource: Some(PLURAL.to_owned()),
            subresource: subresource.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        })
    }
}

impl Wanted {
    /// Reads method, query and headers. `limit` and `continue` are passed over: all comes at once, as upstream.
    pub fn read(call: &Parts, route: &Route<'_>) -> Result<Self, Refusal> {
        if call.method != Method::GET {
            return Err(Refusal::Method(verb(&call.method, route)));
        }
        let mut wanted = Self {
            // An icon is whatever it is.
            form: if matches!(route, Route::Icon(..)) { Form::Object } else { form(&call.headers)? },
            labels: Selector::default(),
            named: None,
        };
        for (key, value) in form_urlencoded::parse(call.uri.query().unwrap_or_default().as_bytes()) {
            match (&*key, &*value, wanted.form) {
                ("watch", "true" | "1", _) => return Err(Refusal::Method("watch")),
                ("labelSelector", text, _) => {
                    let invalid = |why: String| Refusal::Invalid(format!("unable to parse requirement: {why}"));
                    wanted.labels = selector::labels(text).map_err(invalid)?;
                }
                ("fieldSelector", text, _) => wanted.named = selector::name(text).map_err(Refusal::Invalid)?,
                ("includeObject", "None", Form::Table(_)) => wanted.form = Form::Table(Rows::Cells),
                ("includeObject", "Object", Form::Table(_)) => wanted.form = Form::Table(Rows::Object),
                _ => {}
            }
        }
        Ok(wanted)
    }
}

/// The first that can be had of those that are accepted. Documents of aggregated discovery cannot: the API server then makes them itself.
fn form(headers: &HeaderMap) -> Result<Form, Refusal> {
    let mut is_any = true;
    for value in headers.get_all(header::ACCEPT) {
        for one in value.to_str().unwrap_or_default().split(',') {
            is_any = false;
            let mut parts = one.split(';').map(str::trim);
            if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
                continue;
            }
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            match (parameter("as"), parameter("g"), parameter("v")) {
                (None, ..) => return Ok(Form::Object),
                (Some("Table"), Some("meta.k8s.io"), Some("v1")) => return Ok(Form::Table(Rows::Metadata)),
                (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
                    return Ok(Form::Metadata);
                }
                _ => {}
            }
        }
    }
    if is_any { Ok(Form::Object) } else { Err(Refusal::NotAcceptable) }
}

/// The verb that the API server makes of a method.
fn verb(method: &Method, route: &Route<'_>) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if matches!(route, Route::Collection(_)) => "deletecollection",
        Method::DELETE => "delete",
        _ => "this method",
    }
}

fn forbidden(user: &str, asked: &ResourceAttributes) -> String {
    let verb = asked.verb.as_deref().unwrap_or_default();
    let resource = match &asked.subresource {
        Some(subresource) => format!("{PLURAL}/{subresource}"),
        None => PLURAL.to_owned(),
    };
    let place = match &asked.namespace {
        Some(namespace) => format!("in the namespace {namespace:?}"),
        None => "at the cluster scope".to_owned(),
    };
    let name = asked.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    format!(
        "{PLURAL}.{GROUP}{name} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {GROUP:?} {place}"
    )
}

impl IntoResponse for Refusal {
    /// A Status, as clients of the API server expect it.
    fn into_response(self) -> Response {
        let (code, reason) = match &self {
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Forbidden { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::NoPath | Self::NoPackage(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Unasked(_) => {
                tracing::warn!(error = %Chain(&self), "cannot authorize a call for PackageManifests");
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable")
            }
            Self::NotRead | Self::NotOurs => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        };
        let mut details = json!({"group": GROUP, "kind": PLURAL});
        if let Self::NoPackage(name) = &self {
            details["name"] = json!(name);
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "reason": reason, "details": details, "code": code.as_u16()});
        (code, Json(status)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;

    use super::*;

    fn wanted(method: &str, query: &str, accept: &str) -> Result<Wanted, String> {
        let uri = format!("/apis/{GROUP}/v1/{PLURAL}?{query}");
        let mut request = Request::builder().method(method).uri(uri);
        if !accept.is_empty() {
            request = request.header(header::ACCEPT, accept);
        }
        let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
        Wanted::read(&parts, &Route::Collection(None)).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn a_path_names_discovery_a_collection_an_object_or_nothing() {
        let at = |rest: &str| format!("/apis/{GROUP}{rest}");
        assert_eq!(Route::read("/apis"), Some(Route::Groups));
        assert_eq!(Route::read(&at("")), Some(Route::Group));
        assert_eq!(Route::read(&at("/v1/")), Some(Route::Resources));
        assert_eq!(Route::read(&at("/v1/packagemanifests")), Some(Route::Collection(None)));
        assert_eq!(Route::read(&at("/v1/namespaces/a/packagemanifests")), Some(Route::Collection(Some("a"))));
        assert_eq!(Route::read(&at("/v1/namespaces/a/packagemanifests/p")), Some(Route::Package("a", "p")));
        assert_eq!(Route::read(&at("/v1/namespaces/a/packagemanifests/p/icon")), Some(Route::Icon("a", "p")));
        for path in ["", "/", "/healthz", "/openapi/v2", "/openapi/v3", "/apis/apps", "/apis/apps/v1/deployments"] {
            assert_eq!(Route::read(path), None, "{path}");
        }
        for rest in ["/v2", "/v1/packagemanifests/p", "/v1/namespaces/a/pods", "/v1/namespaces/a/packagemanifests/p/x"]
        {
            assert_eq!(Route::read(&at(rest)), None, "{rest}");
        }
    }

    #[test]
    fn sends_the_first_form_that_is_accepted_and_can_be_had() {
        let form = |accept: &str| wanted("GET", "", accept).map(|wanted| wanted.form);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let other = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for accept in ["", "*/*", "application/json, */*"] {
            assert_eq!(form(accept), Ok(Form::Object), "{accept}");
        }
        assert_eq!(form(&format!("{table},{other},application/json")), Ok(Form::Table(Rows::Metadata)));
        assert_eq!(form(&format!("{other}, application/json")), Ok(Form::Object));
        assert_eq!(form("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"), Ok(Form::Metadata));
        assert_eq!(form(&format!("application/yaml,{discovery},application/json")), Ok(Form::Object));
        for accept in [discovery, other, "application/yaml"] {
            assert!(form(accept).unwrap_err().contains("application/json"), "{accept}");
        }
        let rows = |query: &str| wanted("GET", query, table).unwrap().form;
        assert_eq!(rows("includeObject=Object&limit=500"), Form::Table(Rows::Object));
        assert_eq!(rows("includeObject=None"), Form::Table(Rows::Cells));
    }

    #[test]
    fn whatever_writes_or_watches_is_refused_in_the_api_servers_words() {
        let refusal = |method, query| wanted(method, query, "").unwrap_err();
        let kind = "is not supported on resources of kind \"packagemanifests.packages.operators.coreos.com\"";
        assert_eq!(refusal("GET", "watch=true"), format!("watch {kind}"));
        assert_eq!(refusal("POST", ""), format!("create {kind}"));
        assert_eq!(refusal("DELETE", ""), format!("deletecollection {kind}"));
        assert_eq!(refusal("GET", "fieldSelector=status.x%3Da"), "field label not supported: status.x");
        assert!(wanted("GET", "watch=false", "").is_ok());
        let asked = Route::Package("a", "p").attributes().unwrap();
        assert_eq!(
            Refusal::Forbidden { user: "ann".to_owned(), asked: Box::new(asked) }.to_string(),
            "packagemanifests.packages.operators.coreos.com \"p\" is forbidden: User \"ann\" cannot get resource \
             \"packagemanifests\" in API group \"packages.operators.coreos.com\" in the namespace \"a\""
        );
    }
}
