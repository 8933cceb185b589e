//! Reads files for directives.

use std::io::{self, Read};

use md5::{Digest, Md5};

/// The part of a file to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// All of it, of at most so many bytes.
    All(usize),
    /// At most so many bytes at its start.
    Start(usize),
    /// The MD5 sum of at most so many bytes (`ContentDigest`).
    Digest(usize),
}

impl Reading {
    /// Returns the largest number of bytes that are read.
    pub fn limit(self) -> usize {
        match self {
            Reading::All(limit) | Reading::Start(limit) | Reading::Digest(limit) => limit,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// `FileTooLarge` if it has more bytes than are permitted.
    pub fn of(self, file: impl Read) -> io::Result<Vec<u8>> {
        let more = u64::from(!matches!(self, Reading::Start(_)));
        let mut file = file.take(self.limit() as u64 + more);
        if !matches!(self, Reading::Digest(_)) {
            let mut content = Vec::new();
            return if file.read_to_end(&mut content)? > self.limit() {
                Err(io::ErrorKind::FileTooLarge.into())
            } else {
                Ok(content)
            };
        }
        let (mut sum, mut bytes, mut part) = (Md5::new(), 0, vec![0; 64 << 10]);
        loop {
            let count = file.read(&mut part)?;
            if count == 0 {
                return Ok(sum.finalize().to_vec());
            }
            bytes += count;
            if bytes > self.limit() {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            sum.update(&part[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let read = |reading: Reading| reading.of(b"hello".as_slice()).map_err(|error| error.kind());
        assert_eq!(read(Reading::All(5)), Ok(b"hello".to_vec()));
        assert_eq!(read(Reading::All(4)), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(read(Reading::Start(4)), Ok(b"hell".to_vec()));
        assert_eq!(read(Reading::Start(9)), Ok(b"hello".to_vec()));
        assert_eq!(read(Reading::Digest(4)), Err(io::ErrorKind::FileTooLarge));
        let sum = read(Reading::Digest(5)).unwrap();
        assert_eq!(sum[..4], [0x5d, 0x41, 0x40, 0x2a]);
    }
}
