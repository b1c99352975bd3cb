//! A call while it is under way: its deadlines and its errors.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::{Error, Options};

/// One call while it is under way.
pub(super) struct Call<'a> {
    options: &'a Options,
    what: String,
    end: Instant,
    /// Messages that have come.
    messages: u64,
}

impl<'a> Call<'a> {
    pub(super) fn new(options: &'a Options, what: String) -> Self {
        Self { options, what, end: Instant::now() + options.total_timeout, messages: 0 }
    }

    /// The next message; `None` once the server has said that it has sent them all.
    pub(super) async fn next<A>(&mut self, stream: &mut Streaming<A>) -> Result<Option<A>, Error> {
        let next = self.in_time(stream.message()).await?;
        if next.is_some() {
            self.messages += 1;
            self.bounded(self.messages, super::MESSAGES, "messages")?;
        }
        Ok(next)
    }

    /// `Err` if the server has sent more than it may.
    pub(super) fn bounded(&self, value: u64, maximum: u64, unit: &'static str) -> Result<(), Error> {
        if value <= maximum {
            return Ok(());
        }
        Err(Error::TooLarge { name: self.options.name.clone(), what: self.what.clone(), maximum, unit })
    }

    /// The last message has no such name.
    pub(super) fn incomplete(&self, missing: &'static str) -> Error {
        let (name, what) = (self.options.name.clone(), self.what.clone());
        Error::Incomplete { name, what, number: self.messages, missing }
    }

    /// Something in the last message is too long.
    pub(super) fn too_long(&self, problem: String) -> Error {
        let (name, what) = (self.options.name.clone(), self.what.clone());
        Error::TooLong { name, what, number: self.messages, problem }
    }

    /// The ClusterServiceVersion in the answer cannot be read.
    pub(super) fn unreadable_csv(&self, source: serde_json::Error) -> Error {
        Error::Csv { name: self.options.name.clone(), what: self.what.clone(), source }
    }

    pub(super) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Status>>) -> Result<T, Error> {
        let idle = self.options.idle_timeout;
        let left = self.end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(idle.min(left), work).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(Error::Call {
                name: self.options.name.clone(),
                what: self.what.clone(),
                after: self.after(),
                source: status.into(),
            }),
            Err(_) if left < idle => Err(self.late("not done after", self.options.total_timeout)),
            Err(_) => Err(self.late("nothing came for", idle)),
        }
    }

    fn late(&self, problem: &'static str, limit: Duration) -> Error {
        let (name, what) = (self.options.name.clone(), self.what.clone());
        Error::Time { name, what, after: self.after(), problem, limit }
    }

    /// Half a catalog is worth nothing, yet how much of it came says where to look.
    fn after(&self) -> String {
        if self.messages == 0 { String::new() } else { format!(" after {} messages", self.messages) }
    }
}
