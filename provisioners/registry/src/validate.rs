//! Does a bundle make sense? Every rule runs; every finding names its file and field.

use std::fmt;

use rukpak_plain::Origin;

use crate::Bundle;

mod crds;
mod deployments;
mod dns;
mod manifests;
mod webhooks;

pub use deployments::BUILT_IN_GROUPS;
pub(crate) use dns::is_label;
pub(crate) use manifests::is_namespaced;
pub use manifests::is_supported_kind;

/// The rules, in the order they run in. The first 13 are the reference's, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// Deployments have different names.
    DeploymentUnique,
    /// The name of a Deployment is a DNS subdomain.
    DeploymentName,
    /// CRDs have different names.
    CrdUnique,
    /// The CRDs that the CSV owns are in the bundle.
    CrdShipped,
    /// The package has a name.
    PackageName,
    /// Conversion webhooks watch all namespaces.
    ConversionInstallMode,
    /// The Deployment of a webhook is in the CSV.
    WebhookDeployment,
    /// Webhooks of one type have different names.
    WebhookUnique,
    /// The name of a webhook is a DNS subdomain.
    WebhookName,
    /// A CRD has one conversion webhook.
    ConversionUnique,
    /// A conversion webhook converts CRDs that the CSV owns.
    ConversionOwned,
    /// A webhook does not rule over those who install it.
    WebhookRules,
    /// Other manifests are of a supported kind.
    Kind,
    /// Ours: an object can be sent as it is.
    Object,
    /// Ours: a webhook is of a type that exists.
    WebhookType,
    /// Ours: the Deployment that serves an aggregated API is in the CSV.
    ApiServiceDeployment,
    /// Ours: an aggregated API is of no group that Kubernetes itself serves.
    ApiServiceGroup,
}

/// Something that refuses a bundle. `Display` is the reference's text; [`Finding::located`] adds the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The file.
    pub origin: Origin,
    /// The field; `None` where the whole manifest is meant.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// How many findings are kept.
pub const MAX_FINDINGS: usize = 1000;

/// All findings, the first [`MAX_FINDINGS`] of them; never empty. `Display` is one line each, as the reference joins them.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Extend<Finding> for Findings {
    fn extend<I: IntoIterator<Item = Finding>>(&mut self, findings: I) {
        let room = MAX_FINDINGS - self.0.len();
        self.0.extend(findings.into_iter().take(room));
    }
}

/// Runs all rules. Findings are in the order of the rules; within a rule sorted by name, as in the reference.
pub fn validate(bundle: &Bundle) -> Result<(), Findings> {
    let mut findings = Findings::default();
    deployments::unique(bundle, &mut findings);
    deployments::names(bundle, &mut findings);
    crds::unique(bundle, &mut findings);
    crds::shipped(bundle, &mut findings);
    manifests::package(bundle, &mut findings);
    webhooks::conversion_install_mode(bundle, &mut findings);
    webhooks::deployments(bundle, &mut findings);
    webhooks::unique(bundle, &mut findings);
    webhooks::names(bundle, &mut findings);
    webhooks::conversion_unique(bundle, &mut findings);
    webhooks::conversion_owned(bundle, &mut findings);
    webhooks::rules(bundle, &mut findings);
    manifests::kinds(bundle, &mut findings);
    manifests::objects(bundle, &mut findings);
    webhooks::types(bundle, &mut findings);
    deployments::of_api_services(bundle, &mut findings);
    if findings.0.is_empty() { Ok(()) } else { Err(findings) }
}

impl Finding {
    fn of_csv(bundle: &Bundle, rule: Rule, field: String, message: String) -> Self {
        Self { rule, origin: bundle.csv_origin.clone(), field: Some(field), message }
    }

    /// `<file>, document 1 (line 1), <field>: <message>`.
    pub fn located(&self) -> String {
        match &self.field {
            Some(field) => format!("{}, {field}: {}", self.origin, self.message),
            None => format!("{}: {}", self.origin, self.message),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}
