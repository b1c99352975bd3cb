//! Names of images, by the grammar of the container registries: `[host[:port]/]path[:tag][@digest]`.

const MAX_NAME: usize = 255;

/// What is wrong with the name of an image, in upstream's words; nothing is wrong with an empty one.
pub(super) fn problem(image: &str) -> Option<String> {
    let problem = check(image).err()?;
    Some(format!("invalid image pull spec {image:?}: {problem}"))
}

fn check(image: &str) -> Result<(), &'static str> {
    const FORMAT: &str = "invalid reference format";
    if image.is_empty() {
        return Ok(());
    }
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err(FORMAT);
    }
    let last_slash = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[last_slash..].find(':') {
        Some(colon) => (&rest[..last_slash + colon], Some(&rest[last_slash + colon + 1..])),
        None => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(FORMAT);
    }
    if name.len() > MAX_NAME {
        return Err("repository name must not be more than 255 characters");
    }
    let path = match name.split_once('/') {
        Some((host, path)) if is_like_host(host) => {
            if !is_host(host) {
                return Err(FORMAT);
            }
            path
        }
        _ => name,
    };
    if path.split('/').all(is_component) {
        return Ok(());
    }
    let is_case_alone = path.to_ascii_lowercase().split('/').all(is_component);
    Err(if is_case_alone { "invalid reference format: repository name must be lowercase" } else { FORMAT })
}

/// Whether the first part names a registry, and not a folder on the default one.
fn is_like_host(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit())) {
        return false;
    }
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    }
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(is_label)
}

/// Small letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_component(component: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    is_plain(*first)
        && is_plain(*last)
        && component
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = tag.bytes();
    bytes.next().is_some_and(is_word)
        && tag.len() <= 128
        && bytes.all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let is_algorithm = algorithm.split(['+', '.', '-', '_']).all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let length = match algorithm {
        "sha256" => hex.len() == 64,
        "sha512" => hex.len() == 128,
        _ => hex.len() >= 32,
    };
    is_algorithm && length && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_registries_read_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for image in [
            "",
            "busybox",
            "library/busybox:1.0",
            "quay.io/a/b_c/d__e/f--g.h:V1_x-y.z",
            "localhost:5000/a",
            "localhost/a",
            "[fe80::1]:5000/a",
            "HOST/a",
            &format!("quay.io/a/b@{digest}"),
            &format!("quay.io/a/b:v1@{digest}"),
        ] {
            assert_eq!(problem(image), None, "{image}");
        }
        for image in [
            "{{ X }}",
            "quay.io/a b",
            "quay.io/",
            "quay.io//a",
            "a:",
            "a:b:c",
            "a@sha256:abc",
            "quay.io/a/-b",
            "a___b",
            "https://quay.io/a",
            "-quay.io/a",
        ] {
            assert_eq!(problem(image), Some(format!("invalid image pull spec {image:?}: invalid reference format")));
        }
        assert!(problem("quay.io/A/b").is_some_and(|text| text.ends_with("must be lowercase")));
        assert!(problem(&"a".repeat(256)).is_some_and(|text| text.contains("255")));
    }
}
