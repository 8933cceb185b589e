//! What an application or another server leaves to us: its answer names, in `X-Accel-Redirect`, a
//! path that a route decides about, or in `X-Sendfile` a file.
//!
//! 1. Such fields are taken out of every answer ([`take`]): no client sees one.
//! 2. They count only in answers of applications and upstreams whose configuration says what may
//!    be left to us.
//! 3. A path is taken apart like that of a client, and `..` is refused. It is asked for with GET or
//!    HEAD, without the client's body ([`request`]).
//! 4. A file lies below a directory of the configuration, and links do not lead out of that.
//! 5. Some fields of the first answer stay ([`join`]), as in nginx.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{self as config, Config, Target};
use howdah_files::mime::MimeTypes;
use howdah_files::{Files, Now, Outcome, Place, Reason};
use howdah_http::message::{FieldBlock, Request, Response, is_internal_field};
use howdah_http::{respond, target};

/// How often one request may be left to us.
pub const MOST: usize = 10;

/// What applications and upstreams may leave to us, by their names.
#[derive(Debug, Default)]
pub struct Delegations {
    applications: HashMap<String, Delegation>,
    upstreams: HashMap<String, Delegation>,
}

/// What the answers of one may leave to us.
#[derive(Debug)]
pub struct Delegation {
    redirect: Option<Target>,
    directories: Vec<Directory>,
}

/// A directory of files that may be named.
#[derive(Debug)]
struct Directory {
    path: Vec<u8>,
    files: howdah_files::Share,
}

/// Who has answered.
#[derive(Debug, Clone, Copy)]
pub enum By<'a> {
    /// The application of this name.
    Application(&'a str),
    /// An upstream, or a `proxy`, under its name for the log.
    Upstream(&'a str),
}

/// What an answer wishes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    redirect: Option<Bytes>,
    file: Option<Bytes>,
}

