//! `make demo CLUSTER=current KEEP=1`: on a cluster that is there already, it leaves what it says, and takes it away at the end.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kube::Client;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{Plane, tools};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Far longer than the demo takes, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(8);

#[tokio::test]
async fn the_demo_leaves_what_it_says_on_a_cluster_that_is_there() {
    let plane = Plane::start().await.expect("the plane starts");
    let client = plane.admin().await.expect("the admin kubeconfig is good");
    let folder = tools::temp_folder("demo-test").expect("a folder");
    let errors = folder.path().join("stderr");
    let mut demo = start(&plane, &errors).await;
    let said = tokio::time::timeout(PATIENCE, shown(&mut demo)).await.expect("it comes to an end");
    let errors = || tools::tail(&errors, 40);
    assert!(said.last().is_some_and(|line| line.contains("to end it all")), "{}\n{}", said.join("\n"), errors());
    is_left(&client, &said).await;

    let pid = demo.id().expect("it runs").to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status().await.expect("kill runs");
    assert!(told.success());
    let status = tokio::time::timeout(PATIENCE, demo.wait()).await.expect("it ends").expect("it is ours");
    assert!(status.success(), "{status}: {}", errors());
    is_gone(&client).await;
}

async fn start(plane: &Plane, errors: &Path) -> Child {
    let errors = File::create(errors).await.expect("a file").into_std().await;
    Command::new(tools::workspace_binary("demo").expect("the demo is built"))
        .env("KUBECONFIG", plane.kubeconfig_path())
        .env("CLUSTER", "current")
        .env("KEEP", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .kill_on_drop(true)
        .spawn()
        .expect("it runs")
}

/// What it prints until it waits, or ends.
async fn shown(demo: &mut Child) -> Vec<String> {
    let mut lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
    let mut said: Vec<String> = Vec::new();
    while !said.last().is_some_and(|line| line.contains("to end it all")) {
        let Some(line) = lines.next_line().await.expect("it prints text") else { break };
        said.push(line);
    }
    said
}

/// What it says is left is there: objects that are installed, and the logs of programs that run.
async fn is_left(client: &Client, said: &[String]) {
    let of = |label: &str| said.iter().find_map(|line| Some(line.trim().strip_prefix(label)?.trim().to_owned()));
    let installed = of("installed again").expect("it says what is installed");
    let (deployment, operator) = installed.split_once(", platformoperator ").expect("two objects");
    let deployment = deployment.strip_prefix("bundledeployment ").expect("a BundleDeployment");
    for target in [
        Target::bundle_deployment(deployment),
        Target::cluster("platform.openshift.io/v1alpha1", "PlatformOperator", operator),
    ] {
        let found = verbs::get(client, &target).await.expect("the API server answers").expect("it is there");
        assert_eq!(verbs::condition(&found, "Installed").map(|said| &said["status"]), Some(&"True".into()), "{target}");
    }
    let ca = of("their CA file").expect("it names a file");
    assert!(std::fs::read_to_string(&ca).is_ok_and(|pem| pem.contains("BEGIN CERTIFICATE")), "{ca}");
    let words = said.iter().filter_map(|line| line.split_whitespace().last()).map(Path::new);
    let logs: Vec<&Path> = words.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    assert!(logs.len() == 3 && logs.iter().all(|log| log.is_file()), "{logs:?}");
    assert!(!said.iter().any(|line| line.contains("export KUBECONFIG")), "the cluster is the user's own");
}

async fn is_gone(client: &Client) {
    let left = verbs::list(client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "").await.expect("a list");
    let left: Vec<&str> = left.iter().filter_map(|definition| definition.metadata.name.as_deref()).collect();
    assert!(left.is_empty(), "{left:?}");
    for namespace in ["rukpak-system", "rukpak-example-pumps"] {
        let target = Target::cluster("v1", "Namespace", namespace);
        assert!(verbs::get(client, &target).await.expect("the API server answers").is_none(), "{target} is left");
    }
}
