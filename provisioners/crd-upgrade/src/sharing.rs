//! One CRD that several bundles declare: whether the one in the cluster serves what another bundle declares, whether it can be made to,
//! and what it is then.
//!
//! ```text
//! a version that one of both has                    stays
//! a version that both have, in the same words       stays
//! a version that both have, one schema of it newer  the newer one: every object of the older one fits it
//! a version whose schemas differ otherwise          incompatible
//! ```
//!
//! So the union only grows, whoever writes it, and whoever writes it again writes the same.

use serde_json::{Value, json};

use super::compare::same_version;
use super::definition::{Definition, Error, Version};
use super::effort::Effort;
use super::same::says_the_same;
use super::{Location, Rule, Severity, UnsafeChange, versions};

/// How the CRD in the cluster stands to one that another bundle declares.
#[derive(Clone, Debug, PartialEq)]
pub enum Sharing {
    /// It serves every version that is declared, as it is declared or newer.
    Covered,
    /// It lacks something that can be added: with these as `spec.versions` it has both.
    Extended(Value),
    /// It cannot be both.
    Incompatible(Vec<UnsafeChange>),
}

/// How the schemas of one version stand to each other.
enum Order {
    Same,
    /// The one in the cluster accepts all that the declared one does.
    LiveIsNewer,
    DeclaredIsNewer,
    Differ(Vec<UnsafeChange>),
}

/// Compares the CRD in the cluster, which another bundle leads, to what is declared.
///
/// # Errors
/// One of them cannot be read.
pub fn share(live: &Value, declared: &Value) -> Result<Sharing, Error> {
    let effort = Effort::default();
    let (old, new) = (Definition::read(live)?, Definition::read(declared)?);
    let mut found = of_definition(&old, &new, live, declared);
    for version in &new.versions {
        if let Some(before) = old.version(version.name)
            && let Order::Differ(changes) = order(&old, &new, (before, version), (live, declared), &effort)
        {
            found.extend(changes);
        }
    }
    if effort.is_spent() {
        return Err(new.too_complex());
    }
    if !found.is_empty() {
        return Ok(Sharing::Incompatible(found));
    }
    let versions = united(&old, &new, (live, declared), Writer::Sharer, &effort);
    if versions == live["spec"]["versions"] {
        return Ok(Sharing::Covered);
    }
    Ok(Sharing::Extended(versions))
}

/// Returns the versions of a CRD that others declare too, as whoever leads it applies it; `None` where they are those that it declares.
pub fn union(live: &Value, declared: &Value) -> Option<Value> {
    let effort = Effort::default();
    let (old, new) = (Definition::read(live).ok()?, Definition::read(declared).ok()?);
    let versions = united(&old, &new, (live, declared), Writer::Leader, &effort);
    (!effort.is_spent() && !is_said(&new, declared, &versions)).then_some(versions)
}

/// Names the versions of `union` that `declared` lacks, or has otherwise.
pub fn kept_versions(union: &Value, declared: &Value) -> Vec<String> {
    let all = union.as_array().into_iter().flatten();
    // Which one is stored says nothing of what it is.
    let bare = |version: &Value| {
        let mut bare = version.clone();
        bare.as_object_mut().map(|map| map.remove("storage"));
        bare
    };
    let is_other = |version: &&Value| {
        let own = entry(declared, version["name"].as_str().unwrap_or_default());
        own.map(bare) != Some(bare(version))
    };
    all.filter(is_other).filter_map(|version| Some(version["name"].as_str()?.to_owned())).collect()
}

/// Who writes the union. Of what says the same, each keeps its own words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Leader,
    Sharer,
}

fn united(
    old: &Definition<'_>,
    new: &Definition<'_>,
    (live, declared): (&Value, &Value),
    writer: Writer,
    effort: &Effort<'_>,
) -> Value {
    let mut versions = Vec::new();
    for before in &old.versions {
        let (Some(kept), after) = (entry(live, before.name), new.version(before.name)) else { continue };
        let own = entry(declared, before.name);
        let mut chosen = match (after, own) {
            (Some(after), Some(own)) => match order(old, new, (before, after), (live, declared), effort) {
                Order::LiveIsNewer => kept,
                Order::Same if writer == Writer::Sharer => kept,
                _ => own,
            },
            _ => kept,
        }
        .clone();
        if before.served || after.is_some_and(|after| after.served) {
            chosen["served"] = json!(true);
        }
        versions.push(chosen);
    }
    let added = new.versions.iter().filter(|version| old.version(version.name).is_none());
    versions.extend(added.filter_map(|version| entry(declared, version.name).cloned()));
    let stored = stored_version(old, new, effort);
    for version in &mut versions {
        version["storage"] = json!(stored == version["name"].as_str());
    }
    Value::Array(versions)
}

