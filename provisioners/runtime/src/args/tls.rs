//! Flags of TLS, with the names and values of operator-controller and catalogd.
//!
//! They choose from what the one provider of the workspace has, ring: TLS 1.2 and 1.3 with the cipher suites of Mozilla's profile
//! "intermediate". Anything else is refused, and the refusal lists what there is.

use clap::{Args, ValueEnum};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite};

/// The name of secp256r1 in OpenSSL, which profiles of Mozilla and of OpenShift use.
const PRIME256V1: &str = "prime256v1";

/// Which TLS is spoken, as flags.
#[derive(Args, Clone, Debug)]
pub struct TlsArgs {
    /// TLS of all listeners and clients: intermediate (1.2 and 1.3), modern (1.3), or custom (--tls-custom-*)
    #[arg(long = "tls-profile", value_name = "PROFILE", value_enum, ignore_case = true, default_value_t)]
    profile: Profile,
    /// Lowest version of TLS, with --tls-profile=custom [default: TLSv1.2]
    #[arg(long = "tls-custom-version", value_name = "VERSION", value_enum)]
    custom_version: Option<Version>,
    /// Cipher suites by their names in Go, with commas, with --tls-profile=custom. Without one of TLS 1.3 all of TLS 1.3 stay [default:
    /// all]
    #[arg(long = "tls-custom-ciphers", value_name = "SUITES", value_parser = suites)]
    custom_ciphers: Option<Listed<CipherSuite>>,
    /// Curves with commas, such as X25519,prime256v1, with --tls-profile=custom [default: all]
    #[arg(long = "tls-custom-curves", value_name = "CURVES", value_parser = curves)]
    custom_curves: Option<Listed<NamedGroup>>,
}

/// A set of versions and cipher suites that has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// What newest clients speak.
    Modern,
    /// All that there is.
    #[default]
    Intermediate,
    /// What the other flags say.
    Custom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "TLSv1.2")]
    Tls12,
    #[value(name = "TLSv1.3")]
    Tls13,
}

/// What a flag names, with commas between.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed<T>(Vec<T>);

/// Why the flags of TLS cannot be followed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TlsError {
    /// They would be ignored, and somebody counts on them.
    #[error("--tls-custom-version, --tls-custom-ciphers and --tls-custom-curves need --tls-profile=custom")]
    NotCustom,
}

impl TlsArgs {
    /// Returns the TLS that the flags leave. A version is spoken of which it has a cipher suite.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub fn provider(&self) -> Result<CryptoProvider, TlsError> {
        let has_custom = self.custom_version.is_some() || self.custom_ciphers.is_some() || self.custom_curves.is_some();
        if has_custom && self.profile != Profile::Custom {
            return Err(TlsError::NotCustom);
        }

        let mut provider = ring::default_provider();
        if self.profile == Profile::Modern || self.custom_version == Some(Version::Tls13) {
            provider.cipher_suites.retain(is_of_tls13);
        }

        if let Some(Listed(named)) = self.custom_ciphers.as_ref().filter(|listed| !listed.0.is_empty()) {
            let is_named = |suite: &SupportedCipherSuite| named.contains(&suite.suite());
            // Go lets nobody choose among those of TLS 1.3, and lists for Go's programs name none of them.
            let chooses_tls13 = provider.cipher_suites.iter().any(|suite| is_of_tls13(suite) && is_named(suite));
            let stays = |suite: &SupportedCipherSuite| is_named(suite) || (is_of_tls13(suite) && !chooses_tls13);
            provider.cipher_suites.retain(stays);
        }

        if let Some(Listed(named)) = self.custom_curves.as_ref().filter(|listed| !listed.0.is_empty()) {
            provider.kx_groups.retain(|group| named.contains(&group.name()));
        }
        Ok(provider)
    }
}

fn is_of_tls13(suite: &SupportedCipherSuite) -> bool {
    suite.tls13().is_some()
}

fn suites(text: &str) -> Result<Listed<CipherSuite>, String> {
    let known = ring::default_provider().cipher_suites.into_iter().map(|suite| {
        let suite = suite.suite();
        // rustls alone tells in the name that a suite is of TLS 1.3.
        (suite.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1), suite)
    });
    listed(text, &known.collect::<Vec<_>>())
}

