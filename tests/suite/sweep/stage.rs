//! Where points are tried: a control plane with a gate before it, a registry, and a controller that is killed again and again.

use std::path::PathBuf;

use kube::Client;
use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::{ControllerOptions, Gate, InstallOptions, Plane, Process, Registry, RegistryOptions, TestCa, tools};

/// One of them; points on it are tried one after the other.
pub struct Stage {
    pub plane: Plane,
    pub client: Client,
    pub registry: Registry,
    pub gate: Gate,
    pub controller: Process,
    options: ControllerOptions,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// Everything started and ready.
    pub async fn set(arguments: &[&str]) -> Self {
        let folder = tools::temp_folder("sweep").expect("a folder");
        let plane = Plane::start().await.expect("the plane starts");
        let install = InstallOptions { without_webhooks: true, ..InstallOptions::default() };
        plane.install(&install).await.expect("the manifests apply");
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, registry.ca_pem()).expect("the CA file");
        let ca_pem = std::fs::read_to_string(plane.certificate_authority_path()).expect("the API server's CA");
        let ca = TestCa::new("gate-ca").expect("a CA");
        let gate = Gate::before(&ca, plane.server(), &ca_pem).expect("the gate starts");
        let kubeconfig = plane.kubeconfig_through(CONTROLLER_ACCOUNT, &gate.url(), gate.ca_pem()).await;
        let mut flags = vec![format!("--source-ca-file={}", ca_file.display())];
        flags.extend(arguments.iter().map(ToString::to_string));
        let options = ControllerOptions {
            arguments: flags,
            kubeconfig: Some(kubeconfig.expect("a kubeconfig")),
            storage: Some(folder.path().join("storage")),
            environment: vec![("POD_NAME".to_owned(), "first".to_owned())],
            ..ControllerOptions::default()
        };
        let controller = plane.start_controller(options.clone()).await.expect("the controller starts");
        controller.wait_ready().await.expect("the controller is ready");
        let client = plane.admin().await.expect("the admin kubeconfig is good");
        Self { plane, client, registry, gate, controller, options, _folder: folder }
    }

    /// Another controller with the same store, which is killed at a system call: the one with that number of any thread.
    pub async fn start_traced(&self, calls: &str, number: usize) -> Process {
        let strace = tools::system_program("strace").expect("strace is installed").display().to_string();
        let inject = format!("inject={calls}:signal=SIGKILL:when={number}");
        let words = [&strace, "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", &inject];
        let under = words.map(str::to_owned).to_vec();
        let options = ControllerOptions { under, ..self.options.clone() };
        self.plane.start_controller(options).await.expect("the controller starts")
    }

    /// Another controller, with a store of its own: the one in the Pod of this name.
    pub async fn start_named(&self, pod: &str) -> Process {
        let environment = vec![("POD_NAME".to_owned(), pod.to_owned())];
        let options = ControllerOptions { environment, storage: None, ..self.options.clone() };
        self.plane.start_controller(options).await.expect("the controller starts")
    }

    /// Root of the content store.
    pub fn store(&self) -> PathBuf {
        self.controller.storage.join("v1")
    }
}
