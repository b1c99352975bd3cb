//! The hash of a Bundle template and the name of the Bundle generated from it, equal to RukPak v0.16.0's.
//!
//! Input is the output of Go's `json.Encoder` for the template struct: fields in declaration order, map keys sorted,
//! `<`, `>`, `&`, U+2028 and U+2029 escaped, a newline at the end; `metadata.creationTimestamp` is always `null` and
//! the `auth` of git and http always an object with `secret`, because Go does not omit empty structs. The hash is SHA-224,
//! read as a big-endian number, in base 36.

use std::collections::BTreeMap;
use std::io;

use num_bigint::BigUint;
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use sha2::{Digest as _, Sha224};

use crate::names::{BUNDLE_DEPLOYMENT_NAME_MAX, BUNDLE_NAME_MAX};
use crate::{Authorization, BundleSource, BundleSpec, BundleTemplate, FilesKind};

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
    let metadata = template.metadata.clone().unwrap_or_default();
    let metadata = Metadata {
        name: metadata.name.unwrap_or_default(),
        namespace: metadata.namespace.unwrap_or_default(),
        creation_timestamp: (),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        finalizers: metadata.finalizers.unwrap_or_default(),
    };
    let mut spec = template.spec.clone();
    normalize(&mut spec.source);
    go_text(&Template { metadata, spec }) + "\n"
}

/// A template with all the fields of Go's, in its order.
#[derive(Serialize)]
struct Template {
    metadata: Metadata,
    spec: BundleSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    creation_timestamp: (),
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
}

/// Leaves out the empty fields that Go omits, and adds the empty objects that it writes.
fn normalize(source: &mut BundleSource) {
    if let Some(image) = &mut source.image {
        omit_empty(&mut image.pull_secret);
    }
    if let Some(git) = &mut source.git {
        omit_empty(&mut git.directory);
        omit_empty(&mut git.reference.branch);
        omit_empty(&mut git.reference.tag);
        omit_empty(&mut git.reference.commit);
        normalize_authorization(&mut git.auth);
    }
    if source.config_maps.as_ref().is_some_and(Vec::is_empty) {
        source.config_maps = None;
    }
    for entry in source.config_maps.iter_mut().flatten() {
        omit_empty(&mut entry.config_map.name);
        omit_empty(&mut entry.path);
        entry.kind = entry.kind.filter(|kind| *kind == FilesKind::Secret);
    }
    if let Some(http) = &mut source.http {
        normalize_authorization(&mut http.auth);
    }
}

fn normalize_authorization(auth: &mut Option<Authorization>) {
    let auth = auth.get_or_insert_default();
    omit_empty(&mut auth.secret.get_or_insert_default().name);
    auth.insecure_skip_verify = auth.insecure_skip_verify.filter(|skips| *skips);
}

fn omit_empty(text: &mut Option<String>) {
    if text.as_ref().is_some_and(String::is_empty) {
        *text = None;
    }
}

/// JSON the way Go's encoder writes it.
fn go_text(value: &impl Serialize) -> String {
    let mut json = Vec::new();
    // Memory takes every byte, and the keys of all maps are texts: this cannot fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut json, GoFormatter));
    String::from_utf8(json).unwrap_or_default()
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for character in fragment.chars() {
            match character {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(writer, "\\u{:04x}", u32::from(character))?,
                other => write!(writer, "{other}")?,
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::Backspace => writer.write_all(b"\\u0008"),
            CharEscape::FormFeed => writer.write_all(b"\\u000c"),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::TemplateMetadata;

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
    fn writes_the_fields_of_every_source_in_the_order_of_go() {
        let auth = r#""auth":{"secret":{"name":"s"},"insecureSkipVerify":true}"#;
        let sources = [
            r#""type":"image","image":{"ref":"r","pullSecret":"s"}"#.to_owned(),
            format!(
                r#""type":"git","git":{{"repository":"r","directory":"d","ref":{{"branch":"b","tag":"t","commit":"c"}},{auth}}}"#
            ),
            r#""type":"configMaps","configMaps":[{"configMap":{"name":"n"},"path":"p","kind":"Secret"}]"#.to_owned(),
            r#""type":"upload","upload":{}"#.to_owned(),
            format!(r#""type":"http","http":{{"url":"u",{auth}}}"#),
        ];
        for source in sources {
            let spec = format!(r#"{{"provisionerClassName":"a","source":{{{source}}}}}"#);
            let read = template(json!({"spec": serde_json::from_str::<serde_json::Value>(&spec).unwrap()}));
            let expected = format!("{{\"metadata\":{{\"creationTimestamp\":null}},\"spec\":{spec}}}\n");
            assert_eq!(go_json(&read), expected);
        }
    }

    #[test]
    fn escapes_as_go_does() {
        let json = go_text(&"<a href=\"&\">\u{2028}\u{2029}\u{1}\u{7f}ä\n\\");
        assert_eq!(json, "\"\\u003ca href=\\\"\\u0026\\\"\\u003e\\u2028\\u2029\\u0001\u{7f}ä\\n\\\\\"");
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
