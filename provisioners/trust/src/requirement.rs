//! A rule that requires a signature, with what its signers are known by.

use rukpak_content::Digest;
use rukpak_crds::PolicyRule;

use crate::decide::RuleName;
use crate::signer::Credential;

/// A rule, and the texts that its signers name: keys, certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// How messages call the rule.
    pub name: RuleName,
    /// It requires a signature.
    pub rule: PolicyRule,
    /// Of each of its signers, in order, what [`Signer::pems`](rukpak_crds::Signer::pems) names; or why that cannot be read.
    pub texts: Vec<Texts>,
}

/// What one signer names.
pub type Texts = Result<Vec<String>, String>;

impl Requirement {
    /// What signers are known by, and in words, to be put behind others, whose key cannot be used and why.
    pub fn credentials(&self) -> (Vec<(String, Credential)>, String) {
        let (mut known, mut unusable) = (Vec::new(), Vec::new());
        for (signer, texts) in self.rule.signers.iter().zip(&self.texts) {
            match texts.clone().and_then(|texts| Credential::new(signer, &texts)) {
                Ok(credential) => known.push((signer.name.clone(), credential)),
                Err(why) => unusable.push(format!("; the key of {} cannot be used: {why}", signer.name)),
            }
        }
        (known, unusable.concat())
    }

    /// That the rule asks for a signature of `what`, and by whom.
    ///
    /// # Errors
    /// It names nobody.
    pub fn wanted(&self, what: &str) -> Result<String, String> {
        let wanted = format!("{} requires a signature of {what}", self.name);
        let signers: Vec<_> = self.rule.signers.iter().map(|signer| signer.name.as_str()).collect();
        if signers.is_empty() {
            return Err(format!("{wanted} and names nobody who may sign"));
        }
        Ok(format!("{wanted} by {}", signers.join(" or ")))
    }
}

/// Names what is asked for: equal for equal rules and equal texts. A key that changes in its Secret makes another one.
pub fn digest(requirements: &[Requirement]) -> Digest {
    let parts = |requirement: &Requirement| {
        let Requirement { name, rule, texts } = requirement;
        (name.policy.clone(), rule.clone(), texts.clone())
    };
    let named: Vec<_> = requirements.iter().map(parts).collect();
    // Maps with keys that are no text are what cannot be written, and there are none.
    Digest::sha256(&serde_json::to_vec(&named).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_changed_rule_and_a_changed_key_have_another_digest() {
        let secret = json!({"name": "release", "publicKey": {"secretRef": {"name": "s", "key": "k"}}});
        let with = |policy: &str, signer: &serde_json::Value, texts: Texts| {
            let rule = json!({"name": "r", "scopes": ["*"], "action": "Require", "signers": [signer]});
            let name = RuleName { policy: policy.to_owned(), rule: "r".to_owned() };
            digest(&[Requirement { name, rule: serde_json::from_value(rule).unwrap(), texts: vec![texts] }])
        };
        let key = |text: &str| Ok(vec![text.to_owned()]);
        let before = with("p", &secret, key("one"));
        assert_eq!(before, with("p", &secret, key("one")));
        assert_ne!(before, with("q", &secret, key("one")));
        assert_ne!(before, with("p", &secret, key("two")));
        assert_ne!(before, with("p", &secret, Err("there is no secret s".to_owned())));
        assert_ne!(before, with("p", &json!({"name": "release", "publicKey": {"data": "one"}}), key("one")));
    }
}
