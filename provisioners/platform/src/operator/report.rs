//! From what came of a pass to the status. Pure.

use rukpak_crds::condition::{
    Conditions, HAS_VALID_BUNDLE, INSTALLED, NewCondition, READY, RECONCILING, STALLED, VERIFIED, reason,
};
use rukpak_crds::platform_operator::{DEPRECATED, INSTALL_PENDING, UPGRADE_AVAILABLE};
use rukpak_crds::{ActiveBundleDeployment, BundleDeployment, Condition, ConditionStatus, PlatformOperatorStatus};
use rukpak_plan::retry::Class;

use super::standing::is_current;
use super::step::{Step, UpgradeState};
use super::{Outcome, Pass};
use crate::context::PACKAGE_NOT_UNIQUE;
use crate::policies::Verified;

/// No bundle could be chosen.
const SOURCE_FAILED: &str = "SourceFailed";
const INSTALL_SUCCESSFUL: &str = "InstallSuccessful";
/// The BundleDeployment is installed and will not become ready by itself (additive).
const NOT_READY: &str = "BundleDeploymentNotReady";
/// Another package is asked for than is installed (additive).
const PACKAGE_CHANGED: &str = "PackageChanged";

/// The status to write, and when to look again without being woken.
pub(super) struct Report {
    pub status: PlatformOperatorStatus,
    pub retry: Option<Class>,
}

/// What the summary conditions say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    Working,
    Retrying,
    Stalled,
}

/// What `Installed` says.
struct Verdict {
    installed: bool,
    reason: String,
    message: String,
    /// What is waited for although it is installed.
    unready: Option<String>,
    /// What `Installed`, whose words others compare, does not say.
    hint: Option<String>,
    standing: Readiness,
}

impl Verdict {
    fn not(reason: &str, message: &str, standing: Readiness) -> Self {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        Self { installed: false, reason, message, unready: None, hint: None, standing }
    }
}

/// Turns the outcome of a pass into its status.
pub(super) fn report(pass: &Pass, outcome: &Outcome) -> Report {
    let mut writer = Writer { pass, status: pass.status.clone() };
    let verdict = verdict(&pass.name, outcome, pass.status.conditions.is(INSTALLED, ConditionStatus::True));
    writer.set(INSTALLED, truth(verdict.installed), &verdict.reason, &verdict.message);
    if verdict.installed {
        writer.status.active_bundle_deployment = Some(ActiveBundleDeployment { name: pass.name.clone() });
    }
    let upgrade = if let Outcome::Deployed { upgrade, .. } = outcome {
        upgrade
    } else {
        // Nothing is installed that could be said of.
        writer.status.source = None;
        writer.status.upgrade = None;
        &UpgradeState { step: Step::Newest, deprecations: Some(Vec::new()), retry: None }
    };
    writer.upgrade(upgrade);
    writer.verified();
    writer.summary(&verdict, upgrade);
    Report { status: writer.status, retry: retry(outcome) }
}

fn retry(outcome: &Outcome) -> Option<Class> {
    match outcome {
        Outcome::NotSourced { class, is_unwatched, .. } => is_unwatched.then_some(*class),
        Outcome::NotCreated { class, .. } => Some(*class),
        Outcome::Deployed { upgrade, .. } => upgrade.retry,
        _ => None,
    }
}

fn verdict(name: &str, outcome: &Outcome, was_installed: bool) -> Verdict {
    let standing = |class: Class| if class == Class::Terminal { Readiness::Stalled } else { Readiness::Retrying };
    match outcome {
        Outcome::Waiting(message) => Verdict::not(INSTALL_PENDING, message, Readiness::Working),
        Outcome::Duplicate(message) => Verdict::not(PACKAGE_NOT_UNIQUE, message, Readiness::Stalled),
        Outcome::Foreign(message) => Verdict::not(reason::INSTALL_FAILED, message, Readiness::Stalled),
        Outcome::NotSourced { message, hint, class, .. } => {
            let message = format!("{message}: failed to run sourcing logic");
            Verdict { hint: hint.clone(), ..Verdict::not(SOURCE_FAILED, &message, standing(*class)) }
        }
        // What the provisioner would say of such a bundle, without its being fetched.
        Outcome::Unsupported(message) => Verdict::not(reason::UNPACK_FAILED, message, Readiness::Stalled),
        Outcome::NotCreated { message, class } => Verdict::not(reason::INSTALL_FAILED, message, standing(*class)),
        Outcome::Deployed { deployment, .. } => of_deployment(name, deployment, was_installed),
    }
}

