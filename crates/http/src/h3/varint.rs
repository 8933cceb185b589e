//! Variable-length integers (RFC 9000, 16).

/// Largest value.
pub const MAX: u64 = (1 << 62) - 1;

/// Appends a value in its shortest form. A value above [`MAX`] is written as that.
pub fn put(value: u64, out: &mut Vec<u8>) {
    let value = value.min(MAX);
    let bytes = value.to_be_bytes();
    let (length, mark) = match value {
        0..=0x3f => (1, 0x00),
        0x40..=0x3fff => (2, 0x40),
        0x4000..=0x3fff_ffff => (4, 0x80),
        _ => (8, 0xc0),
    };
    let start = out.len();
    out.extend_from_slice(&bytes[8 - length..]);
    out[start] |= mark;
}

/// A value that arrives byte by byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Varint {
    value: u64,
    /// Bytes that are missing; 0 before the first one.
    missing: u8,
}

impl Varint {
    /// Adds the next byte. Returns the value with its last byte, and begins the next one.
    pub fn push(&mut self, byte: u8) -> Option<u64> {
        if self.missing == 0 {
            *self = Varint { value: u64::from(byte & 0x3f), missing: (1 << (byte >> 6)) - 1 };
        } else {
            self.value = self.value << 8 | u64::from(byte);
            self.missing -= 1;
        }
        (self.missing == 0).then_some(self.value)
    }

    /// Returns true within a value.
    pub fn is_open(&self) -> bool {
        self.missing > 0
    }
}

/// Reads a value at the start of `bytes`; returns it and the rest.
pub fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut varint = Varint::default();
    let mut rest = bytes;
    loop {
        let (byte, next) = rest.split_first()?;
        rest = next;
        if let Some(value) = varint.push(*byte) {
            return Some((value, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 9000, A.1.
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(read(bytes), Some((value, &[][..])));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
        let mut out = Vec::new();
        [0, MAX, u64::MAX].iter().for_each(|value| put(*value, &mut out));
        assert_eq!(out, [&[0][..], &[0xff; 16]].concat());
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_it_was_written(value in 0..=MAX, shift in 0..62, rest in any::<u8>()) {
            let (value, mut out) = (value >> shift, Vec::new());
            put(value, &mut out);
            let length = out.len();
            out.push(rest);
            prop_assert_eq!(read(&out), Some((value, &[rest][..])));
            prop_assert_eq!(read(&out[..length - 1]), None);
            prop_assert!([1, 2, 4, 8].contains(&length));
        }
    }
}
