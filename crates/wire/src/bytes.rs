//! Decoding and encoding of the small binary formats of this crate: little-endian integers, and
//! byte strings after a 32-bit length.

/// The input ended early or a length does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Declares an enum whose variants have numbers on the wire.
macro_rules! numbered {
    (
        $(#[$about:meta])*
        pub enum $Name:ident { $($(#[$meaning:meta])* $Variant:ident = $number:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $Name { $($(#[$meaning])* $Variant = $number,)+ }

        impl $Name {
            /// All variants, in the order of their numbers.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$Variant),+];

            /// Returns the variant with this number on the wire; `None` if it is unknown.
            pub fn from_byte(byte: u8) -> Option<Self> {
                Some(match byte {
                    $($number => Self::$Variant,)+
                    _ => return None,
                })
            }
        }
    };
}
pub(crate) use numbered;

/// Decodes values from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    /// Takes the next `n` bytes.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.raw(N)?.try_into().map_err(|_| Malformed)
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Takes a 16-bit integer.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Takes a 32-bit integer.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Takes a 64-bit integer.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Takes a byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        self.raw(len)
    }

    /// Takes a byte string that must be UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// Returns an error if bytes are left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Encodes values at the end of a vector.
pub trait Encode {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends a 16-bit integer.
    fn put_u16(&mut self, value: u16);
    /// Appends a 32-bit integer.
    fn put_u32(&mut self, value: u32);
    /// Appends a 64-bit integer.
    fn put_u64(&mut self, value: u64);
    /// Appends a byte string with its length.
    fn put_bytes(&mut self, value: &[u8]);
}

impl Encode for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_bytes(&mut self, value: &[u8]) {
        self.put_u32(value.len() as u32);
        self.extend_from_slice(value);
    }
}
