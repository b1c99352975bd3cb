//! A client whose requests a function answers: for what is asked and sent, to the letter. What the API server makes of it is for the
//! suites.

mod account;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Method and path, without the query.
    pub what: String,
    /// Whom it is made for, if that is not the client itself.
    pub user: Option<String>,
    pub body: Value,
}

/// Returns a client, and what it was asked so far.
pub fn client(answer: impl Fn(&Asked) -> Value + Send + Sync + 'static) -> (Client, Arc<Mutex<Vec<Asked>>>) {
    let (answer, log) = (Arc::new(answer), Arc::<Mutex<Vec<Asked>>>::default());
    let asked = log.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (answer, log) = (answer.clone(), log.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let asked = Asked {
                what: format!("{} {}", parts.method, parts.uri.path()),
                user: parts.headers.get("impersonate-user").map(|user| user.to_str().unwrap().to_owned()),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            let answer = answer(&asked).to_string();
            log.lock().unwrap().push(asked);
            Ok::<_, Infallible>(Response::new(Body::from(answer.into_bytes())))
        }
    });
    (Client::new(service, "default"), asked)
}
