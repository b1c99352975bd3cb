//! A body that is read while it comes, without a file in between: for content that is looked through once.

use std::io::BufRead;

use http::{HeaderName, HeaderValue, StatusCode, Version, header};
use reqwest::Response;
use rukpak_content::{Limit, LimitExceeded};
use tokio::sync::mpsc::{self, Sender};
use tokio::task::spawn_blocking;

use super::{Error, Fetcher, Request, download};
use crate::chunks::{Chunk, ChunkReader};
use crate::stage::shortened;

/// Chunks on the way to the reader. A chunk is what one read from the socket gave, at most some 100 KiB.
const QUEUE: usize = 16;

/// What a validator is kept with: which header it came in.
const ETAG: &str = "etag ";
const LAST_MODIFIED: &str = "last-modified ";

/// What came of asking.
#[derive(Debug)]
pub enum Opened {
    /// What is there has the validator that is known.
    Unchanged,
    /// Something else, which can be read once.
    Body(Incoming),
}

/// A body that has not been read yet.
#[derive(Debug)]
pub struct Incoming {
    url: String,
    response: Response,
    maximum_bytes: u64,
}

impl Fetcher {
    /// Asks for what `request` names, unless its validator is `known` (see [`Incoming::validator`]).
    ///
    /// `accept` is a list of media types, separated by commas; an answer that says it is something else is refused. The body is
    /// bounded by [`Limits::download_bytes`](rukpak_content::Limits::download_bytes).
    pub async fn open(&self, request: &Request, accept: &str, known: Option<&str>) -> Result<Opened, Error> {
        let asked = download::accepted_if(&self.clients, request, accept, known.and_then(condition));
        let response = self.in_time(request.shown(), asked).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(Opened::Unchanged);
        }
        let maximum_bytes = self.options.limits.download_bytes;
        let incoming = Incoming { url: request.shown().to_owned(), response, maximum_bytes };
        incoming.check(accept)?;
        Ok(Opened::Body(incoming))
    }

    /// Reads a body on a thread that may block, while it comes. If it breaks off, `work` is given an error, and why it broke off is
    /// the error that is returned, whatever `work` makes of it. Only `work` that reads to the end knows that all of it came.
    /// [`Limits::pull_time`](rukpak_content::Limits::pull_time) holds.
    pub async fn read<T: Send + 'static>(
        &self,
        incoming: Incoming,
        work: impl FnOnce(&mut dyn BufRead) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let url = incoming.url.clone();
        self.in_time(&url, incoming.read(work)).await
    }
}

/// The header that makes a request depend on a validator.
fn condition(known: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = match known.strip_prefix(ETAG) {
        Some(tag) => (header::IF_NONE_MATCH, tag),
        None => (header::IF_MODIFIED_SINCE, known.strip_prefix(LAST_MODIFIED)?),
    };
    HeaderValue::from_str(value).ok().map(|value| (name, value))
}

impl Incoming {
    /// What names the state of the content, if the server says: its `ETag`, else its `Last-Modified`. For [`Fetcher::open`].
    pub fn validator(&self) -> Option<String> {
        let text = |name| self.response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let tag = text(header::ETAG).map(|tag| format!("{ETAG}{tag}"));
        tag.or_else(|| text(header::LAST_MODIFIED).map(|time| format!("{LAST_MODIFIED}{time}")))
    }

    fn check(&self, accept: &str) -> Result<(), Error> {
        let headers = self.response.headers();
        let kind = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let kind = kind.as_deref().map(|kind| kind.split(';').next().unwrap_or_default().trim());
        if let Some(kind) = kind
            && !accept.split(',').any(|wanted| wanted.trim().eq_ignore_ascii_case(kind))
        {
            let (url, found) = (self.url.clone(), shortened(kind));
            return Err(Error::ContentType { url, found, wanted: accept.to_owned() });
        }
        let ends = headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING);
        if !ends && self.response.version() < Version::HTTP_2 {
            return Err(Error::NoLength { url: self.url.clone() });
        }
        match self.response.content_length() {
            Some(length) if length > self.maximum_bytes => Err(self.too_large()),
            _ => Ok(()),
        }
    }

    fn too_large(&self) -> Error {
        let (maximum, place) = (self.maximum_bytes, self.url.clone());
        Error::Limit(LimitExceeded { limit: Limit::DownloadBytes, maximum, place })
    }

    async fn read<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut dyn BufRead) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (queue, source) = mpsc::channel(QUEUE);
        let reader = spawn_blocking(move || work(&mut ChunkReader::new(source)));
        let fed = self.feed(queue).await;
        let done = reader.await.map_err(|source| Error::Worker { url: self.url.clone(), source })?;
        fed.map(|()| done)
    }

    /// Hands the body on chunk by chunk. A reader that has enough is no fault: its result says why.
    async fn feed(&mut self, queue: Sender<Chunk>) -> Result<(), Error> {
        let mut received_bytes = 0;
        loop {
            let chunk = tokio::select! {
                chunk = self.response.chunk() => chunk,
                () = queue.closed() => return Ok(()),
            };
            let chunk = chunk.map_err(|source| Error::Body {
                url: self.url.clone(),
                received_bytes,
                source: source.without_url(),
            })?;
            let Some(chunk) = chunk else {
                // A reader that is gone needs no end.
                queue.send(Chunk::End).await.ok();
                return Ok(());
            };
            received_bytes += chunk.len() as u64;
            if received_bytes > self.maximum_bytes {
                return Err(self.too_large());
            }
            if queue.send(Chunk::Data(vec![chunk])).await.is_err() {
                return Ok(());
            }
        }
    }
}
