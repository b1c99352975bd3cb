//! A real browser without a window, driven over its debugging protocol: what a page shows, and what the keyboard does.

use std::process::Stdio;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::tools;
use rukpak_tests::world::SOON;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// What it says of an expression whose page was left meanwhile.
const NAVIGATED: &str = "Inspected target navigated or closed";

/// A browser with one page.
pub struct Browser {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    _child: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it; `None` where it cannot be installed, which is said.
    pub async fn start() -> Option<Self> {
        let program = match tools::browser() {
            Ok(program) => program,
            Err(why) => {
                eprintln!("ABSENT: no Chromium, so no page was looked at: {why:#}");
                return None;
            }
        };
        let profile = tools::temp_folder("browser").expect("a folder");
        // It reads commands at descriptor 3 and answers at 4.
        let script = r#"exec "$0" "$@" 3<&0 4>&1 >/dev/null 2>&1"#;
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(program).args([
            "--headless",
            "--no-sandbox", // it looks at nothing but our own page, also as root
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it runs");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut browser = Self { input, output, session: None, last: 0, _child: child, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attached).await;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        Some(browser)
    }

    /// Has it do something; returns the result.
    async fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.ask(method, parameters).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Has it do something; returns its answer, which may be an error.
    async fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).await.expect("it reads");
        loop {
            let mut line = Vec::new();
            let read = tokio::time::timeout(SOON, self.output.read_until(0, &mut line)).await;
            let count = read.unwrap_or_else(|_| panic!("{method}: no answer")).expect("it answers");
            assert!(count > 0, "{method}: the browser ended");
            line.pop();
            let answer: Value = serde_json::from_slice(&line).expect("JSON");
            if answer["id"] == self.last {
                return answer;
            }
        }
    }

    /// Opens a page, in a window of this size.
    pub async fn open(&mut self, url: &str, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        self.call("Page.navigate", json!({"url": url})).await;
        self.until("document.readyState === 'complete' && !!document.querySelector('main')").await;
    }

    /// What an expression is on the page.
    pub async fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.ask("Runtime.evaluate", parameters.clone()).await;
        // A link that was followed takes the page away under the expression: it is meant for the next one.
        while answer["error"]["message"] == NAVIGATED {
            answer = self.ask("Runtime.evaluate", parameters.clone()).await;
        }
        assert!(answer.get("error").is_none(), "{expression}: {answer}");
        let result = &answer["result"];
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true on the page.
    pub async fn until(&mut self, expression: &str) {
        let waiting = format!(
            "new Promise((done, fail) => {{ const end = Date.now() + {}; const look = () => ({expression}) ? done(true) \
             : Date.now() > end ? done(false) : setTimeout(look, 50); look(); }})",
            SOON.as_millis() / 2
        );
        let is_true = self.evaluate(&waiting).await;
        assert_eq!(is_true, true, "{expression} on: {}", self.evaluate("document.body.innerText").await);
    }

    /// Presses a key.
    pub async fn press(&mut self, key: &str, code: u32) {
        for what in ["rawKeyDown", "keyUp"] {
            let parameters = json!({"type": what, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", parameters).await;
        }
        if key == "Enter" {
            self.call("Input.dispatchKeyEvent", json!({"type": "char", "text": "\r", "key": key})).await;
        }
    }

    /// Whether it says that it likes dark pages.
    pub async fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// Roles and names, as a screen reader has them.
    pub async fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({})).await;
        let text = |node: &Value, key: &str| node[key]["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().expect("a list").iter().filter(|node| node["ignored"] != true);
        nodes.map(|node| (text(node, "role"), text(node, "name"))).collect()
    }

    /// A picture of what is seen.
    pub async fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        BASE64_STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("base64")
    }
}
