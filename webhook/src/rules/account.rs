//! Whose rights a BundleDeployment is installed with: whoever decides what is installed with them must be allowed to act with them.
//!
//! `spec.serviceAccount` names a ServiceAccount; without one it is the controller, which may do anything. RukPak's BundleDeployments have
//! none, so that its absence asks for nothing, unless it is to be named always, or was named before: taking it away hands the controller's
//! rights out.

use std::collections::BTreeSet;

use rukpak_crds::ServiceAccountReference;
use rukpak_crds::names::DECIDING;
use serde_json::Value;

/// Somebody whom the API server can be asked to impersonate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A ServiceAccount.
    ServiceAccount(ServiceAccountReference),
    /// Any other user.
    User(String),
}

impl Identity {
    /// Of the user name, as the API server writes those of ServiceAccounts.
    pub fn of_user(name: &str) -> Self {
        ServiceAccountReference::of_user(name).map_or_else(|| Self::User(name.to_owned()), Self::ServiceAccount)
    }

    /// The user name.
    pub fn user_name(&self) -> String {
        match self {
            Self::ServiceAccount(account) => account.user_name(),
            Self::User(name) => name.clone(),
        }
    }
}

/// Returns whom the requester must be allowed to impersonate, all of them, to make `new` out of `old`, which is null where there is none
/// yet. `is_required`: whoever names no ServiceAccount is asked as well.
///
/// Another account in place of one takes the right to both: what the old one installed is no longer repaired with its rights.
pub fn impersonated(old: &Value, new: &Value, controller: &str, is_required: bool) -> Vec<Identity> {
    if !decides(old, new) {
        return Vec::new();
    }
    let account = |object: &Value| {
        let account = &object["spec"]["serviceAccount"];
        let text = |field: &str| account[field].as_str().unwrap_or_default().to_owned();
        let named = || ServiceAccountReference { namespace: text("namespace"), name: text("name") };
        account.is_object().then(named).map(Identity::ServiceAccount)
    };
    let (before, after) = (account(old), account(new));

    let of_controller = (is_required || before.is_some()).then(|| Identity::of_user(controller));
    let mut identities: Vec<Identity> = after.or(of_controller).into_iter().collect();
    identities.extend(before.filter(|before| !identities.contains(before)));
    identities
}

/// Whether something changes that decides what is installed: the spec, an annotation of [`DECIDING`], or who controls it, which lets
/// objects of a ClusterExtension be taken over. An owner that goes decides nothing: the garbage collector removes it.
fn decides(old: &Value, new: &Value) -> bool {
    let annotation = |object: &Value, name: &str| object["metadata"]["annotations"][name].as_str().map(str::to_owned);
    let controllers = |object: &Value| -> BTreeSet<String> {
        let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let controlling = references.filter(|reference| reference["controller"] == true);
        controlling.map(|reference| reference["uid"].as_str().unwrap_or_default().to_owned()).collect()
    };
    old["spec"] != new["spec"]
        || DECIDING.iter().any(|name| annotation(old, name) != annotation(new, name))
        || !controllers(new).is_subset(&controllers(old))
}

/// The refusal of a change of the status.
pub fn status_denial(who: &str, controller: &str) -> String {
    format!(
        "bundledeployment.status says what is installed and may be installed again: only the controller writes it (user {controller:?}, \
         flag --controller-username), and who may impersonate it; user {who:?} may not"
    )
}

