//! Spans of traces, from the router to the telemetry process.
//!
//! A packet has one span or several, each after its length. Names of attributes are numbers: a
//! router that was taken over can send any values, and no other names.

use crate::bytes::{Decoder, Encode, Malformed, numbered};

/// Maximum length of a text of a span in bytes.
pub const MAX_TEXT: usize = 1024;

/// Maximum number of attributes of a span.
pub const MAX_ATTRIBUTES: usize = 64;

/// Usual maximum of a packet in bytes; a single span may be longer.
const PACKET_BYTES: usize = 32 << 10;

/// Length of the number in front of a span.
const LENGTH_BYTES: usize = 4;

numbered! {
    /// The role of a span.
    pub enum SpanKind {
        /// A part of the work of this server.
        Internal = 1,
        /// A request of a client.
        Server = 2,
        /// A request to another server.
        Client = 3,
    }
}

/// Declares the attributes with their names.
macro_rules! attributes {
    ($($(#[$about:meta])* $Variant:ident = $number:literal $name:literal,)+) => {
        numbered! {
            /// An attribute of a span: of the semantic conventions of OpenTelemetry, or our own.
            pub enum Attribute { $($(#[$about])* $Variant = $number,)+ }
        }

        impl Attribute {
            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Attribute::$Variant => $name,)+ }
            }
        }
    };
}

attributes! {
    /// Method, `_OTHER` for unknown ones.
    Method = 1 "http.request.method",
    /// Method as sent, if it is unknown.
    OriginalMethod = 2 "http.request.method_original",
    /// Path of the target.
    Path = 3 "url.path",
    /// Query of the target, with hidden secrets.
    Query = 4 "url.query",
    /// `http` or `https`.
    Scheme = 5 "url.scheme",
    /// Requested host, or address of the other server.
    ServerAddress = 6 "server.address",
    /// Port of the server.
    ServerPort = 7 "server.port",
    /// Address of the client, as a trusted proxy reports it.
    ClientAddress = 8 "client.address",
    /// Address of the other end of the connection.
    PeerAddress = 9 "network.peer.address",
    /// Port of the other end of the connection.
    PeerPort = 10 "network.peer.port",
    /// Version of HTTP.
    ProtocolVersion = 11 "network.protocol.version",
    /// Field `User-Agent`.
    UserAgent = 12 "user_agent.original",
    /// Status of the response.
    Status = 13 "http.response.status_code",
    /// Bytes of the request, head and body.
    RequestSize = 14 "http.request.size",
    /// Bytes of the response, head and body.
    ResponseSize = 15 "http.response.size",
    /// Reason of a failure.
    ErrorType = 16 "error.type",
    /// Number of the attempt, from 1 for the second one.
    ResendCount = 17 "http.request.resend_count",
    /// Site, application, share or upstream of the request.
    Site = 18 "howdah.site",
    /// Listener.
    Listener = 19 "howdah.listener",
    /// Id of the request, as in logs.
    RequestId = 20 "howdah.request.id",
    /// nginx's word for the result of the cache.
    CacheResult = 21 "howdah.cache.result",
    /// Processor time of the script in microseconds.
    ScriptCpu = 22 "howdah.script.cpu_us",
    /// Peak memory of the script in bytes.
    ScriptMemory = 23 "howdah.script.peak_memory",
}

/// The value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Number(u64),
}

/// A span without its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<'a> {
    /// Id of the trace.
    pub trace: [u8; 16],
    /// Id of the span.
    pub id: [u8; 8],
    /// Id of the span above; zeroes without one.
    pub parent: [u8; 8],
    /// The span above is of another process.
    pub has_remote_parent: bool,
    /// The trace is sent by all its servers.
    pub is_sampled: bool,
    /// What it stands for has failed.
    pub has_failed: bool,
    /// Role.
    pub kind: SpanKind,
    /// Begin and end in nanoseconds since 1970.
    pub times: (u64, u64),
    /// Name.
    pub name: &'a str,
    /// `tracestate` of the caller; empty without one.
    pub state: &'a str,
}

