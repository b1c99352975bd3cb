//! Whose rights a BundleDeployment is installed with: whoever decides what is installed with them must be allowed to act with them.
//!
//! `spec.serviceAccount` names a ServiceAccount; without one it is the controller, which may do anything. RukPak's BundleDeployments have
//! none, so that its absence asks for nothing, unless it is to be named always, or was named before: taking it away hands the controller's
//! rights out.

use serde_json::Value;

/// Somebody whom the API server can be asked to impersonate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A ServiceAccount.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Any other user.
    User(String),
}

impl Identity {
    /// Of the user name, as the API server writes those of ServiceAccounts.
    pub fn of_user(name: &str) -> Self {
        match name.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':')) {
            Some((namespace, name)) => Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() },
            None => Self::User(name.to_owned()),
        }
    }

    /// The user name.
    pub fn user_name(&self) -> String {
        match self {
            Self::ServiceAccount { namespace, name } => format!("{PREFIX}{namespace}:{name}"),
            Self::User(name) => name.clone(),
        }
    }
}

const PREFIX: &str = "system:serviceaccount:";

/// Whom the requester must be allowed to impersonate, to make `new` out of `old`, which is null where there is none yet; `None` if the
/// request decides nothing. `is_required`: whoever names no ServiceAccount is asked as well.
pub fn impersonated(old: &Value, new: &Value, controller: &str, is_required: bool) -> Option<Identity> {
    if old["spec"] == new["spec"] {
        return None;
    }
    let account = |object: &Value| {
        let account = &object["spec"]["serviceAccount"];
        let text = |field: &str| account[field].as_str().unwrap_or_default().to_owned();
        account.is_object().then(|| Identity::ServiceAccount { namespace: text("namespace"), name: text("name") })
    };
    let of_controller = || (is_required || account(old).is_some()).then(|| Identity::of_user(controller));
    account(new).or_else(of_controller)
}

/// The refusal, for the user `who`.
pub fn denial(who: &str, identity: &Identity, is_named: bool) -> String {
    let grant = match identity {
        Identity::ServiceAccount { namespace, name } => {
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
        let account =
            |name: &str| Some(Identity::ServiceAccount { namespace: "shop".to_owned(), name: name.to_owned() });
        let controller = Some(Identity::of_user(CONTROLLER));
        let of = deployment;
        for (old, new, is_required, expected) in [
            (Value::Null, of(None, "a"), false, None),
            (Value::Null, of(None, "a"), true, controller.clone()),
            (Value::Null, of(Some("x"), "a"), false, account("x")),
            (of(None, "a"), of(None, "b"), false, None),
            (of(None, "a"), of(None, "b"), true, controller.clone()),
            (of(None, "a"), of(None, "a"), true, None),
            (of(None, "a"), of(Some("x"), "a"), false, account("x")),
            (of(Some("x"), "a"), of(Some("x"), "a"), false, None),
            (of(Some("x"), "a"), of(Some("x"), "b"), false, account("x")),
            (of(Some("x"), "a"), of(Some("y"), "a"), false, account("y")),
            (of(Some("x"), "a"), of(None, "a"), false, controller),
        ] {
            assert_eq!(impersonated(&old, &new, CONTROLLER, is_required), expected, "{old} {new} {is_required}");
        }
    }

    #[test]
    fn a_user_name_is_of_a_service_account_or_not() {
        let account = Identity::of_user(CONTROLLER);
        assert_eq!(
            account,
            Identity::ServiceAccount { namespace: "rukpak-system".to_owned(), name: "core-admin".to_owned() }
        );
        assert_eq!(account.user_name(), CONTROLLER);
        let user = Identity::of_user("jane");
        assert_eq!((user.user_name().as_str(), &user), ("jane", &Identity::User("jane".to_owned())));
    }
}
