//! What is met by what is installed, and who is told of it.

use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use rukpak_catalog::model::{Facts as Stated, RequiredPackage};
use serde_json::Value;

use super::*;

fn release(package: &str, version: &str) -> Release {
    Release {
        holder: Dependent::Extension(package.to_owned()),
        package: package.to_owned(),
        bundle: format!("{package}.v{version}"),
        version: version.to_owned(),
        image: String::new(),
        stated: 0,
    }
}

/// A bundle that needs other packages, in these ranges.
pub(super) fn bundle_of(package: &str, version: &str, needs: &[(&str, &str)]) -> Bundle {
    let required =
        |(name, range): &(&str, &str)| RequiredPackage { name: (*name).to_owned(), range: (*range).to_owned() };
    Bundle {
        name: format!("{package}.v{version}"),
        version: version.parse().ok(),
        version_text: version.to_owned(),
        facts: Stated { requires_packages: needs.iter().map(required).collect(), ..Stated::default() },
        ..Bundle::default()
    }
}

/// Version 1.0.0 of the package `p`.
fn bundle(facts: Stated) -> Bundle {
    Bundle {
        name: "p.v1.0.0".to_owned(),
        version: "1.0.0".parse().ok(),
        version_text: "1.0.0".to_owned(),
        facts,
        ..Bundle::default()
    }
}

fn needs(package: &str, range: &str) -> Bundle {
    bundle_of("p", "1.0.0", &[(package, range)])
}

/// Whether the bundle of `p` can be installed beside these.
fn met(bundle: &Bundle, installed: &[Release]) -> bool {
    let others = installed.iter().filter(|release| release.package != "p");
    let of = |release: &Release| Installed { name: release.bundle.clone(), facts: Arc::new(release.facts().unwrap()) };
    are_met("p", bundle, others.map(of).collect())
}

#[test]
fn a_package_is_met_by_an_installed_version_in_its_range() {
    let wells = needs("wells", ">=1.2.0 <2.0.0");
    assert!(!met(&wells, &[]));
    assert!(!met(&wells, &[release("wells", "1.1.0")]) && !met(&wells, &[release("other", "1.2.0")]));
    assert!(met(&wells, &[release("other", "9.0.0"), release("wells", "1.3.0")]));
    assert!(met(&wells, &[release("p", "0.9.0"), release("wells", "1.3.0")]), "it replaces what is installed");
    assert!(!met(&wells, &[release("wells", "not a version")]));
}

#[test]
fn a_constraint_is_met_as_the_resolver_reads_it() {
    let range = |package: &str| json!({"package": {"packageName": package, "versionRange": ">=1.0.0"}});
    let any = json!({"any": {"constraints": [range("wells"), range("springs")]}});
    let rule = "properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'springs')";
    for constraint in [any, json!({"cel": {"rule": rule}})] {
        let bundle = bundle(Stated { constraints: vec![constraint.to_string()], ..Stated::default() });
        assert!(met(&bundle, &[release("springs", "1.0.0")]), "{constraint}");
        assert!(!met(&bundle, &[release("lakes", "1.0.0")]), "{constraint}");
    }
    let unreadable = bundle(Stated { constraints: vec!["{\"cel\": 1}".to_owned()], ..Stated::default() });
    assert!(!met(&unreadable, &[]));
}

