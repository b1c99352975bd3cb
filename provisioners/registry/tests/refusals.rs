//! Bundles that are refused: what is said, and where.

use rukpak_content::{Limits, RelativePath};
use rukpak_registry::gate::{self, Refusal};
use rukpak_registry::validate::{Findings, Rule};
use rukpak_registry::{load, validate};

mod support;

use support::chain;
use support::fixture::{CSV, kite, text};

const CRD: &str = "manifests/kites.crd.yaml";

fn load_error(changes: &[(&str, &str)]) -> String {
    chain(&load(&kite(changes), &Limits::default()).expect_err("the bundle is refused"))
}

/// The findings for the CSV with texts replaced, and files changed.
fn findings(replacements: &[(&str, &str)], changes: &[(&str, &str)]) -> Vec<(Rule, String)> {
    let csv = replacements.iter().fold(text(CSV).to_owned(), |csv, (from, to)| {
        assert!(csv.contains(from), "{from}");
        csv.replace(from, to)
    });
    let mut all = vec![(CSV, csv.as_str())];
    all.extend(changes);
    let bundle = load(&kite(&all), &Limits::default()).unwrap_or_else(|error| panic!("{}", chain(&error)));
    let Err(Findings(findings)) = validate(&bundle) else { return Vec::new() };
    findings.iter().map(|finding| (finding.rule, finding.located())).collect()
}

