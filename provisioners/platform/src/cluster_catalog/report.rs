//! From what came of a reconcile to the status. Pure; the words are catalogd's.

use jiff::Timestamp;
use rukpak_crds::condition::{Conditions as _, NewCondition, VERIFIED};
use rukpak_crds::olm::cluster_catalog::{
    AVAILABLE, CatalogSourceType, CatalogUrls, ClusterCatalogStatus, ResolvedCatalogImage, ResolvedCatalogSource,
    SERVING, USER_SPECIFIED_UNAVAILABLE,
};
use rukpak_crds::olm::{PROGRESSING, reason};
use rukpak_crds::{Condition, ConditionStatus};

use super::Outcome;
use crate::policies::Verified;

const UNAVAILABLE: &str = "Catalog availability mode is set to Unavailable";

/// What the status is to say.
pub(super) struct Said<'a> {
    pub outcome: &'a Outcome,
    /// Of the image that the spec names.
    pub verified: Verified,
}

/// The status after an outcome; `base` is the URL of the content, if it is served.
pub(super) fn status(
    old: &ClusterCatalogStatus,
    generation: Option<i64>,
    Said { outcome, verified }: Said<'_>,
    base: Option<String>,
    now: Timestamp,
) -> ClusterCatalogStatus {
    let mut status = old.clone();
    let mut conditions = old.conditions.clone();
    // Others are of whoever kept the catalog before, and nobody keeps them true any more.
    conditions.retain(|condition| [PROGRESSING, SERVING, VERIFIED].contains(&condition.type_.as_str()));
    let mut condition = |type_: &str, status, reason: &str, message: &str| {
        conditions.set(NewCondition { type_, status, reason, message }, generation, now);
    };
    let verified = if matches!(outcome, Outcome::Unavailable) { Verified::Uncovered } else { verified };
    if let Verified::Said { status, reason, message } = &verified {
        condition(VERIFIED, *status, reason, message);
    }
    match outcome {
        Outcome::Stored { stored, reference } => {
            let message = "Successfully unpacked and stored content from resolved source";
            condition(PROGRESSING, ConditionStatus::True, reason::SUCCEEDED, message);
            condition(SERVING, ConditionStatus::True, AVAILABLE, "Serving desired content from resolved source");
            let image = ResolvedCatalogImage { reference: reference.clone() };
            status.resolved_source = Some(ResolvedCatalogSource { type_: CatalogSourceType::Image, image });
            status.urls = base.map(|base| CatalogUrls { base });
            status.last_unpacked = Some(stored.unpacked_at());
        }
        Outcome::Unavailable => {
            condition(PROGRESSING, ConditionStatus::True, reason::SUCCEEDED, UNAVAILABLE);
            condition(SERVING, ConditionStatus::False, USER_SPECIFIED_UNAVAILABLE, UNAVAILABLE);
            (status.resolved_source, status.urls, status.last_unpacked) = (None, None, None);
        }
        Outcome::Failed { message, is_terminal: true, .. } => {
            condition(PROGRESSING, ConditionStatus::False, reason::BLOCKED, message);
        }
        Outcome::Failed { message, .. } => condition(PROGRESSING, ConditionStatus::True, reason::RETRYING, message),
    }
    if verified == Verified::Uncovered {
        conditions.drop_type(VERIFIED);
    }
    status.conditions = conditions;
    status
}

/// The conditions of which `after` says something else than `before`, by status and reason.
pub(crate) fn changed<'a>(
    before: &'a [Condition],
    after: &'a [Condition],
) -> impl Iterator<Item = (Option<&'a Condition>, &'a Condition)> {
    let same_type = |now: &Condition| before.iter().find(|before| before.type_ == now.type_);
    let pairs = after.iter().map(move |now| (same_type(now), now));
    pairs.filter(|(before, now)| {
        before.is_none_or(|before| (before.status, &before.reason) != (now.status, &now.reason))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::store::Stored;
    use super::*;

    fn said(status: &ClusterCatalogStatus) -> Vec<(&str, ConditionStatus, &str, &str)> {
        let of = |c: &'static str| status.conditions.find(c);
        let both = [PROGRESSING, SERVING].into_iter().filter_map(of);
        both.map(|c| (c.type_.as_str(), c.status, c.reason.as_str(), c.message.as_str())).collect()
    }

    /// Source: catalogd's table of conditions.
    #[test]
    fn what_is_said_of_each_outcome() {
        use ConditionStatus::{False, True};
        let now = Timestamp::from_second(1).unwrap();
        let report = |old: &ClusterCatalogStatus, outcome: &Outcome| {
            status(
                old,
                Some(3),
                Said { outcome, verified: Verified::Unlooked },
                Some("https://s/catalogs/c".to_owned()),
                now,
            )
        };
        let failed = |is_terminal| Outcome::Failed { message: "m".to_owned(), is_terminal, retry: None };
        let empty = ClusterCatalogStatus::default();
        // One that was never unpacked is not said to be served or not.
        assert_eq!(said(&report(&empty, &failed(false))), [("Progressing", True, "Retrying", "m")]);
        assert_eq!(said(&report(&empty, &failed(true))), [("Progressing", False, "Blocked", "m")]);

        let stored = Arc::new(Stored::for_test("sha256:00"));
        let good = report(&empty, &Outcome::Stored { stored, reference: "r/c@sha256:00".to_owned() });
        let serving = ("Serving", True, "Available", "Serving desired content from resolved source");
        let text = "Successfully unpacked and stored content from resolved source";
        assert_eq!(said(&good), [("Progressing", True, "Succeeded", text), serving]);
        assert_eq!(good.urls.as_ref().unwrap().base, "https://s/catalogs/c");
        assert!(good.last_unpacked.is_some() && good.resolved_source.is_some());

        // Nobody keeps true what a former owner said.
        let mut foreign = good.clone();
        foreign.conditions[0].type_ = "Unpacked".to_owned();
        assert!(report(&foreign, &failed(false)).conditions.iter().all(|condition| condition.type_ != "Unpacked"));

        // What was served is served on.
        let after = report(&good, &failed(false));
        assert_eq!(said(&after), [("Progressing", True, "Retrying", "m"), serving]);
        assert_eq!(after.resolved_source, good.resolved_source);

        let off = report(&good, &Outcome::Unavailable);
        assert_eq!(
            said(&off),
            [
                ("Progressing", True, "Succeeded", UNAVAILABLE),
                ("Serving", False, "UserSpecifiedUnavailable", UNAVAILABLE)
            ]
        );
        assert_eq!((off.resolved_source, off.urls, off.last_unpacked), (None, None, None));

        let outcome = failed(false);
        let said = Verified::Said { status: False, reason: "RefusedByPolicy".to_owned(), message: "why".to_owned() };
        let judge = |old: &ClusterCatalogStatus, verified| {
            status(old, Some(3), Said { outcome: &outcome, verified }, None, now)
        };
        let judged = judge(&good, said);
        let verified = |status: &ClusterCatalogStatus| {
            status.conditions.find(VERIFIED).map(|found| (found.status, found.reason.clone(), found.message.clone()))
        };
        assert_eq!(verified(&judged), Some((False, "RefusedByPolicy".to_owned(), "why".to_owned())));
        assert_eq!(verified(&judge(&judged, Verified::Uncovered)), None);
        // After a restart nobody has looked at it yet.
        assert_eq!(verified(&report(&judged, &failed(false))), verified(&judged));
        assert_eq!(verified(&report(&judged, &Outcome::Unavailable)), None);
        assert!(good.conditions.iter().all(|condition| condition.observed_generation == Some(3)));
    }
}
