mod authentication;
mod content;
mod failures;
mod folder;
mod mirrors;
mod signatures;

use rukpak_content::Digest;

use super::*;
use crate::chain::chain;
use crate::client::server;
use crate::stage::tests::listing;
use crate::tarball::tests::{escaping, gzip, tar};
use server::{Answer, Seen, Server};

/// An image: its manifest and its layers by digest.
#[derive(Clone, Default)]
struct Image {
    manifest: String,
    blobs: Vec<(String, Vec<u8>)>,
}

const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

impl Image {
    fn new(layers: &[(&str, Vec<u8>)]) -> Self {
        let descriptor = |media_type: &str, digest: &str, size: usize| {
            format!(r#"{{"mediaType":"{media_type}","digest":"{digest}","size":{size}}}"#)
        };
        let blobs: Vec<_> = layers.iter().map(|(_, blob)| (Digest::sha256(blob).to_string(), blob.clone())).collect();
        let layers: Vec<_> =
            layers.iter().zip(&blobs).map(|((kind, _), (digest, blob))| descriptor(kind, digest, blob.len())).collect();
        let config = descriptor("application/vnd.oci.image.config.v1+json", &Digest::sha256(b"{}").to_string(), 2);
        let manifest = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","));
        Self { manifest, blobs }
    }

    /// One layer with one manifest.
    fn small() -> Self {
        Self::new(&[(GZIP, gzip(&tar(&[("manifests/a.yaml", b"a: 1\n")])))])
    }

    fn digest(&self) -> Digest {
        Digest::sha256(self.manifest.as_bytes())
    }

    /// Answers as a registry that wants no login.
    fn answer(&self, seen: &Seen) -> Answer {
        let Some((_, name)) = seen.target.rsplit_once('/') else { return Answer::new(404, "") };
        if seen.target.contains("/manifests/") {
            return if name == "v1" || name == self.digest().to_string() {
                Answer::new(200, self.manifest.clone()).header("Docker-Content-Digest", self.digest().to_string())
            } else {
                Answer::new(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#)
            };
        }
        let blob = self.blobs.iter().find(|(digest, _)| digest == name);
        blob.map_or_else(|| Answer::new(404, ""), |(_, blob)| Answer::new(200, blob.clone()))
    }
}

fn options(servers: &[&Server]) -> PullerOptions {
    let mut options = PullerOptions::new(std::env::temp_dir(), Limits::default());
    options.egress = Egress::anywhere();
    options.plain_http = servers.iter().map(|server| server.host()).collect();
    options
}

fn puller(servers: &[&Server]) -> Puller {
    Puller::new(options(servers)).unwrap()
}

async fn pull(puller: &Puller, reference: &str, credentials: &Credentials) -> Result<Stage, Error> {
    let image = puller.resolve(reference, credentials).await?;
    puller.fetch(&image, credentials).await
}

fn login(host: &str) -> Credentials {
    let json = format!(r#"{{"auths":{{"{host}":{{"username":"user","password":"hush"}}}}}}"#);
    Credentials::from_docker_config_json(json.as_bytes()).unwrap()
}

/// The error and its causes, and what `Debug` shows.
fn everything(error: &Error) -> String {
    format!("{}\n{error:?}", chain(error))
}
