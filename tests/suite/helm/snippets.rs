//! Charts by what they are made of: templates of one expression, and charts of several files.

/// Templates of one expression, by what they use.
pub const SNIPPETS: &[(&str, &str)] = &[
    ("if-else", r"{{ if .Values.enabled }}yes{{ else if eq (int .Values.size) 0 }}zero{{ else }}no{{ end }}"),
    ("not-and-or", r"{{ and .Values.enabled (or (not .Values.items) (gt (int .Values.size) 2)) }}"),
    ("range-list", r"{{ range $i, $it := .Values.items }}{{ $i }}={{ $it }};{{ else }}none{{ end }}"),
    ("range-map", r"{{ range $k, $v := .Values.labels }}{{ $k }}={{ $v }};{{ end }}"),
    ("range-maps", r"{{ range .Values.ports }}{{ .name }}:{{ .port }},{{ end }}"),
    ("range-break", r#"{{ range .Values.items }}{{ if eq (toString .) "a" }}{{ break }}{{ end }}{{ . }}{{ end }}"#),
    ("with", r"{{ with .Values.nested.a }}{{ .b.c }}{{ end }}{{ with .Values.none }}x{{ else }}y{{ end }}"),
    ("variables", r"{{ $n := 0 }}{{ range .Values.items }}{{ $n = add $n 1 }}{{ end }}{{ $n }}"),
    ("trim-markers", "a {{- if .Values.enabled -}} b {{- end -}} c"),
    ("comment", "{{/* nobody\nsees it */}}x{{- /* */ -}}y"),
    ("quote", r"{{ .Values.text | quote }} {{ .Values.name | squote }}"),
    ("default", r#"{{ .Values.none | default "d" }} {{ default 5 .Values.size }} {{ .Values.name | default "n" }}"#),
    ("coalesce", r"{{ coalesce .Values.none .Values.name .Values.size }}"),
    ("ternary", r#"{{ ternary "a" "b" (eq (int .Values.size) 3) }}"#),
    ("required", r#"{{ required "a name is needed" .Values.name }}"#),
    ("fail", r#"{{ if eq (int .Values.size) 0 }}{{ fail "size must not be 0" }}{{ end }}ok"#),
    ("empty", r"{{ empty .Values.items }} {{ empty .Values.none }}"),
    ("toYaml", "{{ toYaml .Values.nested | nindent 2 }}"),
    ("toJson", "{{ toJson .Values.ports }} {{ .Values.nested | toPrettyJson }}"),
    ("toToml", "{{ toToml .Values.nested }}"),
    ("fromYaml", r#"{{ (fromYaml "a: {b: 1}").a.b }} {{ fromYamlArray "[1, 2]" | len }}"#),
    ("fromJson", r#"{{ (fromJson "{\"a\": [1, 2.5, 100000000]}").a }} {{ index (fromJsonArray "[7]") 0 }}"#),
    (
        "numbers",
        "{{ add 1 2 }} {{ sub 5 2 }} {{ mul 3 4 }} {{ div 7 2 }} {{ mod 7 2 }} {{ max 1 5 3 }} {{ floor 3.7 }} {{ round 3.14159 2 }}",
    ),
    (
        "int-and-float",
        r#"{{ int "12" }} {{ int64 .Values.size }} {{ float64 "1.5" }} {{ mulf 1.5 2 }} {{ .Values.size }}"#,
    ),
    ("large-number", "{{ 12345678901 }} {{ 1e6 }} {{ .Values.size | mul 100000000 }}"),
    (
        "strings",
        r#"{{ upper "a" }}{{ title "b c" }}{{ trimSuffix "-x" "a-x" }}{{ replace "a" "b" "banana" }}{{ trunc 2 "abc" }}{{ abbrev 5 "abcdefgh" }}"#,
    ),
    ("contains", r#"{{ contains "u" (toString .Values.name) }} {{ hasPrefix "p" "pump" }} {{ hasSuffix "x" "pump" }}"#),
    ("split", r#"{{ (split "." "a.b.c")._1 }} {{ splitList "," "a,b" | join "-" }} {{ (splitn "/" 2 "a/b/c")._1 }}"#),
    ("printf", r#"{{ printf "%s-%d-%05.2f-%q-%v" "a" 5 1.5 "q" .Values.items }}"#),
    (
        "regex",
        r#"{{ regexMatch "^p" "pump" }} {{ regexReplaceAll "[aeiou]" "pump" "_" }} {{ regexFindAll "[a-z]" "a1b2" -1 }}"#,
    ),
    (
        "wrap",
        r#"{{ wrapWith 5 "|" "one two three" }} {{ nospace "a b" }} {{ initials "First Second" }} {{ snakecase "FirstName" }} {{ kebabcase "FirstName" }}"#,
    ),
    ("cat", r#"{{ cat "a" 1 true }} {{ list 1 2 | join "," }} {{ repeat 3 "x" }} {{ plural "one" "many" 2 }}"#),
    (
        "lists",
        r#"{{ list 3 1 2 | sortAlpha }} {{ .Values.items | uniq }} {{ has "a" .Values.items }} {{ without .Values.items "a" }} {{ first (list 1 2) }} {{ last (list 1 2) }} {{ rest (list 1 2) }} {{ reverse (list 1 2) }}"#,
    ),
    (
        "slices",
        r#"{{ slice (list 1 2 3) 1 2 }} {{ append (list 1) 2 }} {{ prepend (list 1) 0 }} {{ concat (list 1) (list 2) }} {{ compact (list "" "a") }} {{ chunk 2 (list 1 2 3) }}"#,
    ),
    (
        "dicts",
        r#"{{ $d := dict "a" 1 }}{{ $_ := set $d "b" 2 }}{{ get $d "b" }} {{ hasKey $d "a" }} {{ keys $d | sortAlpha }} {{ pick $d "a" }} {{ omit $d "a" }} {{ unset $d "a" }}"#,
    ),
    (
        "merge",
        r#"{{ merge (dict "a" 1) (dict "a" 2 "b" 3) }} {{ mergeOverwrite (dict "a" 1) (dict "a" 2) }} {{ deepCopy .Values.nested }}"#,
    ),
    ("dig", r#"{{ dig "a" "b" "c" "none" .Values.nested }} {{ dig "x" "none" .Values.nested }}"#),
    ("until", "{{ range until 3 }}{{ . }}{{ end }} {{ untilStep 0 10 3 }} {{ seq 1 3 }}"),
    (
        "kinds",
        r#"{{ kindOf .Values.size }} {{ kindIs "map" .Values.nested }} {{ typeOf .Values.items }} {{ kindOf .Values.enabled }}"#,
    ),
    (
        "hashes",
        r#"{{ sha256sum "a" }} {{ sha1sum "a" }} {{ adler32sum "a" }} {{ b64enc "a" }} {{ b64dec "YQ==" }} {{ b32enc "a" }}"#,
    ),
    (
        "semver",
        r#"{{ semverCompare .Values.range "1.3.0" }} {{ (semver "1.2.3-rc.1").Prerelease }} {{ semverCompare "^1.2" "2.0.0" }}"#,
    ),
    ("urls", r#"{{ (urlParse "https://u:p@h:8/x?q=1").host }} {{ urlquery "a b" }}"#),
    ("paths", r#"{{ base "/a/b.c" }} {{ dir "/a/b" }} {{ ext "b.c" }} {{ clean "/a/../b" }} {{ isAbs "/a" }}"#),
    (
        "dates",
        r#"{{ toDate "2006-01-02" "2026-11-27" | date "02.01.2006" }} {{ duration 95 }} {{ htmlDate (toDate "2006-01-02" "2026-01-02") }}"#,
    ),
    ("tpl", "{{ tpl .Values.template . }}"),
    (
        "include-scope",
        r#"{{ include "out.inner" (dict "n" .Values.name "root" $) }}{{ define "out.inner" }}{{ .n }}/{{ .root.Release.Name }}{{ end }}"#,
    ),
    (
        "release",
        "{{ .Release.Name }} {{ .Release.Namespace }} {{ .Release.Service }} {{ .Release.IsInstall }} {{ .Release.Revision }}",
    ),
    ("chart", "{{ .Chart.Name }} {{ .Chart.Version }} {{ .Chart.Type }} {{ .Template.BasePath }} {{ .Template.Name }}"),
    (
        "capabilities",
        r#"{{ .Capabilities.APIVersions.Has "apps/v1" }} {{ .Capabilities.APIVersions.Has "none/v1" }} {{ .Capabilities.KubeVersion.Major }}"#,
    ),
    ("global", "{{ .Values.global.zone }} {{ .Values.global }}"),
    ("lookup", r#"{{ lookup "v1" "Secret" "n" "none" | empty }}"#),
    ("error-in-template", "{{ .Values.name.first.second }}"),
    ("type-error", r"{{ if eq (int .Values.size) 12 }}{{ index .Values.items 99 }}{{ end }}x"),
];

/// A file of a chart.
type File = (&'static str, String);

fn config_map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-{name}\ndata:\n  {data}\n")
}

/// Charts of several files, by what they use. Their own settings are those of [`SNIPPETS`].
pub fn structured() -> Vec<(&'static str, Vec<File>)> {
    let low = || {
        vec![
            ("charts/low/Chart.yaml", "{apiVersion: v2, name: low, version: 0.1.0}".to_owned()),
            ("charts/low/values.yaml", "size: 1\nexports: {shared: {zone: exported}}\n".to_owned()),
            ("charts/low/templates/low.yaml", config_map("low", "size: {{ .Values.size | quote }}")),
        ]
    };
    let with = |mut files: Vec<File>, more: Vec<File>| {
        files.extend(more);
        files
    };
    let depends = |text: &str| {
        let chart = format!(
            "apiVersion: v2\nname: pump\nversion: 1.0.0\ndependencies:\n- {{name: low, version: 0.1.0, {text}}}\n"
        );
        vec![("Chart.yaml", chart)]
    };
    vec![
        ("subchart", low()),
        ("subchart-by-condition", with(low(), depends("condition: enabled"))),
        ("subchart-by-tag", with(low(), with(depends("tags: [extra]"), vec![("values.yaml", "{size: 3, name: n, tags: {extra: false}}".to_owned())]))),
        ("subchart-by-another-name", with(low(), depends("alias: deep"))),
        ("subchart-that-exports", with(low(), depends("import-values: [shared]"))),
        ("library", vec![
            ("Chart.yaml", "apiVersion: v2\nname: pump\nversion: 1.0.0\ndependencies:\n- {name: lib, version: 0.1.0}\n".to_owned()),
            ("charts/lib/Chart.yaml", "{apiVersion: v2, name: lib, version: 0.1.0, type: library}".to_owned()),
            ("charts/lib/templates/_lib.tpl", r#"{{ define "lib.name" }}{{ .Release.Name }}-of-lib{{ end }}"#.to_owned()),
            ("templates/lib.yaml", config_map("lib", r#"name: {{ include "lib.name" . }}"#)),
        ]),
        ("files", vec![
            ("conf/a.txt", "first\nsecond\n".to_owned()),
            ("conf/b.json", r#"{"b": [1, 2]}"#.to_owned()),
            ("templates/files.yaml", config_map("files", "a: {{ .Files.Get \"conf/a.txt\" | quote }}\n{{ (.Files.Glob \"conf/*\").AsConfig | indent 2 }}\n  lines: {{ range .Files.Lines \"conf/a.txt\" }}{{ . }},{{ end }}")),
            ("templates/secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}-files\"}\ndata:\n{{ (.Files.Glob \"conf/*\").AsSecrets | indent 2 }}\n".to_owned()),
        ]),
        ("helmignore", vec![
            (".helmignore", "*.bak\nconf/\n".to_owned()),
            ("conf/a.txt", "ignored".to_owned()),
            ("templates/old.yaml.bak", "no: {{ manifest".to_owned()),
            ("templates/ignored.yaml", config_map("ignored", "a: {{ .Files.Get \"conf/a.txt\" | quote }}")),
        ]),
        ("several-documents", vec![("templates/several.yaml", format!("{}---\n{{{{ if .Values.enabled }}}}\n---\n{}{{{{ end }}}}\n---\n", config_map("one", "a: b"), config_map("two", "a: b")))]),
        ("list-kind", vec![("templates/list.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Release.Name }}-listed\"}}\n".to_owned())]),
        ("anchors", vec![("templates/anchors.yaml", config_map("anchors", "a: &a same\n  b: *a\n  c: |-\n    text\n  d: >\n    folded\n    text"))]),
        ("notes-and-partials", vec![
            ("templates/NOTES.txt", "Thank you for {{ .Chart.Name }}".to_owned()),
            ("templates/_helpers.tpl", r#"{{- define "pump.labels" -}}{a: b}{{- end -}}"#.to_owned()),
            ("templates/labelled.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-labelled\", labels: {{ include \"pump.labels\" . }}}\n".to_owned()),
        ]),
        ("tests-are-left-out", vec![("templates/tests/test.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: \"{{ .Release.Name }}-test\", annotations: {helm.sh/hook: test}}\nspec: {containers: [{name: a, image: example.com/a}]}\n".to_owned())]),
        ("schema", vec![("values.schema.json", r#"{"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}"#.to_owned())]),
        ("empty-template", vec![("templates/empty.yaml", "{{ if .Values.none }}x{{ end }}\n# nothing\n".to_owned())]),
        ("old-chart", vec![
            ("Chart.yaml", "{apiVersion: v1, name: pump, version: 1.0.0, appVersion: \"2\"}".to_owned()),
            ("templates/old.yaml", config_map("old", "version: {{ .Chart.AppVersion | quote }}")),
        ]),
    ]
}
