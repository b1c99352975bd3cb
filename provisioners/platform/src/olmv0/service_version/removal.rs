//! Whether what a BundleDeployment is for was deleted. Pure.

use std::collections::BTreeMap;

use super::super::stage::Seen;

/// What is to become of the BundleDeployment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removal {
    No,
    Yes,
    /// It goes with its namespace: objects of it may be in the cluster, and nothing there stands for them.
    UnlessNamespaceStays,
    /// It goes, unless this ClusterServiceVersion is in the cluster all the same.
    UnlessThere {
        name: String,
        uid: String,
    },
}

/// Decides by the ClusterServiceVersions that were `noted` and those that are `there`: names and UIDs. `is_untouched`: nothing was ever
/// written for it.
pub(super) fn removal(
    seen: &Seen,
    (is_untouched, has_subscription): (bool, bool),
    noted: &BTreeMap<String, String>,
    there: &BTreeMap<String, String>,
) -> Removal {
    // Before there is one, it lives as long as the Subscription; what is begun goes on without, as long as one can be made.
    if noted.is_empty() && there.is_empty() {
        let is_untouched = is_untouched && seen.active.is_none();
        return match (has_subscription, is_untouched) {
            (true, _) => Removal::No,
            (false, true) => Removal::Yes,
            (false, false) => Removal::UnlessNamespaceStays,
        };
    }
    // The one that is wanted counts, and the one that is installed still: who deletes that of an upgrade that failed keeps what works.
    // Others are replaced.
    let installed = seen.active.as_ref().map(|active| &active.name);
    let names = [Some(&seen.wanted.name), installed].into_iter().flatten();
    // One that was made and is still to be noted counts: whoever deletes the one before it deletes nothing that is needed.
    if names.clone().any(|name| there.contains_key(name) && !noted.contains_key(name)) {
        return Removal::No;
    }
    let mut current = names.filter_map(|name| noted.get_key_value(name));
    let is_there = |(name, uid): (&String, &String)| there.get(name) == Some(uid);
    if current.clone().any(is_there) {
        return Removal::No;
    }
    // An upgrade that was done while nobody looked has none yet: those that it replaces count.
    let before = || noted.iter().next_back().filter(|_| !noted.iter().any(is_there));
    let gone = current.next().or_else(before);
    gone.map_or(Removal::No, |(name, uid)| Removal::UnlessThere { name: name.clone(), uid: uid.clone() })
}

#[cfg(test)]
mod tests {
    use super::super::super::stage::Stage;
    use super::*;
    use crate::installed::Identity;

    fn seen(wanted: &str, active: Option<&str>, stage: Stage) -> Seen {
        let identity = |name: &str| Identity { name: name.to_owned(), ..Identity::default() };
        Seen { wanted: identity(wanted), active: active.map(identity), stage }
    }

    fn named(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, uid)| ((*name).to_owned(), (*uid).to_owned())).collect()
    }

    #[test]
    fn it_goes_with_its_version_and_with_nothing_else() {
        let installed = seen("v1", Some("v1"), Stage::Succeeded);
        let (noted, none) = (named(&[("v1", "u")]), BTreeMap::new());
        assert_eq!(removal(&installed, (false, true), &noted, &noted), Removal::No);
        assert_eq!(removal(&installed, (false, false), &noted, &noted), Removal::No, "the Subscription may go");
        let gone = Removal::UnlessThere { name: "v1".to_owned(), uid: "u".to_owned() };
        assert_eq!(removal(&installed, (false, true), &noted, &none), gone);
        assert_eq!(
            removal(&installed, (false, true), &noted, &named(&[("v1", "other")])),
            gone,
            "another one of the name"
        );
    }

    #[test]
    fn what_was_never_begun_goes_with_its_subscription() {
        let none = BTreeMap::new();
        let asking = seen("v1", None, Stage::Asking { digest: "d".to_owned() });
        assert_eq!(removal(&asking, (true, true), &none, &none), Removal::No);
        assert_eq!(removal(&asking, (true, false), &none, &none), Removal::Yes);
        let held = seen("v1", None, Stage::Held(String::new()));
        assert_eq!(removal(&held, (true, false), &none, &none), Removal::Yes, "nothing was written");
        let going = seen("v1", None, Stage::Applying(String::new()));
        let until_its_end = Removal::UnlessNamespaceStays;
        assert_eq!(removal(&going, (false, false), &none, &none), until_its_end, "objects may be in the cluster");
        assert_eq!(removal(&going, (false, true), &none, &none), Removal::No);
    }

    #[test]
    fn during_an_upgrade_the_old_one_counts_until_the_new_one_is_there() {
        let (old, both) = (named(&[("v1", "u")]), named(&[("v1", "u"), ("v2", "w")]));
        let asking = seen("v2", Some("v1"), Stage::Asking { digest: "d".to_owned() });
        assert_eq!(removal(&asking, (true, true), &old, &old), Removal::No);
        let gone = |name: &str, uid: &str| Removal::UnlessThere { name: name.to_owned(), uid: uid.to_owned() };
        assert_eq!(removal(&asking, (true, true), &old, &BTreeMap::new()), gone("v1", "u"));
        let failed = Stage::Failed { reason: "InstallComponentFailed", message: String::new() };
        let failed = seen("v2", Some("v1"), failed);
        assert_eq!(removal(&failed, (false, true), &both, &old), Removal::No, "what works stays");
        assert_eq!(removal(&failed, (false, true), &both, &BTreeMap::new()), gone("v2", "w"));
        let done = seen("v2", Some("v2"), Stage::Succeeded);
        assert_eq!(removal(&done, (false, true), &both, &named(&[("v2", "w")])), Removal::No, "replaced");
        assert_eq!(removal(&done, (false, true), &both, &old), gone("v2", "w"));
        assert_eq!(removal(&done, (false, true), &old, &old), Removal::No, "the new one is not made yet");
        let nothing = removal(&done, (false, true), &old, &BTreeMap::new());
        assert_eq!(nothing, gone("v1", "u"), "it was deleted while the upgrade went on");
        let made = named(&[("v2", "w")]);
        for seen in [&done, &failed, &seen("v2", Some("v1"), Stage::Applying(String::new()))] {
            assert_eq!(
                removal(seen, (false, true), &old, &made),
                Removal::No,
                "the new one is made, and not noted yet"
            );
        }
    }
}
