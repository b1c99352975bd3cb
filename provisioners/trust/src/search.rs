//! One search for the signatures that several rules require, each of which has to be met.

use std::ops::ControlFlow;

use rukpak_content::{Attachment, AttachmentVisitor};

use crate::attachment::is_signature;
use crate::examine::{Examination, Subject};
use crate::requirement::Requirement;
use crate::verdict::Verdict;

/// What is found out while attachments are shown.
#[derive(Debug)]
pub struct Search<'a> {
    requirements: &'a [Requirement],
    subject: Subject<'a>,
    examinations: Vec<Examination<'a>>,
}

impl<'a> Search<'a> {
    /// Nothing has been shown.
    pub fn new(requirements: &'a [Requirement], subject: Subject<'a>) -> Self {
        let examinations = requirements.iter().map(|requirement| Examination::new(requirement, subject)).collect();
        Self { requirements, subject, examinations }
    }

    /// What came of it.
    pub fn verdict(self) -> Verdict {
        let found = self.examinations.into_iter().map(Examination::conclusion).collect();
        Verdict::searched(self.requirements, &self.subject.digest.to_string(), found)
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
