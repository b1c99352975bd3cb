//! What is said of objects that exist already and are somebody else's. Pure.

use std::collections::BTreeMap;
use std::fmt;

use rukpak_plan::owner::ForeignOwner;

/// So many further objects are named; who fixes these finds the next ones.
const TOLD: usize = 4;

/// An object that exists and is not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collision {
    /// `install` or `update`.
    pub doing: &'static str,
    pub what: String,
    pub foreign: ForeignOwner,
    /// If that is a BundleDeployment that something else makes: what that is.
    pub keeper: Option<String>,
    /// The BundleDeployment that it is in the way of.
    pub owner: String,
}

impl fmt::Display for Collision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&told(self, &[&self.what]))
    }
}

impl std::error::Error for Collision {}

/// All of them: those that have one way out in one text, which tells it once.
pub(crate) fn texts<'a>(collisions: impl IntoIterator<Item = &'a Collision>) -> Vec<String> {
    let mut groups: BTreeMap<&ForeignOwner, Vec<&Collision>> = BTreeMap::new();
    for collision in collisions {
        groups.entry(&collision.foreign).or_default().push(collision);
    }
    let text = |mut group: Vec<&'a Collision>| {
        group.sort_by_key(|collision| &collision.what);
        let what: Vec<&str> = group.iter().map(|collision| collision.what.as_str()).collect();
        group.first().map(|first| told(first, &what))
    };
    groups.into_values().filter_map(text).collect()
}

/// In the words of Helm, which clients of upstream know, and then the way out.
fn told(first: &Collision, what: &[&str]) -> String {
    let Collision { doing, foreign, .. } = first;
    let (one, others) = what.split_first().map_or((first.what.as_str(), what), |(one, others)| (*one, others));
    let others_too = match others {
        [] => String::new(),
        [other] => format!(" The same holds for {other}."),
        others => format!(" The same holds for {} others: {}.", others.len(), listed(others)),
    };
    format!(
        "rendered manifests contain a resource that already exists. Unable to continue with {doing}: {one} exists and cannot be \
         imported into the current release: invalid ownership metadata; {}.{others_too} {}",
        foreign.why(),
        way_out(first, others.is_empty())
    )
}

fn listed(what: &[&str]) -> String {
    match what.get(..TOLD) {
        Some(first) if what.len() > TOLD => format!("{} and {} more", first.join(", "), what.len() - TOLD),
        _ => what.join(", "),
    }
}

