//! What OLM has installed goes on as what its Subscriptions have installed, with the same objects, and goes back.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::olmv0::{Operator, Subscribed, programs};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{Documents, ImageBuilder};
use serde_json::{Value, json};

use super::case::{Case, reason, text};
use super::world::{GLOBAL, World};
use crate::olmv0::case::{files, is_followed, running};
use crate::olmv0::world::{Did, migrate};

const FIXTURE: &str = "registry/pump";
/// Long enough for many passes.
const MOMENT: Duration = Duration::from_secs(3);

/// An operator that OLM has installed in version 1.0.0.
struct Olms {
    case: Case,
    operator: Operator,
    /// The images of both versions.
    images: Vec<(&'static str, String)>,
}

impl Olms {
    async fn install(world: &'static World, prefix: &str, approval: &str) -> Self {
        let case = Case::within(world, prefix, None).await;
        let mut images = Vec::new();
        for version in ["1.0.0", "1.1.0"] {
            let image = ImageBuilder::of_files(files(FIXTURE, &case.package, &case.package, version));
            let pushed = world.registry.push(&case.package, &format!("v{version}"), &image).await;
            images.push((version, pushed.expect("the registry takes it").reference));
        }
        let subscribed = Subscribed {
            namespace: case.space.clone(),
            package: case.package.clone(),
            targets: vec![String::new()],
            catalog: (GLOBAL.to_owned(), case.package.clone()),
            approval: approval.to_owned(),
            config: Value::Null,
        };
        let installed = files(FIXTURE, &case.package, &case.package, "1.0.0");
        let operator = Operator::install(&case.client, &installed, &images[0].1, subscribed).await;
        let olms = Self { case, operator, images };
        let source = olms.case.source(&olms.catalog(1).await);
        olms.case.applies(&[source]).await;
        let is_rolled_out = |object: &DynamicObject| object.data["status"]["availableReplicas"] == 1;
        olms.case.until_object(&olms.manager(), "its Pod", is_rolled_out).await;
        olms
    }

    /// Pushes a catalog with so many versions; returns its image.
    async fn catalog(&self, versions: usize) -> String {
        let pairs: Vec<(&str, &str)> =
            self.images.iter().take(versions).map(|(version, image)| (*version, image.as_str())).collect();
        self.case.push_catalog(Documents::package(&self.case.package, &pairs)).await
    }

    /// Has the CatalogSource offer so many versions.
    async fn publish(&self, versions: usize) {
        let source = Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", GLOBAL, &self.case.package);
        let patch = json!({"spec": {"image": self.catalog(versions).await}});
        self.case.merge_into(&source, &patch).await;
    }

    fn manager(&self) -> Target {
        self.case.named("Deployment", &format!("{}-manager", self.case.package))
    }

    /// Runs `rukpakctl migrate` on the Subscription.
    async fn migrate(&self, arguments: &[&str]) -> Did {
        let (plane, object) = (&self.case.world.plane, format!("subscription/{}", self.case.package));
        let all = [&[object.as_str(), "-n", self.case.space.as_str()], arguments].concat();
        migrate(plane, plane.kubeconfig_path(), &all).await
    }

    async fn migrated(&self, arguments: &[&str]) {
        let did = self.migrate(arguments).await;
        assert_eq!(did.code, Some(0), "{did:?}");
        assert!(!did.err.contains("are replaced"), "{did:?}");
    }

    /// Waits until the Subscription says that all is well; nothing but what OLM has planned was planned.
    async fn until_followed(&self) {
        let is_well = |object: &DynamicObject| {
            text(object, "/status/state") == "AtLatestKnown"
                && text(object, "/status/installedCSV") == self.operator.csv
                && reason(object, "ResolutionFailed").is_empty()
                && reason(object, "InstallPlanMissing").is_empty()
        };
        let subscription = self.case.until_object(&self.case.subscribed(), "AtLatestKnown", is_well).await;
        assert_eq!(text(&subscription, "/status/installPlanRef/name"), self.operator.plan_target().name);
        assert_eq!(self.plans().await, [self.operator.plan_target().name]);
    }

    /// The InstallPlans of the namespace.
    async fn plans(&self) -> Vec<String> {
        let all = verbs::list(&self.case.client, "operators.coreos.com/v1alpha1", "InstallPlan", "").await;
        let all = all.expect("a list").into_iter();
        let own = all.filter(|plan| plan.metadata.namespace.as_ref() == Some(&self.case.space));
        own.filter_map(|plan| plan.metadata.name).collect()
    }

