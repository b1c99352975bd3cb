//! The hash of a Bundle template and the name of the Bundle generated from it, equal to RukPak v0.16.0's.
//!
//! Input is the output of Go's `json.Encoder` for the template struct: fields in declaration order, map keys sorted,
//! `<`, `>`, `&`, U+2028 and U+2029 escaped, a newline at the end; `metadata.creationTimestamp` is always `null` and
//! the `auth` of git and http always an object with `secret`, because Go does not omit empty structs. The hash is SHA-224,
//! read as a big-endian number, in base 36.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use num_bigint::BigUint;
use sha2::{Digest as _, Sha224};

use crate::names::{BUNDLE_DEPLOYMENT_NAME_MAX, BUNDLE_NAME_MAX};
use crate::{Authorization, BundleSource, BundleTemplate, LocalObjectReference, TemplateMetadata};

/// The hash of `template`: up to 44 characters of `0-9a-z`.
pub fn template_hash(template: &BundleTemplate) -> String {
    hash_of_go_json(&go_json(template))
}

/// The name of the Bundle generated for `deployment`: the deployment's name, cut to 45 characters, a dash, and the
/// hash, cut so that the whole is at most 52.
pub fn generated_bundle_name(deployment: &str, hash: &str) -> String {
    let base: String = deployment.chars().take(BUNDLE_DEPLOYMENT_NAME_MAX).collect();
    let room = BUNDLE_NAME_MAX - base.chars().count() - 1;
    let hash: String = hash.chars().take(room).collect();
    format!("{base}-{hash}")
}

/// SHA-224 of `json` in base 36. `json` carries its newline.
pub fn hash_of_go_json(json: &str) -> String {
    BigUint::from_bytes_be(&Sha224::digest(json.as_bytes())).to_str_radix(36)
}

fn go_json(template: &BundleTemplate) -> String {
    let mut json = Writer::default();
    json.object(|json| {
        json.key("metadata");
        metadata(json, template.metadata.as_ref());
        json.key("spec");
        json.object(|json| {
            json.string("provisionerClassName", &template.spec.provisioner_class_name);
            json.key("source");
            source(json, &template.spec.source);
        });
    });
    json.text.push('\n');
    json.text
}

fn metadata(json: &mut Writer, metadata: Option<&TemplateMetadata>) {
    json.object(|json| {
        json.optional("name", metadata.and_then(|m| m.name.as_deref()));
        json.optional("namespace", metadata.and_then(|m| m.namespace.as_deref()));
        json.key("creationTimestamp");
        json.text.push_str("null");
        json.map("labels", metadata.and_then(|m| m.labels.as_ref()));
        json.map("annotations", metadata.and_then(|m| m.annotations.as_ref()));
        if let Some(finalizers) = metadata.and_then(|m| m.finalizers.as_ref()).filter(|list| !list.is_empty()) {
            json.key("finalizers");
            json.array(finalizers, |json, finalizer| json.quoted(finalizer));
        }
    });
}

fn source(json: &mut Writer, source: &BundleSource) {
    json.object(|json| {
        json.string("type", &source.type_);
        if let Some(image) = &source.image {
            json.key("image");
            json.object(|json| {
                json.string("ref", &image.reference);
                json.optional("pullSecret", image.pull_secret.as_deref());
            });
        }
        if let Some(git) = &source.git {
            json.key("git");
            json.object(|json| {
                json.string("repository", &git.repository);
                json.optional("directory", git.directory.as_deref());
                json.key("ref");
                json.object(|json| {
                    json.optional("branch", git.reference.branch.as_deref());
                    json.optional("tag", git.reference.tag.as_deref());
                    json.optional("commit", git.reference.commit.as_deref());
                });
                authorization(json, git.auth.as_ref());
            });
        }
        if let Some(config_maps) = source.config_maps.as_ref().filter(|list| !list.is_empty()) {
            json.key("configMaps");
            json.array(config_maps, |json, entry| {
                json.object(|json| {
                    json.key("configMap");
                    reference(json, Some(&entry.config_map));
                    json.optional("path", entry.path.as_deref());
                    json.optional("kind", entry.is_secret().then_some("Secret"));
                });
            });
        }
        if source.upload.is_some() {
            json.key("upload");
            json.object(|_| {});
        }
        if let Some(http) = &source.http {
            json.key("http");
            json.object(|json| {
                json.string("url", &http.url);
                authorization(json, http.auth.as_ref());
            });
        }
    });
}

fn authorization(json: &mut Writer, auth: Option<&Authorization>) {
    json.key("auth");
    json.object(|json| {
        json.key("secret");
        reference(json, auth.and_then(|auth| auth.secret.as_ref()));
        if auth.is_some_and(Authorization::skips_verification) {
            json.key("insecureSkipVerify");
            json.text.push_str("true");
        }
    });
}

fn reference(json: &mut Writer, reference: Option<&LocalObjectReference>) {
    json.object(|json| json.optional("name", reference.and_then(|reference| reference.name.as_deref())));
}

