//! The parts of a policy as expressions of CEL. Texts are written as JSON strings, which CEL reads alike.
//!
//! Fields are allowed by their names: one that a later version of the API has is refused to whom a rule names, until the policy is made
//! by a `rukpakctl` that knows it.

use rukpak_crds::names::DEPENDENCIES;
use rukpak_crds::olm::CATALOG_NAME_LABEL;
use serde_json::json;

use super::pattern::{self, Fault, Of};
use super::{Package, Rule, Source, Subject};

/// An expression, or the pattern that none can be made of.
type Made = Result<String, (String, Fault)>;

/// Fields of specs, by where they stand. What is in none is not allowed.
pub(super) const DEPLOYMENT_FIELDS: [&str; 16] = [
    "provisionerClassName",
    "template",
    "config",
    "suspend",
    "rollbackTo",
    "progressDeadline",
    "deletionPolicy",
    "dependsOn",
    "revisionHistoryLimit",
    "serviceAccount",
    "ignoreDifferences",
    "healthChecks",
    // The account needs the right to patch what it takes.
    "takeOver",
    // Who may write it may also have nothing asked: an approval keeps nobody from what a rule lets them do.
    "approval",
    "approvedPlan",
    "windows",
];
pub(super) const OPERATOR_FIELDS: [&str; 6] =
    ["package", "upgradePolicy", "approval", "windows", "dependencies", "apiRoles"];
pub(super) const OPERATOR_PACKAGE_FIELDS: [&str; 4] = ["name", "channel", "version", "catalog"];
pub(super) const EXTENSION_FIELDS: [&str; 6] =
    ["namespace", "serviceAccount", "source", "install", "config", "progressDeadlineMinutes"];
pub(super) const EXTENSION_CATALOG_FIELDS: [&str; 5] =
    ["packageName", "version", "channels", "selector", "upgradeConstraintPolicy"];

const SOURCE: &str = "variables.source";

/// One of them holds.
pub(super) fn any(expressions: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = expressions.into_iter().collect();
    if all.is_empty() { "false".to_owned() } else { format!("({})", all.join(" || ")) }
}

/// The request is theirs.
pub(super) fn subject(subject: &Subject) -> String {
    match subject {
        Subject::User(name) => format!("request.userInfo.username == {}", json!(name)),
        Subject::Group(name) => format!("{} in request.userInfo.groups", json!(name)),
        Subject::ServiceAccount(account) => format!("request.userInfo.username == {}", json!(account.user_name())),
    }
}

/// What rules ask of a BundleDeployment. The addresses of git and http sources are empty where they are none that a pattern may be of.
pub(super) fn deployment_variables() -> Vec<(&'static str, String)> {
    let (spec, source) = ("variables.target.spec", "variables.source");
    let address = |member: &str, field: &str| {
        let (member, form) = (format!("{source}.{member}"), json!(pattern::addresses()));
        format!("has({member}) && {member}.{field}.matches({form}) ? {member}.{field} : ''")
    };
    let account = format!("{spec}.serviceAccount");
    vec![
        ("source", format!("{spec}.template.spec.source")),
        ("account", format!("has({account}) ? {account}.namespace + '/' + {account}.name : ''")),
        ("repository", address("git", "repository")),
        ("url", address("http", "url")),
        (
            "deployment",
            format!("request.resource.resource == 'bundledeployments' && {}", only(spec, &DEPLOYMENT_FIELDS)),
        ),
    ]
}

