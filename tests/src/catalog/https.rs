//! Catalogs as catalogd serves them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::{Documents, documents};
use crate::registry::digest;
use crate::tls::{Served, serve};
use crate::{FaultyServer, TestCa};

/// `/catalogs/<name>/api/v1/all` over https on a loopback port, with an ETag. It ends when dropped.
pub struct CatalogdServer {
    served: Served,
    ca: TestCa,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    catalogs: Mutex<BTreeMap<String, String>>,
    /// Statuses of the answers so far.
    answers: Mutex<Vec<StatusCode>>,
}

impl CatalogdServer {
    /// Starts a server without catalogs: each is a 404 until it is put there.
    pub fn start() -> Result<Self> {
        let (ca, shared) = (TestCa::new("catalogd-ca")?, Arc::<Shared>::default());
        let router = Router::new().route("/catalogs/{name}/api/v1/all", get(answer)).with_state(Arc::clone(&shared));
        Ok(Self { served: serve(router, &ca.localhost()?)?, ca, shared })
    }

    /// Serves `catalog` as `name` from now on, in place of what was there.
    pub fn put(&self, name: &str, catalog: Documents) -> Result<()> {
        let text = documents::checked(catalog)?.json_lines();
        self.shared.catalogs.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), text);
        Ok(())
    }

    /// The base URL of a catalog: `https://localhost:port/catalogs/<name>`.
    pub fn url(&self, name: &str) -> String {
        format!("https://localhost:{}/catalogs/{name}", self.served.address().port())
    }

    /// The certificate authority that a client must trust.
    pub fn ca_pem(&self) -> String {
        self.ca.pem()
    }

    /// A server in front of this one that breaks answers as it is told. Its URLs end as those of this one do.
    pub fn behind_faults(&self) -> Result<FaultyServer> {
        let base = format!("https://localhost:{}", self.served.address().port());
        FaultyServer::before(&TestCa::new("faulty-catalogd-ca")?, &base, &self.ca_pem())
    }

    /// The statuses of the answers so far.
    pub fn answers(&self) -> Vec<StatusCode> {
        self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let text = shared.catalogs.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
    let response = match text {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(text) => {
            let tag = format!("\"{}\"", digest(text.as_bytes()));
            let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
            let head = [(header::ETAG, tag.clone()), (header::CONTENT_TYPE, "application/jsonl".to_owned())];
            if known == Some(tag.as_str()) {
                (StatusCode::NOT_MODIFIED, head).into_response()
            } else {
                (head, text).into_response()
            }
        }
    };
    shared.answers.lock().unwrap_or_else(PoisonError::into_inner).push(response.status());
    response
}
