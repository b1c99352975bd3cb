//! The roles for people: who may look, and who may install anything at all.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use rukpak_tests::verbs::{self, unique_name};
use rukpak_tests::world::SOON;
use serde_json::json;

use super::{INTERVAL, Turn};

/// Whether a user with the ClusterRole may do `verb` on BundleDeployments.
async fn may(turn: &Turn, user: &str, verb: &str) -> bool {
    let attributes = json!({"verb": verb, "group": "core.rukpak.io", "resource": "bundledeployments"});
    let review = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": attributes}});
    let reviews: Api<SubjectAccessReview> = Api::all(turn.client.clone());
    let answer = reviews.create(&PostParams::default(), &serde_json::from_value(review).expect("a review")).await;
    answer.expect("the administrator may ask").status.is_some_and(|status| status.allowed)
}

async fn bound_to(turn: &Turn, role: &str) -> String {
    let user = unique_name("user");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    verbs::create(&turn.client, &binding).await.expect("the administrator may");
    let end = tokio::time::Instant::now() + SOON;
    while !may(turn, &user, "list").await {
        assert!(tokio::time::Instant::now() < end, "{role} does not let anybody list BundleDeployments");
        tokio::time::sleep(INTERVAL).await;
    }
    user
}

#[tokio::test]
async fn who_may_look_may_not_install() {
    let turn = Turn::take().await;
    for role in ["rukpak-view", "view", "edit", "admin"] {
        let user = bound_to(&turn, role).await;
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            assert!(!may(&turn, &user, verb).await, "{role} may {verb}");
        }
    }
    let user = bound_to(&turn, "rukpak-edit").await;
    for verb in ["get", "watch", "create", "update", "patch", "delete", "deletecollection"] {
        assert!(may(&turn, &user, verb).await, "rukpak-edit may not {verb}");
    }
}
