//! Kubernetes' rules for names.

/// What is wrong with a DNS subdomain, in Kubernetes' words, sorted. Empty if nothing is.
pub(super) fn subdomain_problems(name: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if !name.split('.').all(is_label) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
             and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
    }
    if name.len() > 253 {
        problems.push("must be no more than 253 characters");
    }
    problems
}

/// Whether it is a DNS label, but for its length.
pub(crate) fn is_label(label: &str) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.iter().all(|byte| is_inner(byte) || *byte == b'-')
        && bytes.first().is_some_and(is_inner)
        && bytes.last().is_some_and(is_inner)
}
