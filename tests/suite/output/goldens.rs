//! The files, and what they are compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use rukpak_tests::tools;

use crate::output::session::Form;

/// With the value `write`, what is printed is written into the files.
const SWITCH: &str = "RUKPAK_GOLDEN";

/// Beginnings of names of files that there are none of, and why.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    ("completions.", "clap writes them; provisioners/cli/tests/cli/shell.rs has bash read them"),
    ("content.json", "file names, a line each: it has no --output"),
    ("man.", "clap writes the pages; provisioners/cli/tests/cli/shell.rs reads them"),
    ("run.json", "it prints what RukPak's own client prints, which has no --output"),
    ("ui.", "it serves until Ctrl-C; cli/ui.rs looks at its pages with a browser"),
    ("version.json", "it has no --output"),
];

/// What was printed, by the name of its file.
#[derive(Default)]
pub struct Goldens(BTreeMap<String, String>);

/// `catalog-list.pipe.txt`.
pub fn file_name(verb: &str, form: Form) -> String {
    format!("{verb}.{}.txt", form.name())
}

/// Whether there should be a file of a verb in a form.
pub fn is_expected(verb: &str, form: Form) -> bool {
    let name = file_name(verb, form);
    !EXCEPTIONS.iter().any(|(beginning, _)| name.starts_with(beginning))
}

fn folder() -> PathBuf {
    tools::workspace_folder().join("tests/suite/output/goldens")
}

/// The names of the files that there are.
pub fn names() -> BTreeSet<String> {
    let files = tools::listing(&folder()).unwrap_or_else(|error| panic!("{error:#}"));
    files.iter().map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

impl Goldens {
    /// Another command of a verb and what it printed.
    pub fn add(&mut self, verb: &str, form: Form, transcript: &str) {
        let golden = self.0.entry(file_name(verb, form)).or_default();
        if !golden.is_empty() {
            golden.push('\n');
        }
        golden.push_str(transcript);
    }

    /// Compares with the files, or writes them.
    ///
    /// # Panics
    /// With what differs, of each file.
    pub fn compare(self) {
        let folder = folder();
        if std::env::var(SWITCH).is_ok_and(|value| value == "write") {
            assert!(std::env::var_os("CI").is_none(), "{SWITCH} is set, and goldens are not written under CI");
            fs::create_dir_all(&folder).expect("a folder");
            for name in names() {
                fs::remove_file(folder.join(name)).expect("it is removed");
            }
            for (name, text) in self.0 {
                fs::write(folder.join(name), text).expect("it is written");
            }
            panic!("the goldens are written: read what changed, and run again without {SWITCH}");
        }
        let wrong: Vec<String> = self
            .0
            .into_iter()
            .filter_map(|(name, is)| {
                let was = fs::read_to_string(folder.join(&name)).unwrap_or_default();
                (was != is).then(|| difference(&name, &was, &is))
            })
            .collect();
        assert!(
            wrong.is_empty(),
            "{}\nWith {SWITCH}=write the files are changed. Read what changed.",
            wrong.join("\n")
        );
    }
}

/// Both texts without the lines that they begin and end with alike.
fn difference(name: &str, was: &str, is: &str) -> String {
    let (was, is): (Vec<&str>, Vec<&str>) = (was.lines().collect(), is.lines().collect());
    let first = was.iter().zip(&is).take_while(|(was, is)| was == is).count();
    let (was, is) = (&was[first..], &is[first..]);
    let last = was.iter().rev().zip(is.iter().rev()).take_while(|(was, is)| was == is).count();
    let [was, is] = [was, is].map(|lines| lines[..lines.len() - last].join("\n"));
    format!("--- {name}, line {}: the golden\n{was}\n--- here\n{is}", first + 1)
}
