//! What differs between two revisions: what was asked for, and the objects as they are rendered. The cluster is asked for the files alone.

use kube::ResourceExt as _;
use rukpak_crds::{Bundle, BundleDeployment, Revision};
use rukpak_plan::Plan;
use serde_json::Value;

use super::fields;
use super::report::{Action, Change, Report};
use crate::args::{CertProvider, ServiceArgs};
use crate::cluster::{self, Cluster};
use crate::failure::Failure;
use crate::release::Reader;
use crate::service::Service;

/// What says how a revision went, and not what was asked for.
const OUTCOME: [&str; 6] = ["revision", "bundle", "templateHash", "result", "time", "message"];

/// The fields of source, pin, content and settings that differ, as a report has them.
pub(crate) fn asked(older: &Revision, newer: &Revision) -> Value {
    let [before, after] = [older, newer].map(|revision| {
        let mut value = serde_json::to_value(revision).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.retain(|key, _| !OUTCOME.contains(&key.as_str()));
        }
        value
    });
    serde_json::to_value(fields::changes(&before, &after, false)).unwrap_or_default()
}

/// Who reads the files of revisions.
pub(crate) struct Files<'a> {
    pub cluster: &'a Cluster,
    pub deployment: &'a BundleDeployment,
    pub certificates: Option<CertProvider>,
    pub service: &'a ServiceArgs,
}

impl Files<'_> {
    /// What has become of the objects from one revision to the other, as `diff --output json` prints it.
    pub(crate) async fn between(&self, older: &Revision, newer: &Revision) -> Result<Value, Failure> {
        let service = Service::connect(self.cluster, self.service).await?;
        let before = self.plan(&service, older).await?;
        let after = self.plan(&service, newer).await?;
        let from = format!("revision {}", older.revision);
        let report = compared(Report::new(&self.deployment.name_any(), &from, false), &before, &after);
        serde_json::to_value(report).map_err(|error| Failure::unknown(error.to_string()))
    }

    /// The objects of a revision, rendered by its settings.
    async fn plan(&self, service: &Service, revision: &Revision) -> Result<Plan, Failure> {
        let number = revision.revision;
        let bundle = revision.bundle.as_deref().unwrap_or_default();
        let found: Bundle = self.cluster.get(bundle).await.map_err(|error| match error {
            cluster::Error::Refused(status) if status.code == 404 => Failure::no(format!(
                "the files of revision {number} are not served any more: only what is installed and what is asked for has a Bundle"
            )),
            other => other.into(),
        })?;
        let mut deployment = self.deployment.clone();
        deployment.spec.config.clone_from(&revision.release.config);
        let certificates = self.certificates;
        let reader = Reader { certificates, ..Reader::of(&deployment, &self.service.system_namespace) };
        let (content, format) = reader.of_bundle(service, &found).await?;
        reader.plan(self.cluster, &content.tree, format, true).await
    }
}

fn compared(mut report: Report, before: &Plan, after: &Plan) -> Report {
    for (key, step) in &after.steps {
        let Some(old) = before.steps.get(key) else {
            report.changes.push(Change::of_key(key, Action::Create).declared(&step.origin));
            continue;
        };
        let is_secret = key.group.is_empty() && key.kind == "Secret";
        let [was, is] = [old, step].map(|step| fields::declared_in(&step.body()));
        let changed = fields::changes(&was, &is, is_secret);
        if changed.is_empty() {
            report.unchanged += 1;
        } else {
            report.changes.push(Change::of_key(key, Action::Change).declared(&step.origin).with(changed));
        }
    }
    let left = before.steps.keys().filter(|key| !after.steps.contains_key(*key));
    report.changes.extend(left.map(|key| Change::of_key(key, Action::Delete)));
    report
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use kube::core::{ApiResource, GroupVersionKind};
    use rukpak_content::Digest;
    use rukpak_crds::DeletionPolicy;
    use rukpak_format::Format;
    use rukpak_plain::{Object, Origin};
    use rukpak_plan::owner_metadata::OwnerMetadata;
    use rukpak_plan::plan::{Objects, Served};
    use rukpak_plan::{Kind, Owner, Release};
    use serde_json::json;

    use super::*;

    /// A release with this object.
    fn plan(object: Value) -> Plan {
        let object = Object::new(object, Origin::made_from("a test")).unwrap();
        let gvk = GroupVersionKind::gvk(object.group(), object.version(), object.kind());
        let kind = Kind { resource: Arc::new(ApiResource::from_gvk(&gvk)), namespaced: true };
        let served = Served::from([((object.api_version().to_owned(), object.kind().to_owned()), Some(kind))]);
        let owner = Owner { name: "pump".to_owned(), uid: "1".to_owned() };
        let stamp = OwnerMetadata { owner, default_namespace: "n".to_owned(), policy: DeletionPolicy::Delete };
        let release = Release::new(Digest::sha256(b""), Format::Plain, None);
        let (optional, required) = (BTreeSet::new(), BTreeSet::new());
        let objects = Objects { all: vec![object], optional: &optional, required: &required };
        objects.plan(release, &served, &stamp, true).unwrap()
    }

    #[test]
    fn shows_no_value_of_a_secret() {
        let told = |kind: &str| {
            let of = |text: &str| {
                plan(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "data": {"key": text}}))
            };
            let report = compared(Report::new("pump", "revision 1", false), &of("b2xk"), &of("bmV3"));
            serde_json::to_value(report).unwrap()["changes"][0]["fields"].clone()
        };
        assert_eq!(told("Secret"), json!([{"path": ".data.key", "before": "***", "after": "***"}]));
        assert_eq!(told("ConfigMap"), json!([{"path": ".data.key", "before": "b2xk", "after": "bmV3"}]));
    }

    #[test]
    fn tells_what_was_asked_for_and_not_how_it_went() {
        let revision = |number: i64, tag: &str, replicas: i64| -> Revision {
            serde_json::from_value(json!({
                "revision": number, "contentDigest": "sha256:0", "result": "Healthy", "time": "2026-01-01T00:00:00Z",
                "bundle": format!("pump-{number}"), "config": {"replicas": replicas},
                "source": {"type": "image", "image": {"ref": format!("registry.example.com/pump:{tag}")}},
            }))
            .unwrap()
        };
        let told = asked(&revision(1, "v1", 2), &revision(2, "v2", 3));
        assert_eq!(
            told,
            json!([
                {"path": ".config.replicas", "before": 2, "after": 3},
                {"path": ".source.image.ref", "before": "registry.example.com/pump:v1", "after": "registry.example.com/pump:v2"},
            ])
        );
        assert_eq!(asked(&revision(1, "v1", 2), &revision(2, "v1", 2)), json!([]));
    }
}
