use proptest::prelude::*;

use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn range(text: &str) -> Range {
    Range::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// What `blang/semver` says of these, in its own tests or by its code.
#[test]
fn ranges_hold_what_they_hold_to_olm() {
    const TABLE: &[(&str, &[&str], &[&str])] = &[
        (">1.2.3", &["1.2.4"], &["1.2.2", "1.2.3"]),
        (">=1.2.3", &["1.2.3", "1.2.4"], &["1.2.2"]),
        ("<1.2.3", &["1.2.2"], &["1.2.3", "1.2.4"]),
        ("<=1.2.3", &["1.2.2", "1.2.3"], &["1.2.4"]),
        ("1.2.3", &["1.2.3"], &["1.2.2", "1.2.4"]),
        ("=1.2.3", &["1.2.3"], &["1.2.2", "1.2.4"]),
        ("==1.2.3", &["1.2.3"], &["1.2.2", "1.2.4"]),
        ("!=1.2.3", &["1.2.2", "1.2.4"], &["1.2.3"]),
        ("!1.2.3", &["1.2.2", "1.2.4"], &["1.2.3"]),
        (">1.2.2 <1.2.4", &["1.2.3"], &["1.2.2", "1.2.4"]),
        ("<1.2.2 <1.2.4", &["1.2.1"], &["1.2.2", "1.2.3", "1.2.4"]),
        (">1.2.2 <1.2.5 !=1.2.4", &["1.2.3"], &["1.2.2", "1.2.4", "1.2.5"]),
        (">1.2.2 <1.2.5 !1.2.4", &["1.2.3"], &["1.2.2", "1.2.4", "1.2.5"]),
        (">1.2.2 || <1.2.4", &["1.2.2", "1.2.3", "1.2.4"], &[]),
        ("<1.2.2 || >1.2.4", &["1.2.1", "1.2.5"], &["1.2.2", "1.2.3", "1.2.4"]),
        (">1.x", &["2.0.0"], &["0.1.9", "1.2.6", "1.9.0"]),
        (">1.2.x", &["1.3.0"], &["1.1.9", "1.2.6"]),
        (">=1.2.x", &["1.2.0", "1.3.0"], &["1.2.0-rc1", "1.1.9"]),
        ("<=1.2.x", &["1.2.9", "0.1.0", "1.3.0-rc1"], &["1.3.0"]),
        ("<1.2.x", &["1.1.9", "1.2.0-rc1"], &["1.2.0"]),
        ("1.2.x", &["1.2.0", "1.2.99"], &["1.1.9", "1.3.0", "1.2.0-rc1"]),
        ("=1.2.x", &["1.2.0", "1.2.99"], &["1.1.9", "1.3.0"]),
        ("1.x", &["1.0.0", "1.99.0"], &["0.9.9", "2.0.0"]),
        ("==1.x", &["1.0.0", "1.99.0"], &["0.9.9", "2.0.0"]),
        ("<=1.x", &["1.99.0"], &["2.0.0"]),
        ("1.x.x", &["1.0.0", "1.0.9"], &["1.1.0"]),
        ("!=1.2.x", &[], &["1.1.9", "1.2.0", "1.3.0"]),
        ("!1.x", &[], &["0.9.9", "1.0.0", "2.0.0"]),
        (">1.2.2 <1.2.4 || >=2.0.0", &["1.2.3", "2.0.0", "2.0.1"], &["1.2.2", "1.2.4"]),
        ("1.x || >=2.0.x <2.2.x", &["1.2.2", "2.0.0", "2.1.8"], &["0.9.2", "2.2.0"]),
        (">1.2.2 <1.2.4 || >=2.0.0 <3.0.0", &["1.2.3", "2.0.0", "2.0.1", "2.9.9"], &["1.2.2", "1.2.4", "3.0.0"]),
        (">1.0.0 <3.0.0 !2.0.3-beta.2", &["2.0.3-beta.1", "2.0.3"], &["2.0.3-beta.2"]),
        // Spaces, also between an operator and its version.
        ("  >=   1.2.3   <=  1.2.4   ", &["1.2.3", "1.2.4"], &["1.2.2", "1.2.5"]),
        ("!= 1.2.3", &["1.2.2"], &["1.2.3"]),
        ("      1.2.3      ||     >=1.3.0     <1.4.0    ", &["1.2.3", "1.3.9"], &["1.2.4", "1.4.0"]),
        // A prerelease is a version like others, build metadata does not count.
        ("<2.0.0", &["2.0.0-rc1", "1.0.0"], &["2.0.0", "2.0.0+1"]),
        (">=1.0.0", &["2.0.0-alpha", "1.0.0+7"], &["1.0.0-rc1"]),
        (">=2.13.0 <2.15.4-603", &["2.15.4-602", "2.15.3"], &["2.15.4-603", "2.15.4-1000", "2.15.4"]),
        ("1.0.0+1", &["1.0.0", "1.0.0+2"], &["1.0.1"]),
        (">=0.0.0-0", &["0.0.0-0", "0.0.0-a", "0.0.1"], &[]),
    ];
    for (text, inside, outside) in TABLE {
        let range = range(text);
        for inner in *inside {
            assert!(range.contains(&version(inner)), "{text} holds {inner}");
        }
        for outer in *outside {
            assert!(!range.contains(&version(outer)), "{text} does not hold {outer}");
        }
        assert_eq!(range.to_string(), *text);
        assert_eq!(range.as_str().parse(), Ok(range));
    }
}

/// Each refusal names the fault. The first column is refused by OLM as well unless the comment says so.
#[test]
fn refuses_what_is_no_range_and_names_the_fault() {
    const TABLE: &[(&str, &str)] = &[
        ("", "it is empty; leave it out to allow every version"),
        ("   ", "it is empty"),
        ("string", "there is no version in \"string\""),
        ("fo.ob.ar.x", "there is no version in"),
        (">=", "there is no version in \">=\""),
        ("1", "\"1\": unexpected end of input"),
        ("1.0", "\"1.0\": unexpected end of input"),
        (">=1.2", "\"1.2\": unexpected end of input"),
        ("^1.2.3", "there is no operator \"^\"; there are = != < <= > >= and ||"),
        ("~>1.2", "there is no operator \"~>\""),
        ("^1.x", "there is no operator \"^\""), // OLM: =1.0.0
        ("v1.2.3", "there is no operator \"v\""),
        (">=v1.2.3", "there is no operator \">=v\""),
        ("=>1.0.0", "there is no operator \"=>\""),
        (">>1.2.3", "there is no operator \">>\""),
        ("<==1.2.3", "there is no operator \"<==\""),
        ("-1.2.3", "there is no operator \"-\""),
        ("|| 1.0.0", "one of them is missing"),
        ("1.0.0 ||", "one of them is missing"),
        ("1.0.0 || || 2.0.0", "one of them is missing"), // OLM: reads it, and panics when asked
        ("1.0.0||2.0.0", "unexpected character '|'"),
        ("1.0.0 | 2.0.0", "there is no version in \"|\""), // OLM: drops it
        (">=1.0.0, <2.0.0", "unexpected character ','"),
        (">=1.0.0 , <2.0.0", "there is no version in \",\""), // OLM: drops it
        ("1.0.0 - 1.2.0", "there is no version in \"-\""),    // OLM: drops it
        ("pump.v9", "there is no operator \"pump.v\""),
        ("! 1.0.0", "there is no version in \"!\""), // OLM: =1.0.0
        ("*", "there is no version in \"*\""),
        ("1.*", "\"1.*\": "),
        (">=1.X", "\"1.X\": "),
        (">=1.0.0\n<2.0.0", "unexpected character"),
        (">=1.0.0\t", "unexpected character"),
        ("1.x.3", "an x stands for the last number only"),
        (">=1.2.x-rc1", "an x stands for the last number only"), // OLM: >=1.2.0-rc1
        ("01.x", "an x stands for the last number only"),
        ("1.2.3.4", "unexpected character"),
        ("01.2.3", "leading zero"),
        ("18446744073709551615.x", "too large"),
        (">1.18446744073709551615.x", "too large"),
        ("18446744073709551616.0.0", "exceeds"),
        ("18446744073709551615", "unexpected end of input"),
        (">=1.0.0-99999999999999999999999", "too large"),
    ];
    for (text, expected) in TABLE {
        let message = Range::parse(text).map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
        assert!(message.contains(expected), "{text:?}: {message}");
        assert!(message.starts_with(&format!("{text:?} is not a range of versions")), "{message}");
    }
}

#[test]
fn versions_are_strict() {
    const TABLE: &[(&str, &str)] = &[
        ("1.2", "write 1.2.0"),
        ("1", "write 1.0.0"),
        ("v1.2.3", "write 1.2.3"),
        ("V1.2", "write 1.2.0"),
        (" 1.2.3", "write 1.2.3"),
        ("", "empty string"),
        ("1.2.3.4", "unexpected character"),
        ("01.2.3", "leading zero"),
        ("1.2.3-01", "leading zero"),
        ("1.2.3-", "empty identifier"),
        ("1.2.3-18446744073709551616", "too large"),
        ("1.2.3-\u{e9}", "empty identifier"),
        ("latest", "unexpected character"),
    ];
    for (text, expected) in TABLE {
        let message = Version::parse(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text:?}: {message}");
        assert!(message.starts_with(&format!("{text:?} is not a semantic version")), "{message}");
    }
    for text in ["1.2.3", "0.0.0-0", "1.0.0-alpha.1+build.007", "1.2.3-18446744073709551615", "4.12.0-202301010000"] {
        assert_eq!(version(text).to_string(), text);
    }
}

#[test]
fn releases_are_short_and_dotted() {
    let refused = |release: &str| Version::with_release("1.0.0", release).unwrap_err().to_string();
    for release in ["1", "1.2.3", "a-b.0", "20250101.rc1", "0", "01a", "12345678901234567890"] {
        assert_eq!(Version::with_release("1.0.0", release).unwrap().release(), Some(release), "{release}");
    }
    assert_eq!(Version::with_release("1.0.0", "").unwrap(), version("1.0.0"));
    assert!(refused("123456789012345678901").contains("it has 21 characters, and at most 20 are allowed"));
    for release in ["01", "1.00", "1..2", ".", "a_b", "1+2", "é"] {
        assert!(refused(release).contains("numbers without leading zeros"), "{}", refused(release));
    }
    assert!(refused("99999999999999999999").contains("too large"));
    let error = Version::with_release("1.0", "1").unwrap_err();
    assert!(matches!(error, Error::Version { .. }), "{error}");
}

/// Ascending, each strictly.
#[test]
fn versions_are_ordered() {
    let with = |text: &str, release: &str| Version::with_release(text, release).unwrap();
    let ascending = [
        version("0.9.9"),
        version("1.0.0-alpha"),
        version("1.0.0-alpha.1"),
        version("1.0.0-alpha.beta"),
        version("1.0.0-beta"),
        version("1.0.0-beta.2"),
        version("1.0.0-beta.11"),
        version("1.0.0-rc.1"),
        version("1.0.0"),
        version("1.0.0+1"),
        version("1.0.0+2"),
        version("1.0.0+10"),
        with("1.0.0", "1"),
        with("1.0.0", "2"),
        with("1.0.0", "10"),
        with("1.0.0", "10.a"),
        with("1.0.0", "a"),
        version("1.0.1"),
    ];
    for (index, lower) in ascending.iter().enumerate() {
        for higher in &ascending[index + 1..] {
            assert!(lower < higher, "{lower} {lower:?} < {higher} {higher:?}");
        }
    }
    assert!(version("1.0.0+1").precedence(&version("1.0.0+2")).is_eq());
    assert!(with("1.0.0+9", "1").precedence(&with("1.0.0", "2")).is_lt());
    assert!(with("1.0.0+9", "1") < with("1.0.0", "2"), "a release counts before build metadata");
}

fn any_version() -> impl Strategy<Value = Version> {
    let parts = (0..3_u64, 0..3_u64, 0..3_u64, "(-(0|1|2|a|rc1)(\\.(0|7|b))?)?", "(\\+[0-2a]{1,2})?", "(1|2|a)?");
    parts.prop_map(|(major, minor, patch, pre, build, release)| {
        Version::with_release(&format!("{major}.{minor}.{patch}{pre}{build}"), &release).unwrap()
    })
}

proptest! {
    #[test]
    fn the_order_is_total(a in any_version(), b in any_version(), c in any_version()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
        prop_assert!(!(a <= b && b <= c) || a <= c);
        prop_assert!(a.precedence(&b).is_eq() || a.precedence(&b) == a.cmp(&b));
        prop_assert_eq!(a.precedence(&b), b.precedence(&a).reverse());
    }

    #[test]
    fn printed_versions_are_read_again(a in any_version()) {
        let release = a.release().unwrap_or_default().to_owned();
        prop_assert_eq!(Version::with_release(&a.to_string(), &release), Ok(a));
    }

    #[test]
    fn printed_comparisons_hold_what_they_say(a in any_version(), b in any_version(), c in any_version(), space in " {0,3}") {
        let order = a.semver().cmp_precedence(b.semver());
        let holds = [
            ("", order.is_eq()), ("=", order.is_eq()), ("==", order.is_eq()), ("!=", order.is_ne()), ("<", order.is_lt()),
            ("<=", order.is_le()), (">", order.is_gt()), (">=", order.is_ge()),
        ];
        for (operator, expected) in holds {
            prop_assert_eq!(range(&format!("{operator}{space}{b}")).contains(&a), expected, "{} {} {}", a, operator, b);
            let is_c = a.semver().cmp_precedence(c.semver()).is_eq();
            prop_assert_eq!(range(&format!("{operator}{space}{b} {c}")).contains(&a), expected && is_c);
            prop_assert_eq!(range(&format!("{operator}{space}{b} || {c}")).contains(&a), expected || is_c);
        }
        prop_assert_eq!(range(&format!("!{b}")).contains(&a), order.is_ne());
    }

    #[test]
    fn no_text_makes_it_panic(text in "[0-9.x|<>=!v^~ ,*-]{0,24}", other in ".{0,24}") {
        for text in [text, other] {
            let start = format!("{text:?} is not a ");
            let release = Version::with_release("1.0.0", &text).err();
            for error in [Range::parse(&text).err(), Version::parse(&text).err(), release].into_iter().flatten() {
                prop_assert!(error.to_string().starts_with(&start), "{}", error);
            }
        }
    }
}
