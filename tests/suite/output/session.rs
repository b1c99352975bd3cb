//! A user at a terminal, with a cluster and a folder.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use kube::Client;
use rukpak_tests::world::{World, WorldOptions};
use rukpak_tests::{InstallOptions, PlatformOptions, Process, tools};

use crate::output::goldens::{self, Goldens};
use crate::output::normalize::Normalizer;
use crate::output::screen;

/// What goes before lines of stderr in a transcript of a pipe.
pub const STDERR: &str = "2> ";
/// The forms of all goldens.
pub const FORMS: [Form; 3] = [Form::Terminal, Form::Pipe, Form::Json];
/// Columns of the terminal.
const COLUMNS: u32 = 120;
/// Verbs that speak to the content service. Without a kubelet no port can be forwarded, so they are told where it is; the goldens do not
/// show that.
const SERVICE: [&str; 7] = ["run", "install", "upgrade", "diff", "why", "content", "rights"];
/// Variables of the machine that would change what is done.
const FOREIGN: [&str; 10] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "ALL_PROXY",
    "SSL_CERT_DIR",
    "NO_COLOR",
    "DOCKER_CONFIG",
    "REGISTRY_AUTH_FILE",
    "XDG_RUNTIME_DIR",
];

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// stdout and stderr are a terminal.
    Terminal,
    /// They are pipes.
    Pipe,
    /// They are pipes, and `--output json` is asked for.
    Json,
}

impl Form {
    /// As in the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Pipe => "pipe",
            Self::Json => "json",
        }
    }
}

/// Everything that runs: RukPak and its platform manager, with OLM v1's kinds.
pub struct Cluster {
    pub world: World,
    pub client: Client,
    _manager: Process,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// One that no other test sees.
    pub async fn start() -> Self {
        let options = WorldOptions { install: InstallOptions::with_olm(), ..WorldOptions::default() };
        let world = World::start_with(options).await.unwrap_or_else(|error| panic!("{error:#}"));
        let folder = tools::temp_folder("output").expect("a folder");
        std::fs::write(folder.path().join("trusted.pem"), world.registry.ca_pem()).expect("a file");
        let catalogs = format!("localhost:{}", tools::free_port().expect("a port"));
        let arguments = vec![
            format!("--source-ca-file={}", folder.path().join("trusted.pem").display()),
            "--catalog-source=none".to_owned(),
            format!("--catalogs-bind-address={catalogs}"),
            format!("--catalogs-external-address={catalogs}"),
        ];
        let options = PlatformOptions { arguments, ..PlatformOptions::default() };
        let manager = world.plane.start_platform(options).await.unwrap_or_else(|error| panic!("{error:#}"));
        manager.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
        Self { client: world.admin().await, world, _manager: manager, folder }
    }

    /// Where registries and folders of this run are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Types commands in one form, in a folder of its own.
pub struct Session<'a> {
    pub cluster: &'a Cluster,
    pub form: Form,
    /// Where it types.
    pub folder: std::path::PathBuf,
    normalizer: Normalizer,
    goldens: &'a mut Goldens,
}

impl<'a> Session<'a> {
    /// In a folder that is called after the form.
    pub fn new(cluster: &'a Cluster, form: Form, goldens: &'a mut Goldens) -> Self {
        let folder = cluster.folder().join(form.name());
        std::fs::create_dir(&folder).expect("a folder");
        let names = vec![
            (registry_of(cluster, form), "registry.example.com".to_owned()),
            (cluster.world.registry.host().to_owned(), "registry.example.com".to_owned()),
            (folder.display().to_string(), "/srv/bundles".to_owned()),
            (cluster.world.controller.storage.display().to_string(), "/var/cache/bundles".to_owned()),
        ];
        Self { cluster, form, folder, normalizer: Normalizer::new(names), goldens }
    }

    /// Types `rukpakctl` with these words, and keeps what it prints for the golden of the verb. `REGISTRY` in them is the registry.
    pub async fn enter(&mut self, words: &str) {
        self.enter_of(words, words).await;
    }

    /// The same, where the goldens show other words.
    pub async fn enter_of(&mut self, words: &str, shown: &str) {
        let verb = verb_of(words);
        let has_golden = goldens::is_expected(&verb, self.form);
        let json = if self.form == Form::Json && has_golden { " -o json" } else { "" };
        let printed = self.type_in(&format!("{words}{json}")).await;
        if !has_golden {
            return;
        }
        let printed = self.normalizer.normalize(&printed);
        let shown = shown.replace("REGISTRY", "registry.example.com");
        self.goldens.add(&verb, self.form, &format!("$ rukpakctl {shown}{json}\n{printed}"));
    }

    /// What `REGISTRY` stands for.
    pub fn registry(&self) -> String {
        registry_of(self.cluster, self.form)
    }

    async fn type_in(&self, words: &str) -> String {
        let mut words = words.replace("REGISTRY", &self.registry());
        let verb = verb_of(&words);
        if SERVICE.contains(&verb.as_str()) {
            words.extend([format!(" --endpoint https://localhost:{}", self.cluster.world.controller.content_port)]);
        }
        let program = tools::workspace_binary("rukpakctl").expect("it is built");
        let line = format!("{} {words}", program.display());
        let mut command = match self.form {
            Form::Terminal => {
                let mut command = Command::new("script");
                command.args(["-qec", &format!("stty cols {COLUMNS}; {line}"), "/dev/null"]);
                command
            }
            Form::Pipe | Form::Json => {
                let mut command = Command::new("sh");
                command.args(["-c", &line]);
                command
            }
        };
        for variable in FOREIGN {
            command.env_remove(variable);
        }
        command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env("TERM", "xterm-256color")
            .env("HOME", &self.folder)
            .env("SSL_CERT_FILE", self.cluster.folder().join("trusted.pem"))
            .env("KUBECONFIG", self.cluster.world.plane.kubeconfig_path());
        let output = tokio::process::Command::from(command).output().await.expect("it runs");
        let out = String::from_utf8_lossy(&output.stdout);
        let mut printed = if self.form == Form::Terminal { screen::shown(&out) } else { out.into_owned() };
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            printed.extend([format!("{STDERR}{line}\n")]);
        }
        if let Some(code) = output.status.code().filter(|code| *code != 0) {
            printed.extend([format!("[exit code {code}]\n")]);
        }
        printed
    }
}

/// Repositories of one form: what another has pushed is not there.
fn registry_of(cluster: &Cluster, form: Form) -> String {
    format!("{}/{}", cluster.world.registry.host(), form.name())
}

/// `catalog-list` of the words `catalog list cluster:pumps`.
fn verb_of(words: &str) -> String {
    let mut words = words.split(' ');
    let first = words.next().unwrap_or_default();
    match first {
        "catalog" | "extension" | "plan" => format!("{first}-{}", words.next().unwrap_or_default()),
        _ => first.to_owned(),
    }
}

/// The verbs of the program, as it has man pages of them: `install`, `catalog-list`.
pub fn verbs() -> BTreeSet<String> {
    let folder = tools::temp_folder("man").expect("a folder");
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let output = Command::new(program).arg("man").arg(folder.path()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let pages = tools::listing(folder.path()).expect("it is listed");
    let names: BTreeSet<String> = pages
        .iter()
        .filter_map(|page| Some(page.file_name().to_str()?.strip_prefix("rukpakctl-")?.strip_suffix(".1")?.to_owned()))
        .collect();
    let is_group = |name: &String| names.iter().any(|other| other.starts_with(&format!("{name}-")));
    names.iter().filter(|name| !is_group(name)).cloned().collect()
}
