//! The record of a response, from which the access log line is made.

use std::sync::Arc;
use std::time::Duration;

use crate::exchange::{RequestRecord, SendOutcome};
use crate::message::{ConnectionFields, ConnectionInfo, FieldBlock};

/// A response after sending.
pub(super) struct SentResponse {
    pub status: u16,
    pub fields: FieldBlock,
    /// Bytes sent, including head and framing.
    pub bytes: u64,
    /// Bytes of the body sent.
    pub body: u64,
    pub outcome: SendOutcome,
}

impl SentResponse {
    /// Builds the record, without the request or the refused head.
    pub fn record<'a>(
        &'a self,
        connection: &'a Arc<ConnectionInfo>,
        added: ConnectionFields<'a>,
        received: u64,
        elapsed: Duration,
    ) -> RequestRecord<'a> {
        RequestRecord {
            connection,
            request: None,
            refused_line: &[],
            refusal: None,
            status: self.status,
            fields: &self.fields,
            connection_fields: added,
            received,
            sent: self.bytes,
            body_sent: self.body,
            elapsed,
            outcome: self.outcome,
        }
    }
}