/// The conditions of the BundleDeployment, as OpenShift's manager reads them.
///
/// What they say of an earlier spec says nothing of a first installation. Once something is installed it stays so until the
/// BundleDeployment says otherwise: an upgrade is no failure.
fn of_deployment(name: &str, deployment: &BundleDeployment, was_installed: bool) -> Verdict {
    let is_current = is_current(deployment);
    let conditions = match &deployment.status {
        Some(status) if is_current || was_installed => status.conditions.as_slice(),
        _ => &[],
    };
    let find = |type_| conditions.iter().find(|condition| condition.type_ == type_);
    let is_stalled = find(STALLED).is_some_and(|stalled| stalled.status == ConditionStatus::True);
    let not = |found: Option<&Condition>, reason: &str, message: &str| {
        let verdict = match found {
            Some(found) => Verdict::not(&found.reason, &found.message, standing(found, is_stalled)),
            None => Verdict::not(reason, message, Readiness::Working),
        };
        // What is waited for, such as an image that cannot be pulled. RukPak v0.16 reports no `Ready`.
        let hint = find(READY).map(|ready| ready.message.clone());
        let hint = hint.filter(|hint| !hint.is_empty() && *hint != verdict.message);
        Verdict { hint, ..verdict }
    };
    for (type_, reason, message) in [
        (HAS_VALID_BUNDLE, reason::UNPACK_PENDING, "Waiting for the bundle to be unpacked"),
        (INSTALLED, INSTALL_PENDING, "Waiting for the bundle to be installed"),
    ] {
        match find(type_) {
            Some(condition) if condition.status == ConditionStatus::True => {}
            found => return not(found, reason, message),
        }
    }
    let unready = if !is_current || find(HAS_VALID_BUNDLE).is_some_and(is_under_way) {
        Some(format!("Waiting for the BundleDeployment {name} to be upgraded"))
    } else {
        // RukPak v0.16 reports no `Ready`.
        let unready = find(READY).filter(|ready| ready.status != ConditionStatus::True);
        unready.map(|ready| format!("Waiting for the BundleDeployment {name} to be ready: {}", ready.message))
    };
    let standing = match unready {
        None => Readiness::Ready,
        Some(_) if is_current && is_stalled => Readiness::Stalled,
        Some(_) => Readiness::Working,
    };
    Verdict {
        installed: true,
        reason: INSTALL_SUCCESSFUL.to_owned(),
        message: format!("Successfully applied the {name} BundleDeployment resource"),
        unready,
        hint: None,
        standing,
    }
}

fn standing(condition: &Condition, is_stalled: bool) -> Readiness {
    if is_under_way(condition) {
        Readiness::Working
    } else if is_stalled {
        Readiness::Stalled
    } else {
        Readiness::Retrying
    }
}

fn is_under_way(condition: &Condition) -> bool {
    [reason::UNPACK_PENDING, reason::UNPACKING].contains(&condition.reason.as_str())
}

fn truth(holds: bool) -> ConditionStatus {
    if holds { ConditionStatus::True } else { ConditionStatus::False }
}

struct Writer<'a> {
    pass: &'a Pass,
    status: PlatformOperatorStatus,
}

impl Writer<'_> {
    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let generation = self.pass.operator.metadata.generation;
        self.status.conditions.set(NewCondition { type_, status, reason, message }, generation, self.pass.now);
    }

    /// `UpgradeAvailable` and `Deprecated`; what is not known stays as it was.
    fn upgrade(&mut self, state: &UpgradeState) {
        match &state.step {
            Step::Unlooked => {}
            Step::Unknown { reason, message } => self.set(UPGRADE_AVAILABLE, ConditionStatus::Unknown, reason, message),
            Step::Unreachable { reason, message } => {
                self.set(UPGRADE_AVAILABLE, ConditionStatus::False, reason, message);
            }
            Step::Available { reason, message } => self.set(UPGRADE_AVAILABLE, ConditionStatus::True, reason, message),
            Step::Newest | Step::Taken | Step::Edited(_) | Step::OtherPackage(_) => {
                self.status.conditions.drop_type(UPGRADE_AVAILABLE);
            }
        }
        match state.deprecations.as_deref() {
            None => {}
            Some([]) => self.status.conditions.drop_type(DEPRECATED),
            Some(all) => self.set(DEPRECATED, ConditionStatus::True, DEPRECATED, &all.join("; ")),
        }
    }

    /// `Verified`: what is said of the image of the catalog that the package comes from.
    fn verified(&mut self) {
        let catalog = self.status.source.as_ref().map(|source| source.catalog.clone()).unwrap_or_default();
        match self.pass.context.catalogs.verified(&catalog) {
            Verified::Unlooked => {}
            Verified::Uncovered => self.status.conditions.drop_type(VERIFIED),
            Verified::Said { status, reason, message } => {
                self.set(VERIFIED, status, &reason, &format!("catalog {catalog}: {message}"));
            }
        }
    }

    /// `Ready`, `Reconciling` and `Stalled`, as kstatus reads them.
    fn summary(&mut self, verdict: &Verdict, upgrade: &UpgradeState) {
        use ConditionStatus::{False, True, Unknown};
        let (standing, reason, message) = match &upgrade.step {
            Step::OtherPackage(message) => (Readiness::Stalled, PACKAGE_CHANGED, message.clone()),
            _ if verdict.unready.is_some() => {
                let reason = if verdict.standing == Readiness::Stalled { NOT_READY } else { reason::PROGRESSING };
                (verdict.standing, reason, verdict.unready.clone().unwrap_or_default())
            }
            Step::Edited(message) if verdict.installed => {
                (Readiness::Ready, reason::SUCCEEDED, format!("{}. {message}", verdict.message))
            }
            _ if verdict.installed => (Readiness::Ready, reason::SUCCEEDED, verdict.message.clone()),
            _ => {
                let message = match &verdict.hint {
                    Some(whole) if whole.starts_with(&verdict.message) => whole.clone(),
                    Some(hint) => format!("{}; {hint}", verdict.message),
                    None => verdict.message.clone(),
                };
                (verdict.standing, verdict.reason.as_str(), message)
            }
        };
        let ready = match standing {
            Readiness::Ready => True,
            Readiness::Working => Unknown,
            Readiness::Retrying | Readiness::Stalled => False,
        };
        self.set(READY, ready, reason, &message);
        match standing {
            Readiness::Working => self.set(RECONCILING, True, reason::PROGRESSING, &message),
            Readiness::Retrying => self.set(RECONCILING, True, reason::PROGRESSING_WITH_RETRY, &message),
            Readiness::Ready | Readiness::Stalled => self.status.conditions.drop_type(RECONCILING),
        }
        if standing == Readiness::Stalled {
            self.set(STALLED, True, reason, &message);
        } else {
            self.status.conditions.drop_type(STALLED);
        }
    }
}

#[cfg(test)]
mod tests;
