//! The requests of upstream's `rukpakctl` of v0.16, made one by one and answered as its programs expect: `run`,
//! `content` and `alpha bootstrap`.

use std::path::Path;

use http::Request;
use kube::Client;
use kube::api::{DynamicObject, WatchEvent};
use reqwest::StatusCode;
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, token};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, SOON, World, until, until_bundle};
use rukpak_tests::{fixtures, tools};
use serde_json::{Value, json};

use crate::content::access::identity_of;
use crate::content::caller::{self, Answer, Caller, archive, create, files, manifest};

const API: &str = "/apis/core.rukpak.io/v1alpha1";
const MANAGER: &str = "rukpakctl";

/// Somebody at a shell with the administrator's kubeconfig.
struct Shell<'a> {
    world: &'a World,
    client: Client,
}

/// What `run` did.
struct Run {
    bundle: String,
    /// What the content service answered.
    answer: Answer,
}

/// FNV-1a of 64 bits over the archive: how `rukpakctl` knows content again.
fn digest(archive: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", archive.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The BundleDeployment that `run` applies: what is set, and nothing else.
fn deployment(name: &str, digest: &str) -> Value {
    let mut deployment = world::deployment(name, json!({"type": "upload", "upload": {}}));
    deployment["spec"]["template"]["metadata"]["labels"] = json!({"app": name, "bundleDigest": digest});
    deployment
}

impl<'a> Shell<'a> {
    async fn new(world: &'a World) -> Self {
        Self { world, client: world.admin().await }
    }

    /// `PATCH …?fieldManager=rukpakctl&force=true`.
    async fn apply(&self, path: &str, object: &Value) -> DynamicObject {
        let request = Request::patch(format!("{path}?fieldManager={MANAGER}&force=true"))
            .header("content-type", "application/apply-patch+yaml")
            .body(object.to_string().into_bytes())
            .expect("a request");
        self.client.request(request).await.unwrap_or_else(|error| panic!("PATCH {path}: {error:?}"))
    }

    /// The first Bundle that a watch with these labels shows.
    async fn watch(&self, name: &str, digest: &str) -> DynamicObject {
        use futures::TryStreamExt as _;
        let selector = format!("labelSelector=app%3D{name}%2CbundleDigest%3D{digest}");
        let request = Request::get(format!("{API}/bundles?{selector}&watch=true")).body(Vec::new()).expect("a request");
        let watch = self.client.request_events::<DynamicObject>(request).await.expect("bundles can be watched");
        let first = async {
            match std::pin::pin!(watch).try_next().await {
                Ok(Some(WatchEvent::Added(bundle) | WatchEvent::Modified(bundle))) => bundle,
                other => panic!("no Bundle with {selector}: {other:?}"),
            }
        };
        tokio::time::timeout(SOON, first).await.unwrap_or_else(|_| panic!("no Bundle with {selector} comes"))
    }

    /// `PUT https://localhost:<port>/uploads/<bundle>.tgz`, of a length that is not told before.
    async fn upload(&self, bundle: &str, archive: &[u8]) -> Answer {
        let url = format!("https://localhost:{}/uploads/{bundle}.tgz", self.world.controller.content_port);
        let pem = caller::authorities(&self.client).await;
        let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).expect("ca.crt is PEM");
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only(certificates)
            .identity(identity_of(self.world.plane.kubeconfig_path()))
            .build()
            .expect("the settings are good");
        let chunks: Vec<_> = archive.chunks(1000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
        let body = reqwest::Body::wrap_stream(futures::stream::iter(chunks));
        caller::sent(http.put(&url).body(body)).await
    }

    /// `rukpakctl run <name> <directory>`.
    async fn run(&self, name: &str, archive: &[u8]) -> Run {
        let digest = digest(archive);
        let path = format!("{API}/bundledeployments/{name}");
        let applied = self.apply(&path, &deployment(name, &digest)).await;
        let mut fields = applied.metadata.managed_fields.iter().flatten();
        let by_us = |field: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
            field.manager.as_deref() == Some(MANAGER) && field.operation.as_deref() == Some("Apply")
        };
        assert!(fields.any(|field| by_us(&field)), "{:?}", applied.metadata.managed_fields);
        let bundle = self.watch(name, &digest).await;
        let labels = bundle.metadata.labels.clone().unwrap_or_default();
        for (key, value) in [
            ("app", name),
            ("bundleDigest", &digest),
            ("core.rukpak.io/owner-kind", "BundleDeployment"),
            ("core.rukpak.io/owner-name", name),
        ] {
            assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
        }
        let bundle = bundle.metadata.name.expect("it has a name");
        let answer = self.upload(&bundle, archive).await;
        Run { bundle, answer }
    }

    async fn installed(&self, name: &str, bundle: &str) -> DynamicObject {
        let message = format!("Instantiated bundle {bundle} successfully");
        let expected = Expected::is_true("Installed", "InstallationSucceeded").saying(&message);
        until(&self.client, name, expected).await
    }
}

