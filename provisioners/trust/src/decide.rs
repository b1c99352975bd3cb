//! From the policies and a source to what is asked of it.

use std::fmt;
use std::sync::Arc;

use rukpak_crds::{ContentPolicy, PolicyAction, PolicyRule, SourceType};

use crate::scope::{Fit, Scope};

/// A source, as far as policies care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its type.
    pub source: SourceType,
    /// `host/path`, where it has one.
    pub location: Option<String>,
    /// Whether it names its version for good: by digest or commit.
    pub pinned: bool,
    /// How somebody between could answer in the place of its server, if so.
    pub insecure: Option<Insecure>,
}

/// Why it is not known who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insecure {
    /// Plain http.
    WithoutTls,
    /// `auth.insecureSkipVerify`.
    SkipsVerification,
}

/// All policies, and what holds where no rule does.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// In any order.
    pub policies: Vec<Arc<ContentPolicy>>,
    /// Whether sources are refused that no rule covers.
    pub closed: bool,
}

/// A rule, as messages call it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName {
    /// The ContentPolicy.
    pub policy: String,
    /// The rule in it.
    pub rule: String,
}

/// What is asked of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: no rule covers it.
    NotCovered,
    /// Nothing: the rule accepts it.
    Accepted(RuleName),
    /// It is refused, and why.
    Refused(String),
    /// Each of the rules requires a signature. Never none.
    Required(Vec<(RuleName, PolicyRule)>),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => formatter.write_str(location),
            None => write!(formatter, "a source of type {}", self.type_name()),
        }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rule {:?} of ContentPolicy {:?}", self.rule, self.policy)
    }
}

impl RuleName {
    fn new(policy: &ContentPolicy, rule: &PolicyRule) -> Self {
        Self { policy: policy.metadata.name.clone().unwrap_or_default(), rule: rule.name.clone() }
    }
}

impl Place {
    fn type_name(&self) -> &'static str {
        match self.source {
            SourceType::Image => "image",
            SourceType::Git => "git",
            SourceType::Http => "http",
            SourceType::ConfigMaps => "configMaps",
            SourceType::Upload => "upload",
        }
    }

    /// How well the rule fits; `None` if it is for other sources.
    fn fit(&self, rule: &PolicyRule) -> Option<Fit> {
        if !rule.sources.is_empty() && !rule.sources.contains(&self.source) {
            return None;
        }
        let fit = |scope: &String| Scope::new(self.spelled(scope)).fit(self.location.as_deref());
        rule.scopes.iter().filter_map(fit).max()
    }

    /// A scope as locations are spelled: those of repositories leave out `.git`.
    fn spelled<'a>(&self, scope: &'a str) -> &'a str {
        let is_repository = self.source == SourceType::Git && scope.contains('/');
        let shorter = scope.trim_end_matches('/').strip_suffix(".git").filter(|_| is_repository);
        shorter.unwrap_or(scope)
    }

    fn refusal(&self, name: &RuleName, rule: &PolicyRule) -> Option<String> {
        if rule.action == PolicyAction::Refuse {
            return Some(format!("{name} refuses {self}"));
        }
        if let Some(insecure) = self.insecure.filter(|_| !rule.allow_insecure) {
            let how = match insecure {
                Insecure::WithoutTls => "is fetched without TLS, so that anybody between can answer: use https",
                Insecure::SkipsVerification => {
                    "is fetched from a server that need not prove who it is: leave out auth.insecureSkipVerify, and have its \
                     authority trusted (--source-ca-file)"
                }
            };
            return Some(format!("{name} refuses {self}, which {how}; or set allowInsecure of the rule"));
        }
        if rule.require_digest && !self.pinned {
            let how = match self.source {
                SourceType::Image => "name the image by its digest, registry/repository@sha256:...",
                SourceType::Git => "name a commit in ref.commit",
                SourceType::Http | SourceType::ConfigMaps | SourceType::Upload => "sources of this type have none",
            };
            return Some(format!("{name} requires a digest of {self}: {how}"));
        }
        let can_be_signed = matches!(self.source, SourceType::Image | SourceType::Git);
        if rule.action == PolicyAction::Require && !can_be_signed {
            let type_ = self.type_name();
            return Some(format!(
                "{name} requires a signature, and sources of type {type_} have none: publish an image"
            ));
        }
        None
    }
}

