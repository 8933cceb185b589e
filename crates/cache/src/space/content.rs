//! The content of a response in the file, and its way to a client.
//!
//! The content is copied rather than sent with `sendfile`: the kernel would send the pages of the
//! file, and the content in the buffer of a slow connection would change when their chunks are
//! written again.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::body::{BodyStream, SendError, file};

use super::Object;

/// Content in the file.
#[derive(Debug, Clone)]
pub struct DiskContent {
    object: Arc<Object>,
    /// Its beginning in the object.
    start: u64,
    len: u64,
}

impl DiskContent {
    /// Returns the content from a byte of an object on.
    pub fn new(object: Arc<Object>, start: u64, len: u64) -> DiskContent {
        DiskContent { object, start, len }
    }

    /// Returns its length.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a part as a body.
    pub fn stream(&self, start: u64, end: u64) -> DiskStream {
        let end = end.min(self.len);
        DiskStream { content: self.clone(), at: start.min(end), end, reading: None }
    }

    /// Reads all of it. Blocks.
    pub fn read(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(self.len).map_err(io::Error::other)?];
        self.object.read(self.start, &mut bytes)?;
        Ok(bytes.into())
    }
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, SendError>>>>;

/// Content that is read while it is sent, as files are: from the page cache at once, from the disk
/// by a helper thread.
pub struct DiskStream {
    content: DiskContent,
    at: u64,
    end: u64,
    reading: Option<Reading>,
}

impl BodyStream for DiskStream {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.at >= self.end {
            return Poll::Ready(None);
        }
        let reading = match &mut self.reading {
            Some(reading) => reading,
            None => {
                let object = &self.content.object;
                let Some((offset, length)) = object.place(self.content.start + self.at) else {
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                };
                let count = length.min(self.end - self.at).min(file::READ_SIZE as u64);
                let file = Arc::clone(object.file());
                let count = usize::try_from(count).unwrap_or(file::READ_SIZE);
                let read = async move { file::read(&file, offset, count).await };
                self.reading.insert(Box::pin(read))
            }
        };
        let Poll::Ready(read) = reading.as_mut().poll(cx) else { return Poll::Pending };
        self.reading = None;
        match read {
            Ok(bytes) => {
                self.at += bytes.len() as u64;
                Poll::Ready(Some(Ok(bytes)))
            }
            Err(_) => Poll::Ready(Some(Err(io::Error::other("a stored response is not readable")))),
        }
    }

    fn len(&self) -> Option<u64> {
        Some(self.end - self.at)
    }
}
