//! The hash that OpenSSL names certificate files by (`X509_NAME_hash`).
//!
//! The first four bytes, little end first, of the SHA-1 of the subject's canonical form: the sets of its attributes one after
//! the other, texts as UTF-8 in lower case (ASCII letters only), without white space at the ends and with one space for each
//! run of it.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use x509_parser::asn1_rs::Tag;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;

/// The hash of a certificate's subject. `None` for what is rare and not worth its rules: sets of several attributes, and texts
/// in other than the usual encodings.
pub(super) fn hash(certificate: &[u8]) -> Option<u32> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &canonical(certificate.subject())?);
    let first = hash.as_ref().first_chunk::<4>()?;
    Some(u32::from_le_bytes(*first))
}

fn canonical(name: &X509Name<'_>) -> Option<Vec<u8>> {
    let mut form = Vec::new();
    for set in name.iter() {
        let mut attributes = set.iter();
        let (Some(attribute), None) = (attributes.next(), attributes.next()) else { return None };
        form.extend(element(SET, &canonical_attribute(attribute)?)?);
    }
    if form.is_empty() { None } else { Some(form) }
}

fn canonical_attribute(attribute: &AttributeTypeAndValue<'_>) -> Option<Vec<u8>> {
    let value = attribute.attr_value();
    // These hold UTF-8 as they are.
    if ![Tag::Utf8String, Tag::PrintableString, Tag::Ia5String, Tag::VisibleString].contains(&value.tag()) {
        return None;
    }
    let mut content = element(OBJECT_IDENTIFIER, attribute.attr_type().as_bytes())?;
    content.extend(element(UTF8_STRING, &canonical_text(std::str::from_utf8(value.data).ok()?))?);
    element(SEQUENCE, &content)
}

fn canonical_text(text: &str) -> Vec<u8> {
    let is_space = |character: char| matches!(character, ' ' | '\t'..='\r');
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    words.join(" ").to_ascii_lowercase().into_bytes()
}

/// DER of one element. `None` past the lengths that names have.
fn element(tag: u8, content: &[u8]) -> Option<Vec<u8>> {
    let length = content.len();
    let mut element = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => element.push(short),
        Ok(long) => element.extend([0x81, long]),
        Err(_) => {
            let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
            element.extend([0x82, high, low]);
        }
    }
    element.extend(content);
    Some(element)
}
