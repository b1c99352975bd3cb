//! Credentials of every kind, marked and planted in sources that work and in sources that fail: they are in nothing that was
//! written since. The `bundles` suite does the same for git over https and ssh, and for `dockerconfigjson`.

use std::io::Read as _;
use std::path::Path;

use axum::http::StatusCode as Status;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use kube::api::DynamicObject;
use reqwest::{Method, StatusCode};
use rukpak_tests::faulty::TokenAuth;
use rukpak_tests::registry::pull_secret_json;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, PASSWORD, USER, World, until_bundle};
use rukpak_tests::{Fault, FaultyServer, ImageBuilder, Rule, TestCa, tools};
use serde_json::{Value, json};

use crate::content::caller::{Caller, account, archive, create, manifest, sent, unpacked, upload_bundle};

/// A world of its own, whose programs tell all they ever tell.
struct Field {
    world: World,
    client: Client,
    /// A web server that answers as it is told.
    web: FaultyServer,
    /// A registry that sells tokens for a marked login.
    tokens: FaultyServer,
    /// What must be nowhere.
    marks: Vec<String>,
    /// The Secrets in which it was planted.
    planted: Vec<String>,
    _folder: tempfile::TempDir,
}

/// The forms in which a password may show.
fn forms(password: &str) -> [String; 3] {
    [password.to_owned(), BASE64_STANDARD.encode(format!("{USER}:{password}")), BASE64_STANDARD.encode(password)]
}

