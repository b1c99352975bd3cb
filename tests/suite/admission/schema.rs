//! What the schema refuses.

use rukpak_tests::verbs::{Denial, unique_name};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::helpers::{bundle, create, deployment, git, image, refused};

fn of_length(length: usize) -> String {
    format!("{:x<length$}", unique_name("a"))
}

fn both() -> Value {
    json!({"type": "image", "image": image()["image"], "git": git()["git"]})
}

fn git_with_ref(reference: &Value) -> Value {
    json!({"type": "git", "git": {"repository": "https://example.test/r", "ref": reference}})
}

fn assert_invalid(denial: &Denial, text: &str) {
    assert_eq!((denial.code, denial.reason.as_str()), (422, "Invalid"), "{denial:?}");
    assert!(denial.message.contains(text), "{}", denial.message);
}

/// Kubernetes has worded it anew after about 1.31.
fn assert_too_long(denial: &Denial, limit: usize) {
    assert_eq!((denial.code, denial.reason.as_str()), (422, "Invalid"), "{denial:?}");
    let wordings = [
        format!("metadata.name: Too long: may not be longer than {limit}"),
        format!("metadata.name: Too long: may not be more than {limit}"),
    ];
    assert!(wordings.iter().any(|words| denial.message.contains(words)), "{}", denial.message);
}

#[tokio::test]
async fn a1_a7_names_have_an_end() {
    let client = World::shared().await.admin().await;
    assert_too_long(&refused(&client, &bundle(&of_length(53), &image())).await, 52);
    assert_too_long(&refused(&client, &deployment(&of_length(46), &image())).await, 45);
    create(&client, &bundle(&of_length(52), &image())).await;
    create(&client, &deployment(&of_length(45), &image())).await;
}

#[tokio::test]
async fn a2_a3_a_bundle_has_exactly_one_source() {
    let client = World::shared().await.admin().await;
    let text = "must validate one and only one schema (oneOf). Found 2 valid alternatives";
    assert_invalid(&refused(&client, &bundle(&unique_name("a2"), &both())).await, text);
    let text = "must validate one and only one schema (oneOf). Found none valid";
    assert_invalid(&refused(&client, &bundle(&unique_name("a3"), &json!({"type": "image"}))).await, text);
    // Known to users of RukPak: the template of a deployment does not carry the union, see the deployments' tests.
    create(&client, &deployment(&unique_name("a2"), &both())).await;
}

#[tokio::test]
async fn a4_a5_a_git_reference_is_exactly_one() {
    let client = World::shared().await.admin().await;
    let start = "\"spec.source.git.ref\" must validate one and only one schema (oneOf). ";
    let two = git_with_ref(&json!({"commit": "a".repeat(40), "tag": "v1"}));
    let denial = refused(&client, &bundle(&unique_name("a4"), &two)).await;
    assert_invalid(&denial, &format!("{start}Found 2 valid alternatives"));
    let none = git_with_ref(&json!({}));
    let denial = refused(&client, &bundle(&unique_name("a5"), &none)).await;
    assert_invalid(&denial, &format!("{start}Found none valid"));
}

#[tokio::test]
async fn a6_a8_a9_classes_are_names() {
    let client = World::shared().await.admin().await;
    let class = json!("invalid/class-name");
    let mut bad = bundle(&unique_name("a6"), &image());
    bad["spec"]["provisionerClassName"] = class.clone();
    assert_invalid(&refused(&client, &bad).await, "Invalid value: \"invalid/class-name\": spec.provisionerClassName");

    let mut bad = deployment(&unique_name("a8"), &image());
    bad["spec"]["provisionerClassName"] = class.clone();
    assert_invalid(&refused(&client, &bad).await, "Invalid value: \"invalid/class-name\": spec.provisionerClassName");

    let mut bad = deployment(&unique_name("a9"), &image());
    bad["spec"]["template"]["spec"]["provisionerClassName"] = class;
    let text = "Invalid value: \"invalid/class-name\": spec.template.spec.provisionerClassName";
    assert_invalid(&refused(&client, &bad).await, text);
}

#[tokio::test]
async fn required_fields_are_required() {
    let client = World::shared().await.admin().await;
    for (pointer, field) in
        [("/spec/provisionerClassName", "spec.provisionerClassName"), ("/spec/source", "spec.source")]
    {
        let mut bad = bundle(&unique_name("required"), &image());
        take(&mut bad, pointer);
        assert_invalid(&refused(&client, &bad).await, &format!("{field}: Required value"));
    }
    for (pointer, field) in [("/spec/template", "spec.template"), ("/spec/template/spec", "spec.template.spec")] {
        let mut bad = deployment(&unique_name("required"), &image());
        take(&mut bad, pointer);
        assert_invalid(&refused(&client, &bad).await, &format!("{field}: Required value"));
    }
}

fn take(object: &mut Value, pointer: &str) {
    let (parent, member) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).expect("the parent is an object");
    assert!(parent.remove(member).is_some(), "there was no {pointer}");
}
