//! Addresses, the patterns that are compared with them, and policies.

use std::sync::Arc;

use rukpak_content::Address;
use rukpak_crds::{ContentPolicy, ContentPolicySpec, SourceType};
use rukpak_plan::rights::policy::{InstallPolicy, objects};
use rukpak_source::{git, http};
use rukpak_trust::{Credential, Decision, Place, Policies, Scope};

use crate::{choice, parts};

/// The text of an address. What the programs take for an address says itself which host and which path are asked.
pub fn address(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let plain = Address::parse(text);
    let asked = [git::server(text), http::Request::new(text).ok().and_then(|request| request.server())];
    for server in asked.into_iter().flatten() {
        let plain = plain.unwrap_or_else(|error| panic!("{text:?} is asked at {server}, and no address: {error}"));
        let without_brackets = |host: &str| host.trim_matches(['[', ']']).to_ascii_lowercase();
        let is_address = plain.host.starts_with('[');
        let is_same = without_brackets(&server.host) == without_brackets(plain.host);
        assert!(is_same || is_address, "{text:?} is asked at {server}");
        assert!(plain.port.is_none_or(|port| port == server.port), "{text:?} is asked at {server}");
    }

    let places = [git::location(text), http::Request::new(text).ok().and_then(|request| request.location())];
    for place in places.into_iter().flatten() {
        let climbs = place.split('/').any(|part| matches!(part, "." | ".."));
        assert!(!climbs, "{text:?} is at {place}");
    }
}

/// A scope and a location, with a NUL byte between them. One that names a host fits that host alone, and what is below its path.
pub fn pattern(input: &[u8]) {
    let mut parts = parts(input).filter_map(|part| std::str::from_utf8(part).ok());
    let (Some(scope), Some(location)) = (parts.next(), parts.next()) else { return };
    // The schema has a domain begin with a dot, and no source is at a port that is no number.
    let is_scope = scope.strip_prefix('*').is_none_or(|rest| rest.is_empty() || rest.starts_with(['.', '/']));
    let authority = location.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("0", |(_, port)| port);
    if !is_scope || !(port.contains(']') || port.bytes().all(|byte| byte.is_ascii_digit())) {
        return;
    }
    let fit = Scope::new(scope).fit(Some(location));
    assert_eq!(fit, Scope::new(scope).fit(Some(location)));
    if fit.is_none() {
        return;
    }

    let host = |text: &str| text.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let path = |text: &str| text.split_once('/').map_or("", |(_, path)| path).trim_matches('/').to_owned();
    assert!(path(location).starts_with(&path(scope)) || path(scope).is_empty(), "{scope:?} fits {location:?}");
    let without_port = |host: String| {
        let name =
            host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map_or(host.as_str(), |(name, _)| name);
        name.trim_end_matches('.').to_owned()
    };
    let (wanted, asked) = (without_port(host(scope)), without_port(host(location)));
    let is_docker = asked.ends_with("docker.io");
    match wanted.strip_prefix('*') {
        Some(domain) => assert!(asked.ends_with(domain) || is_docker, "{scope:?} fits {location:?}"),
        None => assert!(asked == wanted || is_docker || scope.contains('['), "{scope:?} fits {location:?}"),
    }
}

/// A policy as JSON: an InstallPolicy, or a ContentPolicy with the location of a source behind a NUL byte (first byte even). A rule
/// for everything that refuses is heeded wherever no narrower rule is; what keys are made of is read or refused.
pub fn policy(input: &[u8]) {
    let (first, body) = choice(input);
    if first % 2 == 1 {
        let Ok(policy) = serde_json::from_slice::<InstallPolicy>(body) else { return };
        assert_eq!(objects(&policy).ok(), objects(&policy).ok());
        return;
    }
    let mut parts = parts(body);
    let Ok(spec) = serde_json::from_slice::<ContentPolicySpec>(parts.next().unwrap_or_default()) else { return };
    for signer in spec.rules.iter().flat_map(|rule| &rule.signers) {
        let texts: Vec<String> = signer.pems().into_iter().filter_map(|pem| pem.data.clone()).collect();
        let _ = Credential::new(signer, &texts);
    }

    let location = parts.next().and_then(|part| std::str::from_utf8(part).ok()).map(str::to_owned);
    for source in [SourceType::Image, SourceType::Git, SourceType::Http, SourceType::Upload] {
        let place = Place { source, location: location.clone(), pinned: first & 2 == 0, insecure: None };
        let with = |closed| {
            let policies = vec![Arc::new(ContentPolicy::new("p", spec.clone()))];
            Policies { policies, closed }
        };
        let (open, closed) = (with(false).decide(&place), with(true).decide(&place));
        // The flag decides nothing but what no rule is for.
        match open {
            Decision::NotCovered => assert!(matches!(closed, Decision::Refused(_)), "{place}: {closed:?}"),
            covered => assert_eq!(covered, closed, "{place}"),
        }
    }
}
