//! Charts that want more than a chart may have. Each is refused by name, and the controller goes on.

use futures::future::select_all;
use kube::api::DynamicObject;
use rukpak_tests::registry::TarEntry;
use rukpak_tests::world::{World, image};
use rukpak_tests::{FaultyServer, ImageBuilder, Layer, TestCa, tools};
use serde_json::json;

use super::case::{Chart, Charts as _, MOST_BYTES, git_source, of_source, world};
use crate::engine::case::Case;

const ENDLESS: &str = "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}";
/// Whatever charts want, the controller has not had more.
const CONTROLLER_BYTES: u64 = 1 << 30;

async fn refused(name: &str, template: &str, text: &str) {
    let case = Case::in_world(world().await, name).await;
    case.deploy_chart(&Chart::new().with("templates/evil.yaml", template), json!({})).await;
    case.invalid("BundleLoadFailed", text).await;
    let peak = case.world.controller.peak_resident_bytes().expect("it runs");
    assert!(peak <= CONTROLLER_BYTES, "{peak} bytes");
    // Else it is tried again beside all others, who share its turns.
    case.delete(&case.target()).await;
    // The next one has its turn.
    let next = case.sibling();
    next.deploy_chart(&Chart::new(), json!({})).await;
    next.until_size("1").await;
}

#[tokio::test]
async fn ends_templates_that_do_not_end() {
    refused("chart-loop", ENDLESS, "its templates: more than the limit of 20 seconds").await;
}

/// Workers are few, and charts that do not end have none of them but those that are rendered.
#[tokio::test]
async fn keeps_other_bundles_going_while_templates_do_not_end() {
    let helm = format!("--helm={}", tools::helm().expect("Helm is built").display());
    // Longer than anything is waited for here.
    let flags = vec![helm, "--limit=check-seconds=300".to_owned(), "--concurrency=3".to_owned()];
    let world = World::start(flags).await.expect("the world starts");
    let mut cases = Vec::new();
    for _ in 0..4 {
        let case = Case::in_world(&world, "chart-endless").await;
        case.deploy_chart(&Chart::new().with("templates/evil.yaml", ENDLESS), json!({})).await;
        cases.push(case);
    }
    let has_no_turn = |object: &DynamicObject| {
        let conditions = object.data["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            condition["message"].as_str().is_some_and(|text| text.contains("2 other charts are being rendered"))
        })
    };
    let told = cases.iter().map(|case| {
        Box::pin(async move {
            case.until(&case.target(), "why it waits", |object| object.is_some_and(has_no_turn)).await;
        })
    });
    select_all(told).await;

    let plain = Case::in_world(&world, "chart-beside").await;
    plain.install(&[plain.config_map("beside", json!({"a": "1"}))]).await;
}

#[tokio::test]
async fn ends_templates_that_call_themselves() {
    let text = r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#;
    refused("chart-recursion", text, "nested reference").await;
}

#[tokio::test]
async fn ends_templates_that_print_a_gibibyte() {
    let object = r#"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "{{ repeat 1073741824 "a" }}"}}"#;
    refused("chart-repeat", object, "bytes of memory of a child process (--limit=child-bytes)").await;
    let object = "{{ range until 1024 }}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a{{ . }}}, data: {a: \"{{ repeat 1048576 \"a\" }}\"}}{{ end }}";
    refused("chart-range", object, "its templates: more than the limit of").await;
}

#[tokio::test]
async fn ends_templates_that_print_more_than_is_read() {
    // Not much more, so that time is not over before.
    let object = "{{ range until 9 }}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a{{ . }}}, data: {a: \"{{ repeat 1048576 \"a\" }}\"}}{{ end }}";
    let text = format!("more than the limit of {MOST_BYTES} bytes in one manifest file (--limit=manifest-bytes)");
    refused("chart-output", object, &text).await;
}