impl Run {
    /// What `rukpakctl` makes of the answer.
    fn is(&self, status: StatusCode, text: &str) {
        assert_eq!((self.answer.status, self.answer.text().trim_end()), (status, text), "{}", self.bundle);
    }
}

#[test]
fn the_digest_is_gos() {
    // The test vectors of FNV-1a.
    assert_eq!((digest(b""), digest(b"a")), ("cbf29ce484222325".into(), "af63dc4c8601ec8c".into()));
    assert_eq!(digest(b"foobar"), "85944171f73967e8");
}

#[tokio::test]
async fn run_applies_uploads_and_installs() {
    let shell = Shell::new(World::shared().await).await;
    let name = unique_name("run");
    let first = archive(&[("manifests/a.yaml", manifest(&format!("{name}-a")))]);
    let run = shell.run(&name, &first).await;
    run.is(StatusCode::CREATED, "");
    // The same again, as soon as can be: it is there, unpacked or not.
    assert_eq!(shell.upload(&run.bundle, &first).await.status, StatusCode::NO_CONTENT);
    let deployment = shell.installed(&name, &run.bundle).await;
    let valid = Expected::is_true("HasValidBundle", "UnpackSuccessful");
    assert!(valid.met_by(&deployment), "{}", deployment.data);
    assert_eq!(deployment.data["status"]["activeBundle"], run.bundle);
    let bundle = verbs::get(&shell.client, &Target::bundle(&run.bundle)).await.unwrap().unwrap();
    let message = &verbs::condition(&bundle, "Unpacked").unwrap()["message"];
    assert_eq!(message, "Successfully unpacked the upload Bundle");

    // Nothing changed: the same Bundle, and `bundle "…" is already up-to-date`.
    let again = shell.run(&name, &first).await;
    assert_eq!(again.bundle, run.bundle);
    again.is(StatusCode::NO_CONTENT, "");
    // Other bytes for it: the body is what `rukpakctl` says.
    let second = archive(&[("manifests/b.yaml", manifest(&format!("{name}-b")))]);
    let other = Run { bundle: run.bundle.clone(), answer: shell.upload(&run.bundle, &second).await };
    other.is(StatusCode::CONFLICT, "bundle has already been unpacked, cannot change content of existing bundle");

    // The directory changed: another digest, another Bundle, and the old one goes.
    let next = shell.run(&name, &second).await;
    assert_ne!(next.bundle, run.bundle);
    next.is(StatusCode::CREATED, "");
    shell.installed(&name, &next.bundle).await;
    verbs::await_deleted(&shell.client, &Target::bundle(&run.bundle), SOON).await.unwrap();
    let object = |suffix: &str| Target::namespaced("v1", "ConfigMap", "default", &format!("{name}-{suffix}"));
    assert!(verbs::get(&shell.client, &object("b")).await.unwrap().is_some());
    verbs::await_deleted(&shell.client, &object("a"), SOON).await.unwrap();
    verbs::delete(&shell.client, &Target::bundle_deployment(&name)).await.unwrap();
}

