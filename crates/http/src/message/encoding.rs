//! Encodings of content.

/// An encoding of content that is encoded while it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `br`: Brotli (RFC 7932).
    Brotli,
    /// `deflate`: zlib (RFC 1950).
    Deflate,
    /// `gzip` (RFC 1952).
    Gzip,
    /// `zstd` (RFC 8878).
    Zstandard,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Encoding; 4] =
        [Encoding::Brotli, Encoding::Deflate, Encoding::Gzip, Encoding::Zstandard];

    /// Returns the name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Deflate => "deflate",
            Encoding::Gzip => "gzip",
            Encoding::Zstandard => "zstd",
        }
    }

    /// Returns the encoding with this name.
    pub fn named(name: &str) -> Option<Encoding> {
        Encoding::ALL.into_iter().find(|encoding| encoding.name() == name)
    }
}
