//! An opened file as something to send: its stored codings, their heads, and the bodies that are
//! small enough to keep.
//!
//! Loading happens on a miss and when a cached resource is due for another look; parts that have
//! not changed are taken over. A body is kept only if the file's state is the same before and
//! after reading it and old enough for any later change to show
//! ([`Meta::is_settled`](super::resolve::Meta::is_settled)), so a cache never holds a torn file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{BufMut, Bytes, BytesMut};
use howdah_http::encoding::{AcceptEncoding, Coding};
use howdah_http::message::FieldBlock;

use super::conditional::{self, Validators};
use super::resolve::{Access, Kind, Meta, Opened, Opener, wall_seconds};
use super::share::{Place, Share};

/// A file and its precompressed siblings.
#[derive(Debug)]
pub(super) struct Resource {
    variants: [Option<Variant>; Coding::COUNT],
    has_siblings: bool,
    /// Whether it may be kept.
    pub settled: bool,
}

/// One stored coding of a file.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    meta: Meta,
    etag: Bytes,
    modified: Option<u64>,
    /// The head of a 200.
    pub fields: FieldBlock,
    pub content: Content,
}

/// Where a variant's bytes are.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// Read already.
    Memory(Bytes),
    /// To be read while it is sent.
    File(Arc<File>),
    /// Nobody has asked for it yet.
    Unread,
}

/// What a loader is asked for.
pub(super) struct Load<'a> {
    pub opener: &'a Opener,
    pub share: &'a Share,
    pub place: &'a Place<'a>,
    /// The index name that was found in a directory; otherwise empty.
    pub index: &'a [u8],
    /// What the request accepts: that variant will have content.
    pub accept: AcceptEncoding,
    /// What an earlier load found.
    pub previous: Option<&'a Resource>,
    /// Files up to this size are read into memory.
    pub max_body: u64,
    pub wall: SystemTime,
}

impl Resource {
    /// The variant to send, and whether it has content.
    pub fn choose(&self, accept: impl FnOnce() -> AcceptEncoding) -> Option<&Variant> {
        if !self.has_siblings {
            return self.variant(Coding::Identity);
        }
        self.variant(accept().choose(|coding| self.variant(coding).is_some()))
    }

    /// Bytes that it takes; an open file counts as `open`.
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

    fn variant(&self, coding: Coding) -> Option<&Variant> {
        self.variants.get(coding.index())?.as_ref()
    }
}

impl Variant {
    /// What requests compare it by.
    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.modified }
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match &self.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_) | Content::Unread => self.meta.size,
        }
    }

    /// Whether it can be sent.
    pub fn has_content(&self) -> bool {
        !matches!(self.content, Content::Unread)
    }
}

impl Load<'_> {
    /// Makes a resource of an opened regular file.
    pub fn run(self, original: Opened) -> Resource {
        let mut opened = [const { None }; Coding::COUNT];
        if self.share.options().precompressed {
            for coding in Coding::SIBLINGS {
                opened[coding.index()] = self.sibling(coding, &original.meta);
            }
        }
        opened[Coding::Identity.index()] = Some(original);
        let has_siblings = opened.iter().flatten().count() > 1;
        let chosen = self.accept.choose(|coding| opened[coding.index()].is_some());
        let mut settled = true;
        let mut variants = [const { None }; Coding::COUNT];
        for coding in [Coding::Identity].into_iter().chain(Coding::SIBLINGS) {
            let Some(opened) = opened[coding.index()].take() else { continue };
            let meta = opened.meta;
            settled &= meta.is_settled(self.wall);
            let content = match self.kept(coding, &meta) {
                Some(Content::Unread) | None if coding == chosen => {
                    let (content, steady) = read(opened, self.max_body);
                    settled &= steady;
                    content
                }
                Some(content) => content,
                None => Content::Unread,
            };
            variants[coding.index()] = Some(self.variant(coding, meta, content, has_siblings));
        }
        Resource { variants, has_siblings, settled }
    }

    /// A sibling counts if it is a regular file that can be read and is not older than the file.
    fn sibling(&self, coding: Coding, original: &Meta) -> Option<Opened> {
        let suffix = [self.index, coding.suffix().as_bytes()];
        let opened = self.opener.open(self.share, self.place, &suffix, Access::Read).ok()?;
        let time = |meta: &Meta| (meta.modified, meta.modified_nanos);
        (opened.kind == Kind::Regular && time(&opened.meta) >= time(original)).then_some(opened)
    }

    /// The content that an earlier load had, if the file is still in the same state.
    fn kept(&self, coding: Coding, meta: &Meta) -> Option<Content> {
        let variant = self.previous?.variant(coding)?;
        (variant.meta == *meta).then(|| variant.content.clone())
    }

    fn variant(&self, coding: Coding, meta: Meta, content: Content, has_siblings: bool) -> Variant {
        let etag = etag(&meta, coding);
        let modified = last_modified(&meta, self.wall);
        let name = if self.index.is_empty() { self.place.path } else { self.index };
        let media_type = self.share.options().mime.of(name);
        let mut lines = Lines(BytesMut::with_capacity(256));
        if !media_type.is_empty() {
            lines.push("Content-Type", &media_type);
        }
        if let Some(modified) = modified {
            lines.push("Last-Modified", conditional::format_date(modified).as_bytes());
        }
        lines.push("ETag", &etag);
        lines.push("Accept-Ranges", b"bytes");
        if coding != Coding::Identity {
            lines.push("Content-Encoding", coding.name().as_bytes());
        }
        if has_siblings {
            lines.push("Vary", b"Accept-Encoding");
        }
        Variant { meta, etag, modified, fields: FieldBlock::from_lines(lines.0.freeze()), content }
    }
}

/// Reads a file that is small enough, otherwise leaves it open. Says also whether the file stood
/// still meanwhile; if it did not, the sender reads it and finds out how long it is by then.
fn read(opened: Opened, max_body: u64) -> (Content, bool) {
    let Opened { file, meta, .. } = opened;
    match usize::try_from(meta.size) {
        Ok(0) => (Content::Memory(Bytes::new()), true),
        Ok(size) if meta.size <= max_body => {
            let mut body = vec![0; size];
            let whole = file.read_exact_at(&mut body, 0).is_ok();
            let steady = file.metadata().is_ok_and(|metadata| Meta::of(&metadata) == meta);
            match whole && steady {
                true => (Content::Memory(body.into()), true),
                false => (Content::File(Arc::new(file)), false),
            }
        }
        _ => (Content::File(Arc::new(file)), true),
    }
}

fn etag(meta: &Meta, coding: Coding) -> Bytes {
    let dash = if coding == Coding::Identity { "" } else { "-" };
    let Meta { modified, modified_nanos, size, .. } = meta;
    format!("\"{modified:x}.{modified_nanos:x}-{size:x}{dash}{}\"", coding.name()).into()
}

/// A time in the future is sent as the present (RFC 9110, 8.8.2.1); one before 1970 has no form
/// and is left out.
fn last_modified(meta: &Meta, wall: SystemTime) -> Option<u64> {
    u64::try_from(meta.modified.min(wall_seconds(wall))).ok()
}

/// Collects field lines. The values are our own or were checked with the configuration, but a
/// media type from there must not add a line.
struct Lines(BytesMut);

impl Lines {
    fn push(&mut self, name: &str, value: &[u8]) {
        self.0.put_slice(name.as_bytes());
        self.0.put_slice(b": ");
        value.iter().filter(|byte| !byte.is_ascii_control()).for_each(|byte| self.0.put_u8(*byte));
        self.0.put_slice(b"\r\n");
    }
}
