use super::*;

fn plain(text: &str) -> Scalar<'_> {
    resolve(Cow::Borrowed(text), ScalarStyle::Plain, None).unwrap()
}

fn tagged(tag: &str, text: &str) -> Result<Scalar<'static>, Error> {
    let tag = Tag { handle: "tag:yaml.org,2002:".to_owned(), suffix: tag.to_owned() };
    resolve(Cow::Owned(text.to_owned()), ScalarStyle::Plain, Some(&tag))
}

#[test]
fn words() {
    for text in ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"] {
        assert_eq!(plain(text), Scalar::Bool(true), "{text}");
    }
    for text in ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"] {
        assert_eq!(plain(text), Scalar::Bool(false), "{text}");
    }
    for text in ["", "~", "null", "Null", "NULL"] {
        assert_eq!(plain(text), Scalar::Null, "{text}");
    }
    for text in ["yES", "oN", "tRUE", "nULL", "=", ".", "..", "<<", "yes please"] {
        assert_eq!(plain(text), Scalar::Text(text.into()), "{text}");
    }
}

#[test]
fn integers() {
    let table = [
        ("0", 0),
        ("-0", 0),
        ("+1", 1),
        ("0755", 0o755),
        ("0_7", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("0X1F", 31),
        ("0x_1F", 31),
        ("+0x1F", 31),
        ("-0b11", -3),
        ("0B1", 1),
        ("0b-1", -1),
        ("0b+1", 1),
        ("1__0", 10),
        ("1_", 1),
        ("+_1", 1),
        ("1_000", 1000),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
    ];
    for (text, integer) in table {
        assert_eq!(plain(text), Scalar::Integer(integer), "{text}");
    }
    assert_eq!(plain("0xFFFFFFFFFFFFFFFF"), Scalar::Unsigned(u64::MAX));
    assert_eq!(plain("9223372036854775808"), Scalar::Unsigned(1 << 63));
}

#[test]
fn floats() {
    let table = [
        ("08", 8.0),
        ("0888", 888.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("+.5", 0.5),
        (".5e3", 500.0),
        (".1_0", 0.1),
        ("-.1_0", -0.1),
        ("1e3", 1000.0),
        ("1E3", 1000.0),
        ("12e03", 12000.0),
        ("1e-400", 0.0),
        ("1_0.5", 10.5),
        ("1_e1_0", 1e10),
        ("+18446744073709551615", 18_446_744_073_709_551_615.0),
        ("-9223372036854775809", -9_223_372_036_854_775_809.0),
        ("18446744073709551616", 18_446_744_073_709_551_616.0),
        ("+.inf", f64::INFINITY),
        ("-.Inf", f64::NEG_INFINITY),
    ];
    for (text, float) in table {
        assert_eq!(plain(text), Scalar::Float(float), "{text}");
    }
    assert!(matches!(plain(".NaN"), Scalar::Float(float) if float.is_nan()));
}

#[test]
fn text_that_looks_like_a_number() {
    for text in [
        "0b",
        "0x",
        "0xZZ",
        "0o8",
        "0x+1",
        "0x-1",
        "0o-7",
        "0-7",
        "-0b-1",
        "-0b+1",
        "190:20:30",
        "1:30",
        "+",
        "-",
        ".e5",
        ".5p3",
        ".5_",
        "._5",
        "1e400",
        "inf",
        "-nan",
        "2001-01-01",
        "2001-12-14t21:59:43.10-05:00",
        "1.2.3",
        "1,000",
        "_1",
        "1e",
        "0.1.0",
    ] {
        assert_eq!(plain(text), Scalar::Text(text.into()), "{text}");
    }
}

#[test]
fn quoted_text_stays_text() {
    for style in [ScalarStyle::SingleQuoted, ScalarStyle::DoubleQuoted, ScalarStyle::Literal, ScalarStyle::Folded] {
        assert_eq!(resolve("yes".into(), style, None), Ok(Scalar::Text("yes".into())));
    }
}

#[test]
fn explicit_tags() {
    assert_eq!(tagged("str", "3"), Ok(Scalar::Text("3".into())));
    assert_eq!(tagged("str", ""), Ok(Scalar::Text("".into())));
    assert_eq!(tagged("int", "0x10"), Ok(Scalar::Integer(16)));
    assert_eq!(tagged("float", "3"), Ok(Scalar::Float(3.0)));
    assert_eq!(tagged("bool", "on"), Ok(Scalar::Bool(true)));
    assert_eq!(tagged("null", ""), Ok(Scalar::Null));
    assert_eq!(tagged("timestamp", "2001-1-1"), Ok(Scalar::Text("2001-1-1".into())));
    assert_eq!(tagged("binary", "aGVs\nbG8="), Ok(Scalar::Text("hello".into())));
    assert_eq!(tagged("binary", "/w=="), Ok(Scalar::Text("\u{fffd}".into())));
    assert_eq!(tagged("seq", "foo"), Ok(Scalar::Text("foo".into())));
    for (tag, text) in
        [("int", "foo"), ("int", "3.0"), ("int", ""), ("bool", "1"), ("null", "foo"), ("timestamp", "foo")]
    {
        assert!(matches!(tagged(tag, text), Err(Error::Tag { .. })), "{tag} {text}");
    }
    assert_eq!(tagged("binary", "=="), Err(Error::Binary));
    let local = Tag { handle: "!".to_owned(), suffix: "foo".to_owned() };
    assert_eq!(resolve("12".into(), ScalarStyle::Plain, Some(&local)), Ok(Scalar::Text("12".into())));
    let verbatim = Tag { handle: String::new(), suffix: "tag:yaml.org,2002:int".to_owned() };
    assert_eq!(resolve("12".into(), ScalarStyle::SingleQuoted, Some(&verbatim)), Ok(Scalar::Integer(12)));
}

#[test]
fn a_merge_key_is_plain_or_says_that_it_is_one() {
    let tag = |handle: &str, suffix: &str| Tag { handle: handle.to_owned(), suffix: suffix.to_owned() };
    let is = |style, tag: Option<Tag>| is_merge("<<", style, tag.as_ref());
    assert!(is(ScalarStyle::Plain, None) && !is(ScalarStyle::DoubleQuoted, None));
    assert!(is(ScalarStyle::DoubleQuoted, Some(tag("", "!"))));
    assert!(is(ScalarStyle::Plain, Some(tag("tag:yaml.org,2002:", "merge"))));
    assert!(!is(ScalarStyle::Plain, Some(tag("tag:yaml.org,2002:", "str"))));
    assert!(!is(ScalarStyle::Plain, Some(tag("", "tag:example.com:merge"))));
}

#[test]
fn floats_become_the_json_that_kubectl_sends() {
    assert_eq!(json_float(1.0), Some(Value::from(1)));
    assert_eq!(json_float(-0.0), Some(Value::from(0)));
    assert_eq!(json_float(1e18), Some(Value::from(1_000_000_000_000_000_000_i64)));
    assert_eq!(json_float(1e21), Some(Value::from(1e21)));
    assert_eq!(json_float(0.1), Some(Value::from(0.1)));
    assert_eq!(json_float(f64::NAN), None);
    assert_eq!(json_float(f64::INFINITY), None);
}

#[test]
fn floats_as_keys() {
    let table = [
        (1.5, "1.5"),
        (0.1, "0.1"),
        (8.0, "8"),
        (1e10, "1e+10"),
        (1e6, "1e+06"),
        (1_234_567.0, "1.234567e+06"),
        (123_456.5, "123456.5"),
        (0.000_01, "1e-05"),
        (1e100, ".inf"),
        (f64::NEG_INFINITY, "-.inf"),
        (f64::NAN, ".nan"),
    ];
    for (float, key) in table {
        assert_eq!(float_key(float), key);
    }
}
