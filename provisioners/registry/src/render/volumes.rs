//! The volumes that webhooks find their certificate in.

use k8s_openapi::api::core::v1::{KeyToPath, PodSpec, SecretVolumeSource, Volume, VolumeMount};

/// Volume, folder, and the names of certificate and key in it. Both are always there: operators look in either place.
const PLACES: [(&str, &str, &str, &str); 2] = [
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ("apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
];

/// Mounts the Secret in all containers, in place of whatever has these names or stands in these folders.
pub(super) fn mount_certificate(pod: &mut PodSpec, secret: &str) {
    let mut replaced: Vec<String> = PLACES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    for mount in pod.containers.iter().flat_map(|container| container.volume_mounts.iter().flatten()) {
        if PLACES.iter().any(|(_, folder, ..)| *folder == mount.mount_path) {
            replaced.push(mount.name.clone());
        }
    }
    let volumes = pod.volumes.get_or_insert_default();
    volumes.retain(|volume| !replaced.contains(&volume.name));
    volumes.extend(PLACES.iter().map(|(name, _, certificate, key)| volume(name, secret, certificate, key)));
    for container in &mut pod.containers {
        let mounts = container.volume_mounts.get_or_insert_default();
        mounts.retain(|mount| !replaced.contains(&mount.name));
        mounts.extend(PLACES.iter().map(|(name, folder, ..)| VolumeMount {
            name: (*name).to_owned(),
            mount_path: (*folder).to_owned(),
            ..VolumeMount::default()
        }));
    }
}

fn volume(name: &str, secret: &str, certificate: &str, key: &str) -> Volume {
    let item = |key: &str, path: &str| KeyToPath { key: key.to_owned(), path: path.to_owned(), ..KeyToPath::default() };
    let source = SecretVolumeSource {
        secret_name: Some(secret.to_owned()),
        items: Some(vec![item("tls.crt", certificate), item("tls.key", key)]),
        ..SecretVolumeSource::default()
    };
    Volume { name: name.to_owned(), secret: Some(source), ..Volume::default() }
}
