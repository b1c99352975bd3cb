//! One message once: what a page has said, it does not repeat.

use super::html::{Cell, escaped, quiet};
use crate::table::one_line;

/// Shorter texts are said again: they take less room than a reference.
const LONG: usize = 60;
/// So many messages are remembered: each one is compared with all of them, and there may be one for each of many thousand objects.
const REMEMBERED: usize = 100;
const ABOVE: &str = "(as above)";

/// The long messages that a page has shown so far.
#[derive(Default)]
pub(super) struct Said(Vec<String>);

impl Said {
    /// A message, unless it was said before: as it is, or as a part of another one. What is new of it is said.
    pub(super) fn once(&mut self, message: &str) -> Cell {
        let line = one_line(message);
        // The API server takes Events of so many characters; they are cut.
        let text = line.trim_end_matches(['…', '.']);
        if text.chars().count() < LONG {
            return message.into();
        }
        if self.0.iter().any(|said| said.contains(text)) {
            return quiet(ABOVE);
        }
        let parts = self.0.iter().filter_map(|said| line.split_once(said.as_str()).map(|parts| (said.len(), parts)));
        let cell = match parts.max_by_key(|(length, _)| *length) {
            Some((_, (before, after))) => {
                let above = quiet(ABOVE).into_html();
                Cell::Html(format!("{}{above}{}", escaped(before), escaped(after)))
            }
            None => message.into(),
        };
        if self.0.len() < REMEMBERED {
            self.0.push(text.to_owned());
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_not_said_again() {
        let why = "ConfigMap \"pump\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
        let mut said = Said::default();
        let mut once = |message: &str| said.once(message).into_html();
        let above = quiet(ABOVE).into_html();
        assert!(once(&format!("{why}; nothing was changed: pump-1 stays installed")).contains("is immutable when"));
        assert_eq!(once(why), above, "a part of it");
        assert_eq!(once(&format!("{}…", &why[..70])), above, "an Event is cut");
        assert_eq!(once(&why.replace(": data", ":\n data")), above, "line breaks do not count");

        let other = "the registry registry.example.com does not answer, and will be asked again in a minute";
        assert_eq!(once(other), other);
        assert_eq!(once(&format!("Back-off: {other}, <once>")), format!("Back-off: {above}, &lt;once&gt;"));
        assert_eq!([once("wait"), once("wait")], ["wait", "wait"], "a word is shorter than a reference");
    }

    #[test]
    fn of_many_messages_only_the_first_are_remembered() {
        let message =
            |number: usize| format!("object {number} may not be read by whoever looks at this page, nor by others");
        let mut said = Said::default();
        let mut once = |number: usize| said.once(&message(number)).into_html();
        for number in 0..=REMEMBERED {
            assert_eq!(once(number), message(number));
        }
        assert_eq!(once(0), quiet(ABOVE).into_html());
        assert_eq!(once(REMEMBERED), message(REMEMBERED), "it is said again");
    }
}
