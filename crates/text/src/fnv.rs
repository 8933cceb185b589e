//! FNV-1a: a checksum of 64 bits that is the same on every machine and in every version. It is not
//! for input of attackers, who find texts of one checksum at once.

/// Returns the checksum of bytes.
pub fn fnv<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_authors() {
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv(text.as_bytes()), expected, "{text}");
        }
    }
}
