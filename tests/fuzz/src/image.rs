//! What registries answer, and references to them.

use rukpak_source::image::fuzzing;

use crate::{choice, parts};

/// An image reference, or a manifest or index. A reference that is read is read as itself again.
pub fn image(input: &[u8]) {
    let (first, body) = choice(input);
    if first.is_ascii_graphic() {
        let Some(whole) = std::str::from_utf8(input).ok().and_then(fuzzing::reference) else { return };
        assert_eq!(fuzzing::reference(&whole).as_deref(), Some(whole.as_str()));
    }
    let _ = fuzzing::manifest(body);
}

/// `WWW-Authenticate` headers, then the token service's answer, with NUL bytes between them. Whatever is asked, what we ask for
/// is one scope, and it is ours.
pub fn challenge(input: &[u8]) {
    let mut parts = parts(input);
    let answer = parts.next().unwrap_or_default();
    let _ = fuzzing::token(answer);
    let headers: Vec<&[u8]> = parts.collect();
    let Some(url) = fuzzing::token_url(&headers, "team/pump") else { return };
    let scopes: Vec<_> = url.query_pairs().filter(|(key, _)| key == "scope").collect();
    assert!(matches!(scopes.as_slice(), [(_, scope)] if scope == "repository:team/pump:pull"), "{url}");
    assert!(url.query_pairs().filter(|(key, _)| key == "service").count() <= 1, "{url}");
}
