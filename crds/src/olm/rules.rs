//! What the fields of OLM v1's kinds must be, beside their types: `x-kubernetes-validations` in the definitions.
//!
//! The controller checks them too, for objects that were stored before a rule was: a rule about a text is data, from which both
//! the CEL and the check in Rust are made. The messages are upstream's, to the letter.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

/// A rule about a text: it matches a pattern, perhaps only where it matches another, or does not.
pub struct TextRule {
    guard: Guard,
    /// In the syntax that RE2 and the crate `regex` share. Not anchored.
    pattern: &'static str,
    message: &'static str,
    compiled: LazyLock<Option<(Option<Regex>, Regex)>>,
}

/// Where a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    Always,
    /// For texts with a digest, as upstream recognises one.
    WithDigest,
    /// For the others.
    WithoutDigest,
}

/// A rule that the CEL alone states; its twin in Rust is where the field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What must be true.
    pub cel: &'static str,
    /// What is said otherwise.
    pub message: &'static str,
}

/// A rule that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub &'static str);

impl Violation {
    /// Of this rule.
    pub const fn of(rule: Rule) -> Self {
        Self(rule.message)
    }
}

/// An at sign with a colon somewhere behind it.
const DIGEST: &str = "@.*:";
/// A name of labels with dots between them, as RFC 1123 has it.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

macro_rules! text_rule {
    ($guard:ident, $pattern:expr, $message:expr) => {
        TextRule {
            guard: Guard::$guard,
            pattern: $pattern,
            message: $message,
            compiled: LazyLock::new(|| {
                let guard = if matches!(Guard::$guard, Guard::Always) { None } else { Some(Regex::new(DIGEST).ok()?) };
                Some((guard, Regex::new($pattern).ok()?))
            }),
        }
    };
}

/// The reference of a catalog's image.
pub static IMAGE_REFERENCE: [TextRule; 8] = [
    text_rule!(
        Always,
        r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*(:[0-9]+)?\b",
        "must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \
         \".\" character."
    ),
    text_rule!(
        Always,
        "/[a-z0-9]",
        "a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \
         \"__\", \"-\" characters."
    ),
    text_rule!(Always, ":", "must end with a digest or a tag"),
    text_rule!(WithoutDigest, "^[^:]*(:.{0,127})?$", "tag is invalid. the tag must not be more than 127 characters"),
    text_rule!(
        WithoutDigest,
        "^[^:]*$|:[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        "tag is invalid. valid tags must begin with a word character (alphanumeric + \"_\") followed by word characters or \".\", \
         and \"-\" characters"
    ),
    text_rule!(
        WithDigest,
        "@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:",
        "digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by \
         alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters."
    ),
    text_rule!(WithDigest, "^[^:]*:.{32}", "digest is not valid. the encoded string must be at least 32 characters"),
    text_rule!(
        WithDigest,
        ":[0-9A-Fa-f]*$",
        "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)"
    ),
];

/// The reference of an image that was resolved, in place of the rule that a tag would do.
static RESOLVED_REFERENCE: [TextRule; 1] = [text_rule!(Always, DIGEST, "must end with a digest")];

/// `status.urls.base`.
static BASE_URL: [TextRule; 2] = [
    text_rule!(Always, "^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]", "must be a valid URL"),
    text_rule!(Always, "^https?:", "scheme must be either http or https"),
];

/// `spec.namespace`.
pub static NAMESPACE: [TextRule; 1] =
    [text_rule!(Always, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "namespace must be a valid DNS1123 label")];

/// `spec.source.catalog.packageName`.
pub static PACKAGE_NAME: [TextRule; 1] = [text_rule!(
    Always,
    SUBDOMAIN,
    "packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods \
     (.), start and end with an alphanumeric character, and be no longer than 253 characters"
)];

/// `spec.serviceAccount.name`.
static SERVICE_ACCOUNT: [TextRule; 1] = [text_rule!(
    Always,
    SUBDOMAIN,
    "name must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), \
     start and end with an alphanumeric character, and be no longer than 253 characters"
)];

/// Each of `spec.source.catalog.channels`.
pub static CHANNEL: [TextRule; 1] =
    [text_rule!(Always, SUBDOMAIN, "channels entries must be valid DNS1123 subdomains")];

/// `spec.source.catalog.version`: comparisons with spaces or commas (and) or `||` (or) between them. What upstream lets through by
/// accident (`|`, `*]`) is refused, and what it refuses by accident (`1.*.*`, `1 || *`) is not.
pub static VERSION: [TextRule; 1] = [text_rule!(
    Always,
    concat!(
        r"^\s*(=|!=|>|<|>=|=>|<=|=<|~|~>|\^)?\s*v?(0|[1-9][0-9]*|[xX*])(\.(0|[1-9][0-9]*|[xX*])){0,2}",
        r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
        r"((\s+|\s*,\s*|\s*\|\|\s*)(=|!=|>|<|>=|=>|<=|=<|~|~>|\^)?\s*v?(0|[1-9][0-9]*|[xX*])(\.(0|[1-9][0-9]*|[xX*])){0,2}",
        r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?)*\s*$"
    ),
    "invalid version expression"
)];

