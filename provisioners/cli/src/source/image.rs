//! An image in a registry.

use std::env;
use std::fs;

use rukpak_content::Limits;
use rukpak_source::Stage;
use rukpak_source::image::{Puller, PullerOptions};

use super::{Error, credentials};
use crate::args::SourceArgs;
use crate::output::talk;

/// Pulls an image. Returns its reference by digest, and its files.
pub(super) async fn stage(name: &str, arguments: &SourceArgs, limits: Limits) -> Result<(String, Stage), Error> {
    let failed = |source| Error::Image { name: name.to_owned(), source: Box::new(source) };
    let mut options = PullerOptions::new(env::temp_dir(), limits);
    for file in &arguments.ca_file {
        let pem = fs::read(file).map_err(|source| Error::Read { path: file.display().to_string(), source })?;
        options.extra_ca_pem.extend(pem);
        options.extra_ca_pem.push(b'\n');
    }
    options.plain_http.clone_from(&arguments.plain_http_registry);
    let logins = credentials::read()?;
    let puller = Puller::new(options).map_err(failed)?;
    let image = puller.resolve(name, &logins.credentials).await.inspect_err(|_| {
        if let Some(file) = &logins.helpers {
            talk(&format!(
                "note: {file} names a credential helper, which is not asked: only logins in the file itself count"
            ));
        }
    });
    let image = image.map_err(failed)?;
    let stage = puller.fetch(&image, &logins.credentials).await.map_err(failed)?;
    Ok((image.reference(), stage))
}
