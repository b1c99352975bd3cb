//! Templates that ask the cluster for objects. Nobody answers here, and a chart does not notice.

use rukpak_content::{BundleTree, Entry};
use rukpak_plain::Few;

use super::{CHARTS, within};

const TEMPLATES: &str = "templates/";
/// Ends the names of templates of which no object is made.
const NOTES: &str = "NOTES.txt";

/// A warning for each call of `lookup` in the chart in `folder` and in the charts that lie in it as folders; archives are not opened.
pub(super) fn warnings(tree: &BundleTree, folder: &str) -> Few<String> {
    let mut warnings = Few::default();
    let root = within(folder, "");
    for (path, entry) in tree.iter() {
        let Entry::File { body, .. } = entry else { continue };
        if !path.as_str().strip_prefix(root.as_str()).is_some_and(is_template) {
            continue;
        }
        let calls = calls(&String::from_utf8_lossy(body));
        for line in &calls {
            warnings.push_with(|| {
                format!(
                    "{path} (line {line}) calls lookup, which finds nothing here, as in helm template: values that are made up with it \
                     are made anew with each change of chart or values; set them in spec.config.values"
                )
            });
        }
        warnings.skip(calls.more());
    }
    warnings
}

/// Whether objects are made of the file at `path` of a chart, or of a chart in it.
fn is_template(path: &str) -> bool {
    let mut path = path;
    while let Some((_, inner)) =
        path.strip_prefix(CHARTS).and_then(|rest| rest.strip_prefix('/')).and_then(|rest| rest.split_once('/'))
    {
        path = inner;
    }
    path.starts_with(TEMPLATES) && !path.ends_with(NOTES)
}

/// The line of each word `lookup` in the actions of a template. A comment or a string has no words.
fn calls(template: &str) -> Few<usize> {
    let (mut found, mut line) = (Few::default(), 1);
    let (mut rest, mut is_action) = (template, false);
    while !rest.is_empty() {
        let length = if is_action { token(rest) } else { rest.find("{{").map_or(rest.len(), |begin| begin + 2) };
        let (token, after) = rest.split_at(length);
        match token {
            _ if !is_action => is_action = true,
            "}}" => is_action = false,
            "lookup" => found.push_with(|| line),
            _ => {}
        }

        line += token.matches('\n').count();
        rest = after;
    }
    found
}

/// The length of what an action goes on with: its end, a comment, a string, a word, or any other letter.
fn token(text: &str) -> usize {
    let up_to = |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |place| from + place + end.len());
    match text.chars().next() {
        None => 0,
        Some('}') if text.starts_with("}}") => 2,
        Some('/') if text.starts_with("/*") => up_to("*/", 2),
        Some('`') => up_to("`", 1),
        Some(quote @ ('"' | '\'')) => quoted(text, quote),
        Some(letter) if is_of_word(letter) => text.find(|letter: char| !is_of_word(letter)).unwrap_or(text.len()),
        Some(letter) => letter.len_utf8(),
    }
}

/// The length of the string that `text` begins with.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let is_end = *letter == quote && !is_escaped;
        is_escaped = *letter == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(place, _)| place + quote.len_utf8())
}

/// Whether a word goes on with `letter`. Fields and variables are words with their dot and dollar.
fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '.' | '$')
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rukpak_content::RelativePath;

    use super::*;

    fn lines(template: &str) -> Vec<usize> {
        calls(template).into_iter().collect()
    }

    #[test]
    fn finds_calls_in_actions_by_line() {
        for call in [
            "{{ lookup \"v1\" \"Secret\" \"a\" \"b\" }}",
            "{{- $found := (lookup \"v1\" \"Secret\" \"a\" \"b\") -}}",
            "{{ if not (lookup `v1` `Secret` `` ``) }}{{ end }}",
            "{{ \"a\\\"\" | lookup \"v1\" \"Secret\" \"a\" }}",
            "{{lookup}}",
        ] {
            assert_eq!(lines(&format!("a: }}}}\n{{{{/* x\n */}}}}\n{call}\n")), [4], "{call}");
        }
        assert_eq!(lines("{{ lookup\n\n(lookup) }}\n{{ lookup"), [1, 3, 4]);
    }

    #[test]
    fn passes_over_the_word_where_it_calls_nothing() {
        for none in [
            "lookup",
            "# lookup\n{{ .Values.lookup }}",
            "{{ $lookup }} lookup {{ include \"lookup\" . }}",
            "{{/* lookup */}}",
            "{{- /* }} lookup \" */ -}} lookup",
            "{{ `lookup \\` }} lookup",
            "{{ \"a \\\" lookup\" }}",
            "{{ lookups }}{{ look }}up",
            "{{ \"lookup",
            "",
        ] {
            assert_eq!(lines(none), [0_usize; 0], "{none}");
        }
    }

    #[test]
    fn reads_templates_of_chart_and_of_charts_in_it() {
        let paths =
            ["templates/a.yaml", "templates/b/_c.tpl", "charts/db/templates/d", "charts/db/charts/x/templates/e"];
        let others = ["templates/NOTES.txt", "a.yaml", "files/templates/a", "charts/templates/a", "charts/db/a"];
        for folder in ["", "pump"] {
            let mut tree = BundleTree::new();
            for path in paths.iter().chain(&others) {
                let path = RelativePath::new(&within(folder, path)).unwrap();
                tree.add_file(path, false, Bytes::from_static(b"\n{{ lookup }}"));
            }
            let mut expected = paths.map(|path| format!("{} (line 2) calls lookup, which", within(folder, path)));
            expected.sort();
            let lines = warnings(&tree, folder).lines();
            assert_eq!(lines.len(), expected.len(), "{lines:?}");
            for (line, expected) in lines.iter().zip(&expected) {
                assert!(line.starts_with(expected.as_str()), "{line}: {expected}");
            }
        }
    }
}