    async fn is_followed(&self) {
        is_followed(&self.case.client, &self.operator, &self.case.target()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_of_olm_go_on_here_with_the_same_objects_and_go_back() {
    let world = World::beside(&programs(GLOBAL, 1)).await;
    // Cases hold on to their world.
    let world: &'static World = Box::leak(Box::new(world));
    let automatic = Olms::install(world, "kept", "Automatic").await;
    let manual = Olms::install(world, "lent", "Manual").await;
    let before = [&automatic, &manual].map(|olms| running(&olms.case.client, &olms.operator));
    let before = futures::future::join_all(before).await;

    let refused = automatic.migrate(&["--to", "subscription", "--apply"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("OLM runs (deployment/olm-operator"), "{refused:?}");
    let programs = "deployment/olm-operator deployment/catalog-operator";
    automatic.case.types(&format!("kubectl -n {GLOBAL} scale --replicas=0 {programs}")).await;
    let pods = "'app in (olm-operator, catalog-operator)'";
    automatic.case.types(&format!("kubectl -n {GLOBAL} wait --for=delete pod -l {pods} --timeout=2m")).await;

    // Nobody has said that they are to be taken over.
    for olms in [&automatic, &manual] {
        let left = olms.case.until_said("ResolutionFailed", "ErrorPreventedResolution").await;
        let told = verbs::condition(&left, "ResolutionFailed").map(|found| found["message"].to_string());
        assert!(told.as_ref().is_some_and(|told| told.contains("--to subscription")), "{told:?}");
        assert_eq!(text(&left, "/status/installedCSV"), olms.operator.csv);
        assert!(olms.case.find(&olms.case.target()).await.is_none(), "nothing is installed a second time");
    }
    for olms in [&automatic, &manual] {
        olms.migrated(&["--to", "subscription", "--apply"]).await;
        olms.until_followed().await;
        olms.is_followed().await;
    }
    // The one that asks has nothing to ask.
    let asks = |object: &DynamicObject| text(object, "/spec/approval") == "Always";
    manual.case.until_object(&manual.case.target(), "approval Always", asks).await;
    let rests =
        |object: Option<&DynamicObject>| object.is_some_and(|object| text(object, "/status/state") == "AtLatestKnown");
    let subscribed = manual.case.subscribed();
    verbs::holds_for(&manual.case.client, &subscribed, "at rest", MOMENT, rests).await.expect("nothing is asked");
    manual.until_followed().await;
    let after = [&automatic, &manual].map(|olms| running(&olms.case.client, &olms.operator));
    assert_eq!(futures::future::join_all(after).await, before, "no Pod is replaced");

    // What waits for an answer is not there, and does not bar the way back.
    manual.publish(2).await;
    manual.case.until_planned("1.1.0", "RequiresApproval").await;
    goes_back(&manual).await;
    assert_eq!(running(&manual.case.client, &manual.operator).await, before[1], "no Pod is replaced");
    upgrades(&automatic).await;
}

/// What OLM finds when it is started again is what it has left.
async fn goes_back(olms: &Olms) {
    let (case, operator) = (&olms.case, &olms.operator);
    olms.migrated(&["--back", "--apply"]).await;
    assert!(case.find(&case.target()).await.is_none(), "the BundleDeployment is there still");
    let csv = case.get(&operator.csv_target()).await;
    assert_eq!(csv.metadata.uid.as_ref(), Some(&operator.csv_uid));
    assert_eq!(csv.metadata.finalizers.as_deref(), Some(&["operators.coreos.com/csv-cleanup".to_owned()][..]));
    let manager = case.get(&olms.manager()).await;
    let labels = manager.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("olm.owner"), Some(&operator.csv));
    assert_eq!(labels.get("olm.deployment-spec-hash").map(String::as_str), Some("6Rz"));
    let owners = manager.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.iter().map(|owner| &owner.uid).collect::<Vec<_>>(), [&operator.csv_uid]);
    assert_eq!(olms.plans().await, [operator.plan_target().name]);
    let plan = case.get(&operator.plan_target()).await;
    assert_eq!(text(&plan, "/status/bundleLookups/0/path"), olms.images[0].1, "it names the image");
    let left = case.until_said("ResolutionFailed", "ErrorPreventedResolution").await;
    for name in ["currentCSV", "installedCSV"] {
        assert_eq!(text(&left, &format!("/status/{name}")), operator.csv, "{name}");
    }
    assert_eq!(text(&left, "/status/installPlanRef/name"), operator.plan_target().name);
}

/// From then on it is a Subscription like others.
async fn upgrades(olms: &Olms) {
    let (case, manager) = (&olms.case, olms.case.get(&olms.manager()).await);
    olms.publish(2).await;
    case.until_succeeded("1.1.0").await;
    case.until_planned("1.1.0", "Complete").await;
    case.until_gone(&case.csv("1.0.0")).await;
    let upgraded = case.get(&olms.manager()).await;
    assert_eq!(upgraded.metadata.uid, manager.metadata.uid, "it is changed in place");
    let refused = olms.migrate(&["--back", "--apply"]).await;
    assert!(refused.err.contains("it cannot go back from another version"), "{refused:?}");
}
