//! What the controller asks of the API server, by the audit log.

use std::time::{Duration, Instant};

use rukpak_tests::world::World;
use serde_json::Value;

/// So long without a request, and all that was begun is done.
const REST: Duration = Duration::from_secs(5);
/// Longest wait for rest.
const PATIENCE: Duration = Duration::from_mins(1);

/// A request of the controller.
#[derive(Debug)]
pub struct Request {
    pub verb: String,
    pub uri: String,
    pub resource: String,
    pub name: String,
    pub code: i64,
    pub received: String,
    pub answered: String,
}

/// The controller's requests so far.
pub fn requests(world: &World) -> Vec<Request> {
    let log = std::fs::read_to_string(world.plane.audit_log()).expect("the log can be read");
    let text =
        |event: &Value, pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    log.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["user"]["username"] == "system:serviceaccount:rukpak-system:core-admin")
        .map(|event| Request {
            verb: text(&event, "/verb"),
            uri: text(&event, "/requestURI"),
            resource: text(&event, "/objectRef/resource"),
            name: text(&event, "/objectRef/name"),
            code: event.pointer("/responseStatus/code").and_then(Value::as_i64).unwrap_or_default(),
            received: text(&event, "/requestReceivedTimestamp"),
            answered: text(&event, "/stageTimestamp"),
        })
        .collect()
}

/// The requests since there were `before`, but for those that merely listen.
pub fn since(world: &World, before: usize) -> Vec<Request> {
    requests(world).into_iter().skip(before).filter(|request| request.verb != "watch").collect()
}

pub fn writes(world: &World, before: usize) -> Vec<Request> {
    // An Event tells of a write, and is none.
    let is_write = |request: &Request| !matches!(request.verb.as_str(), "get" | "list") && request.resource != "events";
    since(world, before).into_iter().filter(is_write).collect()
}

/// Waits until the controller has asked for nothing for a while.
pub async fn at_rest(world: &World) {
    let end = Instant::now() + PATIENCE;
    let mut before = requests(world).len();
    let mut since = Instant::now();
    while since.elapsed() < REST {
        tokio::time::sleep(Duration::from_millis(200)).await; // a log is not watched
        let now = requests(world).len();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        assert!(Instant::now() < end, "it does not come to rest: {:#?}", requests(world).pop());
    }
}
