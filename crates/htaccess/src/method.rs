//! Methods of requests that Apache knows by default.

/// Names of the methods. `HEAD` is missing: to Apache it is a form of `GET`.
pub(crate) const NAMES: &[&str] = &[
    "GET",
    "PUT",
    "POST",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
    "BREW",
    "WHEN",
];

/// Returns true for the name of a method; names have case.
pub(crate) fn is_known(name: &[u8]) -> bool {
    name == b"HEAD" || NAMES.iter().any(|known| known.as_bytes() == name)
}
