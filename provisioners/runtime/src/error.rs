//! Printing of error chains, once, at the edge.

use std::error::Error;
use std::fmt;

use kube::core::Status;

/// Prints an error and all its sources, `: ` between them.
///
/// Errors of libraries often repeat their source in their own text; a part that the text so far already holds is left out. What the
/// API server said stands for itself: the client's errors repeat it with other words around it.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut source = self.0.source();
        while let Some(error) = source {
            let status = status(error);
            let part = status.map_or_else(|| error.to_string(), |status| status.message.clone());
            if !text.contains(&part) {
                text.push_str(": ");
                text.push_str(&part);
            }
            source = if status.is_some() { None } else { error.source() };
        }
        formatter.write_str(&text)
    }
}

/// The API server's own answer, if this is what the error is.
fn status<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    let boxed = error.downcast_ref::<Box<kube::Error>>().map(Box::as_ref);
    match boxed.or_else(|| error.downcast_ref())? {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<dyn Error + Send + Sync>>);

    #[test]
    fn causes_follow_and_are_not_repeated() {
        let innermost = Layer("connection refused", None);
        let middle = Layer("connect: connection refused", Some(Box::new(innermost)));
        let outer = Layer("cannot read the Secret", Some(Box::new(middle)));
        assert_eq!(Chain(&outer).to_string(), "cannot read the Secret: connect: connection refused");
    }

    #[test]
    fn the_api_server_is_quoted_in_its_own_words() {
        let status = Status::failure("secrets \"a\" is forbidden", "Forbidden").with_code(403).boxed();
        let boxed: Box<kube::Error> = Box::new(kube::Error::Api(status.clone()));
        for cause in [Box::new(boxed) as Box<dyn Error + Send + Sync>, Box::new(kube::Error::Api(status))] {
            let error = Layer("write secret a", Some(cause));
            assert_eq!(Chain(&error).to_string(), "write secret a: secrets \"a\" is forbidden");
        }
    }
}
