//! Whether the image of a catalog may be unpacked: for somebody else to say.

use std::fmt::Debug;
use std::pin::Pin;

use rukpak_source::image::{self, Credentials, Puller, ResolvedImage};

/// An answer that is waited for: a refusal in words, or that none could be found.
pub type Admission<'a> = Pin<Box<dyn Future<Output = Result<Result<(), String>, image::Error>> + Send + 'a>>;

/// Is asked about images of catalogs.
pub trait Gate: Debug + Send + Sync {
    /// Whether what `reference` names now may be unpacked.
    fn admit<'a>(
        &'a self,
        puller: &'a Puller,
        reference: &'a str,
        image: &'a ResolvedImage,
        credentials: &'a Credentials,
    ) -> Admission<'a>;
}
