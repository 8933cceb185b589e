//! `share`: finds the file, directory or script for a request.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use howdah_cgi::target::Script;
use howdah_config::{Candidate, Prefix, Target};
use howdah_files::{DirectoryRedirect, FileLocation, NotServedReason, ScriptPath, ServeOutcome};
use howdah_http::error_status::RequestError;
use howdah_http::message::Request;
use howdah_http::variables::VariableSource;

use super::directory::is_below;
use super::{Decision, Origin, Routing, rewrite};
use crate::snapshot::action::{CompiledPass, Share, SharePath};

impl Routing<'_> {
    /// Finds the handler of a request. With candidates, the path of the request becomes that of the
    /// candidate found. While the share is looked up, the path of the request is without the
    /// prefix. Error: the reason why there is none.
    pub(super) fn share(
        &self,
        share: &Share,
        request: &mut Request,
    ) -> Result<Decision, NotServedReason> {
        let Some(prefix) = &share.prefix else { return self.below_prefix(share, request) };
        let whole = request.path.clone();
        let rest = prefix.rest(&whole).ok_or(NotServedReason::NotFound)?;
        if rest.is_empty() {
            return redirect(request, None);
        }
        request.path = whole.slice_ref(rest);
        let found = self.below_prefix(share, request);
        request.path = match found {
            Ok(_) => Prefix::join(Some(prefix), &request.path).into_owned().into(),
            Err(_) => whole,
        };
        found
    }

    fn below_prefix(
        &self,
        share: &Share,
        request: &mut Request,
    ) -> Result<Decision, NotServedReason> {
        if share.candidates.is_empty() {
            return self.find(share, request, false, howdah_files::redirect_to_directory);
        }
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
        let found = self.find(share, request, is_longer, |_, _| None)?;
        if !lacks_slash {
            self.set_query(query, request);
            return Ok(found);
        }
        request.path = asked;
        redirect(request, share.prefix.as_ref())
    }

    /// Tries each path of the share in turn. A request path that `is_longer` than the client's
    /// names the file alone: the added part is no `PATH_INFO` of a script that the client named,
    /// such as `/index.html` in `/index.php/index.html`.
    fn find(
        &self,
        share: &Share,
        request: &Request,
        is_longer: bool,
        redirect: DirectoryRedirect,
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
            let is_longer = is_longer
                || path.template.as_ref().is_some_and(|name| name.template.extends_variable());
            match self.look(path, &chroot, request, &source, redirect) {
                ServeOutcome::Response(response) => return Ok(Decision::Respond(response)),
                ServeOutcome::Script(script) if is_longer && !script.path_info.is_empty() => {
                    reason = NotServedReason::NotFound;
                }
                ServeOutcome::Script(script) => return Ok(self.script(share, script, request)),
                ServeOutcome::Listing(listing) => return Ok(Decision::List(listing)),
                ServeOutcome::NotServed(missing) => reason = missing,
            }
            if !share.goes_on(reason) {
                break;
            }
        }
        Err(reason)
    }

    fn look(
        &self,
        path: &SharePath,
        chroot: &[u8],
        request: &Request,
        source: &VariableSource<'_>,
        redirect: DirectoryRedirect,
    ) -> ServeOutcome {
        let Some(name) = &path.template else {
            let place = FileLocation { chroot, ..path.files.place(&request.path) };
            return self.files.serve_place(&path.files, place, request, self.now, redirect);
        };
        if name.needs_host && request.host.is_empty() {
            return ServeOutcome::NotServed(NotServedReason::NotFound);
        }
        let expanded = source.expand(&name.template);
        let url = name.ends_with_path.then(|| expanded.len().saturating_sub(request.path.len()));
        match FileLocation::split(&expanded, name.fixed, url, chroot) {
            Some(place) => self.files.serve_place(&path.files, place, request, self.now, redirect),
            None => ServeOutcome::NotServed(NotServedReason::NotFound),
        }
    }

    /// Returns the handler for a script that the share found.
    fn script(&self, share: &Share, found: ScriptPath, request: &Request) -> Decision {
        let variable;
        let target = match &share.scripts {
            Some(CompiledPass::Fixed(target)) => Some(target),
            Some(CompiledPass::Variable(template)) => {
                let name = VariableSource::of(request, self.started_at).expand(template);
                variable = std::str::from_utf8(&name).ok().and_then(Target::parse);
                variable.as_ref()
            }
            None => None,
        };
        let Some(Target::Application { name, target }) = target else {
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

/// Redirects to the path of the request, below a prefix, with a slash at its end.
fn redirect(request: &Request, prefix: Option<&Prefix>) -> Result<Decision, NotServedReason> {
    if !matches!(&*request.method, b"GET" | b"HEAD") {
        return Err(NotServedReason::MethodNotAllowed);
    }
    let redirect = howdah_files::redirect_to_directory(request, prefix);
    redirect.map(Decision::Respond).ok_or(NotServedReason::NotFound)
}
