//! The Huffman code of HPACK and QPACK (RFC 7541, 5.2 and Appendix B), decoded byte by byte.

/// Length in bits of the code of each byte. The code is canonical: shorter codes come before longer
/// ones, and codes of equal length have the order of their bytes.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Length of the longest code in bits.
const MAX_CODE_BITS: usize = 30;

/// Codes of up to this many bits are found with one table look-up; nearly all text has only short
/// codes.
const SHORT: u32 = 8;

/// Decoding tables. `first`, `count` and `start` are indexed by the length of a code: the first
/// code, the number of codes, and the position of their bytes in `bytes`.
struct Codes {
    first: [u32; MAX_CODE_BITS + 1],
    count: [u32; MAX_CODE_BITS + 1],
    start: [u32; MAX_CODE_BITS + 1],
    /// All bytes in the order of their codes.
    bytes: [u8; 256],
    /// Indexed by the next eight bits: the byte whose code they start with, and the length of that
    /// code; zero if the code is longer.
    short: [(u8, u8); 256],
    /// Code of each byte.
    of: [u32; 256],
}

static CODES: Codes = {
    let mut codes = Codes {
        first: [0; MAX_CODE_BITS + 1],
        count: [0; MAX_CODE_BITS + 1],
        start: [0; MAX_CODE_BITS + 1],
        bytes: [0; 256],
        short: [(0, 0); 256],
        of: [0; 256],
    };
    let (mut code, mut placed, mut length) = (0u32, 0usize, 1usize);
    while length <= MAX_CODE_BITS {
        code <<= 1;
        codes.first[length] = code;
        codes.start[length] = placed as u32;
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as usize == length {
                codes.bytes[placed] = byte as u8;
                codes.of[byte] = code;
                placed += 1;
                if length <= SHORT as usize {
                    let free = SHORT as usize - length;
                    let mut rest = 0;
                    while rest < 1 << free {
                        let bits = ((code as usize) << free) | rest;
                        codes.short[bits] = (byte as u8, length as u8);
                        rest += 1;
                    }
                }
                code += 1;
                codes.count[length] += 1;
            }
            byte += 1;
        }
        length += 1;
    }
    codes
};

/// Returns the length of the encoded text in bytes.
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded text, padded with ones.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u64, 0u32);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(CODES.of[usize::from(*byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        let missing = 8 - count;
        out.push((bits << missing) as u8 | ((1u16 << missing) - 1) as u8);
    }
}

/// Decoder of one string. Invalid codes are skipped, and reported at the end.
#[derive(Debug, Default)]
pub struct Huffman {
    /// Bits that are not decoded yet, the oldest in the highest place.
    bits: u64,
    count: u32,
    is_invalid: bool,
}

impl Huffman {
    /// Decodes the next byte of the string; `take` gets each decoded byte.
    pub fn decode(&mut self, byte: u8, mut take: impl FnMut(u8)) {
        self.bits = self.bits << 8 | u64::from(byte);
        self.count += 8;
        while self.count >= SHORT {
            let (byte, length) =
                CODES.short[usize::from((self.bits >> (self.count - SHORT)) as u8)];
            if length == 0 {
                // The code ends within this byte, so no other code can follow.
                return self.long(take);
            }
            take(byte);
            self.count -= u32::from(length);
        }
    }

    /// Ends the string: decodes a last short code before the padding. Returns false if the string
    /// is invalid: it has the code of its end, or a padding that is not of up to seven ones.
    pub fn end(&mut self, mut take: impl FnMut(u8)) -> bool {
        // At most one: the shortest code has five bits.
        if (1..SHORT).contains(&self.count) {
            let missing = SHORT - self.count;
            // Padding is ones; no short code consists of them alone.
            let padded = (self.bits << missing) as u8 | ((1u16 << missing) - 1) as u8;
            let (byte, length) = CODES.short[usize::from(padded)];
            if (1..=self.count).contains(&u32::from(length)) {
                take(byte);
                self.count -= u32::from(length);
            }
        }
        let ones = (1u64 << self.count.min(SHORT)) - 1;
        let is_padded = self.count < SHORT && self.bits & ones == ones;
        let is_valid = is_padded && !self.is_invalid;
        *self = Huffman::default();
        is_valid
    }

    /// Decodes a code longer than [`SHORT`], unless it is incomplete.
    fn long(&mut self, mut take: impl FnMut(u8)) {
        for length in SHORT as usize + 1..=MAX_CODE_BITS.min(self.count as usize) {
            let code = (self.bits >> (self.count - length as u32)) as u32 & ((1 << length) - 1);
            let offset = code.wrapping_sub(CODES.first[length]);
            if offset < CODES.count[length] {
                let at = CODES.start[length] + offset;
                take(CODES.bytes.get(at as usize).copied().unwrap_or_default());
                self.count -= length as u32;
                return;
            }
        }
        if self.count >= MAX_CODE_BITS as u32 {
            // The code of the end of a string, which must not be sent.
            (self.count, self.is_invalid) = (0, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut huffman, mut text) = (Huffman::default(), Vec::new());
        bytes.iter().for_each(|byte| huffman.decode(*byte, |byte| text.push(byte)));
        huffman.end(|byte| text.push(byte)).then_some(text)
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(text, &mut bytes);
        assert_eq!(bytes.len(), encoded_len(text));
        bytes
    }

    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        // RFC 7541, C.4 and C.6.
        for (hex, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95ba97d7f", "custom-key"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
        ] {
            let bytes: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(decoded(&bytes).as_deref(), Some(text.as_bytes()));
            assert_eq!(encoded(text.as_bytes()), bytes);
        }
    }

    #[test]
    fn every_byte_has_a_code_wherever_it_stands() {
        for byte in 0..=255 {
            for before in ["", "0", "01", "a#", "~~~"] {
                let text = [before.as_bytes(), &[byte, byte], before.as_bytes()].concat();
                assert_eq!(decoded(&encoded(&text)), Some(text));
            }
        }
    }

    #[test]
    fn the_code_of_the_end_and_a_padding_that_is_long_or_not_ones_are_invalid() {
        assert_eq!(decoded(&[0xff; 9]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None, "the end, and two bits");
        // `0` has the code 00000, `&` one of eight bits.
        assert_eq!(decoded(&[0b0000_0111]).as_deref(), Some(&b"0"[..]));
        assert_eq!(decoded(&[0b0000_0110]), None);
        assert_eq!(decoded(&[0b0000_0000]), None);
        assert_eq!(decoded(&[0b1111_1000]).as_deref(), Some(&b"&"[..]));
        assert_eq!(decoded(&[0b1111_1000, 0xff]), None, "a byte of padding");
        assert_eq!(decoded(&[0xff]), None);
        assert_eq!(decoded(&[]).as_deref(), Some(&b""[..]));
    }
}