/// Returns the version in which objects are stored: the newest one that one of both stores. Never back to an older one, which may lack
/// fields; nor on to one that lacks them where nothing converts.
fn stored_version<'a>(old: &Definition<'a>, new: &Definition<'a>, effort: &Effort<'_>) -> Option<&'a str> {
    let before = old.versions.iter().find(|version| version.storage);
    let after = new.versions.iter().find(|version| version.storage);
    let (Some(before), Some(after)) = (before, after) else { return before.or(after).map(|version| version.name) };
    if versions::rank(after.name) <= versions::rank(before.name) {
        return Some(before.name);
    }
    let schemas = (before.schema.unwrap_or(&Value::Null), after.schema.unwrap_or(&Value::Null));
    let keeps_all = old.webhook_converts || same_version(new, after.name, schemas, Severity::Error, effort).is_empty();
    Some(if keeps_all { after.name } else { before.name })
}

/// Whether these versions are the declared ones, in whatever order.
fn is_said(new: &Definition<'_>, declared: &Value, versions: &Value) -> bool {
    let all = versions.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_declared = |version: &Value| entry(declared, version["name"].as_str().unwrap_or_default()) == Some(version);
    all.len() == new.versions.len() && all.iter().all(is_declared)
}

fn order(
    old: &Definition<'_>,
    new: &Definition<'_>,
    (before, after): (&Version<'_>, &Version<'_>),
    (live, declared): (&Value, &Value),
    effort: &Effort<'_>,
) -> Order {
    let subresources = |crd: &Value, name: &str| {
        let all = entry(crd, name).map(|version| version["subresources"].clone()).unwrap_or_default();
        if all.is_null() { json!({}) } else { all }
    };
    if subresources(live, before.name) != subresources(declared, after.name) {
        let message = format!("the subresources of version {:?} differ", after.name);
        return Order::Differ(vec![at_definition(new, Rule::Unhandled, message)]);
    }
    let (left, right) = (before.schema.unwrap_or(&Value::Null), after.schema.unwrap_or(&Value::Null));
    if says_the_same(left, right, effort) {
        return Order::Same;
    }
    if same_version(new, after.name, (right, left), Severity::Error, effort).is_empty() {
        return Order::LiveIsNewer;
    }
    let changes = same_version(old, after.name, (left, right), Severity::Error, effort);
    if changes.is_empty() { Order::DeclaredIsNewer } else { Order::Differ(changes) }
}

/// What has to be the same in both.
fn of_definition(old: &Definition<'_>, new: &Definition<'_>, live: &Value, declared: &Value) -> Vec<UnsafeChange> {
    let mut found = Vec::new();
    found.extend(versions::scope(old, new, Severity::Error));
    if (old.group, old.plural, old.kind) != (new.group, new.plural, new.kind) {
        let message =
            format!("{} {} of group {:?} is declared as {} {}", old.kind, old.plural, old.group, new.kind, new.plural);
        found.push(at_definition(new, Rule::Unhandled, message));
    }
    // A webhook belongs to one of the bundles, and goes with it.
    let is_other = new.webhook_converts && converter(live) != converter(declared);
    if old.webhook_converts != new.webhook_converts || is_other {
        let message = "the conversion between versions differs".to_owned();
        found.push(at_definition(new, Rule::Unhandled, message));
    }
    found
}

/// The webhook that converts, without its certificate authority, which others fill in.
fn converter(crd: &Value) -> Value {
    let mut client = crd["spec"]["conversion"]["webhook"]["clientConfig"].clone();
    if let Some(client) = client.as_object_mut() {
        client.remove("caBundle");
    }
    for (field, default) in [("port", json!(443)), ("path", Value::Null)] {
        if let Some(service) = client.get_mut("service").and_then(Value::as_object_mut) {
            service.entry(field).or_insert(default);
        }
    }
    client
}

fn entry<'a>(crd: &'a Value, version: &str) -> Option<&'a Value> {
    crd["spec"]["versions"].as_array()?.iter().find(|entry| entry["name"] == version)
}

