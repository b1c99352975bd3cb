//! NetworkPolicies as the API server sees them: refused until somebody says where it calls from.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use rukpak_tests::plane::yaml;
use rukpak_tests::tools::workspace_folder;
use rukpak_tests::world::World;

const PLACEHOLDER: &str = "SET-ME-API-SERVER-CIDR";

#[tokio::test]
async fn network_policies_are_refused_until_the_api_server_is_named_and_accepted_then() {
    let client = World::shared().await.admin().await;
    let folder = workspace_folder().join("manifests/overlays/network-policies");
    for file in ["core.yaml", "platform.yaml", "webhooks.yaml"] {
        let objects = yaml::objects_of_file(&folder.join(file)).unwrap_or_else(|error| panic!("{error:#}"));
        let [object] = objects.try_into().unwrap_or_else(|_| panic!("{file}: one policy a file"));
        let text = serde_json::to_string(&object).expect("JSON");
        let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), &object.namespace().expect("it names one"));
        let try_out = PostParams { dry_run: true, ..PostParams::default() };
        let policy = |text: &str| serde_json::from_str::<NetworkPolicy>(text).expect("a policy");
        let refusal = policies.create(&try_out, &policy(&text)).await.expect_err(file).to_string();
        assert!(refusal.contains(PLACEHOLDER) && refusal.contains("CIDR"), "{file}: {refusal}");
        let named = policy(&text.replace(PLACEHOLDER, "192.0.2.10/32"));
        policies.create(&try_out, &named).await.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}
