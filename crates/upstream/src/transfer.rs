//! Transfer of requests and responses on a connection, for all protocols.
//!
//! - [`content`]: the body of a request from the client; [`upload`]: the request sent to a server.
//! - [`duplex`]: both directions of one connection, with their timeouts.
//! - [`response_buffer`]: the body of a response, sent at the client's pace.

pub mod content;
pub mod duplex;
pub mod response_buffer;
pub mod upload;

use std::path::Path;

use howdah_config::Buffering;
use howdah_http::memory::Owner;

use self::response_buffer::ResponseBuffering;

/// Buffering of the bodies of requests and responses.
#[derive(Debug)]
pub struct BufferSettings<'a> {
    /// Maximum number of bytes of a request's body in memory; a longer one goes to a file.
    pub memory: u64,
    /// Directory for these files and those of responses.
    pub directory: &'a Path,
    /// The owner of their memory.
    pub owner: &'a Owner,
    /// Settings of the action.
    pub buffering: Buffering,
}

impl<'a> BufferSettings<'a> {
    /// Returns true if the body of a request is streamed to the server. `buffers` is the setting of
    /// the server: true if the body must be complete first.
    pub fn streams_request(&self, buffers: bool) -> bool {
        !self.buffering.requests.unwrap_or(buffers)
    }

    /// Returns the buffering of a response. `buffers` is the setting of the server.
    pub fn of_response(&self, buffers: bool) -> ResponseBuffering<'a> {
        let is_on = self.buffering.responses.unwrap_or(buffers);
        ResponseBuffering { is_on, directory: self.directory, owner: self.owner }
    }
}
