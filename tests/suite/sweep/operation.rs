//! The operations: how each is prepared, what begins it, and what there is to be at its end.

use std::time::Duration;

use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::bundle;
use serde_json::json;

use crate::sweep::check;
use crate::sweep::release::Release;
use crate::sweep::stored;
use crate::sweep::subject::{OWNER_NAME, Subject};

/// A preparation takes a second; on a busy machine many.
const PREPARED_WITHIN: Duration = Duration::from_secs(40);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Install,
    Upgrade,
    /// An upgrade that waits is approved.
    Approval,
    /// An upgrade that drops a version in which objects are stored.
    Migration,
    FailedUpgrade,
    WayBack,
    Rollback,
    Repair,
    Adoption,
    Renewal,
    Deletion,
    Orphaning,
    Bundle,
    Status,
    /// Not tried itself: the end of a deployment that was told to leave its objects.
    Orphaned,
}

/// What there is at the end.
pub struct End {
    /// The objects of this release and no others; none at all when absent.
    pub release: Option<Release>,
    /// Whether the deployment is still there.
    pub is_there: bool,
    /// Whether it owns its objects: garbage collection takes them with it.
    pub is_owned: bool,
    /// `type=status/reason`, or the beginning of that.
    pub conditions: &'static [&'static str],
    /// How many generated Bundles are left.
    pub bundles: usize,
    /// Objects that had to be made anew.
    pub anew: &'static [&'static str],
}

const GOOD: &[&str] = &["Installed=True/InstallationSucceeded", "Ready=True/Succeeded"];
const FAILED: &[&str] = &["Installed=False/UpgradeFailed"];
/// Asks for a reconcile now.
const REQUESTED: &str = "core.rukpak.io/reconcile-requested-at";

