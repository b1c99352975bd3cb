//! Fields that the schema does not have: the API server refuses them, names them or drops them, as the client asks for (`--validate`).

use rukpak_tests::kubectl::Terminal;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::helpers::{deployment, image};

/// Where the misspelled fields are, as the API server names them.
const MISSPELLED: [&str; 3] =
    ["spec.progresDeadline", "spec.template.metadata.label", "spec.template.spec.source.image.pullSecrets"];

/// A BundleDeployment with three misspelled fields, and one of its own in the settings of the bundle, where any may be.
fn misspelled(name: &str) -> Value {
    let mut object = deployment(name, &image());
    object["spec"]["config"] = json!({"deploymentConfig": {"anything": "goes"}});
    object["spec"]["progresDeadline"] = json!("10m");
    object["spec"]["template"]["metadata"] = json!({"label": {"app": "pump"}});
    object["spec"]["template"]["spec"]["source"]["image"]["pullSecrets"] = json!("login");
    object
}

/// Applies an object with kubectl; returns the lines and whether that succeeded.
async fn apply(world: &World, validation: &str, object: &Value) -> (Vec<String>, bool) {
    let terminal = Terminal::new(world.plane.kubeconfig_path()).unwrap_or_else(|error| panic!("{error:#}"));
    let command = format!("kubectl apply --validate={validation} -f - <<'END'\n{object}\nEND");
    let printed = terminal.enter(&command).await.unwrap_or_else(|error| panic!("{error:#}"));
    (printed.lines, printed.succeeded)
}

#[tokio::test]
async fn refuses_unknown_fields_where_the_client_is_strict() {
    let world = World::shared().await;
    let name = unique_name("strict");
    let (lines, is_applied) = apply(world, "strict", &misspelled(&name)).await;
    let text = lines.join("\n");
    assert!(!is_applied && text.contains("strict decoding error: "), "{text}");
    for field in MISSPELLED {
        assert!(text.contains(&format!("unknown field \"{field}\"")), "{field}: {text}");
    }
    assert!(!text.contains("anything"), "{text}");
    let target = Target::bundle_deployment(&name);
    assert!(verbs::get(&world.admin().await, &target).await.expect("an answer").is_none(), "{text}");

    let mut right = deployment(&name, &image());
    right["spec"]["config"] = misspelled(&name)["spec"]["config"].clone();
    let (lines, is_applied) = apply(world, "strict", &right).await;
    assert!(is_applied, "{lines:?}");
    assert_eq!(lines, [format!("bundledeployment.core.rukpak.io/{name} created")]);
}

#[tokio::test]
async fn names_unknown_fields_and_drops_them_where_the_client_asks_for_warnings() {
    let world = World::shared().await;
    for (validation, expected) in [("warn", MISSPELLED.as_slice()), ("ignore", &[])] {
        let name = unique_name(validation);
        let (mut lines, is_applied) = apply(world, validation, &misspelled(&name)).await;
        assert!(is_applied, "{validation}: {lines:?}");
        assert_eq!(lines.pop(), Some(format!("bundledeployment.core.rukpak.io/{name} created")), "{lines:?}");
        lines.sort();
        let expected: Vec<String> =
            expected.iter().map(|field| format!("Warning: unknown field \"{field}\"")).collect();
        assert_eq!(lines, expected, "{validation}");

        let stored = verbs::get(&world.admin().await, &Target::bundle_deployment(&name)).await.expect("an answer");
        let spec = &stored.expect("it was created").data["spec"];
        assert_eq!(spec["config"], json!({"deploymentConfig": {"anything": "goes"}}));
        assert!(!spec.to_string().contains("progresDeadline") && !spec.to_string().contains("pullSecrets"), "{spec}");
    }
}
