//! A compressed body that is kept once it was sent to its end.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::body::BodyStream;
use crate::message::{CompressedCopies, Encoding};

/// A compressed body, and the part of it that was sent.
pub struct Kept {
    stream: Box<dyn BodyStream>,
    encoding: Encoding,
    copies: Box<dyn CompressedCopies>,
    /// False once it is not worth keeping.
    is_kept: bool,
    sent: Vec<u8>,
    /// Length of the content.
    length: u64,
}

impl Kept {
    /// Keeps a compressed body of content with this length. The copy is claimed.
    pub fn new(
        stream: Box<dyn BodyStream>,
        copies: Box<dyn CompressedCopies>,
        encoding: Encoding,
        length: u64,
    ) -> Kept {
        Kept { stream, encoding, copies, is_kept: true, sent: Vec::new(), length }
    }
}

impl Kept {
    fn keep(&mut self, content: Bytes) {
        self.copies.keep(self.encoding, content);
        (self.is_kept, self.sent) = (false, Vec::new());
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.copies.release(self.encoding);
    }
}

impl BodyStream for Kept {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let next = std::task::ready!(self.stream.poll_next(cx));
        match &next {
            _ if !self.is_kept => {}
            Some(Ok(bytes)) => {
                self.sent.extend_from_slice(bytes);
                if self.sent.len() as u64 >= self.length {
                    // Another client is not sent it compressed.
                    self.keep(Bytes::new());
                }
            }
            Some(Err(_)) => self.is_kept = false,
            None => {
                let whole = std::mem::take(&mut self.sent).into_boxed_slice();
                self.keep(whole.into());
            }
        }
        Poll::Ready(next)
    }

    fn len(&self) -> Option<u64> {
        self.stream.len()
    }

    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_finished(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[derive(Default, Clone)]
    struct One(Rc<RefCell<Option<Bytes>>>);

    impl CompressedCopies for One {
        fn is_of(&self, _: &Bytes) -> bool {
            true
        }

        fn get(&self, _: Encoding) -> Option<Bytes> {
            self.0.borrow().clone()
        }

        fn claim(&self, _: Encoding) -> bool {
            true
        }

        fn release(&self, _: Encoding) {}

        fn keep(&self, _: Encoding, content: Bytes) {
            *self.0.borrow_mut() = Some(content);
        }
    }

    struct Parts(Vec<io::Result<Bytes>>);

    impl BodyStream for Parts {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
            Poll::Ready(self.0.pop())
        }

        fn len(&self) -> Option<u64> {
            None
        }
    }

    fn kept(parts: Vec<io::Result<Bytes>>, length: u64, polls: usize) -> Option<Bytes> {
        let copies = One::default();
        let stream = Box::new(Parts(parts.into_iter().rev().collect()));
        let mut kept = Kept::new(stream, Box::new(copies.clone()), Encoding::Gzip, length);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        (0..polls).for_each(|_| drop(kept.poll_next(&mut cx)));
        copies.get(Encoding::Gzip)
    }

    #[test]
    fn only_what_was_sent_to_its_end_is_kept() {
        let parts = || vec![Ok(Bytes::from("ab")), Ok(Bytes::from("cd"))];
        assert_eq!(kept(parts(), 10, 3), Some(Bytes::from("abcd")));
        assert_eq!(kept(parts(), 10, 2), None);
        assert_eq!(kept(parts(), 3, 3), Some(Bytes::new()), "it is longer than the content");
        let mut broken = parts();
        broken.push(Err(io::ErrorKind::UnexpectedEof.into()));
        assert_eq!(kept(broken, 10, 4), None);
    }
}
