//! `rukpakctl ui`: who may ask, what a browser shows, and that it changes when the cluster does. `UI=write` takes the pictures of
//! the documentation.

use std::process::Stdio;

use futures::{Stream, StreamExt as _};
use reqwest::header::HOST;
use reqwest::{Client, Method, Response, StatusCode};
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::tools::workspace_folder;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, until};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use crate::cli::browser::Browser;
use crate::cli::hands::{Hands, folder, manifest};

/// Set to `write`, what the browser shows becomes the pictures of the documentation.
const WRITE: &str = "UI";

/// The page of the administrator. It ends when dropped.
pub struct Page {
    url: String,
    _child: Child,
}

impl Page {
    /// Serves it until this is dropped.
    pub async fn serve(hands: &Hands) -> Self {
        Self::serve_with(hands, &[]).await
    }

    async fn serve_with(hands: &Hands, flags: &[&str]) -> Self {
        let served = ["ui", "--endpoint", &hands.endpoint];
        let mut command = hands.command(&[&served[..], flags].concat());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let url =
            tokio::time::timeout(SOON, lines.next_line()).await.expect("in time").expect("UTF-8").expect("a line");
        Self { url, _child: child }
    }

    fn origin(&self) -> &str {
        let (origin, _) = self.url.trim_end_matches('/').rsplit_once('/').expect("a path");
        origin
    }

    async fn ask(&self, method: Method, url: &str, host: Option<&str>) -> Response {
        let request = Client::builder().no_proxy().build().expect("a client").request(method, url);
        let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
        request.send().await.expect("an answer")
    }

    /// What is answered for a path below the secret.
    pub async fn get(&self, path: &str) -> (StatusCode, String) {
        let answer = self.ask(Method::GET, &format!("{}{path}", self.url), None).await;
        (answer.status(), answer.text().await.expect("a text"))
    }
}

async fn installed(hands: &Hands, name: &str) -> tempfile::TempDir {
    let folder = folder(&[("manifests/a.yaml", manifest(name, "one"))]);
    hands.install(name, folder.path()).await;
    until(&hands.client, name, Expected::is_true("Ready", "Succeeded")).await;
    folder
}

#[tokio::test]
async fn only_who_knows_the_url_is_answered() {
    let hands = Hands::admin().await;
    let page = Page::serve(&hands).await;
    assert!(page.origin().starts_with("http://127.0.0.1:"), "{}", page.url);
    let answer = page.ask(Method::GET, &page.url, None).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let policy = answer.headers()["content-security-policy"].to_str().expect("a text");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    // A name of somebody else that leads here.
    let port = page.origin().rsplit_once(':').expect("a port").1;
    for host in [format!("evil.example.com:{port}"), "127.0.0.1:1".to_owned()] {
        let answer = page.ask(Method::GET, &page.url, Some(&host)).await;
        assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
        assert!(!answer.text().await.expect("a text").contains("BundleDeployment"), "{host}");
    }
    // Another user of this machine, who does not know the secret.
    for path in ["/", "/deployments/x", "/0123456789abcdef0123456789abcdef/"] {
        let answer = page.ask(Method::GET, &format!("{}{path}", page.origin()), None).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
    }
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let answer = page.ask(method.clone(), &page.url, None).await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
}

