//! How a cluster reaches other networks, as its operators are told. OLM v0 does the same.

use k8s_openapi::api::core::v1::EnvVar;
use rukpak_content::Digest;
use serde_json::{Value, json};

use crate::DeploymentConfig;

/// API group of OpenShift's Proxy.
pub const GROUP: &str = "config.openshift.io";
/// Its version.
pub const VERSION: &str = "v1";
/// Its kind.
pub const KIND: &str = "Proxy";
/// Name of the one that counts.
pub const NAME: &str = "cluster";

/// The proxy of a cluster. What is empty is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// `HTTP_PROXY`.
    pub http: String,
    /// `HTTPS_PROXY`.
    pub https: String,
    /// `NO_PROXY`.
    pub no_proxy: String,
}

impl Proxy {
    /// Reads OpenShift's Proxy: its status, which has what was checked, and what must never go through a proxy.
    pub fn read(object: &Value) -> Self {
        let text = |field: &str| object["status"][field].as_str().unwrap_or_default().to_owned();
        Self { http: text("httpProxy"), https: text("httpsProxy"), no_proxy: text("noProxy") }
    }

    /// Stands for it; `None` where operators are told nothing.
    pub fn digest(&self) -> Option<Digest> {
        let Self { http, https, no_proxy } = self;
        (*self != Self::default()).then(|| Digest::sha256(json!([http, https, no_proxy]).to_string().as_bytes()))
    }

    /// Adds the variables to what the user changes in the Deployments. A user who sets one of the three, be it to nothing, means all of
    /// them: then none is added.
    pub fn add_to(&self, config: &mut Option<DeploymentConfig>) {
        let all = [("HTTP_PROXY", &self.http), ("HTTPS_PROXY", &self.https), ("NO_PROXY", &self.no_proxy)];
        let set = config.as_ref().map(|config| config.env.as_slice()).unwrap_or_default();
        if set.iter().any(|variable| all.iter().any(|(name, _)| variable.name == *name)) {
            return;
        }
        for (name, value) in all.into_iter().filter(|(_, value)| !value.is_empty()) {
            let variable = EnvVar { name: name.to_owned(), value: Some(value.clone()), ..EnvVar::default() };
            config.get_or_insert_default().env.push(variable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> Proxy {
        let status =
            json!({"httpProxy": "http://p:3128", "httpsProxy": "https://p:3129", "noProxy": ".svc,10.0.0.0/8"});
        Proxy::read(&json!({"spec": {"httpProxy": "http://not-checked"}, "status": status}))
    }

    /// The variables of a configuration that had these before.
    fn variables(proxy: &Proxy, before: &[(&str, &str)]) -> Vec<(String, String)> {
        let env = |(name, value): &(&str, &str)| EnvVar {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            ..EnvVar::default()
        };
        let env: Vec<EnvVar> = before.iter().map(env).collect();
        let mut config = (!env.is_empty()).then(|| DeploymentConfig { env, ..DeploymentConfig::default() });
        proxy.add_to(&mut config);
        let env = config.map(|config| config.env).unwrap_or_default();
        env.into_iter().map(|variable| (variable.name, variable.value.unwrap_or_default())).collect()
    }

    fn owned(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn adds_the_variables_that_are_not_empty_behind_those_of_the_user() {
        let all = [("HTTP_PROXY", "http://p:3128"), ("HTTPS_PROXY", "https://p:3129"), ("NO_PROXY", ".svc,10.0.0.0/8")];
        assert_eq!(variables(&proxy(), &[]), owned(&all));
        let https = Proxy { http: String::new(), no_proxy: String::new(), ..proxy() };
        assert_eq!(variables(&https, &[("LEVEL", "debug")]), owned(&[("LEVEL", "debug"), all[1]]));
    }

    #[test]
    fn adds_nothing_where_the_user_sets_one_of_the_variables() {
        for set in [("HTTP_PROXY", "http://mine"), ("HTTPS_PROXY", ""), ("NO_PROXY", "*")] {
            assert_eq!(variables(&proxy(), &[set]), owned(&[set]));
        }
        // Names have a case.
        assert_eq!(variables(&proxy(), &[("no_proxy", "*")]).len(), 4);
    }

    #[test]
    fn makes_no_configuration_of_a_cluster_without_a_proxy() {
        let nothing = Proxy::read(&json!({"spec": {"httpProxy": "http://not-checked"}}));
        let mut config = None;
        nothing.add_to(&mut config);
        assert_eq!((nothing.digest(), config), (None, None));
        assert_ne!(proxy().digest(), Proxy { https: String::new(), ..proxy() }.digest());
    }
}
