//! A page of the documentation, as commands with their output.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use rukpak_tests::tools::workspace_folder;

/// The commands of a page.
pub struct Page {
    steps: Vec<Step>,
}

/// A command, what is given to it, and what the page says that it prints.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Where it stands, from 1.
    pub line: usize,
    /// Without `kubectl`.
    pub command: String,
    /// Its stdin.
    pub input: String,
    /// Its output.
    pub output: Vec<String>,
}

impl Page {
    /// A file of the repository.
    pub fn read(path: &Path) -> Self {
        let path = workspace_folder().join(path);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::of(&text)
    }

    /// The blocks marked `console`.
    fn of(text: &str) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((_, line)) = lines.next() {
            if line != "```console" {
                continue;
            }
            while let Some((index, line)) = lines.next().filter(|(_, line)| *line != "```") {
                let Some(command) = line.strip_prefix("$ kubectl ") else {
                    steps.last_mut().expect("output follows a command").output.push(line.to_owned());
                    continue;
                };
                let document = command.strip_suffix(" <<EOF");
                let mut step = Step { line: index + 1, ..Step::default() };
                step.command.push_str(document.unwrap_or(command));
                if document.is_some() {
                    for (_, line) in lines.by_ref().take_while(|(_, line)| *line != "EOF") {
                        step.input.push_str(line);
                        step.input.push('\n');
                    }
                }
                steps.push(step);
            }
        }
        Self { steps }
    }

    /// All of them, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// Output without what differs from run to run, or from one printer to the next: quotes, widths of columns, ages, times, UIDs, versions of objects, hashes.
pub fn shown(lines: &[String]) -> Vec<String> {
    static CHANGING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
            (r#"resourceVersion: "?\d+"?"#, "resourceVersion: <n>"),
            (r"-[0-9a-z]{38,52}\b", "-<hash>"),
            (r"\b(\d+(s|m|h|d))+\b", "<age>"),
            // What needs quotes in YAML is a matter of taste.
            ("\"", ""),
            (r"\s+", " "),
        ]
        .map(|(pattern, text)| (Regex::new(pattern).expect("a good pattern"), text))
        .into()
    });
    let plain = |line: &String| {
        CHANGING.iter().fold(line.clone(), |line, (pattern, text)| pattern.replace_all(&line, *text).into_owned())
    };
    lines.iter().map(plain).collect()
}

#[test]
fn a_page_is_read_as_commands_with_input_and_output() {
    let page = Page::of(
        "text\n```console\n$ kubectl apply -f - <<EOF\na: 1\nEOF\nx created\n$ kubectl get x\nNAME AGE\nx    3s\n```\nmore\n",
    );
    let [apply, get] = page.steps() else { panic!("{:?}", page.steps()) };
    assert_eq!((apply.line, apply.command.as_str(), apply.input.as_str()), (3, "apply -f -", "a: 1\n"));
    assert_eq!(apply.output, ["x created"]);
    assert_eq!(shown(&get.output), shown(&["NAME  AGE".to_owned(), "x 12m3s".to_owned()]));
}
