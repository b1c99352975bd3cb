//! References of images, as text.

/// An image reference without tag and digest. A colon before the last slash belongs to a port.
pub fn repository(reference: &str) -> &str {
    let name = reference.split_once('@').map_or(reference, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_tag() {
        for (reference, expected) in [
            ("quay.io/org/app:v1", "quay.io/org/app"),
            ("localhost:5000/app", "localhost:5000/app"),
            ("localhost:5000/app:v1@sha256:0", "localhost:5000/app"),
            ("app@sha256:0", "app"),
        ] {
            assert_eq!(repository(reference), expected);
        }
    }
}
