//! What users do: how each operation is prepared, what begins it, and how its end is known.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use crate::olmv0::facade::case::{Case, text};
use crate::olmv0::facade::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// CatalogSource, OperatorGroup and Subscription are applied.
    Install,
    /// An InstallPlan that waits is approved.
    Approval,
    /// The CatalogSource gets another image, which has a newer version.
    Upgrade,
    /// The same, and somebody is asked about the upgrade.
    Question,
    /// The OperatorGroup gets other targets.
    Targets,
    /// The Subscription is deleted before anybody has approved anything.
    Withdrawal,
    /// The ClusterServiceVersion is deleted.
    Uninstallation,
}

/// What an operation works on.
pub struct Subject {
    pub case: Case,
    /// What makes the installation, applied in this order.
    objects: [Value; 3],
    /// The image of a catalog with a newer version.
    newer: String,
}

const FIRST: &str = "1.0.0";
const SECOND: &str = "1.1.0";

impl Operation {
    pub const ALL: [Self; 7] = [
        Self::Install,
        Self::Approval,
        Self::Upgrade,
        Self::Question,
        Self::Targets,
        Self::Withdrawal,
        Self::Uninstallation,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "Subscription",
            Self::Approval => "approved InstallPlan",
            Self::Upgrade => "upgrade by Subscription",
            Self::Question => "upgrade that asks",
            Self::Targets => "targets of OperatorGroup",
            Self::Withdrawal => "Subscription withdrawn",
            Self::Uninstallation => "CSV deleted",
        }
    }

    fn is_manual(self) -> bool {
        matches!(self, Self::Approval | Self::Question | Self::Withdrawal)
    }

    /// Brings about what the operation starts from.
    pub async fn prepare(self, world: &'static World) -> Subject {
        let case = Case::within(world, "swept", None).await;
        let (first, newer) = (case.catalog(&[FIRST]).await, case.catalog(&[FIRST, SECOND]).await);
        let approval = if self.is_manual() { "Manual" } else { "Automatic" };
        // In a namespace of its own the CatalogSource is no business of other subjects, whose statuses would name it.
        let asked = json!({"installPlanApproval": approval, "sourceNamespace": case.space});
        let mut source = case.source(&first);
        source["metadata"]["namespace"] = json!(case.space);
        let objects = [source, case.group("group", &json!({})), case.subscription(&asked)];
        let subject = Subject { case, objects, newer };
        if self == Self::Install {
            return subject;
        }

        subject.install().await;
        match self {
            Self::Approval | Self::Withdrawal => drop(subject.case.until_planned(FIRST, "RequiresApproval").await),
            Self::Question => {
                subject.case.until_planned(FIRST, "RequiresApproval").await;
                subject.approve().await;
                subject.until_settled().await;
            }
            _ => subject.until_settled().await,
        }
        subject
    }

    /// Begins it.
    pub async fn trigger(self, subject: &Subject) {
        let case = &subject.case;
        match self {
            Self::Install => subject.install().await,
            Self::Approval => subject.approve().await,
            Self::Upgrade | Self::Question => {
                case.merge_into(
                    &case.named("CatalogSource", &case.package),
                    &json!({"spec": {"image": subject.newer}}),
                )
                .await;
            }
            Self::Targets => {
                let targets = json!({"spec": {"targetNamespaces": [case.space]}});
                case.merge_into(&case.named("OperatorGroup", "group"), &targets).await;
            }
            Self::Withdrawal => case.delete(&case.subscribed()).await,
            Self::Uninstallation => case.delete(&case.csv(FIRST)).await,
        }
    }

    /// Whether everything is over, by what everything says.
    pub fn is_reached(self, end: &Value) -> bool {
        let is_settled = |version: &str| {
            let versions = &end["versions"];
            versions.as_array().is_some_and(|all| all.len() == 1)
                && versions[0]["name"] == format!("PACKAGE.v{version}")
                && versions[0]["phase"] == "Succeeded"
                && end["subscription"]["state"] == "AtLatestKnown"
                && end["settings"]["version"] == version
                && !end["operator"].is_null()
                && end["plans"].as_array().is_some_and(|all| all.iter().all(|plan| plan["phase"] == "Complete"))
        };
        match self {
            Self::Install | Self::Approval => is_settled(FIRST),
            Self::Upgrade => is_settled(SECOND),
            Self::Question => end["plans"][1]["phase"] == "RequiresApproval" && end["subscription"]["plan"] == 1,
            Self::Targets => {
                is_settled(FIRST) && end["targets"] == "SPACE" && end["group"]["namespaces"] == json!(["SPACE"])
            }
            Self::Withdrawal => end["deployment"].is_null(),
            Self::Uninstallation => {
                end["deployment"].is_null()
                    && end["versions"] == json!([])
                    && end["subscription"]["state"] == "UpgradePending"
            }
        }
    }
}

impl Subject {
    /// Deletes everything of it, and waits for nothing: who comes after it should not have to look at it again and again.
    pub async fn leave(&self) {
        self.case.delete(&Target::cluster("v1", "Namespace", &self.case.space)).await;
    }

    async fn install(&self) {
        for object in &self.objects {
            verbs::apply(&self.case.client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }

    /// Approves the InstallPlan that the Subscription refers to.
    async fn approve(&self) {
        let subscription = self.case.get(&self.case.subscribed()).await;
        let plan = self.case.named("InstallPlan", text(&subscription, "/status/installPlanRef/name"));
        self.case.merge_into(&plan, &json!({"spec": {"approved": true}})).await;
    }

    async fn until_settled(&self) {
        self.case.until_succeeded(FIRST).await;
        self.case.until_planned(FIRST, "Complete").await;
        let is_settled = |object: &DynamicObject| text(object, "/status/state") == "AtLatestKnown";
        self.case.until_object(&self.case.subscribed(), "AtLatestKnown", is_settled).await;
    }
}
