//! The parts of a policy as expressions of CEL. Texts are written as JSON strings, which CEL reads alike.

use serde_json::json;

use super::{Package, Rule, Source, Subject};

/// What `*` stands for where a path or a name is meant.
const SEGMENT: &str = "[^/]*";
/// And in versions: none of what ranges are made of.
const VERSION: &str = "[0-9A-Za-z.+-]*";

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

/// A BundleDeployment that the rule allows. Bundles are not made by tenants: they say nothing of an account.
pub(super) fn deployment(rule: &Rule) -> String {
    let accounts = rule.service_accounts.iter().map(|account| {
        let (name, namespace) = (json!(account.name), json!(account.namespace));
        format!(
            "(variables.target.spec.serviceAccount.name == {name} && variables.target.spec.serviceAccount.namespace == {namespace})"
        )
    });
    let account = format!("has(variables.target.spec.serviceAccount) && {}", any(accounts));
    let source = any(rule.sources.iter().map(source));
    format!(
        "request.resource.resource == 'bundledeployments' && {} && (request.operation == 'DELETE' || ({account} && {source}))",
        names(rule)
    )
}

/// A PlatformOperator or ClusterExtension that the rule allows.
pub(super) fn package(rule: &Rule) -> String {
    let packages =
        any(rule.packages.iter().map(|package| format!("({} || {})", operator(package), extension(package))));
    format!("{} && (request.operation == 'DELETE' || {packages})", names(rule))
}

fn names(rule: &Rule) -> String {
    any(rule.names.iter().map(|pattern| matches("variables.target.metadata.name", pattern, SEGMENT)))
}

fn source(source: &Source) -> String {
    let at = "variables.target.spec.template.spec.source";
    let of = |member: &str, field: &str, pattern: &str| {
        format!("(has({at}.{member}) && {})", matches(&format!("{at}.{member}.{field}"), pattern, SEGMENT))
    };
    match source {
        Source::Image(pattern) => of("image", "ref", pattern),
        Source::Git(pattern) => of("git", "repository", pattern),
        Source::Http(pattern) => of("http", "url", pattern),
        Source::Upload => format!("has({at}.upload)"),
        Source::ConfigMaps(pattern) => {
            let each = matches("each.configMap.name", pattern, SEGMENT);
            format!("(has({at}.configMaps) && {at}.configMaps.all(each, {each}))")
        }
    }
}

fn operator(package: &Package) -> String {
    let at = "variables.target.spec.package";
    let mut all = vec![
        "request.resource.resource == 'platformoperators'".to_owned(),
        format!("{at}.name == {}", json!(package.name)),
    ];
    if !package.channels.is_empty() {
        all.push(format!("has({at}.channel) && {at}.channel in {}", json!(package.channels)));
    }
    all.extend(version(at, package));
    format!("({})", all.join(" && "))
}

fn extension(package: &Package) -> String {
    let at = "variables.target.spec.source.catalog";
    let mut all = vec![
        "request.resource.resource == 'clusterextensions'".to_owned(),
        format!("has({at})"),
        format!("{at}.packageName == {}", json!(package.name)),
    ];
    if !package.channels.is_empty() {
        let channels = json!(package.channels);
        all.push(format!(
            "has({at}.channels) && size({at}.channels) > 0 && {at}.channels.all(each, each in {channels})"
        ));
    }
    all.extend(version(at, package));
    format!("({})", all.join(" && "))
}

fn version(at: &str, package: &Package) -> Option<String> {
    let patterns = package.versions.iter().map(|pattern| matches(&format!("{at}.version"), pattern, VERSION));
    (!package.versions.is_empty()).then(|| format!("has({at}.version) && {}", any(patterns)))
}

/// The text is of the pattern, from its beginning to its end.
fn matches(text: &str, pattern: &str, star: &str) -> String {
    let mut expression = "^".to_owned();
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**").filter(|_| star == SEGMENT) {
            expression.push_str(".*");
            rest = after;
            continue;
        }
        match letter {
            '*' => expression.push_str(star),
            letter if letter.is_ascii_alphanumeric() || "/:@_-".contains(letter) || !letter.is_ascii() => {
                expression.push(letter);
            }
            letter => expression.extend(['\\', letter]),
        }
        rest = &rest[letter.len_utf8()..];
    }
    expression.push('$');
    format!("{text}.matches({})", json!(expression))
}
