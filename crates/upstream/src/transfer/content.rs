//! Body of a request from the client.

use std::fs::File;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::exchange::Exchange;
use howdah_http::feed::Feed;
use howdah_http::request_body::{CollectError, RequestBody, collect};

use crate::failure::Failure;
use crate::retry_policy::BodyKind;
use crate::transfer::BufferSettings;

/// Body of a request.
#[derive(Debug, Clone)]
pub enum Content {
    /// The complete body in memory.
    Memory(Bytes),
    /// The complete body in a file: the file's first bytes, and their number.
    File(Rc<File>, u64),
    /// A body that is still arriving. It can be sent once.
    Feed(Rc<Feed>),
}

impl Content {
    /// Reads a body: in full, unless it `is_streamed`.
    pub async fn read(
        exchange: &mut Exchange<'_>,
        buffer: &BufferSettings<'_>,
        is_streamed: bool,
    ) -> Result<Content, CollectError> {
        if is_streamed && exchange.body_len() != Some(0) {
            return Ok(Content::Feed(Feed::new(exchange.body_len())));
        }
        let collected =
            collect(exchange, buffer.memory, buffer.directory, buffer.owner.clone()).await?;
        Ok(match collected {
            RequestBody::Memory(bytes) => Content::Memory(bytes),
            RequestBody::File(file, len) => Content::File(Rc::new(file), len),
        })
    }

    /// Returns the number of bytes, if it is known.
    #[expect(clippy::len_without_is_empty, reason = "`body_kind` tells more")]
    pub fn len(&self) -> Option<u64> {
        match self {
            Content::Memory(bytes) => Some(bytes.len() as u64),
            Content::File(_, len) => Some(*len),
            Content::Feed(feed) => feed.len(),
        }
    }

    /// Returns whether there is a body, and whether it can be sent again.
    pub fn body_kind(&self) -> BodyKind {
        match self {
            _ if self.len() == Some(0) => BodyKind::Empty,
            Content::Memory(_) | Content::File(..) => BodyKind::Stored,
            Content::Feed(_) => BodyKind::Streamed,
        }
    }

    /// Polls for a part of the response until it arrives or the client leaves, while the body
    /// continues to arrive from the client.
    pub async fn wait_for<T>(
        &self,
        exchange: &Exchange<'_>,
        mut poll_response: impl FnMut(&mut Context<'_>) -> Poll<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        poll_fn(|cx| {
            let filled = match self {
                Content::Feed(feed) => exchange.poll_fill(feed, cx),
                Content::Memory(_) | Content::File(..) => Poll::Pending,
            };
            if let Poll::Ready(response) = poll_response(cx) {
                return Poll::Ready(response);
            }
            if let Poll::Ready(Err(error)) = filled {
                return Poll::Ready(Err(Failure::Client(error)));
            }
            match self {
                // The end of an incomplete body shows that the client has left. `poll_gone` would
                // read further bytes of it.
                Content::Feed(feed) if feed.is_waiting() => Poll::Pending,
                _ => exchange.poll_gone(cx).map(|_| Err(Failure::ClientGone)),
            }
        })
        .await
    }

    /// Returns the body if parts of it have not arrived yet.
    pub fn rest(&self) -> Option<Rc<Feed>> {
        match self {
            Content::Feed(feed) if !feed.is_full() => Some(Rc::clone(feed)),
            _ => None,
        }
    }
}