#[test]
fn a_package_of_an_extension_counts_as_soon_as_the_extension_is_known() {
    let (deployments, mut of_deployments) = reflector::store();
    let (operators, _) = reflector::store();
    let (extensions, mut of_extensions) = reflector::store();
    let (sender, woken) = std::sync::mpsc::channel();
    let wake = move |dependent| sender.send(dependent).expect("it is received");
    let (plans, _) = reflector::store();
    let dependencies = Dependencies::new(Stores { deployments, operators, extensions, plans }, wake);
    let identity = [
        ("package-name", "wells"),
        ("bundle-name", "wells.v1"),
        ("bundle-version", "1.2.0"),
        ("bundle-reference", "r"),
    ];
    let identity: HashMap<_, _> =
        identity.map(|(key, value)| (format!("olm.operatorframework.io/{key}"), value)).into();
    let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": "u",
        "controller": true});
    let revision = json!({"revision": 1, "bundle": "e-1", "contentDigest": "sha256:0a", "result": "Installed",
        "time": "2026-01-01T00:00:00Z", "annotations": identity});
    let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
    let deployment = json!({"metadata": {"name": "e", "ownerReferences": [owner]},
        "spec": {"provisionerClassName": "c", "template": template},
        "status": {"activeBundle": "e-1", "history": [revision]}});
    of_deployments.apply_watcher_event(&Event::Apply(serde_json::from_value(deployment).expect("a BundleDeployment")));

    // As after a restart.
    let refused = || Dependent::Operator("p".to_owned());
    assert!(!dependencies.are_met(refused(), "p", &needs("wells", ">=1.2.0")));
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "wells"}});
    let extension = json!({"metadata": {"name": "e", "uid": "u"}, "spec": {"namespace": "ns", "source": source}});
    of_extensions.apply_watcher_event(&Event::Apply(serde_json::from_value(extension).expect("a ClusterExtension")));
    dependencies.changed();
    assert_eq!(woken.try_iter().collect::<Vec<_>>(), [refused()]);
    assert!(dependencies.are_met(refused(), "p", &needs("wells", ">=1.2.0")));
}

#[test]
fn whoever_was_refused_is_told_once_when_something_else_is_installed() {
    let (deployments, mut seen) = reflector::store();
    let (operators, mut of_operators) = reflector::store();
    let (extensions, _) = reflector::store();
    let (plans, _) = reflector::store();
    let dependencies = Dependencies::new(Stores { deployments, operators, extensions, plans }, |_| {});
    let source = json!({"catalog": "c", "package": "wells", "bundle": "wells.v1.2.0", "version": "1.2.0", "image": "r.example/i"});
    let operator = json!({"metadata": {"name": "wells", "uid": "u"}, "spec": {"package": {"name": "wells"}},
        "status": {"source": source}});
    of_operators.apply_watcher_event(&Event::Apply(serde_json::from_value(operator).expect("a PlatformOperator")));
    let deployment = |uid: &str, active: Value| -> BundleDeployment {
        let owner = json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "name": "wells",
            "uid": uid, "controller": true});
        let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
        serde_json::from_value(json!({"metadata": {"name": "wells", "ownerReferences": [owner]},
            "spec": {"provisionerClassName": "c", "template": template}, "status": {"activeBundle": active}}))
        .expect("a BundleDeployment")
    };
    let wells = needs("wells", ">=1.2.0");
    let refused = || Dependent::Extension("p".to_owned());
    assert_eq!(dependencies.woken(), [], "nobody waits");
    assert!(!dependencies.are_met(refused(), "p", &wells));

    seen.apply_watcher_event(&Event::Apply(deployment("u", Value::Null)));
    assert_eq!(dependencies.woken(), [], "it is not installed yet");
    seen.apply_watcher_event(&Event::Apply(deployment("another", json!("wells-1"))));
    assert_eq!(dependencies.woken(), [], "it is somebody else's");
    seen.apply_watcher_event(&Event::Apply(deployment("u", json!("wells-1"))));
    assert_eq!(dependencies.woken(), [refused()]);
    assert_eq!(dependencies.woken(), []);
    assert!(dependencies.are_met(refused(), "p", &wells));
}

