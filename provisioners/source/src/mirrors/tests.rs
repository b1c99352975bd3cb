use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn places(conf: &str, image: &str) -> Result<Vec<String>, Error> {
    let mirrors = Mirrors::parse(conf).unwrap();
    let places = mirrors.places(&image.parse().unwrap())?;
    let shown = |place: &ImageLocation| {
        let reference = place.reference.whole().replace(DIGEST, "DIGEST");
        format!(
            "{}{}{reference}",
            if place.is_mirror { "mirror " } else { "" },
            if place.insecure { "insecure " } else { "" }
        )
    };
    Ok(places.iter().map(shown).collect())
}

const EXAMPLE: &str = r#"
unqualified-search-registries = ["docker.io"]
short-name-mode = "disabled"
[aliases]
"x" = "y"
[[registry]]
location = "quay.io"
[[registry.mirror]]
location = "first.example.com:5000/quay"
insecure = true
[[registry.mirror]]
location = "second.example.com/"
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "third.example.com"
pull-from-mirror = "tag-only"
[[registry]]
prefix = "quay.io/team"
location = "internal.example.com/moved"
insecure = true
mirror-by-digest-only = true
[[registry.mirror]]
location = "team.example.com/x"
[[registry]]
prefix = "*.example.org"
[[registry.mirror]]
location = "org.example.com"
[[registry]]
prefix = "docker.io"
blocked = true
[[registry.mirror]]
location = "hub.example.com"
[[registry]]
prefix = "evil.example.com"
blocked = true
"#;

#[test]
fn mirrors_come_in_order_and_the_registry_itself_last() {
    let by_digest = format!("quay.io/a/b:v1@{DIGEST}");
    let team = format!("quay.io/team/app@{DIGEST}");
    let cases: [(&str, &[&str]); 9] = [
        (
            &by_digest,
            &[
                "mirror insecure first.example.com:5000/quay/a/b@DIGEST",
                "mirror second.example.com/a/b@DIGEST",
                "quay.io/a/b@DIGEST",
            ],
        ),
        (
            "quay.io/a/b:v1",
            &[
                "mirror insecure first.example.com:5000/quay/a/b:v1",
                "mirror third.example.com/a/b:v1",
                "quay.io/a/b:v1",
            ],
        ),
        (&team, &["mirror team.example.com/x/app@DIGEST", "insecure internal.example.com/moved/app@DIGEST"]),
        ("quay.io/team/app:v1", &["insecure internal.example.com/moved/app:v1"]),
        ("r.example.org/a", &["mirror org.example.com/a:latest", "r.example.org/a:latest"]),
        ("a.b.example.org/a:1", &["mirror org.example.com/a:1", "a.b.example.org/a:1"]),
        ("busybox:1", &["mirror hub.example.com/library/busybox:1"]),
        ("quay.io:8443/a:1", &["quay.io:8443/a:1"]),
        ("other.example.com/a:1", &["other.example.com/a:1"]),
    ];
    for (image, expected) in cases {
        assert_eq!(places(EXAMPLE, image).unwrap(), expected, "{image}");
    }
    let blocked = places(EXAMPLE, "evil.example.com/a:1").unwrap_err();
    assert_eq!(blocked.to_string(), "evil.example.com/a:1: registry evil.example.com is blocked in registries.conf");
    assert!(Mirrors::default().is_empty() && Mirrors::parse("").unwrap().is_empty());
    assert_eq!(places("", "quay.io/a").unwrap(), ["quay.io/a:latest"]);
}

