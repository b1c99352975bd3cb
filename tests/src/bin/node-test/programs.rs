//! The settings of the node's programs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rukpak_tests::plane::NODE_NAME;
use rukpak_tests::tools;
use serde_json::{Value, json};

use crate::node::ADDRESS;

/// The image of the node's own containers.
pub const POD_IMAGE: &str = "localhost/pod:1";
/// The same for the container that holds a Pod's namespaces, which runs what its image says.
pub const PAUSE_IMAGE: &str = "localhost/pause:1";
/// Addresses of Pods.
const PODS: &str = "10.88.0.0/16";
/// Where containerd listens. `/run` is a file system of the mount namespace.
pub const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// One program: its file and its arguments.
pub type CommandLine = (PathBuf, Vec<String>);

/// Where the node's programs and files are.
pub struct Layout<'a> {
    /// Everything that the node writes.
    pub folder: &'a Path,
    /// Certificates and kubeconfigs of the control plane.
    pub plane: &'a Path,
    /// The folder with the programs that Kubernetes is made of.
    pub kubernetes: &'a Path,
}

impl Layout<'_> {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn kubeconfig(&self, name: &str) -> String {
        format!("--kubeconfig={}", self.plane.join(format!("{name}.kubeconfig")).display())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(self.folder))?;
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// containerd, with Debian's network plugins: a bridge for Pods.
    pub fn containerd(&self) -> Result<CommandLine> {
        let toml = format!(
            "version = 2\nroot = {root:?}\nstate = \"/run/containerd\"\n\
             [grpc]\naddress = {CONTAINERD:?}\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = {PAUSE_IMAGE:?}\n\
             # Without CAP_SYS_RESOURCE nobody lowers the score of a process.\nrestrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"/usr/lib/cni\"\nconf_dir = {cni:?}\n",
            root = self.file("containerd"),
            cni = self.file("cni"),
        );
        self.write("containerd.toml", &toml)?;
        let bridge = json!({
            "cniVersion": "0.4.0", "name": "pods",
            "plugins": [{
                "type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local", "dataDir": self.file("addresses"), "routes": [{ "dst": "0.0.0.0/0" }],
                    "ranges": [[{ "subnet": PODS }]],
                },
            }],
        });
        self.write("cni/10-pods.conflist", &bridge.to_string())?;
        Ok((tools::system_program("containerd")?, vec![format!("--config={}", self.file("containerd.toml"))]))
    }

    /// kubelet.
    pub fn kubelet(&self, minor: u32) -> Result<CommandLine> {
        self.write("kubelet.json", &self.kubelet_settings(minor).to_string())?;
        let mut flags = vec![
            format!("--config={}", self.file("kubelet.json")),
            self.kubeconfig("kubelet"),
            format!("--root-dir={}", self.file("kubelet")),
            format!("--cert-dir={}", self.file("kubelet-certificates")),
            format!("--hostname-override={NODE_NAME}"),
            format!("--node-ip={ADDRESS}"),
        ];
        if minor < 27 {
            flags.push("--container-runtime=remote".to_owned());
            flags.push(format!("--container-runtime-endpoint=unix://{CONTAINERD}"));
        }
        Ok((self.kubernetes.join("kubelet"), flags))
    }

    fn kubelet_settings(&self, minor: u32) -> Value {
        let mut settings = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": ADDRESS, "readOnlyPort": 0,
            "authentication": {
                "anonymous": { "enabled": false }, "webhook": { "enabled": true },
                "x509": { "clientCAFile": self.plane.join("client-ca.crt") },
            },
            "authorization": { "mode": "Webhook" },
            "cgroupDriver": "cgroupfs", "failSwapOn": false, "oomScoreAdj": 0,
            "volumePluginDir": self.file("volume-plugins"),
            // The disk is that of whoever runs the test, however full: nothing is evicted or cleaned up for that.
            "evictionHard": { "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%" },
            "imageGCHighThresholdPercent": 100,
        });
        if minor >= 27 {
            settings["containerRuntimeEndpoint"] = json!(format!("unix://{CONTAINERD}"));
        }
        if minor >= 31 {
            // From 1.35 on it would refuse cgroups of version 1.
            settings["failCgroupV1"] = json!(false);
        }
        settings
    }

    /// kube-proxy: Services by iptables. Limits of connection tracking belong to the machine and are left alone.
    pub fn kube_proxy(&self) -> CommandLine {
        let flags = vec![
            self.kubeconfig("kube-proxy"),
            "--proxy-mode=iptables".to_owned(),
            format!("--cluster-cidr={PODS}"),
            format!("--hostname-override={NODE_NAME}"),
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0".to_owned(),
        ];
        (self.kubernetes.join("kube-proxy"), flags)
    }

    /// kube-scheduler.
    pub fn kube_scheduler(&self) -> CommandLine {
        let flags = vec![self.kubeconfig("kube-scheduler"), "--leader-elect=false".to_owned()];
        (self.kubernetes.join("kube-scheduler"), flags)
    }

    /// The archive with the images of the node's own containers: one program, under two names.
    pub fn pod_images(&self, program: &Path) -> Result<PathBuf> {
        let bytes = std::fs::read(program).with_context(|| format!("read {}", program.display()))?;
        let layer = tar(&[("pod", &bytes)])?;
        let digest = rukpak_tests::registry::digest(&layer);
        let config = |entrypoint: &[&str]| {
            json!({
                "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }, "os": "linux",
                "config": { "Entrypoint": entrypoint, "User": "65532:65532" },
                "rootfs": { "type": "layers", "diff_ids": [digest] },
            })
            .to_string()
        };
        let manifest = json!([
            { "Config": "pod.json", "RepoTags": [POD_IMAGE], "Layers": ["layer.tar"] },
            { "Config": "pause.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"] },
        ])
        .to_string();
        let (pod, pause) = (config(&["/pod"]), config(&["/pod", "pause"]));
        let archive = tar(&[
            ("manifest.json", manifest.as_bytes()),
            ("pod.json", pod.as_bytes()),
            ("pause.json", pause.as_bytes()),
            ("layer.tar", &layer),
        ])?;
        let path = self.folder.join("pod.tar");
        std::fs::write(&path, archive).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

fn tar(files: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(u64::try_from(bytes.len())?);
        header.set_mode(0o755);
        archive.append_data(&mut header, path, *bytes)?;
    }
    Ok(archive.into_inner()?)
}
