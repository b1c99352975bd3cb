//! `rukpakctl` and a real registry: TLS by a private CA, logins from Docker's configuration, and how it ends when it cannot
//! find out. And with a real cluster: RukPak's own verbs, catalogs and PlatformOperators, in the modules.

mod browser;
mod catalog;
mod charts;
mod content;
mod diff;
pub mod hands;
mod images;
mod install;
mod objects;
mod revisions;
mod run;
mod status;
pub mod ui;

use std::path::Path;
use std::process::Command;

use rukpak_tests::registry::{Compression, Pushed};
use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::{PASSWORD, USER};
use rukpak_tests::{ImageBuilder, Layer, Registry, RegistryOptions, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// A registry for [`USER`] alone, and what its clients need.
struct Private {
    registry: Registry,
    folder: tempfile::TempDir,
}

static PRIVATE: OnceCell<Private> = OnceCell::const_new();

struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Private {
    async fn shared() -> &'static Self {
        let start = async || {
            let registry =
                Registry::start(RegistryOptions::private(USER, PASSWORD)).await.expect("the registry starts");
            let folder = tools::temp_folder("cli").expect("a folder");
            std::fs::write(folder.path().join("ca.pem"), registry.ca_pem()).expect("a CA file");
            for (name, password) in [("good", PASSWORD), ("bad", "wr0ng")] {
                let docker = folder.path().join(name);
                std::fs::create_dir(&docker).expect("a folder");
                std::fs::write(docker.join("config.json"), registry.pull_secret_json(USER, password)).expect("logins");
            }
            let helper = folder.path().join("helper");
            std::fs::create_dir(&helper).expect("a folder");
            std::fs::write(helper.join("config.json"), r#"{"credsStore": "desktop"}"#).expect("logins");
            Self { registry, folder }
        };
        PRIVATE.get_or_init(start).await
    }

    async fn push(&self, image: &ImageBuilder) -> Pushed {
        self.registry.push(&unique_name("cli"), "v1", image).await.expect("the registry takes it")
    }

    /// Runs the program with the logins of that name (`none`: without) and the registry's CA.
    fn run(&self, logins: &str, arguments: &[&str]) -> Answer {
        let ca = self.folder.path().join("ca.pem");
        self.run_without_ca(logins, &[arguments, &["--ca-file", ca.to_str().expect("UTF-8")]].concat())
    }

    fn run_without_ca(&self, logins: &str, arguments: &[&str]) -> Answer {
        let docker = self.folder.path().join(logins);
        answer(&[("DOCKER_CONFIG", docker.to_str().expect("UTF-8"))], arguments)
    }

    /// Runs the program with these variables and the registry's CA.
    fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Answer {
        let ca = self.folder.path().join("ca.pem");
        answer(variables, &[arguments, &["--ca-file", ca.to_str().expect("UTF-8")]].concat())
    }
}

/// Runs the program with these variables. No answer of it shows a password.
fn answer(variables: &[(&str, &str)], arguments: &[&str]) -> Answer {
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied());
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE"] {
        command.env_remove(proxy);
    }
    let output = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let answer = Answer { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) };
    for secret in [PASSWORD, "wr0ng"] {
        assert!(!answer.err.contains(secret) && !answer.out.contains(secret), "a password: {}", answer.err);
    }
    answer
}

fn kite() -> ImageBuilder {
    let folder = tools::workspace_folder().join("provisioners/registry/tests/fixtures/kite");
    ImageBuilder::of_folder(&folder).expect("the fixture is readable")
}

fn plain() -> ImageBuilder {
    let layer = |name: &str, compression| {
        let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: ns}}\n");
        Layer::of_files([(format!("manifests/{name}.yaml"), manifest)]).compression(compression)
    };
    ImageBuilder::new([layer("two", Compression::Zstd), layer("one", Compression::None)])
}

fn assert_unknown(answer: &Answer, texts: &[&str]) {
    assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{}", answer.err);
    for text in texts {
        assert!(answer.err.contains(text), "{text:?} is not in: {}", answer.err);
    }
}

#[tokio::test]
async fn an_image_gives_what_its_folder_gives() {
    let private = Private::shared().await;
    let pushed = private.push(&kite()).await;
    let folder = tools::workspace_folder().join("provisioners/registry/tests/fixtures/kite");
    let local = private.run("none", &["render", folder.to_str().expect("UTF-8")]);
    assert_eq!(local.code, Some(0), "{}", local.err);
    for reference in [&pushed.reference, &pushed.pinned] {
        let answer = private.run("good", &["render", reference]);
        assert_eq!((answer.code, &answer.out), (Some(0), &local.out), "{}", answer.err);
        assert!(answer.err.contains(&pushed.pinned), "what was pulled is named by digest: {}", answer.err);
        assert!(answer.err.contains("a registry+v1 bundle"), "{}", answer.err);
    }
    let report = private.run("good", &["validate", &pushed.reference, "-ojson"]);
    let report: Value = serde_json::from_str(&report.out).expect("JSON");
    assert_eq!((&report["valid"], &report["bundle"]), (&json!(true), &json!(pushed.pinned)));
}

#[tokio::test]
async fn a_plain_image_of_several_layers_is_rendered() {
    let private = Private::shared().await;
    let pushed = private.push(&plain()).await;
    let answer = private.run("good", &["render", &pushed.reference, "--output=json"]);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    let objects: Value = serde_json::from_str(&answer.out).expect("JSON");
    let names: Vec<&Value> =
        objects.as_array().expect("an array").iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(names, ["one", "two"], "in the order of the files' names");
    assert!(answer.err.contains("2 objects of a plain+v0 bundle"), "{}", answer.err);
}

#[tokio::test]
async fn what_the_registry_refuses_could_not_be_found_out() {
    let private = Private::shared().await;
    let pushed = private.push(&plain()).await;
    let taken = "there is no file or folder of this name, so it was taken for an image: ";
    for command in ["render", "validate"] {
        for logins in ["none", "bad"] {
            assert_unknown(&private.run(logins, &[command, &pushed.reference]), &[taken, "401"]);
        }
        let missing = pushed.reference.replace(":v1", ":v2");
        assert_unknown(&private.run("good", &[command, &missing]), &[taken, &missing, "404"]);
        assert_unknown(&private.run_without_ca("good", &[command, &pushed.reference]), &[taken, "certificate"]);
    }
    let answer = private.run("helper", &["render", &pushed.reference]);
    assert_unknown(&answer, &["401", "note: docker-credential-desktop cannot be run"]);
}

#[tokio::test]
async fn a_path_that_exists_wins_over_an_image() {
    let private = Private::shared().await;
    let pushed = private.push(&plain()).await;
    // `localhost:port/name:v1` is a fine path, too.
    let folder = tools::temp_folder("cli-path").expect("a folder");
    let manifests = folder.path().join(&pushed.reference).join("manifests");
    std::fs::create_dir_all(&manifests).expect("a folder");
    std::fs::write(manifests.join("a.yaml"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: local}\n")
        .expect("a file");
    let answer = rendered_in(folder.path(), private, &pushed.reference);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(answer.out.contains("name: local"), "{}", answer.out);
}

fn rendered_in(folder: &Path, private: &Private, bundle: &str) -> Answer {
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let mut command = Command::new(program);
    command.args(["render", bundle]).current_dir(folder).env("DOCKER_CONFIG", private.folder.path().join("good"));
    let output = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Answer { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}
