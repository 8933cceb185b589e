//! Integers with a prefix (RFC 7541, 5.1; RFC 9204, 4.1.1).

use crate::h3::varint::MAX;

/// An integer that continues after its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer {
    value: u64,
    shift: u32,
}

/// Result of a further byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The value is complete.
    Value(u64),
    /// More bytes follow.
    Open(Integer),
    /// The value has more than 62 bits.
    TooLarge,
}

impl Integer {
    /// Reads the first byte, whose lowest `bits` bits are the prefix.
    pub fn begin(byte: u8, bits: u32) -> Progress {
        let max = (1u64 << bits) - 1;
        match u64::from(byte) & max {
            value if value == max => Progress::Open(Integer { value, shift: 0 }),
            value => Progress::Value(value),
        }
    }

    /// Reads the next byte.
    pub fn push(self, byte: u8) -> Progress {
        let part = u64::from(byte & 0x7f);
        // Further bytes could only be zeros.
        if self.shift > 56 || part << self.shift >> self.shift != part {
            return Progress::TooLarge;
        }
        match self.value.checked_add(part << self.shift).filter(|value| *value <= MAX) {
            None => Progress::TooLarge,
            Some(value) if byte & 0x80 == 0 => Progress::Value(value),
            Some(value) => Progress::Open(Integer { value, shift: self.shift + 7 }),
        }
    }
}

/// Appends an integer. `mark` is the first byte without the prefix of `bits` bits.
pub fn put(mark: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let max = (1usize << bits) - 1;
    if value < max {
        return out.push(mark | value as u8);
    }
    out.push(mark | max as u8);
    let mut rest = value - max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], bits: u32) -> Progress {
        let mut progress = Integer::begin(bytes[0], bits);
        for byte in &bytes[1..] {
            match progress {
                Progress::Open(integer) => progress = integer.push(*byte),
                _ => panic!("bytes behind {progress:?}"),
            }
        }
        progress
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7541, C.1.
        assert_eq!(read(&[0b0000_1010], 5), Progress::Value(10));
        assert_eq!(read(&[0b0001_1111, 0b1001_1010, 0b0000_1010], 5), Progress::Value(1337));
        assert_eq!(read(&[0b0010_1010], 8), Progress::Value(42));
    }

    #[test]
    fn values_of_62_bits_are_read_and_longer_ones_refused() {
        let largest = [&[0x7f, 0x80][..], &[0xff; 7], &[0x3f]].concat();
        assert_eq!(read(&largest, 7), Progress::Value(MAX));
        let above = [&[0x7f, 0x81][..], &[0xff; 7], &[0x3f]].concat();
        assert_eq!(read(&above, 7), Progress::TooLarge);
        assert!(matches!(read(&[&[0x7f][..], &[0x80; 9]].concat(), 7), Progress::Open(_)));
        assert_eq!(read(&[&[0x7f][..], &[0x80; 10]].concat(), 7), Progress::TooLarge);
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_it_was_written(value in any::<u32>(), shift in 0..32, bits in 3u32..=8) {
            let (value, mut out) = ((value >> shift) as usize, Vec::new());
            put(0, bits, value, &mut out);
            prop_assert_eq!(read(&out, bits), Progress::Value(value as u64));
        }
    }
}
