//! What the tests of hostile sources share: a cluster whose controller has small limits, servers that misbehave, and a look at
//! what is left of the controller afterwards.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use rukpak_tests::registry::TarEntry;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, World, WorldOptions};
use rukpak_tests::{FaultyServer, ImageBuilder, Layer, Process, TestCa, openshift, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Longest wait for a refusal.
const PATIENCE: Duration = Duration::from_mins(1);
/// What a program may ever have taken, whatever it was sent. Optimised programs need less.
pub const MEMORY_BYTES: u64 = 256 * 1024 * 1024;

/// Far below what anybody needs.
const LIMITS: [&str; 7] = [
    "--limit=download-bytes=4000000",
    "--limit=tree-bytes=8000000",
    "--limit=layers=20",
    "--limit=git-bytes=2000000",
    "--limit=git-seconds=15",
    "--limit=pull-seconds=6",
    "--log-level=debug",
];

/// Where it happens.
pub struct Scene {
    pub world: World,
    /// Signs the servers that misbehave.
    pub ca: TestCa,
    /// Its certificate.
    pub ca_file: PathBuf,
    /// The process that must still be there at the end.
    controller: Option<u32>,
    _folder: tempfile::TempDir,
}

static SCENE: OnceCell<Scene> = OnceCell::const_new();

impl Scene {
    pub async fn shared() -> &'static Self {
        SCENE.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let (ca, folder) = (TestCa::new("hostile-ca").expect("a CA"), tools::temp_folder("hostile").expect("a folder"));
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, ca.pem()).expect("written");
        let mut flags = LIMITS.map(str::to_owned).to_vec();
        flags.push(format!("--source-ca-file={}", ca_file.display()));
        let install = openshift::manifests();
        let world = World::start_with(WorldOptions { arguments: flags, install, ..WorldOptions::default() }).await;
        let world = world.expect("the world starts");
        let controller = world.controller.pid();
        Self { world, ca, ca_file, controller, _folder: folder }
    }

    /// A server of one's own that knows nothing by itself.
    pub fn server(&self) -> FaultyServer {
        FaultyServer::alone(&self.ca).expect("a loopback port is free")
    }

    /// A server in front of the open registry.
    pub fn registry(&self) -> FaultyServer {
        FaultyServer::before(&self.ca, &self.world.registry.url(), &self.world.registry.ca_pem()).expect("a free port")
    }

    /// A server in front of the open git server.
    pub fn git(&self) -> FaultyServer {
        FaultyServer::before(&self.ca, &self.world.git.base_url(), &self.world.git.ca_pem()).expect("a free port")
    }

    pub async fn client(&self) -> Client {
        self.world.admin().await
    }

    /// Waits until a Bundle of this source has been refused with `text` in the message, which is returned.
    pub async fn refused(&self, source: Value, text: &str) -> String {
        self.said(source, Expected { kind: "Unpacked", status: "False", reason: None, message: text }).await.1
    }

    /// Waits until a Bundle of this source is unpacked.
    pub async fn unpacked(&self, source: Value) -> String {
        self.said(source, Expected::is_true("Unpacked", "UnpackSuccessful")).await.0
    }

    /// The name of the Bundle and what it says.
    async fn said(&self, source: Value, expected: Expected<'_>) -> (String, String) {
        let (client, name) = (self.client().await, unique_name("hostile"));
        verbs::create(&client, &world::bundle(&name, source)).await.unwrap_or_else(|error| panic!("{error:#}"));
        let found = verbs::await_condition(&client, &Target::bundle(&name), expected, PATIENCE).await;
        let object = found.unwrap_or_else(|error| panic!("{error:#}"));
        let message = verbs::condition(&object, "Unpacked").and_then(|unpacked| unpacked["message"].as_str());
        (name, message.unwrap_or_default().to_owned())
    }

    /// A Secret of the system namespace. Returns its name.
    pub async fn secret(&self, type_: &str, data: &Value, annotations: &Value) -> String {
        let name = unique_name("secret");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": type_, "stringData": data,
                            "metadata": {"name": name, "namespace": "rukpak-system", "annotations": annotations}});
        verbs::create(&self.client().await, &secret).await.unwrap_or_else(|error| panic!("{error:#}"));
        name
    }

    /// Others are served as before, by the same process, which has never taken more memory than it may.
    pub async fn unharmed(&self) {
        let name = unique_name("bystander");
        let image = self.world.push(&name, &good(&name)).await;
        self.unpacked(world::image(&image)).await;
        assert_eq!(self.world.controller.pid(), self.controller, "the controller was restarted");
        assert_eq!(self.world.controller.exit_status().expect("it was started"), None);
        within_bounds("rukpak-controller", &self.world.controller);
    }
}

/// What the process took at most is in bounds.
pub fn within_bounds(name: &str, process: &Process) {
    let peak = process.peak_resident_bytes().expect("it runs");
    println!("{name}: at most {} MiB", peak / 1024 / 1024);
    assert!(peak < MEMORY_BYTES, "{name} took {peak} bytes");
}

/// A good bundle.
pub fn good(name: &str) -> ImageBuilder {
    ImageBuilder::new([layer(name)])
}

/// A layer with one object called `name`.
pub fn layer(name: &str) -> Layer {
    Layer::new([TarEntry::file(format!("manifests/{name}.yaml"), manifest(name))])
}

/// A manifest of a ConfigMap called `name`.
pub fn manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n")
}

/// A source of type git.
pub fn git(repository: &str, reference: &Value) -> Value {
    json!({"type": "git", "git": {"repository": repository, "ref": reference}})
}

/// A source of type http.
pub fn http(url: &str) -> Value {
    json!({"type": "http", "http": {"url": url}})
}

/// Listens where nothing may be fetched from: on a loopback address that the controller's flags do not open.
pub struct Trap {
    listener: TcpListener,
}

impl Trap {
    /// On 127.0.0.2.
    pub fn set() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).expect("all of 127.0.0.0/8 is ours");
        listener.set_nonblocking(true).expect("a socket");
        Self { listener }
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// Nobody has connected.
    pub fn is_untouched(&self) {
        let caught = self.listener.accept().map(|(_, peer)| peer).map_err(|error| error.kind()).err();
        assert_eq!(caught, Some(std::io::ErrorKind::WouldBlock), "somebody connected");
    }
}
