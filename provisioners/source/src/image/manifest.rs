//! Manifests and indexes: which layers make the image for this machine.

use std::collections::HashSet;

use oci_client::Reference;
use oci_client::manifest::{ImageIndexEntry, OciDescriptor, OciImageIndex, OciImageManifest, OciManifest};
use rukpak_content::{Digest, Limit};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Error;
use super::session::{Session, Wanted};
use crate::decompress::Compression;

/// How deep an index may lie in an index. Nobody nests them; the specification allows it.
const MAXIMUM_DEPTH: usize = 3;

/// A layer to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
}

/// What a reference stands for.
pub(super) struct ResolvedImage {
    pub(super) digest: Digest,
    pub(super) manifest_digest: Digest,
    pub(super) layers: Vec<Layer>,
    pub(super) config: ConfigDescriptor,
}

/// What a manifest says about the image's configuration. Read when it is wanted: most callers have no use for one.
#[derive(Clone, Debug)]
pub(super) struct ConfigDescriptor {
    digest: String,
    size: i64,
}

impl ConfigDescriptor {
    /// The digest and the length in bytes.
    pub(super) fn read(&self, what: &str) -> Result<(Digest, u64), Error> {
        descriptor(&self.digest, self.size, what)
    }
}

/// Fetches what `reference` names and, through indexes, the manifest for this machine, which may list `maximum_layers`.
pub(super) async fn resolve(
    session: &mut Session<'_>,
    reference: &Reference,
    maximum_layers: u64,
) -> Result<ResolvedImage, Error> {
    let name = reference.digest().or(reference.tag()).unwrap_or("latest");
    let expected = reference.digest().map(str::parse).transpose().map_err(|source| {
        let place = reference.whole();
        Error::Digest { place, source }
    })?;
    let mut what = format!("manifest of {reference}");
    let (digest, mut document) = fetch(session, name, expected, None, &what).await?;
    let mut manifest_digest = digest.clone();
    for _ in 0..MAXIMUM_DEPTH {
        let index = match document {
            OciManifest::Image(manifest) => {
                let layers = layers(&manifest, maximum_layers, &what)?;
                let config = ConfigDescriptor { digest: manifest.config.digest, size: manifest.config.size };
                return Ok(ResolvedImage { digest, manifest_digest, layers, config });
            }
            OciManifest::ImageIndex(index) => index,
        };
        let entry = choose(&index, &what)?;
        let (expected, size_bytes) = descriptor(&entry.digest, entry.size, &what)?;
        let platform = entry
            .platform
            .as_ref()
            .map_or_else(String::new, |platform| format!(" for {}/{}", platform.os, platform.architecture));
        what = format!("manifest {expected}{platform} of {reference}");
        (manifest_digest, document) = fetch(session, &entry.digest, Some(expected), Some(size_bytes), &what).await?;
    }
    Err(Error::NotAnImage { what, found: format!("indexes nested more than {MAXIMUM_DEPTH} deep") })
}

async fn fetch(
    session: &mut Session<'_>,
    name: &str,
    expected: Option<Digest>,
    size_bytes: Option<u64>,
    what: &str,
) -> Result<(Digest, OciManifest), Error> {
    let wanted = Wanted { name, expected: expected.as_ref(), size_bytes };
    let document = session.manifest(&wanted, what).await?;
    let manifest = read(&document.body, document.content_type.as_deref(), what)?;
    Ok((document.digest, manifest))
}

/// Tells an index from a manifest by what is in it. A document that is both is refused: two readers could disagree about it.
pub(super) fn read(body: &[u8], content_type: Option<&str>, what: &str) -> Result<OciManifest, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Probe {
        #[serde(default)]
        schema_version: u32,
        media_type: Option<String>,
        layers: Option<IgnoredAny>,
        fs_layers: Option<IgnoredAny>,
        manifests: Option<IgnoredAny>,
    }
    let unreadable = |source| Error::Manifest { what: what.to_owned(), source };
    let not_an_image = |found: String| Error::NotAnImage { what: what.to_owned(), found };
    let probe: Probe = serde_json::from_slice(body).map_err(unreadable)?;
    match (probe.layers.is_some(), probe.manifests.is_some()) {
        (false, false) if probe.schema_version == 1 || probe.fs_layers.is_some() => Err(not_an_image(
            "a Docker schema 1 manifest, which is obsolete; push the image again with a current tool".into(),
        )),
        (true, true) => Err(not_an_image("both a manifest and an index".into())),
        (true, false) => serde_json::from_slice(body).map(OciManifest::Image).map_err(unreadable),
        (false, true) => serde_json::from_slice(body).map(OciManifest::ImageIndex).map_err(unreadable),
        (false, false) => {
            let kind = probe.media_type.as_deref().or(content_type).unwrap_or("a document of no type");
            Err(not_an_image(format!("{} without layers", crate::stage::shortened(kind))))
        }
    }
}

/// The signature of a chart, as `helm push` sends it.
const CHART_PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";

