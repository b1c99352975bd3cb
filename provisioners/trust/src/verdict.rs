//! What a status says about content and the policies.

use rukpak_crds::condition::reason;
use rukpak_crds::{ConditionStatus, PolicyRule, Verification};

use crate::decide::{Decision, Place, Policies, RuleName};
use crate::requirement::{self, Requirement};

/// The condition `Verified`, and what stands beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True: signed. False: not to be unpacked. Unknown: nobody asks, or it could not be found out.
    pub status: ConditionStatus,
    /// One of [`reason`]'s.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// What came of the search for a signature, if there was one.
    pub record: Option<Verification>,
}

/// What is to be done about a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: this is said of it, whatever it holds.
    Answered(Verdict),
    /// Each of these rules requires a signature. Never none.
    Signatures(Vec<(RuleName, PolicyRule)>),
}

impl Asked {
    /// By these policies.
    pub fn of(place: &Place, policies: &Policies) -> Self {
        Self::Answered(match policies.decide(place) {
            Decision::NotCovered => Verdict::not_covered(place),
            Decision::Accepted(rule) => Verdict::accepted(place, &rule),
            Decision::Refused(why) => Verdict::refused(why),
            Decision::Required(rules) => return Self::Signatures(rules),
        })
    }
}

impl Verdict {
    /// No rule covers the source.
    pub fn not_covered(place: &Place) -> Self {
        let message =
            format!("No rule of a ContentPolicy covers {place}: nobody has verified who published its content");
        Self::new(ConditionStatus::Unknown, reason::NOT_REQUIRED, message)
    }

    /// A rule accepts the source as it is.
    pub fn accepted(place: &Place, rule: &RuleName) -> Self {
        let message = format!("{} accepts {place} without a signature", capitalized(rule));
        Self::new(ConditionStatus::Unknown, reason::NOT_REQUIRED, message)
    }

    /// The source is refused.
    pub fn refused(why: String) -> Self {
        Self::new(ConditionStatus::False, reason::REFUSED_BY_POLICY, why)
    }

    /// Whether it is signed could not be found out.
    pub fn pending(why: String) -> Self {
        Self::new(ConditionStatus::Unknown, reason::VERIFICATION_PENDING, why)
    }

    /// What came of the search for signatures of `version`, a digest or a commit, that meet each of `required`: the signers, or
    /// why there is none.
    pub fn searched(required: &[Requirement], version: &str, found: Result<Vec<String>, String>) -> Self {
        let names: Vec<_> = required.iter().map(|one| format!("{}/{}", one.name.policy, one.name.rule)).collect();
        let mut record = Verification {
            digest: version.to_owned(),
            rules: names.join(","),
            rules_digest: requirement::digest(required).to_string(),
            signed_by: None,
        };
        let verdict = match found {
            Ok(signers) => {
                let of_rules: Vec<_> = required.iter().map(|one| one.name.to_string()).collect();
                let (signers_text, of_rules) = (signers.join(", "), of_rules.join(" and "));
                record.signed_by = Some(signers.join(","));
                let message = format!("{version} is signed by {signers_text}, as {of_rules} requires");
                Self::new(ConditionStatus::True, reason::SIGNATURE_VERIFIED, message)
            }
            Err(why) => Self::new(ConditionStatus::False, reason::SIGNATURE_MISSING, why),
        };
        Self { record: Some(record), ..verdict }
    }

    fn new(status: ConditionStatus, reason: &'static str, message: String) -> Self {
        Self { status, reason, message, record: None }
    }

    /// Whether the content may be unpacked.
    pub fn admits(&self) -> bool {
        matches!(self.reason, reason::SIGNATURE_VERIFIED | reason::NOT_REQUIRED)
    }

    /// Whether a signature may still come, or come to be readable, while the policies stay what they are.
    pub fn may_come(&self) -> bool {
        matches!(self.reason, reason::SIGNATURE_MISSING | reason::VERIFICATION_PENDING)
    }
}

fn capitalized(rule: &RuleName) -> String {
    format!("Rule {:?} of ContentPolicy {:?}", rule.rule, rule.policy)
}