#[test]
fn what_an_account_of_a_tenant_has_installed_does_not_count() {
    let (deployments, mut seen) = reflector::store();
    let (operators, _) = reflector::store();
    let (extensions, _) = reflector::store();
    let (plans, _) = reflector::store();
    let dependencies = Dependencies::new(Stores { deployments, operators, extensions, plans }, |_| {});
    let deployment = |account: Value| -> BundleDeployment {
        let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
        let is = json!({"type": "olm.package", "value": {"packageName": "wells", "version": "1.2.0"}});
        serde_json::from_value(json!({"metadata": {"name": "w"},
            "spec": {"provisionerClassName": "c", "template": template, "serviceAccount": account},
            "status": {"activeBundle": "w-1", "inventory": {"properties": [is]}}}))
        .expect("a BundleDeployment")
    };
    let (wells, asking) = (needs("wells", ">=1.2.0"), || Dependent::Extension("p".to_owned()));
    seen.apply_watcher_event(&Event::Apply(deployment(json!({"namespace": "n", "name": "a"}))));
    assert!(!dependencies.are_met(asking(), "p", &wells));
    seen.apply_watcher_event(&Event::Apply(deployment(Value::Null)));
    assert_eq!(dependencies.woken(), [asking()]);
    assert!(dependencies.are_met(asking(), "p", &wells));
}

