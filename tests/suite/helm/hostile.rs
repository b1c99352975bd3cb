//! Charts that want more than a chart may have. Each is refused by name, and the controller goes on.

use rukpak_tests::registry::TarEntry;
use rukpak_tests::world::image;
use rukpak_tests::{ImageBuilder, Layer};
use serde_json::json;

use super::case::{Chart, Charts as _, git_source, of_source, world};
use crate::engine::case::Case;

async fn refused(name: &str, template: &str, text: &str) {
    let case = Case::in_world(world().await, name).await;
    case.deploy_chart(&Chart::new().with("templates/evil.yaml", template), json!({})).await;
    case.invalid("BundleLoadFailed", text).await;
    // The next one has its turn.
    let next = case.sibling();
    next.deploy_chart(&Chart::new(), json!({})).await;
    next.until_size("1").await;
}

#[tokio::test]
async fn ends_templates_that_do_not_end() {
    let text = "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}";
    refused("chart-loop", text, "its templates: more than the limit of 20 seconds").await;
}

#[tokio::test]
async fn ends_templates_that_call_themselves() {
    let text = r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#;
    refused("chart-recursion", text, "nested reference").await;
}

#[tokio::test]
async fn ends_templates_that_print_a_gibibyte() {
    let object = r#"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "{{ repeat 1073741824 "a" }}"}}"#;
    refused("chart-repeat", object, "its templates: more than the limit of").await;
    let object = "{{ range until 1024 }}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a{{ . }}}, data: {a: \"{{ repeat 1048576 \"a\" }}\"}}{{ end }}";
    refused("chart-range", object, "its templates: more than the limit of").await;
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
