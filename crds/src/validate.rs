//! Validation of a Bundle's source: the one reader of the raw spec, used by the webhook and by the controller, so
//! that what is admitted can always be reconciled.
//!
//! Source of the texts: RukPak v0.16.0's webhook; the checks it lacks are worded alike.

use std::fmt;

use crate::{Authorization, BundleSource, ConfigMapSource, GitRef, GitSource};

/// A source that is known to be whole: exactly the member that its type names, with usable values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A container image.
    Image {
        /// The reference as given.
        reference: String,
        /// Name of the pull secret in the system namespace.
        pull_secret: Option<String>,
    },
    /// A git repository.
    Git {
        /// Its URL as given.
        repository: String,
        /// The bundle's root in it, cleaned: no leading `./`, no trailing slash. `None` is the repository's root.
        directory: Option<String>,
        /// What to fetch.
        reference: GitReference,
        /// How to authenticate.
        auth: Authorization,
    },
    /// ConfigMaps of the system namespace.
    ConfigMaps(Vec<ConfigMapSource>),
    /// An archive behind a URL.
    Http {
        /// The URL as given.
        url: String,
        /// How to authenticate.
        auth: Authorization,
    },
    /// Content uploaded by a client.
    Upload,
}

/// A git reference that is known to be exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitReference {
    /// A branch, by its short name.
    Branch(String),
    /// A tag, by its short name.
    Tag(String),
    /// A full commit id, as given.
    Commit(String),
}

/// What is wrong with a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The type is none that RukPak knows. Admitted, as upstream does; reported when it is unpacked.
    UnsupportedType(String),
    /// The member that the type names is missing.
    MemberMissing(&'static str),
    /// A member that the type does not name is there.
    MemberUnexpected {
        /// The type.
        type_: String,
        /// The other type's member.
        member: &'static str,
    },
    /// A required text is empty.
    Empty(&'static str),
    /// None of, or more than one of branch, tag and commit.
    GitRef,
    /// The commit is not 40 hexadecimal characters.
    GitCommit(String),
    /// The git directory leaves the repository upwards.
    DirectoryEscapes,
    /// The git directory is absolute.
    DirectoryAbsolute(String),
    /// No ConfigMap is named.
    NoConfigMaps,
    /// A ConfigMap has no name.
    ConfigMapUnnamed(usize),
    /// A ConfigMap's path leaves the bundle.
    ConfigMapPath(usize, String),
    /// The name of a Secret or a ConfigMap is none, and would be a part of a path.
    Name(String, String),
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedType(type_) => write!(formatter, "source type {type_:?} not supported"),
            Self::MemberMissing(member) => {
                write!(formatter, "bundle.spec.source.{member} must be set for source type {member:?}")
            }
            Self::MemberUnexpected { type_, member } => {
                write!(formatter, "bundle.spec.source.{member} must not be set for source type {type_:?}")
            }
            Self::Empty(field) => write!(formatter, "bundle.spec.source.{field} must not be empty"),
            Self::GitRef => {
                formatter.write_str("bundle.spec.source.git.ref must have exactly one of branch, tag and commit")
            }
            Self::GitCommit(commit) => write!(
                formatter,
                "bundle.spec.source.git.ref.commit {commit:?} is not a full commit id: 40 hexadecimal characters are needed"
            ),
            Self::DirectoryEscapes => formatter.write_str(
                "bundle.spec.source.git.directory begins with \"../\": directory must define path within the repository",
            ),
            Self::DirectoryAbsolute(directory) => write!(
                formatter,
                "bundle.spec.source.git.directory {directory:?} is absolute: directory must define path within the repository"
            ),
            Self::NoConfigMaps => {
                formatter.write_str("bundle.spec.source.configmaps must be set for source type \"configmaps\"")
            }
            Self::ConfigMapUnnamed(index) => {
                write!(formatter, "bundle.spec.source.configmaps[{index}].configmap.name must not be empty")
            }
            Self::ConfigMapPath(index, path) => write!(
                formatter,
                "bundle.spec.source.configmaps[{index}].path is invalid: {path:?} is outside bundle root"
            ),
            Self::Name(field, name) => write!(
                formatter,
                "bundle.spec.source.{field} {name:?} is not the name of an object: lower-case letters, digits, - and . are allowed"
            ),
        }
    }
}

