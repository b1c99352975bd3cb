//! Layers of mirrors, checked before they are used.

use reqwest::Response;
use rukpak_content::{Digest, Limit, LimitExceeded};

use crate::body;
use crate::image::{Error, transport::Transport};
use crate::pace;
use crate::stage;

/// The same answer, its body from the disk, if it is what `digest` names.
pub(super) async fn checked(
    response: Response,
    digest: &Digest,
    transport: &Transport,
    what: &str,
) -> Result<Response, Error> {
    let (folder, maximum) = (&transport.spool_dir, transport.download_bytes);
    let what = what.to_owned();
    let body = match body::receive(response, folder, digest.algorithm(), maximum).await {
        Ok(body) => body,
        Err(error) => {
            return Err(match error {
                body::Error::Broken { received_bytes, source } => Error::Body { what, received_bytes, source },
                body::Error::TooSlow { received_bytes } => Error::Pace { what, received_bytes, asked: pace::asked() },
                body::Error::TooLarge => {
                    Error::Limit(LimitExceeded { limit: Limit::DownloadBytes, maximum, place: what })
                }
                body::Error::Spool(source) => {
                    Error::Stage(stage::Error::Create { folder: folder.display().to_string(), source })
                }
                body::Error::Worker(source) => Error::Worker { digest: digest.clone(), source },
            });
        }
    };
    if body.digest != *digest {
        return Err(Error::Mismatch { what, expected: digest.clone(), actual: body.digest });
    }
    let file = reqwest::Body::from(tokio::fs::File::from_std(body.file));
    Ok(http::Response::new(file).into())
}
