//! `share`: which file answers.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use howdah_config::Target;

use super::{Decision, Router};
use crate::files::{Outcome, Place, Reason, ScriptPath};
use crate::message::Request;
use crate::php::target::Script;
use crate::snapshot::{Share, SharePath};
use crate::variables::Source;

impl Router<'_> {
    /// Looks for a file in each place of the share; `Err` says why there is none.
    pub(super) fn share(&self, share: &Share, request: &Request) -> Result<Decision, Reason> {
        let source = Source::of(request, self.begun);
        let chroot = match &share.chroot {
            Some(template) => source.expand(template),
            None => Vec::new(),
        };
        if chroot.is_empty() && share.chroot.is_some() {
            // Variables without values must not let a request out of its directory.
            return Err(Reason::Forbidden);
        }
        let mut reason = Reason::NotFound;
        for path in &share.paths {
            match self.look(path, &chroot, request, &source) {
                Outcome::Response(response) => return Ok(Decision::Respond(response)),
                Outcome::Script(script) => return Ok(self.script(share, script)),
                Outcome::Missing(missing) => reason = missing,
            }
            if !reason.falls_back() {
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
        source: &Source<'_>,
    ) -> Outcome {
        let Some(name) = &path.template else {
            if chroot.is_empty() {
                return self.files.serve(&path.files, request, self.now);
            }
            let place = Place { chroot, ..path.files.place(&request.path) };
            return self.files.serve_at(&path.files, place, request, self.now);
        };
        let expanded = source.expand(&name.template);
        let url = name.ends_with_path.then(|| expanded.len().saturating_sub(request.path.len()));
        match Place::split(&expanded, name.fixed, url, chroot) {
            Some(place) => self.files.serve_at(&path.files, place, request, self.now),
            None => Outcome::Missing(Reason::NotFound),
        }
    }

    /// A script that a share found, for the application that the share names.
    fn script(&self, share: &Share, found: ScriptPath) -> Decision {
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
            root: Path::new(std::ffi::OsStr::from_bytes(root)).into(),
            file: Arc::clone(&found.file),
        };
        Decision::Php(Arc::clone(application), script)
    }
}
