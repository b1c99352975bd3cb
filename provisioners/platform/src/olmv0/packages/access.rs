//! Whether somebody may: the API server is asked, and after a yes not again for some seconds.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use kube::Client;
use rukpak_runtime::access::Gate;
use rukpak_runtime::lock::lock;

use super::request::Refusal;

/// How long a yes counts: as long as with upstream's server.
const KEPT: Duration = Duration::from_secs(10);
/// Answers that are kept.
const ANSWERS: usize = 1024;

/// Asks the API server who may what.
pub(super) struct Access {
    gate: Gate,
    /// When each question was answered with yes. A no is asked again.
    allowed: Mutex<HashMap<String, Instant>>,
}

impl Access {
    /// Nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self { gate: Gate::new(client, Vec::new()), allowed: Mutex::default() }
    }

    /// Checks that the user may do what is asked.
    pub async fn check(&self, user: &UserInfo, asked: ResourceAttributes) -> Result<(), Refusal> {
        let question = serde_json::to_string(&(user, &asked)).unwrap_or_default();
        if lock(&self.allowed).get(&question).is_some_and(|answered| answered.elapsed() < KEPT) {
            return Ok(());
        }

        let spec =
            SubjectAccessReviewSpec { resource_attributes: Some(asked.clone()), ..SubjectAccessReviewSpec::default() };
        let may = self.gate.may(user, spec).await.map_err(Refusal::Unasked)?;
        if !may {
            let user = user.username.clone().unwrap_or_default();
            return Err(Refusal::Forbidden { user, asked: Box::new(asked) });
        }

        let mut allowed = lock(&self.allowed);
        if allowed.len() >= ANSWERS {
            allowed.retain(|_, answered| answered.elapsed() < KEPT);
        }
        if allowed.len() < ANSWERS {
            allowed.insert(question, Instant::now());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// An API server that says this, and how often it was asked.
    fn access(allowed: bool) -> (Access, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = json!({"spec": {}, "status": {"allowed": allowed}});
            ready(Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes()))))
        });
        (Access::new(Client::new(service, "default")), asked)
    }

    #[tokio::test]
    async fn a_yes_is_asked_for_once_and_a_no_each_time() {
        let user = |name: &str| UserInfo { username: Some(name.to_owned()), ..UserInfo::default() };
        let asked = |verb: &str| ResourceAttributes { verb: Some(verb.to_owned()), ..ResourceAttributes::default() };
        let (access, count) = access(true);
        for (name, verb, questions) in [("a", "get", 1), ("a", "get", 1), ("a", "list", 2), ("b", "get", 3)] {
            access.check(&user(name), asked(verb)).await.unwrap();
            assert_eq!(count.load(Ordering::Relaxed), questions, "{name} {verb}");
        }
        let (access, count) = self::access(false);
        for questions in 1..3 {
            assert!(matches!(access.check(&user("a"), asked("get")).await, Err(Refusal::Forbidden { .. })));
            assert_eq!(count.load(Ordering::Relaxed), questions);
        }
    }
}
