//! What the documentation shows of `rukpakctl catalog` is what the program prints: stderr, then stdout.

use std::path::Path;

use crate::support::command;

/// Words of a command, as a shell makes them: quotes hold them together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            None if character == '"' || character == '\'' => quote = Some(character),
            None if character == ' ' => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(character),
        }
    }
    words
}

/// Commands and what is shown below them, of all blocks that show something.
fn examples(text: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    for block in blocks.filter(|block| block.starts_with("$ ")) {
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                examples.push((command.to_owned(), String::new()));
            } else {
                let (_, shown) = examples.last_mut().expect("a block begins with a command");
                shown.push_str(line);
                shown.push('\n');
            }
        }
    }
    examples
}

#[test]
fn examples_of_catalogs_are_real() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../../docs/rukpakctl.md")).unwrap();
    let mut checked = 0;
    let mut last = None;
    for (line, shown) in examples(&text) {
        if let (Some(code), "echo $?") = (last, line.as_str()) {
            assert_eq!(shown, format!("{code}\n"), "{line}");
        }
        let arguments = line.strip_prefix("rukpakctl catalog ").filter(|rest| !rest.contains(" | "));
        // Other commands are of clusters and registries that are not here.
        let Some(arguments) = arguments else {
            last = None;
            continue;
        };
        let mut command = command([vec!["catalog".to_owned()], words(arguments)].concat());
        let output = command.current_dir(root.join("tests/cli/fixtures")).output().unwrap();
        let printed = [output.stderr, output.stdout].concat();
        assert_eq!(String::from_utf8_lossy(&printed), shown, "{line}");
        last = output.status.code();
        checked += 1;
    }
    assert!(checked >= 5, "{checked} examples");
}
