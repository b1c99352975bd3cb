//! What is no chart, or none that is installed, and what its author or user reads of it.

use serde_json::json;

use super::case::{Chart, Charts as _, world};
use crate::engine::case::Case;

#[tokio::test]
async fn refuses_what_is_no_chart_when_it_is_unpacked() {
    let chart = |text: &str| Chart::new().with("Chart.yaml", text);
    let cases = [
        (Chart::new().without("Chart.yaml"), "Chart.yaml file is missing"),
        (chart("{apiVersion: v2, name: pump}"), "validation: chart.metadata.version is required"),
        (chart("{apiVersion: v2, name: pump, version: 1.0.0, type: library}"), "library charts are not installable"),
        (
            chart("{apiVersion: v2, name: pump, version: 1.0.0, dependencies: [{name: db, version: 1.0.0}]}"),
            "found in Chart.yaml, but missing in charts/ directory: db",
        ),
    ];
    for (chart, text) in cases {
        let case = Case::in_world(world().await, "no-chart").await;
        case.deploy_chart(&chart, json!({})).await;
        case.invalid("UnpackFailed", text).await;
    }
}

#[tokio::test]
async fn refuses_values_that_the_schema_of_the_chart_refuses_and_takes_others_then() {
    let case = Case::in_world(world().await, "chart-schema").await;
    let schema = r#"{"type": "object", "properties": {"size": {"type": "integer"}}}"#;
    case.deploy_chart(&Chart::new().with("values.schema.json", schema), json!({"values": "size: many"})).await;
    let message = case.invalid("BundleLoadFailed", "values don't meet the specifications of the schema").await;
    assert!(message.contains("/size"), "{message}");
    case.change_values(json!("size: 3")).await;
    case.until_size("3").await;
}

#[tokio::test]
async fn refuses_settings_and_templates_in_words_that_name_the_place() {
    let hook = r"{apiVersion: v1, kind: ConfigMap, metadata: {name: first, annotations: {helm.sh/hook: pre-delete}}}";
    let cases = [
        (Chart::new(), json!({"values": [1]}), "parse deployment config: spec.config.values is a list"),
        (Chart::new(), json!({"value": "a: 1"}), "unknown field \"value\" in spec.config"),
        (Chart::new(), json!({"values": "a: ["}), "failed to parse spec.config.values: "),
        (Chart::new().with("templates/a.yaml", "{{ fail \"no pump\" }}"), json!({}), "pump/templates/a.yaml:1:3"),
        (
            Chart::new().with("templates/a.yaml", hook),
            json!({}),
            "is a hook (helm.sh/hook: pre-delete), and none of these events comes here",
        ),
        (Chart::new().without("templates/settings.yaml"), json!({}), "the chart renders no objects"),
    ];
    for (chart, config, text) in cases {
        let case = Case::in_world(world().await, "chart-refused").await;
        case.deploy_chart(&chart, config).await;
        case.invalid("BundleLoadFailed", text).await;
    }
}