/// All findings about one source, printed as Kubernetes prints aggregates: bare for one, `[a, b]` for several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

impl fmt::Display for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => one.fmt(formatter),
            many => {
                let texts: Vec<String> = many.iter().map(Finding::to_string).collect();
                write!(formatter, "[{}]", texts.join(", "))
            }
        }
    }
}

impl std::error::Error for Findings {}

/// Reads a source.
///
/// # Errors
/// Everything that is wrong with it, at once.
pub fn source(raw: &BundleSource) -> Result<Source, Findings> {
    let mut findings = Vec::new();
    let parsed = match raw.type_.as_str() {
        "image" => image(raw, &mut findings),
        "git" => git(raw, &mut findings),
        "configMaps" => config_maps(raw, &mut findings),
        "http" => http(raw, &mut findings),
        "upload" => upload(raw, &mut findings),
        other => {
            findings.push(Finding::UnsupportedType(other.to_owned()));
            None
        }
    };
    // What the type names is reported first: it is what upstream reports, and alone.
    let is_missing = |finding: &Finding| matches!(finding, Finding::MemberMissing(_) | Finding::NoConfigMaps);
    if parsed.is_some() || !findings.iter().any(is_missing) {
        unexpected_members(raw, &mut findings);
    }
    match parsed {
        Some(source) if findings.is_empty() => Ok(source),
        _ => Err(Findings(findings)),
    }
}

fn unexpected_members(raw: &BundleSource, findings: &mut Vec<Finding>) {
    let members = [
        ("image", raw.image.is_some()),
        ("git", raw.git.is_some()),
        ("configMaps", raw.config_maps.is_some()),
        ("upload", raw.upload.is_some()),
        ("http", raw.http.is_some()),
    ];
    if !members.iter().any(|(name, _)| *name == raw.type_) {
        return;
    }
    for (member, present) in members {
        if present && member != raw.type_ {
            findings.push(Finding::MemberUnexpected { type_: raw.type_.clone(), member });
        }
    }
}

fn image(raw: &BundleSource, findings: &mut Vec<Finding>) -> Option<Source> {
    let Some(image) = &raw.image else {
        findings.push(Finding::MemberMissing("image"));
        return None;
    };
    if image.reference.is_empty() {
        findings.push(Finding::Empty("image.ref"));
    }
    check_name("image.pullSecret", image.pull_secret.as_deref(), findings);
    Some(Source::Image { reference: image.reference.clone(), pull_secret: filled(image.pull_secret.as_deref()) })
}

fn git(raw: &BundleSource, findings: &mut Vec<Finding>) -> Option<Source> {
    let Some(git) = &raw.git else {
        findings.push(Finding::MemberMissing("git"));
        return None;
    };
    if git.repository.is_empty() {
        findings.push(Finding::Empty("git.repository"));
    }
    check_secret("git.auth.secret.name", git.auth.as_ref(), findings);
    let directory = git_directory(git, findings);
    let reference = git_reference(&git.reference, findings)?;
    Some(Source::Git {
        repository: git.repository.clone(),
        directory,
        reference,
        auth: git.auth.clone().unwrap_or_default(),
    })
}

fn git_reference(raw: &GitRef, findings: &mut Vec<Finding>) -> Option<GitReference> {
    let given = (filled(raw.branch.as_deref()), filled(raw.tag.as_deref()), filled(raw.commit.as_deref()));
    match given {
        (Some(branch), None, None) => Some(GitReference::Branch(branch)),
        (None, Some(tag), None) => Some(GitReference::Tag(tag)),
        (None, None, Some(commit)) => {
            if commit.len() != 40 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                findings.push(Finding::GitCommit(commit.clone()));
            }
            Some(GitReference::Commit(commit.to_ascii_lowercase()))
        }
        _ => {
            findings.push(Finding::GitRef);
            None
        }
    }
}

