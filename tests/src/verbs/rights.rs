//! Waiting for rights: they come a moment after they are granted, and cannot be watched. Only the API server knows.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{PATIENCE, Target, get};

/// Between two questions.
const INTERVAL: Duration = Duration::from_millis(20);

/// Waits until a user may do what the rules (of a Role or ClusterRole, as JSON) say: the first verb on the first of each rule's
/// resources or URLs.
pub async fn await_rules(client: &Client, user: &str, namespace: Option<&str>, rules: &Value) -> Result<()> {
    for rule in rules.as_array().into_iter().flatten() {
        let first = |list: &str| rule[list][0].as_str();
        let verb = first("verbs").with_context(|| format!("a rule without verbs: {rule}"))?;
        let attributes = match first("nonResourceURLs") {
            Some(path) => json!({"nonResourceAttributes": {"verb": verb, "path": path}}),
            None => json!({"resourceAttributes": {
                "verb": verb, "group": first("apiGroups"), "resource": first("resources"),
                "name": first("resourceNames"), "namespace": namespace}}),
        };
        await_allowed(client, user, attributes).await?;
    }
    Ok(())
}

/// Waits until a user may do what a ClusterRole says that was bound to it.
pub async fn await_role(client: &Client, user: &str, role: &str) -> Result<()> {
    let target = Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", role);
    let object = get(client, &target).await?.with_context(|| format!("there is no {target}"))?;
    await_rules(client, user, None, &object.data["rules"]).await
}

async fn await_allowed(client: &Client, user: &str, mut spec: Value) -> Result<()> {
    spec["user"] = json!(user);
    let review: SubjectAccessReview = serde_json::from_value(json!({"metadata": {}, "spec": spec}))?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = reviews.create(&PostParams::default(), &review).await.context("ask for rights")?;
        if answer.status.is_some_and(|status| status.allowed) {
            return Ok(());
        }
        if tokio::time::Instant::now() > end {
            bail!("not allowed after {PATIENCE:?}: {spec}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
