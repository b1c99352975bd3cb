//! A page of the documentation, as commands with their output, and as blocks of commands.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use rukpak_tests::tools::workspace_folder;

/// The blocks that are read.
const LANGUAGES: [&str; 2] = ["console", "yaml"];

/// What a page has people type.
pub struct Page {
    path: PathBuf,
    blocks: Vec<Block>,
}

/// One block, marked `console` or `yaml`.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// What it is marked as.
    pub language: &'static str,
    /// Where its first line stands, from 1.
    pub line: usize,
    /// As it stands there.
    pub text: String,
}

/// A command, and what the page says that it prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it stands, from 1.
    pub line: usize,
    /// The command, a document that it is given included.
    pub command: String,
    /// Its output.
    pub output: Vec<String>,
    /// Whether the page shows its output.
    pub is_shown: bool,
}

impl Page {
    /// A file of the repository.
    pub fn read(path: &str) -> Self {
        let path = workspace_folder().join(Path::new(path));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { blocks: Self::of(&text), path }
    }

    fn of(text: &str) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            if let Some(language) = LANGUAGES.into_iter().find(|language| line.strip_prefix("```") == Some(language)) {
                let inside: Vec<&str> =
                    lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
                blocks.push(Block { language, line: index + 2, text: inside.join("\n") });
            }
        }
        blocks
    }

    /// Writes what was printed into the page, where it differs in more than what changes from run to run.
    pub fn write(&self, outputs: &[(&Step, &Vec<String>)]) {
        let text = std::fs::read_to_string(&self.path).expect("it was read before");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (step, output) in outputs.iter().rev().filter(|(step, output)| shown(&step.output) != shown(output)) {
            let first = step.line - 1 + step.command.lines().count();
            lines.splice(first..first + step.output.len(), (*output).clone());
        }
        std::fs::write(&self.path, lines.join("\n") + "\n").expect("the page can be written");
    }

    /// The blocks of commands, in order.
    pub fn consoles(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.language == "console")
    }

    /// All blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}

impl Block {
    /// The commands of a block that shows what they print: each stands behind `$`.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut lines = self.text.lines().zip(self.line..);
        while let Some((text, line)) = lines.next() {
            let Some(command) = text.strip_prefix("$ ") else {
                steps.last_mut().expect("output follows a command").output.push(text.to_owned());
                continue;
            };
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                let (text, _) = lines.next().expect("a command goes on");
                command.extend(["\n", text]);
            }
            if command.ends_with("<<EOF") {
                let document = lines.by_ref().map(|(text, _)| text).take_while(|text| *text != "EOF");
                document.chain(["EOF"]).for_each(|text| command.extend(["\n", text]));
            }
            steps.push(Step { line, command, output: Vec::new(), is_shown: true });
        }
        steps
    }

    /// Whether it shows what its commands print.
    pub fn has_output(&self) -> bool {
        self.text.starts_with("$ ")
    }
}

/// Output without what differs from run to run: widths of columns, ages, times, UIDs, versions of objects, hashes, addresses.
pub fn shown(lines: &[String]) -> Vec<String> {
    static CHANGING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
            (r#"resourceVersion: "\d+""#, "resourceVersion: <n>"),
            (r"\b[0-9a-f]{40,64}\b", "<digest>"),
            (r"-[0-9a-z]{38,52}\b", "-<hash>"),
            (r"\b(hello|mill)-[0-9a-f]{10}\b", "$1-<plan>"),
            (r"\b(\d{1,3}\.){3}\d{1,3}\b", "<address>"),
            (r"\b(\d+(s|m|h|d))+\b", "<age>"),
            // What kubectl and API servers have worded anew since the oldest that is tested.
            (r" deleted from \S+ namespace$", " deleted"),
            (
                r"v1\.LabelSelector\{MatchLabels:map\[string\]string(\{.*?\}), MatchExpressions:\[\]v1\.LabelSelectorRequirement\(nil\)\}",
                "{\"matchLabels\":$1}",
            ),
            (r"\s+", " "),
        ]
        .map(|(pattern, text)| (Regex::new(pattern).expect("a good pattern"), text))
        .into()
    });
    let plain = |line: &String| {
        CHANGING.iter().fold(line.clone(), |line, (pattern, text)| pattern.replace_all(&line, *text).into_owned())
    };
    // A line that begins with a time is progress: what of it is seen depends on the pace.
    lines.iter().map(plain).filter(|line| !line.starts_with("<time> ")).collect()
}

#[test]
fn a_page_is_read_as_commands_with_input_and_output() {
    let blocks = Page::of(
        "text\n```console\n$ kubectl apply -f - <<EOF\na: 1\nEOF\nx created\n$ kubectl get x\nNAME AGE\nx    3s\n```\nmore\n\
         ```console\nmake \\\n  all   # it\n```\n",
    );
    let [first, second] = blocks.as_slice() else { panic!("{blocks:?}") };
    assert!(first.has_output() && !second.has_output());
    assert_eq!((second.line, second.text.as_str()), (13, "make \\\n  all   # it"));
    let steps = first.steps();
    let [apply, get] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!((apply.line, apply.command.as_str()), (3, "kubectl apply -f - <<EOF\na: 1\nEOF"));
    assert_eq!(apply.output, ["x created"]);
    assert_eq!((get.line, get.command.as_str()), (7, "kubectl get x"));
    assert_eq!(shown(&get.output), shown(&["NAME  AGE".to_owned(), "x 12m3s".to_owned()]));
}
