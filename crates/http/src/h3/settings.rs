//! SETTINGS (RFC 9114, 7.2.4): those of the client are checked, those of the server written.

use super::error::{Code, ConnectionError};
use super::frames::{kind, put_head};
use super::varint;

/// Maximum length of the payload in bytes. The settings that exist need fewer than a hundred.
pub const MAX_LENGTH: usize = 1024;

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
const H3_DATAGRAM: u64 = 0x33;

/// Checks the payload of the client's frame. None of its settings matters to this server, which uses
/// no dynamic table, no pushes and no datagrams.
pub fn check(mut payload: &[u8]) -> Result<(), ConnectionError> {
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let (id, rest) = varint::read(payload).ok_or(CUT)?;
        let (value, rest) = varint::read(rest).ok_or(CUT)?;
        payload = rest;
        let wrong = match id {
            // Settings of HTTP/2, which are reserved.
            0x0 | 0x2..=0x5 => Some("a setting of HTTP/2"),
            ENABLE_CONNECT_PROTOCOL | H3_DATAGRAM if value > 1 => {
                Some("a setting that is neither 0 nor 1")
            }
            id if seen.contains(&id) => Some("a setting twice"),
            _ => None,
        };
        if let Some(reason) = wrong {
            return Err(ConnectionError::new(Code::SettingsError, reason));
        }
        seen.push(id);
    }
    Ok(())
}

const CUT: ConnectionError =
    ConnectionError::new(Code::FrameError, "a setting that is cut off by the end of its frame");

/// Appends the server's frame. `max_section` is the maximum size of a head in bytes.
pub fn put(max_section: usize, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    for (id, value) in [
        (QPACK_MAX_TABLE_CAPACITY, 0),
        (MAX_FIELD_SECTION_SIZE, max_section as u64),
        (QPACK_BLOCKED_STREAMS, 0),
    ] {
        varint::put(id, &mut payload);
        varint::put(value, &mut payload);
    }
    put_head(kind::SETTINGS, payload.len(), out);
    out.extend_from_slice(&payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_once_each_and_those_of_http_2_never() {
        let code = |payload: &[u8]| check(payload).err().map(|error| error.code);
        for good in [
            &[][..],
            &[0x1, 0, 0x6, 0x40, 0xff, 0x7, 16, 0x8, 1, 0x33, 0],
            &[0x21, 7, 0x40, 0x40, 9], // reserved and unknown
        ] {
            assert_eq!(code(good), None, "{good:x?}");
        }
        for wrong in [
            &[0x0, 1][..],
            &[0x2, 0],
            &[0x3, 1],
            &[0x4, 1],
            &[0x5, 1],
            &[0x6, 1, 0x6, 1],
            &[0x21, 1, 0x7, 0, 0x21, 2],
            &[0x8, 2],
            &[0x33, 2],
        ] {
            assert_eq!(code(wrong), Some(Code::SettingsError), "{wrong:x?}");
        }
        for cut in [&[0x6][..], &[0x6, 0x40], &[0x1, 0, 0x40]] {
            assert_eq!(code(cut), Some(Code::FrameError), "{cut:x?}");
        }
    }

    #[test]
    fn those_of_the_server_are_valid() {
        let mut frame = Vec::new();
        put(32 << 10, &mut frame);
        assert_eq!(frame, [4, 9, 1, 0, 6, 0x80, 0, 0x80, 0, 7, 0]);
        assert_eq!(check(&frame[2..]), Ok(()));
    }
}
