//! Reading and writing the small binary encodings of this crate: little-endian integers, and
//! byte strings behind a 32-bit length.

/// The input ended early or a length does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Takes values from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    /// The next `n` bytes.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.raw(N)?.try_into().map_err(|_| Malformed)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// 16 bits.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// 32 bits.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// 64 bits.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        self.raw(len)
    }

    /// A byte string that must be UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends values to a vector.
pub trait Put {
    /// One byte.
    fn put_u8(&mut self, value: u8);
    /// 16 bits.
    fn put_u16(&mut self, value: u16);
    /// 32 bits.
    fn put_u32(&mut self, value: u32);
    /// 64 bits.
    fn put_u64(&mut self, value: u64);
    /// A byte string.
    fn put_bytes(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
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
