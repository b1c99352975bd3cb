//! Names of namespaces, held to Kubernetes' rule for them: a flag that no cluster takes is a wrong flag.

/// The longest name.
const LENGTH: usize = 63;

/// A name.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let is_label = bytes.iter().all(|byte| is_inner(byte) || *byte == b'-')
        && bytes.first().is_some_and(is_inner)
        && bytes.last().is_some_and(is_inner);
    if !is_label {
        return Err("the name of a namespace has lower case letters, digits and '-' (not first or last)".to_owned());
    }
    if text.len() > LENGTH {
        return Err(format!("the name of a namespace has at most {LENGTH} characters"));
    }
    Ok(text.to_owned())
}

/// A name, or nothing, which stands for all of them.
pub(super) fn parse_or_all(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { parse(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_cluster_takes() {
        let (longest, longer) = ("a".repeat(LENGTH), "a".repeat(LENGTH + 1));
        for good in ["a", "0", "kube-system", "a--b", &longest] {
            assert_eq!(parse(good).as_deref(), Ok(good));
        }
        for bad in ["", "Bad_NS", "A", "a.b", "-a", "a-", "a b", "\u{e4}", &longer] {
            assert!(parse(bad).is_err(), "{bad:?}");
            assert_eq!(parse_or_all(bad).is_err(), !bad.is_empty(), "{bad:?}");
        }
    }
}
