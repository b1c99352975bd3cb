//! Which Events tell what happened to a PlatformOperator, a ClusterCatalog or a ClusterExtension.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use rukpak_crds::condition::{Conditions, INSTALLED, READY};
use rukpak_crds::olm::{self, PROGRESSING};
use rukpak_crds::{Condition, ConditionStatus, PlatformOperator, PlatformOperatorStatus};
use rukpak_runtime::events::{self, EventType, News};

const COMPONENT: &str = "rukpak-platform";
/// What a bundle depends on is not installed any more.
const DEPENDENCY_LOST: &str = "DependencyLost";

pub(crate) struct Events(events::Events);

impl Events {
    /// In the name of this program.
    pub fn new(client: Client) -> Self {
        Self(events::Events::new(client, COMPONENT, "Reconcile"))
    }

    /// Tells of the change from `before` to `after`, if `Installed` is another one.
    pub fn tell(&self, operator: &PlatformOperator, before: &PlatformOperatorStatus, after: &PlatformOperatorStatus) {
        let installed = |status: &PlatformOperatorStatus| status.conditions.find(INSTALLED).cloned();
        let Some(now) = installed(after) else { return };
        if installed(before).is_some_and(|before| is_same(&before, &now)) {
            return;
        }
        // What is under way is no reason to worry.
        let is_bad = after.conditions.is(READY, ConditionStatus::False);
        let type_ = if is_bad { EventType::Warning } else { EventType::Normal };
        self.0.tell(operator.object_ref(&()), &News { type_, reason: now.reason, message: now.message });
    }

    /// Tells that something is gone, or another version by now, which the object depends on: somebody has said that it may.
    pub fn tell_lost(&self, about: ObjectReference, message: String) {
        self.0.tell(about, &News { type_: EventType::Warning, reason: DEPENDENCY_LOST.to_owned(), message });
    }

    /// Tells of a condition of an object of OLM v1 that says something else than before.
    pub fn tell_condition(&self, about: ObjectReference, before: Option<&Condition>, now: &Condition) {
        if before.is_some_and(|before| is_same(before, now)) {
            return;
        }
        let is_bad = [olm::reason::RETRYING, olm::reason::BLOCKED].contains(&now.reason.as_str())
            || (now.type_ == PROGRESSING && now.status == ConditionStatus::False);
        let type_ = if is_bad { EventType::Warning } else { EventType::Normal };
        self.0.tell(about, &News { type_, reason: now.reason.clone(), message: now.message.clone() });
    }
}

fn is_same(before: &Condition, after: &Condition) -> bool {
    (before.status, &before.reason) == (after.status, &after.reason)
}
