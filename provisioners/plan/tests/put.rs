//! What is sent for one object, whoever it belongs to, driven without a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::TakeOver;
use rukpak_plan::Owner;
use rukpak_plan::owner::{ForeignOwner, Predecessors};
use rukpak_plan::put::{Answer, Compared, End, Known, Next, Put, Request, Sharing, Task};
use serde_json::{Value, json};

type Annotations = std::collections::BTreeMap<String, String>;
type Reply = Answer<(), &'static str>;

fn owner() -> Owner {
    Owner { name: "app".into(), uid: "1".into() }
}

/// How an object is put.
#[derive(Clone, Copy, Default)]
struct How {
    sharing: Sharing,
    is_trial: bool,
    may_replace: bool,
}

/// The object in the cluster: version 7 of the UID `u`.
fn object(more: Value) -> ObjectMeta {
    let mut all = json!({"name": "a", "uid": "u", "resourceVersion": "7"});
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    serde_json::from_value(all).expect("it is metadata")
}

fn reference(name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": name, "uid": uid, "controller": true}])
}

fn applied() -> Value {
    json!([{"manager": "rukpak-core", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:x": {}}}}])
}

fn ours() -> ObjectMeta {
    object(json!({"ownerReferences": reference("app", "1"), "managedFields": applied()}))
}

fn by_helm() -> Value {
    json!([{"manager": "core", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {
        "f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}, "f:data": {"f:x": {}}}}])
}

/// Puts an object whose requests are answered so. Returns what was sent, and the end.
fn put(how: How, known: Option<Known>, mut answer: impl FnMut(&str) -> Reply) -> (Vec<String>, End<(), &'static str>) {
    let (owner, mut body) = (owner(), json!({"data": {"x": "1"}}));
    match how.sharing {
        Sharing::Kept => {}
        Sharing::InCommon => body["metadata"] = json!({"annotations": {"core.rukpak.io/in-common": "pump"}}),
        _ => body["metadata"] = json!({"ownerReferences": [owner.reference()]}),
    }
    let predecessors = Predecessors { system_namespace: "rukpak-system", extension: None };
    let How { sharing, is_trial, may_replace } = how;
    let task = Task { owner: &owner, predecessors, take_over: None, body: &body, sharing, is_trial, may_replace };
    let mut put = Put::new(task, known);
    let (mut request, mut sent) = (put.first(), Vec::new());
    loop {
        sent.push(match &request {
            Request::Create => "create".to_owned(),
            Request::Update(Known { uid, version }) => format!("update {uid}@{}", version.as_deref().unwrap_or("any")),
            Request::Inherit(Known { uid, version }) => {
                format!("inherit {uid}@{}", version.as_deref().unwrap_or("any"))
            }
            Request::Look => "look".to_owned(),
            Request::AskWanted(_) => "ask".to_owned(),
            Request::MoveFields(..) => "move".to_owned(),
            Request::TakeOver(..) => "take over".to_owned(),
            Request::Compare => "compare".to_owned(),
            Request::Share(_) => "share".to_owned(),
            Request::Extend(..) => "extend".to_owned(),
            Request::Replace(_) => "replace".to_owned(),
        });
        assert!(sent.len() < 40, "it does not end: {sent:?}");
        let reply = answer(sent.last().expect("a request was sent"));
        match put.next(request, reply) {
            Next::Send(next) => request = next,
            Next::End(end) => return (sent, end),
        }
    }
}

/// An API server that has this object and takes every write that fits it.
fn server(object: Option<ObjectMeta>) -> impl FnMut(&str) -> Reply {
    move |request| match request {
        "create" if object.is_some() => Answer::Conflict("it exists"),
        "look" => Answer::Seen(object.clone().map(Box::new)),
        "ask" => Answer::Wanted(true),
        "move" | "take over" | "inherit u@7" => Answer::Moved(Box::new(object.clone().expect("there is an object"))),
        "share" | "extend" => Answer::Shared,
        "replace" => Answer::Replaced(true),
        _ => Answer::Applied(()),
    }
}

fn known(uid: &str) -> Known {
    Known { uid: uid.into(), version: Some("6".into()) }
}

#[test]
fn what_is_not_there_is_created_in_one_request() {
    assert_eq!(put(How::default(), None, server(None)), (vec!["create".to_owned()], End::Applied(())));
}

#[test]
fn what_is_known_is_updated_in_its_version() {
    assert_eq!(put(How::default(), Some(known("u")), server(None)).0, ["update u@6"]);
}

/// Who wrote it may be another of our controllers, that knows a newer spec.
#[test]
fn what_is_ours_and_was_written_meanwhile_is_updated_in_the_version_looked_at_if_it_is_still_asked_for() {
    assert_eq!(put(How::default(), None, server(Some(ours()))).0, ["create", "look", "ask", "update u@7"]);
    let mut others = server(Some(ours()));
    let (sent, end) = put(How::default(), Some(known("u")), |request| match request {
        "update u@6" => Answer::Conflict("another version"),
        "ask" => Answer::Wanted(false),
        request => others(request),
    });
    assert_eq!((sent, end), (["update u@6", "look", "ask"].map(str::to_owned).to_vec(), End::Unwanted));
    let trial = How { is_trial: true, ..How::default() };
    assert_eq!(put(trial, None, server(Some(ours()))).0, ["create", "look", "update u@any"]);
}

#[test]
fn what_is_ours_and_was_never_applied_has_its_fields_moved_first() {
    let object = object(json!({"ownerReferences": reference("app", "1"), "managedFields": by_helm()}));
    assert_eq!(put(How::default(), None, server(Some(object.clone()))).0, ["create", "look", "move", "update u@7"]);
    let trial = How { is_trial: true, ..How::default() };
    assert_eq!(put(trial, None, server(Some(object))).0, ["create", "look", "update u@any"]);
}

#[test]
fn what_may_be_adopted_is_owned_only_if_the_deployment_is_to_have_objects() {
    let object = object(json!({"annotations": {"core.rukpak.io/adopt-by": "app"}, "managedFields": by_helm()}));
    assert_eq!(
        put(How::default(), None, server(Some(object.clone()))).0,
        ["create", "look", "ask", "move", "update u@7"]
    );
    let mut others = server(Some(object));
    let (sent, end) = put(How::default(), None, |request| match request {
        "ask" => Answer::Wanted(false),
        request => others(request),
    });
    assert_eq!((sent.len(), end), (3, End::Unwanted), "{sent:?}");
}

#[test]
fn what_lost_our_owner_reference_is_ours_only_where_it_was_known() {
    let lost = object(json!({"managedFields": applied()}));
    let mut others = server(Some(lost.clone()));
    let (sent, _) = put(How::default(), Some(known("u")), |request| match request {
        "update u@6" => Answer::Conflict("another version"),
        request => others(request),
    });
    assert_eq!(sent, ["update u@6", "look", "ask", "update u@7"]);
    let (sent, end) = put(How::default(), None, server(Some(lost)));
    assert_eq!((sent.len(), end), (2, End::Foreign(ForeignOwner::Unknown)));
}

#[test]
fn leaves_object_alone_that_another_controller_took_since_it_was_known() {
    let taken = object(json!({"ownerReferences": reference("other", "2"), "managedFields": applied()}));
    let mut others = server(Some(taken));
    let (sent, end) = put(How::default(), Some(known("u")), |request| match request {
        "update u@6" => Answer::Conflict("another version"),
        request => others(request),
    });
    assert_eq!(sent, ["update u@6", "look"]);
    let of_other =
        ForeignOwner::Controller { kind: "BundleDeployment".into(), name: "other".into(), is_deployment: true };
    assert_eq!(end, End::Foreign(of_other));
}

#[test]
fn what_is_somebody_elses_is_not_written() {
    let of = |name: &str, uid: &str| object(json!({"ownerReferences": reference(name, uid)}));
    let (sent, end) = put(How::default(), None, server(Some(of("other", "2"))));
    assert_eq!(sent, ["create", "look"]);
    assert!(matches!(end, End::Foreign(ForeignOwner::Controller { is_deployment: true, .. })), "{end:?}");
    let (_, end) = put(How::default(), None, server(Some(of("app", "0"))));
    assert_eq!(end, End::LeftBehind { uid: "0".into() });
    let going = object(json!({"ownerReferences": reference("app", "1"), "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(put(How::default(), None, server(Some(going))).1, End::Terminating);
}

#[test]
fn what_its_controller_would_take_back_is_not_taken_over() {
    let (owner, body, rule) = (owner(), json!({}), TakeOver { controlled: true, ..TakeOver::default() });
    let predecessors = Predecessors { system_namespace: "rukpak-system", extension: None };
    let task = Task {
        owner: &owner,
        predecessors,
        take_over: Some(&rule),
        body: &body,
        sharing: Sharing::Never,
        is_trial: false,
        may_replace: false,
    };
    let of_other = || Box::new(object(json!({"ownerReferences": reference("other", "2")})));
    let looked = |answer: Reply| Put::new(task, None).next(Request::Look, answer);
    let taken = looked(Answer::Seen(Some(of_other())));
    assert!(matches!(taken, Next::Send(Request::AskWanted(_))), "{taken:?}");
    let kept = looked(Answer::Kept(of_other()));
    assert!(matches!(kept, Next::End(End::Foreign(ForeignOwner::Controller { is_deployment: true, .. }))), "{kept:?}");
}

#[test]
fn a_namespace_of_somebody_else_is_used_and_shared_where_it_would_be_lost() {
    let how = How { sharing: Sharing::AsItIs, ..How::default() };
    let of_other = object(json!({"ownerReferences": reference("other", "2")}));
    let (sent, end) = put(how, None, server(Some(of_other.clone())));
    assert_eq!((sent, end), (["create", "look", "share"].map(str::to_owned).to_vec(), End::Used));
    let (sent, end) = put(how, None, server(Some(object(json!({})))));
    assert_eq!((sent.len(), end), (2, End::Used), "a user's own");
    let trial = How { is_trial: true, ..how };
    assert_eq!(put(trial, None, server(Some(of_other))).0, ["create", "look"]);
}

/// An API server that has this CRD of another, which compares so.
fn definition(object: ObjectMeta, compared: Compared) -> impl FnMut(&str) -> Reply {
    let mut others = server(Some(object.clone()));
    move |request| match request {
        "compare" => Answer::Compared(Box::new(object.clone()), compared.clone()),
        request => others(request),
    }
}

fn sent(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_crd_of_another_deployment_is_shared_extended_or_refused() {
    let how = How { sharing: Sharing::United, ..How::default() };
    let of_other = object(json!({"ownerReferences": reference("other", "2")}));
    let covered = put(how, None, definition(of_other.clone(), Compared::Covered));
    assert_eq!(covered, (sent(&["create", "look", "compare", "share"]), End::Used));
    let extended = put(how, None, definition(of_other.clone(), Compared::Extended(json!([]))));
    assert_eq!(extended, (sent(&["create", "look", "compare", "ask", "extend"]), End::Used));
    let why = Compared::Incompatible("no".to_owned());
    let refused = ForeignOwner::Incompatible { name: "other".to_owned(), why: "no".to_owned() };
    assert_eq!(put(how, None, definition(of_other.clone(), why)).1, End::Foreign(refused));

    let trial = How { is_trial: true, ..how };
    assert_eq!(put(trial, None, definition(of_other.clone(), Compared::Covered)).0, ["create", "look", "compare"]);
    let tried = put(trial, None, definition(of_other.clone(), Compared::Extended(json!([]))));
    assert_eq!(tried.0, ["create", "look", "compare", "extend"], "the API server sees the versions");
    let is_foreign = |how, object| matches!(put(how, None, definition(object, Compared::Covered)).1, End::Foreign(_));
    assert!(is_foreign(how, object(json!({}))), "a user's own");
    assert!(is_foreign(How::default(), of_other), "one that is kept goes with nobody");
}

#[test]
fn a_crd_that_is_shared_already_is_not_written() {
    let how = How { sharing: Sharing::United, ..How::default() };
    let mut owners = reference("other", "2");
    let mut ours = reference("app", "1")[0].clone();
    ours["controller"] = json!(false);
    owners.as_array_mut().expect("a list").push(ours);
    let shared = object(json!({"ownerReferences": owners}));
    assert_eq!(
        put(how, None, definition(shared, Compared::Covered)),
        (sent(&["create", "look", "compare"]), End::Used)
    );
}

#[test]
fn a_crd_that_is_to_be_kept_is_not_written_as_long_as_others_have_it() {
    let how = How { sharing: Sharing::Kept, ..How::default() };
    let mut owners = reference("app", "1");
    let mut theirs = reference("other", "2")[0].clone();
    theirs["controller"] = json!(false);
    owners.as_array_mut().expect("a list").push(theirs);
    let shared = object(json!({"ownerReferences": owners, "managedFields": applied()}));
    let end = End::Foreign(ForeignOwner::Sharers { names: vec!["other".to_owned()] });
    assert_eq!(put(how, None, server(Some(shared))), (sent(&["create", "look"]), end));
    assert_eq!(put(how, None, server(Some(ours()))).1, End::Applied(()));
}

/// One that another BundleDeployment keeps, or has kept.
fn common(package: &str, more: &[(&str, &str)]) -> ObjectMeta {
    let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "other"});
    let mut annotations = json!({"core.rukpak.io/owner-uid": "2", "core.rukpak.io/in-common": package});
    for (key, value) in more {
        annotations[*key] = json!(value);
    }
    object(json!({"labels": labels, "annotations": annotations}))
}

#[test]
fn a_crd_that_installations_have_in_common_is_used_and_says_so() {
    let how = How { sharing: Sharing::InCommon, ..How::default() };
    let known = |compared: Compared| put(how, None, definition(common("pump", &[]), compared));
    assert_eq!(known(Compared::Covered), (sent(&["create", "look", "compare", "share"]), End::Used));
    let extended = sent(&["create", "look", "compare", "ask", "extend"]);
    assert_eq!(known(Compared::Extended(json!([]))), (extended, End::Used));
    let refused = known(Compared::Incompatible("otherwise".to_owned())).1;
    assert!(
        matches!(&refused, End::Foreign(ForeignOwner::Incompatible { name, .. }) if name == "other"),
        "{refused:?}"
    );
    for said in [("core.rukpak.io/united-versions", "true"), ("core.rukpak.io/reconcile", "disabled")] {
        let object = common("pump", &[said]);
        let looked = sent(&["create", "look", "compare"]);
        assert_eq!(put(how, None, definition(object, Compared::Covered)), (looked, End::Used), "{said:?}");
    }
}

#[test]
fn a_crd_of_another_package_is_not_used_and_neither_is_one_that_goes_with_its_owner() {
    let how = How { sharing: Sharing::InCommon, ..How::default() };
    let end = put(how, None, server(Some(common("other", &[])))).1;
    assert!(matches!(&end, End::Foreign(ForeignOwner::Keeper { name, .. }) if name == "other"), "{end:?}");
    let mut owned = common("pump", &[]);
    owned.owner_references = serde_json::from_value(reference("other", "2")).unwrap();
    let end = put(how, None, server(Some(owned))).1;
    assert!(matches!(&end, End::Foreign(ForeignOwner::Controller { .. })), "{end:?}");
    let kept = How { sharing: Sharing::Kept, ..How::default() };
    assert!(matches!(put(kept, None, server(Some(common("pump", &[])))).1, End::Foreign(_)), "it does not say so");
}

#[test]
fn a_crd_whose_leader_went_while_it_was_compared_is_inherited() {
    let how = How { sharing: Sharing::United, ..How::default() };
    let of_other = object(json!({"ownerReferences": reference("other", "2")}));
    let mut ours = reference("app", "1");
    ours[0]["controller"] = json!(false);
    let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment"});
    let inherited = object(json!({"ownerReferences": ours, "labels": labels}));
    let mut others = server(Some(of_other));
    let (sent, end) = put(how, None, |request| match request {
        "compare" => Answer::Compared(Box::new(inherited.clone()), Compared::Covered),
        request => others(request),
    });
    assert_eq!((sent.join(" "), end), ("create look compare ask update u@7".to_owned(), End::Applied(())));
}

#[test]
fn a_namespace_whose_owner_is_gone_is_inherited_in_its_version() {
    let mut sharer = reference("app", "1");
    sharer[0]["controller"] = json!(false);
    let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment"});
    let object = object(json!({"ownerReferences": sharer, "labels": labels}));
    assert_eq!(put(How::default(), None, server(Some(object))).0, ["create", "look", "ask", "update u@7"]);
}

/// The owner reference by which it was shared would have it deleted with us.
#[test]
fn a_crd_that_is_to_be_kept_is_inherited_without_its_owner() {
    let mut sharer = reference("app", "1");
    sharer[0]["controller"] = json!(false);
    let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment"});
    let object = object(json!({"ownerReferences": sharer, "labels": labels}));
    let how = How { sharing: Sharing::Kept, ..How::default() };
    let expected = ["create", "look", "ask", "inherit u@7", "update u@7"];
    assert_eq!(put(how, None, server(Some(object))), (sent(&expected), End::Applied(())));
}

#[test]
fn a_crd_that_is_left_as_it_is_on_request_gets_no_versions() {
    let how = How { sharing: Sharing::United, ..How::default() };
    let other = object(json!({"ownerReferences": reference("other", "2"),
        "annotations": {"core.rukpak.io/reconcile": "disabled"}}));
    let mut others = server(Some(other.clone()));
    let (sent, end) = put(how, None, |request| match request {
        "compare" => Answer::Compared(Box::new(other.clone()), Compared::Extended(json!([]))),
        request => others(request),
    });
    assert!(matches!(&end, End::Foreign(ForeignOwner::Incompatible { name, .. }) if name == "other"), "{end:?}");
    assert_eq!(sent.join(" "), "create look compare");
}

#[test]
fn what_is_ours_and_left_as_it_is_on_request_is_not_written() {
    let paused = json!({"core.rukpak.io/reconcile": "disabled"});
    let paused = |more: Value| {
        let mut object = object(more);
        object
            .annotations
            .get_or_insert_default()
            .extend(serde_json::from_value::<Annotations>(paused.clone()).unwrap());
        object
    };
    let ours = paused(json!({"ownerReferences": reference("app", "1"), "managedFields": applied()}));
    let looked = ["create", "look"].map(str::to_owned).to_vec();
    assert_eq!(put(How::default(), None, server(Some(ours.clone()))), (looked, End::Paused(Box::new(ours.clone()))));
    let trial = How { is_trial: true, ..How::default() };
    assert_eq!(put(trial, None, server(Some(ours.clone()))).1, End::Paused(Box::new(ours.clone())));
    // It said so after it was seen last.
    let mut others = server(Some(ours.clone()));
    let (sent, end) = put(How::default(), Some(known("u")), |request| match request {
        "update u@6" => Answer::Conflict("another version"),
        request => others(request),
    });
    assert_eq!((sent.len(), end), (2, End::Paused(Box::new(ours))), "{sent:?}");
    let adoptable = paused(json!({"annotations": {"core.rukpak.io/adopt-by": "app"}}));
    assert_eq!(put(How::default(), None, server(Some(adoptable.clone()))).1, End::Paused(Box::new(adoptable)));
    let others = paused(json!({"ownerReferences": reference("other", "2")}));
    assert!(matches!(put(How::default(), None, server(Some(others))).1, End::Foreign(_)), "it is in the way");
}

#[test]
fn what_became_immutable_is_replaced_where_that_is_allowed() {
    let mut refused = false;
    let mut once = |request: &str| match request {
        "update u@6" if !std::mem::replace(&mut refused, true) => Answer::Invalid("it is immutable"),
        "replace" => Answer::Replaced(true),
        _ => Answer::Applied(()),
    };
    let how = How { may_replace: true, ..How::default() };
    assert_eq!(put(how, Some(known("u")), &mut once).0, ["update u@6", "replace", "create"]);
    let trial = How { is_trial: true, ..how };
    let (sent, end) = put(trial, Some(known("u")), |request| match request {
        "replace" => Answer::Replaced(true),
        _ => Answer::Invalid("it is immutable"),
    });
    assert_eq!((sent.len(), end), (2, End::Replaceable), "nothing is deleted: {sent:?}");
    let (sent, end) = put(How::default(), Some(known("u")), |_| Answer::Invalid("it is immutable"));
    assert_eq!((sent.len(), end), (1, End::Refused("it is immutable")));
    let (_, end) = put(how, Some(known("u")), |request| match request {
        "replace" => Answer::Replaced(false),
        _ => Answer::Invalid("it is wrong"),
    });
    assert_eq!(end, End::Refused("it is wrong"));
}

#[test]
fn an_object_that_is_written_while_its_fields_move_is_looked_at_again() {
    let object = object(json!({"ownerReferences": reference("app", "1"), "managedFields": by_helm()}));
    let (mut others, mut is_first) = (server(Some(object)), true);
    let (sent, end) = put(How::default(), None, |request| {
        if request == "move" && std::mem::take(&mut is_first) {
            return Answer::Conflict("another version");
        }
        others(request)
    });
    assert_eq!(
        (sent, end),
        (["create", "look", "move", "look", "move", "update u@7"].map(str::to_owned).to_vec(), End::Applied(()))
    );
}

#[test]
fn a_race_that_is_lost_again_and_again_is_given_up() {
    let mut others = server(Some(ours()));
    let (sent, end) = put(How::default(), None, |request| match request {
        "create" | "look" | "ask" => others(request),
        _ => Answer::Conflict("another version"),
    });
    assert_eq!(end, End::Refused("another version"));
    let writes: Vec<&str> = sent.iter().filter(|line| line.starts_with("update")).map(String::as_str).collect();
    assert_eq!(writes, ["update u@7", "update u@7", "update u@any", "update u@any"], "the version is not insisted on");
}
