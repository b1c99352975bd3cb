//! A second webhook beside that of the private plane: calls take turns, as through a Service, and what both write is recorded.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::pin;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use rukpak_tests::{Process, WebhookOptions, tools};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::private::{LIFETIME_SECONDS, Private, configuration};

/// Two webhooks, and a port in front of both.
pub struct Pair {
    pub second: Process,
    /// Where the API server finds the first alone.
    first_port: u16,
    _connections: JoinSet<()>,
}

impl Pair {
    /// Starts the second, and leads the API server to both.
    pub async fn start(private: &Private, client: &Client) -> Self {
        let second_port = tools::free_port().expect("a port is free");
        let arguments = vec![
            format!("--certificate-lifetime={LIFETIME_SECONDS}s"),
            format!("--webhook-bind-address=127.0.0.1:{second_port}"),
        ];
        let options = WebhookOptions { arguments, ..WebhookOptions::default() };
        let second = private.plane.start_webhook(options).await.unwrap_or_else(|error| panic!("{error:#}"));
        second.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
        let installed = private.plane.installed().expect("nobody panicked").expect("it is installed");
        let first_port = installed.webhook_port;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let mut connections = JoinSet::new();
        connections.spawn(take_turns(listener, [first_port, second_port]));
        lead_to(client, port).await;
        Self { second, first_port, _connections: connections }
    }

    /// Leads the API server to the first alone again, and ends the second in good order.
    pub async fn end(&self, client: &Client) {
        lead_to(client, self.first_port).await;
        assert_eq!(self.second.terminate().await.expect("it runs"), "exit status: 0");
    }
}

/// One connection here, the next one there.
async fn take_turns(listener: TcpListener, ports: [u16; 2]) {
    let mut connections = JoinSet::new();
    for port in ports.into_iter().cycle() {
        let (mut caller, _) = listener.accept().await.expect("the API server connects");
        connections.spawn(async move {
            let mut webhook = TcpStream::connect(("127.0.0.1", port)).await.expect("the webhook listens");
            // A connection that either side breaks off is broken off.
            let _ = copy_bidirectional(&mut caller, &mut webhook).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Changes the port of the entries that are in the manifests. The others follow by themselves.
async fn lead_to(client: &Client, port: u16) {
    let entries = ["vbundles.core.rukpak.io", "webhook.crdvalidator.io"];
    let entries = entries.map(|name| json!({"name": name, "clientConfig": {"service": {"port": port}}}));
    let api = configuration().api(client).await.expect("the kind is served");
    let patch = Patch::Strategic(json!({"webhooks": entries}));
    api.patch(&configuration().name, &PatchParams::default(), &patch).await.expect("the administrator may");
    let followed = |object: Option<&DynamicObject>| {
        let webhooks = object.and_then(|object| object.data["webhooks"].as_array()).into_iter().flatten();
        let ports: Vec<_> = webhooks.map(|webhook| webhook["clientConfig"]["service"]["port"].as_u64()).collect();
        ports == [Some(u64::from(port)); 5]
    };
    let found = verbs::await_object(client, &configuration(), "the port in all entries", SOON, followed).await;
    found.unwrap_or_else(|error| panic!("{error:#}"));
}

/// How many reviews a process has answered.
pub async fn reviews(webhook: &Process) -> u64 {
    let text = metrics(webhook).await;
    let counted = text.lines().filter(|line| line.starts_with("rukpak_webhook_reviews_total{"));
    counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// What a process says in `/metrics`.
pub async fn metrics(webhook: &Process) -> String {
    let metrics = reqwest::Client::builder().no_proxy().build().expect("the client is well-formed");
    let answer = metrics.get(format!("{}/metrics", webhook.http_url)).send().await.expect("it answers");
    answer.text().await.expect("it is text")
}

/// The states that an object has in turn, each with how many writes of the object leave it so.
#[derive(Default)]
pub struct States(RefCell<Vec<(String, usize)>>);

impl States {
    /// Records the states of the object, each as far as `part` tells, without end.
    pub async fn follow(&self, client: &Client, target: &Target, part: impl Fn(&DynamicObject) -> String) {
        let api = target.api(client).await.expect("the kind is served");
        let mut changes = pin!(watcher::watch_object(api, &target.name).default_backoff());
        let mut version = None;
        while let Some(change) = changes.next().await {
            // A watch that is interrupted goes on by itself, and may repeat what it said.
            let Ok(Some(object)) = change else { continue };
            if version == object.metadata.resource_version {
                continue;
            }
            version.clone_from(&object.metadata.resource_version);
            let mut states = self.0.borrow_mut();
            match (states.last_mut(), part(&object)) {
                (Some((last, writes)), state) if *last == state => *writes += 1,
                (_, state) => states.push((state, 1)),
            }
        }
    }

    /// Fails where a state came back that had been left, or was written more than `most` times. Returns how many states there were.
    pub fn assert_none_comes_back(&self, most: usize) -> usize {
        let states = self.0.borrow();
        let different: BTreeSet<&str> = states.iter().map(|(state, _)| state.as_str()).collect();
        assert_eq!(different.len(), states.len(), "a state came back: {states:#?}");
        assert!(states.iter().all(|(_, writes)| *writes <= most), "more than {most} writes: {states:#?}");
        states.len()
    }
}
