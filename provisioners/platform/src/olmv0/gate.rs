//! Whether OLM itself runs: then its kinds are its own. Watched, also after ours were begun. API server.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Mutex;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::olmv0::ClusterServiceVersion;
use rukpak_runtime::lock::lock;
use rukpak_runtime::served::while_defined;
use rukpak_runtime::watch::{Change, changes};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::args::Olmv0;

/// The programs of OLM, which its manifests name so, upstream's and OpenShift's.
const PROGRAMS: [&str; 2] = ["olm-operator", "catalog-operator"];
/// The ClusterServiceVersion by which OLM installs a part of itself.
const PACKAGE_SERVER: &str = "packageserver";
/// Where OLM is installed. Anybody may name a Deployment of theirs elsewhere like one of OLM's.
const NAMESPACES: [&str; 3] = ["olm", "operator-lifecycle-manager", "openshift-operator-lifecycle-manager"];
const DEFINITION: &str = "clusterserviceversions.operators.coreos.com";

/// Says whose the kinds are.
pub(super) struct Gate(watch::Sender<State>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has looked yet.
    Unknown,
    Open,
    /// OLM runs. Where, in words.
    Closed(String),
}

/// What there is of OLM.
#[derive(Default)]
struct Signs {
    /// Its Deployments, by program; `None` as long as they are not known.
    programs: [Option<Vec<Program>>; 2],
    /// The namespaces of the ClusterServiceVersion.
    versions: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Program {
    namespace: String,
    runs: bool,
}

impl Gate {
    /// One that nobody has looked at; open where somebody said that it does not matter.
    pub fn new(mode: Olmv0) -> Self {
        let state = if mode == Olmv0::TakeOver { State::Open } else { State::Unknown };
        Self(watch::Sender::new(state))
    }

    /// Whether the kinds may be written.
    pub fn is_open(&self) -> bool {
        *self.0.borrow() == State::Open
    }

    /// Returns when they may be.
    pub async fn opened(&self) {
        // Fails only without a sender, which is this one.
        let _ = self.0.subscribe().wait_for(|state| *state == State::Open).await;
    }

    /// Looks at OLM, endlessly. Where OLM has begun again, and where it has ended, `on` is called, but for the first time.
    pub async fn watch(&self, client: &Client, mode: Olmv0, on: impl Fn()) {
        if mode == Olmv0::TakeOver {
            return std::future::pending().await;
        }
        let signs = Mutex::new(Signs::default());
        let learn = |learn: &dyn Fn(&mut Signs)| {
            let mut signs = lock(&signs);
            learn(&mut signs);
            if let Some(state) = signs.state() {
                self.turn(&state, &on);
            }
        };
        let program = |index: usize| {
            let learn = &learn;
            async move {
                let api: Api<Deployment> = Api::all(client.clone());
                follow(api, PROGRAMS[index], |store| {
                    let found: Vec<Program> = store.state().iter().map(|found| Program::of(found)).collect();
                    learn(&|signs: &mut Signs| signs.programs[index] = Some(found.clone()));
                })
                .await;
            }
        };
        let versions = || {
            let learn = &learn;
            async move {
                let api: Api<PartialObjectMeta<ClusterServiceVersion>> = Api::all(client.clone());
                follow(api, PACKAGE_SERVER, |store| {
                    let found: Vec<String> = store.state().iter().filter_map(|found| found.namespace()).collect();
                    learn(&|signs: &mut Signs| signs.versions = Some(found.clone()));
                })
                .await;
            }
        };
        let absent = || learn(&|signs: &mut Signs| signs.versions = Some(Vec::new()));
        let trouble =
            |error: &watcher::Error| tracing::debug!(%error, "cannot find out whether OLM runs; trying again");
        let defined = while_defined(client.clone(), DEFINITION, versions, absent, trouble);
        tokio::join!(program(0), program(1), defined);
    }

