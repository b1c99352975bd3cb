//! Which requests are spoilt, and how.

use std::time::Duration;

use axum::http::{Method, StatusCode};

/// Which requests get which fault, and how often.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Method; any when absent.
    pub method: Option<Method>,
    /// Text that path and query contain.
    pub path: String,
    /// Requests of this kind to let pass first.
    pub skip: u32,
    /// Requests to spoil; all when absent.
    pub times: Option<u32>,
    /// What happens.
    pub fault: Fault,
}

/// A fault.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answer with a status and a body.
    Status(StatusCode, String),
    /// Answer with anything.
    Answer(StatusCode, Vec<(&'static str, String)>, Vec<u8>),
    /// Answer with a body that begins so, and goes on with the second text for ever.
    Endless(StatusCode, &'static str, &'static str),
    /// Never answer.
    Hang,
    /// Pass the request on only after this time.
    Late(Duration),
    /// Pass the request on, send this many bytes of the body, then close the connection.
    HangUpAfter(usize),
    /// Pass the request on, send this many bytes of the body, then nothing, with the connection open.
    StallAfter(usize),
    /// Pass the request on and send the body in chunks of so many bytes with a pause before each.
    Slow(usize, Duration),
    /// Pass the request on and flip one bit in the middle of the body.
    FlipBit,
    /// Pass the request on and send these bytes in place of the body, headers unchanged but for the length.
    Replace(Vec<u8>),
    /// Send the client elsewhere.
    Redirect(String),
}

impl Rule {
    /// Every request whose path contains `path`.
    pub fn on(path: &str, fault: Fault) -> Self {
        Self { method: None, path: path.to_owned(), skip: 0, times: None, fault }
    }

    /// Only this method.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// Only so many times; after that requests pass.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Only after so many such requests.
    #[must_use]
    pub fn skip(self, skip: u32) -> Self {
        Self { skip, ..self }
    }
}

/// The fault for a request, if a rule spoils it. The first rule that fits decides.
pub(super) fn fault(rules: &mut [Rule], method: &Method, path: &str) -> Option<Fault> {
    let fits = |rule: &&mut Rule| {
        rule.method.as_ref().is_none_or(|wanted| wanted == method) && path.contains(&rule.path) && rule.times != Some(0)
    };
    let rule = rules.iter_mut().find(fits)?;
    if rule.skip > 0 {
        rule.skip -= 1;
        return None;
    }
    rule.times = rule.times.map(|times| times - 1);
    Some(rule.fault.clone())
}
