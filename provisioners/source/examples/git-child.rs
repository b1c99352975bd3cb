//! Runs git fetches by hand: `git-child fetch <repository> <branch|tag|commit|default>[:name] [directory]`; as `git-child git-child` it is the child.
//!
//! Environment: `GIT_USER` and `GIT_PASSWORD`, or `GIT_KEY` and `GIT_KNOWN_HOSTS` (files); `GIT_CA` (file); `GIT_INSECURE`; `GIT_STRICT`;
//! `GIT_BYTES` and `GIT_SECONDS` (limits); `GIT_ROUNDS` (how often, to see what a fetcher that is up needs).

use std::process::ExitCode;
use std::time::Instant;

use rukpak_content::{Limits, Node, RelativePath, Tree};
use rukpak_source::Egress;
use rukpak_source::git::{Auth, Error, Fetcher, FetcherOptions, Reference, Request, child};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["git-child", sandbox] => child::main(Some(sandbox.as_ref()), std::io::stdin(), std::io::stdout()),
        ["fetch", repository, reference, ref rest @ ..] => fetch(repository, reference, rest.first().copied()),
        _ => {
            eprintln!("usage: git-child fetch <repository> <branch|tag|commit|default>[:name] [directory]");
            ExitCode::from(2)
        }
    }
}

fn fetch(repository: &str, reference: &str, directory: Option<&str>) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime, because this is an ordinary process");
    let request = || Request {
        repository: repository.to_owned(),
        reference: read_reference(reference),
        directory: directory.and_then(|text| RelativePath::new(text).ok()),
        auth: auth(),
        insecure_skip_verify: std::env::var_os("GIT_INSECURE").is_some(),
        strict_host_keys: std::env::var_os("GIT_STRICT").is_some(),
    };
    match runtime.block_on(repeat(request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text.push_str(": ");
                text.push_str(&cause.to_string());
                source = cause.source();
            }
            eprintln!("{:?}: {text}", error.class());
            ExitCode::FAILURE
        }
    }
}

async fn repeat(request: impl Fn() -> Request) -> Result<(), Error> {
    let fetcher = Fetcher::new(FetcherOptions {
        program: std::env::current_exe().unwrap_or_default(),
        arguments: vec!["git-child".to_owned()],
        limits: limits(),
        stage_dir: std::env::temp_dir(),
        extra_ca_pem: file("GIT_CA"),
        egress: Egress::anywhere(),
    });
    for _ in 0..number("GIT_ROUNDS").unwrap_or(1) {
        list(&fetcher, request()).await?;
    }
    Ok(())
}

async fn list(fetcher: &Fetcher, request: Request) -> Result<(), Error> {
    let start = Instant::now();
    let resolved = fetcher.resolve(request).await?;
    let (commit, resolving) = (resolved.commit().clone(), start.elapsed());
    let start = Instant::now();
    let stage = fetcher.fetch(resolved).await?;
    eprintln!("resolved in {resolving:.1?}, fetched in {:.1?}", start.elapsed());
    println!("{commit}");
    let printed = stage.walk(&mut |path, node| {
        match node {
            Node::Directory => println!("{path}/"),
            Node::File { executable, size_bytes, .. } => {
                println!("{path} {size_bytes}{}", if executable { " x" } else { "" });
            }
        }
        Ok(())
    });
    if let Err(error) = printed {
        eprintln!("{error}");
    }
    Ok(())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.git_bytes = number("GIT_BYTES").unwrap_or(limits.git_bytes);
    limits.git_time = number("GIT_SECONDS").map_or(limits.git_time, std::time::Duration::from_secs);
    limits
}

fn read_reference(text: &str) -> Reference {
    let (kind, name) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "branch" => Reference::Branch(name.to_owned()),
        "tag" => Reference::Tag(name.to_owned()),
        "commit" => Reference::Commit(name.to_owned()),
        _ => Reference::DefaultBranch,
    }
}

fn auth() -> Auth {
    let variable = |name| std::env::var(name).ok();
    match (variable("GIT_USER"), variable("GIT_PASSWORD"), file("GIT_KEY")) {
        (Some(username), Some(password), _) => Auth::Basic { username, password },
        (_, _, Some(private_key)) => Auth::Ssh { private_key, known_hosts: file("GIT_KNOWN_HOSTS") },
        _ => Auth::None,
    }
}

fn file(variable: &str) -> Option<String> {
    std::fs::read_to_string(std::env::var_os(variable)?).ok()
}