#[test]
fn files_are_refused_with_their_name() {
    assert!(
        load_error(&[("metadata/annotations.yaml", "")])
            .starts_with("open metadata/annotations.yaml: file does not exist")
    );
    let no_csv = [(CSV, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")];
    assert_eq!(load_error(&no_csv), "no ClusterServiceVersion found in \"manifests\"");
    assert_eq!(
        load_error(&[("manifests/a/b.yaml", "a: b")]),
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"manifests/a\""
    );
    for (body, cause) in [
        (
            "a: b",
            "unable to decode \"manifests/0.yaml\": Object 'Kind' is missing: manifests/0.yaml, document 1 (line 1)",
        ),
        (
            "kind: A",
            "unable to decode \"manifests/0.yaml\": Object 'apiVersion' is missing: manifests/0.yaml, document 1 (line 1)",
        ),
        (
            "text",
            "manifests/0.yaml, document 1 (line 1): a string, not an object: every file in manifests/ is read as a manifest",
        ),
        ("{apiVersion: v1, kind: List, items: {}}", "manifests/0.yaml, document 1 (line 1): items is not a list"),
    ] {
        let expected = format!("error parsing objects in \"manifests/0.yaml\": {cause}");
        assert_eq!(load_error(&[("manifests/0.yaml", body)]), expected);
    }
}

#[test]
fn wrong_types_are_refused_with_their_path() {
    let csv = text(CSV).replace("supported: false", "supported: never");
    let error = load_error(&[(CSV, &csv)]);
    assert!(error.contains("document 1 (line 1): spec.installModes[1].supported: invalid type"), "{error}");
    let crd = text(CRD).replace("served: true", "served: 'yes'");
    let error = load_error(&[(CRD, &crd)]);
    assert!(error.ends_with("spec.versions[0].served: a string, not a boolean"), "{error}");
    let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: [a]}";
    let error = load_error(&[("metadata/annotations.yaml", annotations)]);
    assert!(error.starts_with("metadata/annotations.yaml: annotations[\"operators."), "{error}");
}

#[test]
fn limits_are_named() {
    let limits = Limits { objects: 2, ..Limits::default() };
    let error = chain(&load(&kite(&[]), &limits).unwrap_err());
    assert!(error.contains("more than the limit of 2 objects in a bundle (--limit=objects)"), "{error}");
}

#[test]
fn dependencies_that_cannot_be_read_are_a_remark() {
    let bundle = load(&kite(&[("metadata/dependencies.yaml", "dependencies: 5")]), &Limits::default()).unwrap();
    assert!(
        bundle.remarks().iter().any(|remark| remark.starts_with("dependencies are not read")),
        "{:?}",
        bundle.remarks()
    );
}

#[test]
fn the_fixture_is_valid() {
    assert_eq!(findings(&[], &[]), []);
}

/// A rule, what is changed in the CSV, and how the finding begins after its place.
type Case = (Rule, &'static [(&'static str, &'static str)], &'static str);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_rule_names_its_field() {
    let cases: [Case; 10] = [
        (
            Rule::DeploymentName,
            &[("kite.manager", "Kite_Manager")],
            "spec.install.spec.deployments[0].name: invalid cluster service version strategy deployment name 'Kite_Manager': a lowercase",
        ),
        (
            Rule::CrdShipped,
            &[("name: kites.sky.example.org, kind", "name: cats.sky.example.org, kind")],
            "spec.customresourcedefinitions.owned[0].name: cluster service definition references owned custom resource definition 'cats.sky.example.org' not found",
        ),
        (
            Rule::ConversionInstallMode,
            &[("OwnNamespace, supported: false", "OwnNamespace, supported: true")],
            "spec.webhookdefinitions[2].type: bundle contains conversion webhook \"ckite.example.org\" and supports install modes [AllNamespaces OwnNamespace] - conversion",
        ),
        (
            Rule::WebhookDeployment,
            &[(
                "deploymentName: kite.manager\n      admissionReviewVersions: [v1]\n      containerPort: 444",
                "deploymentName: lost",
            )],
            "spec.webhookdefinitions[2].deploymentName: webhook of type 'ConversionWebhook' with name 'ckite.example.org' references non-existent deployment 'lost'",
        ),
        (
            Rule::WebhookUnique,
            &[(
                "MutatingAdmissionWebhook\n      generateName: mkite",
                "ValidatingAdmissionWebhook\n      generateName: vkite",
            )],
            "spec.webhookdefinitions[1].generateName: duplicate webhook 'vkite.example.org' of type 'ValidatingAdmissionWebhook'",
        ),
        (
            Rule::WebhookName,
            &[("mkite.example.org", "-mkite")],
            "spec.webhookdefinitions[1].generateName: webhook of type 'MutatingAdmissionWebhook' has invalid name '-mkite': a lowercase",
        ),
        (
            Rule::ConversionUnique,
            &[("MutatingAdmissionWebhook", "ConversionWebhook\n      conversionCRDs: [kites.sky.example.org]")],
            "spec.webhookdefinitions[1].conversionCRDs: conversion webhooks [ckite.example.org,mkite.example.org] reference same custom resource definition",
        ),
        (
            Rule::ConversionOwned,
            &[("conversionCRDs: [kites", "conversionCRDs: [cats")],
            "spec.webhookdefinitions[2].conversionCRDs: conversion webhook 'ckite.example.org' references custom resource definition 'cats.sky.example.org' not owned bundle",
        ),
        (
            Rule::WebhookRules,
            &[("apiGroups: [sky.example.org], apiVersions", "apiGroups: ['*'], apiVersions")],
            "spec.webhookdefinitions[0].rules[0]: webhook \"vkite.example.org\" contains forbidden rule: admission webhook rules cannot reference API group \"*\"",
        ),
        (
            Rule::WebhookType,
            &[("MutatingAdmissionWebhook", "OtherWebhook")],
            "spec.webhookdefinitions[1].type: webhook 'mkite.example.org' has unknown type 'OtherWebhook'",
        ),
    ];
    for (rule, replacements, expected) in cases {
        let found = findings(replacements, &[]);
        let matching = found.iter().find(|(found, _)| *found == rule);
        let expected = format!("{CSV}, document 1 (line 1), {expected}");
        assert!(matching.is_some_and(|(_, text)| text.starts_with(&expected)), "{rule:?}: {found:#?}");
    }
}

#[test]
fn resources_of_the_admission_group_are_forbidden_whatever_their_case() {
    let rule = (
        "apiGroups: [sky.example.org], apiVersions: [v1], operations: [CREATE], resources: [kites]",
        "apiGroups: [admissionregistration.k8s.io], resources: [pods, ValidatingWebhookConfigurations]",
    );
    let found = findings(&[rule], &[]);
    assert_eq!(found.len(), 1);
    assert!(found[0].1.ends_with(
        "cannot reference resource \"ValidatingWebhookConfigurations\" for API group \"admissionregistration.k8s.io\""
    ));
}

#[test]
fn all_findings_are_told_at_once_in_the_order_of_the_rules() {
    let other =
        "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {}\n";
    let twice = text(CRD);
    let annotations = "annotations: {a: b}";
    let deployments = (
        "        - name: kite.manager\n",
        "        - name: kite.manager\n          spec: {}\n        - name: kite.manager\n",
    );
    let found = findings(
        &[deployments],
        &[("manifests/z.yaml", other), ("manifests/twice.yaml", twice), ("metadata/annotations.yaml", annotations)],
    );
    let rules: Vec<_> = found.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(rules, [Rule::DeploymentUnique, Rule::CrdUnique, Rule::PackageName, Rule::Kind, Rule::Object]);
    assert_eq!(
        found[1].1,
        "manifests/twice.yaml, document 1 (line 1), metadata.name: bundle contains duplicate custom resource definition 'kites.sky.example.org'"
    );
    assert!(found[2].1.starts_with("metadata/annotations.yaml, annotations["), "{}", found[2].1);
    assert_eq!(found[3].1, "manifests/z.yaml, document 1 (line 1), kind: unsupported resource \"\" with kind \"Pod\"");
    assert!(found[4].1.contains("metadata.name is missing"), "{}", found[4].1);
}

#[test]
fn the_gates_have_the_words_of_both_references() {
    let gated = |from: &str, to: &str, watches| {
        let csv = text(CSV).replace(from, to);
        let bundle = load(&kite(&[(CSV, &csv)]), &Limits::default()).unwrap();
        (gate::check(&bundle).err(), gate::check_v1alpha1(&bundle, watches).err())
    };
    assert_eq!(gated("", "", false), (None, None));
    let (v1, v1alpha1) = gated("AllNamespaces, supported: true", "SingleNamespace, supported: true", false);
    assert_eq!((v1, v1alpha1.as_ref()), (None, Some(&Refusal::NotAllNamespaces)));
    assert_eq!(v1alpha1.unwrap().v1alpha1_text(), "AllNamespace install mode must be enabled");
    assert_eq!(gated("AllNamespaces, supported: true", "SingleNamespace, supported: true", true).1, None);
    let (v1, _) = gated("AllNamespaces, supported: true", "MultiNamespace, supported: true", true);
    assert_eq!(v1, Some(Refusal::InstallModes));
    let mut tree = kite(&[]);
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n".into();
    tree.add_file(RelativePath::new("manifests/job.yaml").unwrap(), false, job);
    let refusal = gate::check_v1alpha1(&load(&tree, &Limits::default()).unwrap(), false).unwrap_err();
    assert_eq!(refusal.v1alpha1_text(), "bundle contains unsupported resource: Name: j, Kind: Job");
}

/// OLM's packaging rules, which its renderer does not look at: published bundles that break them go on being installed.
#[test]
fn packaging_rules_are_remarked_upon_and_refuse_nothing() {
    let remarks = |changes: &[(&str, &str)]| load(&kite(changes), &Limits::default()).unwrap().remarks();
    assert_eq!(remarks(&[]), Vec::<String>::new());

    let package = "annotations:\n  operators.operatorframework.io.bundle.package.v1: kite\n";
    for channels in ["", "  operators.operatorframework.io.bundle.channels.v1: \" , \"\n"] {
        let annotations = format!("{package}{channels}");
        let expected = "metadata/annotations.yaml: operators.operatorframework.io.bundle.channels.v1 names no channel: a \
                        catalog takes the bundle into none";
        assert_eq!(remarks(&[("metadata/annotations.yaml", &annotations)]), [expected]);
    }

    let older = text(CSV).replace("kite.v1.2.0", "kite.v1.1.0");
    let before = ("manifests/a.yaml", older.as_str());
    let expected = format!(
        "manifests/a.yaml, document 1 (line 1): a bundle has one ClusterServiceVersion: this one is left out, that of {CSV}, \
         document 1 (line 1) counts"
    );
    assert_eq!(remarks(&[before]), [expected]);
    let bundle = load(&kite(&[before]), &Limits::default()).unwrap();
    assert_eq!(bundle.csv.metadata.name, "kite.v1.2.0", "the last one, as the reference has it");
}

#[test]
fn a_bundle_for_a_newer_kubernetes_is_refused_by_an_older_one() {
    let needs = |version: &str| {
        let csv = text(CSV).replace("  install:\n", &format!("  minKubeVersion: {version:?}\n  install:\n"));
        load(&kite(&[(CSV, &csv)]), &Limits::default()).unwrap()
    };
    let refusal = |version: &str, server: &str| needs(version).check_kubernetes(server).err().map(|it| it.to_string());
    let text = "CSV version requirement not met: minKubeVersion (1.30.0) > server version (1.20.2)";
    assert_eq!(refusal("1.30.0", "v1.20.2").as_deref(), Some(text));
    assert_eq!(refusal("1.30.0", "v1.20.2-eks-a1b2c3+more").as_deref(), Some(text));
    assert!(refusal("v1.20.3", "v1.20.2").is_some() && refusal("1.21", "v1.20.2").is_some());
    for enough in ["1.20.2", "v1.19.0-0", "1.20", "1.9.11", ""] {
        // A vendor's version is not one before the release.
        assert_eq!(refusal(enough, "v1.20.2-gke.100"), None, "{enough}");
    }
    // What cannot be read refuses nothing.
    assert_eq!((refusal("newest", "v1.20.2"), refusal("1.30.0", "a fork")), (None, None));
    let remarks = needs("newest").remarks();
    let expected = ", spec.minKubeVersion: \"newest\" is no version such as 1.25.0: no cluster is too old for it";
    assert!(remarks.len() == 1 && remarks[0].ends_with(expected), "{remarks:?}");
}
