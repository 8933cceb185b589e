//! Loads an opened file: its stored codings, their response fields, and bodies that are small
//! enough to keep in memory.
//!
//! Files are loaded on a cache miss and when a cached resource must be revalidated; unchanged parts
//! are reused. A body is kept only if the state of the file is the same before and after reading it
//! and old enough for any later change to show
//! ([`Meta::is_settled`](super::resolve::Meta::is_settled)), so that the cache never holds a torn
//! file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{BufMut, Bytes, BytesMut};
use howdah_http::body::in_kernel::OwnCopy;
use howdah_http::encoding::{AcceptEncoding, Coding};
use howdah_http::message::{FieldBlock, FileFacts};
use howdah_text::date;

use super::conditional::Validators;
use super::etag::etag;
use super::resolve::{Access, Kind, Meta, Opened, Opener, wall_seconds};
use super::share::{FileLocation, Share};

/// A file and its precompressed siblings.
#[derive(Debug)]
pub(super) struct Resource {
    variants: [Option<Rc<Variant>>; Coding::COUNT],
    has_siblings: bool,
    /// The files have not changed recently, so the resource may be cached.
    pub is_settled: bool,
}

/// A stored coding of a file.
#[derive(Debug)]
pub(super) struct Variant {
    meta: Meta,
    etag: Bytes,
    /// Facts about the file that responses carry besides their fields.
    pub facts: Rc<FileFacts>,
    /// Head of a 200 response.
    pub fields: FieldBlock,
    pub content: Content,
}

/// Content of a variant.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// In memory.
    Memory(Bytes),
    /// The file is open, and read while it is sent.
    File(Arc<File>),
    /// The file is not open yet: no request has chosen this variant.
    Unread,
}

/// Loads one opened file.
pub(super) struct Loader<'a> {
    pub opener: &'a Opener,
    pub share: &'a Share,
    pub place: &'a FileLocation<'a>,
    /// The index name that was found in a directory; otherwise empty.
    pub index: &'a [u8],
    /// Codings that the request accepts; the chosen variant gets content.
    pub accept: AcceptEncoding,
    /// Result of an earlier load.
    pub previous: Option<&'a Resource>,
    /// Files up to this size are read into memory.
    pub max_body: u64,
    pub wall: SystemTime,
}

impl Resource {
    /// Returns the variant to send, if its content is known.
    pub fn choose(&self, accept: impl FnOnce() -> AcceptEncoding) -> Option<&Rc<Variant>> {
        let coding = if self.has_siblings {
            accept().choose(|coding| self.variant(coding).is_some())
        } else {
            Coding::Identity
        };
        self.variant(coding).filter(|variant| !matches!(variant.content, Content::Unread))
    }

    /// Returns the size in bytes for the cache; an open file counts as `open`.
    pub fn weight(&self, open: usize) -> usize {
        self.variants.iter().flatten().fold(0, |weight: usize, variant| {
            let content = match &variant.content {
                Content::Memory(bytes) => bytes.len(),
                Content::File(_) => open,
                Content::Unread => 0,
            };
            weight.saturating_add(variant.fields.as_bytes().len()).saturating_add(content)
        })
    }

    fn variant(&self, coding: Coding) -> Option<&Rc<Variant>> {
        self.variants.get(coding.index())?.as_ref()
    }
}

impl Variant {
    /// Returns the validators for conditional requests.
    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.facts.modified }
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        match &self.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_) | Content::Unread => self.meta.size,
        }
    }
}