fn curves(text: &str) -> Result<Listed<NamedGroup>, String> {
    let known = ring::default_provider().kx_groups.into_iter().map(|group| {
        let curve = group.name();
        (curve.as_str().unwrap_or_default().to_owned(), curve)
    });
    let alias = (PRIME256V1.to_owned(), NamedGroup::secp256r1);
    listed(text, &known.chain([alias]).collect::<Vec<_>>())
}

/// Reads names of `known` with commas between.
fn listed<T: Copy>(text: &str, known: &[(String, T)]) -> Result<Listed<T>, String> {
    let find = |name: &str| {
        let found = known.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
            format!("there is no {name:?} here, but {}", names.join(", "))
        })
    };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(find).collect::<Result<_, _>>().map(Listed)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const AES128: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        tls: TlsArgs,
    }

    fn read(flags: &[&str]) -> Result<TlsArgs, String> {
        let program = Program::try_parse_from([&["program"], flags].concat());
        program.map(|program| program.tls).map_err(|error| error.to_string())
    }

    /// Names of cipher suites and of curves.
    fn spoken(flags: &[&str]) -> (Vec<&'static str>, Vec<&'static str>) {
        let provider = read(flags).unwrap().provider().unwrap();
        let suites = provider.cipher_suites.iter().map(|suite| suite.suite().as_str().unwrap());
        let curves = provider.kx_groups.iter().map(|group| group.name().as_str().unwrap());
        (suites.collect(), curves.collect())
    }

    #[test]
    fn profiles_leave_what_mozilla_says() {
        let (all, curves) = spoken(&[]);
        assert_eq!((all.len(), curves), (9, vec!["X25519", "secp256r1", "secp384r1"]));
        assert_eq!(spoken(&["--tls-profile=Intermediate"]).0, all);
        assert_eq!(spoken(&["--tls-profile=custom", "--tls-custom-ciphers=", "--tls-custom-curves="]).0, all);
        for modern in [&["--tls-profile=modern"][..], &["--tls-profile=custom", "--tls-custom-version=TLSv1.3"]] {
            let suites = spoken(modern).0;
            assert!(suites.len() == 3 && suites.iter().all(|name| name.starts_with("TLS13_")), "{suites:?}");
        }
    }

    #[test]
    fn lists_of_go_programs_choose_among_the_suites_of_each_version() {
        let custom = |suites: &str| spoken(&["--tls-profile=custom", &format!("--tls-custom-ciphers={suites}")]).0;
        let of_tls12 = custom(AES128);
        assert_eq!(of_tls12.iter().filter(|name| !name.starts_with("TLS13_")).collect::<Vec<_>>(), [&AES128]);
        assert_eq!(of_tls12.len(), 4, "{of_tls12:?}");
        assert_eq!(custom("TLS_AES_128_GCM_SHA256"), ["TLS13_AES_128_GCM_SHA256"]);
        assert_eq!(custom(&format!("TLS_AES_128_GCM_SHA256, {AES128}")), ["TLS13_AES_128_GCM_SHA256", AES128]);
    }

    #[test]
    fn a_curve_is_known_by_both_of_its_names() {
        for name in ["prime256v1", "secp256r1"] {
            let flag = format!("--tls-custom-curves={name}");
            assert_eq!(spoken(&["--tls-profile=custom", &flag]).1, ["secp256r1"]);
        }
    }

    #[test]
    fn what_there_is_not_is_refused_with_a_list_of_what_there_is() {
        for (flag, hint) in [
            ("--tls-profile=old", "modern, intermediate, custom"),
            ("--tls-custom-version=TLSv1.1", "TLSv1.2, TLSv1.3"),
            ("--tls-custom-ciphers=TLS_RSA_WITH_AES_128_CBC_SHA", AES128),
            ("--tls-custom-curves=secp521r1", "X25519, secp256r1, secp384r1, prime256v1"),
            // ring has no ML-KEM.
            ("--tls-custom-curves=X25519MLKEM768", "X25519, secp256r1, secp384r1, prime256v1"),
        ] {
            let error = read(&[flag]).unwrap_err();
            assert!(error.contains(hint), "{flag}: {error}");
        }
    }

    #[test]
    fn settings_that_nobody_would_heed_are_refused() {
        for profile in ["--tls-profile=modern", "--tls-profile=intermediate"] {
            let error = read(&[profile, "--tls-custom-version=TLSv1.3"]).unwrap().provider().unwrap_err();
            assert_eq!(error, TlsError::NotCustom);
        }
    }
}
