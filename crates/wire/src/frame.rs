//! Frames of a worker's response.
//!
//! Order: any number of [`Kind::Informational`], then one [`Kind::Head`], any number of
//! [`Kind::Body`], one [`Kind::End`] (the response is complete), and finally one [`Kind::Done`]
//! (the worker is free). [`Kind::Log`], [`Kind::Purge`], [`Kind::Samples`] and [`Kind::Flush`] may
//! occur at any time, [`Kind::Descriptors`] only first, [`Kind::Output`] after the end of the
//! script.

use crate::bytes::{Decoder, Encode, Malformed, numbered};

numbered! {
    /// Type of a frame, with its number on the wire.
    pub enum Kind {
        /// Status, reason phrase and header fields: [`Head`].
        Head = 1,
        /// Part of the body.
        Body = 2,
        /// The response is complete; the script may continue (`fastcgi_finish_request`). No
        /// payload, or [`CUT`] if an error has ended the script: it would have written more.
        End = 3,
        /// The request has ended and the slot belongs to the router again: [`RequestUsage`].
        Done = 4,
        /// A record for the log: [`Log`].
        Log = 5,
        /// An interim response (`headers_send(103)`): [`Head`].
        Informational = 6,
        /// The worker waits on its socket for the descriptors that the request announced. No
        /// payload.
        Descriptors = 7,
        /// The worker waits on its socket for the status of its application. No payload.
        Status = 8,
        /// The worker waits on its socket until the router has read the pipe of its standard output
        /// and error, which belongs to this request. No payload.
        Output = 9,
        /// Cached responses are to be purged: [`Purge`].
        Purge = 10,
        /// The script has flushed: the output so far is sent to the client. No payload.
        Flush = 11,
        /// Samples of the script: [`Samples`](crate::profile::Samples).
        Samples = 12,
    }
}

/// Payload of [`Kind::End`] after an error that has ended the script.
pub const CUT: &[u8] = &[1];

/// Status and header fields from the script; their syntax is not checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Status code.
    pub status: u16,
    /// Reason phrase from the script, or empty.
    pub reason: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    /// Begins an encoding; header fields follow with [`Head::put_field`].
    pub fn put(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
        out.put_u16(status);
        out.put_bytes(reason);
    }

    /// Appends one field as a line `Name: value` without its end.
    pub fn put_field(out: &mut Vec<u8>, line: &[u8]) {
        out.put_bytes(line);
    }

    /// Decodes the payload, except for the fields, which [`Head::fields`] decodes.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Decoder(payload);
        let status = take.u16()?;
        let reason = take.bytes()?;
        let mut fields = take;
        while !fields.0.is_empty() {
            fields.bytes()?;
        }
        Ok(Head { status, reason, fields: take.0 })
    }

    /// Returns the name and the value of a line that is no field: a variable that the script has
    /// set for the server (`apache_setenv`). Both may hold any byte; the name has no `=`. No valid
    /// field has a name like that.
    pub fn variable(line: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let pair = line.strip_prefix(b"\x01env:")?;
        let end = pair.iter().position(|b| *b == b'=')?;
        Some((&pair[..end], &pair[end + 1..]))
    }

    /// Returns the header lines.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut take = Decoder(self.fields);
        std::iter::from_fn(move || take.bytes().ok())
    }
}

/// Cached responses of the request's host that a script purges (`howdah_cache_purge`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purge<'a> {
    /// All of them, also those without one of the tags.
    pub is_all: bool,
    /// The entries become stale instead of being removed.
    pub is_soft: bool,
    /// Tags, with a line feed between two of them.
    pub tags: &'a [u8],
}

impl<'a> Purge<'a> {
    /// Maximum number of tags in a frame. It limits the time that a frame takes from the router.
    pub const MAX_TAGS: usize = 512;

    /// Appends the encoding.
    pub fn put(self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(self.is_all) | u8::from(self.is_soft) << 1);
        out.extend_from_slice(self.tags);
    }

    /// Decodes a payload.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let [flags @ 0..=3, tags @ ..] = payload else { return Err(Malformed) };
        let purge = Purge { is_all: flags & 1 != 0, is_soft: flags & 2 != 0, tags };
        match purge.tags().nth(Self::MAX_TAGS) {
            None => Ok(purge),
            Some(_) => Err(Malformed),
        }
    }

    /// Returns the tags.
    pub fn tags(&self) -> impl Iterator<Item = &'a [u8]> {
        self.tags.split(|byte| *byte == b'\n').filter(|tag| !tag.is_empty())
    }
}

