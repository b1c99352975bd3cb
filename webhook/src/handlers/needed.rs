//! Deletions of BundleDeployments, PlatformOperators and ClusterExtensions that others need.

use super::{other_kind, other_operation};
use crate::call::Call;
use crate::metrics::Operation;
use crate::review::Response;
use crate::rules::needed;

/// What is asked about: group, version and kind.
const KINDS: [(&str, &str, &str); 3] = [
    ("core.rukpak.io", "v1alpha1", "BundleDeployment"),
    ("platform.openshift.io", "v1alpha1", "PlatformOperator"),
    ("olm.operatorframework.io", "v1", "ClusterExtension"),
];

pub(crate) fn answer(call: Call) -> Response {
    let request = call.request;
    if !KINDS.iter().any(|(group, version, kind)| request.is(group, version, kind)) {
        return other_kind(request, "BundleDeployments, PlatformOperators and ClusterExtensions");
    }
    if request.operation() != Operation::Delete {
        return other_operation(request);
    }
    match needed::check_deletion(&request.old_object, &request.user_info.username) {
        Ok(()) => Response::allow(request.uid),
        Err(denial) => Response::deny(request.uid, 403, &denial.to_string()),
    }
}
