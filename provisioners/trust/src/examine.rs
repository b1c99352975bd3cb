//! From what is attached to an image to who signed it, or why nobody did.

use rukpak_content::{Attachment, Digest};

use crate::attachment::Signature;
use crate::requirement::Requirement;
use crate::scope::{Scope, is_same_place};
use crate::signer::Credential;

/// So many faults are told of one image.
const TOLD: usize = 5;

/// The image.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Digest of the manifest or index that was resolved.
    pub digest: &'a Digest,
    /// `registry/repository` that it was asked for from.
    pub repository: &'a str,
}

/// The search for a signature that meets one rule.
#[derive(Debug)]
pub struct Examination<'a> {
    requirement: &'a Requirement,
    subject: Subject<'a>,
    /// Those whose keys can be used, by their names.
    signers: Vec<(String, Credential)>,
    /// Why the keys of others cannot, in words.
    unusable: String,
    /// The repositories that a signature may name; any, if it may name none too.
    signed_as: Vec<Scope>,
    signed_by: Option<String>,
    faults: Vec<String>,
}

impl<'a> Examination<'a> {
    /// Nothing has been looked at.
    pub fn new(requirement: &'a Requirement, subject: Subject<'a>) -> Self {
        let signed_as = requirement.rule.signed_as.iter().map(|scope| Scope::new(scope)).collect();
        let (signers, unusable) = requirement.credentials();
        Self { requirement, subject, signers, unusable, signed_as, signed_by: None, faults: Vec::new() }
    }

    /// Looks at one attachment. Others need not be looked at once a signer is found.
    pub fn look(&mut self, attachment: &Attachment) {
        if self.signed_by.is_some() {
            return;
        }
        match self.signer_of(attachment) {
            Ok(signer) => self.signed_by = Some(signer),
            Err(fault) => self.faults.push(fault),
        }
    }

    /// An attachment could not be read.
    pub fn unreadable(&mut self, why: String) {
        self.faults.push(why);
    }

    /// Whether a signer is found.
    pub fn is_met(&self) -> bool {
        self.signed_by.is_some()
    }

    /// Who signed.
    ///
    /// # Errors
    /// Why there is no signature that meets the rule, for an administrator.
    pub fn conclusion(self) -> Result<String, String> {
        if let Some(signer) = self.signed_by {
            return Ok(signer);
        }
        let Subject { digest, repository } = self.subject;
        let wanted = self.requirement.wanted(&format!("{repository}@{digest}"))?;
        let unusable = self.unusable;
        if self.faults.is_empty() {
            let tag = format!("{}-{}.sig", digest.algorithm().name(), digest.hex());
            return Err(format!(
                "{wanted}, and it is not signed: there is neither a tag {tag} nor a referrer with a signature{unusable}"
            ));
        }
        let more = self.faults.len().saturating_sub(TOLD);
        let told = self.faults.iter().take(TOLD).enumerate();
        let told: Vec<_> = told.map(|(at, fault)| format!("signature {}: {fault}", at + 1)).collect();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(format!("{wanted}, and no signature will do: {}{more}{unusable}", told.join("; ")))
    }

    fn signer_of(&self, attachment: &Attachment) -> Result<String, String> {
        let signature = Signature::of(attachment).map_err(|error| error.to_string())?;
        let mut faults: Vec<String> = Vec::new();
        let mut found = None;
        for (signer, credential) in &self.signers {
            match credential.check(&signature) {
                Ok(identity) => found = Some((signer, identity)),
                Err(fault) if !faults.contains(&fault) => faults.push(fault),
                Err(_) => {}
            }
        }
        let Some((signer, identity)) = found else { return Err(faults.join("; ")) };
        // From here on it is known who wrote the payload.
        let payload = signature.payload().map_err(|error| error.to_string())?;
        let digest = self.subject.digest.to_string();
        if !payload.digests.contains(&digest) {
            let others = payload.digests.join(", ");
            return Err(format!("{signer} signed another image with it: {others}"));
        }
        self.check_repository(payload.repository.as_deref(), signer)?;
        Ok(match identity {
            Some(identity) => format!("{signer} ({identity})"),
            None => signer.clone(),
        })
    }

    /// A signature of an image elsewhere says nothing about an image of the same bytes here, unless the rule says so.
    fn check_repository(&self, named: Option<&str>, signer: &str) -> Result<(), String> {
        let is_allowed = match (self.signed_as.as_slice(), named) {
            // The format has no place for a repository, and the rule does not ask for one.
            ([], None) => true,
            ([], Some(named)) => is_same_place(named, self.subject.repository),
            (scopes, _) => scopes.iter().any(|scope| scope.fit(named).is_some()),
        };
        if is_allowed {
            return Ok(());
        }
        let named = named.unwrap_or("no repository");
        Err(format!(
            "{signer} signed it as {named} (if that is meant so, name that repository in signedAs of the rule)"
        ))
    }
}