numbered! {
    /// Reason for which a worker ends after a request, with its number on the wire.
    pub enum Retirement {
        /// The worker has served the permitted number of requests.
        Requests = 1,
        /// The worker uses more private memory than permitted.
        Memory = 2,
        /// PHP or the connection to the router cannot continue.
        Broken = 3,
        /// The script of a resident application has called `exit()`.
        Exit = 4,
        /// An error after which PHP cannot continue with a resident application.
        Fatal = 5,
        /// A request of a resident application has exceeded `max_execution_time`.
        Timeout = 6,
        /// The client of a resident application has closed its connection.
        Disconnected = 7,
        /// A request has changed the locale, and it could not be restored.
        Locale = 8,
        /// A request has changed the time zone, and it could not be restored.
        TimeZone = 9,
        /// A request has changed the environment, and it could not be restored.
        Environment = 10,
        /// A request has changed the working directory, and it could not be restored.
        Directory = 11,
        /// The application is to start again.
        Restart = 12,
        /// A request has changed the process's handling of signals, and it could not be restored.
        Signals = 13,
        /// A request has changed limits of the process or its priority, and they could not be
        /// restored.
        Limits = 14,
        /// A request has changed the user, the groups, the session or the namespaces of the
        /// process.
        Identity = 15,
        /// A request has changed how XML is loaded, and it could not be restored.
        Xml = 16,
        /// A request has changed the encoding of a text domain, which cannot be restored.
        TextDomain = 17,
        /// A request has changed settings of PHP, and they could not be restored.
        Settings = 18,
    }
}

impl Retirement {
    /// Returns its name in the status and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Retirement::Requests => "requests",
            Retirement::Memory => "memory",
            Retirement::Broken => "broken",
            Retirement::Exit => "exit",
            Retirement::Fatal => "fatal",
            Retirement::Timeout => "timeout",
            Retirement::Disconnected => "disconnected",
            Retirement::Locale => "changed state: locale",
            Retirement::TimeZone => "changed state: time zone",
            Retirement::Environment => "changed state: environment",
            Retirement::Directory => "changed state: directory",
            Retirement::Restart => "restart",
            Retirement::Signals => "changed state: signals",
            Retirement::Limits => "changed state: limits",
            Retirement::Identity => "changed state: identity",
            Retirement::Xml => "changed state: xml",
            Retirement::TextDomain => "changed state: text domain",
            Retirement::Settings => "changed state: settings",
        }
    }
}

/// Memory and processor time of a finished request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestUsage {
    /// `memory_get_peak_usage(true)` in bytes.
    pub peak_memory: u64,
    /// Processor time, user and system, in microseconds.
    pub cpu_us: u64,
    /// Reason for which the worker ends after this request; `None` if it continues.
    pub retirement: Option<Retirement>,
    /// State of OPcache; `None` if the worker has reported it shortly before, or there is none.
    pub opcache: Option<OpcacheUsage>,
}

/// State of OPcache, with the figures of `opcache_get_status()`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpcacheUsage {
    /// OPcache keeps scripts.
    pub is_enabled: bool,
    /// Memory in use, in bytes.
    pub used: u64,
    /// Memory that is free, in bytes.
    pub free: u64,
    /// Memory of scripts that have changed, in bytes; free after a restart.
    pub wasted: u64,
    /// Number of scripts.
    pub scripts: u64,
    /// Number of scripts that were found since its start.
    pub hits: u64,
    /// Number of scripts that were not found since its start.
    pub misses: u64,
    /// Number of times that it was emptied.
    pub restarts: u64,
}

impl OpcacheUsage {
    fn put(self, out: &mut Vec<u8>) {
        let OpcacheUsage { is_enabled, used, free, wasted, scripts, hits, misses, restarts } = self;
        out.put_u8(u8::from(is_enabled));
        for number in [used, free, wasted, scripts, hits, misses, restarts] {
            out.put_u64(number);
        }
    }

    fn take(take: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(OpcacheUsage {
            is_enabled: take.u8()? != 0,
            used: take.u64()?,
            free: take.u64()?,
            wasted: take.u64()?,
            scripts: take.u64()?,
            hits: take.u64()?,
            misses: take.u64()?,
            restarts: take.u64()?,
        })
    }
}

impl RequestUsage {
    /// Appends the encoding.
    pub fn put(self, out: &mut Vec<u8>) {
        out.put_u64(self.peak_memory);
        out.put_u64(self.cpu_us);
        out.put_u8(self.retirement.map_or(0, |reason| reason as u8));
        if let Some(opcache) = self.opcache {
            opcache.put(out);
        }
    }

    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut take = Decoder(payload);
        let done = RequestUsage {
            peak_memory: take.u64()?,
            cpu_us: take.u64()?,
            retirement: match take.u8()? {
                0 => None,
                byte => Some(Retirement::from_byte(byte).ok_or(Malformed)?),
            },
            opcache: match take.0 {
                [] => None,
                _ => Some(OpcacheUsage::take(&mut take)?),
            },
        };
        take.end()?;
        Ok(done)
    }
}

