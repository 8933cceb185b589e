//! Common interface of the encoders.

use std::io::{self, Write};

use brotli::CompressorWriter;
use flate2::write::{GzEncoder, ZlibEncoder};
use zstd::zstd_safe::CParameter;

use super::Compressor;
use crate::message::Encoding;

/// Encoder of one response.
///
/// The window is at most 2^[`WINDOW_BITS`] bytes at any level, so that thousands of slow clients do
/// not hold gigabytes.
pub enum Encoder {
    /// `br`
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    /// `deflate`
    Deflate(ZlibEncoder<Vec<u8>>),
    /// `gzip`
    Gzip(GzEncoder<Vec<u8>>),
    /// `zstd`
    Zstandard(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

/// Window of Brotli and Zstandard, as a power of two: 256 KiB. That of gzip is 32 KiB.
const WINDOW_BITS: u32 = 18;

impl Encoder {
    /// Creates an encoder.
    pub fn new(compressor: &Compressor) -> io::Result<Encoder> {
        let Compressor { encoding, level, .. } = *compressor;
        Ok(match encoding {
            Encoding::Brotli => {
                // Higher levels cost several times as much for a few per cent.
                let quality = level.unwrap_or(5).clamp(0, 11).unsigned_abs();
                let writer = CompressorWriter::new(Vec::new(), 4096, quality, WINDOW_BITS);
                Encoder::Brotli(Box::new(writer))
            }
            Encoding::Deflate => Encoder::Deflate(ZlibEncoder::new(Vec::new(), deflate(level))),
            Encoding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), deflate(level))),
            Encoding::Zstandard => {
                let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW_BITS))?;
                if level > zstd::DEFAULT_COMPRESSION_LEVEL {
                    // Tables with more entries than the window has bytes would not find more.
                    encoder.set_parameter(CParameter::HashLog(WINDOW_BITS))?;
                    encoder.set_parameter(CParameter::ChainLog(WINDOW_BITS))?;
                }
                Encoder::Zstandard(encoder)
            }
        })
    }

    /// Encodes bytes. Returns the output so far, which may be empty.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.writer().write_all(bytes)?;
        Ok(self.take())
    }

    /// Returns the output that a client needs to decode all bytes written.
    pub fn flush(&mut self) -> io::Result<Vec<u8>> {
        self.writer().flush()?;
        Ok(self.take())
    }

    /// Returns the end of the output.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Brotli(encoder) => Ok(encoder.into_inner()),
            Encoder::Deflate(encoder) => encoder.finish(),
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Zstandard(encoder) => encoder.finish(),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Encoder::Brotli(encoder) => encoder,
            Encoder::Deflate(encoder) => encoder,
            Encoder::Gzip(encoder) => encoder,
            Encoder::Zstandard(encoder) => encoder,
        }
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Encoder::Brotli(encoder) => encoder.get_mut(),
            Encoder::Deflate(encoder) => encoder.get_mut(),
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Zstandard(encoder) => encoder.get_mut(),
        })
    }
}

/// Returns a level of gzip; the default for -1 and `None`.
fn deflate(level: Option<i32>) -> flate2::Compression {
    match level.map(u32::try_from) {
        Some(Ok(level)) => flate2::Compression::new(level.min(9)),
        _ => flate2::Compression::default(),
    }
}
