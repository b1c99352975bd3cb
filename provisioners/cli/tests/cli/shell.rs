//! Help, completions and man pages of the real program.

use crate::support::{Folder, command, run};

/// Every verb with what its examples have to show.
const VERBS: [&str; 13] = [
    "examples",
    "install",
    "upgrade",
    "run",
    "history",
    "rollback",
    "suspend",
    "resume",
    "reconcile",
    "delete",
    "tree",
    "why",
    "status",
];

#[test]
fn the_help_of_every_verb_has_examples() {
    for verb in VERBS {
        let help = run([verb, "--help"]);
        assert_eq!(help.code, 0, "{help:?}");
        let examples = help.out.split("\nExamples:\n").nth(1).unwrap_or_else(|| panic!("{verb}: {}", help.out));
        assert!(examples.starts_with(&format!("  rukpakctl {verb}")), "{examples}");
        assert!(examples.contains("Exit codes: 0 yes"), "{examples}");
    }
}

#[test]
fn completions_know_the_verbs() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(["completions", shell]);
        assert_eq!(script.code, 0, "{script:?}");
        for verb in VERBS {
            assert!(script.out.contains(verb), "{shell}: {verb}");
        }
    }
    assert_eq!(run(["completions", "abacus"]).code, 2);
}

#[test]
fn bash_takes_the_completions() {
    let folder = Folder::of(&[("completions", &run(["completions", "bash"]).out)]);
    let script = "source \"$1\"; COMP_WORDS=(rukpakctl hist); COMP_CWORD=1; _rukpakctl rukpakctl hist rukpakctl; echo \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash").args(["-c", script, "bash", &folder.join("completions")]).output();
    let output = output.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "history\n", "{output:?}");
}

#[test]
fn each_command_has_a_man_page() {
    let folder = Folder::of(&[]);
    let written = run(["man", &folder.join("man")]);
    assert_eq!((written.code, written.out.as_str()), (0, ""), "{written:?}");
    let pages = std::fs::read_dir(folder.path().join("man")).unwrap().count();
    assert_eq!(written.err, format!("{pages} man pages in {}\n", folder.join("man")));
    let page = std::fs::read_to_string(folder.join("man/rukpakctl-rollback.1")).unwrap();
    assert!(page.contains("\\-\\-to\\-revision") && page.contains("Examples:"), "{page}");
    let file = Folder::of(&[("file", "")]);
    let refused = run(["man", &file.join("file")]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.starts_with(&format!("error: write man pages to {}: ", file.join("file"))), "{refused:?}");
}

#[cfg(unix)]
#[test]
fn as_a_plugin_it_is_called_as_kubectl_calls_it() {
    let folder = Folder::of(&[]);
    let plugin = folder.path().join("kubectl-rukpak");
    std::os::unix::fs::symlink(command(["help"]).get_program(), &plugin).unwrap();
    let output = std::process::Command::new(&plugin).args(["history", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.contains("Usage: kubectl rukpak history [OPTIONS] <NAME>"), "{help}");
}