/// A record for the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Log<'a> {
    /// Syslog severity, 0 (emergency) to 7 (debug).
    pub severity: u8,
    /// Message; may have several lines.
    pub message: &'a [u8],
    /// The message continues in the next frame of this type.
    pub more: bool,
}

impl<'a> Log<'a> {
    /// Appends the encoding.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(self.severity);
        out.put_u8(u8::from(self.more));
        out.extend_from_slice(self.message);
    }

    /// Decodes a payload.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Decoder(payload);
        let severity = take.u8()?.min(7);
        let more = take.u8()? != 0;
        Ok(Log { severity, more, message: take.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_of_frame_has_its_number() {
        for byte in 0..=u8::MAX {
            let expected = (1..=12).contains(&byte).then_some(byte);
            assert_eq!(Kind::from_byte(byte).map(|kind| kind as u8), expected);
        }
    }

    #[test]
    fn a_purge_is_read_back_and_has_no_more_tags_than_it_may() {
        let tags = "a\n".repeat(Purge::MAX_TAGS);
        let purge = Purge { is_all: false, is_soft: true, tags: tags.as_bytes() };
        let mut out = Vec::new();
        purge.put(&mut out);
        assert_eq!(Purge::decode(&out), Ok(purge));
        out.extend_from_slice(b"a");
        assert_eq!(Purge::decode(&out), Err(Malformed));
        assert_eq!(Purge::decode(b""), Err(Malformed));
        assert_eq!(Purge::decode(&[4]), Err(Malformed));
    }

    #[test]
    fn a_head_is_read_back_with_its_fields() {
        let mut out = Vec::new();
        Head::put(&mut out, 404, b"Not Found");
        let plain = out.len();
        Head::put_field(&mut out, b"A: 1");
        Head::put_field(&mut out, b"");
        let head = Head::decode(&out).unwrap();
        assert_eq!((head.status, head.reason), (404, &b"Not Found"[..]));
        assert_eq!(head.fields().collect::<Vec<_>>(), [&b"A: 1"[..], b""]);
        assert_eq!(Head::decode(&out[..plain]).unwrap().fields().count(), 0);
        for cut in (0..out.len()).filter(|cut| ![plain, plain + 8].contains(cut)) {
            assert_eq!(Head::decode(&out[..cut]), Err(Malformed), "{cut}");
        }
    }

    #[test]
    fn a_variable_for_the_server_is_no_field() {
        let variable = |line: &'static str| Head::variable(line.as_bytes());
        assert_eq!(variable("\x01env:no-gzip=1"), Some((&b"no-gzip"[..], &b"1"[..])));
        assert_eq!(variable("\x01env:A=b=c: d"), Some((&b"A"[..], &b"b=c: d"[..])));
        assert_eq!(variable("\x01env:="), Some((&b""[..], &b""[..])));
        for line in ["\x01env:A", "\x01env", "env:A=1", "X: \x01env:A=1", ""] {
            assert_eq!(variable(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_figures_of_a_request_are_read_back() {
        let reasons = Retirement::ALL.into_iter().map(Some);
        for retirement in reasons.chain([None]) {
            let opcache =
                OpcacheUsage { is_enabled: true, used: 9, restarts: 3, ..Default::default() };
            for opcache in [None, Some(opcache), Some(OpcacheUsage::default())] {
                let done = RequestUsage { peak_memory: 1 << 40, cpu_us: 7, retirement, opcache };
                let mut out = Vec::new();
                done.put(&mut out);
                assert_eq!(RequestUsage::decode(&out), Ok(done));
                out.push(0);
                assert_eq!(RequestUsage::decode(&out), Err(Malformed));
            }
        }
        let mut unknown = Vec::new();
        RequestUsage::default().put(&mut unknown);
        *unknown.last_mut().unwrap() = 99;
        assert_eq!(RequestUsage::decode(&unknown), Err(Malformed));
    }

    #[test]
    fn a_log_record_is_read_back_with_a_severity_that_exists() {
        for more in [false, true] {
            let (log, mut out) = (Log { severity: 5, message: b"text", more }, Vec::new());
            log.put(&mut out);
            assert_eq!(Log::decode(&out), Ok(log));
        }
        let loud = Log::decode(&[200, 0]).unwrap();
        assert_eq!((loud.severity, loud.message), (7, &b""[..]));
        assert_eq!(Log::decode(&[1]), Err(Malformed));
    }
}