impl Operation {
    pub const ALL: [Self; 14] = [
        Self::Install,
        Self::Upgrade,
        Self::Approval,
        Self::Migration,
        Self::FailedUpgrade,
        Self::WayBack,
        Self::Rollback,
        Self::Repair,
        Self::Adoption,
        Self::Renewal,
        Self::Deletion,
        Self::Orphaning,
        Self::Bundle,
        Self::Status,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Approval => "approved upgrade",
            Self::Migration => "upgrade that drops a stored version",
            Self::FailedUpgrade => "failed upgrade",
            Self::WayBack => "way back",
            Self::Rollback => "rollback",
            Self::Repair => "repair",
            Self::Adoption => "adoption",
            Self::Renewal => "renewal",
            Self::Deletion => "deletion",
            Self::Orphaning => "orphaning",
            Self::Bundle => "Bundle",
            Self::Status => "status",
            Self::Orphaned => "deletion, orphaned",
        }
    }

    pub fn end(self) -> End {
        let end = End {
            release: Some(Release::One),
            is_there: true,
            is_owned: true,
            conditions: GOOD,
            bundles: 1,
            anew: &[],
        };
        match self {
            Self::Upgrade | Self::Approval => End { release: Some(Release::Two), ..end },
            Self::Migration => End { release: Some(Release::Dropped), ..end },
            Self::FailedUpgrade => End { conditions: &["Installed=False/"], bundles: 2, ..end },
            Self::WayBack => End { conditions: FAILED, bundles: 2, ..end },
            Self::Repair => End { anew: &["Deployment w"], ..end },
            Self::Deletion => End { release: None, is_there: false, bundles: 0, ..end },
            Self::Orphaning => End { is_owned: false, ..end },
            Self::Orphaned => End { is_owned: false, is_there: false, bundles: 0, ..end },
            Self::Bundle | Self::Renewal => End { release: None, ..end },
            Self::Install | Self::Rollback | Self::Adoption | Self::Status => end,
        }
    }

    /// Brings about what the operation starts from.
    pub async fn prepare(self, subject: &mut Subject<'_>) {
        let first = if self == Self::Migration { Release::Stored } else { Release::One };
        let first = subject.push(first).await;
        match self {
            Self::Renewal => {
                subject.install_operator().await;
                check::wait(subject, Self::Renewal, PREPARED_WITHIN).await.expect("it is installed");
            }
            Self::Install | Self::Bundle => {}
            Self::Adoption => {
                for mut object in Release::One.objects(&subject.name) {
                    object["metadata"]["annotations"] = json!({"core.rukpak.io/adopt-by": subject.name});
                    verbs::create(&subject.stage.client, &object).await.expect("the API server agrees");
                }
            }
            _ => {
                subject.create(first).await;
                let ready = Expected::is_true("Ready", "Succeeded");
                let client = &subject.stage.client;
                verbs::await_condition(client, &subject.target(), ready, PREPARED_WITHIN)
                    .await
                    .expect("it is installed");
                if self == Self::Migration {
                    stored::create(subject).await;
                } else {
                    check::wait(subject, Self::Install, PREPARED_WITHIN).await.expect("it is installed");
                }
            }
        }
        if self == Self::Rollback {
            subject.change(subject.push(Release::Two).await).await;
            check::wait(subject, Self::Upgrade, PREPARED_WITHIN).await.expect("it is upgraded");
        }
        let next = match self {
            Self::Upgrade => Some(Release::Two),
            Self::Migration => Some(Release::Dropped),
            Self::FailedUpgrade => Some(Release::Refused),
            Self::WayBack => Some(Release::Broken),
            _ => None,
        };
        if let Some(next) = next {
            subject.push(next).await;
        }
        if self == Self::Approval {
            let asking = json!({"spec": {"approval": "Upgrades"}});
            subject.edit(&subject.target(), asking).await;
            subject.change(subject.push(Release::Two).await).await;
            let waits = Expected { kind: "Ready", status: "Unknown", reason: Some("WaitingForApproval"), message: "" };
            let client = &subject.stage.client;
            verbs::await_condition(client, &subject.target(), waits, PREPARED_WITHIN).await.expect("it asks");
        }
        subject.remember().await;
    }

    /// Begins it.
    pub async fn trigger(self, subject: &Subject<'_>) {
        let target = subject.target();
        match self {
            Self::Install | Self::Adoption => subject.create(subject.source(Release::One)).await,
            Self::Upgrade => subject.change(subject.source(Release::Two)).await,
            Self::Approval => approve(subject).await,
            Self::Migration => subject.change(subject.source(Release::Dropped)).await,
            Self::FailedUpgrade => subject.change(subject.source(Release::Refused)).await,
            Self::WayBack => subject.change(subject.source(Release::Broken)).await,
            Self::Rollback => subject.edit(&target, json!({"spec": {"rollbackTo": 1}})).await,
            Self::Repair => spoil(subject).await,
            Self::Deletion => subject.delete_in_the_foreground().await,
            Self::Orphaning => subject.edit(&target, json!({"spec": {"deletionPolicy": "Orphan"}})).await,
            Self::Renewal | Self::Orphaned => {}
            Self::Bundle => {
                let object = bundle(&subject.name, subject.source(Release::One));
                verbs::create(&subject.stage.client, &object).await.expect("the API server agrees");
            }
            Self::Status => subject.edit(&target, json!({"metadata": {"annotations": {REQUESTED: "now"}}})).await,
        }
    }
}

/// Says yes to the Plan of the deployment.
async fn approve(subject: &Subject<'_>) {
    let labels = format!("{OWNER_NAME}={}", subject.name);
    let plans = verbs::list(&subject.stage.client, "core.rukpak.io/v1alpha1", "Plan", &labels).await;
    let plans = plans.expect("the API server agrees");
    assert_eq!(plans.len(), 1, "one waits");
    let target =
        Target::cluster("core.rukpak.io/v1alpha1", "Plan", plans[0].metadata.name.as_deref().unwrap_or_default());
    subject.edit(&target, json!({"spec": {"approval": "Approved"}})).await;
}

/// What a stranger may do: change a value, take an object away, take our labels off. (An object that loses its owner reference
/// while nobody is there to see it is not taken back: it may as well have been orphaned.)
async fn spoil(subject: &Subject<'_>) {
    subject.delete(&subject.inside("apps/v1", "Deployment", "w")).await;
    let data = json!({"data": {"version": "drift"}});
    subject.edit(&subject.inside("v1", "ConfigMap", "a"), data).await;
    let labels = json!({"metadata": {"labels": null}});
    subject.edit(&subject.inside("v1", "Secret", "s"), labels).await;
}