const _: () = assert!(Attribute::ALL.len() <= MAX_ATTRIBUTES);

/// Appends a span.
#[derive(Debug)]
pub struct SpanWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> SpanWriter<'a> {
    /// Appends a span without attributes.
    pub fn new(out: &'a mut Vec<u8>, span: &Span<'_>) -> SpanWriter<'a> {
        let start = out.len();
        out.put_u32(0);
        out.extend_from_slice(&span.trace);
        out.extend_from_slice(&span.id);
        out.extend_from_slice(&span.parent);
        let flags = [span.has_remote_parent, span.is_sampled, span.has_failed];
        for flag in flags {
            out.put_u8(u8::from(flag));
        }
        out.put_u8(span.kind as u8);
        out.put_u64(span.times.0);
        out.put_u64(span.times.1);
        out.put_bytes(cut(span.name).as_bytes());
        out.put_bytes(cut(span.state).as_bytes());
        let mut writer = SpanWriter { out, start };
        writer.update();
        writer
    }

    /// Appends an attribute, whose text is cut.
    pub fn text(&mut self, attribute: Attribute, value: &str) -> &mut Self {
        self.out.put_u8(attribute as u8);
        self.out.put_u8(0);
        self.out.put_bytes(cut(value).as_bytes());
        self.update();
        self
    }

    /// Appends an attribute.
    pub fn number(&mut self, attribute: Attribute, value: u64) -> &mut Self {
        self.out.put_u8(attribute as u8);
        self.out.put_u8(1);
        self.out.put_u64(value);
        self.update();
        self
    }

    /// Writes the length of what is there.
    fn update(&mut self) {
        let length = (self.out.len() - self.start - LENGTH_BYTES) as u32;
        let place = self.start..self.start + LENGTH_BYTES;
        if let Some(place) = self.out.get_mut(place) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }
}

/// Returns the start of a text.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Returns the first packet of spans that were written one after the other: whole spans.
pub fn first_packet(spans: &[u8]) -> &[u8] {
    let (mut rest, mut length) = (Decoder(spans), 0);
    while rest.bytes().is_ok() {
        let end = spans.len() - rest.0.len();
        if length > 0 && end > PACKET_BYTES {
            break;
        }
        length = end;
    }
    spans.get(..length).unwrap_or_default()
}

/// Returns the number of spans.
pub fn count(spans: &[u8]) -> u64 {
    let mut rest = Decoder(spans);
    std::iter::from_fn(|| rest.bytes().ok()).count() as u64
}

/// Splits a packet into its spans, each for [`ReadSpan::read`].
pub fn split(packet: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let (mut rest, mut found) = (Decoder(packet), Vec::new());
    while !rest.0.is_empty() {
        found.push(rest.bytes()?);
    }
    Ok(found)
}

/// A span that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadSpan<'a> {
    /// The span.
    pub span: Span<'a>,
    /// Its attributes.
    pub attributes: Vec<(Attribute, Value<'a>)>,
}