#[test]
fn prefixes_end_where_names_end() {
    let cases = [
        ("quay.io/a/b:1", "quay.io", Some("/a/b:1")),
        ("quay.io/a/b:1", "quay.io/a", Some("/b:1")),
        ("quay.io/a/b:1", "quay.io/a/b", Some(":1")),
        ("quay.io/a/b:1", "quay.io/a/b:1", Some("")),
        ("quay.io/a/b@sha256:0", "quay.io/a/b", Some("@sha256:0")),
        ("quay.io/a/b:1", "quay.io/a/b:12", None),
        ("quay.io/a/bc:1", "quay.io/a/b", None),
        ("quay.io.evil/a:1", "quay.io", None),
        ("quay.io:5000/a:1", "quay.io", None),
        ("quay.io:5000/a:1", "quay.io:5000", Some("/a:1")),
        ("a.b.io/x:1", "*.b.io", Some("/x:1")),
        ("c.a.b.io/x:1", "*.b.io", Some("/x:1")),
        ("a.b.io/x/y:1", "*.b.io/x", Some("/y:1")),
        ("b.io/x:1", "*.b.io", None),
        ("ab.io/x:1", "*.b.io", None),
        ("a.b.io:5000/x:1", "*.b.io", None),
        ("a.b.io:5000/x:1", "*.b.io:5000", Some("/x:1")),
        ("evil/a.b.io/x:1", "*.b.io", None),
        ("a.b.io.b.io/x:1", "*.b.io", Some("/x:1")),
    ];
    for (name, prefix, rest) in cases {
        assert_eq!(matched(name, prefix).map(|end| &name[end..]), rest, "{name} {prefix}");
    }
}

#[test]
fn a_place_that_is_blocked_by_its_own_name_is_left_out() {
    let conf = r#"
        [[registry]]
        prefix = "quay.io"
        [[registry.mirror]]
        location = "evil.example.com"
        [[registry]]
        prefix = "evil.example.com"
        blocked = true"#;
    assert_eq!(places(conf, "quay.io/a:1").unwrap(), ["quay.io/a:1"]);
}

#[test]
fn a_location_needs_a_repository() {
    let conf = "[[registry]]\nprefix = \"quay.io/a\"\nlocation = \"host.example.com\"";
    assert_eq!(places(conf, "quay.io/a/b:1").unwrap(), ["host.example.com/b:1"]);
    assert!(matches!(places(conf, "quay.io/a:1"), Err(Error::NoRepository { .. })));
    // Not a name of Docker's hub, as a reference without a dot would be.
    let conf = "[[registry]]\nprefix = \"quay.io\"\nlocation = \"mirror\"";
    assert_eq!(places(conf, "quay.io/a:1").unwrap(), ["mirror/a:1"]);
}

#[test]
fn faults_are_named() {
    let cases = [
        ("[[registry]\n", "cannot be read"),
        ("[[registry]]\nprefix = 1", "cannot be read"),
        ("[[registry]]\nprefix = \"a\"\nblcoked = true", "cannot be read"),
        (
            "[[registry]]\nprefix = \"a\"\n[[registry.mirror]]\nlocation = \"b\"\npull-from-mirror = \"never\"",
            "cannot be read",
        ),
        ("[[registry]]\nprefix = \"a\"\n[[registry.mirror]]\ninsecure = true", "cannot be read"),
        ("[registries.search]\nregistries = [\"docker.io\"]", "format 1"),
        ("[[registry]]\nlocation = \"a\"\n[[registry]]\nblocked = true", "registry 2 has neither"),
        ("[[registry]]\nlocation = \"https://a\"", "without a scheme"),
        ("[[registry]]\nlocation = \"*.a\"", "only a prefix may have a wildcard"),
        ("[[registry]]\nprefix = \"a.*.b\"", "only a prefix may have a wildcard"),
        ("[[registry]]\nprefix = \"a b\"", "only letters"),
        ("[[registry]]\nprefix = \"/\"", "no host"),
        ("[[registry]]\nlocation = \"me:hush@a\"", "no login"),
        ("[[registry]]\nprefix = \"a\"\n[[registry]]\nprefix = \"a/\"", "two registries"),
        (
            "[[registry]]\nprefix = \"a\"\nmirror-by-digest-only = true\n\
             [[registry.mirror]]\nlocation = \"b\"\npull-from-mirror = \"all\"",
            "use one of them",
        ),
    ];
    for (conf, expected) in cases {
        let text = Mirrors::parse(conf).unwrap_err().to_string();
        assert!(text.contains(expected), "{conf}: {text}");
    }
}
