//! The phase of fix-ups: runs the rules, and turns the result into an answer or a new request.

use std::sync::Arc;

use super::outcome::Outcome;
use super::pass::{Change, END_NOTE, Pass};
use super::trace::{Event, Trace};
use super::{Config, has_note, option, uri};
use crate::expr::Scope;
use crate::record::Record;
use crate::world::Level;

/// Notes with type and handler of the flags `T` and `H`.
pub(super) const TYPE_NOTE: &[u8] = b"rewrite-forced-mimetype";
pub(super) const HANDLER_NOTE: &[u8] = b"rewrite-forced-handler";

/// Applies the rules of the request's configuration. `follows_links` tells whether `Options` has
/// `FollowSymLinks` or `SymLinksIfOwnerMatch`, without which rules are forbidden.
///
/// Notes, environment, `Vary`, cookies and the query of the request change; the file name and
/// PATH_INFO do only if the outcome is not `Declined`.
pub fn fixup(
    record: &mut Record,
    scope: &dyn Scope,
    follows_links: bool,
    mut trace: Trace<'_>,
) -> Outcome {
    let directives = Arc::clone(&record.config);
    let config = directives.of::<super::Config>();
    if !config.is_present || config.is_on != Some(true) {
        return Outcome::Declined;
    }
    let outcome = run(record, config, scope, follows_links, &mut trace);
    if let Some(trace) = trace {
        trace(Event::End(&outcome));
    }
    outcome
}

/// Sets type and handler as the flags `T` and `H` ask for: the last of the fix-ups.
pub fn force_type(record: &mut Record) {
    if let Some(mime_type) = record.notes.get(TYPE_NOTE) {
        record.content_type = Some(mime_type.to_vec());
    }
    if let Some(handler) = record.notes.get(HANDLER_NOTE) {
        record.handler = Some(handler.to_vec());
    }
}

fn run(
    record: &mut Record,
    config: &Config,
    scope: &dyn Scope,
    follows_links: bool,
    trace: &mut Trace<'_>,
) -> Outcome {
    // mod_dir adds the slash to a directory first.
    let is_own_directory = config.directory.strip_suffix(b"/") == Some(record.filename.as_slice());
    if is_own_directory && !config.has(option::NO_SLASH) || has_note(record, END_NOTE) {
        return Outcome::Declined;
    }
    if !follows_links {
        let message = format!(
            "Options FollowSymLinks and SymLinksIfOwnerMatch are both off, so the RewriteRule \
             directive is also forbidden due to its similar ability to circumvent directory \
             restrictions : {}",
            String::from_utf8_lossy(&record.filename)
        );
        scope.world().log(Level::Error, &message);
        return Outcome::Status(403);
    }
    if config.rules.is_empty() {
        return Outcome::Declined;
    }
    let (old_filename, old_args) = (record.filename.clone(), record.args.clone());
    let mut pass = Pass::new(record, config, scope, reborrow(trace));
    let change = pass.run();
    let status = pass.status;
    if change == Change::None {
        record.filename = old_filename;
        return Outcome::Declined;
    }
    let is_escaped = matches!(change, Change::Url { is_escaped: true });
    let scheme = uri::scheme(&record.filename).filter(|_| change != Change::Passed);
    let will_escape = scheme.is_some() && !is_escaped;
    if !will_escape && record.args.as_deref().is_some_and(uri::has_controls) {
        let message = "Rewritten query string contains control characters or spaces";
        scope.world().log(Level::Error, message);
        return Outcome::Status(403);
    }
    // In the request for an error document, the answer of a rule is not a second error: it takes
    // the place of the first.
    if let Change::Status(status) | Change::Refused(status) = change {
        record.status = 200;
        return Outcome::Status(status);
    }
    if record.filename.len() > 6 && record.filename.starts_with(b"proxy:") {
        let message = format!(
            "attempt to make remote request from mod_rewrite without proxy enabled: {}",
            String::from_utf8_lossy(&record.filename)
        );
        scope.world().log(Level::Error, &message);
        return Outcome::Status(403);
    }
    match scheme {
        Some(scheme) => {
            record.status = 200;
            redirect(record, config, scheme, is_escaped, old_args.as_deref());
            Outcome::External(if (300..400).contains(&status) { status } else { 302 })
        }
        None => {
            // A redirect that a later rule has turned into a path leaves its status.
            record.status = status;
            local(record, config, &old_filename)
        }
    }
}

pub(super) fn reborrow<'s>(trace: &'s mut Trace<'_>) -> Trace<'s> {
    match trace {
        Some(trace) => Some(&mut **trace),
        None => None,
    }
}

/// Sets `Location`.
pub(super) fn redirect(
    record: &mut Record,
    config: &Config,
    scheme: uri::Scheme,
    is_escaped: bool,
    old_args: Option<&[u8]>,
) {
    let mut url = std::mem::take(&mut record.filename);
    // The path may begin with the directory; `RewriteBase` takes its place.
    if let Some(base) = &config.base
        && let Some(slash) = memchr::memchr(b'/', &url[scheme.length.min(url.len())..])
    {
        let path = scheme.length + slash + 1;
        let directory = config.directory.strip_prefix(b"/").unwrap_or(&config.directory);
        let base = base.strip_prefix(b"/").unwrap_or(base);
        if let Some(replaced) = uri::replace_prefix(&url[path..], directory, base) {
            url.truncate(path);
            url.extend_from_slice(&replaced);
        }
    }
    if !is_escaped {
        url = uri::escape_absolute(&url, scheme);
    }
    if let Some(args) = &record.args {
        url.push(b'?');
        if is_escaped || old_args == Some(args.as_slice()) {
            url.extend_from_slice(args);
        } else {
            url.extend_from_slice(&crate::uri::escaped(args));
        }
    }
    record.headers_out.set("Location", url.as_slice());
    record.filename = url;
}

fn local(record: &mut Record, config: &Config, old_filename: &[u8]) -> Outcome {
    if !record.filename.starts_with(b"/") {
        return Outcome::Status(400);
    }
    if record.filename == old_filename {
        return Outcome::Unchanged;
    }
    let (root, prefix) = (&*record.connection.document_root, &*record.connection.prefix);
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let filename = record.filename.as_slice();
    let replaced = match &config.base {
        Some(base) => uri::replace_prefix(filename, &config.directory, base),
        None => { filename.strip_prefix(root).filter(|rest| rest.starts_with(b"/")) }
            .map(|rest| [prefix, rest].concat()),
    };
    let replaced = match replaced {
        None if !config.has(option::IGNORE_CONTEXT_INFO) => {
            uri::replace_prefix(filename, root, prefix)
        }
        replaced => replaced,
    };
    let mut target = replaced.unwrap_or_else(|| filename.to_vec());
    record.notes.set("redirect-keeps-vary", "");
    if let Some(args) = &record.args {
        target.push(b'?');
        target.extend_from_slice(args);
    }
    Outcome::Internal(target)
}
