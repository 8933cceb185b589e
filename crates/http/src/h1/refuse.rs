//! Answers to heads that cannot be read.

use std::time::Duration;

use super::connection::{Connection, Next};
use super::head::Refusal;
use super::record::SentResponse;
use super::response_head::{Framing, connection_fields};
use super::transport::Io;
use crate::error_status::RequestError;
use crate::exchange::{Handler, RequestRecord, SendOutcome};
use crate::message::{ConnectionFields, FieldBlock, Response, Version};

impl<I: Io, H: Handler> Connection<I, H> {
    /// Answers a head that is incomplete, and closes the connection.
    pub(super) async fn refuse(&self, refusal: Refusal) -> Next {
        let received = self.take_incomplete_head();
        self.refuse_head(refusal, &received).await
    }

    /// Answers a head that cannot be read, and closes the connection.
    pub(super) async fn refuse_head(&self, refusal: Refusal, received: &[u8]) -> Next {
        self.refuse_with(refusal, self.handler.error(refusal.into()), received).await
    }

    /// Answers with `response`, and closes the connection.
    pub(super) async fn refuse_with(
        &self,
        refusal: Refusal,
        mut response: Response,
        received: &[u8],
    ) -> Next {
        let limits = self.handler.limits();
        // The method is unknown or does not matter: the response has a body.
        let framing = Framing::of(&response, false, Version::Http10);
        response.close = true;
        let added = connection_fields(&response, framing, false, Version::Http11, &limits);
        let sent = self.respond(None, response, framing, &added, false, &limits).await;
        self.report_refusal(refusal, received, added, &sent);
        match sent.outcome {
            SendOutcome::Complete => Next::Linger,
            _ => Next::Close,
        }
    }

    /// Reports a head that was incomplete when the client disconnected. There is no response.
    pub(super) fn report_incomplete(&self) -> Next {
        let received = self.take_incomplete_head();
        let unsent = SentResponse {
            status: RequestError::Head(Refusal::Incomplete).status(),
            fields: FieldBlock::default(),
            bytes: 0,
            body: 0,
            outcome: SendOutcome::ClientGone,
        };
        self.report_refusal(Refusal::Incomplete, &received, ConnectionFields::default(), &unsent);
        Next::Close
    }

    fn take_incomplete_head(&self) -> bytes::Bytes {
        let transport = &mut *self.transport.borrow_mut();
        transport.input.skip(transport.work.scan.start());
        transport.input.take(usize::MAX)
    }

    fn report_refusal(
        &self,
        refusal: Refusal,
        received: &[u8],
        added: ConnectionFields<'_>,
        sent: &SentResponse,
    ) {
        let line = memchr::memchr2(b'\r', b'\n', received).unwrap_or(received.len());
        let max_line = self.handler.limits().max_line;
        let elapsed =
            self.started_at.take().map_or(Duration::ZERO, |started_at| started_at.elapsed());
        self.handler.log_request(&RequestRecord {
            refused_line: received.get(..line.min(max_line)).unwrap_or_default(),
            refusal: Some(refusal.reason()),
            ..sent.record(&self.info, added, received.len() as u64, elapsed)
        });
    }
}
