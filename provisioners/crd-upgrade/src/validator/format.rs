//! The formats of text that the API server checks (`kube-openapi`'s `strfmt`).
//!
//! Where a check here is not the server's to the letter, it accepts more: it must not refuse what the server takes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Formats that the API server checks and this module does not.
const UNCHECKED: [&str; 6] = ["bsonobjectid", "isbn", "isbn10", "isbn13", "creditcard", "ssn"];

/// Whether text in this format is not checked here although the API server does.
pub(super) fn is_unchecked(format: &str) -> bool {
    UNCHECKED.contains(&normal(format).as_str())
}

/// Whether a text has a format. A format that the API server does not know says nothing.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match normal(format).as_str() {
        "datetime" => is_date_time(text),
        "date" => text.len() == 10 && is_date(text),
        "duration" => is_duration(text),
        "ipv4" => is_ip(text) && text.contains('.'),
        "ipv6" => is_ip(text) && text.contains(':'),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "byte" => is_base64(text),
        "hostname" => is_hostname(text),
        "uri" => is_uri(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "rgbcolor" => text.starts_with("rgb(") && text.ends_with(')'),
        _ => true,
    }
}

/// `date-time` is the same format as `datetime`.
fn normal(format: &str) -> String {
    format.replace('-', "")
}

fn number(text: &str, digits: usize) -> Option<u32> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut part = |digits| parts.next().and_then(|part| number(part, digits));
    let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    if !is_date(date) {
        return false;
    }
    let Some(clock) = time.get(..8) else { return false };
    let mut parts = clock.split(':');
    let mut part = |most| parts.next().and_then(|part| number(part, 2)).is_some_and(|value| value <= most);
    let zone = time[8..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    part(23) && part(59) && part(59) && is_zone(zone)
}

fn is_zone(zone: &str) -> bool {
    if matches!(zone, "Z" | "z") {
        return true;
    }
    let Some((hours, minutes)) = zone.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':')) else {
        return false;
    };
    number(hours, 2).is_some() && number(minutes, 2).is_some()
}

/// `1h30m`, `-1.5s`, `0`, and words such as `3 days`.
fn is_duration(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    body == "0" || (body.starts_with(|c: char| c.is_ascii_digit() || c == '.') && body.ends_with(char::is_alphabetic))
}

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Some(bits) = number(bits, bits.len()).filter(|_| matches!(bits.len(), 1..=3)) else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

/// 6, 8 or 20 bytes: `00:00:5e:00:53:01`, with dashes, or `0000.5e00.5301`.
fn is_mac(text: &str) -> bool {
    let groups = |separator, digits: usize| {
        let mut count = 0;
        let fits = text.split(separator).all(|group| {
            count += 1;
            group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        if fits { count * digits / 2 } else { 0 }
    };
    [groups(':', 2), groups('-', 2), groups('.', 4)].iter().any(|bytes| matches!(bytes, 6 | 8 | 20))
}

/// Dashes are optional, each for itself.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (index, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(digits) else { return false };
        let first = group.chars().next();
        let versioned = index != 2 || version.is_none_or(|version| first == Some(version));
        let variant = index != 3 || !matches!(version, Some('4' | '5')) || first.is_some_and(|c| "89abAB".contains(c));
        if !(versioned && variant && group.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Standard base64 with its padding, not empty.
fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - data.len() <= 2
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_hostname(text: &str) -> bool {
    let host = text.strip_suffix('.').unwrap_or(text);
    !host.is_empty()
        && host.len() <= 255
        && host.split('.').all(|label| matches!(label.len(), 1..=63) && !label.contains([' ', '/', ':']))
}

/// An absolute path, or a scheme with something behind it.
fn is_uri(text: &str) -> bool {
    if text.chars().any(|c| c.is_ascii_control()) {
        return false;
    }
    let scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    text.starts_with('/') || text.split_once(':').is_some_and(|(before, _)| scheme(before))
}