impl<'a> ReadSpan<'a> {
    /// Reads a span of a packet.
    pub fn read(bytes: &'a [u8]) -> Result<ReadSpan<'a>, Malformed> {
        let mut from = Decoder(bytes);
        let trace: [u8; 16] = from.raw(16)?.try_into().map_err(|_| Malformed)?;
        let mut id =
            || -> Result<[u8; 8], Malformed> { from.raw(8)?.try_into().map_err(|_| Malformed) };
        let (id, parent) = (id()?, id()?);
        let mut flag = || -> Result<bool, Malformed> {
            match from.u8()? {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err(Malformed),
            }
        };
        let (has_remote_parent, is_sampled, has_failed) = (flag()?, flag()?, flag()?);
        let kind = SpanKind::from_byte(from.u8()?).ok_or(Malformed)?;
        let times = (from.u64()?, from.u64()?);
        let (name, state) = (text(&mut from)?, text(&mut from)?);
        let span = Span {
            trace,
            id,
            parent,
            has_remote_parent,
            is_sampled,
            has_failed,
            kind,
            times,
            name,
            state,
        };
        let mut attributes = Vec::new();
        while !from.0.is_empty() {
            let attribute = Attribute::from_byte(from.u8()?).ok_or(Malformed)?;
            let value = match from.u8()? {
                0 => Value::Text(text(&mut from)?),
                1 => Value::Number(from.u64()?),
                _ => return Err(Malformed),
            };
            if attributes.len() == MAX_ATTRIBUTES {
                return Err(Malformed);
            }
            attributes.push((attribute, value));
        }
        Ok(ReadSpan { span, attributes })
    }
}

fn text<'a>(from: &mut Decoder<'a>) -> Result<&'a str, Malformed> {
    let text = from.text()?;
    if text.len() <= MAX_TEXT { Ok(text) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span<'a>(name: &'a str, state: &'a str) -> Span<'a> {
        Span {
            trace: [7; 16],
            id: [1; 8],
            parent: [0; 8],
            has_remote_parent: false,
            is_sampled: true,
            has_failed: false,
            kind: SpanKind::Server,
            times: (1, u64::MAX),
            name,
            state,
        }
    }

    #[test]
    fn numbers_of_attributes_are_unique_and_so_are_their_names() {
        let mut names: Vec<_> = Attribute::ALL.iter().map(|one| one.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Attribute::ALL.len());
    }

    #[test]
    fn packets_have_whole_spans() {
        let mut all = Vec::new();
        for _ in 0..100 {
            let mut writer = SpanWriter::new(&mut all, &span("a", ""));
            writer.text(Attribute::Path, &"ä".repeat(MAX_TEXT));
        }
        assert_eq!(count(&all), 100);
        let (mut rest, mut packets, mut spans) = (&all[..], 0, 0);
        while !rest.is_empty() {
            let packet = first_packet(rest);
            assert!(packet.len() <= PACKET_BYTES, "{}", packet.len());
            for bytes in split(packet).unwrap() {
                let read = ReadSpan::read(bytes).unwrap();
                let cut = "ä".repeat(MAX_TEXT / 2);
                assert_eq!(read.attributes, [(Attribute::Path, Value::Text(cut.as_str()))]);
                spans += 1;
            }
            packets += 1;
            rest = &rest[packet.len()..];
        }
        assert!(packets > 1 && spans == 100, "{packets} {spans}");
        assert!(first_packet(&[]).is_empty() && first_packet(&[9, 0, 0, 0, 1]).is_empty());
    }

    proptest! {
        #[test]
        fn a_span_reads_back(
            name in ".{0,40}",
            state in ".{0,40}",
            texts in prop::collection::vec((0usize..Attribute::ALL.len(), ".{0,20}"), 0..20),
            number: u64,
        ) {
            let mut out = Vec::new();
            let sent = span(&name, &state);
            let mut writer = SpanWriter::new(&mut out, &sent);
            let mut expected = Vec::new();
            for (index, text) in &texts {
                writer.text(Attribute::ALL[*index], text);
                expected.push((Attribute::ALL[*index], Value::Text(text)));
            }
            writer.number(Attribute::Status, number);
            expected.push((Attribute::Status, Value::Number(number)));
            let packets = split(&out).unwrap();
            prop_assert_eq!(packets.len(), 1);
            let read = ReadSpan::read(packets[0]).unwrap();
            prop_assert_eq!((read.span, read.attributes), (sent, expected));
        }

        #[test]
        fn no_bytes_make_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = first_packet(&bytes);
            for span in split(&bytes).unwrap_or_default() {
                let _ = ReadSpan::read(span);
            }
            let _ = ReadSpan::read(&bytes);
        }
    }
}