/// What of a ClusterExtension no rule decides: upgrades follow the catalog, and are checked.
pub(super) fn package_variables() -> Vec<(&'static str, String)> {
    let (spec, catalog) = ("variables.target.spec", "variables.target.spec.source.catalog");
    let safety = format!("{spec}.install.preflight.crdUpgradeSafety.enforcement");
    let (annotations, dependencies) = ("variables.target.metadata.annotations", json!(DEPENDENCIES));
    let expression = [
        only(spec, &EXTENSION_FIELDS),
        // Without one the bundle chooses, and its author is in no rule.
        format!("has({spec}.namespace)"),
        only(&format!("{spec}.source"), &["sourceType", "catalog"]),
        format!("has({catalog})"),
        only(catalog, &EXTENSION_CATALOG_FIELDS),
        format!("(!has({catalog}.upgradeConstraintPolicy) || {catalog}.upgradeConstraintPolicy == 'CatalogProvided')"),
        format!("(!has({spec}.install) || {safety} == 'Strict')"),
        // What it depends on is in no rule: whoever may approve Plans decides.
        format!(
            "(!has({annotations}) || !({dependencies} in {annotations}) || {annotations}[{dependencies}] != 'Install')"
        ),
    ];
    vec![("extension", expression.join(" && "))]
}

/// A BundleDeployment that the rule allows. Bundles are not made by tenants: they say nothing of an account.
pub(super) fn deployment(rule: &Rule) -> Made {
    let accounts = rule.service_accounts.iter().map(|account| format!("{}/{}", account.namespace, account.name));
    let accounts: Vec<String> = accounts.collect();
    let sources = rule.sources.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    Ok(format!(
        "variables.deployment && {} && (request.operation == 'DELETE' || (variables.account in {} && {}))",
        names(&rule.names, "variables.name")?,
        json!(accounts),
        any(sources)
    ))
}

/// A PlatformOperator or ClusterExtension that the rule allows. ClusterCatalogs say what packages are: they are no tenant's.
pub(super) fn package(rule: &Rule) -> Made {
    let made = |package: &Package| Ok([operator(package)?, extension(package)?]);
    let packages = rule.packages.iter().map(made).collect::<Result<Vec<_>, _>>()?;
    Ok(format!(
        "request.resource.resource != 'clustercatalogs' && {} && (request.operation == 'DELETE' || {})",
        names(&rule.names, "variables.name")?,
        any(packages.into_iter().flatten())
    ))
}

fn names(patterns: &[String], text: &str) -> Made {
    let all = patterns.iter().map(|pattern| matches(text, pattern, Of::Names)).collect::<Result<Vec<_>, _>>()?;
    Ok(any(all))
}

/// The object at `at` has no other fields than these.
fn only(at: &str, fields: &[&str]) -> String {
    format!("{at}.all(field, field in {})", json!(fields))
}

fn source(source: &Source) -> Made {
    Ok(match source {
        Source::Image(pattern) => {
            let reference = matches(&format!("{SOURCE}.image.ref"), pattern, Of::Images)?;
            format!("({SOURCE}.type == 'image' && has({SOURCE}.image) && {reference})")
        }
        Source::Git(pattern) => {
            let fits = matches("variables.repository", pattern, Of::Addresses)?;
            format!("({SOURCE}.type == 'git' && variables.repository != '' && {fits})")
        }
        Source::Http(pattern) => {
            let fits = matches("variables.url", pattern, Of::Addresses)?;
            format!("({SOURCE}.type == 'http' && variables.url != '' && {fits})")
        }
        Source::Upload => format!("({SOURCE}.type == 'upload' && has({SOURCE}.upload))"),
        Source::ConfigMaps(pattern) => {
            let each = matches("each.configMap.name", pattern, Of::Names)?;
            let each = format!("(!has(each.kind) || each.kind == 'ConfigMap') && {each}");
            format!(
                "({SOURCE}.type == 'configMaps' && has({SOURCE}.configMaps) && {SOURCE}.configMaps.all(each, {each}))"
            )
        }
    })
}

