//! One interface to the encoders.

use std::io::{self, Write};

use brotli::CompressorWriter;
use flate2::write::{GzEncoder, ZlibEncoder};
use howdah_config::{Compressor, Encoding};
use zstd::zstd_safe::CParameter;

/// Turns bytes into fewer bytes, as they come.
///
/// Whatever the level, an encoder looks back over [`WINDOW`] bytes at most, so that thousands of
/// slow clients do not hold gigabytes.
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

/// How far Brotli and Zstandard look back, as a power of two: 256 KiB. gzip has 32 KiB.
const WINDOW: u32 = 18;

impl Encoder {
    /// An encoder that has not seen a byte.
    pub fn new(compressor: &Compressor) -> io::Result<Encoder> {
        let Compressor { encoding, level, .. } = *compressor;
        Ok(match encoding {
            Encoding::Brotli => {
                // Denser levels cost several times as much for a few per cent.
                let quality = level.unwrap_or(5).clamp(0, 11).unsigned_abs();
                let writer = CompressorWriter::new(Vec::new(), 4096, quality, WINDOW);
                Encoder::Brotli(Box::new(writer))
            }
            Encoding::Deflate => Encoder::Deflate(ZlibEncoder::new(Vec::new(), deflate(level))),
            Encoding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), deflate(level))),
            Encoding::Zstandard => {
                let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW))?;
                if level > zstd::DEFAULT_COMPRESSION_LEVEL {
                    // Tables that are larger than the window has bytes would not find more.
                    encoder.set_parameter(CParameter::HashLog(WINDOW))?;
                    encoder.set_parameter(CParameter::ChainLog(WINDOW))?;
                }
                Encoder::Zstandard(encoder)
            }
        })
    }

    /// Takes bytes and returns what has come of all so far: maybe nothing.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.writer().write_all(bytes)?;
        Ok(self.take())
    }

    /// Returns everything that a client needs to read what was written.
    pub fn flush(&mut self) -> io::Result<Vec<u8>> {
        self.writer().flush()?;
        Ok(self.take())
    }

    /// Returns the last bytes.
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

/// A level of gzip; -1 and none are its own choice.
fn deflate(level: Option<i32>) -> flate2::Compression {
    match level.map(u32::try_from) {
        Some(Ok(level)) => flate2::Compression::new(level.min(9)),
        _ => flate2::Compression::default(),
    }
}
