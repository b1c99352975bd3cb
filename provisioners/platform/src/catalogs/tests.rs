use kube::runtime::{reflector, watcher};
use rukpak_source::http::FetcherOptions;
use rukpak_source::image::{Puller, PullerOptions};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cluster_catalog::store::CatalogStore;

/// `a` and `redhat-operators` are empty folders, `openshift-marketplace/redhat-operators` and `x/y` are CatalogSources.
fn catalogs(folder: &tempfile::TempDir) -> Catalogs {
    with_sources(folder, reflector::store().0)
}

fn with_sources(folder: &tempfile::TempDir, store: Store<CatalogSource>) -> Catalogs {
    let _ = rustls::crypto::ring::default_provider().install_default(); // by another test, perhaps
    let puller = Puller::new(PullerOptions::new(folder.path().to_owned(), origin::limits())).unwrap();
    let loader =
        Loader::new(Arc::new(puller), FetcherOptions::new(folder.path().to_owned(), origin::limits())).unwrap();
    let configured = ["a", "redhat-operators"].map(|name| format!("{name}=dir:{}", folder.path().display()));
    let configured = configured.map(|flag| flag.parse().unwrap()).into();
    let sources = ["openshift-marketplace/redhat-operators", "x/y"].map(|flag| flag.parse().unwrap()).into();
    let content = CatalogStore::open(folder.path().join("content")).unwrap();
    Catalogs::new(
        configured,
        (sources, Vec::new()),
        false,
        (loader.into(), Logins::open(None).unwrap().into(), Arc::default()),
        store,
        ClusterCatalogs::new(reflector::store().0, content.into(), CancellationToken::new()),
    )
}

fn asked(catalogs: &Catalogs, wanted: Wanted<'_>) -> Vec<String> {
    let configured = catalogs.asked_configured(wanted).map(|configured| configured.catalog.name.clone());
    configured.chain(catalogs.asked_sources(wanted).map(ToString::to_string)).collect()
}

#[test]
fn a_name_in_a_status_means_what_it_meant_when_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let catalogs = catalogs(&folder);
    let full = "openshift-marketplace/redhat-operators";
    assert_eq!(asked(&catalogs, Wanted::Any), ["a", "redhat-operators", full, "x/y"]);
    assert_eq!(asked(&catalogs, Wanted::Named("redhat-operators")), ["redhat-operators", full]);
    assert_eq!(asked(&catalogs, Wanted::Named(full)), [full]);
    assert_eq!(asked(&catalogs, Wanted::Origin("redhat-operators")), ["redhat-operators"]);
    assert_eq!(asked(&catalogs, Wanted::Origin(full)), [full]);
    assert_eq!(asked(&catalogs, Wanted::Origin("y")), Vec::<String>::new());
}

#[test]
fn catalog_sources_are_asked_by_their_priority() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut writer) = reflector::store();
    let catalogs = with_sources(&folder, store);
    let mut put = |namespace: &str, name: &str, spec: serde_json::Value| {
        let source = serde_json::from_value(serde_json::json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        }));
        writer.apply_watcher_event(&watcher::Event::Apply(source.unwrap()));
        asked(&catalogs, Wanted::Any)[2..].to_vec()
    };
    let (redhat, own) = ("openshift-marketplace/redhat-operators", "x/y");
    // OpenShift gives its own ones negative priorities.
    let spec = serde_json::json!({"sourceType": "grpc", "priority": -100});
    assert_eq!(put("openshift-marketplace", "redhat-operators", spec), [own, redhat], "one that is not there has 0");
    assert_eq!(put("x", "y", serde_json::json!({"priority": -100})), [redhat, own], "as the flags list them");
    assert_eq!(put("x", "y", serde_json::json!({})), [own, redhat]);
    assert_eq!(put("openshift-marketplace", "redhat-operators", serde_json::json!({"priority": 1})), [redhat, own]);
}

#[test]
fn what_others_do_is_no_news() {
    let folder = tempfile::tempdir().unwrap();
    let catalogs = catalogs(&folder);
    let epochs = || [Wanted::Any, Wanted::Named("a"), Wanted::Named("y")].map(|wanted| catalogs.epoch(wanted));
    let before = epochs();
    catalogs.configured[0].cached.changed();
    let after = epochs();
    assert_eq!(before.map(|epoch| epoch + 1)[..2], after[..2]);
    assert_eq!(before[2], after[2]);
    catalogs.sources.all_changed();
    assert_eq!([after[0] + 2, after[1], after[2] + 1], epochs());
}

/// The folders have no catalog, so they are left out of the question.
#[tokio::test]
async fn a_catalog_that_cannot_be_asked_is_told_by_what_keeps_it_from_that() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalogs = catalogs(&folder);
    catalogs.configured.clear();
    let error = async |wanted| match catalogs.find("pump", wanted).await {
        Ok(found) => panic!("found in {}", found.catalog),
        Err(error) => error.to_string(),
    };
    assert!(error(Wanted::Any).await.starts_with("there is no catalog: name one with --catalog, or install OLM"));
    assert!(error(Wanted::Named("y")).await.contains("\"y\" not found: the cluster does not serve CatalogSources"));
    assert!(error(Wanted::Named("z")).await.starts_with("spec.package.catalog: there is no catalog \"z\""));
    assert!(error(Wanted::Origin("z")).await.starts_with("the catalog \"z\" that it was installed from"));
    catalogs.sources.in_trouble("at first".to_owned());
    catalogs.sources.in_trouble("forbidden".to_owned());
    for wanted in [Wanted::Any, Wanted::Named("redhat-operators")] {
        assert!(error(wanted).await.ends_with("redhat-operators cannot be looked at: forbidden"));
    }
    catalogs.sources.set_seen();
    // A connection that broke off says nothing more when it is there again.
    catalogs.sources.in_trouble("interrupted".to_owned());
    assert!(error(Wanted::Any).await.starts_with("there is no catalog"));
    catalogs.sources.set_served(true);
    assert!(error(Wanted::Any).await.contains("not found in namespace \"openshift-marketplace\""));
}