/// What we are to do.
#[derive(Debug)]
pub enum Left<'s> {
    /// Go on with this path, at this target.
    Redirect(&'s Target, Bytes),
    /// Send this file.
    File(&'s Delegation, Bytes),
}

impl Delegations {
    /// Compiles a document.
    pub fn new(config: &Config, mime: &Arc<MimeTypes>) -> Self {
        let compile = |name: &String, delegation: &config::Delegation| {
            (*delegation != config::Delegation::default())
                .then(|| (name.clone(), Delegation::new(delegation, mime)))
        };
        let own = { config.applications.iter() }.map(|own| (&own.name, &own.delegation));
        let others = { config.fastcgi.iter() }.map(|other| (&other.name, &other.delegation));
        let upstreams = { config.upstreams.iter() }.map(|up| (&up.name, &up.delegation));
        Delegations {
            applications: own.chain(others).filter_map(|(n, d)| compile(n, d)).collect(),
            upstreams: upstreams.filter_map(|(n, d)| compile(n, d)).collect(),
        }
    }

    /// What an answer may have done of what it wishes. `Err` says what it may not.
    pub fn grant(&self, wishes: Wishes, by: By<'_>) -> Result<Option<Left<'_>>, &'static str> {
        let delegation = match by {
            By::Application(name) => self.applications.get(name),
            By::Upstream(name) => {
                name.strip_prefix("upstreams/").and_then(|name| self.upstreams.get(name))
            }
        };
        let target = delegation.and_then(|delegation| delegation.redirect.as_ref());
        let sends = delegation.filter(|delegation| !delegation.directories.is_empty());
        match (wishes.redirect, wishes.file, target, sends) {
            (Some(path), _, Some(target), _) => Ok(Some(Left::Redirect(target, path))),
            (_, Some(file), _, Some(delegation)) => Ok(Some(Left::File(delegation, file))),
            (Some(_), _, None, _) => Err("X-Accel-Redirect, which needs \"internal_redirect\""),
            (_, Some(_), _, None) => Err("X-Sendfile, which needs \"sendfile\""),
            (None, None, ..) => Ok(None),
        }
    }
}

impl Delegation {
    fn new(delegation: &config::Delegation, mime: &Arc<MimeTypes>) -> Self {
        let directories = delegation.directories.iter().map(|directory| {
            let options = howdah_files::Options {
                index: Vec::new(),
                mime: Arc::clone(mime),
                ..howdah_files::Options::default()
            };
            let path = directory.as_os_str().as_bytes();
            // Of the root nothing is left, as files are written with a slash in front.
            let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
            Directory { files: howdah_files::Share::new(directory, options), path }
        });
        Delegation { redirect: delegation.redirect.clone(), directories: directories.collect() }
    }

    /// Sends a file, named percent-encoded or as it is.
    pub fn send(&self, file: &[u8], cache: &Files, request: &Request, now: Now) -> Response {
        let name = decode(file);
        let is_sound = name.starts_with(b"/") && !name.contains(&0) && !climbs(&name);
        let found = { self.directories.iter() }.filter(|_| is_sound).find_map(|directory| {
            let rest = name.strip_prefix(directory.path.as_slice())?;
            rest.starts_with(b"/").then_some((directory, rest))
        });
        let Some((directory, path)) = found else { return respond::error(404) };
        let chroot = if directory.path.is_empty() { b"/" } else { directory.path.as_slice() };
        let place = Place { root: &directory.path, path, base: 0, chroot };
        match cache.serve_file_at(&directory.files, place, request, now) {
            Outcome::Response(response) => response,
            Outcome::Missing(reason) => respond::error(reason.status()),
            Outcome::Script(_) => respond::error(Reason::NotFound.status()),
        }
    }
}

/// Takes what is meant for us out of an answer.
pub fn take(response: &mut Response) -> Wishes {
    let mut wishes = Wishes::default();
    if !response.fields.iter().any(|(name, _)| is_internal_field(name)) {
        return wishes;
    }
    let mut lines = Vec::with_capacity(response.fields.as_bytes().len());
    for (name, value) in response.fields.iter() {
        if !is_internal_field(name) {
            put(&mut lines, name, value);
        } else if name.eq_ignore_ascii_case(b"x-accel-redirect") {
            wishes.redirect = Some(Bytes::copy_from_slice(value));
        } else if name.eq_ignore_ascii_case(b"x-sendfile") {
            wishes.file = Some(Bytes::copy_from_slice(value));
        }
    }
    response.fields = FieldBlock::from_lines(lines.into());
    wishes
}

/// The client's request, for a path that an answer has named: GET or HEAD, and without a body.
/// `None` if the path is none.
pub fn request(asked: &Request, uri: &[u8]) -> Option<Request> {
    const OF_BODIES: [&[u8]; 6] = [
        b"content-encoding",
        b"content-language",
        b"content-length",
        b"content-type",
        b"expect",
        b"transfer-encoding",
    ];
    // nginx takes them as they are.
    let mut encoded = Vec::with_capacity(uri.len() + 16);
    for &byte in uri {
        match byte {
            b' ' => encoded.extend_from_slice(b"%20"),
            b'#' => encoded.extend_from_slice(b"%23"),
            byte => encoded.push(byte),
        }
    }
    let parsed = target::Target::parse(&encoded).ok()?;
    let path = encoded.split(|byte| *byte == b'?').next().unwrap_or_default();
    if climbs(&decode(path)) {
        return None;
    }
    let mut request = asked.clone();
    request.path = Bytes::copy_from_slice(parsed.path(&encoded));
    request.query = Bytes::copy_from_slice(encoded.get(parsed.query).unwrap_or_default());
    if &*request.method != b"HEAD" {
        request.method = Bytes::from_static(b"GET");
    }
    let is_of_body = |name: &[u8]| OF_BODIES.iter().any(|other| name.eq_ignore_ascii_case(other));
    request.fields.retain(|name| !is_of_body(name));
    Some(request)
}

/// Puts what was found in place of an answer. Its cookies stay, and, if something was found, what
/// it says about the content and how long that may be kept.
pub fn join(response: &mut Response, found: Response) {
    let first = std::mem::replace(response, found);
    let is = |name: &[u8], other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let many_parts = { response.fields.get("content-type") }
        .is_some_and(|value| value.starts_with(b"multipart/byteranges"));
    let about_content: &[&str] = match response.status {
        _ if response.own_page => &[],
        304 => &["cache-control", "expires"],
        _ if many_parts => &["cache-control", "expires", "content-disposition"],
        _ => &["cache-control", "expires", "content-disposition", "content-type"],
    };
    let stays = |name: &[u8]| about_content.iter().any(|other| is(name, other));
    let replaced = |name: &[u8]| {
        stays(name) && first.fields.iter().any(|(other, _)| name.eq_ignore_ascii_case(other))
    };
    let mut lines = Vec::new();
    for (name, value) in first.fields.iter() {
        if is(name, "set-cookie") || stays(name) {
            put(&mut lines, name, value);
        }
    }
    for (name, value) in response.fields.iter().filter(|(name, _)| !replaced(name)) {
        put(&mut lines, name, value);
    }
    response.fields = FieldBlock::from_lines(lines.into());
    response.close |= first.close;
}

fn put(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

/// Whether a path has a segment that leads upwards.
fn climbs(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment == b"..")
}

/// Decodes percent escapes once; what is none stays.
fn decode(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| (*byte as char).to_digit(16));
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(after.first()), digit(after.get(1)))
        {
            out.push((high << 4 | low) as u8);
            rest = after.get(2..).unwrap_or_default();
        } else {
            out.push(byte);
        }
    }
    out
}

#[cfg(test)]
#[path = "delegation_tests.rs"]
mod tests;
