//! CustomResourceDefinitions that somebody has deleted: they are made again as long as a Subscription follows the package.
//!
//! Whoever uninstalls an operator with its definitions deletes the Subscription first, as `operator-sdk cleanup` does, and waits for their
//! end. So the Subscription is looked for in the cluster: the watch may not have shown its end yet.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use rukpak_crds::BundleDeployment;
use rukpak_crds::condition::{ConditionStatus, Conditions as _, DEFINITION_DELETED};
use rukpak_crds::names::RECONCILE_REQUESTED_AT;
use rukpak_runtime::clock;

use super::super::deployment;
use super::super::subscription::is_there;
use super::{Error, Pass};

/// What could not be made again is asked for again after so long.
const PAUSE: Duration = Duration::from_secs(10);

/// What is to be done about definitions.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// None was deleted, or the request for it is not answered yet.
    Nothing,
    Now,
    /// It was asked for a moment ago.
    In(Duration),
}

impl Pass {
    /// Has definitions made again that were deleted; returns when to look again, where nothing else tells.
    pub(super) async fn restore(&self) -> Result<Option<Duration>, Error> {
        let Some(subscription) = &self.subscription else { return Ok(None) };
        let now = clock::now();
        match due(&self.deployment, now) {
            Due::Nothing => return Ok(None),
            Due::In(rest) => return Ok(Some(rest)),
            Due::Now => {}
        }
        let is_there = is_there(subscription, &self.context.client).await.map_err(Error::Subscription)?;
        if is_there {
            let (namespace, package) = (&self.unit.namespace, &self.unit.package);
            tracing::info!(namespace, package, "a CustomResourceDefinition was deleted: it is to be made again");
            deployment::request(&self.deployment, now, &self.context).await.map_err(Error::Deployment)?;
        }
        Ok(None)
    }
}

/// Pure.
fn due(deployment: &BundleDeployment, now: Timestamp) -> Due {
    let Some(status) = &deployment.status else { return Due::Nothing };
    let is_deleted = status.conditions.is(DEFINITION_DELETED, ConditionStatus::True);
    let asked = deployment.annotations().get(RECONCILE_REQUESTED_AT);
    // What is suspended is not written, whoever asks.
    if !is_deleted || deployment.spec.suspend || asked != status.last_handled_reconcile_at.as_ref() {
        return Due::Nothing;
    }
    // What others wrote there may be no time.
    let since = asked.and_then(|asked| asked.parse::<Timestamp>().ok());
    let age = since.and_then(|since| Duration::try_from(now.duration_since(since)).ok());
    match age.and_then(|age| PAUSE.checked_sub(age)) {
        Some(rest) if !rest.is_zero() => Due::In(rest),
        _ => Due::Now,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::conditions;

    /// `Ready` tells of something else.
    fn deployment(is_deleted: bool, asked: Option<&str>, handled: Option<&str>) -> BundleDeployment {
        let told =
            [("Ready", "Unknown", "WaitingForApproval", ""), (DEFINITION_DELETED, "True", DEFINITION_DELETED, "")];
        let told = &told[..=usize::from(is_deleted)];
        let annotations: Value = asked.map_or(json!({}), |asked| json!({RECONCILE_REQUESTED_AT: asked}));
        serde_json::from_value(json!({
            "metadata": {"name": "p.ns", "uid": "u", "annotations": annotations},
            "spec": {"provisionerClassName": "c",
                     "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
            "status": {"conditions": conditions(told), "lastHandledReconcileAt": handled},
        }))
        .unwrap()
    }

    #[test]
    fn a_deleted_definition_is_asked_for_once_and_again_after_a_while() {
        let of = |is_deleted, asked, handled, second: i64| {
            due(&deployment(is_deleted, asked, handled), Timestamp::from_second(second).unwrap())
        };
        let first = Some("1970-01-01T00:01:00Z");
        assert_eq!(of(false, None, None, 60), Due::Nothing);
        assert_eq!(of(true, None, None, 60), Due::Now);
        assert_eq!(of(true, first, None, 60), Due::Nothing, "it is on its way");
        assert_eq!(of(true, first, first, 66), Due::In(Duration::from_secs(4)));
        assert_eq!(of(true, first, first, 70), Due::Now);
        assert_eq!(of(true, Some("me"), Some("me"), 60), Due::Now, "somebody else asked");
        assert_eq!(of(true, first, first, 0), Due::Now, "the clock was put back");
        let mut suspended = deployment(true, None, None);
        suspended.spec.suspend = true;
        assert_eq!(due(&suspended, Timestamp::UNIX_EPOCH), Due::Nothing, "nobody would answer");
    }
}
