//! Manual approval: nothing is written before the yes, which is for what was shown.

use kube::api::{DynamicObject, PostParams};
use serde_json::json;

use super::case::{Case, reason, text};
use crate::platform::packages;

const MANUAL: &str = "Manual";

/// What the bundle brings is not in the cluster.
async fn nothing_is_there(case: &Case, version: &str) {
    for target in [case.csv(version), case.settings(), packages::definition(&case.package)] {
        assert!(case.find(&target).await.is_none(), "{target} is there before somebody agreed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_before_somebody_agrees() {
    let case = Case::new("manual").await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": MANUAL})).await;
    let plan = case.until_planned("1.0.0", "RequiresApproval").await;
    assert_eq!((&plan.data["spec"]["approval"], &plan.data["spec"]["approved"]), (&json!("Manual"), &json!(false)));
    let subscription = case.until_said("InstallPlanPending", "RequiresApproval").await;
    assert_eq!(
        (text(&subscription, "/status/state"), text(&subscription, "/status/installedCSV")),
        ("UpgradePending", "")
    );
    nothing_is_there(&case, "1.0.0").await;

    let name = plan.metadata.name.clone().unwrap_or_default();
    let space = &case.space;
    case.types(&format!(
        "kubectl -n {space} patch installplan {name} --type=merge -p '{{\"spec\":{{\"approved\":true}}}}'"
    ))
    .await;
    case.until_planned("1.0.0", "Complete").await;
    case.until_succeeded("1.0.0").await;
    let settled = |object: &DynamicObject| {
        text(object, "/status/state") == "AtLatestKnown" && reason(object, "InstallPlanPending").is_empty()
    };
    case.until_object(&case.subscribed(), "AtLatestKnown", settled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_its_own_yes() {
    let case = Case::new("manual-next").await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": MANUAL})).await;
    let first = case.until_planned("1.0.0", "RequiresApproval").await;
    approves(&case, &first).await;
    case.until_succeeded("1.0.0").await;
    case.publishes(&["1.0.0", "1.1.0"]).await;
    let second = case.until_planned("1.1.0", "RequiresApproval").await;
    assert_ne!(second.metadata.name, first.metadata.name);
    let subscription = case.get(&case.subscribed()).await;
    let names = (text(&subscription, "/status/state"), text(&subscription, "/status/installedCSV"));
    assert_eq!(names, ("UpgradePending", case.csv_name("1.0.0").as_str()));
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");
    assert_eq!(text(&case.get(&case.csv("1.0.0")).await, "/status/phase"), "Succeeded");

    // What somebody deletes meanwhile comes back without a yes.
    let definition = packages::definition(&case.package);
    let before = case.get(&definition).await.metadata.uid;
    case.delete(&definition).await;
    let is_new = |object: &DynamicObject| object.metadata.uid != before;
    case.until_object(&definition, "another one", is_new).await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");

    let second = case.until_planned("1.1.0", "RequiresApproval").await;
    approves(&case, &second).await;
    case.until_succeeded("1.1.0").await;
    case.until_gone(&case.csv("1.0.0")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_for_what_was_overtaken_installs_nothing() {
    let case = Case::new("manual-late").await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": MANUAL})).await;
    let first = case.until_planned("1.0.0", "RequiresApproval").await;
    // The catalog moves on before anybody has answered.
    case.publishes(&["1.0.0", "1.1.0"]).await;
    let second = case.until_planned("1.1.0", "RequiresApproval").await;
    let name = first.metadata.name.clone().unwrap_or_default();
    case.until_gone(&case.named("InstallPlan", &name)).await;
    nothing_is_there(&case, "1.0.0").await;
    nothing_is_there(&case, "1.1.0").await;
    approves(&case, &second).await;
    case.until_succeeded("1.1.0").await;
}

/// As `kubectl operator` does it: read, set, update; again on a conflict.
async fn approves(case: &Case, plan: &DynamicObject) {
    let target = case.named("InstallPlan", plan.metadata.name.as_deref().unwrap_or_default());
    let api = target.api(&case.client).await.expect("it is served");
    loop {
        let mut live = api.get(&target.name).await.expect("it is there");
        live.data["spec"]["approved"] = json!(true);
        match api.replace(&target.name, &PostParams::default(), &live).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
}
