//! Charts from elsewhere than an image.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::{Fault, FaultyServer, Rule, TestCa, tools};
use serde_json::json;

use super::case::{Chart, Charts as _, git_source, of_source, world};
use super::install::helm;
use crate::engine::case::Case;

#[tokio::test]
async fn takes_chart_in_folder_of_git_repository() {
    let case = Case::in_world(world().await, "chart-git").await;
    let source = git_source(&case, &Chart::new(), &[]);
    case.foreign(&of_source(&case.name, &source, &json!({}))).await;
    case.until_size("1").await;
}

#[tokio::test]
async fn takes_archive_that_helm_has_packaged_from_web_server() {
    let case = Case::in_world(world().await, "chart-http").await;
    let packaged = tools::temp_folder("packaged").unwrap();
    helm(&Chart::new(), &[&["package", "chart", "--destination", packaged.path().to_str().unwrap()]]);
    let archive = std::fs::read(packaged.path().join("pump-1.0.0.tgz")).unwrap();
    let server = FaultyServer::alone(&TestCa::new("charts").unwrap()).unwrap();
    server.add(Rule::on("/pump-1.0.0.tgz", Fault::Answer(StatusCode::OK, Vec::new(), archive)));

    let url = format!("{}/pump-1.0.0.tgz", server.url());
    // The world knows nothing of this server's authority.
    let source = json!({"type": "http", "http": {"url": url, "auth": {"insecureSkipVerify": true}}});
    case.foreign(&of_source(&case.name, &source, &json!({}))).await;
    case.until_size("1").await;
}

/// A ConfigMap for each folder of the chart.
#[tokio::test]
async fn takes_chart_from_config_maps() {
    let case = Case::in_world(world().await, "chart-maps").await;
    let files = Chart::new().files("");
    let (root, templates) = (format!("{}-root", case.name), format!("{}-templates", case.name));
    for (name, folder) in [(&root, ""), (&templates, "templates/")] {
        let in_folder = files.iter().filter_map(|(path, text)| Some((path.strip_prefix(folder)?, text)));
        let data: BTreeMap<&str, &String> = in_folder.filter(|(file, _)| !file.contains('/')).collect();
        let metadata = json!({"name": name, "namespace": SYSTEM_NAMESPACE});
        case.foreign(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "metadata": metadata, "data": data}),
        )
        .await;
    }
    let entries = json!([{"configMap": {"name": root}}, {"configMap": {"name": templates}, "path": "templates"}]);
    let source = json!({"type": "configMaps", "configMaps": entries});
    case.foreign(&of_source(&case.name, &source, &json!({}))).await;
    case.until_size("1").await;
}