#[test]
fn whoever_waits_is_told_when_another_extension_may_move() {
    let (deployments, mut of_deployments) = reflector::store();
    let (operators, _) = reflector::store();
    let (extensions, mut of_extensions) = reflector::store();
    let (plans, _) = reflector::store();
    let dependencies = Dependencies::new(Stores { deployments, operators, extensions, plans }, |_| {});
    let mut shown = |version: Option<&str>, generation: u32| {
        let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "wells", "version": version}});
        let extension = json!({"metadata": {"name": "wells", "generation": generation}, "spec": {"source": source}});
        of_extensions
            .apply_watcher_event(&Event::Apply(serde_json::from_value(extension).expect("a ClusterExtension")));
    };
    let waiting = || Dependent::Extension("p".to_owned());
    shown(Some("1.0.0"), 1);
    dependencies.installed_for(&waiting());
    shown(Some("1.0.0"), 1);
    assert_eq!(dependencies.woken(), [], "its status is another, and nothing else");
    shown(None, 2);
    assert_eq!(dependencies.woken(), [waiting()]);

    dependencies.installed_for(&waiting());
    let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
    let condition = json!({"type": "Installed", "status": "True", "reason": "InstallationSucceeded", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut installed = |annotations: Value| {
        let deployment = json!({"metadata": {"name": deployment_name("wells"), "generation": 2, "annotations": annotations},
            "spec": {"provisionerClassName": "c", "template": template},
            "status": {"observedGeneration": 2, "conditions": [condition]}});
        of_deployments
            .apply_watcher_event(&Event::Apply(serde_json::from_value(deployment).expect("a BundleDeployment")));
    };
    installed(json!({UPGRADED_WITH: "{}"}));
    assert_eq!(dependencies.woken(), [waiting()], "what it asks for is installed");

    dependencies.installed_for(&waiting());
    installed(json!({UPGRADED_WITH: "{}", "other": "x"}));
    assert_eq!(dependencies.woken(), []);
    installed(json!({UPGRADED_WITH: "{\"isOver\": true}"}));
    assert_eq!(dependencies.woken(), [waiting()], "it may take part in other upgrades");
}

#[test]
fn whoever_waits_for_one_bundle_waits_on_though_another_has_what_it_needs() {
    let (deployments, mut of_deployments) = reflector::store();
    let (operators, _) = reflector::store();
    let (extensions, _) = reflector::store();
    let (plans, _) = reflector::store();
    let dependencies = Dependencies::new(Stores { deployments, operators, extensions, plans }, |_| {});
    let mut shown = |package: &str| {
        let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
        let is = json!({"type": "olm.package", "value": {"packageName": package, "version": "1.2.0"}});
        let deployment = json!({"metadata": {"name": package}, "spec": {"provisionerClassName": "c", "template": template},
            "status": {"activeBundle": package, "inventory": {"properties": [is]}}});
        of_deployments
            .apply_watcher_event(&Event::Apply(serde_json::from_value(deployment).expect("a BundleDeployment")));
    };
    let waiting = || Dependent::Extension("p".to_owned());
    assert!(!dependencies.are_met(waiting(), "p", &needs("wells", ">=1.0.0")));
    assert!(dependencies.are_met(waiting(), "p", &bundle_of("p", "2.0.0", &[])), "a newer one that is left out");
    shown("wells");
    assert!(!dependencies.are_met(waiting(), "p", &needs("springs", ">=1.0.0")), "before anybody is told");
    assert_eq!(dependencies.woken(), [waiting()]);
    assert_eq!(dependencies.woken(), []);
}

#[test]
fn whoever_is_held_up_by_a_dependent_is_told_when_that_is_another_version() {
    let (deployments, mut of_deployments) = reflector::store();
    let (operators, _) = reflector::store();
    let (extensions, _) = reflector::store();
    let (plans, _) = reflector::store();
    let dependencies = Dependencies::new(Stores { deployments, operators, extensions, plans }, |_| {});
    let mut shown = |package: &str, version: &str, needs: Option<&str>| {
        let template = json!({"spec": {"provisionerClassName": "c", "source": {"type": "image"}}});
        let is = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
        let needs = needs.map(
            |range| json!({"type": "olm.package.required", "value": {"packageName": "wells", "versionRange": range}}),
        );
        let properties: Vec<Value> = needs.into_iter().chain([is]).collect();
        let deployment = json!({"metadata": {"name": package}, "spec": {"provisionerClassName": "c", "template": template},
            "status": {"activeBundle": format!("{package}.v{version}"), "inventory": {"properties": properties}}});
        of_deployments
            .apply_watcher_event(&Event::Apply(serde_json::from_value(deployment).expect("a BundleDeployment")));
    };
    let (wells, next) = (Dependent::Extension("wells".to_owned()), bundle_of("wells", "2.0.0", &[]));
    shown("wells", "1.2.0", None);
    shown("p", "1.0.0", Some(">=1.0.0 <2.0.0"));
    assert!(!dependencies.dependents_for(&wells).broken_by("wells", &next).is_empty());
    assert_eq!(dependencies.woken(), []);
    shown("p", "1.1.0", Some(">=1.0.0 <3.0.0"));
    assert_eq!(dependencies.woken(), [wells], "p needs it still, and in another range");
    assert!(dependencies.demanding_dependents().broken_by("wells", &next).is_empty());
}

#[test]
fn whoever_may_have_been_answered_while_nobody_watched_looks_again() {
    let (deployments, _) = reflector::store();
    let (operators, mut of_operators) = reflector::store();
    let (extensions, mut of_extensions) = reflector::store();
    let (plans, _) = reflector::store();
    let (sender, woken) = std::sync::mpsc::channel();
    let wake = move |dependent| sender.send(dependent).expect("it is received");
    let dependencies = Dependencies::new(Stores { deployments, operators, extensions, plans }, wake);
    let operator = json!({"metadata": {"name": "o"}, "spec": {"package": {"name": "o"}}});
    of_operators.apply_watcher_event(&Event::Apply(serde_json::from_value(operator).expect("a PlatformOperator")));
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "e"}});
    let extension = json!({"metadata": {"name": "e"}, "spec": {"namespace": "ns", "source": source}});
    of_extensions.apply_watcher_event(&Event::Apply(serde_json::from_value(extension).expect("a ClusterExtension")));

    dependencies.planned(&Change::Listed { since: std::time::Instant::now() });
    let all = [Dependent::Operator("o".to_owned()), Dependent::Extension("e".to_owned())];
    assert_eq!(woken.try_iter().collect::<Vec<_>>(), all);
    let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": "u",
        "controller": true});
    let mut plan = Plan::default();
    plan.metadata.owner_references = Some(vec![serde_json::from_value(owner).expect("an owner")]);
    dependencies.planned(&Change::Gone(Arc::new(plan)));
    assert_eq!(woken.try_iter().collect::<Vec<_>>(), all[1..]);
}
