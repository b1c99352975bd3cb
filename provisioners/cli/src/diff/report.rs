//! The answer of `diff`: one line an object, one a field; or one JSON object.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rukpak_plain::ObjectKey;
use rukpak_plan::approval;
use serde::Serialize;
use serde_json::Value;

use super::fields::FieldChange;
use crate::answer::{called, object_name, print};
use crate::args::OutputForm;
use crate::colour::{Palette, Tone};
use crate::exit::Exit;
use crate::table::one_line;

/// Values of more characters are shortened, but with `-o wide`.
const VALUE_CHARACTERS: usize = 120;

/// What `--output json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    name: String,
    /// What the cluster was compared with.
    from: String,
    /// Whether that is what is installed.
    is_drift: bool,
    /// Whether the upgrade would be refused, or wait, and change nothing.
    pub is_refused: bool,
    /// In the order in which they would be written.
    pub changes: Vec<Change>,
    /// How many objects are as they should be.
    pub unchanged: usize,
    /// What could not be found out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// What somebody should know although it changes nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What would become of one object.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    action: Action,
    group: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    /// Where the bundle declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<FieldChange>,
}

/// What would be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Create,
    Change,
    Delete,
    /// It left the bundle, and stays in the cluster without an owner.
    Orphan,
    /// It may not be written: the upgrade fails, and nothing changes.
    Refuse,
    /// It cannot be written yet.
    Wait,
}

impl Action {
    const ALL: [Self; 6] = [Self::Create, Self::Change, Self::Delete, Self::Orphan, Self::Wait, Self::Refuse];

    fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Orphan => "orphan",
            Self::Refuse => "refuse",
            Self::Wait => "wait",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Create => Tone::Good,
            Self::Change | Self::Orphan | Self::Wait => Tone::Pending,
            Self::Delete | Self::Refuse => Tone::Bad,
        }
    }
}

impl Change {
    pub(super) fn of_key(key: &ObjectKey, action: Action) -> Self {
        Self {
            action,
            group: key.group.clone(),
            kind: key.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            origin: None,
            reason: None,
            fields: Vec::new(),
        }
    }

    pub(super) fn declared(self, origin: &str) -> Self {
        Self { origin: Some(origin.to_owned()), ..self }
    }

    pub(super) fn because(self, reason: String) -> Self {
        Self { reason: Some(reason), ..self }
    }

    pub(super) fn with(self, fields: Vec<FieldChange>) -> Self {
        Self { fields, ..self }
    }

    fn called(&self) -> String {
        called(&self.kind, self.namespace.as_deref(), &self.name)
    }

    fn text(&self, out: &mut dyn Write, palette: Palette, is_wide: bool) -> io::Result<()> {
        let word = palette.paint(self.action.tone(), self.action.word());
        let padding = " ".repeat(10 - self.action.word().len());
        let origin = self.origin.as_ref().filter(|_| is_wide).map(|origin| format!("   {}", one_line(origin)));
        let reason = self.reason.as_ref().map(|reason| format!(": {}", one_line(reason)));
        let (reason, origin) = (reason.unwrap_or_default(), origin.unwrap_or_default());
        writeln!(out, "{word}{padding}{}{reason}{origin}", self.called())?;
        self.fields.iter().try_for_each(|field| field.text(out, palette, is_wide))
    }
}

impl FieldChange {
    fn text(&self, out: &mut dyn Write, palette: Palette, is_wide: bool) -> io::Result<()> {
        let path = one_line(&self.path);
        if let (Some(Value::String(before)), Some(Value::String(after))) = (&self.before, &self.after)
            && (before.contains('\n') || after.contains('\n'))
        {
            writeln!(out, "  ~ {path}:")?;
            return lines(out, palette, before, after);
        }
        let mut line = |sign: &str, tone, value: &Value| {
            writeln!(out, "  {} {path}: {}", palette.paint(tone, sign), shown(value, is_wide))
        };
        self.before.iter().try_for_each(|value| line("-", Tone::Bad, value))?;
        self.after.iter().try_for_each(|value| line("+", Tone::Good, value))
    }
}