/// The layers in the order in which they are applied. One that is listed several times counts where it comes last: what it
/// brings or takes away before that, it does again.
pub(super) fn layers(manifest: &OciImageManifest, maximum: u64, what: &str) -> Result<Vec<Layer>, Error> {
    Limit::Layers.check(manifest.layers.len() as u64, maximum, || what.to_owned())?;
    let not_an_image = |found: String| Error::NotAnImage { what: what.to_owned(), found };
    let layer = |layer: &OciDescriptor| {
        if Compression::of_media_type(&layer.media_type).is_none() {
            let kind = crate::stage::shortened(&layer.media_type);
            return Err(not_an_image(format!("its layer {} is {kind}, no tar archive", layer.digest)));
        }
        let (digest, size_bytes) = descriptor(&layer.digest, layer.size, what)?;
        Ok(Layer { digest, size_bytes })
    };
    // Beside the chart that `helm push` sends, which is a layer like others, may lie its signature.
    let read = manifest.layers.iter().filter(|layer| layer.media_type != CHART_PROVENANCE);
    let layers = read.map(layer).collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashSet::new();
    let mut last: Vec<_> = layers.into_iter().rev().filter(|layer| seen.insert(layer.digest.clone())).collect();
    last.reverse();
    Ok(last)
}

pub(super) fn descriptor(digest: &str, size: i64, what: &str) -> Result<(Digest, u64), Error> {
    let digest = digest.parse().map_err(|source| Error::Digest { place: what.to_owned(), source })?;
    let found = || format!("it gives {digest} a size of {size} bytes");
    let size = u64::try_from(size).map_err(|_| Error::NotAnImage { what: what.to_owned(), found: found() })?;
    Ok((digest, size))
}

/// The entry for this machine; if there is none, the only image there is: bundles hold manifests, which run anywhere, and are
/// often published for one platform.
pub(super) fn choose<'a>(index: &'a OciImageIndex, what: &str) -> Result<&'a ImageIndexEntry, Error> {
    let images: Vec<_> = index.manifests.iter().filter(|entry| !is_attestation(entry)).collect();
    let here = |entry: &&&ImageIndexEntry| {
        entry.platform.as_ref().is_some_and(|platform| {
            platform.os.to_string() == "linux" && platform.architecture.to_string() == architecture()
        })
    };
    match (images.iter().find(here), images.as_slice()) {
        (Some(entry), _) | (None, [entry]) => Ok(entry),
        (None, images) => {
            let mut names: Vec<_> = images.iter().take(20).map(|entry| platform(entry)).collect();
            names.dedup();
            let available = if names.is_empty() { "no images".to_owned() } else { names.join(", ") };
            Err(Error::Platform { what: what.to_owned(), wanted: format!("linux/{}", architecture()), available })
        }
    }
}

/// Build tools put provenance beside the images, for the platform "unknown".
fn is_attestation(entry: &ImageIndexEntry) -> bool {
    let kind = entry.annotations.as_ref().and_then(|annotations| annotations.get("vnd.docker.reference.type"));
    kind.is_some_and(|kind| kind == "attestation-manifest")
}

fn platform(entry: &ImageIndexEntry) -> String {
    entry.platform.as_ref().map_or_else(
        || "an image for no platform".to_owned(),
        |platform| crate::stage::shortened(&format!("{}/{}", platform.os, platform.architecture)),
    )
}

