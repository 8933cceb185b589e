//! What servers answer.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;

/// Maximum length of a server's text in the log, in bytes.
const MAX_SHOWN: usize = 200;

/// Returns the number of spans or data points that a server has refused, though it has taken the
/// message, with the reason. The answers to both have the same fields.
pub(crate) fn refused(response: &[u8]) -> Option<(i64, String)> {
    let response = ExportTraceServiceResponse::decode(response).ok()?;
    let partial = response.partial_success?;
    let says_something = partial.rejected_spans != 0 || !partial.error_message.is_empty();
    says_something.then(|| (partial.rejected_spans, shown(&partial.error_message)))
}

/// Returns the start of a server's text.
pub(crate) fn shown(text: &str) -> String {
    let mut end = text.len().min(MAX_SHOWN);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// `google.rpc.Status`, the details of an error of gRPC and the body of one over HTTP.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    /// Message for developers.
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<RetryDelay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct RetryDelay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl RpcStatus {
    /// Returns the pause that the server asks for, if it permits another attempt.
    pub(crate) fn retry_delay(&self) -> Option<Duration> {
        let is_retry = |detail: &&Detail| detail.type_url.ends_with("google.rpc.RetryInfo");
        let found = self.details.iter().find(is_retry)?;
        let delay = RetryInfo::decode(&found.value[..]).ok()?.retry_delay.unwrap_or_default();
        let seconds = u64::try_from(delay.seconds).unwrap_or(0);
        let nanos = u32::try_from(delay.nanos).unwrap_or(0).min(999_999_999);
        Some(Duration::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pause_is_read_from_the_details_of_an_error() {
        let info = RetryInfo { retry_delay: Some(RetryDelay { seconds: 3, nanos: -1 }) };
        let detail =
            |type_url: &str| Detail { type_url: type_url.to_owned(), value: info.encode_to_vec() };
        let with = |detail| RpcStatus { message: String::new(), details: vec![detail] };
        let known = with(detail("type.googleapis.com/google.rpc.RetryInfo"));
        assert_eq!(known.retry_delay(), Some(Duration::from_secs(3)));
        assert_eq!(with(detail("type.googleapis.com/google.rpc.Help")).retry_delay(), None);
        assert_eq!(RpcStatus::default().retry_delay(), None);
    }

    proptest! {
        #[test]
        fn no_response_makes_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = refused(&bytes);
            if let Ok(status) = RpcStatus::decode(&bytes[..]) {
                let _ = status.retry_delay();
            }
        }
    }
}