fn git_directory(git: &GitSource, findings: &mut Vec<Finding>) -> Option<String> {
    let directory = git.directory.as_deref().unwrap_or_default();
    if directory.starts_with('/') {
        findings.push(Finding::DirectoryAbsolute(directory.to_owned()));
        return None;
    }
    let Some(clean) = clean(directory) else {
        findings.push(Finding::DirectoryEscapes);
        return None;
    };
    filled(Some(&clean))
}

fn config_maps(raw: &BundleSource, findings: &mut Vec<Finding>) -> Option<Source> {
    let entries = raw.config_maps.as_deref().unwrap_or_default();
    if entries.is_empty() {
        findings.push(Finding::NoConfigMaps);
        return None;
    }
    for (index, entry) in entries.iter().enumerate() {
        if filled(entry.config_map.name.as_deref()).is_none() {
            findings.push(Finding::ConfigMapUnnamed(index));
        }
        let field = format!("configmaps[{index}].configmap.name");
        check_name(&field, entry.config_map.name.as_deref(), findings);
        let path = entry.path.as_deref().unwrap_or_default();
        if path.starts_with('/') || clean(path).is_none() {
            findings.push(Finding::ConfigMapPath(index, path.to_owned()));
        }
    }
    Some(Source::ConfigMaps(entries.to_vec()))
}

fn http(raw: &BundleSource, findings: &mut Vec<Finding>) -> Option<Source> {
    let Some(http) = &raw.http else {
        findings.push(Finding::MemberMissing("http"));
        return None;
    };
    if http.url.is_empty() {
        findings.push(Finding::Empty("http.url"));
    }
    check_secret("http.auth.secret.name", http.auth.as_ref(), findings);
    Some(Source::Http { url: http.url.clone(), auth: http.auth.clone().unwrap_or_default() })
}

fn upload(raw: &BundleSource, findings: &mut Vec<Finding>) -> Option<Source> {
    if raw.upload.is_none() {
        findings.push(Finding::MemberMissing("upload"));
        return None;
    }
    Some(Source::Upload)
}

fn check_secret(field: &str, auth: Option<&Authorization>, findings: &mut Vec<Finding>) {
    check_name(field, auth.and_then(Authorization::secret_name), findings);
}

/// Adds a finding for a name that no object can have. An empty one names nothing.
fn check_name(field: &str, name: Option<&str>, findings: &mut Vec<Finding>) {
    if let Some(name) = name.filter(|name| !name.is_empty() && !is_name(name)) {
        findings.push(Finding::Name(field.to_owned(), name.to_owned()));
    }
}