/// K3: it is taken, and found out afterwards.
#[tokio::test]
async fn run_of_what_is_no_bundle_shows_in_both_objects() {
    let shell = Shell::new(World::shared().await).await;
    let name = unique_name("run");
    let mut subdir = fixtures::renamed("plain/subdir", &name).unwrap();
    subdir.insert(0, ("manifests/emptydir/.gitignore".to_owned(), String::new()));
    let run = shell.run(&name, &archive(&subdir)).await;
    run.is(StatusCode::CREATED, "");
    let text = "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: \
                found \"manifests/emptydir\"";
    let failed =
        until_bundle(&shell.client, &run.bundle, Expected::is_false("Unpacked", "UnpackFailed").saying(text)).await;
    assert_eq!(failed.data["status"]["phase"], "Failing");
    let message = format!("Failed to unpack the {} Bundle: get objects from bundle manifests: {text}", run.bundle);
    until(&shell.client, &name, Expected::is_false("HasValidBundle", "UnpackFailed").saying(&message)).await;
    // K7: without a contentURL, `content` says "error: url is not available".
    assert!(failed.data["status"]["contentURL"].is_null());
    verbs::delete(&shell.client, &Target::bundle_deployment(&name)).await.unwrap();
}

/// The binding, the account and the Job of `content`, under upstream's fixed names.
async fn reader(shell: &Shell<'_>, url: &str) -> Target {
    let account = json!({"kind": "ServiceAccount", "name": "rukpakctl-sa", "namespace": SYSTEM_NAMESPACE});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "rukpakctl-crb"}, "subjects": [account],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundle-reader"}});
    create(&shell.client, &binding).await;
    let target = Target::of(&binding).expect("it has a name");
    let bound = verbs::get(&shell.client, &target).await.expect("it can be read").expect("it is there");
    let owners = json!([{"apiVersion": target.api_version, "kind": target.kind, "name": target.name,
                         "uid": bound.metadata.uid}]);
    let metadata = json!({"name": "rukpakctl-sa", "namespace": SYSTEM_NAMESPACE, "ownerReferences": owners});
    create(&shell.client, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await;
    let script = format!(
        "curl -sSLk -H \"Authorization: Bearer $(cat /var/run/secrets/kubernetes.io/serviceaccount/token)\" {url} | tar ztv"
    );
    let pod = json!({"serviceAccountName": "rukpakctl-sa", "restartPolicy": "Never", "containers": [
        {"name": "rukpakctl", "image": "curlimages/curl", "command": ["sh", "-c"], "args": [script]}]});
    let job = unique_name("rukpakctl-job");
    let metadata = json!({"name": job, "namespace": SYSTEM_NAMESPACE, "ownerReferences": owners});
    create(
        &shell.client,
        &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}),
    )
    .await;
    target
}

/// Waits until the answer has this status: rights come and go a moment after they are granted.
async fn answer_with(caller: &Caller, path: &str, status: StatusCode) -> Answer {
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let answer = caller.get(path).await;
        if answer.status == status {
            return answer;
        }
        assert!(tokio::time::Instant::now() < end, "never {status}, but {}: {}", answer.status, answer.text());
    }
}

/// K4 to K6. No node runs the Job here, so its one request is made with its account's token.
#[tokio::test]
async fn content_is_read_with_a_token_of_the_account_that_was_bound() {
    let shell = Shell::new(World::shared().await).await;
    let name = unique_name("content");
    let source = shell.world.git.repository(&name).unwrap();
    let given: Vec<_> =
        (1..=7).map(|index| (format!("manifests/{index}.yaml"), manifest(&format!("m{index}")))).collect();
    let borrowed: Vec<_> = given.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    source.write(&borrowed).unwrap().commit("first").unwrap();
    let git = json!({"type": "git", "git": {"repository": shell.world.git.url(&name), "ref": {"branch": "main"}}});
    create(&shell.client, &world::bundle(&name, git)).await;
    let bundle = caller::unpacked(&shell.client, &name).await;
    let url = bundle.data["status"]["contentURL"].as_str().unwrap().to_owned();
    let path = url.strip_prefix("https://core.rukpak-system.svc").unwrap();

    let binding = reader(&shell, &url).await;
    let token = token(&shell.client, SYSTEM_NAMESPACE, "rukpakctl-sa").await.unwrap();
    let caller = Caller::with_token(shell.world, Some(&token)).await;
    let answer = answer_with(&caller, path, StatusCode::OK).await;
    assert_eq!(answer.header("content-type"), "application/gzip");
    assert_eq!(files(&answer.body), given.clone().into_iter().collect());
    let listed = listing(&answer.body);
    for (file, _) in &given {
        assert!(listed.lines().any(|line| line.ends_with(file.as_str())), "{file} is not in:\n{listed}");
    }
    // K5: what is not there lists nothing.
    assert_eq!(caller.get("/bundles/badname.tgz").await.status, StatusCode::NOT_FOUND);
    verbs::delete(&shell.client, &binding).await.unwrap();
    answer_with(&caller, path, StatusCode::FORBIDDEN).await;

    // K6 is the API server's own answer.
    let request = Request::get(format!("{API}/bundles/badname")).body(Vec::new()).unwrap();
    let error = shell.client.request::<Value>(request).await.unwrap_err().to_string();
    assert!(error.contains("bundles.core.rukpak.io \"badname\" not found"), "{error}");
}

