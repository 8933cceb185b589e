//! The traditional hash of crypt(3): two characters of salt, and eleven of DES (FIPS 46-3) applied
//! 25 times.
//!
//! The permutations are carried out bit by bit, from the tables of the standard. A hash takes less
//! than a millisecond, and the time does not depend on the password.

/// Length of a hash in characters.
const HASH_LENGTH: usize = 13;

/// Characters of a salt and of a hash; the place of each is its value.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns true if a text has the form of a hash.
pub(super) fn is_hash(text: &[u8]) -> bool {
    text.len() == HASH_LENGTH && text.iter().all(|byte| value(*byte).is_some())
}

/// Computes the hash of a password, of which the first eight bytes count; `None` if the salt, the
/// first two bytes of `salt`, has other characters than [`DIGITS`].
pub(super) fn hash(password: &[u8], salt: &[u8]) -> Option<Vec<u8>> {
    let &[first, second, ..] = salt else { return None };
    let salt_bits = value(first)? | value(second)? << 6;
    let key = (0..8).fold(0, |key, at| {
        let byte = password.get(at).copied().unwrap_or_default();
        key << 8 | u64::from(byte & 0x7f) << 1
    });
    let keys = round_keys(key);
    let block = (0..25).fold(0, |block, _| encrypted(block, &keys, salt_bits));
    let mut text = vec![first, second];
    // 64 bits and two zeros, six for each character, the highest first.
    let bits = u128::from(block) << 2;
    text.extend((0..11).rev().map(|at| DIGITS[(bits >> (6 * at) & 63) as usize]));
    Some(text)
}

fn value(byte: u8) -> Option<u32> {
    DIGITS.iter().zip(0..).find_map(|(digit, value)| (*digit == byte).then_some(value))
}

/// Moves bits: the table has, for each bit of the result, its place in `bits`, which has `width` of
/// them. Bits are counted from 1, the highest first.
fn permuted(bits: u64, width: u32, table: &[u8]) -> u64 {
    table.iter().fold(0, |result, place| result << 1 | bits >> (width - u32::from(*place)) & 1)
}

fn round_keys(key: u64) -> [u64; 16] {
    const HALF: u64 = (1 << 28) - 1;
    let chosen = permuted(key, 64, &KEY_CHOICE);
    let (mut left, mut right) = (chosen >> 28, chosen & HALF);
    KEY_SHIFTS.map(|shift| {
        left = (left << shift | left >> (28 - shift)) & HALF;
        right = (right << shift | right >> (28 - shift)) & HALF;
        permuted(left << 28 | right, 56, &ROUND_KEY_CHOICE)
    })
}

/// Encrypts a block. Each bit of the salt exchanges two bits of the expanded half of a block: the
/// first bit those at 1 and 25, and so on.
fn encrypted(block: u64, keys: &[u64; 16], salt: u32) -> u64 {
    let salt = u64::from(salt.reverse_bits() >> 8);
    let mixed = permuted(block, 64, &INITIAL);
    let (mut left, mut right) = (mixed >> 32, mixed & 0xffff_ffff);
    for key in keys {
        let expanded = permuted(right, 32, &EXPANSION);
        let exchanged = (expanded >> 24 ^ expanded) & salt;
        let keyed = expanded ^ exchanged ^ exchanged << 24 ^ key;
        let substituted = (0..8).fold(0, |result, at| {
            let six = keyed >> (42 - 6 * at) & 63;
            let row = (six >> 4 & 2) | (six & 1);
            result << 4 | u64::from(SUBSTITUTIONS[at][(row * 16 + (six >> 1 & 15)) as usize])
        });
        (left, right) = (right, left ^ permuted(substituted, 32, &ROUND));
    }
    permuted(right << 32 | left, 64, &FINAL)
}

#[rustfmt::skip]
const INITIAL: [u8; 64] = [
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4,
    62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32, 24, 16, 8,
    57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3,
    61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
];

#[rustfmt::skip]
const FINAL: [u8; 64] = [
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31,
    38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45, 13, 53, 21, 61, 29,
    36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27,
    34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9, 49, 17, 57, 25,
];

#[rustfmt::skip]
const EXPANSION: [u8; 48] = [
    32, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9, 8, 9, 10, 11, 12, 13, 12, 13, 14, 15, 16, 17,
    16, 17, 18, 19, 20, 21, 20, 21, 22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 28, 29, 30, 31, 32, 1,
];

#[rustfmt::skip]
const ROUND: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
    2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
];

#[rustfmt::skip]
const KEY_CHOICE: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18,
    10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22,
    14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];

#[rustfmt::skip]
const ROUND_KEY_CHOICE: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];

const KEY_SHIFTS: [u32; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];

#[rustfmt::skip]
const SUBSTITUTIONS: [[u8; 64]; 8] = [
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7,
        0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8,
        4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0,
        15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13,
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10,
        3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5,
        0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15,
        13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9,
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8,
        13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1,
        13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7,
        1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12,
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15,
        13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9,
        10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4,
        3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14,
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9,
        14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6,
        4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14,
        11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3,
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11,
        10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8,
        9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6,
        4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13,
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1,
        13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6,
        1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2,
        6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12,
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7,
        1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2,
        7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8,
        2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11,
    ],
];

#[cfg(test)]
mod tests {
    use super::{hash, is_hash};

    #[test]
    fn hashes_are_those_of_libcrypt() {
        for (password, text) in [
            (&b"secret"[..], "abNANd1rDfiNc"),
            (b"secret", "80s4hNUAo5M3A"),
            (b"ssssssss", "abNb.sZE7/cOM"),
            (b"ssssssss and more", "abNb.sZE7/cOM"),
            ("\u{e9}\u{ff}".as_bytes(), "ab7iIEbMlY0NY"),
            (b"", "abmF1QH4PEr.E"),
            (b"p", "./Vt8pVhaLKv."),
            (b"password", "zzXUHfURnGg8I"),
        ] {
            assert!(is_hash(text.as_bytes()), "{text}");
            let computed = hash(password, text.as_bytes()).expect(text);
            assert_eq!(String::from_utf8_lossy(&computed), text);
        }
    }

    #[test]
    fn texts_of_other_forms_are_no_hashes() {
        for text in
            ["", "a", "ab", "abNANd1rDfiN", "abNANd1rDfiNcc", "$bNANd1rDfiNc", "abNANd1rDfi:c"]
        {
            assert!(!is_hash(text.as_bytes()), "{text}");
        }
        assert_eq!(hash(b"secret", b"a"), None);
        assert_eq!(hash(b"secret", b"a:"), None);
    }
}
