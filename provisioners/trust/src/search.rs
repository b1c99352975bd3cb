//! One search for the signatures that several rules require, each of which has to be met.

use std::ops::ControlFlow;

use rukpak_content::{Attachment, AttachmentVisitor};
use rukpak_crds::PolicyRule;

use crate::attachment::is_signature;
use crate::decide::RuleName;
use crate::examine::{Examination, Subject};
use crate::signer::Credential;
use crate::verdict::Verdict;

/// What is found out while attachments are shown.
#[derive(Debug)]
pub struct Search<'a> {
    rules: &'a [(RuleName, PolicyRule)],
    subject: Subject<'a>,
    examinations: Vec<Examination<'a>>,
}

/// What the signatures of a rule's signers are checked with, by their names, or why one cannot be used.
pub type Credentials = Vec<(String, Result<Credential, String>)>;

impl<'a> Search<'a> {
    /// Nothing has been shown. `credentials` are those of each rule, in order.
    pub fn new(rules: &'a [(RuleName, PolicyRule)], credentials: Vec<Credentials>, subject: Subject<'a>) -> Self {
        let rules_with = rules.iter().zip(credentials);
        let examinations =
            rules_with.map(|((name, rule), known)| Examination::new(name, rule, known, subject)).collect();
        Self { rules, subject, examinations }
    }

    /// What came of it.
    pub fn verdict(self) -> Verdict {
        // A rule without credentials is one that nobody can meet.
        let found = if self.examinations.len() == self.rules.len() {
            self.examinations.into_iter().map(Examination::conclusion).collect()
        } else {
            Err("not every rule was looked at".to_owned())
        };
        Verdict::searched(self.rules, self.subject.digest, found)
    }
}

impl AttachmentVisitor for Search<'_> {
    fn wants(&self, media_type: &str) -> bool {
        is_signature(media_type)
    }

    fn visit(&mut self, attachment: &Attachment) -> ControlFlow<()> {
        for examination in &mut self.examinations {
            examination.look(attachment);
        }
        if self.examinations.iter().all(Examination::is_met) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn unreadable(&mut self, why: &str) {
        for examination in &mut self.examinations {
            examination.unreadable(why.to_owned());
        }
    }
}
