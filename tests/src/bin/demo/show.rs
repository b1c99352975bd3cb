//! What goes to stdout: titles, commands with their output, and the summary.

use std::io::{Stdout, Write};
use std::time::{Duration, Instant};

use kube::api::DynamicObject;
use rukpak_tests::verbs;

/// Longest line of wrapped text, in characters.
const WIDTH: usize = 118;

/// The show so far.
pub struct Show {
    out: Stdout,
    began: Instant,
    steps: Vec<Step>,
}

struct Step {
    title: String,
    began: Instant,
    outcome: Outcome,
}

enum Outcome {
    Running,
    Done { took: Duration, verdict: String },
    Failed { took: Duration },
}

impl Show {
    /// Starts the clock.
    pub fn begin() -> Self {
        Self { out: std::io::stdout(), began: Instant::now(), steps: Vec::new() }
    }

    /// Opens a step.
    pub fn step(&mut self, title: &str) {
        self.line(&format!("\n=== {}. {title}", self.steps.len() + 1));
        self.steps.push(Step { title: title.to_owned(), began: Instant::now(), outcome: Outcome::Running });
    }

    /// Closes the open step with a line for the summary.
    pub fn done(&mut self, verdict: impl Into<String>) {
        if let Some(step) = self.steps.last_mut() {
            step.outcome = Outcome::Done { took: step.began.elapsed(), verdict: verdict.into() };
        }
    }

    /// The open step did not happen.
    pub fn fail(&mut self) {
        if let Some(step) = self.steps.last_mut().filter(|step| matches!(step.outcome, Outcome::Running)) {
            step.outcome = Outcome::Failed { took: step.began.elapsed() };
        }
    }

    /// A command as it would be typed.
    pub fn command(&self, command: &str) {
        self.line(&format!("\n$ {command}"));
    }

    /// Output.
    pub fn lines(&self, lines: impl IntoIterator<Item = impl AsRef<str>>) {
        for line in lines {
            self.line(line.as_ref());
        }
    }

    /// A remark that is not output of a command.
    pub fn remark(&self, text: &str) {
        self.lines(wrapped(text, "# "));
    }

    /// The conditions of an object, as `kubectl describe` has them.
    pub fn conditions(&self, object: &DynamicObject, types: &[&str]) {
        self.line(&format!("  {:<15} {:<8} {:<26} Message", "Condition", "Status", "Reason"));
        for type_ in types {
            let Some(condition) = verbs::condition(object, type_) else { continue };
            let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
            let message = text("message");
            let short = message.len() < 64 && !message.contains('\n');
            let beside = if short { message.as_str() } else { "(below)" };
            self.line(&format!("  {type_:<15} {:<8} {:<26} {beside}", text("status"), text("reason")));
            if !short {
                self.lines(message.lines().flat_map(|line| wrapped(line, "      ")));
            }
        }
    }

    /// What happened, and how long it took.
    pub fn summary(&self, where_: &str) {
        self.line(&format!("\n=== Summary: {where_}"));
        for (index, step) in self.steps.iter().enumerate() {
            let (mark, took, verdict) = match &step.outcome {
                Outcome::Done { took, verdict } => ("ok    ", *took, verdict.as_str()),
                Outcome::Failed { took } => ("FAILED", *took, "did not happen; the reason is on stderr"),
                Outcome::Running => ("cut   ", step.began.elapsed(), "was interrupted"),
            };
            self.line(&format!("  {mark} {:>6.2} s  {}. {}: {verdict}", took.as_secs_f64(), index + 1, step.title));
        }
        self.line(&format!("  total  {:>6.2} s", self.began.elapsed().as_secs_f64()));
    }

    /// Whoever reads may have had enough (`| head`): that is no reason to leave things running.
    fn line(&self, text: &str) {
        let _ = writeln!(self.out.lock(), "{text}");
    }
}

/// `text` in lines of at most [`WIDTH`] characters, broken at spaces where there are any.
fn wrapped(text: &str, indent: &str) -> Vec<String> {
    let mut lines = vec![indent.to_owned()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        let is_fresh = line == indent;
        if !is_fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{indent}{word}"));
        } else {
            if !is_fresh {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_at_spaces_and_loses_nothing() {
        let words = vec!["word"; 100].join(" ");
        let lines = wrapped(&words, "  ");
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH));
        assert_eq!(lines.iter().map(|line| line.trim_start()).collect::<Vec<_>>().join(" "), words);
        assert_eq!(wrapped("", "# "), ["# "]);
    }
}
