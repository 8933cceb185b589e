//! Directories whose scripts are not run, such as those of uploads: a user that may write there
//! must not gain rights in the scripts of the site.
//!
//! Their directives hold for files that are sent from there. If a request for one continues with a
//! file elsewhere (by an index file, a fallback, an error document or a rule), that file's request
//! is one that the client could have sent: it has neither variables nor the user of the former
//! request, and the header fields that the client has sent. Apache passes all of them on.

use std::sync::Arc;

use crate::record::Record;
use crate::table::Table;

/// Variables of the server itself that a request keeps: those of error documents.
const KEPT: [&[u8]; 3] = [b"REDIRECT_STATUS", b"REDIRECT_REQUEST_METHOD", b"REDIRECT_ERROR_NOTES"];

/// Notes that directives hold for a request that come from a directory whose scripts are not run.
pub(super) fn enter(record: &mut Record) {
    let fields = former(record).unwrap_or_else(|| Arc::new(record.headers_in.clone()));
    record.client_fields = Some(fields);
}

/// Removes from a request the values that directives of a closed directory have added before,
/// unless directives of one hold for it, too. Returns true if it did.
pub(super) fn leave(record: &mut Record) -> bool {
    if record.client_fields.is_some() {
        return false;
    }
    let Some(fields) = former(record) else { return false };
    record.headers_in = Arc::unwrap_or_clone(fields);
    let mut env = Table::default();
    for (name, value) in record.env.iter().filter(|(name, _)| KEPT.contains(name)) {
        env.add(name, value);
    }
    record.env = env;
    true
}

/// Returns the client's header fields if directives of a closed directory hold for the request
/// before this one or above it.
fn former(record: &Record) -> Option<Arc<Table>> {
    match (&record.previous, &record.main) {
        (Some(previous), _) => previous.client_fields.clone(),
        (None, Some(main)) => main.client_fields.clone(),
        (None, None) => None,
    }
}
