//! Whose content may be unpacked: which rule of which ContentPolicy is for a source, and who has signed it.
//!
//! ```text
//! location, scope   where a source is; the places that a rule is for
//! decide            (policies, source) -> what is asked of it
//! key               a public key, and whether it made a signature
//! payload           what a signature says: which digest, of which repository
//! attachment        signature and payload, out of what cosign attaches to an image
//! keyless, log      a signer without a key of their own: certificate and identity, and when they signed
//! ssh               keys and signatures of ssh
//! git               who signed a commit or a tag, out of the objects
//! signer            one or the other, as a rule names them
//! requirement       a rule that asks for a signature, and the texts that its signers name
//! examine           (attachments, rule) -> who signed, or why nobody did
//! search            the same for all rules at once, while a source shows what is attached
//! verdict           what a status says about all that
//! ```
//!
//! Pure: the caller fetches what is attached to an image, and reads Secrets. What others wrote is read under the limits of the
//! caller and refused where it is odd: whatever cannot be read is no signature.

pub mod attachment;
pub mod decide;
pub mod examine;
pub mod git;
pub mod key;
pub mod keyless;
pub mod log;
pub mod payload;
pub mod requirement;
pub mod scope;
pub mod search;
pub mod signer;
pub mod ssh;
pub mod verdict;

pub use attachment::Signature;
pub use decide::{Decision, Insecure, Place, Policies, RuleName};
pub use examine::{Examination, Subject};
pub use git::{GitObjects, GitSubject};
pub use key::PublicKey;
pub use keyless::Keyless;
pub use requirement::{Requirement, Texts};
pub use scope::Scope;
pub use search::Search;
pub use signer::Credential;
pub use verdict::{Asked, Verdict};
