//! Whether two raw specs mean the same.
//!
//! RukPak v0.16 compares decoded structs, in which a missing text and an empty one are the same, and which cannot hold
//! fields they do not know. Here the raw objects are compared, so that a field we do not know is immutable too; the
//! places where missing and empty mean the same are listed.

use serde_json::Value;

/// Fields that mean the same missing and empty (`""`, `false`, `[]`, `{}`). `*` stands for any index. All others, such
/// as the members of the source union, say something by being there.
const OMITTED_WHEN_EMPTY: [&str; 15] = [
    "source.configMaps",
    "source.configMaps.*.configMap.name",
    "source.configMaps.*.path",
    "source.git.auth",
    "source.git.auth.insecureSkipVerify",
    "source.git.auth.secret",
    "source.git.auth.secret.name",
    "source.git.directory",
    "source.git.ref.branch",
    "source.git.ref.commit",
    "source.git.ref.tag",
    "source.http.auth",
    "source.http.auth.insecureSkipVerify",
    "source.http.auth.secret",
    "source.http.auth.secret.name",
];
const PULL_SECRET: &str = "source.image.pullSecret";

/// Whether two specs mean the same.
pub fn same(left: &Value, right: &Value) -> bool {
    normal(left, "") == normal(right, "")
}

fn normal(value: &Value, path: &str) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let value = normal(value, &path);
                (!omitted(&value, &path)).then(|| (name.clone(), value))
            })
            .collect(),
        Value::Array(items) => items.iter().map(|item| normal(item, &format!("{path}.*"))).collect(),
        scalar => scalar.clone(),
    }
}

fn omitted(value: &Value, path: &str) -> bool {
    let empty = match value {
        Value::Null => return true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => false,
    };
    empty && (path == PULL_SECRET || OMITTED_WHEN_EMPTY.contains(&path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn git(member: &Value) -> Value {
        let mut git = json!({"repository": "r", "ref": {"tag": "t"}});
        for (name, value) in member.as_object().unwrap() {
            git[name] = value.clone();
        }
        json!({"provisionerClassName": "p", "source": {"type": "git", "git": git}})
    }

    #[test]
    fn missing_and_empty_mean_the_same_where_listed() {
        let bare = git(&json!({}));
        for member in [
            json!({"directory": ""}),
            json!({"directory": null}),
            json!({"auth": {}}),
            json!({"auth": {"secret": {}}}),
            json!({"auth": {"secret": {"name": ""}, "insecureSkipVerify": false}}),
            json!({"ref": {"tag": "t", "branch": ""}}),
        ] {
            assert!(same(&bare, &git(&member)), "{member}");
        }
        let image = |image: Value| json!({"source": {"type": "image", "image": image}});
        assert!(same(&image(json!({"ref": "r"})), &image(json!({"ref": "r", "pullSecret": ""}))));
        let source = |source: Value| json!({"source": source});
        assert!(same(&source(json!({"type": "x"})), &source(json!({"type": "x", "configMaps": [], "git": null}))));
    }

    #[test]
    fn everything_else_is_a_change() {
        let bare = git(&json!({}));
        for member in [
            json!({"directory": "."}),
            json!({"auth": {"insecureSkipVerify": true}}),
            json!({"ref": {"branch": "t"}}),
            json!({"unknown": ""}),
            json!({"unknown": false}),
        ] {
            assert!(!same(&bare, &git(&member)), "{member}");
        }
        let source = |source: Value| json!({"source": source});
        assert!(!same(&source(json!({"type": "x"})), &source(json!({"type": "x", "upload": {}}))));
        assert!(!same(&source(json!({"type": "x"})), &source(json!({"type": "x", "image": {}}))));
        assert!(!same(&source(json!({"configMaps": [{}]})), &source(json!({"configMaps": []}))));
        assert!(!same(&json!({"a": 1}), &json!({"a": 2})));
    }
}