/// Writes JSON the way Go's encoder does.
#[derive(Default)]
struct Writer {
    text: String,
}

impl Writer {
    fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.text.push('{');
        members(self);
        self.text.push('}');
    }

    fn array<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.text.push('[');
        for (index, value) in items.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            item(self, value);
        }
        self.text.push(']');
    }

    fn key(&mut self, key: &str) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
        self.quoted(key);
        self.text.push(':');
    }

    fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        self.quoted(value);
    }

    /// Go's `omitempty`: absent and empty are the same.
    fn optional(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.string(key, value);
        }
    }

    fn map(&mut self, key: &str, map: Option<&BTreeMap<String, String>>) {
        if let Some(map) = map.filter(|map| !map.is_empty()) {
            self.key(key);
            self.object(|json| {
                for (key, value) in map {
                    json.string(key, value);
                }
            });
        }
    }

    fn quoted(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                    // Writing to a String cannot fail.
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(value: serde_json::Value) -> BundleTemplate {
        serde_json::from_value(value).unwrap()
    }

    /// The three vectors were computed with RukPak v0.16.
    #[test]
    fn equals_upstream() {
        let image = template(json!({
            "metadata": {"labels": {"app": "my-bundle"}},
            "spec": {"provisionerClassName": "core-rukpak-io-plain",
                     "source": {"type": "image", "image": {"ref": "quay.io/operator-framework/combo-bundle:v0.0.1"}}}
        }));
        assert_eq!(
            go_json(&image),
            concat!(
                r#"{"metadata":{"creationTimestamp":null,"labels":{"app":"my-bundle"}},"#,
                r#""spec":{"provisionerClassName":"core-rukpak-io-plain","#,
                r#""source":{"type":"image","image":{"ref":"quay.io/operator-framework/combo-bundle:v0.0.1"}}}}"#,
                "\n"
            )
        );
        let hash = template_hash(&image);
        assert_eq!(hash, "1ul04vpa1lekwkd1agqlfe3cwi37sdawskmp2h15k4f8");
        assert_eq!(generated_bundle_name("combo", &hash), "combo-1ul04vpa1lekwkd1agqlfe3cwi37sdawskmp2h15k4f8");

        let git = template(json!({
            "spec": {"provisionerClassName": "core-rukpak-io-plain",
                     "source": {"type": "git", "git": {"repository": "https://github.com/operator-framework/combo", "ref": {"tag": "v0.0.2"}}}}
        }));
        assert_eq!(template_hash(&git), "1t1apjbeda32tlr25rpl0j9k72ulksb0xuydynopzimo");

        let upload = template(json!({
            "metadata": {"labels": {"app": "combo", "bundleDigest": "abc"}},
            "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": {"type": "upload", "upload": {}}}
        }));
        assert_eq!(template_hash(&upload), "183h8cw453o7rfphl32ext8bscy57vn5jtp1195polj4");
    }

    #[test]
    fn escapes_as_go_does() {
        let mut json = Writer::default();
        json.quoted("<a href=\"&\">\u{2028}\u{2029}\u{1}\u{7f}ä\n\\");
        assert_eq!(json.text, "\"\\u003ca href=\\\"\\u0026\\\"\\u003e\\u2028\\u2029\\u0001\u{7f}ä\\n\\\\\"");
    }

    #[test]
    fn a_secret_is_not_a_config_map_of_its_name() {
        let of = |entry: serde_json::Value| {
            let source = json!({"type": "configMaps", "configMaps": [entry]});
            template_hash(&template(json!({"spec": {"provisionerClassName": "a", "source": source}})))
        };
        let plain = of(json!({"configMap": {"name": "n"}}));
        assert_eq!(of(json!({"configMap": {"name": "n"}, "kind": "ConfigMap"})), plain);
        assert_ne!(of(json!({"configMap": {"name": "n"}, "kind": "Secret"})), plain);
    }

    #[test]
    fn absent_and_empty_are_the_same() {
        let spec = json!({"provisionerClassName": "a", "source": {"type": "git", "git": {"repository": "r", "ref": {"tag": "t"}}}});
        let plain = template(json!({"spec": spec}));
        let mut filled = plain.clone();
        filled.metadata = Some(TemplateMetadata { labels: Some(BTreeMap::new()), ..TemplateMetadata::default() });
        let git = filled.spec.source.git.as_mut().unwrap();
        git.directory = Some(String::new());
        git.auth = Some(Authorization { insecure_skip_verify: Some(false), ..Authorization::default() });
        assert_eq!(template_hash(&plain), template_hash(&filled));
    }

    #[test]
    fn the_longest_name_keeps_six_characters_of_the_hash() {
        let name = generated_bundle_name(&"a".repeat(45), "1ul04vpa1lekwkd1agqlfe3cwi37sdawskmp2h15k4f8");
        assert_eq!(name, format!("{}-1ul04v", "a".repeat(45)));
        assert_eq!(name.len(), BUNDLE_NAME_MAX);
    }
}
