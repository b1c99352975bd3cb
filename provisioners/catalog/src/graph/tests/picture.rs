use super::*;

#[test]
fn channels_are_drawn() {
    let mut package = package(
        "stable: 1.1.0 replaces 1.0.0; 1.0.0; 1.2.0 replaces 1.1.0 skips 1.0.0 skips 0.9.0 range >=0.5.0 <1.2.0
         candidate: 1.2.0",
    );
    of(&mut package, "1.1.0").deprecation = Some("old".to_owned());
    package.channels.get_mut("candidate").unwrap().deprecation = Some("gone".to_owned());
    let expected = r##"flowchart LR
  subgraph c0["candidate"]
    c0n0["1.2.0<br/>p.v1.2.0"]
  end
  subgraph c1["stable (default)"]
    c1n0["1.0.0<br/>p.v1.0.0"]
    c1n1["1.1.0<br/>p.v1.1.0"]
    c1n2["1.2.0<br/>p.v1.2.0"]
    c1n3["p.v0.9.0"]
    c1n0 --> c1n1
    c1n1 --> c1n2
    c1n3 -.->|skips| c1n2
    c1n0 -.->|skips| c1n2
    c1r0(["#62;=0.5.0 #60;1.2.0"]) -.->|skipRange| c1n2
  end
  classDef head stroke-width:3px
  class c0n0,c1n2 head
  classDef deprecated fill:#fdd,stroke:#b00,color:#600
  class c0,c1n1 deprecated
  classDef absent stroke-dasharray:4 4,color:#777
  class c1n3 absent
  linkStyle 4 stroke-dasharray:1 4
"##;
    assert_eq!(mermaid(&package), expected);
    assert_eq!(mermaid(&super::package("")), "flowchart LR\n");
    assert_eq!(mermaid(&super::package("empty:")), "flowchart LR\n  subgraph c0[\"empty (default)\"]\n  end\n");
}

/// Hostile names reach the text only as character codes: no line but those of the grammar.
#[test]
fn names_cannot_leave_their_quotes() {
    let evil = "\"]\n  click c0n0 \"javascript:alert(1)\"\n%%{init: {}}%%`<script>#quot;;&end\u{1F600}\u{2028}\u{7f}";
    let mut package = super::package("c: 1.0.0");
    let entry = Entry {
        name: evil.to_owned(),
        replaces: Some("p.v1.0.0".to_owned()),
        skips: vec![format!("{evil}2"), String::new()],
        skip_range: Some(evil.to_owned()),
    };
    let mut channel = Channel { name: evil.to_owned(), ..super::channel("c: 1.0.0") };
    channel.entries.push(entry);
    package.channels.insert(evil.to_owned(), channel);
    package.default_channel = Some(evil.to_owned());
    let text = mermaid(&package);
    let strange = strangers(&text);
    assert_eq!(strange, Vec::<&str>::new(), "{text}");
    assert!(text.is_ascii());
}

/// Lines that are none of those that may be there.
fn strangers(text: &str) -> Vec<&str> {
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_label = |label: &str| {
        let plain = label.replace("<br/>", "").replace(" (default)", "");
        let allowed = |character: char| character.is_ascii_alphanumeric() || " .,_-+/:=!#;".contains(character);
        let codes = plain.split('#').skip(1);
        let mut ends = codes.map(|code| code.split_once(';').is_some_and(|(code, _)| code.parse::<u32>().is_ok()));
        plain.chars().all(allowed) && ends.all(|end| end)
    };
    let quoted = |text: &str, open: &str, close: &str| {
        let inner =
            text.split_once(open).map(|(id, rest)| (id.to_owned(), rest.strip_suffix(close).map(str::to_owned)));
        inner.is_some_and(|(id, label)| is_id(&id) && label.is_some_and(|label| is_label(&label)))
    };
    let is_edge = |line: &str| {
        let parts =
            line.rsplit_once(" --> ").or(line.rsplit_once(" -.->|skips| ")).or(line.rsplit_once(" -.->|skipRange| "));
        parts.is_some_and(|(from, to)| (is_id(from) || quoted(from, "([\"", "\"])")) && is_id(to))
    };
    let is_fine = |line: &&str| {
        let line = line.trim();
        let styled = ["classDef ", "class ", "linkStyle "].iter().any(|start| line.starts_with(start));
        let subgraph = line.strip_prefix("subgraph ").is_some_and(|rest| quoted(rest, "[\"", "\"]"));
        line == "flowchart LR" || line == "end" || styled || subgraph || quoted(line, "[\"", "\"]") || is_edge(line)
    };
    text.lines().filter(|line| !is_fine(line)).collect()
}
