//! From what installed bundles state to the condition `Upgradeable`, which permits upgrades of the cluster to its next minor version.
//! Pure.
//!
//! Source: OLM v0, which sets the condition of its own ClusterOperator: the reason and the messages are its words. The form of the
//! versions, and that 4.23 and 5.0 are one release, are those of OpenShift's operator for OLM v1.

use std::collections::BTreeMap;

use rukpak_catalog::Version;
use rukpak_plain::shortened;
use serde_json::Value;

use crate::foreign::ClusterVersion;

/// The type of the property with the newest OpenShift that a bundle supports.
pub(super) const PROPERTY: &str = "olm.maxOpenShiftVersion";

/// So much is shown of a value that cannot be read.
const MAX_SHOWN: usize = 64;

/// Major and minor version of an OpenShift.
pub(super) type Minor = (u64, u64);

/// The version that the cluster has: the last one that was completed. While an upgrade is under way that is the one before, because
/// what supports the version that is on its way must not object to it.
pub(super) fn current(cluster: &ClusterVersion) -> Option<Minor> {
    let status = cluster.status.as_ref()?;
    let completed = status.history.iter().find(|release| release.state == "Completed");
    let version = Version::parse(&completed.unwrap_or(&status.desired).version).ok()?;
    Some((version.semver().major, version.semver().minor))
}

/// Whether all that is installed supports the minor version after `current`; if not, what does not. `stated` has the values of the
/// property, by who states them.
pub(super) fn check_next(stated: &BTreeMap<String, Vec<Value>>, current: Minor) -> Result<(), String> {
    // Both are upgraded to 5.1 alone.
    let current = if current == (4, 23) { (5, 0) } else { current };
    let obstacle = |(name, values): (&String, &Vec<Value>)| match newest(values) {
        Ok(newest) if newest > current => None,
        Ok((major, minor)) => Some(format!("- maximum supported OCP version for {name} is {major}.{minor}")),
        Err(problem) => Some(format!("- {name} has invalid {PROPERTY} properties: {problem}")),
    };
    let obstacles: Vec<String> = stated.iter().filter_map(obstacle).collect();
    if obstacles.is_empty() {
        return Ok(());
    }

    let (major, minor) = (current.0, current.1.saturating_add(1));
    let obstacles = obstacles.join("\n");
    Err(format!("Packages blocking minor version upgrades to {major}.{minor}.0 or higher:\n{obstacles}"))
}

/// The newest OpenShift that a bundle supports, or why nobody knows.
fn newest(values: &[Value]) -> Result<Minor, String> {
    let [value] = values else { return Err(format!("defining more than one {PROPERTY:?} property is not allowed")) };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // Some are quoted once more.
    let parts = text.trim_matches('"').split_once('.');
    let read: Option<Minor> = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    read.ok_or_else(|| format!("{} is not <major>.<minor>", shortened(&value.to_string(), MAX_SHOWN)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::foreign::ClusterVersionSpec;

    fn check(stated: &[(&str, Value)], current: Minor) -> Result<(), String> {
        let each = stated.iter().map(|(name, value)| ((*name).to_owned(), vec![value.clone()]));
        let stated: BTreeMap<String, Vec<Value>> = each.collect();
        check_next(&stated, current)
    }

    fn blocked(lines: &str) -> Result<(), String> {
        Err(format!("Packages blocking minor version upgrades to 4.21.0 or higher:\n{lines}"))
    }

    fn cluster(status: Value) -> ClusterVersion {
        let mut cluster = ClusterVersion::new("version", ClusterVersionSpec {});
        cluster.status = serde_json::from_value(status).unwrap();
        cluster
    }

    #[test]
    fn the_next_version_is_permitted_where_all_support_it() {
        assert_eq!(check(&[], (4, 20)), Ok(()), "nothing states anything");
        let supporting = [("a", json!("4.21")), ("b", json!(4.25)), ("c", json!("5.0")), ("d", json!("\"4.21\""))];
        assert_eq!(check(&supporting, (4, 20)), Ok(()));
        assert_eq!(check(&[("a", json!("5.1"))], (4, 23)), Ok(()));
    }

    #[test]
    fn the_next_version_is_blocked_by_each_that_does_not_support_it() {
        let maximum = |name: &str, newest: &str| format!("- maximum supported OCP version for {name} is {newest}");
        assert_eq!(check(&[("a", json!("4.20"))], (4, 20)), blocked(&maximum("a", "4.20")));
        let several = [("c", json!("4.19")), ("b", json!("4.21")), ("a", json!(4.5))];
        let lines = [maximum("a", "4.5"), maximum("c", "4.19")].join("\n");
        assert_eq!(check(&several, (4, 20)), blocked(&lines), "in the order of their names");
        let found = check(&[("a", json!("5.0"))], (4, 23)).unwrap_err();
        assert!(found.starts_with("Packages blocking minor version upgrades to 5.1.0 or higher:\n"), "{found}");
    }

    #[test]
    fn what_cannot_be_read_blocks() {
        for value in
            [json!("4"), json!("<4.99"), json!("4.99.1"), json!("v4.99"), json!(5), json!({"a": 1.2}), json!(null)]
        {
            let line = format!("- a has invalid olm.maxOpenShiftVersion properties: {value} is not <major>.<minor>");
            assert_eq!(check(&[("a", value)], (4, 20)), blocked(&line));
        }
        let long = check(&[("a", json!("9".repeat(5000)))], (4, 20)).unwrap_err();
        assert!(long.len() < 300, "{long}");
        let twice = "- a has invalid olm.maxOpenShiftVersion properties: defining more than one \"olm.maxOpenShiftVersion\" \
                     property is not allowed";
        let stated = BTreeMap::from([("a".to_owned(), vec![json!("4.99"), json!("4.99")])]);
        assert_eq!(check_next(&stated, (4, 20)), blocked(twice));
    }

    #[test]
    fn the_cluster_has_the_version_that_was_completed_last() {
        let release = |state: &str, version: &str| json!({"state": state, "version": version});
        let upgraded = [release("Partial", "4.21.0"), release("Completed", "4.20.3"), release("Completed", "4.19.1")];
        assert_eq!(current(&cluster(json!({"desired": {"version": "4.21.0"}, "history": upgraded}))), Some((4, 20)));
        let new = json!({"desired": {"version": "4.20.0-rc.1"}, "history": [release("Partial", "4.20.0-rc.1")]});
        assert_eq!(current(&cluster(new)), Some((4, 20)), "it is being installed");
        assert_eq!(current(&cluster(json!({"desired": {"version": "x"}}))), None);
        assert_eq!(current(&cluster(Value::Null)), None);
    }
}
