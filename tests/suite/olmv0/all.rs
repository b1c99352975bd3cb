//! Every Subscription of a namespace, of which one is refused.

use serde_json::json;

use super::case::{Case, Given};
use super::world::World;

#[tokio::test]
async fn all_are_taken_over_but_for_the_one_that_is_refused() {
    let world = World::shared().await;
    let space = rukpak_tests::verbs::unique_name("together");
    let [one, two, three] = ["a", "b", "c"].map(|suffix| format!("{space}-{suffix}"));
    let given = || Given { fixture: "registry/own", targets: vec!["OWN".to_owned()], ..Given::default() };
    let cases = [
        Case::named(world, &one, &space, given()).await,
        Case::named(world, &two, &space, given()).await,
        Case::named(world, &three, &space, given()).await,
    ];
    cases[1].say(&cases[1].operator.csv_target(), json!({"phase": "Failed", "message": "broken"})).await;
    let did = world.migrate(&["--all", "-n", &space, "-oname"]).await;
    assert_eq!(did.code, Some(1), "{did:?}");
    let names: Vec<String> = [&one, &three].map(|name| format!("platformoperator.platform.openshift.io/{name}")).into();
    assert_eq!(did.out.lines().collect::<Vec<_>>(), names, "{did:?}");
    let did = world.migrate(&["--all", "-n", &space, "--apply"]).await;
    assert!(did.code == Some(1) && did.err.contains("not Succeeded: broken"), "{did:?}");
    cases[0].is_taken_over().await;
    cases[2].is_taken_over().await;
    cases[1].stays().await;
    cases[1].say(&cases[1].operator.csv_target(), json!({"phase": "Succeeded"})).await;
    let did = world.migrate(&["--all", "-n", &space, "--apply"]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    cases[1].is_taken_over().await;
    let did = world.migrate(&["--all", "-n", &space, "--back", "--apply"]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    for case in &cases {
        case.is_olms().await;
    }
    let did = world.migrate(&["--all", "-n", &space, "--back", "--apply"]).await;
    assert!(did.code == Some(1) && did.err.contains("there is no subscription"), "{did:?}");
}