/// The lines of a text that differ: all between the first and the last one.
fn lines(out: &mut dyn Write, palette: Palette, before: &str, after: &str) -> io::Result<()> {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
    let (old, new) = (&before[start..], &after[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let printable = |line: &&str| line.chars().filter(|character| !character.is_control()).collect::<String>();
    for (sign, tone, lines) in [("-", Tone::Bad, &old[..old.len() - end]), ("+", Tone::Good, &new[..new.len() - end])] {
        for line in lines {
            writeln!(out, "    {} {}", palette.paint(tone, sign), printable(line))?;
        }
    }
    Ok(())
}

fn shown(value: &Value, is_wide: bool) -> String {
    if value == super::fields::MASK {
        return "*** (not shown)".to_owned();
    }
    let text = one_line(&value.to_string());
    if is_wide || text.chars().count() <= VALUE_CHARACTERS {
        return text;
    }
    text.chars().take(VALUE_CHARACTERS).chain(['…']).collect()
}

impl Report {
    pub(super) fn new(name: &str, from: &str, is_drift: bool) -> Self {
        Self {
            name: name.to_owned(),
            from: from.to_owned(),
            is_drift,
            is_refused: false,
            changes: Vec::new(),
            unchanged: 0,
            unknown: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// What is done to which object, as a Plan has it; and in words what keeps it from being done.
    pub(super) fn actions(&self) -> (BTreeMap<ObjectKey, approval::Action>, Vec<String>) {
        let (mut actions, mut obstacles) = (BTreeMap::new(), Vec::new());
        for change in &self.changes {
            let uid = String::new();
            let action = match change.action {
                Action::Create => approval::Action::Create,
                Action::Change => approval::Action::Change,
                Action::Delete => approval::Action::Delete { uid, unless: "" },
                Action::Orphan => approval::Action::Orphan { uid },
                Action::Refuse | Action::Wait => {
                    let reason = change.reason.as_deref().unwrap_or_default();
                    obstacles.push(one_line(&format!("{}: {reason}", change.called())));
                    continue;
                }
            };
            let (group, kind) = (change.group.clone(), change.kind.clone());
            let key = ObjectKey { group, kind, namespace: change.namespace.clone(), name: change.name.clone() };
            actions.insert(key, action);
        }
        (actions, obstacles)
    }

    pub(super) fn print(mut self, form: OutputForm) -> Exit {
        self.is_refused |= self.changes.iter().any(|change| change.action == Action::Refuse);
        let exit = if !self.unknown.is_empty() {
            Exit::Unknown
        } else if self.changes.is_empty() && !self.is_refused {
            Exit::Yes
        } else {
            Exit::No
        };
        print(form, &self, |out, palette, is_wide| self.text(out, palette, is_wide), |out| self.names(out), exit)
    }

    fn text(&self, out: &mut dyn Write, palette: Palette, is_wide: bool) -> io::Result<()> {
        self.changes.iter().try_for_each(|change| change.text(out, palette, is_wide))?;
        for unknown in &self.unknown {
            writeln!(out, "{}         {}", palette.paint(Tone::Bad, "?"), one_line(unknown))?;
        }
        writeln!(out, "{}", self.summary())
    }

    fn summary(&self) -> String {
        let count = |action| self.changes.iter().filter(|change| change.action == action).count();
        let counts = Action::ALL.map(|action| (count(action), format!("to {}", action.word())));
        let others = [(self.unknown.len(), "unknown".to_owned()), (self.unchanged, "unchanged".to_owned())];
        let told: Vec<String> = counts
            .into_iter()
            .chain(others)
            .filter(|(count, word)| *count > 0 || word == "unchanged")
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let refused = if self.is_refused { "; the upgrade would fail and change nothing" } else { "" };
        format!("{}{refused}", told.join(", "))
    }

    fn names(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut names = self.changes.iter().map(|change| object_name(&change.group, &change.kind, &change.name));
        names.try_for_each(|name| writeln!(out, "{name}"))
    }
}

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