impl Field {
    async fn start() -> Self {
        let (ca, folder) = (
            TestCa::new("marked-ca").expect("the harness works"),
            tools::temp_folder("marked").expect("the harness works"),
        );
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, ca.pem()).expect("the harness works");
        let mut flags = vec![format!("--source-ca-file={}", file.display())];
        if std::env::var_os("LOG_LEVEL").is_none() {
            flags.push("--log-level=debug".to_owned());
        }
        let world = World::start(flags).await.expect("the harness works");
        world.webhook.set_environment("RUST_LOG", "debug").expect("the harness works");
        world.webhook.restart().await.expect("the harness works");
        world.webhook.wait_ready().await.expect("the harness works");
        let mut marks = forms(PASSWORD).to_vec();
        let password = unique_name("planted-token-password");
        marks.extend(forms(&password));
        let auth = TokenAuth { user: USER.to_owned(), password, field: "token" };
        let registry = (world.registry.url(), world.registry.ca_pem());
        let tokens = FaultyServer::before_with_tokens(&ca, &registry.0, &registry.1, auth).expect("the harness works");
        let (client, web) = (world.admin().await, FaultyServer::alone(&ca).expect("the harness works"));
        Self { world, client, web, tokens, marks, planted: Vec::new(), _folder: folder }
    }

    /// A password that is nowhere else.
    fn mark(&mut self, what: &str) -> String {
        let mark = unique_name(&format!("planted-{what}"));
        self.marks.extend(forms(&mark));
        mark
    }

    /// The password that the registry with tokens wants.
    fn token_password(&self) -> String {
        self.marks.iter().find(|mark| mark.starts_with("planted-token-password")).expect("it is marked").clone()
    }

    /// Plants a Secret; returns its name.
    async fn secret(&mut self, kind: &str, data: Value) -> String {
        let name = unique_name("secret");
        let metadata = json!({"name": name, "namespace": "rukpak-system"});
        create(
            &self.client,
            &json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "stringData": data}),
        )
        .await;
        self.planted.push(name.clone());
        name
    }

    async fn login(&mut self, password: &str) -> Value {
        let data = json!({"username": USER, "password": password});
        json!({"secret": {"name": self.secret("kubernetes.io/basic-auth", data).await}})
    }

    async fn bundle(&self, source: Value) -> String {
        let name = unique_name("marked");
        create(&self.client, &world::bundle(&name, source)).await;
        name
    }

    async fn works(&self, source: Value) -> DynamicObject {
        unpacked(&self.client, &self.bundle(source).await).await
    }

    async fn fails(&self, source: Value, reason: &str, text: &str) -> String {
        let name = self.bundle(source).await;
        until_bundle(&self.client, &name, Expected::is_false("Unpacked", reason).saying(text)).await;
        name
    }

    /// `.dockercfg`, and logins that buy bearer tokens.
    async fn images(&mut self) {
        let repository = unique_name("marked");
        let image = ImageBuilder::of_files([("manifests/a.yaml", manifest(&repository))]);
        let private =
            self.world.private_registry.push(&repository, "v1", &image).await.expect("the harness works").reference;
        self.world.registry.push(&repository, "v1", &image).await.expect("the harness works");
        let behind = format!("{}/{repository}:v1", self.tokens.host());
        let source =
            |reference: &str, secret: &str| json!({"type": "image", "image": {"ref": reference, "pullSecret": secret}});
        let (wrong, wrong_for_tokens) = (self.mark("dockercfg"), self.mark("dockerconfigjson"));
        for (password, for_tokens, works) in
            [(PASSWORD.to_owned(), self.token_password(), true), (wrong, wrong_for_tokens, false)]
        {
            let auth = BASE64_STANDARD.encode(format!("{USER}:{password}"));
            let config = json!({self.world.private_registry.host(): {"auth": auth, "email": "nobody@example.com"}});
            let legacy = json!({".dockercfg": config.to_string()});
            let legacy = self.secret("kubernetes.io/dockercfg", legacy).await;
            let config = json!({".dockerconfigjson": pull_secret_json(&self.tokens.host(), USER, &for_tokens)});
            let config = self.secret("kubernetes.io/dockerconfigjson", config).await;
            for source in [source(&private, &legacy), source(&behind, &config)] {
                if works {
                    self.works(source).await;
                } else {
                    self.fails(source, "UnpackPending", "access denied").await;
                }
            }
        }
        let bearers = self.tokens.seen().into_iter().filter_map(|seen| seen.authorization);
        let bought: Vec<_> = bearers.filter_map(|value| value.strip_prefix("Bearer ").map(str::to_owned)).collect();
        assert!(!bought.is_empty(), "no token was used");
        self.marks.extend(bought);
    }

    /// A registry that repeats what it was sent.
    async fn echoes(&mut self) {
        let mark = self.mark("echoed");
        let basic = BASE64_STANDARD.encode(format!("{USER}:{mark}"));
        let message = format!("{mark} of {USER} is wrong: Basic {basic}");
        let body = json!({"errors": [{"code": "DENIED", "message": message}]}).to_string();
        let headers = vec![("www-authenticate", "Basic realm=\"r\"".to_owned())];
        self.web.add(Rule::on("/v2/", Fault::Answer(Status::UNAUTHORIZED, headers, body.into_bytes())));
        let config = json!({".dockerconfigjson": pull_secret_json(&self.web.host(), USER, &mark)});
        let secret = self.secret("kubernetes.io/dockerconfigjson", config).await;
        let image = json!({"ref": format!("{}/echo:v1", self.web.host()), "pullSecret": secret});
        self.fails(json!({"type": "image", "image": image}), "UnpackPending", "denied").await;
    }

    /// The login that the web server was shown at `path`.
    fn shown(&self, path: &str, password: &str) {
        let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{password}")));
        let seen = self.web.seen();
        let shown = seen.iter().any(|seen| seen.path.contains(path) && seen.authorization.as_ref() == Some(&expected));
        assert!(shown, "no login at {path}: {seen:?}");
    }

    /// Web servers: logins in Secrets and in URLs, keys in queries, and redirects.
    async fn archives(&mut self) {
        let http = |url: String, auth: Value| json!({"type": "http", "http": {"url": url, "auth": auth}});
        let good = archive(&[("manifests/a.yaml", manifest(&unique_name("marked")))]);
        self.web.add(Rule::on("/good", Fault::Answer(Status::OK, vec![], good)));
        let host = self.web.host();
        for (path, works) in [("/good", true), ("/bad", false)] {
            let (secret, in_url, key) = (self.mark("http"), self.mark("http-url"), self.mark("query"));
            let login = self.login(&secret).await;
            let with_secret = http(format!("https://{host}{path}/secret.tgz"), login);
            let with_url = http(format!("https://{USER}:{in_url}@{host}{path}/url.tgz"), json!({}));
            let with_key = http(format!("https://{host}{path}/key.tgz?sig={key}"), json!({}));
            if works {
                self.works(with_secret).await;
                let resolved = self.works(with_url).await.data["status"]["resolvedSource"]["http"]["url"].clone();
                assert_eq!(resolved, format!("https://{host}/good/url.tgz"));
            } else {
                let body = format!("{secret} {in_url} are wrong").into_bytes();
                self.web.add(Rule::on(path, Fault::Answer(Status::UNAUTHORIZED, vec![], body)));
                for source in [with_secret, with_url, with_key] {
                    self.fails(source, "UnpackFailed", "401 Unauthorized").await;
                }
            }
            self.shown(&format!("{path}/secret.tgz"), &secret);
            self.shown(&format!("{path}/url.tgz"), &in_url);
        }
        let (redirected, key) = (self.mark("redirect"), self.mark("redirect-key"));
        let target = format!("https://{USER}:{redirected}@{host}/gone.tgz?sig={key}");
        self.web.add(Rule::on("/moved", Fault::Redirect(target)));
        self.fails(http(format!("https://{host}/moved.tgz"), json!({})), "UnpackFailed", "").await;
        let (asked, key) = (self.mark("no-scheme"), self.mark("no-scheme-key"));
        let odd = format!("ftp://{USER}:{asked}@{host}/a.tgz?sig={key}");
        self.fails(http(odd, json!({})), "UnpackFailed", "is not an http or https URL").await;
    }

    /// Logins in the URLs of repositories, in a BundleDeployment too.
    async fn repositories(&mut self) {
        let name = unique_name("marked");
        let repository = self.world.private_git.repository(&name).expect("the harness works");
        repository
            .write(&[("manifests/a.yaml", manifest(&name))])
            .expect("the harness works")
            .commit("first")
            .expect("the harness works");
        let wrong = self.mark("git-url");
        let url = self.world.private_git.url(&name);
        let source = |password: &str| {
            let url = url.replace("https://", &format!("https://{USER}:{password}@"));
            json!({"type": "git", "git": {"repository": url, "ref": {"branch": "main"}}})
        };
        let good = self.works(source(PASSWORD)).await;
        assert_eq!(good.data["status"]["resolvedSource"]["git"]["repository"], url);
        let bad = self.fails(source(&wrong), "UnpackFailed", "git").await;
        let deployment = world::deployment(&unique_name("marked"), source(&wrong));
        create(&self.client, &deployment).await;
        let target = Target::of(&deployment).expect("it has a name");
        let failed = Expected::is_false("HasValidBundle", "UnpackFailed");
        verbs::await_condition(&self.client, &target, failed, world::SOON).await.expect("the harness works");
        // What the webhook refuses, it does not quote.
        let patch = json!({"spec": {"source": {"git": {"repository": url}}}});
        let denial = verbs::merge_expecting_denial(&self.client, &Target::bundle(&bad), &patch)
            .await
            .expect("the harness works");
        self.clean("a denial", &denial.message);
    }

    /// Tokens of those who call the content service.
    async fn tokens(&mut self) {
        let name = unique_name("marked");
        upload_bundle(&self.client, &name).await;
        let token = account(&self.client, Some("bundle-uploader")).await;
        let stranger = account(&self.client, None).await;
        let wrong = self.mark("bearer");
        self.marks.extend([token.clone(), stranger.clone()]);
        let able = Caller::with_token(&self.world, Some(&token)).await;
        let body = archive(&[("manifests/a.yaml", manifest(&name))]);
        let mut answers = vec![able.put(&name, body.clone()).await];
        assert_eq!(answers[0].status, StatusCode::CREATED);
        unpacked(&self.client, &name).await;
        answers.push(able.put(&name, b"other".to_vec()).await);
        answers.push(able.get("/uploads/none.tgz").await);
        for (token, status) in [(&stranger, StatusCode::FORBIDDEN), (&wrong, StatusCode::UNAUTHORIZED)] {
            let caller = Caller::with_token(&self.world, Some(token)).await;
            for path in [format!("/bundles/{name}.tgz"), format!("/uploads/{name}.tgz")] {
                let answer = caller.get(&path).await;
                assert_eq!(answer.status, status, "{path}");
                answers.push(answer);
                answers.push(caller.put(&name, body.clone()).await);
            }
        }
        let nobody = Caller::with_token(&self.world, None).await;
        let basic = nobody.ask(Method::GET, "/bundles/none.tgz").basic_auth(USER, Some(&wrong));
        answers.push(sent(basic).await);
        for answer in answers {
            self.clean("an answer", &format!("{:?} {}", answer.headers, answer.text()));
        }
    }

    fn clean(&self, place: &str, text: &str) {
        if let Some(mark) = self.marks.iter().find(|mark| text.contains(mark.as_str())) {
            let line = text.lines().find(|line| line.contains(mark.as_str())).unwrap_or_default();
            panic!("{mark:?} is in {place}: {line}");
        }
    }

    /// Both programs' logs, which were at their longest.
    fn logs(&self) {
        for process in [&self.world.controller, &self.world.webhook] {
            let log = process.log();
            assert!(log.contains("DEBUG"), "{} has no debug lines", process.log_path().display());
            self.clean(&process.log_path().display().to_string(), &log);
        }
    }

    /// Everything but what the user wrote: specs, and the Secrets that hold what was planted.
    async fn objects(&self) {
        let kinds = [
            ("core.rukpak.io/v1alpha1", "Bundle"),
            ("core.rukpak.io/v1alpha1", "BundleDeployment"),
            ("v1", "Event"),
            ("v1", "ConfigMap"),
            ("v1", "Secret"),
            ("coordination.k8s.io/v1", "Lease"),
        ];
        for (api_version, kind) in kinds {
            let mut objects = verbs::list(&self.client, api_version, kind, "").await.expect("they can be listed");
            objects.retain(|object| {
                kind != "Secret" || !self.planted.contains(object.metadata.name.as_ref().expect("it has a name"))
            });
            assert!(!objects.is_empty() || kind == "Lease", "there is no {kind}");
            for mut object in objects {
                if kind.starts_with("Bundle") {
                    object.data["spec"] = Value::Null;
                }
                let name = object.metadata.name.clone().unwrap_or_default();
                self.clean(&format!("{kind} {name}"), &serde_json::to_string(&object).expect("it is JSON"));
            }
        }
    }

    /// Names and bytes of all files, inside of archives too. What goes while this looks was a stage of the controller, which works.
    fn store(&self, folder: &Path) -> usize {
        let mut count = 0;
        for entry in there(std::fs::read_dir(folder)).into_iter().flatten() {
            let path = entry.expect("the store can be read").path();
            self.clean("the name of a file", &path.display().to_string());
            if path.is_dir() {
                count += self.store(&path);
                continue;
            }
            let Some(bytes) = there(std::fs::read(&path)) else { continue };
            let mut unpacked = Vec::new();
            // What is no archive gives nothing.
            let _ = flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked);
            for bytes in [&bytes, &unpacked] {
                self.clean(&path.display().to_string(), &String::from_utf8_lossy(bytes));
            }
            count += usize::from(!unpacked.is_empty());
        }
        count
    }
}

/// `None` if it is gone.
fn there<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        other => Some(other.expect("the store can be read")),
    }
}

#[tokio::test]
async fn marked_credentials_are_in_nothing_that_was_written() {
    let mut field = Field::start().await;
    field.images().await;
    field.echoes().await;
    field.archives().await;
    field.repositories().await;
    field.tokens().await;
    field.objects().await;
    field.logs();
    let archives = field.store(&field.world.controller.storage);
    assert!(archives > 1, "the store has only {archives} archives");
}