/// This machine's architecture as Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn index(platforms: &[&str]) -> OciImageIndex {
        let entries: Vec<_> = platforms
            .iter()
            .enumerate()
            .map(|(size, platform)| match platform.split_once('/') {
                Some((os, architecture)) => format!(
                    r#"{{"mediaType":"m","digest":"{DIGEST}","size":{size},"platform":{{"os":"{os}","architecture":"{architecture}"}}}}"#
                ),
                None if platform.is_empty() => format!(r#"{{"mediaType":"m","digest":"{DIGEST}","size":{size}}}"#),
                None => format!(
                    r#"{{"mediaType":"m","digest":"{DIGEST}","size":{size},"platform":{{"os":"unknown","architecture":"unknown"}},
                         "annotations":{{"vnd.docker.reference.type":"attestation-manifest"}}}}"#
                ),
            })
            .collect();
        serde_json::from_str(&format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, entries.join(","))).unwrap()
    }

    #[test]
    fn the_platform_of_the_host_is_chosen_or_the_only_image() {
        let here = format!("linux/{}", architecture());
        let cases: [(&[&str], Option<i64>); 7] = [
            (&["windows/amd64", "linux/mips", &here, &here], Some(2)),
            (&["linux/mips"], Some(0)),
            (&["attestation", "linux/mips"], Some(1)),
            (&["unknown/unknown"], Some(0)),
            (&[""], Some(0)),
            (&["linux/mips", "windows/amd64"], None),
            (&[], None),
        ];
        for (platforms, expected) in cases {
            let index = index(platforms);
            let chosen = choose(&index, "x");
            assert_eq!(chosen.as_ref().ok().map(|entry| entry.size), expected, "{platforms:?} {:?}", chosen.err());
        }
        let refusal = choose(&index(&["linux/mips", "windows/arm"]), "index of x").unwrap_err().to_string();
        assert!(refusal.ends_with("the index has linux/mips, windows/arm"), "{refusal}");
    }

    #[test]
    fn documents_are_told_apart_and_refused_by_what_they_are() {
        let descriptor = format!(r#"{{"mediaType":"application/x","digest":"{DIGEST}","size":1}}"#);
        let image = format!(r#"{{"schemaVersion":2,"config":{descriptor},"layers":[]}}"#);
        assert!(matches!(read(image.as_bytes(), None, "x"), Ok(OciManifest::Image(_))));
        assert!(matches!(read(br#"{"schemaVersion":2,"manifests":[]}"#, None, "x"), Ok(OciManifest::ImageIndex(_))));
        let cases = [
            (r#"{"schemaVersion":1,"fsLayers":[]}"#, "schema 1"),
            (r#"{"schemaVersion":2,"layers":[],"manifests":[]}"#, "both"),
            (r#"{"schemaVersion":2,"mediaType":"application/odd"}"#, "application/odd without layers"),
            ("<html>", "cannot be read"),
            (r#"{"schemaVersion":2,"layers":[]}"#, "cannot be read"),
        ];
        for (body, expected) in cases {
            let text = read(body.as_bytes(), None, "manifest").err().unwrap().to_string();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn only_tar_layers_make_an_image() {
        let cases = [
            ("application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip", 1, None),
            (
                "application/vnd.docker.container.image.v1+json",
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
                1,
                None,
            ),
            ("application/vnd.example+json", "application/vnd.oci.image.layer.v1.tar+zstd", 1, None),
            ("application/vnd.oci.empty.v1+json", "application/vnd.oci.image.layer.v1.tar", 0, None),
            (
                "application/vnd.cncf.helm.config.v1+json",
                "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                1,
                None,
            ),
            ("application/vnd.oci.empty.v1+json", "application/vnd.oci.empty.v1+json", 2, Some("no tar archive")),
            (
                "application/vnd.oci.image.config.v1+json",
                "application/vnd.oci.image.layer.v1.tar",
                -1,
                Some("-1 bytes"),
            ),
        ];
        for (config, layer, size, refusal) in cases {
            let json = format!(
                r#"{{"schemaVersion":2,"config":{{"mediaType":"{config}","digest":"{DIGEST}","size":2}},
                     "layers":[{{"mediaType":"{layer}","digest":"{DIGEST}","size":{size}}}]}}"#
            );
            let manifest = serde_json::from_str(&json).unwrap();
            match (layers(&manifest, 1, "manifest"), refusal) {
                (Ok(layers), None) => assert_eq!(layers[0].size_bytes, u64::try_from(size).unwrap()),
                (Err(error), Some(refusal)) => assert!(error.to_string().contains(refusal), "{error}"),
                (found, _) => panic!("{layer}: {found:?}"),
            }
        }
    }

    #[test]
    fn signature_of_a_chart_is_no_layer() {
        let json = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"{DIGEST}","size":2}},
                 "layers":[{{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"{DIGEST}","size":1}},
                           {{"mediaType":"{CHART_PROVENANCE}","digest":"{DIGEST}","size":2}}]}}"#
        );
        let manifest = serde_json::from_str(&json).unwrap();
        let sizes: Vec<u64> = layers(&manifest, 2, "m").unwrap().iter().map(|layer| layer.size_bytes).collect();
        assert_eq!(sizes, [1]);
    }

    #[test]
    fn layers_are_bounded_in_number_and_fetched_once() {
        let digests = [0, 1, 2].map(|n: u8| Digest::sha256(&[n]).to_string());
        let manifest = |order: &[usize]| -> OciImageManifest {
            let layer = |n: &usize| {
                format!(
                    r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"{}","size":1}}"#,
                    digests[*n]
                )
            };
            let layers: Vec<_> = order.iter().map(layer).collect();
            let json = format!(
                r#"{{"schemaVersion":2,"config":{{"mediaType":"x/y","digest":"{DIGEST}","size":2}},"layers":[{}]}}"#,
                layers.join(",")
            );
            serde_json::from_str(&json).unwrap()
        };
        let order = |manifest: &OciImageManifest| -> Vec<usize> {
            let found = layers(manifest, 5, "m").unwrap();
            found
                .iter()
                .map(|layer| digests.iter().position(|digest| *digest == layer.digest.to_string()).unwrap())
                .collect()
        };
        assert_eq!(order(&manifest(&[0, 1, 2])), [0, 1, 2]);
        assert_eq!(order(&manifest(&[0, 1, 0, 2, 1])), [0, 2, 1]);
        let error = layers(&manifest(&[0; 6]), 5, "manifest of x").unwrap_err();
        assert_eq!(error.to_string(), "manifest of x: more than the limit of 5 layers in an image (--limit=layers)");
    }
}
