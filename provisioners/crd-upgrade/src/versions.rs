//! Rules about the list of versions and about the CRD as a whole.

use std::cmp::Reverse;

use super::definition::Definition;
use super::effort::Effort;
use super::same::says_the_same;
use super::text;
use super::{CheckReason, Location, ObjectCheck, Rule, Severity, UnsafeChange};

/// Where a version stands among others, oldest first: `v1alpha1`, `v1beta1`, `v1`, `v2`; unusual names before all.
pub(super) fn rank(version: &str) -> impl Ord + use<'_> {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let (stage, minor) = match stage {
            "" => (3_u8, "0"),
            _ if stage.starts_with("beta") => (2, &stage[4..]),
            _ if stage.starts_with("alpha") => (1, &stage[5..]),
            _ => return None,
        };
        let plain = minor.bytes().all(|byte| byte.is_ascii_digit());
        (plain).then_some((stage, major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?))
    });
    (parsed, Reverse(version))
}

/// Versions that hold objects and would be gone.
pub(super) fn stored(old: &Definition<'_>, new: &Definition<'_>) -> Vec<UnsafeChange> {
    let mut gone: Vec<&str> = old.stored.iter().copied().filter(|stored| new.version(stored).is_none()).collect();
    gone.sort_unstable();
    gone.dedup();
    let (removed, unknown): (Vec<&str>, Vec<&str>) = gone.into_iter().partition(|name| old.version(name).is_some());
    let kept = || Some(text::list(new.versions.iter().map(|version| version.name)));
    let mut changes = Vec::new();
    if !removed.is_empty() {
        let message = format!("cannot remove stored versions {}", text::list(&removed));
        let was = Some(text::list(&old.stored));
        changes.push(of_definition(new, Rule::StoredVersionRemoval, Severity::Error, was, kept(), message));
    }
    for name in unknown {
        let message = format!("new CRD removes version {name} that is listed as a stored version on the existing CRD");
        let was = Some(text::list(&old.stored));
        changes.push(of_definition(new, Rule::DataLoss, Severity::Error, was, kept(), message));
    }
    changes
}

/// Versions that clients can no longer ask for.
pub(super) fn no_longer_served(old: &Definition<'_>, new: &Definition<'_>) -> Vec<UnsafeChange> {
    let gone = old.versions.iter().filter(|version| version.served);
    gone.filter(|version| !new.version(version.name).is_some_and(|version| version.served))
        .map(|version| {
            let now = new.version(version.name).map(|_| "not served".to_owned());
            let message = format!("version no longer served : {:?}", version.name);
            let was = Some("served".to_owned());
            let mut change = of_definition(new, Rule::ServedVersionRemoval, Severity::Warning, was, now, message);
            change.place = Location::Version(version.name.to_owned());
            change
        })
        .collect()
}

/// Namespaced to cluster-scoped, or back.
pub(super) fn scope(old: &Definition<'_>, new: &Definition<'_>, severity: Severity) -> Option<UnsafeChange> {
    let message = format!("scope changed : {:?} -> {:?}", old.scope, new.scope);
    let (was, now) = (Some(old.scope.to_owned()), Some(new.scope.to_owned()));
    (old.scope != new.scope).then(|| of_definition(new, Rule::Scope, severity, was, now, message))
}

/// Which objects the new schemas must accept.
pub(super) fn object_checks(old: &Definition<'_>, new: &Definition<'_>, effort: &Effort<'_>) -> Vec<ObjectCheck> {
    let mut checks = Vec::new();
    let added = new.versions.iter().filter(|version| old.version(version.name).is_none());
    let added: Vec<_> = added.filter(|version| version.schema.is_some() && !new.webhook_converts).collect();
    for before in old.versions.iter().filter(|version| version.served) {
        let Some(after) = new.version(before.name) else { continue };
        let check = |schema_version: &str, reason| ObjectCheck {
            crd: new.name.to_owned(),
            group: old.group.to_owned(),
            list_version: before.name.to_owned(),
            plural: old.plural.to_owned(),
            kind: old.kind.to_owned(),
            schema_version: schema_version.to_owned(),
            reason,
        };
        if let Some(schema) = after.schema
            && !before.schema.is_some_and(|before| says_the_same(before, schema, effort))
        {
            checks.push(check(after.name, CheckReason::SchemaChanged));
        }
        checks.extend(added.iter().map(|version| check(version.name, CheckReason::VersionAdded)));
    }
    checks
}

fn of_definition(
    new: &Definition<'_>,
    rule: Rule,
    severity: Severity,
    was: Option<String>,
    now: Option<String>,
    message: String,
) -> UnsafeChange {
    let (crd, path) = (new.name.to_owned(), String::new());
    UnsafeChange { crd, place: Location::Definition, path, rule, severity, was, now, message }
}
