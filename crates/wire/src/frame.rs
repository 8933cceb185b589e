//! Frames of a worker's response.
//!
//! Order: any number of [`Kind::Informational`], then one [`Kind::Head`], any number of
//! [`Kind::Body`], one [`Kind::End`] (the response is complete), and finally one [`Kind::Done`]
//! (the worker is free). [`Kind::Log`] may occur at any time, [`Kind::Descriptors`] only first,
//! [`Kind::Output`] after the end of the script.

use crate::bytes::{Decoder, Encode, Malformed};

/// Type of a frame, with its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Status, reason phrase and header fields: [`Head`].
    Head = 1,
    /// Part of the body.
    Body = 2,
    /// The response is complete; the script may continue (`fastcgi_finish_request`). No payload.
    End = 3,
    /// The request has ended and the slot belongs to the router again: [`RequestUsage`].
    Done = 4,
    /// A record for the log: [`Log`].
    Log = 5,
    /// An interim response (`headers_send(103)`): [`Head`].
    Informational = 6,
    /// The worker waits on its socket for the descriptors that the request announced. No payload.
    Descriptors = 7,
    /// The worker waits on its socket for the status of its application. No payload.
    Status = 8,
    /// The worker waits on its socket until the router has read the pipe of its standard output and
    /// error, which belongs to this request. No payload.
    Output = 9,
}

impl Kind {
    /// Returns the type with this number on the wire; `None` if it is unknown.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Kind::Head,
            2 => Kind::Body,
            3 => Kind::End,
            4 => Kind::Done,
            5 => Kind::Log,
            6 => Kind::Informational,
            7 => Kind::Descriptors,
            8 => Kind::Status,
            9 => Kind::Output,
            _ => return None,
        })
    }
}

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

    /// Returns the header lines.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut take = Decoder(self.fields);
        std::iter::from_fn(move || take.bytes().ok())
    }
}

/// Memory and processor time of a finished request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestUsage {
    /// `memory_get_peak_usage(true)` in bytes.
    pub peak_memory: u64,
    /// Processor time, user and system, in microseconds.
    pub cpu_us: u64,
    /// The worker ends after this request: it has reached a limit, or cannot continue.
    pub is_worker_exiting: bool,
}

impl RequestUsage {
    /// Appends the encoding.
    pub fn put(self, out: &mut Vec<u8>) {
        out.put_u64(self.peak_memory);
        out.put_u64(self.cpu_us);
        out.put_u8(u8::from(self.is_worker_exiting));
    }

    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut take = Decoder(payload);
        let done = RequestUsage {
            peak_memory: take.u64()?,
            cpu_us: take.u64()?,
            is_worker_exiting: take.u8()? != 0,
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
            let expected = (1..=9).contains(&byte).then_some(byte);
            assert_eq!(Kind::from_byte(byte).map(|kind| kind as u8), expected);
        }
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
    fn the_figures_of_a_request_are_read_back() {
        for leaving in [false, true] {
            let (done, mut out) = (
                RequestUsage { peak_memory: 1 << 40, cpu_us: 7, is_worker_exiting: leaving },
                Vec::new(),
            );
            done.put(&mut out);
            assert_eq!(RequestUsage::decode(&out), Ok(done));
            out.push(0);
            assert_eq!(RequestUsage::decode(&out), Err(Malformed));
        }
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
