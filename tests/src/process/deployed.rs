//! A program as its Deployment says: its own command, arguments, environment, volumes and ServiceAccount, without a node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::Value;

use super::{ALLOW_LOOPBACK, Ports, Process};
use crate::plane::Plane;
use crate::tools;

/// The programs that Deployments run.
const PROGRAMS: [&str; 3] = ["rukpak-controller", WEBHOOK, "rukpak-platform"];
/// Fetches nothing.
const WEBHOOK: &str = "rukpak-webhook";

/// What a machine does otherwise than a Pod.
#[derive(Debug, Clone, Default)]
pub struct DeployedOptions {
    /// Loopback ports for ports of the container, by their names; a free one where there is none.
    pub ports: BTreeMap<String, u16>,
    /// Further flags.
    pub arguments: Vec<String>,
}

/// The first Pod of a Deployment, on this machine.
struct Pod<'a> {
    namespace: &'a str,
    name: String,
    spec: &'a Value,
    container: &'a Value,
    /// Ports of the container, by number.
    ports: BTreeMap<u64, u16>,
    /// Folders of this machine, by the path where the container has them.
    mounts: BTreeMap<&'a str, PathBuf>,
}

impl Plane {
    /// Starts the program of a Deployment with one container, as the kubelet would: ports become loopback ports, mounted
    /// folders become folders of this machine, Secrets among them are written out, and the namespace, which a Pod reads from
    /// a file, is given as a flag. The Secrets must exist.
    pub async fn start_deployment(&self, deployment: &Value, options: &DeployedOptions) -> Result<Process> {
        let client = self.admin().await?;
        let text = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_str);
        let namespace = text("/metadata/namespace").context("the Deployment has no namespace")?;
        let account = text("/spec/template/spec/serviceAccountName").context("the Pods have no ServiceAccount")?;
        let spec = &deployment["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        let path = container["command"][0].as_str().context("the container has no command")?;
        let program = PROGRAMS.into_iter().find(|known| path.strip_prefix('/') == Some(known));
        let program = program.with_context(|| format!("{path} is no program of ours"))?;
        let folder = tools::temp_folder(program)?;
        let mut pod = Pod {
            namespace,
            name: format!("{}-0", text("/metadata/name").unwrap_or_default()),
            spec,
            container,
            ports: BTreeMap::new(),
            mounts: BTreeMap::new(),
        };
        let ports = pod.open(&options.ports)?;
        pod.mount(&client, folder.path()).await?;
        let mut command = Command::new(tools::workspace_binary(program)?);
        command
            .args(items(&container["args"]).filter_map(Value::as_str).map(|argument| pod.adapted(argument)))
            .arg(format!("--system-namespace={namespace}"))
            .args(ALLOW_LOOPBACK.into_iter().filter(|_| program != WEBHOOK))
            .args(&options.arguments)
            .envs(pod.environment()?);
        let kubeconfig = self.write_account_kubeconfig(&client, namespace, account).await?;
        let storage = folder.path().to_owned();
        Process::start(program, command, &kubeconfig, folder, ports, storage).await
    }
}

impl Pod<'_> {
    /// Chooses the ports of this machine.
    fn open(&mut self, fixed: &BTreeMap<String, u16>) -> Result<Ports> {
        let mut ports = Ports { http: 0, health: 0, content: 0 };
        for port in items(&self.container["ports"]) {
            let name = port["name"].as_str().unwrap_or_default();
            let local = fixed.get(name).copied().map_or_else(tools::free_port, Ok)?;
            match name {
                "metrics" => ports.http = local,
                "health" => ports.health = local,
                "https" => ports.content = local,
                _ => {}
            }
            self.ports.insert(port["containerPort"].as_u64().context("a port has no number")?, local);
        }
        Ok(ports)
    }

    /// Makes a folder of each volume that is mounted.
    async fn mount(&mut self, client: &Client, root: &Path) -> Result<()> {
        for mount in items(&self.container["volumeMounts"]) {
            let volume = items(&self.spec["volumes"]).find(|volume| volume["name"] == mount["name"]);
            let volume = volume.with_context(|| format!("there is no volume for {mount}"))?;
            let folder = root.join(volume["name"].as_str().unwrap_or_default());
            std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
            if let Some(name) = volume["secret"]["secretName"].as_str() {
                let secrets: Api<Secret> = Api::namespaced(client.clone(), self.namespace);
                let secret = secrets.get(name).await.with_context(|| format!("get Secret {name} for a volume"))?;
                for (file, content) in secret.data.unwrap_or_default() {
                    std::fs::write(folder.join(file), content.0).context("write a file of a Secret")?;
                }
            }
            self.mounts.insert(mount["mountPath"].as_str().context("a mount has no path")?, folder);
        }
        Ok(())
    }

    /// `--flag=:PORT` and `--flag=/PATH`, as they are on this machine; everything else as it is.
    fn adapted(&self, argument: &str) -> String {
        let Some((flag, value)) = argument.split_once('=') else { return argument.to_owned() };
        let local = value.strip_prefix(':').and_then(|port| self.ports.get(&port.parse().ok()?));
        if let Some(local) = local {
            return format!("{flag}=127.0.0.1:{local}");
        }
        for (path, folder) in &self.mounts {
            if let Ok(rest) = Path::new(value).strip_prefix(path) {
                return format!("{flag}={}", folder.join(rest).display());
            }
        }
        argument.to_owned()
    }

    fn environment(&self) -> Result<Vec<(String, String)>> {
        let variable = |variable: &Value| {
            let name = variable["name"].as_str().context("a variable has no name")?.to_owned();
            match (variable["value"].as_str(), variable.pointer("/valueFrom/fieldRef/fieldPath")) {
                (Some(value), _) => Ok((name, value.to_owned())),
                (None, Some(field)) if field == "metadata.name" => Ok((name, self.name.clone())),
                _ => anyhow::bail!("the variable {name} comes from where this harness does not look: {variable}"),
            }
        };
        items(&self.container["env"]).map(variable).collect()
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