impl Policies {
    /// The rules that fit `place` best, in the order of their names.
    fn rules(&self, place: &Place) -> Vec<(RuleName, &PolicyRule)> {
        let all = self
            .policies
            .iter()
            .flat_map(|policy| policy.spec.rules.iter().filter_map(move |rule| Some((place.fit(rule)?, policy, rule))));
        let fitting: Vec<_> = all.collect();
        let Some(best) = fitting.iter().map(|(fit, ..)| *fit).max() else { return Vec::new() };
        let best = fitting.into_iter().filter(|(fit, ..)| *fit == best);
        let mut rules: Vec<_> = best.map(|(_, policy, rule)| (RuleName::new(policy, rule), rule)).collect();
        rules.sort_by(|one, other| one.0.cmp(&other.0));
        rules
    }

    /// The rules whose scopes and types of sources fit none of `places`: it may be that their author meant another place.
    pub fn unused(&self, places: &[Place]) -> Vec<RuleName> {
        let all = self.policies.iter().flat_map(|policy| policy.spec.rules.iter().map(move |rule| (policy, rule)));
        let unused = all.filter(|(_, rule)| !places.iter().any(|place| place.fit(rule).is_some()));
        let mut names: Vec<_> = unused.map(|(policy, rule)| RuleName::new(policy, rule)).collect();
        names.sort();
        names
    }

    /// What is asked of `place`.
    pub fn decide(&self, place: &Place) -> Decision {
        let rules = self.rules(place);
        let Some((first, _)) = rules.first() else {
            if !self.closed {
                return Decision::NotCovered;
            }
            let why = "and this cluster asks for one (--require=content-policy)";
            return Decision::Refused(format!("no rule of a ContentPolicy accepts {place}, {why}"));
        };
        if let Some(text) = rules.iter().find_map(|(name, rule)| place.refusal(name, rule)) {
            return Decision::Refused(text);
        }
        let required = rules.iter().filter(|(_, rule)| rule.action == PolicyAction::Require);
        let required: Vec<_> = required.map(|(name, rule)| (name.clone(), (*rule).clone())).collect();
        if required.is_empty() { Decision::Accepted(first.clone()) } else { Decision::Required(required) }
    }
}

#[cfg(test)]
mod tests {
    use rukpak_crds::ContentPolicySpec;
    use serde_json::{Value, json};

    use super::*;

    fn policies(closed: bool, rules: &[Value]) -> Policies {
        let spec = |(at, rule): (usize, &Value)| {
            let mut rule = rule.clone();
            rule["name"] = json!(format!("r{at}"));
            let spec: ContentPolicySpec = serde_json::from_value(json!({"rules": [rule]})).unwrap();
            Arc::new(ContentPolicy::new(&format!("p{at}"), spec))
        };
        Policies { policies: rules.iter().enumerate().map(spec).collect(), closed }
    }

    fn image(location: &str) -> Place {
        Place { source: SourceType::Image, location: Some(location.to_owned()), pinned: false, insecure: None }
    }

    fn upload() -> Place {
        Place { source: SourceType::Upload, location: None, ..image("") }
    }

    fn rule(action: &str, scope: &str) -> Value {
        json!({"action": action, "scopes": [scope]})
    }

