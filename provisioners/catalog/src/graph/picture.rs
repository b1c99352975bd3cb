//! A package's channels as text that Mermaid draws.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::head;
use crate::{Channel, Entry, Package};

/// The package's channels as a Mermaid flowchart: one subgraph per channel, an arrow from each bundle to the ones that it can
/// be upgraded to. Solid arrows are `replaces`, dashed ones `skips`, dotted ones come from a node that holds a `skipRange`.
/// Heads, deprecated bundles and channels, and bundles that are not in the catalog have classes of their own.
///
/// Equal packages give equal text, whatever the order of their entries. Names reach the text only in quotes, and with any
/// character that means something to Mermaid as a character code.
pub fn mermaid(package: &Package) -> String {
    let mut chart = Chart::new(package);
    for (index, channel) in package.channels.values().enumerate() {
        chart.channel(&format!("c{index}"), channel);
    }
    chart.finish()
}

struct Chart<'a> {
    package: &'a Package,
    text: String,
    /// Links so far: Mermaid styles them by their number.
    links: usize,
    dotted: Vec<String>,
    classes: BTreeMap<&'static str, Vec<String>>,
}

const STYLES: [(&str, &str); 3] = [
    ("head", "stroke-width:3px"),
    ("deprecated", "fill:#fdd,stroke:#b00,color:#600"),
    ("absent", "stroke-dasharray:4 4,color:#777"),
];

impl<'a> Chart<'a> {
    fn new(package: &'a Package) -> Self {
        Self { package, text: "flowchart LR\n".to_owned(), links: 0, dotted: Vec::new(), classes: BTreeMap::new() }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "  {line}");
    }

    fn mark(&mut self, id: &str, class: &'static str) {
        self.classes.entry(class).or_default().push(id.to_owned());
    }

    fn channel(&mut self, id: &str, channel: &Channel) {
        let is_default = self.package.default_channel.as_deref() == Some(channel.name.as_str());
        let default = if is_default { " (default)" } else { "" };
        self.line(format_args!("subgraph {id}[\"{}{default}\"]", escaped(&channel.name)));
        let mut entries: Vec<&Entry> = channel.entries.iter().collect();
        entries.sort_by(|one, other| self.order(one, other));
        let nodes = self.nodes(id, channel, &entries);
        let mut ranges = 0;
        for entry in entries {
            let Some(to) = nodes.get(entry.name.as_str()) else { continue };
            if let Some(from) = entry.replaces.as_deref().and_then(|name| nodes.get(name)) {
                self.link(format_args!("  {from} --> {to}"));
            }
            let skips: BTreeSet<&str> = entry.skips.iter().map(String::as_str).collect();
            for from in skips.into_iter().filter_map(|name| nodes.get(name)) {
                self.link(format_args!("  {from} -.->|skips| {to}"));
            }
            if let Some(range) = entry.skip_range.as_deref().filter(|range| !range.is_empty()) {
                self.dotted.push(self.links.to_string());
                self.link(format_args!("  {id}r{ranges}([\"{}\"]) -.->|skipRange| {to}", escaped(range)));
                ranges += 1;
            }
        }
        self.line(format_args!("end"));
        if channel.deprecation.is_some() {
            self.mark(id, "deprecated");
        }
    }

    /// Declares the nodes of the entries and of the bundles that they only name; gives their ids.
    fn nodes<'b>(
        &mut self,
        channel_id: &str,
        channel: &'b Channel,
        entries: &[&'b Entry],
    ) -> BTreeMap<&'b str, String> {
        let named =
            |entry: &&'b Entry| entry.replaces.iter().chain(&entry.skips).map(String::as_str).collect::<Vec<_>>();
        let others: BTreeSet<&str> = entries.iter().flat_map(named).filter(|name| !name.is_empty()).collect();
        let head = head(channel).ok();
        let mut ids = BTreeMap::new();
        for name in entries.iter().map(|entry| entry.name.as_str()).chain(others) {
            if ids.contains_key(name) {
                continue;
            }
            let id = format!("{channel_id}n{}", ids.len());
            let bundle = self.package.bundles.get(name);
            let version = bundle.map(|bundle| bundle.version_text.as_str()).filter(|text| !text.is_empty());
            let version = version.map_or(String::new(), |version| format!("{}<br/>", escaped(version)));
            self.line(format_args!("  {id}[\"{version}{}\"]", escaped(name)));
            match bundle {
                None => self.mark(&id, "absent"),
                Some(bundle) if bundle.deprecation.is_some() => self.mark(&id, "deprecated"),
                Some(_) => {}
            }
            if head == Some(name) {
                self.mark(&id, "head");
            }
            ids.insert(name, id);
        }
        ids
    }

    fn link(&mut self, line: std::fmt::Arguments<'_>) {
        self.line(line);
        self.links += 1;
    }

    /// By version, then by everything that is drawn.
    fn order(&self, one: &Entry, other: &Entry) -> Ordering {
        let version = |entry: &Entry| self.package.bundles.get(&entry.name).and_then(|bundle| bundle.version.as_ref());
        version(one).cmp(&version(other)).then_with(|| drawn(one).cmp(&drawn(other)))
    }

    fn finish(mut self) -> String {
        for (class, style) in STYLES {
            if let Some(ids) = self.classes.remove(class) {
                self.line(format_args!("classDef {class} {style}"));
                self.line(format_args!("class {} {class}", ids.join(",")));
            }
        }
        if !self.dotted.is_empty() {
            let links = self.dotted.join(",");
            self.line(format_args!("linkStyle {links} stroke-dasharray:1 4"));
        }
        self.text
    }
}

fn drawn(Entry { name, replaces, skips, skip_range }: &Entry) -> impl Ord {
    (name, replaces, skips, skip_range)
}

/// Everything but plain characters as Mermaid's character codes. Line breaks and other control characters become spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || " .,_-+/:=!".contains(character) {
            escaped.push(character);
        } else if character.is_control() {
            escaped.push(' ');
        } else {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "#{};", u32::from(character));
        }
    }
    escaped
}