    fn turn(&self, state: &State, on: &impl Fn()) {
        let before = self.0.send_replace(state.clone());
        if before == *state {
            return;
        }
        match state {
            State::Closed(found) if before == State::Open => {
                tracing::warn!("OLM runs again ({found}): from now on Subscriptions are left to it");
            }
            State::Closed(found) => tracing::warn!(
                "OLM runs ({found}): Subscriptions are left to it; scale its Deployments to 0, or start with --olmv0=take-over"
            ),
            _ if before != State::Unknown => tracing::info!("OLM does not run any more: Subscriptions are followed"),
            _ => {}
        }
        on();
    }
}

impl Signs {
    /// Whose the kinds are; `None` as long as not everything is known.
    fn state(&self) -> Option<State> {
        let (mut stopped, versions) = (false, self.versions.as_ref()?);
        for (name, programs) in PROGRAMS.iter().zip(&self.programs) {
            for program in programs.as_ref()?.iter().filter(|program| NAMESPACES.contains(&program.namespace.as_str()))
            {
                if program.runs {
                    return Some(State::Closed(format!("Deployment {name} in namespace {}", program.namespace)));
                }
                stopped = true;
            }
        }
        // It outlives a stop: then the Deployments tell more.
        let left = versions.iter().find(|namespace| NAMESPACES.contains(&namespace.as_str()) && !stopped);
        Some(left.map_or(State::Open, |namespace| {
            State::Closed(format!(
                "ClusterServiceVersion {PACKAGE_SERVER} in namespace {namespace}, and no Deployment that is scaled to 0"
            ))
        }))
    }
}

impl Program {
    fn of(deployment: &Deployment) -> Self {
        let wanted = deployment.spec.replicas;
        let there = deployment.status.as_ref().and_then(|status| status.replicas);
        Self {
            namespace: deployment.namespace().unwrap_or_default(),
            runs: wanted != Some(0) || there.unwrap_or(0) > 0,
        }
    }
}

/// Tells of all objects of a name, whatever their namespace, endlessly.
async fn follow<K>(api: Api<K>, name: &str, on: impl Fn(&Store<K>))
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = pin!(changes(api, config, writer));
    let mut is_listed = false;
    while let Some(change) = changes.next().await {
        match change {
            Ok(change) => {
                is_listed |= matches!(change, Change::Listed { .. });
                if is_listed {
                    on(&store);
                }
            }
            Err(error) => tracing::debug!(name, %error, "watch over OLM interrupted; resuming"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(namespace: &str, replicas: i64, there: i64) -> Program {
        let spec = json!({"replicas": replicas, "selector": {}, "template": {}});
        let metadata = json!({"name": "olm-operator", "namespace": namespace});
        let deployment = json!({"metadata": metadata, "spec": spec, "status": {"replicas": there}});
        Program::of(&serde_json::from_value(deployment).unwrap())
    }

    fn is_open(programs: &[Program], versions: &[&str]) -> bool {
        let versions = Some(versions.iter().map(|version| (*version).to_owned()).collect());
        let signs = Signs { programs: [Some(programs.to_vec()), Some(Vec::new())], versions };
        signs.state() == Some(State::Open)
    }

    #[test]
    fn what_is_scaled_to_nothing_does_not_run() {
        assert!(!is_open(&[program("olm", 1, 0)], &[]) && !is_open(&[program("olm", 0, 1)], &[]));
        assert!(is_open(&[program("olm", 0, 0)], &["olm"]) && is_open(&[], &[]));
        assert!(!is_open(&[], &["olm"]), "it runs under other names");
    }

    #[test]
    fn what_somebody_names_so_in_a_namespace_of_theirs_is_not_olm() {
        assert!(is_open(&[program("team-a", 1, 1)], &["team-a"]));
    }

    #[test]
    fn nothing_is_said_before_everything_is_known() {
        assert_eq!(Signs::default().state(), None);
        assert!(!Gate::new(Olmv0::On).is_open() && Gate::new(Olmv0::TakeOver).is_open());
    }
}