    fn refusal(decision: Decision) -> String {
        match decision {
            Decision::Refused(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_rule_a_flag_decides() {
        assert_eq!(policies(false, &[]).decide(&image("h/a")), Decision::NotCovered);
        let text = refusal(policies(true, &[rule("Accept", "other")]).decide(&image("h/a")));
        assert!(text.contains("accepts h/a") && text.contains("--require=content-policy"), "{text}");
    }

    #[test]
    fn the_narrowest_scope_decides() {
        let policies = policies(true, &[rule("Refuse", "*"), rule("Accept", "h/a"), rule("Refuse", "h")]);
        assert!(matches!(policies.decide(&image("h/a/b")), Decision::Accepted(_)));
        assert_eq!(refusal(policies.decide(&image("h/b"))), r#"rule "r2" of ContentPolicy "p2" refuses h/b"#);
        assert!(refusal(policies.decide(&image("i/b"))).contains("\"r0\""));
    }

    /// However long the path below a domain is: what is said of a host by its name is meant.
    #[test]
    fn a_host_by_its_name_goes_before_its_domain_and_that_before_everything() {
        let policies = policies(true, &[rule("Refuse", "*.example.com/a/b/c"), rule("Accept", "h.example.com")]);
        assert!(matches!(policies.decide(&image("h.example.com/a/b/c")), Decision::Accepted(_)));
        assert!(refusal(policies.decide(&image("i.example.com/a/b/c"))).contains("\"r0\""));
    }

    #[test]
    fn of_equal_scopes_all_rules_hold() {
        let all = [rule("Accept", "h/a"), rule("Require", "h/a/"), rule("Require", "h/a")];
        let Decision::Required(rules) = policies(false, &all).decide(&image("h/a")) else { panic!("not required") };
        assert_eq!(rules.iter().map(|(name, _)| name.rule.as_str()).collect::<Vec<_>>(), ["r1", "r2"]);
        let more = [rule("Require", "h/a"), rule("Refuse", "h/a")];
        assert!(refusal(policies(false, &more).decide(&image("h/a"))).contains("refuses"));
    }

    #[test]
    fn a_rule_is_for_its_types_of_sources() {
        let mut git = rule("Refuse", "*");
        git["sources"] = json!(["git", "upload"]);
        let policies = policies(false, &[git]);
        assert_eq!(policies.decide(&image("h/a")), Decision::NotCovered);
        assert!(refusal(policies.decide(&upload())).ends_with("refuses a source of type upload"));
    }

    #[test]
    fn a_digest_is_asked_for_in_the_words_of_the_source() {
        let mut digest = rule("Accept", "*");
        digest["requireDigest"] = json!(true);
        let policies = policies(false, &[digest]);
        assert!(refusal(policies.decide(&image("h/a"))).contains("@sha256:"));
        assert!(matches!(policies.decide(&Place { pinned: true, ..image("h/a") }), Decision::Accepted(_)));
        let git = Place { source: SourceType::Git, ..image("h/a") };
        assert!(refusal(policies.decide(&git)).contains("ref.commit"));
    }

    #[test]
    fn what_cannot_be_signed_is_refused_where_a_signature_is_required() {
        let policies = policies(false, &[rule("Require", "*")]);
        assert!(refusal(policies.decide(&upload())).contains("sources of type upload have none"));
        let http = Place { source: SourceType::Http, ..image("h/a.tgz") };
        assert!(refusal(policies.decide(&http)).contains("sources of type http have none"));
        let git = Place { source: SourceType::Git, ..image("h/a") };
        assert!(matches!(policies.decide(&git), Decision::Required(_)));
    }

    #[test]
    fn a_source_that_anybody_between_could_answer_for_is_refused_unless_the_rule_allows_it() {
        let mut open = rule("Accept", "h");
        open["allowInsecure"] = json!(true);
        for (insecure, word) in
            [(Insecure::WithoutTls, "without TLS"), (Insecure::SkipsVerification, "insecureSkipVerify")]
        {
            let place = Place { source: SourceType::Http, insecure: Some(insecure), ..image("h/a") };
            for action in ["Accept", "Require"] {
                let text = refusal(policies(false, &[rule(action, "h")]).decide(&place));
                assert!(text.contains(word) && text.contains("allowInsecure"), "{text}");
            }
            assert!(matches!(policies(false, &[open.clone()]).decide(&place), Decision::Accepted(_)));
            assert_eq!(policies(false, &[]).decide(&place), Decision::NotCovered, "nobody asks");
        }
    }

    #[test]
    fn a_scope_of_a_repository_fits_with_and_without_its_ending() {
        let place = Place { source: SourceType::Git, ..image("github.com/example/manifests") };
        for scope in
            ["github.com/example/manifests.git", "github.com/example/manifests.git/", "github.com/example/manifests"]
        {
            let policies = policies(false, &[rule("Refuse", scope)]);
            assert!(matches!(policies.decide(&place), Decision::Refused(_)), "{scope}");
            assert_eq!(policies.unused(std::slice::from_ref(&place)), []);
        }
        // It is a part of the name of an image, and of a domain.
        let refused = |scope: &str, place: &Place| {
            matches!(policies(false, &[rule("Refuse", scope)]).decide(place), Decision::Refused(_))
        };
        assert!(!refused("h/a.git", &image("h/a")) && refused("h/a.git", &image("h/a.git")));
        assert!(!refused("*.git", &place));
    }

    #[test]
    fn a_rule_that_fits_no_source_is_named() {
        let mut git = rule("Require", "h/a");
        git["sources"] = json!(["git"]);
        let policies = policies(false, &[rule("Accept", "h"), rule("Require", "other"), git]);
        let names: Vec<_> = policies.unused(&[image("h/a")]).into_iter().map(|name| name.rule).collect();
        assert_eq!(names, ["r1", "r2"]);
    }
}
