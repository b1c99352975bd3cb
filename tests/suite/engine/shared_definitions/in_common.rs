//! CRDs that installations of one package have in common.

use serde_json::json;

use super::{instance, pair, ready_message, versions};
use crate::engine::case::{Case, definition, definition_target};
use crate::engine::served_versions::with_versions;

/// What installations of one package have in common outlives all of them, and nobody takes from it what another has added.
#[tokio::test]
async fn definition_that_installations_have_in_common_is_used_by_all_and_kept() {
    let (one, two) = (Case::new("common").await, Case::new("common").await);
    let (mut first, group) = definition("common");
    first["metadata"]["annotations"] = json!({"core.rukpak.io/in-common": "gadgets"});
    let target = definition_target(&group);
    pair(&one, &two, &first).await;
    let live = one.get(&target).await.unwrap();
    assert_eq!(live.metadata.owner_references, None, "it is kept, whatever the policy");
    assert!(ready_message(&two).await.contains("used as they are"));
    let (precious, uid) = instance(&two, &group).await;

    let both = with_versions(&first, &[("v1", true, false), ("v2", true, true)]);
    two.pivot("v2", &[both.clone(), two.config_map("a", json!({"x": "2"}))]).await;
    assert_eq!(versions(&one.get(&target).await.unwrap()), "v1 v2*");
    let mut third = with_versions(&first, &[("v1", true, true), ("v3", true, false)]);
    one.pivot("v2", &[third.clone(), one.config_map("a", json!({"x": "2"}))]).await;
    assert_eq!(versions(&one.get(&target).await.unwrap()), "v1 v2* v3");

    // The bundle of the one that applied it says so no longer, and then leaves it out: that one has no instances.
    third["metadata"]["annotations"] = json!({});
    one.pivot("v3", &[third, one.config_map("a", json!({"x": "3"}))]).await;
    let after = one.get(&target).await.unwrap();
    assert_eq!((after.metadata.owner_references, two.ready().await.metadata.name), (None, Some(two.name.clone())));
    one.pivot("v4", &[one.config_map("a", json!({"x": "4"}))]).await;
    one.delete(&one.target()).await;
    one.until_gone(&one.target()).await;
    two.pivot("v3", &[both, two.config_map("a", json!({"x": "3"}))]).await;
    two.delete(&two.target()).await;
    two.until_gone(&two.target()).await;
    let after = two.get(&target).await.expect("it outlives both");
    assert_eq!((&after.metadata.uid, versions(&after).as_str()), (&live.metadata.uid, "v1 v2* v3"));
    assert_eq!(two.get(&precious).await.expect("instances stay").metadata.uid, uid);
    two.delete(&target).await;
}
