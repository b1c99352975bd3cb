//! What tenants may install, as ValidatingAdmissionPolicies (Kubernetes 1.30 and later).
//!
//! An InstallPolicy is a short document; it limits those whom its rules name, and nobody else. A request of theirs passes if one of the
//! rules that name them allows it. What RBAC does not let them do they may not do for that.
//!
//! ```text
//! InstallPolicy --objects--> ValidatingAdmissionPolicy and binding, for BundleDeployments and Bundles
//!                            the same, for packages: PlatformOperators and ClusterExtensions
//! ```

mod cel;

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
}

/// Why a policy is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nothing(&'static str);

impl std::fmt::Display for Nothing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Nothing {}

/// The admission policies and their bindings.
///
/// # Errors
/// If a rule is for nobody: it would limit nobody.
pub fn objects(policy: &InstallPolicy) -> Result<Vec<Value>, Nothing> {
    if policy.rules.is_empty() {
        return Err(Nothing("rules is empty: the policy would limit nobody"));
    }
    if policy.rules.iter().any(|rule| rule.subjects.is_empty()) {
        return Err(Nothing("a rule has no subjects: it would be for nobody"));
    }
    let own = |resources: &[&str]| json!({"apiGroups": ["core.rukpak.io"], "resources": resources});
    let bundles = [own(&["bundledeployments", "bundles"])];
    let packages = [
        json!({"apiGroups": ["platform.openshift.io"], "resources": ["platformoperators"]}),
        json!({"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions"]}),
    ];
    let name = format!("rukpak-install-policy-{}", policy.name);
    let mut objects = admission(&name, policy, &bundles, cel::deployment);
    objects.extend(admission(&format!("{name}-packages"), policy, &packages, cel::package));
    Ok(objects)
}

/// One admission policy with its binding. `allows`: the expression by which a rule allows `variables.target`.
fn admission(name: &str, policy: &InstallPolicy, resources: &[Value], allows: fn(&Rule) -> String) -> Vec<Value> {
    const API_VERSION: &str = "admissionregistration.k8s.io/v1";
    let rules = resources.iter().map(|resource| {
        let mut rule = resource.clone();
        rule["apiVersions"] = json!(["*"]);
        rule["operations"] = json!(["CREATE", "UPDATE", "DELETE"]);
        rule
    });
    let named: Vec<String> = policy.rules.iter().map(|rule| cel::any(rule.subjects.iter().map(cel::subject))).collect();
    let allowed = policy.rules.iter().zip(&named).map(|(rule, named)| format!("({named} && {})", allows(rule)));
    let message = format!(
        "no rule of InstallPolicy {:?} allows this to you: name, ServiceAccount, source or package",
        policy.name
    );
    vec![
        json!({
            "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": rules.collect::<Vec<_>>()},
                "variables": [
                    {"name": "target", "expression": "request.operation == 'DELETE' ? oldObject : object"},
                    {"name": "named", "expression": cel::any(named.iter().cloned())},
                ],
                "validations": [{
                    "expression": format!("!variables.named || {}", cel::any(allowed)),
                    "message": message, "reason": "Forbidden",
                }],
            },
        }),
        json!({
            "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}
