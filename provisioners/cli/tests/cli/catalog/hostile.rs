//! Catalogs that mean harm.

use crate::support::{Folder, run};

#[test]
fn a_hostile_catalog_cannot_command_the_terminal() {
    let document = r#"{"schema":"olm.package","name":"a","defaultChannel":"\u001b[2J\nb"}"#;
    let deprecation = r#"{"schema":"olm.bundle","package":"a","name":"x\u001b]0;y\u0007","image":"i"}"#;
    let folder = Folder::of(&[("catalog.json", &format!("{document}{deprecation}"))]);
    for arguments in [&["list"][..], &["list", "a"], &["show", "a"]] {
        let (verb, rest) = arguments.split_first().unwrap();
        let path = folder.join("");
        let answer = run([&["catalog", verb, &path], rest].concat());
        let all = format!("{}{}", answer.out, answer.err);
        assert!(!all.contains(['\u{1b}', '\u{7}']), "{arguments:?}: {all:?}");
    }
}