/// A way out. Who follows it loses nothing that is in the cluster: the suite `engine::advice` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advice<'a> {
    /// One of the two bundles does without the object.
    LeaveOutOfOne,
    /// Both bundles declare the CRD so that it can be one.
    DeclareAlike,
    /// The CRD is kept by nobody, or is one bundle's alone.
    DoNotKeep,
    /// The same as [`LeaveOutOfOne`](Self::LeaveOutOfOne), where the other bundle is that of this PlatformOperator or ClusterExtension.
    LeaveOutOrAsk(&'a str),
    /// This BundleDeployment, which has the object, leaves behind what it installed.
    GiveUp(&'a str),
    /// The bundle does without the object, or its controller makes it no longer.
    LeaveToController { kind: &'a str, name: &'a str },
    /// This BundleDeployment takes the object over.
    TakeOver(&'a str),
}

/// Returns what to do about a collision, in the order in which it is told.
fn advice(collision: &Collision) -> Vec<Advice<'_>> {
    match (&collision.foreign, &collision.keeper) {
        // What makes the BundleDeployment would make it anew.
        (ForeignOwner::Controller { is_deployment: true, .. } | ForeignOwner::Keeper { .. }, Some(keeper)) => {
            vec![Advice::LeaveOutOrAsk(keeper)]
        }
        // Whoever took over what another one keeps could delete it, with all that hangs on it.
        (ForeignOwner::Controller { name, is_deployment: true, .. } | ForeignOwner::Keeper { name, .. }, None) => {
            vec![Advice::LeaveOutOfOne, Advice::GiveUp(name)]
        }
        (ForeignOwner::Incompatible { .. }, _) => vec![Advice::DeclareAlike],
        (ForeignOwner::Sharers { .. }, _) => vec![Advice::DoNotKeep],
        (ForeignOwner::Controller { kind, name, .. }, _) => vec![Advice::LeaveToController { kind, name }],
        _ => vec![Advice::TakeOver(&collision.owner)],
    }
}

fn way_out(collision: &Collision, is_one: bool) -> String {
    let advice = advice(collision).into_iter().map(|advice| advice.told(is_one));
    advice.collect::<Vec<_>>().join(". ")
}

impl Advice<'_> {
    /// Returns the advice in words, about one object or several.
    fn told(self, is_one: bool) -> String {
        let (it, that) = if is_one { ("it", "the object") } else { ("them", "these objects") };
        match self {
            Self::LeaveOutOfOne => format!("Leave {that} out of one of the two bundles"),
            Self::DeclareAlike => format!(
                "Have both bundles declare {that} compatibly, or leave {it} out of one of them; this is looked at again within a minute"
            ),
            Self::DoNotKeep => format!(
                "Leave {that} out of the bundles of the others, or set spec.deletionPolicy of this one back; until then {it} is not \
                 kept, and this is looked at again within a minute"
            ),
            Self::LeaveOutOrAsk(keeper) => {
                format!("Leave {that} out of one of the two bundles; the other one is that of {keeper}")
            }
            Self::GiveUp(name) => format!(
                "To give BundleDeployment {name:?} up and keep what it installed, set its spec.deletionPolicy to Orphan and wait \
                 until it is Ready before it is deleted"
            ),
            Self::LeaveToController { kind, name } => {
                format!("Leave {that} out of the bundle, or have the {kind} {name:?} no longer make {it}")
            }
            Self::TakeOver(owner) => format!(
                "Let this BundleDeployment take {it} over with the annotation core.rukpak.io/adopt-by={owner:?} on {}, or leave {it} \
                 out of the bundle; this is looked at again within a minute",
                if is_one { "it" } else { "each" }
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collision(what: &str, foreign: ForeignOwner) -> Collision {
        Collision { doing: "install", what: what.to_owned(), foreign, keeper: None, owner: "img".to_owned() }
    }

    fn controller(kind: &str, is_deployment: bool) -> ForeignOwner {
        ForeignOwner::Controller { kind: kind.to_owned(), name: "my.dotted.name".to_owned(), is_deployment }
    }

    #[test]
    fn what_nobody_controls_may_be_taken_over() {
        let text = collision("ClusterRole \"r\"", ForeignOwner::Unknown).to_string();
        assert_eq!(
            text,
            "rendered manifests contain a resource that already exists. Unable to continue with install: ClusterRole \"r\" \
             exists and cannot be imported into the current release: invalid ownership metadata; it was not created by this \
             BundleDeployment. Let this BundleDeployment take it over with the annotation core.rukpak.io/adopt-by=\"img\" on \
             it, or leave it out of the bundle; this is looked at again within a minute"
        );
    }

    #[test]
    fn what_a_living_deployment_keeps_is_not_to_be_taken_over() {
        let keeper = ForeignOwner::Keeper { name: "other".to_owned(), uid: "u".to_owned() };
        let text = collision("CustomResourceDefinition \"c\"", keeper).to_string();
        let expected = "BundleDeployment \"other\" has installed it, to be kept. Leave the object out of one of the two bundles. To \
                        give BundleDeployment \"other\" up";
        assert!(text.contains(expected) && !text.contains("adopt-by"), "{text}");
    }

    #[test]
    fn what_has_a_controller_can_neither_be_taken_over_nor_deleted() {
        for (kind, is_deployment, way_out) in [
            (
                "BundleDeployment",
                true,
                "Leave the object out of one of the two bundles. To give BundleDeployment \"my.dotted.name\" up and keep what it \
                 installed, set its spec.deletionPolicy to Orphan",
            ),
            (
                "ReplicaSet",
                false,
                "Leave the object out of the bundle, or have the ReplicaSet \"my.dotted.name\" no longer",
            ),
        ] {
            let text = collision("Pod \"p\"", controller(kind, is_deployment)).to_string();
            assert!(text.contains(&format!("it is controlled by {kind} \"my.dotted.name\". {way_out}")), "{text}");
            assert!(!text.contains("adopt-by") && !text.contains("or delete it"), "{text}");
        }
    }

    #[test]
    fn a_crd_that_cannot_be_shared_names_the_leader_and_the_difference() {
        let foreign = ForeignOwner::Incompatible { name: "first".to_owned(), why: "scope changed".to_owned() };
        let text = collision("CustomResourceDefinition \"a.b\"", foreign).to_string();
        assert!(
            text.ends_with(
                "it is controlled by BundleDeployment \"first\", which declares it otherwise: scope changed. Have both bundles \
                 declare the object compatibly, or leave it out of one of them; this is looked at again within a minute"
            ),
            "{text}"
        );
    }

    /// Whoever deletes the BundleDeployment of an extension loses every object of its CRDs, and the extension makes it anew.
    #[test]
    fn the_owner_of_the_other_bundle_deployment_is_named() {
        let collision = Collision {
            keeper: Some("ClusterExtension \"first\"".to_owned()),
            ..collision("Pod \"p\"", controller("BundleDeployment", true))
        };
        let text = collision.to_string();
        assert!(
            text.ends_with(
                "Leave the object out of one of the two bundles; the other one is that of ClusterExtension \"first\""
            ),
            "{text}"
        );
    }

    #[test]
    fn objects_of_one_kind_of_foreign_are_told_of_at_once() {
        let mut all: Vec<Collision> =
            (1..=8).rev().map(|n| collision(&format!("Secret \"s{n}\""), ForeignOwner::Unknown)).collect();
        all.push(collision("Pod \"p\"", controller("BundleDeployment", true)));
        let texts = texts(&all);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].contains("Pod \"p\" exists and cannot"), "{}", texts[0]);
        let many = "Unable to continue with install: Secret \"s1\" exists and cannot be imported into the current release: \
                    invalid ownership metadata; it was not created by this BundleDeployment. The same holds for 7 others: \
                    Secret \"s2\", Secret \"s3\", Secret \"s4\", Secret \"s5\" and 3 more. Let this BundleDeployment take them over";
        assert!(texts[1].contains(many), "{}", texts[1]);
        assert_eq!(texts[1].matches("adopt-by").count(), 1, "the advice is given once");
        assert_eq!(super::texts(&all[3..8]).len(), 1);
        assert!(!super::texts(&all[3..8])[0].contains("more"), "five are named");
        assert!(super::texts(&all[6..8])[0].contains("BundleDeployment. The same holds for Secret \"s2\". Let this"));
    }
}
