//! What the admission webhook may list: the kinds that CRDs of BundleDeployments define.
//!
//! The webhook looks at the objects of a CRD before a new version of it is let in, and anybody who reaches its port can
//! ask it to look. So it may not list everything, and nobody knows the kinds beforehand: a ClusterRole that the manifests make, and bind,
//! holds them, and this keeps its rules. It is only ever changed, never made: where it was removed, so was the webhook.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use rukpak_crds::names::{FIELD_MANAGER, OWNER_KIND, OWNER_KIND_VALUE};
use rukpak_format::BUILT_IN_GROUPS;
use rukpak_runtime::api;
use rukpak_runtime::status::WrittenVersions;
use serde_json::json;

/// The ClusterRole, as the manifests name it.
const ROLE: &str = "rukpak-webhook-objects";
/// Until a write that failed is tried again: nothing need change by which it would be.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether a group with a dot is Kubernetes' own: a rule about a CRD of that name would grant what it is not about.
fn is_built_in(group: &str) -> bool {
    BUILT_IN_GROUPS.contains(&group) || group == "metrics.k8s.io"
}

/// CRDs by name: `<plural>.<group>`.
type Names = BTreeSet<String>;

/// Keeps the rules, endlessly.
pub(super) async fn follow(client: Client) -> &'static str {
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let cluster_roles: Api<ClusterRole> = Api::all(client);
    let owned = watcher::Config::default().labels(&format!("{OWNER_KIND}={OWNER_KIND_VALUE}"));
    let mut events = pin!(watcher::watcher(definitions, owned).default_backoff());
    let mut sights = pin!(watcher::watch_object(cluster_roles.clone(), ROLE).default_backoff());
    let (mut names, mut listed, mut role) = (None::<Names>, Names::new(), Role::default());
    loop {
        tokio::select! {
            Some(event) = events.next() => match event {
                Ok(Event::Init) => listed = Names::new(),
                Ok(Event::InitApply(definition)) => {
                    listed.insert(definition.name_any());
                }
                Ok(Event::InitDone) => names = Some(std::mem::take(&mut listed)),
                Ok(Event::Apply(definition)) => {
                    names.get_or_insert_default().insert(definition.name_any());
                }
                Ok(Event::Delete(definition)) => {
                    names.get_or_insert_default().remove(&definition.name_any());
                }
                Err(error) => tracing::debug!(%error, "watch over CustomResourceDefinitions interrupted; resuming"),
            },
            Some(sight) = sights.next() => match sight {
                Ok(sight) => role.see(sight),
                Err(error) => tracing::debug!(%error, "watch over the webhook's ClusterRole interrupted; resuming"),
            },
            () = tokio::time::sleep(PAUSE), if role.is_failing => {}
        }
        if let Some(names) = &names {
            role.keep(&cluster_roles, &rules(names)).await;
        }
    }
}

/// The role, as the newest answer of the API server has it: the watch lags behind our writes.
#[derive(Default)]
struct Role {
    known: Option<ClusterRole>,
    /// Our last write, until the watch shows it.
    written: WrittenVersions,
    /// Whether the last write failed.
    is_failing: bool,
}

impl Role {
    /// What the watch shows.
    fn see(&mut self, sight: Option<ClusterRole>) {
        if !sight.as_ref().is_some_and(|role| self.written.is_stale(role)) {
            self.know(sight);
        }
    }

    fn know(&mut self, role: Option<ClusterRole>) {
        self.known = role;
        self.written = WrittenVersions::default();
    }

    fn wrote(&mut self, role: ClusterRole) {
        self.written.record(&role);
        self.known = Some(role);
    }

    /// Writes the rules where they are others. What fails is told once, until it succeeds.
    async fn keep(&mut self, cluster_roles: &Api<ClusterRole>, rules: &[PolicyRule]) {
        let mut done = self.write(cluster_roles, rules).await;
        if done.as_ref().is_err_and(api::Error::is_conflict) {
            tracing::debug!(role = ROLE, "write conflict; reading the object again");
            done = self.rewrite(cluster_roles, rules).await;
        }
        let was_failing = std::mem::replace(&mut self.is_failing, done.is_err());
        match done {
            Err(error) if was_failing => {
                tracing::debug!(role = ROLE, %error, "still cannot write the rules of the webhook's ClusterRole");
            }
            Err(error) => {
                tracing::warn!(role = ROLE, %error, "cannot write the rules of the webhook's ClusterRole; trying again");
            }
            Ok(()) => {}
        }
    }