impl Loader<'_> {
    /// Loads an opened regular file and its precompressed siblings.
    pub fn load(self, original: Opened) -> Resource {
        let mut opened = [const { None }; Coding::COUNT];
        if self.share.options().precompressed {
            for coding in Coding::SIBLINGS {
                opened[coding.index()] = self.open_sibling(coding, &original.meta);
            }
        }
        opened[Coding::Identity.index()] = Some(original);
        let has_siblings = opened.iter().flatten().count() > 1;
        let chosen = self.accept.choose(|coding| opened[coding.index()].is_some());
        let mut is_settled = true;
        let mut variants = [const { None }; Coding::COUNT];
        for coding in [Coding::Identity].into_iter().chain(Coding::SIBLINGS) {
            let Some(opened) = opened[coding.index()].take() else { continue };
            let meta = opened.meta;
            is_settled &= meta.is_settled(self.wall);
            let content = match self.unchanged_content(coding, &meta) {
                Some(Content::Unread) | None if coding == chosen => {
                    let (content, is_steady) = read_or_keep_open(opened, self.max_body);
                    is_settled &= is_steady;
                    content
                }
                Some(content) => content,
                None => Content::Unread,
            };
            variants[coding.index()] =
                Some(Rc::new(self.build_variant(coding, meta, content, has_siblings)));
        }
        Resource { variants, has_siblings, is_settled }
    }

    /// Opens a sibling if it is a readable regular file and not older than the original.
    fn open_sibling(&self, coding: Coding, original: &Meta) -> Option<Opened> {
        let suffix = [self.index, coding.suffix().as_bytes()];
        let opened = self.opener.open(self.share, self.place, &suffix, Access::Read).ok()?;
        let time = |meta: &Meta| (meta.modified, meta.modified_nanos);
        (opened.kind == Kind::Regular && time(&opened.meta) >= time(original)).then_some(opened)
    }

    /// Returns the content of the previous load if the file is unchanged.
    fn unchanged_content(&self, coding: Coding, meta: &Meta) -> Option<Content> {
        let variant = self.previous?.variant(coding)?;
        (variant.meta == *meta).then(|| variant.content.clone())
    }

    fn build_variant(
        &self,
        coding: Coding,
        meta: Meta,
        content: Content,
        has_siblings: bool,
    ) -> Variant {
        let etag = etag(&meta, coding);
        let modified = last_modified(&meta, self.wall);
        let name = if self.index.is_empty() { self.place.path } else { self.index };
        let media_type = self.share.options().mime.of(name);
        let mut lines = FieldLines(BytesMut::with_capacity(256));
        if !media_type.is_empty() {
            lines.push("Content-Type", &media_type);
        }
        if let Some(modified) = modified {
            lines.push("Last-Modified", date::http(modified).as_bytes());
        }
        lines.push("ETag", &etag);
        lines.push("Accept-Ranges", b"bytes");
        if coding != Coding::Identity {
            lines.push("Content-Encoding", coding.name().as_bytes());
        }
        if has_siblings {
            lines.push("Vary", b"Accept-Encoding");
        }
        let facts = Rc::new(FileFacts { media_type, modified, in_kernel: OwnCopy::default() });
        Variant { meta, etag, facts, fields: FieldBlock::from_lines(lines.0.freeze()), content }
    }
}

/// Reads a file of at most `max_body` bytes; keeps a larger one open. Also returns true if the
/// content is consistent; a file that changed while it was read stays open and is read when it is
/// sent.
fn read_or_keep_open(opened: Opened, max_body: u64) -> (Content, bool) {
    let Opened { file, meta, .. } = opened;
    match usize::try_from(meta.size) {
        Ok(0) => (Content::Memory(Bytes::new()), true),
        Ok(size) if meta.size <= max_body => {
            let mut body = vec![0; size];
            let is_whole = file.read_exact_at(&mut body, 0).is_ok();
            let is_steady = file.metadata().is_ok_and(|metadata| Meta::of(&metadata) == meta);
            if is_whole && is_steady {
                (Content::Memory(body.into()), true)
            } else {
                (Content::File(Arc::new(file)), false)
            }
        }
        _ => (Content::File(Arc::new(file)), true),
    }
}

/// Returns the `Last-Modified` time. A time in the future becomes the present (RFC 9110, 8.8.2.1);
/// one before 1970 cannot be formatted and is left out.
fn last_modified(meta: &Meta, wall: SystemTime) -> Option<u64> {
    u64::try_from(meta.modified.min(wall_seconds(wall))).ok()
}

/// Builds field lines. The values are the server's own or were checked with the configuration; a
/// configured media type still must not be able to add a line.
struct FieldLines(BytesMut);

impl FieldLines {
    fn push(&mut self, name: &str, value: &[u8]) {
        self.0.put_slice(name.as_bytes());
        self.0.put_slice(b": ");
        value.iter().filter(|byte| !byte.is_ascii_control()).for_each(|byte| self.0.put_u8(*byte));
        self.0.put_slice(b"\r\n");
    }
}
