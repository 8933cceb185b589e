//! `internal_redirect`, `named_redirects` and `sendfile` of applications and upstreams: which `X-Accel-Redirect` and
//! `X-Sendfile` fields of their responses the server obeys.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{self as config, Config, ScriptSources, Target};
use howdah_files::mime::MimeTypes;
use howdah_files::{FileLocation, Files, RequestTime, ServeOutcome};
use howdah_http::error_status::RequestError;
use howdah_http::message::{Request, Response};
use howdah_http::respond::refuse;
use howdah_text::percent;

/// Delegations by the name of the application or upstream.
#[derive(Debug, Default)]
pub struct Delegations {
    applications: HashMap<String, Delegation>,
    upstreams: HashMap<String, Delegation>,
}

/// Fields that the server obeys in the responses of one application or upstream.
#[derive(Debug)]
pub struct Delegation {
    redirect: Option<Target>,
    named: BTreeMap<String, Target>,
    directories: Vec<Directory>,
}

/// A directory whose files `X-Sendfile` may name.
#[derive(Debug)]
struct Directory {
    path: Vec<u8>,
    files: howdah_files::Share,
}

/// Producer of a response.
#[derive(Debug, Clone, Copy)]
pub enum Producer<'a> {
    /// The application of this name.
    Application(&'a str),
    /// An upstream, or a `proxy`, under its name for the log.
    Upstream(&'a str),
}

/// Values of the internal fields of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InternalFields {
    /// `X-Accel-Redirect`: a path, or a name.
    pub redirect: Option<Bytes>,
    /// `X-Sendfile`: a file.
    pub file: Option<Bytes>,
}

/// An instruction that a response gives to the server.
#[derive(Debug)]
pub enum Instruction<'s> {
    /// Handle the request at this target.
    Named(&'s Target),
    /// Refuse the request: no route is for this name or path.
    NoRoute(Bytes),
    /// Handle this path at this target.
    Redirect(&'s Target, Bytes),
    /// Send this file.
    File(&'s Delegation, Bytes),
}

impl Delegations {
    /// Compiles a document.
    pub fn new(config: &Config, sources: &ScriptSources<'_>, mime: &Arc<MimeTypes>) -> Self {
        let compile = |name: &String, delegation: &config::Delegation| {
            (*delegation != config::Delegation::default())
                .then(|| (name.clone(), Delegation::new(delegation, sources, mime)))
        };
        let own = config.applications.iter().map(|own| (&own.name, &own.delegation));
        let others = config.fastcgi.iter().map(|other| (&other.name, &other.delegation));
        let upstreams = config.upstreams.iter().map(|up| (&up.name, &up.delegation));
        Delegations {
            applications: own.chain(others).filter_map(|(n, d)| compile(n, d)).collect(),
            upstreams: upstreams.filter_map(|(n, d)| compile(n, d)).collect(),
        }
    }

    /// Returns the instruction of a response. Error: the field that its producer may not use.
    pub fn grant(
        &self,
        fields: InternalFields,
        by: Producer<'_>,
    ) -> Result<Option<Instruction<'_>>, &'static str> {
        let delegation = match by {
            Producer::Application(name) => self.applications.get(name),
            Producer::Upstream(name) => {
                name.strip_prefix("upstreams/").and_then(|name| self.upstreams.get(name))
            }
        };
        let named = |name: &Bytes| {
            let name = std::str::from_utf8(name).ok()?;
            delegation?.named.get(name)
        };
        if let Some(target) = fields.redirect.as_ref().and_then(named) {
            return Ok(Some(Instruction::Named(target)));
        }
        let target = delegation.and_then(|delegation| delegation.redirect.as_ref());
        let has_names = delegation.is_some_and(|delegation| !delegation.named.is_empty());
        if let (Some(path), None, true) = (&fields.redirect, target, has_names) {
            return Ok(Some(Instruction::NoRoute(path.clone())));
        }
        let sends = delegation.filter(|delegation| !delegation.directories.is_empty());
        match (fields.redirect, fields.file, target, sends) {
            (Some(path), _, Some(target), _) => Ok(Some(Instruction::Redirect(target, path))),
            (_, Some(file), _, Some(delegation)) => Ok(Some(Instruction::File(delegation, file))),
            (Some(_), _, None, _) => {
                Err("X-Accel-Redirect, which needs \"internal_redirect\" or \"named_redirects\"")
            }
            (_, Some(_), _, None) => Err("X-Sendfile, which needs \"sendfile\""),
            (None, None, ..) => Ok(None),
        }
    }
}

impl Delegation {
    /// Compiles the settings of one application or upstream.
    pub fn new(
        delegation: &config::Delegation,
        sources: &ScriptSources<'_>,
        mime: &Arc<MimeTypes>,
    ) -> Self {
        let directories = delegation.directories.iter().map(|directory| {
            let options = howdah_files::Options {
                index: Vec::new(),
                sources: sources.below(directory),
                mime: Arc::clone(mime),
                ..howdah_files::Options::default()
            };
            let path = directory.as_os_str().as_bytes();
            // The root becomes empty: file names have a slash in front.
            let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
            Directory { files: howdah_files::Share::new(directory, options), path }
        });
        Delegation {
            redirect: delegation.redirect.clone(),
            named: delegation.named.clone(),
            directories: directories.collect(),
        }
    }

    /// Sends a file; its name is percent-encoded or literal.
    pub fn send(
        &self,
        file: &[u8],
        cache: &Files,
        request: &Request,
        now: RequestTime,
    ) -> Response {
        let name: Vec<u8> = percent::decoded(file).collect();
        let is_sound = name.starts_with(b"/") && !name.contains(&0) && !climbs(&name);
        let found = self.directories.iter().filter(|_| is_sound).find_map(|directory| {
            let rest = name.strip_prefix(directory.path.as_slice())?;
            rest.starts_with(b"/").then_some((directory, rest))
        });
        let Some((directory, path)) = found else { return refuse(RequestError::NotFound) };
        let chroot = if directory.path.is_empty() { b"/" } else { directory.path.as_slice() };
        let place = FileLocation { root: &directory.path, path, url_offset: 0, chroot };
        match cache.look_up(&directory.files, place, request, now) {
            ServeOutcome::File(file) => cache.file_response(&file, request, now.wall),
            ServeOutcome::NotServed(reason) => refuse(reason),
            ServeOutcome::Directory | ServeOutcome::Script(_) | ServeOutcome::Listing(_) => {
                refuse(RequestError::NotFound)
            }
        }
    }
}

/// Returns true if a path has a `..` segment.
pub fn climbs(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment == b"..")
}