    async fn rewrite(&mut self, cluster_roles: &Api<ClusterRole>, rules: &[PolicyRule]) -> Result<(), api::Error> {
        self.know(cluster_roles.get_opt(ROLE).await?);
        self.write(cluster_roles, rules).await
    }

    async fn write(&mut self, cluster_roles: &Api<ClusterRole>, rules: &[PolicyRule]) -> Result<(), api::Error> {
        let Some(role) = self.known.as_ref().filter(|role| role.rules.as_deref().unwrap_or_default() != rules) else {
            return Ok(());
        };
        let patch = json!({"metadata": {"resourceVersion": role.resource_version()}, "rules": rules});
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = cluster_roles.patch(ROLE, &parameters, &Patch::Merge(patch)).await?;
        let (role, kinds) = (ROLE, rules.len());
        tracing::info!(role, kinds, "the webhook may list the objects of the CRDs of BundleDeployments");
        self.wrote(written);
        Ok(())
    }
}

/// The rules: a group each, so that they are few.
fn rules(definitions: &Names) -> Vec<PolicyRule> {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (plural, group) in definitions.iter().filter_map(|name| name.split_once('.')) {
        if group.contains('.') && !is_built_in(group) {
            groups.entry(group).or_default().insert(plural);
        }
    }
    let owned = |text: &str| text.to_owned();
    let rule = |(group, plurals): (&str, BTreeSet<&str>)| PolicyRule {
        api_groups: Some(vec![owned(group)]),
        resources: Some(plurals.into_iter().map(owned).collect()),
        verbs: vec![owned("list")],
        ..PolicyRule::default()
    };
    groups.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_listed_and_nothing_else() {
        let names = ["pumps.example.com", "valves.example.com", "as.b.example.org"].map(str::to_owned).into();
        let rules = rules(&names);
        let words: Vec<_> = rules.iter().map(|rule| json!(rule).to_string()).collect();
        assert_eq!(
            words,
            [
                r#"{"apiGroups":["b.example.org"],"resources":["as"],"verbs":["list"]}"#,
                r#"{"apiGroups":["example.com"],"resources":["pumps","valves"],"verbs":["list"]}"#
            ]
        );
    }

    #[test]
    fn an_answer_from_before_our_write_changes_nothing() {
        let role = |uid: &str, version: u64| -> ClusterRole {
            let metadata = json!({"name": "r", "uid": uid, "resourceVersion": version.to_string()});
            serde_json::from_value(json!({"metadata": metadata})).expect("a ClusterRole")
        };
        let mut ours = Role::default();
        let version = |ours: &Role| ours.known.as_ref().and_then(ResourceExt::resource_version).unwrap_or_default();
        ours.see(Some(role("a", 5)));
        ours.wrote(role("a", 9));
        // What others wrote before us, and our own write.
        for late in [5, 7, 9] {
            ours.see(Some(role("a", late)));
            assert_eq!(version(&ours), "9", "{late}");
        }
        ours.see(Some(role("a", 8)));
        assert_eq!(version(&ours), "8", "ours was shown: now it is the cluster that went back, to a backup");
        ours.wrote(role("a", 10));
        ours.see(Some(role("b", 3)));
        assert_eq!(version(&ours), "3", "another role of that name");
        ours.see(None);
        assert!(ours.known.is_none());
    }

    #[test]
    fn a_definition_named_like_a_built_in_kind_grants_nothing() {
        let names = ["secrets", "secrets.", "deployments.apps", "clusterroles.rbac.authorization.k8s.io"];
        assert!(rules(&names.map(str::to_owned).into()).is_empty());
        assert!(rules(&Names::new()).is_empty());
    }
}
