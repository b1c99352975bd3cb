use std::net::SocketAddr;

use axum::Extension;
use axum::body::Body;
use axum::routing::get;
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const LONG: Duration = Duration::from_mins(1);
const BOUNDS: Bounds =
    Bounds { connections: 4, strangers_per_address: 4, handshake: LONG, headers: LONG, connection: LONG };

/// A server on loopback; `/` admits, `/slow` sends its second half when told.
struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    go_on: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(bounds: Bounds, drain: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop, go_on) =
            (listener.local_addr().unwrap(), CancellationToken::new(), Arc::new(Notify::new()));
        let waits = Arc::clone(&go_on);
        let router = Router::new()
            .route(
                "/",
                get(async |Extension(connection): Extension<Connection>| {
                    connection.enter(Phase::Admitted);
                    "yes"
                }),
            )
            .route(
                "/slow",
                get(async move || {
                    let second = futures::stream::once(async move {
                        waits.notified().await;
                        Ok::<_, io::Error>("second")
                    });
                    Body::from_stream(futures::stream::iter([Ok("first")]).chain(second))
                }),
            );
        let task = tokio::spawn(serve(listener, Plain, router, bounds, (stop.clone(), drain)));
        Self { address, stop, go_on, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A call on a connection that stays open.
    async fn call(&self, stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        read_until(stream, "yes").await
    }
}

