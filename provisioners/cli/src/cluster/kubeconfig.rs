//! Which cluster is meant: the flags, else `$KUBECONFIG`, else `~/.kube/config`, else the account of the Pod this runs in.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::args::ClusterArgs;

/// How to speak to a cluster, and what to call it.
pub(super) struct ClusterConfig {
    pub(super) config: Config,
    /// The API server and who named it.
    pub(super) name: String,
}

/// Where a kubeconfig may be.
enum Source {
    Flag(PathBuf),
    Environment(OsString),
    Home(Option<PathBuf>),
}

/// Reads what says which cluster is meant. Nothing is sent.
///
/// # Errors
/// A sentence. The texts of the causes are part of it: they name theirs already.
pub(super) async fn find(flags: &ClusterArgs) -> Result<ClusterConfig, String> {
    let source = Source::new(flags);
    let Some(kubeconfig) = source.read()? else {
        let tried = source.missing();
        // A Pod has one cluster, and its account no contexts.
        if flags.context.is_some() || flags.kubeconfig.is_some() {
            return Err(unusable(&source, &tried));
        }
        return pod().map_err(|pod| {
            format!(
                "no cluster to ask: there is no kubeconfig ({tried}), and this is not a Pod of a cluster ({pod}); name a kubeconfig by \
                 --kubeconfig PATH or in $KUBECONFIG"
            )
        });
    };
    // An empty kubeconfig in a Pod is as good as none. One that is broken is not: its cluster was meant.
    let is_empty = kubeconfig.contexts.is_empty() && kubeconfig.clusters.is_empty();
    match of_context(kubeconfig, &source, flags.context.as_deref()).await {
        Err(error) if is_empty && flags.context.is_none() && flags.kubeconfig.is_none() => pod().map_err(|_| error),
        found => found,
    }
}

fn pod() -> Result<ClusterConfig, String> {
    let mut config = Config::incluster().map_err(|error| error.to_string())?;
    config.apply_debug_overrides();
    let name = format!("the API server {} of the Pod that this runs in", config.cluster_url);
    Ok(ClusterConfig { config, name })
}

async fn of_context(kubeconfig: Kubeconfig, source: &Source, context: Option<&str>) -> Result<ClusterConfig, String> {
    let contexts: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let missing = |problem: String| {
        let known = match &contexts[..] {
            [] => "it has none at all".to_owned(),
            contexts => format!("choose one by --context: {}", contexts.join(", ")),
        };
        format!("the kubeconfig {source} {problem}; {known}")
    };
    let current = kubeconfig.current_context.clone().filter(|name| !name.is_empty());
    let name = context.map(str::to_owned).or(current);
    let name = name.ok_or_else(|| missing("has no current context".to_owned()))?;
    if !contexts.contains(&name) {
        return Err(missing(format!("has no context {name:?}")));
    }
    let options = KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
    let read = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = read.map_err(|error| unusable(source, &error.to_string()))?;
    heed_no_proxy(&mut config);
    config.apply_debug_overrides();
    let name = format!("the API server {} of context {name:?} of the kubeconfig {source}", config.cluster_url);
    Ok(ClusterConfig { config, name })
}

/// The client takes the proxy of the environment, and asks `NO_PROXY` about the proxy: here it is asked about the API server. A
/// proxy that the kubeconfig itself names stays.
fn heed_no_proxy(config: &mut Config) {
    let of_environment = |name: &str| env::var(name).is_ok_and(|text| text.parse().ok() == config.proxy_url);
    let is_of_environment =
        config.proxy_url.is_some() && ["HTTPS_PROXY", "https_proxy"].into_iter().any(of_environment);
    if is_of_environment && Matcher::from_env().intercept(&config.cluster_url).is_none() {
        config.proxy_url = None;
    }
}

impl Source {
    fn new(flags: &ClusterArgs) -> Self {
        if let Some(path) = &flags.kubeconfig {
            return Self::Flag(path.clone());
        }
        let names_any = |value: &OsString| env::split_paths(value).any(|path| !path.as_os_str().is_empty());
        match env::var_os("KUBECONFIG").filter(names_any) {
            Some(value) => Self::Environment(value),
            None => Self::Home(env::home_dir().map(|home| home.join(".kube/config"))),
        }
    }

    /// Of several files the first that says something counts, and those that are not there are passed over, as kubectl does it.
    fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Flag(path) => vec![path.clone()],
            Self::Environment(value) => env::split_paths(value).filter(|path| !path.as_os_str().is_empty()).collect(),
            Self::Home(path) => path.iter().cloned().collect(),
        }
    }

    /// `None` if there is no file.
    fn read(&self) -> Result<Option<Kubeconfig>, String> {
        let paths: Vec<PathBuf> = self.paths().into_iter().filter(|path| is_there(path)).collect();
        let merged = paths.iter().try_fold(None, |merged: Option<Kubeconfig>, path| {
            let next = Kubeconfig::read_from(path)?;
            Ok::<_, KubeconfigError>(Some(match merged {
                Some(merged) => merged.merge(next)?,
                None => next,
            }))
        });
        // Below the first line the parser shows lines of the file, which may hold credentials.
        merged.map_err(|error| unusable(self, error.to_string().lines().next().unwrap_or_default()))
    }

    fn missing(&self) -> String {
        match self {
            Self::Flag(_) => "there is no such file".to_owned(),
            Self::Environment(value) => format!("no such file: $KUBECONFIG is {}", value.to_string_lossy()),
            Self::Home(Some(path)) => format!("$KUBECONFIG is not set, no such file: {}", path.display()),
            Self::Home(None) => "$KUBECONFIG is not set, and there is no home for .kube/config".to_owned(),
        }
    }
}

fn unusable(source: &Source, problem: &str) -> String {
    format!("the kubeconfig {source} cannot be used: {problem}; name another by --kubeconfig PATH or in $KUBECONFIG")
}

/// What cannot be looked at is read, which tells why it cannot.
fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(path) | Self::Home(Some(path)) => path.display().fmt(formatter),
            Self::Environment(value) => value.to_string_lossy().fmt(formatter),
            Self::Home(None) => "~/.kube/config".fmt(formatter),
        }
    }
}
