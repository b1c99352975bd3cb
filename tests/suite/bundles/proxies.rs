//! Sources behind an HTTP proxy: the environment of the controller says which, for images, git and archives alike. And the API
//! server behind it, for people.

use axum::http::StatusCode;
use rukpak_tests::http_proxy::HttpProxy;
use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world::{bundle, image, until_bundle};
use rukpak_tests::{
    ControllerOptions, Fault, FaultyServer, GitServer, ImageBuilder, InstallOptions, Plane, Registry, RegistryOptions,
    Rule, TestCa, tools,
};
use serde_json::{Value, json};

use crate::bundles::hands::manifest;
use crate::bundles::sources_http;

/// One server for each kind of source.
struct Servers {
    registry: Registry,
    git: GitServer,
    archives: FaultyServer,
}

impl Servers {
    async fn start() -> Self {
        let ca = TestCa::new("archives-ca").expect("an authority");
        Self {
            registry: Registry::start(RegistryOptions::default()).await.expect("the registry starts"),
            git: GitServer::start().expect("the git server starts"),
            archives: FaultyServer::alone(&ca).expect("a loopback port is free"),
        }
    }

    fn authorities(&self) -> String {
        [&*self.registry.ca_pem(), &*self.git.ca_pem(), self.archives.ca_pem()].concat()
    }

    /// A source of each kind whose one object is called `name`.
    async fn sources(&self, name: &str) -> [(&'static str, Value); 3] {
        let content = ImageBuilder::of_files([("manifests/object.yaml", manifest(name))]);
        let pushed = self.registry.push(&format!("bundles/{name}"), "v1", &content).await.expect("it is taken");
        let repository = self.git.repository(name).expect("a repository");
        repository.write(&[("manifests/object.yaml", manifest(name))]).expect("files").commit("one").expect("a commit");
        let path = format!("/{name}.tgz");
        self.archives.add(Rule::on(&path, Fault::Answer(StatusCode::OK, vec![], sources_http::good(name))));
        let git = json!({"repository": self.git.url(name), "ref": {"branch": "main"}});
        [
            ("image", image(&pushed.reference)),
            ("git", json!({"type": "git", "git": git})),
            ("http", json!({"type": "http", "http": {"url": format!("{}{path}", self.archives.url())}})),
        ]
    }

    /// What tunnels to all of them are asked for.
    fn targets(&self) -> Vec<String> {
        let host = |url: &str| url.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let mut all = vec![host(self.registry.host()), host(&self.git.base_url()), host(&self.archives.url())];
        all.sort();
        all
    }
}

#[tokio::test]
async fn all_sources_are_fetched_through_the_proxy_but_for_hosts_that_need_none() {
    let (servers, proxy) = (Servers::start().await, HttpProxy::start().await.expect("the proxy starts"));
    let plane = Plane::start().await.expect("the plane starts");
    let without = InstallOptions { without_webhooks: true, ..InstallOptions::default() };
    plane.install(&without).await.expect("the manifests apply");
    let folder = tools::temp_folder("proxies").expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, servers.authorities()).expect("a file");
    let arguments = vec![format!("--source-ca-file={}", file.display())];
    let controller = plane.start_controller(ControllerOptions { arguments, ..ControllerOptions::default() }).await;
    let controller = controller.expect("the controller starts");
    let client = plane.admin().await.expect("the admin kubeconfig is good");

    // The API server is asked by its address, the others by name.
    assert!(plane.server().starts_with("https://127.0.0.1:"), "{}", plane.server());
    for (no_proxy, expected) in [("127.0.0.1", servers.targets()), ("localhost, 127.0.0.0/8", vec![])] {
        controller.set_environment("HTTPS_PROXY", &proxy.url()).expect("it can be set");
        controller.set_environment("NO_PROXY", no_proxy).expect("it can be set");
        controller.restart().await.expect("the controller starts");
        controller.wait_ready().await.expect("it works");
        proxy.take_tunnels();
        let name = unique_name("proxied");
        for (kind, source) in servers.sources(&name).await {
            let name = format!("{name}-{kind}");
            verbs::create(&client, &bundle(&name, source)).await.expect("it is taken");
            until_bundle(&client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
        }
        assert_eq!(proxy.take_tunnels(), expected, "NO_PROXY={no_proxy}");
    }
    let api_server = plane.server().trim_start_matches("https://").to_owned();
    for (no_proxy, expected) in [("localhost", vec![api_server]), ("127.0.0.0/8", vec![])] {
        let program = tools::workspace_binary("rukpakctl").expect("it is built");
        let mut command = tokio::process::Command::new(program);
        command.arg("status").env("KUBECONFIG", plane.kubeconfig_path());
        let said = command.env("HTTPS_PROXY", proxy.url()).env("NO_PROXY", no_proxy).output().await.expect("it runs");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(proxy.take_tunnels(), expected, "rukpakctl with NO_PROXY={no_proxy}");
    }
    let log = controller.log();
    assert!(!log.contains("m4rked-proxy"), "the proxy's login is in the log");
}