/// `status.install.bundle.version`.
pub static BUNDLE_VERSION: [TextRule; 1] =
    [text_rule!(Always, r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)", "version must be well-formed semver")];

/// `status.install.bundle.release`.
static BUNDLE_RELEASE: [TextRule; 1] = [text_rule!(
    Always,
    r"^((0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?$",
    "release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)"
)];

/// Names of the phases of an object set.
static PHASE_NAME: [TextRule; 1] = [text_rule!(
    Always,
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character."
)];

/// Paths of fields in the probes of an object set.
static FIELD_PATH: [TextRule; 1] = [text_rule!(
    Always,
    r"^[a-zA-Z0-9]+(\.[a-zA-Z0-9]+)*$",
    "must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the \".\" character."
)];

/// Digests of the phases of an object set.
static PHASE_DIGEST: [TextRule; 1] =
    [text_rule!(Always, "^[a-z0-9]+:[a-f0-9]+$", "digest must be in the format '<algorithm>:<hex>'")];

/// The source of a catalog, and that of its status.
pub const CATALOG_SOURCE: Rule = Rule {
    cel: "self.type == 'Image' ? has(self.image) : !has(self.image)",
    message: "image is required when source type is Image, and forbidden otherwise",
};
/// The image of a catalog.
pub const POLL_INTERVAL: Rule = Rule {
    cel: "!has(self.pollIntervalMinutes) || !self.ref.contains('@')",
    message: "cannot specify pollIntervalMinutes while using digest-based image",
};
/// The source of an extension.
pub const EXTENSION_SOURCE: Rule = Rule {
    cel: "self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)",
    message: "catalog is required when sourceType is Catalog, and forbidden otherwise",
};
/// `spec.install`.
pub const INSTALL: Rule =
    Rule { cel: "has(self.preflight)", message: "at least one of [preflight] are required when install is specified" };
/// `spec.install.preflight`.
pub const PREFLIGHT: Rule = Rule {
    cel: "has(self.crdUpgradeSafety)",
    message: "at least one of [crdUpgradeSafety] are required when preflight is specified",
};
/// `spec.config`.
pub const CONFIG: Rule = Rule {
    cel: "self.configType == 'Inline' ? has(self.inline) : !has(self.inline)",
    message: "inline is required when configType is Inline, and forbidden otherwise",
};

/// The `spec` of an extension: where it is installed is settled when it is created.
const NAMESPACE_PRESENCE: Rule = Rule {
    // Before Kubernetes 1.30 the field has no other name in CEL, where `namespace` is a reserved word.
    cel: "has(oldSelf.__namespace__) == has(self.__namespace__)",
    message: "namespace presence is immutable; it cannot be added or removed after creation",
};

/// Whether an object set is kept.
const UNARCHIVE: Rule =
    Rule { cel: "oldSelf == 'Active' || oldSelf == 'Archived' && oldSelf == self", message: "cannot un-archive" };
/// What an object set holds.
const PHASES: Rule = Rule { cel: "self == oldSelf || oldSelf.size() == 0", message: "phases is immutable" };
/// Which objects a probe is about.
const SELECTOR: [Rule; 2] = [
    Rule {
        cel: "self.type == 'GroupKind' ? has(self.groupKind) : !has(self.groupKind)",
        message: "groupKind is required when type is GroupKind, and forbidden otherwise",
    },
    Rule {
        cel: "self.type == 'Label' ? has(self.label) : !has(self.label)",
        message: "label is required when type is Label, and forbidden otherwise",
    },
];
/// The labels that a probe is about.
const LABEL: Rule = Rule {
    cel: "has(self.matchExpressions) != has(self.matchLabels)",
    message: "exactly one of matchLabels or matchExpressions must be set",
};
/// What a probe asks for.
const ASSERTION: [Rule; 3] = [
    Rule {
        cel: "self.type == 'ConditionEqual' ? has(self.conditionEqual) : !has(self.conditionEqual)",
        message: "conditionEqual is required when type is ConditionEqual, and forbidden otherwise",
    },
    Rule {
        cel: "self.type == 'FieldsEqual' ? has(self.fieldsEqual) : !has(self.fieldsEqual)",
        message: "fieldsEqual is required when type is FieldsEqual, and forbidden otherwise",
    },
    Rule {
        cel: "self.type == 'FieldValue' ? has(self.fieldValue) : !has(self.fieldValue)",
        message: "fieldValue is required when type is FieldValue, and forbidden otherwise",
    },
];
/// What was observed of the phases of an object set.
const OBSERVED_PHASES: Rule = Rule {
    cel: "oldSelf.size() == 0 || (self.size() == oldSelf.size() && oldSelf.all(o, self.exists(n, n.name == o.name)))",
    message: "observedPhases: phases cannot be added or removed once set",
};

const fn immutable(message: &'static str) -> Rule {
    Rule { cel: "self == oldSelf", message }
}

impl TextRule {
    /// Whether `text` keeps the rule.
    pub fn holds(&self, text: &str) -> bool {
        // The patterns are constants, and a test compiles them all.
        let Some((guard, pattern)) = &*self.compiled else { return false };
        let has_digest = guard.as_ref().is_some_and(|digest| digest.is_match(text));
        let is_meant = match self.guard {
            Guard::Always => true,
            Guard::WithDigest => has_digest,
            Guard::WithoutDigest => !has_digest,
        };
        !is_meant || pattern.is_match(text)
    }

    /// The rule in CEL, about `subject`.
    fn cel(&self, subject: &str) -> String {
        let matches = |pattern: &str| format!("{subject}.matches('{}')", pattern.replace('\\', r"\\"));
        match self.guard {
            Guard::Always => matches(self.pattern),
            Guard::WithDigest => format!("!{} || {}", matches(DIGEST), matches(self.pattern)),
            Guard::WithoutDigest => format!("{} || {}", matches(DIGEST), matches(self.pattern)),
        }
    }
}

/// Whether `text` keeps all the rules.
///
/// # Errors
/// The first that it breaks.
pub fn check(rules: &'static [TextRule], text: &str) -> Result<(), Violation> {
    rules.iter().find(|rule| !rule.holds(text)).map_or(Ok(()), |rule| Err(Violation(rule.message)))
}

/// Adds the rules of ClusterCatalog to its schema.
pub(crate) fn of_cluster_catalog(schema: &mut Value) {
    texts(schema, "spec.source.image.ref", &IMAGE_REFERENCE);
    add(schema, "spec.source", &[CATALOG_SOURCE]);
    add(schema, "spec.source.image", &[POLL_INTERVAL]);
    add(schema, "status.resolvedSource", &[CATALOG_SOURCE]);
    texts(schema, "status.resolvedSource.image.ref", &RESOLVED_REFERENCE);
    texts(schema, "status.urls.base", &BASE_URL);
}

/// Adds the rules of ClusterExtension to its schema.
pub(crate) fn of_cluster_extension(schema: &mut Value) {
    add(schema, "spec", &[NAMESPACE_PRESENCE]);
    add(schema, "spec.namespace", &[immutable("namespace is immutable")]);
    texts(schema, "spec.namespace", &NAMESPACE);
    add(schema, "spec.serviceAccount.name", &[immutable("name is immutable once set but may be cleared")]);
    texts(schema, "spec.serviceAccount.name", &SERVICE_ACCOUNT);
    add(schema, "spec.source", &[EXTENSION_SOURCE]);
    let catalog = "spec.source.catalog";
    add(schema, &format!("{catalog}.packageName"), &[immutable("packageName is immutable")]);
    texts(schema, &format!("{catalog}.packageName"), &PACKAGE_NAME);
    texts(schema, &format!("{catalog}.version"), &VERSION);
    let [channel] = &CHANNEL;
    let each = json!({"rule": format!("self.all(channel, {})", channel.cel("channel")), "message": channel.message});
    push(schema, &format!("{catalog}.channels"), each);
    add(schema, "spec.install", &[INSTALL]);
    add(schema, "spec.install.preflight", &[PREFLIGHT]);
    add(schema, "spec.config", &[CONFIG]);
    texts(schema, "status.install.bundle.name", &PACKAGE_NAME);
    texts(schema, "status.install.bundle.version", &BUNDLE_VERSION);
    texts(schema, "status.install.bundle.release", &BUNDLE_RELEASE);
}

/// Adds the rules of ClusterObjectSet to its schema.
pub(crate) fn of_cluster_object_set(schema: &mut Value) {
    add(schema, "spec.lifecycleState", &[UNARCHIVE]);
    add(schema, "spec.revision", &[immutable("revision is immutable")]);
    add(schema, "spec.phases", &[PHASES]);
    texts(schema, "spec.phases[].name", &PHASE_NAME);
    add(schema, "spec.collisionProtection", &[immutable("collisionProtection is immutable")]);
    let probe = "spec.progressionProbes[]";
    add(schema, &format!("{probe}.selector"), &SELECTOR);
    add(schema, &format!("{probe}.selector.label"), &[LABEL]);
    add(schema, &format!("{probe}.assertions[]"), &ASSERTION);
    for field in ["fieldsEqual.fieldA", "fieldsEqual.fieldB", "fieldValue.fieldPath"] {
        texts(schema, &format!("{probe}.assertions[].{field}"), &FIELD_PATH);
    }
    add(schema, "status.observedPhases", &[OBSERVED_PHASES]);
    texts(schema, "status.observedPhases[].name", &PHASE_NAME);
    add(schema, "status.observedPhases[].digest", &[immutable("digest is immutable")]);
    texts(schema, "status.observedPhases[].digest", &PHASE_DIGEST);
}

fn texts(schema: &mut Value, path: &str, rules: &[TextRule]) {
    for rule in rules {
        push(schema, path, json!({"rule": rule.cel("self"), "message": rule.message}));
    }
}

fn add(schema: &mut Value, path: &str, rules: &[Rule]) {
    for Rule { cel, message } in rules {
        push(schema, path, json!({"rule": cel, "message": message}));
    }
}

/// Adds a rule to the field at `path`, names of fields with dots between them. With `[]` behind a name it is about the items.
fn push(schema: &mut Value, path: &str, rule: Value) {
    let field = path.split('.').fold(schema, |schema, name| match name.strip_suffix("[]") {
        Some(list) => &mut schema["properties"][list]["items"],
        None => &mut schema["properties"][name],
    });
    match &mut field["x-kubernetes-validations"] {
        Value::Array(rules) => rules.push(rule),
        none => *none = json!([rule]),
    }
}
