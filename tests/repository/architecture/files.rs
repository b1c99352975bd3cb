//! What a file may hold, and how long it may be.

use std::path::Path;
use std::process::Command;

use regex::Regex;
use rukpak_tests::tools::workspace_folder;

use super::workspace::{code, folder, members, metadata, rust_files};

/// A file of more lines mixes two things.
const FILE_LINES: usize = 500;
/// And one of more lines is looked at.
const FILE_LINES_NOTED: usize = 400;

/// Tracked files that are text, by their path in the repository.
fn tracked() -> Vec<(String, String)> {
    let output =
        Command::new("git").args(["ls-files", "-z"]).current_dir(workspace_folder()).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(workspace_folder().join(name)).ok()?));
    names.split_terminator('\0').filter_map(read).collect()
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // Spelled in parts: this file is searched too.
    let forbidden = [
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["/wo", "rk/"],
        ["crates", ".io"],
        ["pypi", ".org"],
        ["npmjs", ".org"],
        ["npmjs", ".com"],
        ["proxy.golang", ".org"],
        ["rubygems", ".org"],
        ["deb.debian", ".org"],
        ["security.debian", ".org"],
    ]
    .map(|parts| parts.concat());
    // What cargo writes; and a script that runs everything as root in a root file system of its own.
    let excepted = [("Cargo.lock", forbidden[3].as_str()), ("tests/tools/clean-room.sh", forbidden[0].as_str())];
    let files = tracked();
    assert!(files.len() > 100, "git lists the files");
    for (name, text) in &files {
        for word in forbidden.iter().filter(|word| text.contains(word.as_str())) {
            assert!(excepted.contains(&(name.as_str(), word.as_str())), "{name} contains {word}");
        }
    }
}

/// Types of a file that derive `Debug` and hold a secret as text or bytes: whoever logs one of them logs the secret.
fn talkative(code: &str) -> Vec<String> {
    let name = r"(?:[a-z_]*_)?(?:password|passphrase|token|private_key|key_pem|bearer)";
    let field = format!(
        r"(?m)^\s*(?:pub(?:\([a-z: ]+\))? )?{name}: (?:Option<)?(?:String|Vec<u8>|Bytes|Arc<str>|Box<str>|HeaderValue)\b"
    );
    let field = Regex::new(&field).expect("a pattern");
    let kind = Regex::new(r"(?:struct|enum) (\w+)").expect("a pattern");
    let blocks = code.split("#[derive(").skip(1).filter(|block| {
        let derived = block.split(")]").next().unwrap_or_default();
        let body = block.split("\n}").next().unwrap_or_default();
        derived.split(',').any(|derived| derived.trim() == "Debug") && field.is_match(body)
    });
    blocks.filter_map(|block| Some(kind.captures(block)?[1].to_owned())).collect()
}

#[test]
fn no_type_shows_its_secret_by_a_derived_debug() {
    let talking = "#[derive(Clone, Debug)]\npub struct Login {\n    username: String,\n    password: String,\n}\n";
    assert_eq!(talkative(talking), ["Login"]);
    assert_eq!(talkative(&talking.replace(", Debug", "")), Vec::<String>::new());
    let metadata = metadata();
    for (name, package) in members(&metadata).into_iter().filter(|(name, _)| *name != "rukpak-tests") {
        for path in rust_files(&folder(package).join("src")) {
            let mut found = talkative(&code(&path));
            found.retain(|name| name != "Next"); // the continue token of a list, which is no secret
            assert!(found.is_empty(), "{name}, {}: {found:?}: write Debug by hand, or wrap the secret", path.display());
        }
    }
}

/// Log lines of a file whose JSON has the key `message` twice: their text is one already.
fn with_two_messages(code: &str) -> Vec<&str> {
    let line = Regex::new(r#"(?:trace|debug|info|warn|error)!\(([^";]*)""#).expect("a pattern");
    let is_twice = |fields: &&str| {
        let mut names = fields.split(',').map(|field| field.split('=').next().unwrap_or_default().trim());
        names.any(|name| name.trim_start_matches(['%', '?']) == "message")
    };
    line.captures_iter(code).filter_map(|found| Some(found.get(1)?.as_str())).filter(is_twice).collect()
}

#[test]
fn log_lines_have_one_message() {
    assert_eq!(with_two_messages(r#"tracing::warn!(%dependent, message, "lost")"#), ["%dependent, message, "]);
    assert_eq!(with_two_messages(r#"info!(a, detail = message, "{message}")"#), Vec::<&str>::new());
    let metadata = metadata();
    for (name, package) in members(&metadata) {
        for path in rust_files(&folder(package).join("src")) {
            let code = code(&path);
            let found = with_two_messages(&code);
            assert!(found.is_empty(), "{name}, {}: {found:?}: call the field detail", path.display());
        }
    }
}

/// With `-p`, cargo chooses features for that package alone, and builds hundreds of crates a second time.
#[test]
fn every_build_of_the_makefile_chooses_the_same_features() {
    let makefile = std::fs::read_to_string(workspace_folder().join("Makefile")).expect("there is a Makefile");
    let mut builds = 0;
    for line in makefile.lines().filter(|line| line.starts_with('\t') && line.contains("cargo ")) {
        assert!(!line.contains("cargo run"), "start the program itself: {line}");
        if ["build", "test", "clippy"].iter().any(|verb| line.contains(&format!("cargo {verb} "))) {
            assert!(line.contains("--workspace") && !line.contains(" -p "), "{line}");
            builds += 1;
        }
    }
    assert!(builds >= 6, "{builds}");
}

#[test]
fn files_are_short() {
    let mut long: Vec<(usize, String)> = Vec::new();
    for (name, text) in
        tracked().into_iter().filter(|(name, _)| Path::new(name).extension().is_some_and(|extension| extension == "rs"))
    {
        let lines = text.lines().count();
        if lines > FILE_LINES_NOTED {
            eprintln!("{name}: {lines} lines");
            long.push((lines, name));
        }
    }
    long.retain(|(lines, _)| *lines > FILE_LINES);
    assert!(long.is_empty(), "split these: {long:?}");
}