/// Of what a template can name, only the chart is there.
#[tokio::test]
async fn shows_templates_no_file_and_no_host_of_the_node() {
    let case = Case::in_world(world().await, "chart-files").await;
    let text = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-seen
data:
  outside: {{ .Files.Get "../../../../../../../etc/passwd" | quote }}
  absolute: {{ .Files.Get "/etc/passwd" | quote }}
  host: {{ getHostByName "localhost" | quote }}
  object: {{ lookup "v1" "Namespace" "" "default" | toJson | quote }}
"#;
    case.deploy_chart(&Chart::new().with("templates/seen.yaml", text), json!({})).await;
    case.until_size("1").await;
    let seen = case.get(&case.system("ConfigMap", "seen")).await.unwrap().data["data"].clone();
    assert_eq!(seen, json!({"outside": "", "absolute": "", "host": "", "object": "{}"}));
    let log = case.world.controller.log();
    assert!(log.contains("templates/seen.yaml (line 10) calls lookup, which finds nothing here"), "{log}");
}

/// A link is no file of a chart, wherever the chart comes from.
#[tokio::test]
async fn shows_templates_no_file_that_a_link_leads_to() {
    let text = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-seen
data:
  inside: {{ .Files.Get "files/inside" | quote }}
  outside: {{ .Files.Get "files/outside" | quote }}
  absolute: {{ .Files.Get "absolute" | quote }}
"#;
    let chart = Chart::new().with("files/inside", "text").with("templates/seen.yaml", text);
    let links = [("files/outside", "../../../../../../../../etc/passwd"), ("absolute", "/etc/passwd")];
    let of_image = Case::in_world(world().await, "chart-link").await;
    let files = chart.files("").into_iter().map(|(path, text)| TarEntry::file(path, text));
    let links_of_image = links.map(|(path, target)| TarEntry::symlink(path, target));
    let layers = ImageBuilder::new([Layer::new(files.chain(links_of_image))]);
    let pushed = of_image.world.registry.push(&format!("bundles/{}", of_image.name), "v1", &layers).await;
    let in_image = image(&pushed.expect("the registry takes it").reference);
    let of_git = of_image.sibling();
    let in_git = git_source(&of_git, &chart, &links);

    for (case, source) in [(of_image, in_image), (of_git, in_git)] {
        case.foreign(&of_source(&case.name, &source, &json!({}))).await;
        case.until_size("1").await;
        let seen = case.get(&case.system("ConfigMap", "seen")).await.unwrap().data["data"].clone();
        assert_eq!(seen, json!({"inside": "text", "outside": "", "absolute": ""}), "{source}");
    }
}

/// A schema may name any file, and what is wrong with a file is told.
#[tokio::test]
async fn shows_schemas_no_file_of_the_node() {
    let case = Case::in_world(world().await, "chart-schema-file").await;
    let chart = Chart::new().with("values.schema.json", r#"{"$ref": "file:///etc/passwd"}"#);
    case.deploy_chart(&chart, json!({})).await;
    case.invalid("BundleLoadFailed", "open /etc/passwd: permission denied").await;
}

/// Charts that a chart names are not fetched, neither from a server nor from the node.
#[tokio::test]
async fn fetches_no_chart_that_is_named_by_reference() {
    let server = FaultyServer::alone(&TestCa::new("charts").unwrap()).unwrap();
    let named = |name: &str, on: &str, repository: &str| {
        let needed = json!([{"name": on, "version": "1.0.0", "repository": repository}]);
        json!({"apiVersion": "v2", "name": name, "version": "1.0.0", "dependencies": needed}).to_string()
    };
    let in_registry = format!("oci://{}/charts", server.host());
    for repository in [server.url().as_str(), &in_registry, "file:///etc", "file://../../../db"] {
        let case = Case::in_world(world().await, "chart-reference").await;
        case.deploy_chart(&Chart::new().with("Chart.yaml", &named("pump", "db", repository)), json!({})).await;
        case.invalid("UnpackFailed", "found in Chart.yaml, but missing in charts/ directory: db").await;
    }
    // Of a chart that lies in another one nobody asks what it needs: neither does Helm.
    let case = Case::in_world(world().await, "chart-inner").await;
    let chart = Chart::new()
        .with("Chart.yaml", &named("pump", "db", &server.url()))
        .with("charts/db/Chart.yaml", &named("db", "disk", &server.url()));
    case.deploy_chart(&chart, json!({})).await;
    case.until_size("1").await;
    assert!(server.seen().is_empty(), "{:?}", server.seen());
}