/// Whether a text can be the name of an object, and so a part of a path: a DNS subdomain.
pub fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        label.bytes().all(|byte| is_letter(byte) || byte == b'-')
            && label.bytes().next().is_some_and(is_letter)
            && label.bytes().next_back().is_some_and(is_letter)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn filled(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Cleans a relative path lexically, as Go's `filepath.Clean` does; `None` if it leaves its root.
fn clean(path: &str) -> Option<String> {
    let mut components = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop()?;
            }
            other => components.push(other),
        }
    }
    Some(components.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_names_become_parts_of_paths() {
        for name in ["a", "a-b.c1", "things.example.com", &"a".repeat(253)] {
            assert!(is_name(name), "{name}");
        }
        for text in [
            "",
            ".",
            "..",
            "a/b",
            "../secrets/x",
            "a?watch=1",
            "a#b",
            "a b",
            "A",
            "a%2Fb",
            "-a",
            "a.",
            "a\n",
            &"a".repeat(254),
        ] {
            assert!(!is_name(text), "{text}");
        }
    }

    fn read(value: Value) -> Result<Source, String> {
        source(&serde_json::from_value(value).unwrap()).map_err(|findings| findings.to_string())
    }

    #[test]
    fn refuses_with_the_words_of_upstream() {
        let image = json!({"ref": "r"});
        let git = json!({"repository": "r", "ref": {"tag": "t"}});
        for (value, text) in [
            (json!({"type": "git", "image": image}), r#"bundle.spec.source.git must be set for source type "git""#),
            (json!({"type": "image", "git": git}), r#"bundle.spec.source.image must be set for source type "image""#),
            (json!({"type": "http", "git": git}), r#"bundle.spec.source.http must be set for source type "http""#),
            (
                json!({"type": "upload", "git": git}),
                r#"bundle.spec.source.upload must be set for source type "upload""#,
            ),
            (
                json!({"type": "configMaps"}),
                r#"bundle.spec.source.configmaps must be set for source type "configmaps""#,
            ),
            (
                json!({"type": "configMaps", "git": git}),
                r#"bundle.spec.source.configmaps must be set for source type "configmaps""#,
            ),
            (json!({"type": "local"}), r#"source type "local" not supported"#),
            (
                json!({"type": "image", "image": image, "git": git}),
                r#"bundle.spec.source.git must not be set for source type "image""#,
            ),
        ] {
            assert_eq!(read(value), Err(text.to_owned()));
        }
    }

    #[test]
    fn the_directory_stays_in_the_repository() {
        let with = |directory: &str| {
            read(json!({"type": "git", "git": {"repository": "r", "directory": directory, "ref": {"tag": "t"}}}))
        };
        for bad in ["..", "../", "../a", "a/../..", "a/../../b", "./.."] {
            assert!(with(bad).unwrap_err().contains(r#"begins with "../""#), "{bad}");
        }
        assert!(with("/a").unwrap_err().contains("is absolute"));
        for (given, clean) in [("./dev/deploy", Some("dev/deploy")), (".", None), ("", None), ("a/../b/", Some("b"))] {
            let Ok(Source::Git { directory, .. }) = with(given) else { panic!("{given}") };
            assert_eq!(directory.as_deref(), clean);
        }
    }

    #[test]
    fn a_git_reference_is_exactly_one() {
        let with = |reference: Value| read(json!({"type": "git", "git": {"repository": "r", "ref": reference}}));
        assert!(with(json!({})).unwrap_err().contains("exactly one of branch, tag and commit"));
        assert!(with(json!({"tag": "a", "branch": "b"})).is_err());
        assert!(with(json!({"commit": "abc"})).unwrap_err().contains("40 hexadecimal"));
        assert!(with(json!({"commit": "A".repeat(40)})).is_ok());
    }

    #[test]
    fn a_name_that_would_lead_to_another_path_is_refused() {
        let auth = |name: &str| json!({"secret": {"name": name}});
        for name in ["../../other/secrets/x", "x?watch=1", "x#y", "X", "a_b", "..", "a/b", "-a", "a.", " a"] {
            for source in [
                json!({"type": "image", "image": {"ref": "r", "pullSecret": name}}),
                json!({"type": "git", "git": {"repository": "r", "ref": {"tag": "t"}, "auth": auth(name)}}),
                json!({"type": "http", "http": {"url": "u", "auth": auth(name)}}),
                json!({"type": "configMaps", "configMaps": [{"configMap": {"name": name}}]}),
            ] {
                let text = read(source).unwrap_err();
                assert!(text.contains("is not the name of an object"), "{name}: {text}");
            }
        }
        for name in ["", "a", "a-b.c1"] {
            assert!(read(json!({"type": "image", "image": {"ref": "r", "pullSecret": name}})).is_ok(), "{name}");
        }
    }

    #[test]
    fn several_findings_come_at_once() {
        let error = read(json!({"type": "configMaps", "configMaps": [
            {"configMap": {"name": "a"}, "path": "../x"}, {"configMap": {}, "path": "manifests"}]}))
        .unwrap_err();
        assert_eq!(
            error,
            "[bundle.spec.source.configmaps[0].path is invalid: \"../x\" is outside bundle root, \
             bundle.spec.source.configmaps[1].configmap.name must not be empty]"
        );
    }
}
