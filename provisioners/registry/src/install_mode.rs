//! Which namespaces an operator may watch.

use std::collections::BTreeSet;

use crate::csv::Csv;

/// It watches all namespaces.
pub const ALL: &str = "AllNamespaces";
/// It watches the namespace it is installed in.
pub const OWN: &str = "OwnNamespace";
/// It watches one other namespace.
pub const SINGLE: &str = "SingleNamespace";
/// It watches several namespaces.
pub const MULTI: &str = "MultiNamespace";

/// The namespaces an operator watches when nothing is configured: all, written as one empty name, or none.
pub fn default_targets(csv: &Csv) -> Vec<String> {
    if supports(csv, ALL) { vec![String::new()] } else { Vec::new() }
}

/// Whether an install mode is supported.
pub fn supports(csv: &Csv, mode: &str) -> bool {
    csv.spec.install_modes.iter().any(|known| known.kind == mode && known.supported)
}

/// Whether `targets` means all namespaces.
pub fn is_all(targets: &[String]) -> bool {
    matches!(targets, [only] if only.is_empty())
}

/// Checks target namespaces against the supported modes; the refusal has the reference's words.
pub(crate) fn check_targets(csv: &Csv, install_namespace: &str, targets: &[String]) -> Result<(), String> {
    let distinct: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    let modes = || format!("supported install modes [{}]", csv.supported_modes().join(" "));
    let own_text = || format!("{} do not support targeting own namespace", modes());
    let only = if distinct.len() == 1 { distinct.first().copied() } else { None };
    let is_supported = match only {
        None if distinct.is_empty() => {
            let count = if supports(csv, MULTI) { "at least" } else { "exactly" };
            return Err(format!("{count} one target namespace must be specified"));
        }
        Some("") if !supports(csv, ALL) => {
            return Err(format!("{} do not support targeting all namespaces", modes()));
        }
        Some("") => true,
        Some(namespace) if namespace == install_namespace => {
            return if supports(csv, OWN) { Ok(()) } else { Err(own_text()) };
        }
        Some(_) => supports(csv, SINGLE),
        None if distinct.contains(install_namespace) && !supports(csv, OWN) => return Err(own_text()),
        None => supports(csv, MULTI) && !distinct.contains(""),
    };
    if is_supported {
        return Ok(());
    }
    Err(format!("{} do not support target namespaces [{}]", modes(), targets.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::InstallMode;

    fn csv(modes: &[&str]) -> Csv {
        let mut csv = Csv::default();
        let mode = |kind: &&str| InstallMode { kind: (*kind).to_owned(), supported: true };
        csv.spec.install_modes = modes.iter().map(mode).collect();
        csv
    }

    #[test]
    fn targets_are_checked_in_the_words_of_the_reference() {
        let cases: [(&[&str], &[&str], &str); 13] = [
            (&[ALL], &[""], ""),
            (&[OWN], &[], "exactly one target namespace must be specified"),
            (&[OWN, MULTI], &[], "at least one target namespace must be specified"),
            (
                &[SINGLE, OWN],
                &[""],
                "supported install modes [OwnNamespace SingleNamespace] do not support targeting all namespaces",
            ),
            (&[ALL], &["me"], "supported install modes [AllNamespaces] do not support targeting own namespace"),
            (&[OWN], &["me"], ""),
            (&[SINGLE], &["a"], ""),
            (&[OWN], &["a"], "supported install modes [OwnNamespace] do not support target namespaces [a]"),
            (&[MULTI], &["a", "b"], ""),
            (
                &[SINGLE],
                &["a", "b"],
                "supported install modes [SingleNamespace] do not support target namespaces [a b]",
            ),
            (&[MULTI], &["a", "me"], "supported install modes [MultiNamespace] do not support targeting own namespace"),
            (
                &[ALL, MULTI],
                &["a", ""],
                "supported install modes [AllNamespaces MultiNamespace] do not support target namespaces [a ]",
            ),
            (&[], &[""], "supported install modes [] do not support targeting all namespaces"),
        ];
        for (modes, targets, text) in cases {
            let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
            let answer = check_targets(&csv(modes), "me", &targets).err().unwrap_or_default();
            assert_eq!(answer, text, "{modes:?} {targets:?}");
        }
    }

    #[test]
    fn a_mode_that_is_named_but_not_supported_does_not_count() {
        let mut csv = csv(&[ALL]);
        assert_eq!(default_targets(&csv), [""]);
        csv.spec.install_modes[0].supported = false;
        assert!(default_targets(&csv).is_empty());
    }
}
