//! Content of this machine on its way to a cluster: looked at, then sent for the Bundle that the cluster makes of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rukpak_crds::source::UploadSource;
use rukpak_crds::{BundleDeployment, BundleSource};

use crate::cluster::{AwaitedBundle, Cluster};
use crate::examine::{Purpose, examine};
use crate::failure::Failure;
use crate::format::Format;
use crate::output::warn;
use crate::service::{Service, Uploaded};
use crate::source::pack::Packed;

/// So much of the digest is a label, which may have 63 characters.
const DIGEST_LENGTH: usize = 32;
/// The label of a Bundle that says what was uploaded for it.
pub const DIGEST_LABEL: &str = "bundleDigest";

/// The source of a Bundle that waits for an upload.
pub fn source() -> BundleSource {
    BundleSource { type_: "upload".to_owned(), upload: Some(UploadSource::default()), ..BundleSource::default() }
}

/// What the Bundle is found by. Other content has other labels, so it makes another Bundle.
pub fn labels(name: &str, packed: &Packed) -> BTreeMap<String, String> {
    let hex = packed.digest.hex();
    let digest = hex.get(..DIGEST_LENGTH).unwrap_or(hex).to_owned();
    BTreeMap::from([("app".to_owned(), name.to_owned()), (DIGEST_LABEL.to_owned(), digest)])
}

/// Refuses what the class would refuse, and says all of it. Of other classes than ours nothing is known.
pub fn validate(packed: &Packed, class: &str, from: &Path) -> Result<(), Failure> {
    let Some(format) = Format::of_class(class) else { return Ok(()) };
    let examined = examine(&packed.tree, format, Purpose::Validate);
    warn(&examined.warnings);
    examined.refuse_findings(&from.display().to_string(), &packed.tree, format, "nothing was applied")
}

/// Waits for the Bundle of a BundleDeployment as it was written, and sends its content. Returns its name.
pub async fn deliver(
    cluster: &Cluster,
    service: &Service,
    deployment: &BundleDeployment,
    packed: Packed,
    patience: Duration,
) -> Result<(String, Uploaded), Failure> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let labels = labels(name, &packed);
    let wanted = AwaitedBundle { deployment, labels: &labels, spec: &deployment.spec.template.spec };
    let work = async {
        let bundle = cluster.generated(&wanted, patience).await?;
        let uploaded = service.upload(&bundle, packed).await?;
        Ok((bundle, uploaded))
    };
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => {
            let text = format!("interrupted: the content was not sent: bundledeployment {name:?} waits for it in the cluster");
            Err(Failure::unknown(text).hint("run the command again: what is there already is not sent twice"))
        }
    }
}
