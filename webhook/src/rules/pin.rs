//! `status.pin`: what a Bundle resolved to. Whoever could write it would point a Bundle at other content of the store.

use serde_json::Value;

/// Why a status is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// It is there, and would be another.
    #[error("bundle.status.pin never changes: delete the Bundle and create it again")]
    Changed,
    /// Somebody else would set it.
    #[error(
        "bundle.status.pin is set by the controller alone, when the content is unpacked (flag --controller-username)"
    )]
    Foreign,
}

/// Decides on a write of the status.
pub fn check(old: &Value, new: &Value, is_controller: bool) -> Result<(), Denial> {
    let (old, new) = (&old["status"]["pin"], &new["status"]["pin"]);
    match (old.is_null(), new.is_null()) {
        _ if old == new => Ok(()),
        (true, false) if is_controller => Ok(()),
        (true, _) => Err(Denial::Foreign),
        (false, _) => Err(Denial::Changed),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_set_once_and_by_the_controller() {
        let with = |pin: &Value| json!({"status": {"phase": "x", "pin": pin}});
        let (none, one, two) = (json!({}), with(&json!({"gitCommit": "1"})), with(&json!({"gitCommit": "2"})));
        let null = with(&Value::Null);
        for (old, new, controller, others) in [
            (&none, &null, Ok(()), Ok(())),
            (&one, &one, Ok(()), Ok(())),
            (&none, &one, Ok(()), Err(Denial::Foreign)),
            (&one, &two, Err(Denial::Changed), Err(Denial::Changed)),
            (&one, &none, Err(Denial::Changed), Err(Denial::Changed)),
        ] {
            assert_eq!((check(old, new, true), check(old, new, false)), (controller, others), "{old} -> {new}");
        }
    }
}
