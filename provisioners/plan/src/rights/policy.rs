//! What tenants may install, as ValidatingAdmissionPolicies (Kubernetes 1.30 and later).
//!
//! An InstallPolicy is a short document; it limits those whom its rules name, and nobody else. A request of theirs passes if one of the
//! rules that name them allows it. What RBAC does not let them do they may not do for that.
//!
//! ```text
//! InstallPolicy --objects--> ValidatingAdmissionPolicy for BundleDeployments; Bundles and ContentPolicies are refused
//!                            the same for packages: PlatformOperators and ClusterExtensions; ClusterCatalogs are refused
//!                            a binding of each, behind both
//! ```
//!
//! A policy that an API server would not take is not made: its binding alone would limit nobody. What cannot be evaluated is refused, and
//! so is a field that this program does not know ([`cel`]).

mod cel;
mod pattern;

use std::collections::BTreeSet;

pub use pattern::Fault;
use rukpak_crds::ServiceAccountReference;
use serde::Deserialize;
use serde_json::{Value, json};

/// Who may install what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallPolicy {
    /// Part of the names of the admission policies.
    pub name: String,
    /// What is allowed to whom. At least one.
    pub rules: Vec<Rule>,
}

/// What is allowed to some.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Whom it is for.
    pub subjects: Vec<Subject>,
    /// Names that their objects may have: patterns, in which `*` stands for any text without a slash and `**` for any text.
    pub names: Vec<String>,
    /// The ServiceAccounts that BundleDeployments may be installed with. One of them has to be named.
    #[serde(default)]
    pub service_accounts: Vec<ServiceAccountReference>,
    /// Where their bundles may be from.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// The packages that PlatformOperators and ClusterExtensions may ask for. They are installed with the controller's rights.
    #[serde(default)]
    pub packages: Vec<Package>,
}

/// Somebody, as the API server knows them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Subject {
    /// A user by name.
    User(String),
    /// Everybody in a group.
    Group(String),
    /// A ServiceAccount.
    ServiceAccount(ServiceAccountReference),
}

/// Sources of one type.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Source {
    /// Images whose reference is of this pattern.
    Image(String),
    /// Repositories whose URL is of this pattern.
    Git(String),
    /// Archives whose URL is of this pattern.
    Http(String),
    /// What is uploaded.
    Upload,
    /// ConfigMaps of the system namespace, whose names are of this pattern.
    ConfigMaps(String),
}

/// A package of catalogs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Channels that may be asked for; one has to be. Empty: any, or none.
    #[serde(default)]
    pub channels: Vec<String>,
    /// What may be asked for as the version: patterns, in which `*` stands for letters, digits and `.+-`, so that no range is hidden in
    /// it. Empty: anything, or nothing.
    #[serde(default)]
    pub versions: Vec<String>,
    /// The namespaces that a ClusterExtension may be installed into: patterns as for names. Empty: there is no ClusterExtension.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Catalogs that may be asked for; one has to be. Empty: none is asked for, so that their priorities decide.
    #[serde(default)]
    pub catalogs: Vec<String>,
    /// Whether a ClusterExtension may have settings (`spec.config`). They change the operator's Pods: volumes, environment, command.
    #[serde(default)]
    pub config: bool,
}

/// Why no admission policies are made of an InstallPolicy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There are no rules.
    #[error("rules is empty: the policy would limit nobody")]
    NoRules,
    /// A rule is for nobody.
    #[error("rules[{0}].subjects is empty: the rule would be for nobody")]
    NoSubjects(usize),
    /// A pattern could be taken for another place than it says.
    #[error("rules[{rule}]: pattern {pattern:?}: {fault}")]
    Pattern {
        /// The index of the rule.
        rule: usize,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// API servers refuse it, or `kubectl apply` does.
    #[error(
        "{what} would have {size} {unit}, more than the {limit} that {who} takes: name fewer subjects and patterns in a rule, or give \
         groups rules of their own in InstallPolicies that name nobody in common"
    )]
    TooLarge {
        /// Which policy, and what of it.
        what: String,
        /// How large it is.
        size: usize,
        /// Of what.
        unit: &'static str,
        /// How large it may be.
        limit: usize,
        /// Who says so.
        who: &'static str,
    },
}

/// Longest expression that the CEL of API servers reads.
const EXPRESSION_MAX: usize = 100_000;
/// Largest policy. `kubectl apply` keeps a copy of it in an annotation, and annotations have at most 256 KiB in all.
const POLICY_BYTES_MAX: usize = 260_000;