async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains(wanted) {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "it was closed after {text:?}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

/// Whether the other end has closed it.
async fn is_closed(stream: &mut TcpStream) -> bool {
    match timeout(LONG, stream.read(&mut [0; 16])).await.unwrap() {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[tokio::test]
async fn silent_connections_make_room_for_new_ones_the_oldest_first() {
    let server = Server::start(BOUNDS, LONG).await;
    let mut silent = Vec::new();
    for _ in 0..BOUNDS.connections {
        silent.push(server.connect().await);
    }
    let mut caller = server.connect().await;
    assert!(server.call(&mut caller).await.starts_with("HTTP/1.1 200"));
    assert!(is_closed(&mut silent[0]).await);
    let mut last = silent.pop().unwrap();
    assert!(server.call(&mut last).await.ends_with("yes"), "a younger one is still open");
}

#[tokio::test]
async fn an_admitted_connection_is_not_closed_for_a_new_one() {
    let server = Server::start(BOUNDS, LONG).await;
    let mut admitted = server.connect().await;
    server.call(&mut admitted).await;
    let mut silent = Vec::new();
    for _ in 0..3 * BOUNDS.connections {
        silent.push(server.connect().await);
    }
    // The last was served after all the others.
    server.call(silent.last_mut().unwrap()).await;
    assert!(server.call(&mut admitted).await.ends_with("yes"));
}

#[tokio::test]
async fn strangers_of_one_address_have_a_share() {
    let server = Server::start(Bounds { strangers_per_address: 2, ..BOUNDS }, LONG).await;
    let mut first = server.connect().await;
    let (_second, mut third) = (server.connect().await, server.connect().await);
    assert!(is_closed(&mut first).await, "two of four places are the share of an address");
    server.call(&mut third).await;
}

#[tokio::test]
async fn where_all_are_admitted_a_new_one_waits_for_an_end() {
    let server = Server::start(Bounds { connections: 1, ..BOUNDS }, LONG).await;
    let mut admitted = server.connect().await;
    server.call(&mut admitted).await;
    let mut waiting = server.connect().await;
    let mut call = Box::pin(server.call(&mut waiting));
    assert!(futures::poll!(&mut call).is_pending());
    assert_eq!(server.call(&mut admitted).await.lines().next(), Some("HTTP/1.1 200 OK"));
    drop(admitted);
    timeout(LONG, call).await.unwrap();
}

#[tokio::test]
async fn headers_that_do_not_come_end_the_connection() {
    let server = Server::start(Bounds { headers: Duration::from_millis(50), ..BOUNDS }, LONG).await;
    let mut half = server.connect().await;
    half.write_all(b"GET / HT").await.unwrap();
    assert!(is_closed(&mut half).await);
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let server = Server::start(BOUNDS, LONG).await;
    let mut endless = server.connect().await;
    let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(2 * BUFFER_BYTES));
    // It may be closed before all is sent.
    let _ = endless.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = endless.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_connection_ends_at_its_deadline_whatever_goes_on() {
    // Long enough for the first part to come on a busy machine.
    let server = Server::start(Bounds { connection: Duration::from_secs(1), ..BOUNDS }, LONG).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    read_until(&mut stream, "first").await;
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn at_the_end_a_call_in_flight_is_answered_and_idle_connections_are_closed() {
    let server = Server::start(BOUNDS, LONG).await;
    let (mut idle, mut slow) = (server.connect().await, server.connect().await);
    server.call(&mut idle).await;
    slow.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    read_until(&mut slow, "first").await;
    server.stop.cancel();
    assert!(is_closed(&mut idle).await);
    assert!(!server.task.is_finished());
    server.go_on.notify_one();
    read_until(&mut slow, "second").await;
    timeout(LONG, server.task).await.unwrap().unwrap();
    TcpStream::connect(server.address).await.unwrap_err();
}

#[tokio::test]
async fn at_the_deadline_of_the_end_a_call_in_flight_is_cut_off() {
    let server = Server::start(BOUNDS, Duration::from_millis(50)).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    read_until(&mut slow, "first").await;
    server.stop.cancel();
    timeout(LONG, server.task).await.unwrap().unwrap();
    assert!(is_closed(&mut slow).await);
}

#[tokio::test]
async fn http2_is_spoken_from_the_first_byte_with_a_bound_on_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let task = tokio::spawn(serve_http2(listener, Router::new(), (BOUNDS, 7), (stop.clone(), LONG)));
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The preface, and settings that change nothing.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "settings come first: {head:?}");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.unwrap();
    // SETTINGS_MAX_CONCURRENT_STREAMS is 3.
    let calls = settings.chunks(6).find(|setting| setting[..2] == [0, 3]).map(|setting| setting[2..].to_vec());
    assert_eq!(calls, Some(vec![0, 0, 0, 7]));
    stop.cancel();
    drop(stream);
    timeout(LONG, task).await.unwrap().unwrap();
}

fn table() -> Arc<Table> {
    Arc::new(Table { bounds: BOUNDS, ..Table::default() })
}

fn enter(table: &Arc<Table>, number: u64, phase: Phase) -> Place {
    let place = table.enter(number, IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    place.connection.enter(phase);
    place
}

#[test]
fn whoever_waits_longest_gives_way_and_idle_ones_last() {
    let table = table();
    let phases = [Phase::Idle, Phase::Admitted, Phase::Waiting, Phase::Stranger];
    let places: Vec<Place> = phases.into_iter().zip(1..).map(|(phase, number)| enter(&table, number, phase)).collect();
    let evicted = || places.iter().map(|place| place.evicted.is_cancelled()).collect::<Vec<_>>();
    assert_eq!(evicted(), [false; 4]);
    let mut admitted = Vec::new();
    for (number, expected) in
        [(5, [false, false, true, false]), (6, [false, false, true, true]), (7, [true, false, true, true])]
    {
        admitted.push(enter(&table, number, Phase::Admitted));
        assert_eq!(evicted(), expected);
    }
    assert!(table.room().now_or_never().is_none(), "whose call is allowed stays");
    admitted[0].connection.enter(Phase::Idle);
    assert!(table.room().now_or_never().is_some());
}

#[test]
fn a_slow_call_gives_way_to_whoever_wants_what_it_holds() {
    let table = table();
    let [slow, quick] = [1, 2].map(|number| enter(&table, number, Phase::Waiting));
    let evicted = || [&slow, &quick].map(|place| place.evicted.is_cancelled());
    quick.connection.close_slowest(LONG);
    assert_eq!(evicted(), [false, false]);
    quick.connection.close_slowest(Duration::ZERO);
    assert_eq!(evicted(), [true, false]);
}
