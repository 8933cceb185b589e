//! What a request comes to: from the listener through routes to an answer, a script, or an error.
//!
//! Nothing here waits: routes are compared in memory, and files are looked up with calls that
//! the cache mostly saves.

use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{Match, Scheme, Target};
use howdah_sys::log::{Level, Log};

use crate::files::{Files, Now, Outcome, Place, Reason, ScriptPath};
use crate::message::{Request, Response};
use crate::php::target::Script;
use crate::snapshot::{Action, Application, CompiledPass, Share, Snapshot};
use crate::variables;

/// How often one request may be passed on; a document that passes in a circle ends here.
const MOST_PASSES: usize = 32;

/// What a request comes to.
#[derive(Debug)]
pub enum Decision {
    /// An answer is there.
    Respond(Response),
    /// A script answers.
    Php(Arc<Application>, Script),
    /// An error: its status, and what `Allow` says.
    Refuse(u16, Option<&'static str>),
}

/// Decides requests on one thread.
pub struct Router<'a> {
    /// The configuration that the request is decided by.
    pub snapshot: &'a Snapshot,
    /// Files of this thread.
    pub files: &'a Files,
    /// For `log_route`.
    pub log: &'a Log,
    /// The time of the request.
    pub now: Now,
}

impl Router<'_> {
    /// Decides a request that came in through a listener.
    pub fn decide(&self, listener: &str, request: &Request) -> Decision {
        let Some(pass) = self.snapshot.listeners.get(listener) else {
            return Decision::Refuse(404, None); // the listener has just been removed
        };
        self.pass(pass, request, MOST_PASSES)
    }

    fn pass(&self, pass: &CompiledPass, request: &Request, left: usize) -> Decision {
        match pass {
            CompiledPass::Fixed(target) => self.target(target, request, left),
            CompiledPass::Variable(template) => {
                let name = variables::expand(template, request);
                let target = std::str::from_utf8(&name).ok().and_then(Target::parse);
                match target {
                    Some(target) => self.target(&target, request, left),
                    None => Decision::Refuse(500, None),
                }
            }
        }
    }

    fn target(&self, target: &Target, request: &Request, left: usize) -> Decision {
        if left == 0 {
            self.log.write(Level::Error, "routes pass requests on in a circle");
            return Decision::Refuse(500, None);
        }
        match target {
            Target::Route(name) => self.route(name.as_deref().unwrap_or(""), request, left - 1),
            Target::Application { name, target } => {
                let application = self.snapshot.applications.get(name);
                let found = application.and_then(|app| Some((app, app.target(target.as_deref())?)));
                match found {
                    Some((application, target)) => {
                        Decision::Php(Arc::clone(application), target.script(&request.path))
                    }
                    None => Decision::Refuse(404, None),
                }
            }
            Target::Upstream(_) => Decision::Refuse(502, None),
        }
    }

    fn route(&self, name: &str, request: &Request, left: usize) -> Decision {
        let Some(steps) = self.snapshot.routes.get(name) else {
            return Decision::Refuse(404, None);
        };
        let log_route = self.snapshot.config.settings.http.log_route;
        for (index, step) in steps.iter().enumerate() {
            let selected = matches(&step.conditions, request);
            if log_route {
                self.log_step(name, index, selected);
            }
            if selected {
                return self.action(&step.action, request, left);
            }
        }
        Decision::Refuse(404, None)
    }

    fn log_step(&self, name: &str, index: usize, selected: bool) {
        let slash = if name.is_empty() { "" } else { "/" };
        match selected {
            true => self
                .log
                .write(Level::Notice, format_args!("\"routes{slash}{name}/{index}\" selected")),
            false => self
                .log
                .write(Level::Info, format_args!("\"routes{slash}{name}/{index}\" discarded")),
        }
    }

    fn action(&self, action: &Action, request: &Request, left: usize) -> Decision {
        match action {
            Action::Pass(pass) => self.pass(pass, request, left),
            Action::Return(answer) => {
                let mut response = Response::new(answer.status, crate::body::Body::Empty);
                if let Some(location) = &answer.location {
                    let location = variables::expand(location, request);
                    response.fields.push("Location", encode_location(&location));
                }
                Decision::Respond(response)
            }
            Action::Proxy(_) => Decision::Refuse(502, None),
            Action::Share(share) => self.share(share, request, left),
        }
    }

    fn share(&self, share: &Share, request: &Request, left: usize) -> Decision {
        let chroot = match &share.chroot {
            Some(template) => variables::expand(template, request),
            None => Vec::new(),
        };
        let mut reason = Reason::NotFound;
        for path in &share.paths {
            let outcome = match &path.template {
                None if chroot.is_empty() => self.files.serve(&path.files, request, self.now),
                None => {
                    let place = Place { chroot: &chroot, ..path.files.place(&request.path) };
                    self.files.serve_at(&path.files, place, request, self.now)
                }
                Some(name) => {
                    let expanded = variables::expand(&name.template, request);
                    let url = name
                        .ends_with_path
                        .then(|| expanded.len().saturating_sub(request.path.len()));
                    match Place::split(&expanded, name.fixed, url, &chroot) {
                        Some(place) => self.files.serve_at(&path.files, place, request, self.now),
                        None => Outcome::Missing(Reason::NotFound),
                    }
                }
            };
            match outcome {
                Outcome::Response(response) => return Decision::Respond(response),
                Outcome::Script(script) => return self.script(share, script),
                Outcome::Missing(missing) => reason = missing,
            }
            if !reason.falls_back() {
                break;
            }
        }
        match &share.fallback {
            Some(fallback) if reason.falls_back() && left > 0 => {
                if self.snapshot.config.settings.http.log_route {
                    self.log.write(Level::Notice, "\"fallback\" taken");
                }
                self.action(fallback, request, left - 1)
            }
            _ => Decision::Refuse(reason.status(), reason.allow()),
        }
    }

    /// A script that a share found, for the application that the share names.
    fn script(&self, share: &Share, found: ScriptPath) -> Decision {
        use std::os::unix::ffi::OsStrExt;
        let Some(Target::Application { name, .. }) = &share.scripts else {
            return Decision::Refuse(404, None);
        };
        let Some(application) = self.snapshot.applications.get(name) else {
            return Decision::Refuse(404, None);
        };
        let file = found.file.as_os_str().as_bytes();
        let root = file.strip_suffix(&*found.script_name).unwrap_or(b"/");
        let script = Script {
            name: found.script_name.clone(),
            path_info: found.path_info,
            root: std::path::Path::new(std::ffi::OsStr::from_bytes(root)).into(),
            file: Arc::clone(&found.file),
        };
        Decision::Php(Arc::clone(application), script)
    }
}

/// Whether all conditions hold.
fn matches(conditions: &Match, request: &Request) -> bool {
    let holds = |patterns: &Option<howdah_config::Patterns>, subject: &[u8]| {
        patterns.as_ref().is_none_or(|patterns| patterns.matches(subject))
    };
    let scheme =
        conditions.scheme.is_none_or(|scheme| request.connection.tls == (scheme == Scheme::Https));
    scheme
        && holds(&conditions.method, &request.method)
        && holds(&conditions.host, &request.host)
        && holds(&conditions.uri, &request.path)
}

/// A location from a template: bytes that no URI holds are percent-encoded, so that a value from
/// a request cannot add a header field.
fn encode_location(location: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(location.len());
    for byte in location {
        match byte {
            b'!'..=b'~'
                if !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'}') =>
            {
                out.push(*byte);
            }
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out.into()
}
