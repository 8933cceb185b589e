//! `share`: finds the file, directory or script for a request.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use howdah_cgi::target::Script;
use howdah_config::{Candidate, Prefix, Target};
use howdah_files::{FileLocation, NotServedReason, ScriptPath, ServeOutcome};
use howdah_http::error_status::RequestError;
use howdah_http::message::Request;
use howdah_http::variables::VariableSource;

use super::directory::is_below;
use super::{Decision, Origin, Routing, rewrite};
use crate::snapshot::action::{Share, SharePath};

impl Routing<'_> {
    /// Finds the handler of a request. With candidates, the path of the request becomes that of the
    /// candidate found. While the share is looked up, the path of the request is without the
    /// prefix. Error: the reason why there is none.
    pub(super) fn share(
        &self,
        share: &Share,
        request: &mut Request,
    ) -> Result<Decision, NotServedReason> {
        let mut whole = None;
        if let Some(prefix) = &share.prefix {
            let rest = prefix.rest(&request.path).ok_or(NotServedReason::NotFound)?;
            if rest.is_empty() {
                return redirect(request, None);
            }
            let rest = request.path.slice_ref(rest);
            whole = Some((prefix, std::mem::replace(&mut request.path, rest)));
        }
        let found = if share.candidates.is_empty() {
            self.find(share, request, false, true)
        } else {
            self.find_candidates(share, request)
        };
        if let Some((prefix, whole)) = whole {
            request.path = match found {
                Ok(_) => Prefix::join(Some(prefix), &request.path).into_owned().into(),
                Err(_) => whole,
            };
        }
        found
    }

    /// Tries each candidate in turn.
    fn find_candidates(
        &self,
        share: &Share,
        request: &mut Request,
    ) -> Result<Decision, NotServedReason> {
        let asked = request.path.clone();
        let mut reason = NotServedReason::NotFound;
        for candidate in &share.candidates {
            match self.find_candidate(share, candidate, &asked, request) {
                Ok(decision) => return Ok(decision),
                Err(missing) => reason = missing,
            }
            request.path = asked.clone();
            if !share.goes_on(reason) {
                break;
            }
        }
        Err(reason)
    }

    /// Tries one candidate, as nginx's `try_files`. A candidate that ends with a slash is a
    /// directory; if the request's own path lacks only that slash, the client is redirected. Any
    /// other candidate is a file.
    fn find_candidate(
        &self,
        share: &Share,
        candidate: &Candidate,
        asked: &[u8],
        request: &mut Request,
    ) -> Result<Decision, NotServedReason> {
        // A path made from request data may be invalid: that is the client's error.
        let source = VariableSource::of(request, self.started_at);
        let target = rewrite::target(&candidate.target, &source);
        let (path, query) = target.map_err(|_| NotServedReason::NotFound)?;
        if path.ends_with(b"/") != candidate.directory {
            return Err(NotServedReason::NotFound);
        }
        let lacks_slash = path.strip_suffix(b"/").is_some_and(|path| path.ends_with(asked));
        let asked = std::mem::replace(&mut request.path, path);
        let is_longer = lacks_slash || candidate.target.path.extends_variable();
        let found = self.find(share, request, is_longer, false)?;
        if !lacks_slash {
            self.set_query(query, request);
            return Ok(found);
        }
        request.path = asked;
        redirect(request, share.prefix.as_ref())
    }

    /// Tries each path of the share in turn. A request path that `is_longer` than the client's
    /// names the file alone: the added part is no `PATH_INFO` of a script that the client named,
    /// such as `/index.html` in `/index.php/index.html`. Unless it `redirects`, a directory whose
    /// path has no slash at the end is not found.
    fn find(
        &self,
        share: &Share,
        request: &Request,
        is_longer: bool,
        redirects: bool,
    ) -> Result<Decision, NotServedReason> {
        let source = VariableSource::of(request, self.started_at);
        let chroot = match &share.chroot {
            Some(template) => source.expand(template),
            None => Vec::new(),
        };
        if chroot.is_empty() && share.chroot.is_some() {
            // Variables with empty values must not lead a request out of its directory.
            return Err(NotServedReason::Forbidden);
        }
        if share.chroot.as_ref().is_some_and(|template| !is_below(template, &chroot)) {
            return Err(NotServedReason::Forbidden);
        }
        let mut reason = NotServedReason::NotFound;
        for path in &share.paths {
            let name = path.template.as_ref();
            let is_longer = is_longer || name.is_some_and(|name| name.template.extends_variable());
            let expanded = name.map(|name| source.expand(&name.template));
            let found = match location(path, request, expanded.as_deref(), &chroot) {
                Some(place) => self.files.look_up(&path.files, place, request, self.now),
                None => ServeOutcome::NotServed(NotServedReason::NotFound),
            };
            reason = match found {
                ServeOutcome::File(file) => return Ok(Decision::File(file)),
                ServeOutcome::Directory => {
                    let prefix = path.files.options().prefix.as_ref();
                    let redirect = howdah_files::redirect_to_directory(request, prefix);
                    match redirect.filter(|_| redirects) {
                        Some(redirect) => return Ok(Decision::Respond(redirect)),
                        None => NotServedReason::NotFound,
                    }
                }
                ServeOutcome::Script(script) if is_longer && !script.path_info.is_empty() => {
                    NotServedReason::NotFound
                }
                ServeOutcome::Script(script) => return Ok(self.script(share, script, request)),
                ServeOutcome::Listing(listing) => return Ok(Decision::List(listing)),
                ServeOutcome::NotServed(missing) => missing,
            };
            if !share.goes_on(reason) {
                break;
            }
        }
        Err(reason)
    }

    /// Returns the handler for a script that the share found.
    fn script(&self, share: &Share, found: ScriptPath, request: &Request) -> Decision {
        let source = VariableSource::of(request, self.started_at);
        let target = share.scripts.as_ref().and_then(|pass| pass.target(&source));
        let Some(Target::Application { name, target }) = target.as_deref() else {
            return Decision::Refuse(RequestError::NotFound);
        };
        if let Some(site) = self.snapshot.fastcgi.get(name) {
            // The FastCGI server may see the files under another path, given by its target.
            let Some(target) = site.targets.get(target.as_deref()) else {
                return Decision::Refuse(RequestError::NotFound);
            };
            let script = target.found(found.script_name, found.path_info);
            return Decision::Ask(Origin::FastCgi(
                Arc::clone(site),
                script.below(share.prefix.as_ref()),
            ));
        }
        let Some(application) = self.snapshot.applications.get(name) else {
            return Decision::Refuse(self.undefined());
        };
        if application.config.isolation.rootfs.is_some() {
            // An application with its own root directory does so, too.
            let Some(target) = application.targets.get(target.as_deref()) else {
                return Decision::Refuse(RequestError::NotFound);
            };
            let script = target.found(found.script_name, found.path_info);
            return Decision::Ask(Origin::Php(
                Arc::clone(application),
                script.below(share.prefix.as_ref()),
            ));
        }
        let file = found.file.as_os_str().as_bytes();
        let root = file.strip_suffix(&*found.script_name).unwrap_or(b"/");
        let script = Script {
            name: found.script_name.clone(),
            path_info: found.path_info,
            root: Path::new(std::ffi::OsStr::from_bytes(root)).into(),
            file: Arc::clone(&found.file),
            directives: None,
        };
        Decision::Ask(Origin::Php(Arc::clone(application), script.below(share.prefix.as_ref())))
    }
}

/// Returns the location of a request's file below a path of a share, whose name is expanded, unless
/// it is constant.
fn location<'p>(
    path: &'p SharePath,
    request: &'p Request,
    expanded: Option<&'p [u8]>,
    chroot: &'p [u8],
) -> Option<FileLocation<'p>> {
    let (Some(name), Some(expanded)) = (&path.template, expanded) else {
        return Some(FileLocation { chroot, ..path.files.place(&request.path) });
    };
    if name.needs_host && request.host.is_empty() {
        return None;
    }
    let url = name.ends_with_path.then(|| expanded.len().saturating_sub(request.path.len()));
    FileLocation::split(expanded, name.fixed, url, chroot)
}

/// Redirects to the path of the request, below a prefix, with a slash at its end.
pub(super) fn redirect(
    request: &Request,
    prefix: Option<&Prefix>,
) -> Result<Decision, NotServedReason> {
    if !matches!(&*request.method, b"GET" | b"HEAD") {
        return Err(NotServedReason::MethodNotAllowed);
    }
    let redirect = howdah_files::redirect_to_directory(request, prefix);
    redirect.map(Decision::Respond).ok_or(NotServedReason::NotFound)
}