fn operator(package: &Package) -> Made {
    let at = "variables.target.spec.package";
    let mut all = vec![
        "request.resource.resource == 'platformoperators'".to_owned(),
        only("variables.target.spec", &OPERATOR_FIELDS),
        only(at, &OPERATOR_PACKAGE_FIELDS),
        // What it depends on is in no rule: whoever may approve Plans decides.
        "(!has(variables.target.spec.dependencies) || variables.target.spec.dependencies != 'Install')".to_owned(),
        format!("{at}.name == {}", json!(package.name)),
    ];
    if !package.channels.is_empty() {
        all.push(format!("has({at}.channel) && {at}.channel in {}", json!(package.channels)));
    }
    all.push(match package.catalogs.as_slice() {
        [] => format!("!has({at}.catalog)"),
        catalogs => format!("has({at}.catalog) && {at}.catalog in {}", json!(catalogs)),
    });
    all.extend(version(at, package)?);
    Ok(format!("({})", all.join(" && ")))
}

fn extension(package: &Package) -> Made {
    let at = "variables.target.spec.source.catalog";
    let mut all = vec![
        "request.resource.resource == 'clusterextensions'".to_owned(),
        "variables.extension".to_owned(),
        names(&package.namespaces, "variables.target.spec.namespace")?,
        format!("{at}.packageName == {}", json!(package.name)),
    ];
    if !package.config {
        all.push("!has(variables.target.spec.config)".to_owned());
    }
    if !package.channels.is_empty() {
        let channels = json!(package.channels);
        all.push(format!(
            "has({at}.channels) && size({at}.channels) > 0 && {at}.channels.all(each, each in {channels})"
        ));
    }
    all.push(match package.catalogs.as_slice() {
        [] => format!("!has({at}.selector)"),
        catalogs => selector(&format!("{at}.selector"), catalogs),
    });
    all.extend(version(at, package)?);
    Ok(format!("({})", all.join(" && ")))
}

/// The selector chooses none but these ClusterCatalogs, by the label with their name. What else it asks for leaves out more.
fn selector(at: &str, catalogs: &[String]) -> String {
    let names: Vec<&str> = catalogs.iter().map(|name| name.strip_prefix("ClusterCatalog/").unwrap_or(name)).collect();
    let (label, names) = (json!(CATALOG_NAME_LABEL), json!(names));
    format!("has({at}) && has({at}.matchLabels) && {label} in {at}.matchLabels && {at}.matchLabels[{label}] in {names}")
}

fn version(at: &str, package: &Package) -> Result<Option<String>, (String, Fault)> {
    let patterns = package.versions.iter().map(|pattern| matches(&format!("{at}.version"), pattern, Of::Versions));
    let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
    Ok((!patterns.is_empty()).then(|| format!("has({at}.version) && {}", any(patterns))))
}

/// The text is of the pattern, from its beginning to its end.
fn matches(text: &str, pattern: &str, of: Of) -> Made {
    let expression = pattern::expression(pattern, of).map_err(|fault| (pattern.to_owned(), fault))?;
    Ok(format!("{text}.matches({})", json!(expression)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rukpak_crds::definition;
    use serde_json::Value;

    use super::*;

    /// A new field of a kind is allowed or refused by somebody who has looked at it.
    #[test]
    fn every_field_of_a_spec_is_judged() {
        fn fields(schema: &Value) -> BTreeSet<&str> {
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
        }
        fn set(known: &[&'static str]) -> BTreeSet<&'static str> {
            known.iter().copied().collect()
        }
        let spec = |definition: Result<Value, serde_json::Error>| {
            let mut definition = definition.unwrap();
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].take()
        };
        let deployment = spec(definition::bundle_deployment());
        let operator = spec(definition::platform_operator());
        let extension = spec(definition::cluster_extension());
        assert_eq!(fields(&deployment), set(&DEPLOYMENT_FIELDS));
        assert_eq!(fields(&operator), set(&OPERATOR_FIELDS));
        assert_eq!(fields(&operator["properties"]["package"]), set(&OPERATOR_PACKAGE_FIELDS));
        assert_eq!(fields(&extension), set(&EXTENSION_FIELDS));
        let source = &extension["properties"]["source"];
        assert_eq!(fields(source), set(&["sourceType", "catalog"]));
        assert_eq!(fields(&source["properties"]["catalog"]), set(&EXTENSION_CATALOG_FIELDS));
    }
}
