//! The command lines of the control plane. Every flag is accepted by the oldest Kubernetes that is tested as well as by the newest.

use std::net::Ipv4Addr;
use std::path::Path;

/// Where the parts of one plane listen and keep their files.
pub struct Layout<'a> {
    /// Certificates, keys, kubeconfigs, logs.
    pub folder: &'a Path,
    /// Client port of etcd.
    pub etcd_port: u16,
    /// Secure port of the API server.
    pub apiserver_port: u16,
    /// Where a node is to be: the address that it and its Pods reach the API server at.
    pub node: Option<Ipv4Addr>,
}

/// The name of the API server where it calls the server of an aggregated API.
pub const FRONT_PROXY: &str = "front-proxy-client";

/// Controllers with nothing to do where no node is: each lists and watches kinds of its own. Those of volumes stay:
/// without them a PersistentVolumeClaim keeps its finalizer for ever.
const OF_NODES: [&str; 9] = [
    "attachdetach",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "horizontalpodautoscaling",
    "nodeipam",
    "nodelifecycle",
    "podgc",
    "ttl",
];

impl Layout<'_> {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// etcd: throw-away data, so no fsync.
    pub fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        vec![
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    /// kube-apiserver.
    pub fn apiserver(&self, audit: bool) -> Vec<String> {
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--secure-port={}", self.apiserver_port),
            format!("--cert-dir={}", self.file("apiserver-certs")),
            format!("--tls-cert-file={}", self.file("apiserver.crt")),
            format!("--tls-private-key-file={}", self.file("apiserver.key")),
            format!("--client-ca-file={}", self.file("client-ca.crt")),
            // Whom the servers of aggregated APIs know the API server by, and how it says for whom it asks.
            format!("--requestheader-client-ca-file={}", self.file("front-proxy-ca.crt")),
            format!("--requestheader-allowed-names={FRONT_PROXY}"),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--proxy-client-cert-file={}", self.file("front-proxy-client.crt")),
            format!("--proxy-client-key-file={}", self.file("front-proxy-client.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", self.file("service-account.pub")),
            format!("--service-account-signing-key-file={}", self.file("service-account.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            // OpenShift has it on: an owner reference needs the right to update the owner's finalizers.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        flags.extend(self.apiserver_network());
        if audit {
            flags.push(format!("--audit-policy-file={}", self.file("audit-policy.json")));
            flags.push(format!("--audit-log-path={}", self.file("audit.log")));
        }
        flags
    }

    /// Where the API server listens, whom it knows, and how it reaches a node.
    fn apiserver_network(&self) -> Vec<String> {
        let Some(address) = self.node else {
            return vec![
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                // Loopback is no valid endpoint address, and without Pods nobody needs the endpoints of `kubernetes`.
                "--endpoint-reconciler-type=none".to_owned(),
                "--authorization-mode=RBAC".to_owned(),
            ];
        };
        vec![
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={address}"),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--kubelet-client-certificate={}", self.file("apiserver-kubelet-client.crt")),
            format!("--kubelet-client-key={}", self.file("apiserver-kubelet-client.key")),
        ]
    }

    /// kube-controller-manager.
    pub fn controller_manager(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--kubeconfig={}", self.file("controller-manager.kubeconfig")),
            "--leader-elect=false".to_owned(),
            format!("--root-ca-file={}", self.file("apiserver-ca.crt")),
            format!("--service-account-private-key-file={}", self.file("service-account.key")),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--concurrent-gc-syncs=20".to_owned(),
            "--concurrent-namespace-syncs=20".to_owned(),
            "--concurrent-serviceaccount-token-syncs=20".to_owned(),
        ];
        if self.node.is_some() {
            // Else all controllers are one administrator: thirty accounts with tokens less to make at each start.
            flags.push("--use-service-account-credentials=true".to_owned());
        } else {
            flags.push(format!("--controllers=*,-{}", OF_NODES.join(",-")));
        }
        flags
    }
}
