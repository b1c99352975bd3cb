//! What a registry keeps beside an image, and whoever looks at it. Sources fetch attachments, and have them looked at by who knows
//! what they mean.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// One blob that is attached to an image, checked against its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// Media type in its descriptor.
    pub media_type: String,
    /// Annotations of the descriptor.
    pub annotations: BTreeMap<String, String>,
    /// The bytes.
    pub body: Vec<u8>,
}

/// How whoever looks at attachments chooses among them.
pub trait AttachmentVisitor: Send + Sync {
    /// Whether blobs of this type are to be fetched.
    fn wants(&self, media_type: &str) -> bool;
    /// One of them. [`ControlFlow::Break`] ends the search.
    fn visit(&mut self, attachment: &Attachment) -> ControlFlow<()>;
    /// One of them is damaged, or too large, and why.
    fn unreadable(&mut self, why: &str);
}
