//! What an InstallPolicy decides on a real API server, and one that is too large.

use kube::api::ApiResource;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use super::bench::{KINDS, Kind};
use super::scene::{DEVELOPER, JANE, POLICY, Scene, Subject, UNNAMED, print_policy, try_create};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).expect("one of ours")
}

/// Whether the policy lets a subject create an object, and whether it is the policy that does not.
async fn is_allowed(scene: &Scene, subject: Subject, resource: &ApiResource, object: &Value) -> bool {
    match try_create(&scene.acting_as(subject).await, resource, object).await {
        Ok(()) => true,
        Err(kube::Error::Api(status)) if status.message.contains("InstallPolicy") => false,
        Err(error) => panic!("{subject:?} {object}: refused, and not by the policy: {error}"),
    }
}

/// Waits until the policies are in force: what no rule allows is refused.
async fn in_force(scene: &Scene, subject: Subject, object: &Value) {
    let admin = scene.admin().await;
    let (resource, _) =
        verbs::discover(&admin, object["apiVersion"].as_str().expect("text"), object["kind"].as_str().expect("text"))
            .await
            .expect("served");
    let end = tokio::time::Instant::now() + SOON;
    loop {
        match try_create(&scene.acting_as(subject).await, &resource, object).await {
            Err(kube::Error::Api(status)) if status.message.contains("InstallPolicy") => return,
            other => assert!(tokio::time::Instant::now() < end, "the policy is not in force: {other:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

pub async fn bench_policy(scene: &Scene) {
    scene.apply_policy(POLICY).await;
    in_force(scene, DEVELOPER, &kind("BundleDeployment").foreign("not-theirs")).await;
    in_force(scene, JANE, &kind("ClusterExtension").foreign("not-hers")).await;
}

fn with(object: &Value, changes: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (path, value) in changes {
        let (parent, field) = path.rsplit_once('/').expect("a path");
        object.pointer_mut(parent).expect("the parent is there")[field] = value.clone();
    }
    object
}

#[tokio::test]
async fn an_api_server_decides_what_the_policy_says() {
    let scene = Scene::shared().await;
    bench_policy(scene).await;
    let admin = scene.admin().await;
    let (deployments, _) = verbs::discover(&admin, "core.rukpak.io/v1alpha1", "BundleDeployment").await.unwrap();
    let web = with(&kind("BundleDeployment").own(), &[("/metadata/name", json!("shop-new"))]);
    let source = "/spec/template/spec/source";
    let git = |repository: &str| json!({"type": "git", "git": {"repository": repository, "ref": {"branch": "main"}}});
    for (object, expected) in [
        (web.clone(), true),
        (with(&web, &[(source, git("https://git.example.com/shop/team/web.git"))]), true),
        (with(&web, &[(source, git("https://git.example.com/shop/../other/repo.git"))]), false),
        (with(&web, &[(source, git(r"https://git.example.com/shop/..\other\repo.git"))]), false),
        (with(&web, &[(source, git("https://git.example.com/shop/%2e%2e/other/repo.git"))]), false),
        (with(&web, &[("/metadata/name", json!("web"))]), false),
        (with(&web, &[("/spec/template/spec/source/image/ref", json!("registry.example.com/shop/x/y"))]), false),
        (with(&web, &[("/spec/template/spec/source/type", json!("git"))]), false),
    ] {
        assert_eq!(is_allowed(scene, DEVELOPER, &deployments, &object).await, expected, "{object}");
    }

    let (extensions, _) = verbs::discover(&admin, "olm.operatorframework.io/v1", "ClusterExtension").await.unwrap();
    let pump = with(&kind("ClusterExtension").own(), &[("/metadata/name", json!("jane-new"))]);
    let inline = json!({"configType": "Inline", "inline": {"deploymentConfig": {"volumes": []}}});
    let catalog = "/spec/source/catalog";
    for (object, expected) in [
        (pump.clone(), true),
        (with(&pump, &[("/spec/config", inline)]), false),
        (with(&pump, &[("/spec/namespace", json!("kube-system"))]), false),
        (with(&pump, &[(&format!("{catalog}/selector"), json!({"matchLabels": {"a": "b"}}))]), false),
        (with(&pump, &[(&format!("{catalog}/upgradeConstraintPolicy"), json!("SelfCertified"))]), false),
        (with(&pump, &[("/spec/install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}))]), false),
        (
            with(&pump, &[("/spec/install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "Strict"}}}))]),
            true,
        ),
    ] {
        assert_eq!(is_allowed(scene, JANE, &extensions, &object).await, expected, "{object}");
    }
    assert!(
        is_allowed(scene, UNNAMED, &extensions, &kind("ClusterExtension").foreign("hers")).await,
        "no rule names her"
    );

    let (catalogs, _) = verbs::discover(&admin, "olm.operatorframework.io/v1", "ClusterCatalog").await.unwrap();
    let catalog = kind("ClusterCatalog").foreign("mine");
    assert!(!is_allowed(scene, JANE, &catalogs, &catalog).await);
    assert!(is_allowed(scene, UNNAMED, &catalogs, &catalog).await);

    // The API server has no complaints about the expressions either.
    for name in ["rukpak-install-policy-bench", "rukpak-install-policy-bench-packages"] {
        let policy =
            verbs::get(&admin, &Target::cluster(ADMISSION, "ValidatingAdmissionPolicy", name)).await.unwrap().unwrap();
        let warnings = policy.data.pointer("/status/typeChecking/expressionWarnings");
        assert!(warnings.is_none_or(|warnings| warnings.as_array().is_none_or(Vec::is_empty)), "{warnings:?}");
    }
}

/// A policy of so many rules.
fn large(name: &str, rules: usize) -> String {
    let rule = |index: usize| {
        format!(
            "- subjects: [{{group: team-{index}}}, {{serviceAccount: {{namespace: team-{index}, name: ci}}}}]\n  \
               names: [\"team-{index}-*\"]\n  serviceAccounts: [{{namespace: team-{index}, name: installer}}]\n  \
               sources: [{{image: registry.example.com/team-{index}/*}}, {{git: \"https://git.example.com/team-{index}/**\"}}]\n"
        )
    };
    format!("name: {name}\nrules:\n{}", (0..rules).map(rule).collect::<String>())
}

/// Whether the API server takes a policy of so many rules, and keeps somebody in the last one to it.
async fn limits_whom_the_last_rule_names(name: &str, rules: usize) {
    let scene = Scene::shared().await;
    let admin = scene.admin().await;
    let team = format!("team-{}", rules - 1);
    let last = Subject { user: "ann", group: team.clone().leak(), says: "in the last rule" };
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    verbs::apply(&admin, &role).await.expect("the test's own hands may");
    scene.apply_policy(&large(name, rules)).await;
    in_force(scene, last, &kind("BundleDeployment").foreign("elsewhere")).await;

    let (deployments, _) =
        verbs::discover(&admin, "core.rukpak.io/v1alpha1", "BundleDeployment").await.expect("the test's own hands may");
    let from = |team: &str| json!(format!("registry.example.com/{team}/web:v1"));
    let own = with(
        &kind("BundleDeployment").own(),
        &[
            ("/metadata/name", json!(format!("{team}-web"))),
            ("/spec/serviceAccount", json!({"namespace": team, "name": "installer"})),
            ("/spec/template/spec/source/image/ref", from(&team)),
        ],
    );
    assert!(is_allowed(scene, last, &deployments, &own).await);
    let other = with(&own, &[("/spec/template/spec/source/image/ref", from("team-17"))]);
    assert!(!is_allowed(scene, last, &deployments, &other).await);
}

#[tokio::test]
async fn a_policy_of_179_rules_limits_those_whom_it_names() {
    limits_whom_the_last_rule_names("large", 179).await;
}

/// What is printed an API server takes, and `kubectl apply` with it.
#[tokio::test]
async fn the_largest_policy_that_is_printed_limits_those_whom_it_names() {
    let (mut most, mut least_refused) = (179, 2_000);
    while most + 1 < least_refused {
        let rules = usize::midpoint(most, least_refused);
        if print_policy(&large("largest", rules)).status.success() {
            most = rules;
        } else {
            least_refused = rules;
        }
    }
    let bytes = print_policy(&large("largest", most)).stdout.len();
    println!("{most} rules are printed, in {bytes} bytes of YAML; {least_refused} are refused");
    limits_whom_the_last_rule_names("largest", most).await;
}

#[tokio::test]
async fn a_policy_too_large_for_an_api_server_is_not_printed() {
    let output = print_policy(&large("huge", 2_000));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "no binding without its policy");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("rukpak-install-policy-huge would have") && told.contains("more than the"), "{told}");
}
