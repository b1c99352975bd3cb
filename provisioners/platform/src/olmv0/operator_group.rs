//! The OperatorGroup reconciler: observe -> targets (pure) -> report.

use std::sync::Arc;

use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use rukpak_crds::condition::{Conditions as _, NewCondition};
use rukpak_crds::olmv0::OperatorGroup;
use rukpak_crds::olmv0::operator_group::OperatorGroupStatus;
use rukpak_crds::olmv0::subscription::Reference;
use rukpak_crds::{Condition, ConditionStatus};
use rukpak_runtime::clock;
use rukpak_runtime::status::StatusWriter;

use super::context::Context;
use super::membership::targets;
use super::unit::within;
use crate::outcome::Error;

const MULTIPLE: &str = "MultipleOperatorGroup";

/// One pass over an OperatorGroup.
pub(super) async fn reconcile(group: Arc<OperatorGroup>, context: Arc<Context>) -> Result<Action, Error> {
    let is_over = group.meta().deletion_timestamp.is_some() || !context.gate.is_open();
    if is_over || context.written.is_stale(&*group) {
        return Ok(Action::await_change());
    }
    let namespace = group.namespace().unwrap_or_default();
    let count = within(&context.groups, &namespace).len();
    let targets = targets(&group.spec, &context.namespaces.state());
    if let Err(why) = &targets {
        tracing::warn!(group = %group.name_any(), namespace, why, "targets of an OperatorGroup cannot be found out");
    }
    let status = report(&group, targets.ok(), count, clock::now());
    if group.status.as_ref().is_none_or(|old| !is_same(old, &status)) {
        let mut writer = StatusWriter::within(&context.client, &*group, group.status.as_ref());
        writer.write(&status, &context.written).await.map_err(Error::Status)?;
    }
    Ok(Action::await_change())
}

/// What its status says. Pure.
fn report(group: &OperatorGroup, targets: Option<Vec<String>>, count: usize, now: Timestamp) -> OperatorGroupStatus {
    let old = group.status.as_ref();
    let mut conditions: Vec<Condition> = old.map(|old| old.conditions.clone()).unwrap_or_default();
    if count > 1 {
        let new = NewCondition {
            type_: MULTIPLE,
            status: ConditionStatus::True,
            reason: "MultipleOperatorGroupsFound",
            message: "Multiple OperatorGroup found in the same namespace",
        };
        conditions.set(new, group.meta().generation, now);
    } else {
        conditions.drop_type(MULTIPLE);
    }
    let account = &group.spec.service_account_name;
    OperatorGroupStatus {
        namespaces: targets.or_else(|| old.map(|old| old.namespaces.clone())).unwrap_or_default(),
        service_account_ref: (!account.is_empty()).then(|| Reference {
            kind: "ServiceAccount".to_owned(),
            namespace: group.namespace().unwrap_or_default(),
            name: account.clone(),
            ..Reference::default()
        }),
        last_updated: now,
        conditions,
    }
}

fn is_same(old: &OperatorGroupStatus, new: &OperatorGroupStatus) -> bool {
    *old == OperatorGroupStatus { last_updated: old.last_updated, ..new.clone() }
}