/// The refusal, for the user `who`.
pub fn denial(who: &str, identity: &Identity, is_named: bool) -> String {
    let grant = match identity {
        Identity::ServiceAccount(ServiceAccountReference { namespace, name }) => {
            format!("verb impersonate on serviceaccounts {name:?} in namespace {namespace:?}")
        }
        Identity::User(name) => format!("verb impersonate on users {name:?}"),
    };
    if is_named {
        format!(
            "bundledeployment.spec.serviceAccount: user {who:?} may not decide what is installed with the rights of this ServiceAccount, \
             which takes {grant}"
        )
    } else {
        format!(
            "bundledeployment.spec.serviceAccount is missing: user {who:?} may not install with the controller's rights, which takes \
             {grant}; name a ServiceAccount"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONTROLLER: &str = "system:serviceaccount:rukpak-system:core-admin";

    fn deployment(account: Option<&str>, image: &str) -> Value {
        let mut object = json!({"spec": {"template": image}});
        if let Some(name) = account {
            object["spec"]["serviceAccount"] = json!({"namespace": "shop", "name": name});
        }
        object
    }

    #[test]
    fn whoever_decides_what_an_account_installs_is_asked_for() {
        let one = |name: &str| Identity::of_user(&format!("system:serviceaccount:shop:{name}"));
        let account = |name: &str| vec![one(name)];
        let controller = vec![Identity::of_user(CONTROLLER)];
        let of = deployment;
        for (old, new, is_required, expected) in [
            (Value::Null, of(None, "a"), false, vec![]),
            (Value::Null, of(None, "a"), true, controller.clone()),
            (Value::Null, of(Some("x"), "a"), false, account("x")),
            (of(None, "a"), of(None, "b"), false, vec![]),
            (of(None, "a"), of(None, "b"), true, controller),
            (of(None, "a"), of(None, "a"), true, vec![]),
            (of(None, "a"), of(Some("x"), "a"), false, account("x")),
            (of(Some("x"), "a"), of(Some("x"), "a"), false, vec![]),
            (of(Some("x"), "a"), of(Some("x"), "b"), false, account("x")),
            (of(Some("x"), "a"), of(Some("y"), "a"), false, vec![one("y"), one("x")]),
            (of(Some("x"), "a"), of(None, "a"), false, vec![Identity::of_user(CONTROLLER), one("x")]),
        ] {
            assert_eq!(impersonated(&old, &new, CONTROLLER, is_required), expected, "{old} {new} {is_required}");
        }
    }

    #[test]
    fn metadata_that_decides_is_asked_about_like_the_spec() {
        let old = deployment(Some("x"), "a");
        let is_asked = |new: &Value| !impersonated(&old, new, CONTROLLER, false).is_empty();
        let with = |field: &str, value: Value| {
            let mut new = old.clone();
            new["metadata"] = json!({field: value});
            new
        };
        for name in DECIDING {
            let new = with("annotations", json!({name: "1"}));
            assert!(is_asked(&new), "{name}");
            assert!(!impersonated(&new, &old, CONTROLLER, false).is_empty(), "to remove {name}");
            assert!(impersonated(&new, &new, CONTROLLER, false).is_empty(), "{name} was there");
        }
        let owner = |controller: Value| json!([{"apiVersion": "v1", "kind": "X", "name": "n", "uid": "u", "controller": controller}]);
        let controlled = with("ownerReferences", owner(json!(true)));
        assert!(is_asked(&controlled));
        assert!(impersonated(&controlled, &old, CONTROLLER, false).is_empty(), "the garbage collector removes owners");
        for (field, value) in [
            ("annotations", json!({"core.rukpak.io/reconcile-requested-at": "now"})),
            ("labels", json!({"a": "b"})),
            ("ownerReferences", owner(json!(false))),
        ] {
            assert!(!is_asked(&with(field, value.clone())), "{field} {value}");
        }
    }

    #[test]
    fn a_user_name_is_of_a_service_account_or_not() {
        let account = Identity::of_user(CONTROLLER);
        assert_eq!(
            account,
            Identity::ServiceAccount(ServiceAccountReference {
                namespace: "rukpak-system".to_owned(),
                name: "core-admin".to_owned()
            })
        );
        assert_eq!(account.user_name(), CONTROLLER);
        let user = Identity::of_user("jane");
        assert_eq!((user.user_name().as_str(), &user), ("jane", &Identity::User("jane".to_owned())));
    }
}