#[tokio::test]
async fn pages_have_what_the_verbs_say() {
    let hands = Hands::admin().await;
    let name = unique_name("page");
    let _folder = installed(&hands, &name).await;
    let page = Page::serve(&hands).await;
    let (status, all) = page.get("").await;
    assert!(status.is_success() && all.contains(&format!(r#"<a href="deployments/{name}">{name}</a>"#)), "{all}");
    let (status, one) = page.get(&format!("deployments/{name}")).await;
    assert!(status.is_success(), "{one}");
    for text in ["ConfigMap", "Current", "Succeeded", "1 object is installed", "Revision", "Installed"] {
        assert!(one.contains(text), "{text} is not in {one}");
    }
    let (status, diff) = page.get(&format!("deployments/{name}/diff")).await;
    assert!(status.is_success() && diff.contains("Nothing has drifted: 1 objects"), "{diff}");
    let (status, none) = page.get(&format!("deployments/{name}/examples")).await;
    assert!(status == StatusCode::NOT_FOUND && none.contains("only registry+v1 bundles have examples"), "{none}");
    let (status, none) = page.get("deployments/nobody").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(none.contains("bundledeployments.core.rukpak.io &quot;nobody&quot; not found"), "{none}");
    assert!(none.contains(r#"href="../page.css""#) && none.contains(r#"<a href="../">"#), "{none}");
    let (_, none) = page.get("deployments/nobody/diff").await;
    assert!(none.contains(r#"href="../../page.css""#), "{none}");

    // Whoever listens hears of a change, and only then.
    let live = page.ask(Method::GET, &format!("{}live", page.url), None).await;
    let mut parts = live.bytes_stream();
    let mut heard = String::new();
    hear(&mut parts, &mut heard, "event: change\ndata: listed\n").await;
    assert!(heard.matches("data: ").count() <= 5, "one for each kind, not for each object: {heard}");
    heard.clear();
    assert_eq!(hands.run_alone(&["suspend", &name]).await.code, Some(0));
    hear(&mut parts, &mut heard, "event: change\ndata: changed\n").await;
}

/// Listens until this was said.
async fn hear<P: AsRef<[u8]>>(
    parts: &mut (impl Stream<Item = reqwest::Result<P>> + Unpin),
    heard: &mut String,
    text: &str,
) {
    let hear = async {
        while !heard.contains(text) {
            heard.push_str(&String::from_utf8_lossy(parts.next().await.expect("it goes on").expect("bytes").as_ref()));
        }
    };
    tokio::time::timeout(SOON, hear).await.expect("in time");
}

#[tokio::test]
async fn a_browser_shows_it_and_follows_the_cluster() {
    let hands = Hands::admin().await;
    let name = unique_name("browsed");
    let _folder = installed(&hands, &name).await;
    let Some(mut browser) = Browser::start().await else { return };
    let page = Page::serve(&hands).await;
    browser.open(&page.url, 1100, 700).await;
    browser.until("document.getElementById('live').textContent === 'Live'").await;

    // Live: what changes in the cluster changes on the page, without a hand on it.
    let suspended = format!(
        "[...document.querySelectorAll('tr')].some(row => row.innerText.includes('{name}') && row.innerText.includes('suspended'))"
    );
    assert_eq!(browser.evaluate(&suspended).await, false);
    assert_eq!(hands.run_alone(&["suspend", &name]).await.code, Some(0));
    browser.until(&suspended).await;
    verbs::merge(&hands.client, &Target::bundle_deployment(&name), &json!({"spec": {"suspend": false}}))
        .await
        .expect("it is patched");
    browser.until(&format!("!({suspended})")).await;

    // By keyboard: to the content, to the link, and there.
    let focused = "document.activeElement.textContent";
    browser.evaluate("document.activeElement.blur()").await;
    browser.press("Tab", 9).await;
    assert_eq!(browser.evaluate(focused).await, "Skip to the content");
    for _ in 0..100 {
        if browser.evaluate(focused).await == name.as_str() {
            break;
        }
        browser.press("Tab", 9).await;
    }
    assert_eq!(browser.evaluate(focused).await, name.as_str(), "every link is reached");
    browser.press("Enter", 13).await;
    let there = format!("document.title === '{name} - rukpakctl' && document.readyState === 'complete'");
    browser.until(&there).await;

    // For a screen reader: landmarks, a heading for each table, and cells with their headings.
    let tree = browser.accessible().await;
    for (role, text) in [
        ("main", ""),
        ("navigation", "Pages"),
        ("heading", name.as_str()),
        ("heading", "Objects"),
        ("columnheader", "Health"),
        ("rowheader", name.as_str()),
        ("status", ""),
    ] {
        assert!(
            tree.iter().any(|node| (node.0.as_str(), node.1.as_str()) == (role, text)),
            "{role} {text:?} is not in {tree:?}"
        );
    }
    // Light and dark differ, and both can be read.
    let colours =
        "(() => { const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]; })()";
    browser.prefer("light").await;
    let light = browser.evaluate(colours).await;
    browser.prefer("dark").await;
    let dark = browser.evaluate(colours).await;
    assert_eq!(light, json!(["rgb(27, 31, 36)", "rgb(255, 255, 255)"]));
    assert_eq!(dark, json!(["rgb(230, 237, 243)", "rgb(13, 17, 23)"]));
    // A small window is not scrolled sideways.
    browser.open(&format!("{}deployments/{name}", page.url), 360, 700).await;
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= 360").await, true);
}

#[tokio::test]
async fn a_refused_upgrade_is_told_once_and_what_runs_is_beside_what_is_wanted() {
    let hands = Hands::admin().await;
    let name = unique_name("refused");
    let fixed = |value: &str| folder(&[("manifests/a.yaml", format!("{}immutable: true\n", manifest(&name, value)))]);
    let (runs, _) = hands.install(&name, fixed("one").path()).await;
    until(&hands.client, &name, Expected::is_true("Ready", "Succeeded")).await;
    let (wanted, _) = hands.install(&name, fixed("two").path()).await;
    until(&hands.client, &name, Expected::is_false("Installed", "ErrorGettingReleaseState")).await;
    let page = Page::serve(&hands).await;
    let (status, one) = page.get(&format!("deployments/{name}")).await;
    let told = one.matches("field is immutable").count();
    assert!(status.is_success() && told == 1 && one.contains("(as above)"), "told {told} times: {one}");
    for bundle in [runs, wanted] {
        assert!(one.contains(&format!(r#"<abbr title="{bundle}">"#)), "{bundle} is not in {one}");
    }
    assert!(one.contains(r#"<time datetime="20"#) && !one.contains("Z</time>"), "times are for people: {one}");

    // What was tried is compared with what runs.
    assert!(one.contains(&format!(r#"<a href="{name}/revisions/2">"#)), "{one}");
    let (status, changes) = page.get(&format!("deployments/{name}/revisions/2")).await;
    assert!(status.is_success(), "{changes}");
    for text in ["after revision 1", "- .data.value: &quot;one&quot;", "+ .data.value: &quot;two&quot;", "Failed"] {
        assert!(changes.contains(text), "{text} is not in {changes}");
    }
    let (status, none) = page.get(&format!("deployments/{name}/revisions/9")).await;
    assert!(status == StatusCode::NOT_FOUND && none.contains("has no revision 9"), "{none}");
}

#[tokio::test]
async fn a_plan_is_answered_only_where_the_page_was_told_that_it_may() {
    let hands = Hands::admin().await;
    let name = unique_name("planned");
    let _first = installed(&hands, &name).await;
    let asked = json!({"spec": {"approval": "Upgrades"}});
    verbs::merge(&hands.client, &Target::bundle_deployment(&name), &asked).await.expect("it is patched");
    let second = folder(&[("manifests/a.yaml", manifest(&name, "two"))]);
    hands.install(&name, second.path()).await;
    let waits = Expected { kind: "Ready", status: "Unknown", reason: Some("WaitingForApproval"), message: "" };
    until(&hands.client, &name, waits).await;
    let plans = hands.run_alone(&["plan", "list", &name, "-o", "name"]).await;
    let plan = plans.out.trim().strip_prefix("plan.core.rukpak.io/").expect("a Plan").to_owned();

    let page = Page::serve(&hands).await;
    let (_, all) = page.get("").await;
    assert!(all.contains(&format!(r#"<a href="plans/{plan}">"#)), "{all}");
    let (_, one) = page.get(&format!("deployments/{name}")).await;
    assert!(one.contains(&format!(r#"<a href="../plans/{plan}">"#)), "{one}");
    let (_, read_only) = page.get(&format!("plans/{plan}")).await;
    assert!(read_only.contains("change   ConfigMap") && !read_only.contains("<form"), "{read_only}");
    assert!(read_only.contains(&format!("rukpakctl plan approve {plan}")), "{read_only}");

    let told = Page::serve_with(&hands, &["--allow-approval"]).await;
    let (_, asking) = told.get(&format!("plans/{plan}")).await;
    let action = asking.split(r#"action=""#).nth(1).and_then(|rest| rest.split('"').next()).expect("a form").to_owned();
    assert!(action.starts_with(&format!("{plan}/")) && action.ends_with("/approve"), "{asking}");
    let refused = page.ask(Method::POST, &format!("{}plans/{action}", page.url), None).await;
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    let other = told.ask(Method::POST, &format!("{}plans/{plan}/another/approve", told.url), None).await;
    assert_eq!(other.status(), StatusCode::NOT_FOUND, "a Plan that was made anew is not answered");
    let (_, still) = told.get(&format!("plans/{plan}")).await;
    assert!(still.contains("<form"), "nothing was answered: {still}");
    let answered = told.ask(Method::POST, &format!("{}plans/{action}", told.url), None).await;
    assert!(answered.status().is_success() && answered.url().path().ends_with(&format!("/plans/{plan}")));
    until(&hands.client, &name, Expected::is_true("Ready", "Succeeded")).await;
}

#[tokio::test]
async fn a_browser_searches_and_is_held_upright() {
    let hands = Hands::admin().await;
    let name = unique_name("sought");
    let _folder = installed(&hands, &name).await;
    let _other = installed(&hands, &unique_name("unsought")).await;
    let Some(mut browser) = Browser::start().await else { return };
    let page = Page::serve(&hands).await;
    browser.open(&page.url, 1100, 700).await;
    browser.until("document.getElementById('live').textContent === 'Live'").await;
    let rows = "[...document.querySelectorAll('tbody tr')].filter(row => row.checkVisibility())";
    assert_ne!(browser.evaluate(&format!("{rows}.length")).await, 1);
    let search = |text: &str| {
        format!(
            "(() => {{ const field = document.getElementById('search'); field.value = '{text}'; \
             field.dispatchEvent(new Event('input')); return field.checkVisibility(); }})()"
        )
    };
    assert_eq!(browser.evaluate(&search(&format!("{name} READY"))).await, true);
    assert_eq!(browser.evaluate(&format!("{rows}.length")).await, 1);
    // What changes meanwhile is shown, and the rest stays hidden.
    assert_eq!(hands.run_alone(&["suspend", &name]).await.code, Some(0));
    browser.until(&format!("{rows}.length === 1 && {rows}[0].innerText.includes('suspended')")).await;
    browser.evaluate(&search("")).await;
    assert_ne!(browser.evaluate(&format!("{rows}.length")).await, 1);

    // On a phone each row is a card with its headings, and still a table for a screen reader.
    browser.open(&format!("{}deployments/{name}", page.url), 360, 700).await;
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= 360").await, true);
    let label = "getComputedStyle(document.querySelector('td[data-label=Health]'), '::before').position";
    assert_eq!(browser.evaluate(label).await, "absolute", "its heading stands before the value");
    let tree = browser.accessible().await;
    assert!(tree.contains(&("columnheader".to_owned(), "Health".to_owned())), "{tree:?}");
}

#[tokio::test]
async fn a_page_is_asked_for_again_once_at_a_time() {
    let hands = Hands::admin().await;
    let Some(mut browser) = Browser::start().await else { return };
    let page = Page::serve(&hands).await;
    browser.open(&page.url, 1100, 700).await;
    let count = "(() => { const fetched = window.fetch; window.asked = window.running = window.most = 0; \
                 window.fetch = (...what) => { asked += 1; most = Math.max(most, running += 1); \
                 return fetched(...what).finally(() => { running -= 1; }); }; })()";
    browser.evaluate(count).await;
    browser.evaluate("(() => { refresh(); refresh(); refresh(); })()").await;
    browser.until("asked > 0 && running === 0").await;
    assert_eq!(browser.evaluate("most").await, 1);
}

/// Installs two BundleDeployments, and takes pictures of the pages.
async fn take_pictures() {
    let hands = Hands::admin().await;
    let _kubelet = Kubelet::play(hands.client.clone(), "hello");
    hands.install("hello", &workspace_folder().join("examples/hello")).await;
    let _folder = installed(&hands, "pump-settings").await;
    until(&hands.client, "hello", Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(hands.run_alone(&["suspend", "pump-settings"]).await.code, Some(0));
    let mut browser = Browser::start().await.expect("pictures need a browser");
    let page = Page::serve(&hands).await;
    for (path, name, scheme, height) in [("", "ui-light", "light", 320), ("deployments/hello", "ui-dark", "dark", 640)]
    {
        browser.prefer(scheme).await;
        browser.open(&format!("{}{path}", page.url), 1000, height).await;
        browser.until("document.getElementById('live').textContent === 'Live'").await;
        let target = workspace_folder().join(format!("docs/pictures/{name}.png"));
        std::fs::write(target, browser.picture().await).expect("a file");
    }
}

#[tokio::test]
async fn pictures_of_the_documentation() {
    if std::env::var(WRITE).is_ok_and(|value| value == "write") {
        assert!(std::env::var_os("CI").is_none(), "{WRITE} is set, and pictures are not taken under CI");
        take_pictures().await;
        panic!("the pictures are taken: look at them, and run again without {WRITE}");
    }
    for name in ["ui-light", "ui-dark"] {
        let bytes = std::fs::read(workspace_folder().join(format!("docs/pictures/{name}.png"))).expect("a picture");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() < 200_000, "{name} is a small picture");
    }
}
