//! Responses, and their trailers and extras.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::encoding::Encoding;
use super::fields::FieldBlock;
use crate::body::Body;
use crate::body::in_kernel::{InKernel, KernelCopy, OwnCopy};
use crate::feed::Feed;
use crate::tunnel::Tunnel;

/// A response, before a protocol frames it.
#[derive(Debug)]
pub struct Response {
    /// Status code: 200 to 999, or 0 to 999 from a `return` of the configuration.
    pub status: u16,
    /// Reason phrase, if it differs from the registered one (PHP's `header("HTTP/1.1 404 Gone
    /// fishing")`).
    pub reason: Option<Bytes>,
    /// Header fields as `Name: value\r\n` lines.
    pub fields: FieldBlock,
    /// Body; its length determines the framing.
    pub body: Body,
    /// A body of bytes is sent in chunks where the protocol has them, although its length is known:
    /// its producer did not announce a length.
    pub chunked: bool,
    /// The connection must not be used for another request.
    pub close: bool,
    /// The body is an error page of the server itself, which `error_pages` may replace.
    pub is_default_error_page: bool,
    /// The connection adds `Server`, if its value is not empty.
    pub adds_server: bool,
    /// The connection adds `Date`.
    pub adds_date: bool,
    /// The file of a share that the response is made from.
    pub file: Option<Rc<FileFacts>>,
    /// Trailer, tunnel or feed.
    pub extras: Option<Box<ResponseExtras>>,
}

impl Response {
    /// Creates a response without header fields.
    pub fn new(status: u16, body: Body) -> Self {
        Response {
            status,
            reason: None,
            fields: FieldBlock::default(),
            body,
            chunked: false,
            close: false,
            is_default_error_page: false,
            adds_server: true,
            adds_date: true,
            file: None,
            extras: None,
        }
    }

    /// Creates a response that is not sent: the connection is closed, or the stream reset. The
    /// status is for the log.
    pub fn unsent(status: u16) -> Self {
        let extras = ResponseExtras { is_unsent: true, ..ResponseExtras::default() };
        Response { extras: Some(Box::new(extras)), ..Response::new(status, Body::Empty) }
    }

    /// Returns true if the response is not sent.
    pub fn is_unsent(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.is_unsent)
    }

    /// Returns the trailer, if there may be one.
    pub fn trailer(&self) -> Option<&Trailer> {
        self.extras.as_ref()?.trailer.as_ref()
    }

    /// Removes the trailer.
    pub fn drop_trailer(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.trailer = None;
        }
    }

    /// Takes the tunnel that the connection becomes after this response.
    pub fn take_tunnel(&mut self) -> Option<Tunnel> {
        self.extras.as_mut()?.tunnel.take()
    }

    /// Takes the feed of the request body, if the upstream server still reads from it.
    pub fn take_feed(&mut self) -> Option<Rc<Feed>> {
        self.extras.as_mut()?.feed.take().filter(|feed| !feed.is_full())
    }

    /// Takes the variables that a script has set for the server.
    pub fn take_variables(&mut self) -> Vec<(Bytes, Bytes)> {
        self.extras.as_mut().map(|extras| std::mem::take(&mut extras.variables)).unwrap_or_default()
    }

    /// Appends a field with [`FieldBlock::push`].
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push(name, value);
        self
    }
}

/// Parts of a response that few responses have.
#[derive(Default)]
pub struct ResponseExtras {
    /// Trailer after the body.
    pub trailer: Option<Trailer>,
    /// With status 101: the tunnel that the connection becomes.
    pub tunnel: Option<Tunnel>,
    /// Feed of the request body, which the upstream server still reads.
    pub feed: Option<Rc<Feed>>,
    /// Compressed copies of the body.
    pub copies: Option<Box<dyn CompressedCopies>>,
    /// A copy of the body that the kernel can send.
    pub in_kernel: Option<Box<dyn KernelCopy>>,
    /// The response is not sent.
    pub is_unsent: bool,
    /// The memory of the body counts elsewhere, not as that of a response that its client does not
    /// read.
    pub is_counted: bool,
    /// Variables that a script has set for the server (`apache_setenv`).
    pub variables: Vec<(Bytes, Bytes)>,
}

impl ResponseExtras {
    /// Returns the parts of a response of an upstream server; `None` if it has neither.
    pub fn of(trailer: Option<Trailer>, feed: Option<Rc<Feed>>) -> Option<Box<ResponseExtras>> {
        let has_any = trailer.is_some() || feed.is_some();
        has_any.then(|| Box::new(ResponseExtras { trailer, feed, ..ResponseExtras::default() }))
    }
}

impl std::fmt::Debug for ResponseExtras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ResponseExtras { trailer, tunnel, feed, is_unsent, variables, .. } = self;
        f.debug_struct("ResponseExtras")
            .field("trailer", trailer)
            .field("tunnel", tunnel)
            .field("feed", feed)
            .field("is_unsent", is_unsent)
            .field("variables", variables)
            .finish_non_exhaustive()
    }
}

/// Compressed copies of content that is sent more than once.
pub trait CompressedCopies {
    /// Returns true if they are copies of this content: a later step may have replaced the body.
    fn is_of(&self, content: &Bytes) -> bool;

    /// Returns the content in an encoding; empty if it is not shorter so. `None` if it is not
    /// known.
    fn get(&self, encoding: Encoding) -> Option<Bytes>;

    /// Claims the right to collect the content in an encoding while it is sent. Only one response
    /// has it at a time: slow clients must not take memory without end.
    fn claim(&self, encoding: Encoding) -> bool;

    /// Gives the right up.
    fn release(&self, encoding: Encoding);

    /// Keeps the content in an encoding; empty if it is not shorter so.
    fn keep(&self, encoding: Encoding, content: Bytes);
}

/// Facts about a file, which a 304 does not tell.
#[derive(Debug)]
pub struct FileFacts {
    /// The media type; empty if it is not known.
    pub media_type: Bytes,
    /// Time of the last modification in seconds since 1970.
    pub modified: Option<u64>,
    /// A copy of the content that the kernel can send.
    pub in_kernel: OwnCopy,
}

impl KernelCopy for Rc<FileFacts> {
    fn get(&self, content: &Bytes) -> Option<(Arc<InKernel>, u64)> {
        self.in_kernel.get(content)
    }
}

/// The lines of a trailer, which are known at the end of the body.
#[derive(Debug, Clone, Default)]
pub struct Trailer(Rc<OnceCell<Bytes>>);

impl Trailer {
    /// Sets the lines, which must be well formed. Only the first call has an effect.
    pub fn set(&self, lines: Bytes) {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"));
        let _ = self.0.set(lines);
    }

    /// Returns the lines; empty if there are none yet.
    pub fn lines(&self) -> Bytes {
        self.0.get().cloned().unwrap_or_default()
    }
}

/// Header fields that the connection itself adds to a response.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionFields<'a> {
    /// Value of `Server`; no field if empty.
    pub server: &'a [u8],
    /// `Date` is added.
    pub date: bool,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// `Transfer-Encoding: chunked` is added.
    pub chunked: bool,
    /// Value of `Connection`; no field if empty.
    pub connection: &'static str,
}
