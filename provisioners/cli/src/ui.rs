//! `rukpakctl ui`: a page to look at, on this machine alone. It reads the cluster with the rights of the kubeconfig, and changes
//! nothing, but for answers to Plans where a flag says so.
//!
//! ```text
//! guard     who may ask: requests to this very address, with the secret of the URL
//! pages     what the verbs `status`, `tree`, `history`, `diff`, `plan` and `examples` answer, as HTML
//! html      escaping, tables, times and names for people        said   one message once
//! page.css, page.js      the style, for dark and light; the search, and what asks for a page again when it has changed
//! ```

mod guard;
mod html;
mod pages;
mod said;

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use futures::{Stream, StreamExt as _};
use rukpak_crds::{BundleDeployment, PlanApproval};
use tokio::net::TcpListener;

use self::guard::Guard;
use crate::args::{CertProvider, ServiceArgs, UiArgs};
use crate::cluster::{Change, Cluster};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{to_stderr, to_stdout};

const STYLE: &str = include_str!("ui/page.css");
const SCRIPT: &str = include_str!("ui/page.js");

/// What every request needs.
struct Site {
    cluster: Cluster,
    service: ServiceArgs,
    certificates: Option<CertProvider>,
    /// Whether Plans can be answered.
    takes_answers: bool,
}

pub async fn run(arguments: &UiArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    // Whoever is not served is told so before a browser is opened.
    cluster.list::<BundleDeployment>(None).await?;
    let failed = |what: &str, error: &io::Error| Failure::unknown(format!("{what}: {error}"));
    let port = arguments.port;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.map_err(|error| failed(&format!("listen on port {port} of this machine"), &error))?;
    let address = listener.local_addr().map_err(|error| failed("listen", &error))?;
    let takes_answers = arguments.allow_approval;
    let guard = Guard::new(address.port(), takes_answers).map_err(|error| failed("make a secret", &error))?;
    let url = guard.url();
    let certificates = arguments.cert_provider;
    let site = Arc::new(Site { cluster, service: arguments.service.clone(), certificates, takes_answers });
    let answers = if takes_answers { " and answers Plans in your name" } else { "" };
    to_stderr(&format!("note: whoever has this URL sees what you may see{answers}; Ctrl-C ends the server"));
    if to_stdout(|out| writeln!(out, "{url}"), Exit::Yes) != Exit::Yes {
        return Ok(Exit::Unknown);
    }
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    // Pages that are open keep their connection; they are not waited for.
    tokio::select! {
        ended = axum::serve(listener, router(site, guard)).into_future() => ended.map_err(|error| failed("serve", &error))?,
        () = stop => {}
    }
    Ok(Exit::Yes)
}

fn router(site: Arc<Site>, guard: Guard) -> Router {
    // Each path begins with the secret; the first page ends with a slash, so that links are relative to it.
    let below = |path: &str| format!("/{}/{path}", guard.secret());
    let mut pages = Router::new();
    if site.takes_answers {
        pages = pages.route(&below("plans/{name}/{uid}/{answer}"), post(answer));
    }
    pages
        .route(&below(""), get(overview))
        .route(&below("deployments/{name}"), get(deployment))
        .route(&below("deployments/{name}/diff"), get(diff))
        .route(&below("deployments/{name}/examples"), get(examples))
        .route(&below("deployments/{name}/revisions/{number}"), get(revision))
        .route(&below("plans/{name}"), get(plan))
        .route(&below("live"), get(changes))
        .route(&below("page.css"), get(async || asset("text/css; charset=utf-8", STYLE)))
        .route(&below("page.js"), get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .with_state(site)
        .layer(axum::middleware::from_fn_with_state(Arc::new(guard), guard::check))
}

/// Watches what the pages are about for as long as one is open. Its data is `listed` where a watch begins, so that nothing is
/// missed that happened before; else `changed`.
async fn changes(State(site): State<Arc<Site>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = site.cluster.changes().map(|change| {
        let data = match change {
            Change::Listed => "listed",
            Change::Changed => "changed",
        };
        Ok(Event::default().event("change").data(data))
    });
    Sse::new(changes).keep_alive(KeepAlive::default())
}

fn asset(media_type: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, media_type)], text).into_response()
}

async fn overview(State(site): State<Arc<Site>>) -> Response {
    page(pages::overview(&site.cluster).await, "./")
}

async fn deployment(State(site): State<Arc<Site>>, Path(name): Path<String>) -> Response {
    page(pages::deployment(&site.cluster, &name).await, "../")
}

async fn plan(State(site): State<Arc<Site>>, Path(name): Path<String>) -> Response {
    page(pages::plan(&site.cluster, &name, site.takes_answers).await, "../")
}

/// Takes an answer to a Plan, and leads back to it.
async fn answer(State(site): State<Arc<Site>>, Path((name, uid, verb)): Path<(String, String, String)>) -> Response {
    let approval = match verb.as_str() {
        "approve" => PlanApproval::Approved,
        "reject" => PlanApproval::Rejected,
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    match pages::answer(&site.cluster, &name, &uid, approval).await {
        Ok(()) => Redirect::to(&format!("../../{name}")).into_response(),
        failed => page(failed.map(|()| String::new()), "../../../"),
    }
}

async fn examples(State(site): State<Arc<Site>>, Path(name): Path<String>) -> Response {
    page_below("../../", async move || pages::examples(&site.cluster, &name, &site.service).await).await
}

async fn diff(State(site): State<Arc<Site>>, Path(name): Path<String>) -> Response {
    page_below("../../", async move || pages::diff(&site.cluster, &name, site.certificates, &site.service).await).await
}

async fn revision(State(site): State<Arc<Site>>, Path((name, number)): Path<(String, i64)>) -> Response {
    let work = async move || pages::revision(&site.cluster, &name, number, site.certificates, &site.service).await;
    page_below("../../../", work).await
}

/// A page about one BundleDeployment that takes more than reading the cluster: the compiler cannot see that the work is fit for
/// several threads, so it has one. `root` leads from it to the first one.
async fn page_below(root: &str, work: impl AsyncFnOnce() -> Result<String, Failure> + Send + 'static) -> Response {
    let runtime = tokio::runtime::Handle::current();
    let made = tokio::task::spawn_blocking(move || runtime.block_on(work())).await;
    page(made.unwrap_or_else(|error| Err(Failure::unknown(error.to_string()))), root)
}

/// A page, or why there is none. `root` leads from it to the first one.
fn page(made: Result<String, Failure>, root: &str) -> Response {
    match made {
        Ok(page) => Html(page).into_response(),
        Err(failure) => {
            let status = if failure.exit == Exit::No { StatusCode::NOT_FOUND } else { StatusCode::BAD_GATEWAY };
            (status, Html(pages::failure(&failure, root))).into_response()
        }
    }
}