fn at_definition(new: &Definition<'_>, rule: Rule, message: String) -> UnsafeChange {
    let (crd, place) = (new.name.to_owned(), Location::Definition);
    UnsafeChange { crd, place, path: String::new(), rule, severity: Severity::Error, was: None, now: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CRD of versions: name, properties of the spec, whether it is stored.
    fn crd(versions: &[(&str, &[&str], bool)]) -> Value {
        let version = |(name, fields, storage): &(&str, &[&str], bool)| {
            let properties: serde_json::Map<String, Value> =
                fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": properties}}}}})
        };
        json!({"metadata": {"name": "dogs.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Dog", "plural": "dogs"}, "versions": versions.iter().map(version).collect::<Vec<_>>()}})
    }

    fn of(live: &Value, declared: &Value) -> Sharing {
        share(live, declared).expect("both can be read")
    }

    fn extended(live: &Value, declared: &Value) -> Value {
        match of(live, declared) {
            Sharing::Extended(versions) => {
                let mut whole = live.clone();
                whole["spec"]["versions"] = versions;
                whole
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_and_newer_crds_cover_what_is_declared() {
        let (one, more) = (crd(&[("v1", &["a"], true)]), crd(&[("v1", &["a", "b"], true), ("v2", &["a"], false)]));
        assert_eq!(of(&one, &one), Sharing::Covered);
        assert_eq!(of(&more, &one), Sharing::Covered);
        let mut described = one.clone();
        described["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("a dog");
        described["spec"]["conversion"] = json!({"strategy": "None"});
        assert_eq!(of(&described, &one), Sharing::Covered);
        assert_eq!(of(&one, &described), Sharing::Covered, "words are no reason to write");
    }

    #[test]
    fn what_is_added_is_in_the_union_whoever_writes_it() {
        let (one, more) = (crd(&[("v1", &["a"], true)]), crd(&[("v1", &["a", "b"], true), ("v2", &["a"], false)]));
        let both = extended(&one, &more);
        assert_eq!(both["spec"]["versions"], more["spec"]["versions"]);
        assert_eq!(of(&both, &one), Sharing::Covered);
        assert_eq!(union(&both, &one), Some(more["spec"]["versions"].clone()), "whoever leads keeps it");
        assert_eq!(kept_versions(&both["spec"]["versions"], &one), ["v1", "v2"]);
        assert_eq!(union(&both, &more), None);
    }

    #[test]
    fn versions_of_both_stay_and_the_newest_is_stored() {
        let (left, right) = (
            crd(&[("v1", &["a"], false), ("v2", &["a"], true)]),
            crd(&[("v1", &["a"], true), ("v1beta1", &[], false)]),
        );
        let both = extended(&left, &right);
        let names = |crd: &Value| -> Vec<String> {
            let all = crd["spec"]["versions"].as_array().expect("a list").iter();
            all.map(|version| {
                format!(
                    "{}{}",
                    version["name"].as_str().expect("text"),
                    if version["storage"] == true { "*" } else { "" }
                )
            })
            .collect()
        };
        assert_eq!(names(&both), ["v1", "v2*", "v1beta1"]);
        let mut led = right.clone();
        led["spec"]["versions"] = union(&both, &right).expect("v2 is not declared");
        assert_eq!(names(&led), ["v1", "v2*", "v1beta1"]);
        assert_eq!(of(&extended(&right, &left), &left), Sharing::Covered);
    }

    /// Where nothing converts, the next write of an object would lose what the version does not have.
    #[test]
    fn version_that_lacks_fields_of_the_stored_one_is_not_stored_unless_a_webhook_converts() {
        let live = crd(&[("v1", &["a", "b"], true), ("v2", &["a"], false)]);
        let declared = crd(&[("v1", &["a", "b"], false), ("v2", &["a"], true)]);
        assert_eq!(of(&live, &declared), Sharing::Covered);
        assert_eq!(union(&live, &declared), Some(live["spec"]["versions"].clone()), "nor by whoever leads it");
        let converted = |mut crd: Value| {
            crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
            crd
        };
        let (live, declared) = (converted(live), converted(declared));
        assert_eq!(extended(&live, &declared)["spec"]["versions"], declared["spec"]["versions"]);
    }

    #[test]
    fn version_that_only_one_serves_stays_served() {
        let mut quiet = crd(&[("v1", &["a"], true)]);
        quiet["spec"]["versions"][0]["served"] = json!(false);
        let loud = crd(&[("v1", &["a"], true)]);
        assert_eq!(of(&loud, &quiet), Sharing::Covered);
        assert_eq!(extended(&quiet, &loud)["spec"]["versions"][0]["served"], true);
        assert_eq!(union(&loud, &quiet).expect("it is not as declared")[0]["served"], true);
    }

    #[test]
    fn what_cannot_be_both_is_named() {
        let incompatible = |live: &Value, declared: &Value| match of(live, declared) {
            Sharing::Incompatible(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            other => panic!("{other:?}"),
        };
        let (left, right) = (crd(&[("v1", &["a"], true)]), crd(&[("v1", &["b"], true)]));
        assert_eq!(incompatible(&left, &right), "existingFieldRemoval: removed field : v1.^.spec.a");
        let mut cluster = left.clone();
        cluster["spec"]["scope"] = json!("Cluster");
        assert!(incompatible(&left, &cluster).starts_with("scope: scope changed"));
        let mut other = left.clone();
        other["spec"]["names"]["kind"] = json!("Cat");
        assert!(incompatible(&left, &other).contains("is declared as Cat dogs"));
        let mut status = left.clone();
        status["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        assert!(incompatible(&left, &status).contains("the subresources of version \"v1\" differ"));
        let webhook = |name: &str, mut crd: Value| {
            crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": name,
                "service": {"name": name, "namespace": "n"}}}});
            crd
        };
        let conversion = "the conversion between versions differs";
        assert!(incompatible(&webhook("a", left.clone()), &webhook("b", left.clone())).contains(conversion));
        assert!(incompatible(&webhook("a", left.clone()), &left).contains(conversion));
        let mut injected = webhook("a", left.clone());
        injected["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!("of others");
        assert_eq!(of(&injected, &webhook("a", left)), Sharing::Covered);
    }

    #[test]
    fn schemas_that_differ_are_those_of_the_leader() {
        let (live, declared) = (crd(&[("v1", &["a"], true)]), crd(&[("v1", &["b"], true)]));
        assert_eq!(union(&live, &declared), None, "whether that may be is another question");
    }
}
