//! `compression` in `settings.http`: responses that are compressed while they are sent.

use howdah_template::{Patterns, Subject};

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, quoted};
use crate::patterns;

/// `compression` of the settings.
pub(crate) static COMPRESSION: Shape = Shape {
    name: "compression",
    parts: &[&[
        Key::new("types", Kind::Texts, "Patterns of the media types that are compressed")
            .default("everything")
            .details(
                "Without their parameters. The default excludes formats that are already \
                 compressed (images other than SVG, audio, video, archives, WOFF)",
            )
            .unit(),
        Key::new(
            "compressors",
            Kind::OneOrMany(&Kind::Object(&COMPRESSOR)),
            "The encodings, the preferred first",
        )
        .default("required, unless `enabled` is `false`")
        .unit(),
        Key::switch("enabled", true, "Compresses responses"),
    ]],
};

/// An encoding of `compressors`.
static COMPRESSOR: Shape = Shape {
    name: "compressor",
    parts: &[&[
        Key::new("encoding", Kind::Word(&ENCODINGS), "The encoding").required().unit(),
        Key::new(
            "level",
            Kind::Integer(-7, 22),
            "The level: gzip and deflate -1 to 9, br 0 to 11, zstd -7 to 22",
        )
        .default("6 for gzip and deflate, 5 for br, 3 for zstd")
        .unit(),
        Key::new("min_length", Kind::Bytes(0), "Minimum length of compressed responses in bytes")
            .default("0")
            .unit(),
    ]],
};

/// Names of encodings in `Content-Encoding`.
pub const ENCODINGS: [&str; 4] = ["gzip", "br", "zstd", "deflate"];

/// Settings of response compression.
#[derive(Debug, Clone)]
pub struct Compression {
    /// True if responses are compressed at all.
    pub enabled: bool,
    /// Media types that are compressed; if `None`, all but those of compressed formats.
    pub types: Option<Patterns>,
    /// The encodings offered, the preferred first.
    pub compressors: Vec<Compressor>,
}

/// An encoding that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressor {
    /// The encoding, one of [`ENCODINGS`].
    pub encoding: &'static str,
    /// The compression level; the encoding's default if `None`.
    pub level: Option<i32>,
    /// Minimum length in bytes. Responses that are known to be shorter are not compressed.
    pub min_length: u64,
}

impl Compression {
    pub(crate) fn read(node: &Node<'_>) -> Result<Compression, Error> {
        let object = node.object(&COMPRESSION)?;
        let enabled = object.switch("enabled")?;
        let types = object.read("types", |types| patterns::read(types, Subject::MimeType))?;
        let compressors = match object.optional("compressors") {
            None if enabled => return Err(object.missing(&["compressors"])),
            None => Vec::new(),
            Some(compressors) => Compressor::read_all(&compressors)?,
        };
        object.end()?;
        Ok(Compression { enabled, types, compressors })
    }
}

impl Compressor {
    fn read_all(compressors: &Node<'_>) -> Result<Vec<Compressor>, Error> {
        if !compressors.value.is_object() && !compressors.value.is_array() {
            return Err(compressors.wrong_type("an object or an array of objects"));
        }
        compressors.one_or_many().map(|compressor| Compressor::read(&compressor)).collect()
    }

    fn read(node: &Node<'_>) -> Result<Compressor, Error> {
        let object = node.object(&COMPRESSOR)?;
        let encoding = read_encoding(&object.required("encoding")?)?;
        // As in Unit; -1 is zlib's default.
        let levels = match encoding {
            "br" => 0..=11,
            "zstd" => -7..=22,
            _ => -1..=9,
        };
        let level = object.read("level", |level| level.integer(levels))?;
        let min_length = object.bytes("min_length")?;
        object.end()?;
        Ok(Compressor {
            encoding,
            level: level.and_then(|level| i32::try_from(level).ok()),
            min_length: min_length.unwrap_or(0),
        })
    }
}

fn read_encoding(node: &Node<'_>) -> Result<&'static str, Error> {
    let text = node.string()?;
    let known = ENCODINGS.into_iter().find(|known| *known == text);
    known.ok_or_else(|| node.wrong_type(&quoted(&ENCODINGS)))
}