/// What `tar ztv` says.
fn listing(archive: &[u8]) -> String {
    let folder = tools::temp_folder("listing").expect("a folder");
    let file = folder.path().join("content.tgz");
    std::fs::write(&file, archive).expect("there is room");
    let tar = tools::system_program("tar").expect("it is installed");
    let output = std::process::Command::new(tar).arg("ztvf").arg::<&Path>(&file).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("names are text")
}

/// A ConfigMap as `alpha bootstrap` stamps it.
fn stamped(name: &str, deployment: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": name, "namespace": "default",
        "labels": {"app.kubernetes.io/managed-by": "Helm", "core.rukpak.io/owner-kind": "BundleDeployment",
                   "core.rukpak.io/owner-name": deployment},
        "annotations": {"meta.helm.sh/release-name": deployment, "meta.helm.sh/release-namespace": SYSTEM_NAMESPACE}}})
}

/// The manifest of a ConfigMap with data.
fn with_data(name: &str, data: &Value) -> Vec<u8> {
    let metadata = json!({"name": name, "namespace": "default"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    archive(&[("manifests/manifest.yaml", object.to_string())])
}

#[tokio::test]
async fn bootstrap_hands_objects_over() {
    let shell = Shell::new(World::shared().await).await;
    let name = unique_name("bootstrap");
    let data = json!({"stays": "1", "goes": "1"});
    let path = format!("/api/v1/namespaces/default/configmaps/{name}");
    let before = shell.apply(&path, &stamped(&name, &name, &data)).await;
    let run = shell.run(&name, &with_data(&name, &data)).await;
    // `successfully bootstrapped bundle deployment "…"`.
    run.is(StatusCode::CREATED, "");
    shell.installed(&name, &run.bundle).await;
    let target = Target::namespaced("v1", "ConfigMap", "default", &name);
    let after = verbs::get(&shell.client, &target).await.unwrap().unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid, "taken over, not made anew");
    assert_eq!(after.data["data"], data);
    let owners = after.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), [name.as_str()]);
    // `bundle deployment "…" is already up-to-date`: bootstrap stamps and uploads again, and nothing is lost by it.
    shell.apply(&path, &stamped(&name, &name, &data)).await;
    shell.run(&name, &with_data(&name, &data)).await.is(StatusCode::NO_CONTENT, "");
    verbs::delete(&shell.client, &Target::bundle_deployment(&name)).await.unwrap();
}

/// What upstream's Helm client did by comparing releases.
#[tokio::test]
async fn what_was_bootstrapped_loses_what_the_next_version_leaves_out() {
    let shell = Shell::new(World::shared().await).await;
    let name = unique_name("bootstrap");
    let data = json!({"stays": "1", "goes": "1"});
    let path = format!("/api/v1/namespaces/default/configmaps/{name}");
    shell.apply(&path, &stamped(&name, &name, &data)).await;
    let run = shell.run(&name, &with_data(&name, &data)).await;
    shell.installed(&name, &run.bundle).await;
    let next = shell.run(&name, &with_data(&name, &json!({"stays": "2"}))).await;
    shell.installed(&name, &next.bundle).await;
    let target = Target::namespaced("v1", "ConfigMap", "default", &name);
    let after = verbs::get(&shell.client, &target).await.unwrap().unwrap();
    assert_eq!(after.data["data"], json!({"stays": "2"}));
    verbs::delete(&shell.client, &Target::bundle_deployment(&name)).await.unwrap();
}
