//! `error_pages` of an action: files in place of the server's own pages.

use bytes::Bytes;

use crate::files::{Files, Now, Outcome};
use crate::message::{FieldBlock, Fields, Request, Response};
use crate::snapshot::ErrorPage;

/// Replaces the server's own page for an error. Its status and its other fields stay. If the file
/// cannot be sent, the page stays too.
pub fn apply(
    pages: &[ErrorPage],
    files: &Files,
    request: &Request,
    now: Now,
    response: &mut Response,
) {
    if !response.own_page {
        return;
    }
    let Some(page) = pages.iter().find(|page| page.status == response.status) else { return };
    // Not the request's own method, conditions and ranges: they are about something else.
    let asked = Request {
        method: Bytes::from_static(b"GET"),
        fields: Fields::default(),
        path: page.path.clone(),
        ..request.clone()
    };
    let Outcome::Response(found) =
        files.serve_at(&page.files, page.files.place(&page.path), &asked, now)
    else {
        return;
    };
    if found.status != 200 {
        return;
    }
    let mut fields: Vec<u8> = Vec::new();
    let kept =
        response.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-type"));
    let media_type = found.fields.get("content-type").map(|value| (&b"Content-Type"[..], value));
    for (name, value) in media_type.into_iter().chain(kept) {
        for part in [name, b": ", value, b"\r\n"] {
            fields.extend_from_slice(part);
        }
    }
    response.fields = FieldBlock::from_lines(fields.into());
    response.body = found.body;
    response.own_page = false;
}
