//! The part of all Bundles and BundleDeployments that this process works on, chosen by their labels: `--watch-label-selector`.
//!
//! Each shard has a Lease, a store and certificates of its own. A generated Bundle gets the labels of its BundleDeployment that the
//! selector is about, so both are of one shard, and move to another one together.

use std::collections::BTreeMap;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// What this process works on. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard {
    /// As the API server takes it; empty for everything.
    selector: String,
    /// The labels that it looks at.
    keys: Vec<String>,
}

/// A selector that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no requirement of a label selector, such as shard=one, shard!=one, shard in (one,two), shard or !shard"
)]
pub struct Malformed(String);

type Labels = BTreeMap<String, String>;

impl Shard {
    /// What to list and watch.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// `name`, and what tells this shard's from those of the others.
    pub fn named(&self, name: &str) -> String {
        self.id().map_or_else(|| name.to_owned(), |id| format!("{name}-{id}"))
    }

    /// Eight digits that stand for the selector; nothing for who works on everything.
    pub fn id(&self) -> Option<String> {
        let digest = Sha256::digest(self.selector.as_bytes());
        let digits = || format!("{:08x}", u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]));
        (!self.selector.is_empty()).then(digits)
    }

    /// Whether a deployment with the labels `after` is in the same shard as with `before`, as far as can be told without the rules of
    /// selectors: no label that the selector looks at has changed.
    pub fn is_unmoved(&self, before: Option<&Labels>, after: Option<&Labels>) -> bool {
        let value = |labels: Option<&Labels>, key: &String| labels.and_then(|labels| labels.get(key)).cloned();
        self.keys.iter().all(|key| value(before, key) == value(after, key))
    }

    /// Gives a generated Bundle what the selector asks of its BundleDeployment.
    pub(crate) fn hand_down(&self, deployment: Option<&Labels>, bundle: &mut Labels) {
        for key in &self.keys {
            match deployment.and_then(|labels| labels.get(key)) {
                Some(value) => bundle.insert(key.clone(), value.clone()),
                None => bundle.remove(key),
            };
        }
    }
}

impl FromStr for Shard {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let requirements = requirements(text);
        let keys: Result<Vec<_>, _> = requirements.iter().map(|text| key(text)).collect();
        Ok(Self { selector: requirements.join(","), keys: keys? })
    }
}

/// Split at commas that are not between parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The label of one requirement. What is wrong with its values is for the API server to say.
fn key(requirement: &str) -> Result<String, Malformed> {
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    let text = requirement.trim_start_matches('!').trim_start();
    let (key, rest) = text.split_at(text.find(|character| !is_of_name(character)).unwrap_or(text.len()));
    let rest = rest.trim();
    let is_set =
        ["in", "notin"].iter().any(|word| rest.strip_prefix(word).is_some_and(|set| set.trim().starts_with('(')));
    let is_known = rest.is_empty() || rest.starts_with('=') || rest.starts_with("!=") || is_set;
    if key.is_empty() || !is_known { Err(Malformed(requirement.to_owned())) } else { Ok(key.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_labels_of_each_form_of_requirement_are_found() {
        let shard: Shard = "a=1, b==2,c!=3,example.com/d in (x, y),e notin(z),f,!g".parse().unwrap();
        assert_eq!(shard.keys, ["a", "b", "c", "example.com/d", "e", "f", "g"]);
        assert_eq!(shard.selector(), "a=1,b==2,c!=3,example.com/d in (x, y),e notin(z),f,!g");
        for wrong in ["=1", "a b", "a inside", "(a)"] {
            assert_eq!(Shard::from_str(wrong), Err(Malformed(wrong.to_owned())));
        }
    }

    #[test]
    fn who_works_on_everything_has_the_names_without_addition() {
        let all: Shard = "".parse().unwrap();
        assert_eq!((all.named("core.rukpak.io").as_str(), all.id()), ("core.rukpak.io", None));
        let one: Shard = "shard=one".parse().unwrap();
        assert_eq!(one.named("core.rukpak.io"), format!("core.rukpak.io-{}", one.id().unwrap()));
        assert_ne!(one.id(), "shard=two".parse::<Shard>().unwrap().id());
    }

    #[test]
    fn a_bundle_is_of_the_shard_of_its_deployment() {
        let shard: Shard = "shard=one,!special".parse().unwrap();
        let mut bundle = labels(&[("app", "a"), ("shard", "old"), ("special", "yes")]);
        shard.hand_down(Some(&labels(&[("shard", "one"), ("other", "x")])), &mut bundle);
        assert_eq!(bundle, labels(&[("app", "a"), ("shard", "one")]));
    }

    #[test]
    fn moves_deployment_with_labels_of_its_selector_only() {
        let shard: Shard = "shard=one,!special".parse().unwrap();
        let before = labels(&[("shard", "one"), ("other", "x")]);
        let is_unmoved = |after: &[(&str, &str)]| shard.is_unmoved(Some(&before), Some(&labels(after)));
        assert!(is_unmoved(&[("shard", "one"), ("other", "y")]));
        assert!(!is_unmoved(&[("shard", "two"), ("other", "x")]));
        assert!(!is_unmoved(&[("shard", "one"), ("special", "")]));
        assert!(!shard.is_unmoved(Some(&before), None));
        assert!(Shard::default().is_unmoved(Some(&before), None));
    }
}
