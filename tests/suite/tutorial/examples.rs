//! The folder `examples`: its bundles are valid, and each BundleDeployment installs one.

use rukpak_tests::world::World;
use rukpak_tests::{Fault, FaultyServer, ImageBuilder, Rule, TestCa, tools};

use super::session::Session;

/// Where the examples say that the bundles are.
pub struct Servers {
    web: FaultyServer,
    folder: tempfile::TempDir,
}

impl Servers {
    /// Starts what a world does not have: a web server with the archive of `hello`.
    pub fn start() -> Self {
        let ca = TestCa::new("www-ca").unwrap_or_else(|error| panic!("{error:#}"));
        let web = FaultyServer::alone(&ca).unwrap_or_else(|error| panic!("{error:#}"));
        let folder = tools::temp_folder("www").unwrap_or_else(|error| panic!("{error:#}"));
        std::fs::write(folder.path().join("ca.pem"), web.ca_pem()).expect("a file can be written");
        let hello = example("hello");
        let tar = std::process::Command::new("tar").arg("-C").arg(hello).args(["-cz", "manifests"]).output();
        let archive = tar.expect("tar is there").stdout;
        web.add(Rule::on("/hello.tgz", Fault::Answer(http::StatusCode::OK, vec![], archive)));
        Self { web, folder }
    }

    /// Has the controller trust them.
    pub fn ca_flag(&self) -> String {
        format!("--source-ca-file={}", self.folder.path().join("ca.pem").display())
    }

    /// Publishes the bundles, and says what the examples call the places and where they are.
    pub async fn names(&self, world: &World) -> Vec<(&'static str, String)> {
        for (name, tag) in [("hello", "v1"), ("greeter-operator", "v1.0.0")] {
            let image = ImageBuilder::of_folder(&example(name)).unwrap_or_else(|error| panic!("{error:#}"));
            world.registry.push(name, tag, &image).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
        let repository = world.git.repository("examples").expect("a repository can be made");
        repository.copy(&tools::workspace_folder().join("examples")).expect("it can be copied");
        repository.commit("v1").expect("it can be committed");
        repository.annotated_tag("v1").expect("it can be tagged");
        vec![
            ("registry.example.com", world.registry.host().to_owned()),
            ("https://git.example.com/examples", world.git.url("examples")),
            ("https://www.example.com", self.web.url()),
        ]
    }
}

fn example(name: &str) -> std::path::PathBuf {
    tools::workspace_folder().join("examples").join(name)
}

/// Validates each bundle, and applies each BundleDeployment; those of one name upgrade one another.
pub async fn install_all(session: &Session) {
    let folder = example("");
    let names = |folder: &std::path::Path| -> Vec<String> {
        let files = tools::listing(folder).expect("the folder is there");
        let mut names: Vec<String> =
            files.into_iter().map(|file| file.file_name().into_string().expect("a name of ASCII")).collect();
        names.sort();
        names
    };
    let bundles: Vec<String> =
        names(&folder).into_iter().filter(|name| folder.join(name).join("manifests").is_dir()).collect();
    assert_eq!(bundles, ["greeter-operator", "hello"]);
    for name in bundles {
        session
            .enter(&format!("rukpakctl validate examples/{name} && rukpakctl render examples/{name} >/dev/null"))
            .await;
    }

    session.enter("kubectl -n rukpak-system create configmap hello --from-file=examples/hello/manifests").await;
    session.enter("kubectl -n rukpak-system patch configmap hello --type=merge -p '{\"immutable\": true}'").await;
    session.enter("kubectl create namespace team-a").await;
    let files = names(&folder.join("bundledeployments"));
    assert_eq!(files.len(), 8, "{files:?}");
    for file in files {
        let name = if file.starts_with("olm") { "greeter-operator" } else { "hello" };
        session.enter(&format!("kubectl apply -f examples/bundledeployments/{file}")).await;
        if file == "upload.yaml" {
            session.enter("rukpakctl run hello examples/hello").await;
        }
        session.enter(&format!("kubectl wait --for=condition=Ready --timeout=2m bundledeployment/{name}")).await;
    }
    session.enter("kubectl -n greeter-operator get deployment greeter-operator").await;
    session.follow("docs/registry.md", &[]).await;
    session.enter("kubectl delete bundledeployment hello greeter-operator").await;
    session.enter("kubectl wait --for=delete --timeout=2m namespace/hello namespace/greeter-operator").await;
}
