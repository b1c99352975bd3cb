//! `spec.serviceAccount` of what is installed already. What an account may do is in the suite `rights`.

use rukpak_tests::verbs::Expected;
use rukpak_tests::world::until;
use serde_json::json;

use crate::engine::worlds;

/// Whether the account may keep what is installed is found out before the status says that all is as asked for.
#[tokio::test]
async fn an_account_that_was_named_while_no_controller_ran_is_looked_at() {
    let alone = worlds::alone().await;
    let case = alone.case("account-restart").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.ready().await;

    alone.stop().await;
    let account = json!({"name": "nobody", "namespace": case.namespace});
    case.edit("user", &case.target(), json!({"spec": {"serviceAccount": account}})).await;
    alone.start().await;
    let missing = Expected::is_false("Ready", "ServiceAccountNotFound").saying("\"nobody\"");
    until(&case.client, &case.name, missing).await;
}
