//! Rules of the server's configuration: applied to the path of the URL, before a file is looked for.

use super::fixup::{reborrow, redirect};
use super::pass::{Change, END_NOTE, Pass};
use super::trace::Trace;
use super::{Config, has_note, uri};
use crate::expr::Scope;
use crate::record::Record;
use crate::world::Level;

/// Result of the rules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Translation {
    /// No rule has changed the path.
    None,
    /// The path of a file, or a path below the root.
    File(Vec<u8>),
    /// The path of a URL, for aliases (flag `PT`).
    Url(Vec<u8>),
    /// The request is answered at once.
    Status(u16),
}

/// Applies the rules to the path of a request. `Location` is set for a redirect.
pub(crate) fn translate(
    config: &Config,
    record: &mut Record,
    scope: &dyn Scope,
    mut trace: Trace<'_>,
) -> Translation {
    if !config.is_active() || has_note(record, END_NOTE) {
        return Translation::None;
    }
    let old_args = record.args.clone();
    let old_filename = std::mem::replace(&mut record.filename, record.uri.clone());
    let mut pass = Pass::new(record, config, scope, reborrow(&mut trace));
    let change = pass.run();
    let status = pass.status;
    let path = std::mem::replace(&mut record.filename, old_filename);
    if change == Change::None {
        return Translation::None;
    }
    let is_escaped = matches!(change, Change::Url { is_escaped: true });
    let scheme = uri::scheme(&path).filter(|_| change != Change::Passed);
    let will_escape = scheme.is_some() && !is_escaped;
    if !will_escape && record.args.as_deref().is_some_and(uri::has_controls) {
        let message = "Rewritten query string contains control characters or spaces";
        scope.world().log(Level::Error, message);
        return Translation::Status(403);
    }
    if let Change::Status(status) | Change::Refused(status) = change {
        record.status = 200;
        return Translation::Status(status);
    }
    if path.starts_with(b"proxy:") {
        let message = format!(
            "a rule passes the request to another server, which rules cannot do: {}",
            String::from_utf8_lossy(&path)
        );
        scope.world().log(Level::Error, &message);
        return Translation::Status(403);
    }
    if let Some(scheme) = scheme {
        record.status = 200;
        record.filename = path;
        redirect(record, config, scheme, is_escaped, old_args.as_deref());
        return Translation::Status(if (300..400).contains(&status) { status } else { 302 });
    }
    if change == Change::Passed {
        return Translation::Url(path);
    }
    Translation::File(if path.starts_with(b"/") { path } else { [b"/", &*path].concat() })
}
