//! stdout and stderr. Whoever reads them may stop reading: that ends the writing, not the process.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use crate::exit::Exit;

/// Writes data to stdout and returns `exit`; [`Exit::Unknown`] if it cannot be written. A closed pipe is no failure: the
/// reader has what it wanted.
///
/// What would do something to a terminal is escaped, as JSON has it.
pub fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>, exit: Exit) -> Exit {
    to_stdout_raw(|out| write(&mut Escaping(out)), exit)
}

/// As [`to_stdout`], for a form that has its own escapes.
pub fn to_stdout_raw(write: impl FnOnce(&mut dyn Write) -> io::Result<()>, exit: Exit) -> Exit {
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => {
            to_stderr(&format!("error: write to stdout: {error}"));
            Exit::Unknown
        }
    }
}

/// Says something on stderr. What would do something to a terminal is escaped.
pub fn to_stderr(text: &str) {
    // Nobody may be listening.
    let _ = writeln!(io::stderr(), "{}", rukpak_crds::condition::printable(text));
}

/// Says on stderr what somebody should know, a line each.
pub fn warn(warnings: impl IntoIterator<Item = impl Display>) {
    for warning in warnings {
        to_stderr(&format!("warning: {warning}"));
    }
}

/// Writes `\u001b` for the control character of that number, but for line ends and tabs; likewise all of C0, DEL and C1.
struct Escaping<'a>(&'a mut dyn Write);

impl Write for Escaping<'_> {
    /// Takes whole texts, as `write!` and serializers give them: a character of two bytes never comes in two parts.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..=8 | 0x0b..=0x1f | 0x7f | 0xc2)) {
            let (number, length) = match rest[at..] {
                [0xc2, second @ 0x80..=0x9f, ..] => (second, 2),
                [0xc2, ..] => {
                    self.0.write_all(&rest[..=at])?;
                    rest = &rest[at + 1..];
                    continue;
                }
                _ => (rest[at], 1),
            };
            self.0.write_all(&rest[..at])?;
            write!(self.0, "\\u{number:04x}")?;
            rest = &rest[at + length..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An error with all its causes, joined with `: `. A cause that the error before it has told already is not told again.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let told = cause.to_string();
        if !text.ends_with(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        source = cause.source();
    }
    text
}

/// Writes values as YAML, a document each. What kubectl, who reads YAML 1.1, makes of it are the same values.
pub fn documents(out: &mut dyn Write, values: &[impl serde::Serialize]) -> io::Result<()> {
    for object in values {
        let text = serde_saphyr::to_string(object).map_err(io::Error::other)?;
        write!(out, "---\n{text}")?;
    }
    Ok(())
}

/// Writes an answer as JSON.
pub fn pretty(out: &mut dyn Write, answer: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rukpak_content::Limits;
    use rukpak_plain::{Budget, Object, Origin, yaml};
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Cause(&'static str, #[source] Option<Box<Cause>>);

    #[test]
    fn causes_are_told_once() {
        let chained = |texts: &[&'static str]| {
            let error = texts.iter().rev().fold(None, |source, text| Some(Box::new(Cause(text, source))));
            chain(&*error.unwrap())
        };
        assert_eq!(chained(&["a", "b", "c"]), "a: b: c");
        assert_eq!(chained(&["read f: no such file", "f: no such file", "no such file"]), "read f: no such file");
        assert_eq!(chained(&["a: b", "b", "c"]), "a: b: c");
    }

    #[test]
    fn nothing_controls_the_terminal() {
        let hostile: String = (0..=0xa0).filter_map(char::from_u32).collect();
        let mut out = Vec::new();
        write!(Escaping(&mut out), "{hostile}\u{e9}\u{c2}").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n' && letter != '\t'), "{text:?}");
        assert!(text.starts_with("\\u0000\\u0001") && text.contains("\\u001b") && text.contains("\\u009b"), "{text:?}");
        assert!(text.ends_with("\u{a0}\u{e9}\u{c2}"), "{text:?}");
        let mut json = Vec::new();
        pretty(&mut Escaping(&mut json), &hostile).unwrap();
        assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), hostile);
        let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, (&*hostile): hostile});
        let object = Object::new(object, Origin::made_from("a test")).unwrap();
        let mut written = Vec::new();
        documents(&mut written, &[object]).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n' && letter != '\t'), "{text:?}");
    }

    /// Text that other readers of YAML take for something else, and text that is hard to write.
    const TEXTS: &[&str] = &[
        "",
        " ",
        "y",
        "Yes",
        "on",
        "OFF",
        "null",
        "~",
        "0755",
        "0o17",
        "0x1F",
        "08",
        "1_000",
        "1e3",
        ".5",
        ".inf",
        "-",
        "--- a",
        "---",
        "...",
        "<<",
        "=",
        "2001-01-01",
        "190:20:30",
        "a: b",
        "a #b",
        "#a",
        "'",
        "\"",
        "\\",
        "\t",
        "a\tb",
        "\ta",
        "a\n",
        "a\n\n",
        "\na",
        "\n",
        "a\nb",
        "a\n b\n",
        "  a\nb",
        "a \nb",
        "a\n\nb\n",
        "a\n---\nb",
        "\u{7f}",
        "\u{0}",
        "\u{85}",
        "\u{feff}",
        "\u{2028}a",
        "a\rb",
        "a\r\nb",
        "!a",
        "&a",
        "*a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "[",
        "{",
        "? a",
        "- a",
        ": a",
        "a:",
        "{{ .Values.x }}",
        "+1",
        "0b1",
    ];

    fn round_trip(value: &Value) {
        let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": value});
        let object = Object::new(object, Origin::made_from("a test")).unwrap();
        let mut text = Vec::new();
        documents(&mut text, &[object.clone(), object.clone()]).unwrap();
        let file = Arc::from("a.yaml");
        let limits = Limits::default();
        let documents = yaml::parse(&file, &text, &mut Budget::new(&limits));
        let documents = documents.unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&text)));
        assert_eq!(documents.len(), 2, "{}", String::from_utf8_lossy(&text));
        for document in documents {
            assert_eq!(document.value, object.as_value(), "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn text_stays_text() {
        for text in TEXTS {
            round_trip(&json!({"value": text, "list": [text, [text]]}));
            round_trip(&json!({ (*text): {"nested": {"text": text}}}));
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            proptest::sample::select(TEXTS).prop_map(str::to_owned),
            "[ -~\n]{0,100}",
            "\\PC{0,30}",
            "([a-z.:'\"-]{1,12}[ \n]{1,3}){0,30}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e6..1e6).prop_map(|float: f64| json!(float.trunc() + 0.25)),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(text.clone(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in value()) {
            round_trip(&value);
        }
    }
}
