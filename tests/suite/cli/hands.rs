//! `rukpakctl` with a kubeconfig of a world, and folders for it.
//!
//! Without a kubelet no port can be forwarded, so it is told where the content service is.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::World;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// What the program did.
#[derive(Debug)]
pub struct Did {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Somebody with a kubeconfig.
pub struct Hands {
    pub client: Client,
    pub kubeconfig: PathBuf,
    pub endpoint: String,
}

impl Hands {
    /// The administrator, who has a client certificate.
    pub async fn admin() -> Self {
        Self::admin_of(World::shared().await).await
    }

    /// The administrator of a world of one's own.
    pub async fn admin_of(world: &World) -> Self {
        Self {
            client: world.admin().await,
            kubeconfig: world.plane.kubeconfig_path().to_owned(),
            endpoint: format!("https://localhost:{}", world.controller.content_port),
        }
    }

    /// A ServiceAccount with a token and these rights, beside the reading of the CA Secret.
    pub async fn account(name: &str, rules: &Value) -> Self {
        let admin = Self::admin().await;
        let metadata = json!({"name": name, "namespace": SYSTEM_NAMESPACE});
        admin.create(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await;
        admin.create(&rbac("ClusterRole", &json!({"metadata": {"name": name}, "rules": rules}))).await;
        admin.bind(name, name).await;
        let secrets =
            json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["rukpak-ca"], "verbs": ["get"]}]);
        admin.create(&rbac("Role", &json!({"metadata": metadata, "rules": secrets}))).await;
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let binding = json!({"metadata": metadata, "roleRef": role, "subjects": [subject(name)]});
        admin.create(&rbac("RoleBinding", &binding)).await;
        let granted = verbs::await_rules(&admin.client, &user(name), Some(SYSTEM_NAMESPACE), &secrets).await;
        granted.unwrap_or_else(|error| panic!("{error:#}"));
        let plane = &World::shared().await.plane;
        let written = plane.write_account_kubeconfig(&admin.client, SYSTEM_NAMESPACE, name).await;
        Self { kubeconfig: written.expect("the API server gives tokens"), ..admin }
    }

    /// Gives an account a ClusterRole, and waits until it has its rights.
    pub async fn bind(&self, account: &str, name: &str) {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let metadata = json!({"name": unique_name("cli")});
        let binding = json!({"metadata": metadata, "roleRef": role, "subjects": [subject(account)]});
        self.create(&rbac("ClusterRoleBinding", &binding)).await;
        verbs::await_role(&self.client, &user(account), name).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    pub async fn create(&self, object: &Value) {
        verbs::create(&self.client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    pub async fn get(&self, target: &Target) -> Option<DynamicObject> {
        verbs::get(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Runs the program against the content service of the world.
    pub async fn run(&self, arguments: &[&str]) -> Did {
        self.run_alone(&[arguments, &["--endpoint", &self.endpoint]].concat()).await
    }

    /// Runs the program.
    pub async fn run_alone(&self, arguments: &[&str]) -> Did {
        let output = self.command(arguments).output().await.expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Did { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Runs the program, and presses Ctrl-C when it says `word`.
    pub async fn interrupted(&self, arguments: &[&str], word: &str) -> Did {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut err = String::new();
        let mut is_pressed = false;
        while let Some(line) = lines.next_line().await.expect("UTF-8") {
            err.push_str(&line);
            err.push('\n');
            if !is_pressed && line.contains(word) {
                is_pressed = true;
                let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
                kill_process(id, Signal::INT).expect("it is ours");
            }
        }
        let output = child.wait_with_output().await.expect("it ends");
        Did { code: output.status.code(), out: String::from_utf8_lossy(&output.stdout).into_owned(), err }
    }

    /// The program, yet to be run.
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let program = tools::workspace_binary("rukpakctl").expect("it is built");
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE"] {
            command.env_remove(proxy);
        }
        command
    }

    /// Runs `rukpakctl run`, which must succeed; returns the name of the Bundle and whether it was new.
    pub async fn install(&self, name: &str, folder: &Path) -> (String, bool) {
        installed(name, &self.run(&["run", name, text(folder)]).await)
    }
}

/// What a `rukpakctl run` that succeeded said: the name of the Bundle, and whether it was new.
pub fn installed(name: &str, did: &Did) -> (String, bool) {
    assert_eq!(did.code, Some(0), "{did:?}");
    let lines: Vec<&str> = did.out.lines().collect();
    let [applied, uploaded] = lines[..] else { panic!("{did:?}") };
    assert_eq!(applied, format!("bundledeployment.core.rukpak.io \"{name}\" applied"));
    let new =
        uploaded.strip_prefix("successfully uploaded bundle content for \"").and_then(|rest| rest.strip_suffix('"'));
    let known = uploaded.strip_prefix("bundle \"").and_then(|rest| rest.strip_suffix("\" is already up-to-date"));
    let bundle = new.or(known).unwrap_or_else(|| panic!("{did:?}"));
    assert!(bundle.starts_with(name), "{did:?}");
    (bundle.to_owned(), new.is_some())
}

/// A new folder with these files.
pub fn folder<P: AsRef<Path>, T: AsRef<str>>(files: &[(P, T)]) -> tempfile::TempDir {
    let folder = tools::temp_folder("bundle").expect("a folder");
    write(folder.path(), files);
    folder
}

pub fn write<P: AsRef<Path>, T: AsRef<str>>(folder: &Path, files: &[(P, T)]) {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        std::fs::write(&path, text.as_ref()).expect("a file");
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A manifest of a ConfigMap called `name`, with a value.
pub fn manifest(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  value: {value}\n"
    )
}

fn user(account: &str) -> String {
    format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{account}")
}

fn subject(account: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE})
}

fn rbac(kind: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind});
    for (key, value) in rest.as_object().expect("an object") {
        object[key] = value.clone();
    }
    object
}