/// A policy with what it is about.
struct Part {
    suffix: &'static str,
    resources: Vec<Value>,
    /// Expressions that rules share, by their names.
    variables: Vec<(&'static str, String)>,
    /// What is allowed by the rules that allow anything of the kind: whom they are for, and what.
    allowed: Vec<(String, String)>,
}

/// Makes the admission policies, and then their bindings: nothing is bound to a policy that has not been sent before.
///
/// # Errors
/// If a rule would limit nobody, a pattern is none, or an API server would refuse a policy.
pub fn objects(policy: &InstallPolicy) -> Result<Vec<Value>, PolicyError> {
    if policy.rules.is_empty() {
        return Err(PolicyError::NoRules);
    }
    if let Some(rule) = policy.rules.iter().position(|rule| rule.subjects.is_empty()) {
        return Err(PolicyError::NoSubjects(rule));
    }

    let (mut policies, mut bindings) = (Vec::new(), Vec::new());
    for part in [deployments(policy)?, packages(policy)?] {
        let name = format!("rukpak-install-policy-{}{}", policy.name, part.suffix);
        policies.push(admission(&name, policy, &part)?);
        bindings.push(json!({
            "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }));
    }
    policies.extend(bindings);
    Ok(policies)
}

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

fn deployments(policy: &InstallPolicy) -> Result<Part, PolicyError> {
    let allowed = allowed(policy, |rule| !rule.sources.is_empty(), cel::deployment)?;
    let resources = vec![
        resources("core.rukpak.io", &["bundledeployments", "bundles", "contentpolicies"]),
        // Any objects, with the controller's rights: no rule is for them.
        resources("olm.operatorframework.io", &["clusterobjectsets"]),
    ];
    Ok(Part { suffix: "", resources, variables: cel::deployment_variables(), allowed })
}

fn packages(policy: &InstallPolicy) -> Result<Part, PolicyError> {
    let allowed = allowed(policy, |rule| !rule.packages.is_empty(), cel::package)?;
    let resources = vec![
        resources("platform.openshift.io", &["platformoperators"]),
        resources("olm.operatorframework.io", &["clusterextensions", "clustercatalogs"]),
    ];
    Ok(Part { suffix: "-packages", resources, variables: cel::package_variables(), allowed })
}

fn allowed(
    policy: &InstallPolicy,
    says_anything: fn(&Rule) -> bool,
    allows: fn(&Rule) -> Result<String, (String, Fault)>,
) -> Result<Vec<(String, String)>, PolicyError> {
    let rules = policy.rules.iter().enumerate().filter(|(_, rule)| says_anything(rule));
    let allowed = rules.map(|(index, rule)| {
        let allowed = allows(rule).map_err(|(pattern, fault)| PolicyError::Pattern { rule: index, pattern, fault })?;
        Ok((cel::any(rule.subjects.iter().map(cel::subject)), allowed))
    });
    allowed.collect()
}

fn resources(group: &str, resources: &[&str]) -> Value {
    let operations = json!(["CREATE", "UPDATE", "DELETE"]);
    // A status says what the programs go on from.
    let all: Vec<String> = resources.iter().flat_map(|name| [(*name).to_owned(), format!("{name}/status")]).collect();
    json!({"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": all})
}

/// Makes one admission policy. A rule is a variable of its own: API servers bound the length of an expression.
fn admission(name: &str, policy: &InstallPolicy, part: &Part) -> Result<Value, PolicyError> {
    let subjects: BTreeSet<String> = policy.rules.iter().flat_map(|rule| &rule.subjects).map(cel::subject).collect();
    let mut variables = vec![
        json!({"name": "target", "expression": "request.operation == 'DELETE' ? oldObject : object"}),
        json!({"name": "name", "expression": "variables.target.metadata.name"}),
        json!({"name": "named", "expression": cel::any(subjects)}),
    ];
    variables.extend(part.variables.iter().map(|(name, text)| json!({"name": name, "expression": text})));
    let rules = part.allowed.iter().enumerate();
    variables.extend(rules.map(|(index, (named, allowed))| {
        json!({"name": format!("rule{index}"), "expression": format!("{named} && {allowed}")})
    }));
    let any = cel::any((0..part.allowed.len()).map(|index| format!("variables.rule{index}")));
    let validation = format!("!variables.named || ((!has(request.subResource) || request.subResource == '') && {any})");

    let lengths = variables.iter().filter_map(|variable| variable["expression"].as_str()).chain([validation.as_str()]);
    let longest = lengths.map(|text| text.chars().count()).max().unwrap_or_default();
    check(format!("an expression of {name}"), longest, "characters", EXPRESSION_MAX, "the CEL of API servers")?;
    let message = format!(
        "no rule of InstallPolicy {:?} allows this to you: name, ServiceAccount, source, package, namespace, catalog or settings",
        policy.name
    );
    let object = json!({
        "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": part.resources},
            "variables": variables,
            "validations": [{"expression": validation, "message": message, "reason": "Forbidden"}],
        },
    });
    check(name.to_owned(), object.to_string().len(), "bytes", POLICY_BYTES_MAX, "kubectl apply")?;
    Ok(object)
}

fn check(what: String, size: usize, unit: &'static str, limit: usize, who: &'static str) -> Result<(), PolicyError> {
    if size > limit { Err(PolicyError::TooLarge { what, size, unit, limit, who }) } else { Ok(()) }
}
