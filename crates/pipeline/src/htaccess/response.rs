//! Responses with files, errors, and the fields that directives change.

use std::borrow::Cow;
use std::future::poll_fn;

use bytes::Bytes;
use howdah_files::{FileLocation, ServeOutcome};
use howdah_htaccess::engine::{Action, Engine, ErrorPage};
use howdah_htaccess::modules::core;
use howdah_htaccess::modules::filter::Compression;
use howdah_htaccess::record::Record;
use howdah_htaccess::world::{Level, World};
use howdah_http::body::Body;
use howdah_http::compress;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Fields, Response};
use howdah_http::respond::refuse;
use howdah_text::date;

use super::answer::{MAX_LOOKUP_ROUNDS, SiteRequest};
use super::exchange;
use crate::filters::own_tags::{self, has_mark, without_marks};

/// Maximum length in bytes of the fields that directives add to a response: that of the head of a
/// script, which has to fit into a quarter of its ring in shared memory.
const MAX_FIELDS_BYTES: usize = 32_760;

impl SiteRequest<'_, '_> {
    /// Returns the response with the file of a record. The error may have an error document.
    pub(super) fn file(
        &self,
        record: &Record,
        exchange: &Exchange<'_>,
    ) -> Result<Response, RequestError> {
        let divided = self.site.divided(&record.filename, self.root);
        let (root, below) = divided.ok_or(RequestError::Forbidden)?;
        let place = FileLocation { root, path: below, url_offset: 0, chroot: b"" };
        // Conditions and ranges are those of the page, not of its error document.
        let is_get = matches!(&*exchange.request.method, b"GET" | b"HEAD");
        let is_as_sent = record.status == 200
            && is_get
            && !record.headers_in.get(b"If-None-Match").is_some_and(has_mark)
            && record.headers_in.iter().eq(exchange.request.fields.iter());
        let mut request = Cow::Borrowed(&exchange.request);
        if !is_as_sent {
            let fields: Vec<(Vec<u8>, Vec<u8>)> = record
                .headers_in
                .iter()
                .filter(|_| record.status == 200)
                // RFC 9110, 13.1.3: ignored for other methods.
                .filter(|(name, _)| is_get || !name.eq_ignore_ascii_case(b"if-modified-since"))
                .map(|(name, value)| {
                    if name.eq_ignore_ascii_case(b"if-none-match") {
                        (name.to_vec(), without_marks(value))
                    } else {
                        (name.to_vec(), value.to_vec())
                    }
                })
                .collect();
            let fields = fields.iter().map(|(name, value)| (&**name, &**value));
            request.to_mut().fields = Fields::from_pairs(fields);
        }
        let (files, now) = (&self.context.thread.files, self.context.routing.now);
        match files.look_up(&self.site.files, place, &request, now) {
            ServeOutcome::File(file) => {
                let mut response = files.file_response(&file, &request, now.wall);
                if record.status != 200 {
                    response.status = record.status;
                }
                if response.status == 416 {
                    return Err(RequestError::RangeNotSatisfiable);
                }
                if response.status == 304 && !is_get {
                    response.status = 412;
                }
                if response.status == 412 {
                    // Apache sends the fields of the file, without content and without an error
                    // document.
                    request.to_mut().fields = Fields::default();
                    let whole = files.look_up(&self.site.files, place, &request, now);
                    if let ServeOutcome::File(whole) = whole {
                        response.fields = files.file_response(&whole, &request, now.wall).fields;
                    }
                    response.body = Body::Empty;
                    response.is_default_error_page = false;
                }
                if response.status == 304 {
                    let modified = date::http(record.file.modified.max(0));
                    response.fields.push("Last-Modified", modified);
                }
                Ok(response)
            }
            ServeOutcome::Directory | ServeOutcome::Script(_) | ServeOutcome::Listing(_) => {
                Err(RequestError::Forbidden)
            }
            ServeOutcome::NotServed(reason) => Err(reason.into()),
        }
    }

    /// Applies the directives for responses.
    pub(super) async fn finish(
        &self,
        mut record: Record,
        action: &Action,
        mut response: Response,
    ) -> (Response, Compression) {
        let is_error = matches!(action, Action::Error(_));
        let own_bytes = response.fields.as_bytes().len();
        let is_script = matches!(action, Action::Script(_));
        if !is_error {
            record.status = response.status;
            for (name, value) in response.fields.iter() {
                let is_tag = name.eq_ignore_ascii_case(b"etag") && !is_script;
                if is_tag && record.config.of::<core::Config>().etag.parts().is_none() {
                    continue;
                }
                if !name.eq_ignore_ascii_case(b"content-type") {
                    record.headers_out.add(name, value);
                } else if is_script || value.starts_with(b"multipart/byteranges") {
                    record.content_type = Some(value.to_vec());
                }
            }
        }
        if is_script {
            for (name, value) in response.take_variables() {
                record.env.set(name, value);
            }
        }
        record.length = response.body.len().filter(|_| !matches!(response.body, Body::Stream(_)));
        let finish = |record: &mut Record| {
            self.site.allowance.run(|| self.engine.finish(record, action, &self.world))
        };
        let mut rounds = if Engine::finish_looks_up(&record) { MAX_LOOKUP_ROUNDS } else { 0 };
        let compression = loop {
            if rounds == 0 {
                break finish(&mut record);
            }
            rounds -= 1;
            let mut finished = record.clone();
            let compression = finish(&mut finished);
            if !self.world.catch_up().await {
                record = finished;
                break compression;
            }
        };
        response.status = record.status;
        if matches!(record.status, 204 | 304) {
            record.headers_out.unset(b"Content-Type");
        }
        let is_plain = |value: &[u8]| value.eq_ignore_ascii_case(b"identity");
        if compression == Compression::Gzip
            && record.headers_out.get(b"Content-Encoding").is_some_and(is_plain)
        {
            record.headers_out.unset(b"Content-Encoding");
        }
        if record.is_head_invalid {
            // The response must not be sent without its fields.
            response = refuse(RequestError::Internal);
        }
        response.fields = exchange::fields(&record.headers_out);
        let bytes = response.fields.as_bytes().len();
        if bytes > own_bytes + MAX_FIELDS_BYTES {
            let text = format!(
                "500, the {} files on the way to {} give the response {bytes} bytes of header \
                 fields; at most {MAX_FIELDS_BYTES} are sent: let \"Header\" set fewer or shorter \
                 ones",
                String::from_utf8_lossy(&self.site.file).trim_start_matches('/'),
                String::from_utf8_lossy(&record.filename),
            );
            self.world.log(Level::Error, &text);
            response = refuse(RequestError::Internal);
        }
        if compression == Compression::Gzip {
            let client = self.world.request.connection.peer.map(|peer| peer.ip());
            compress::gzip_as_apache(client, &mut response);
            if is_script {
                own_tags::answer(self.world.request, &mut response);
            }
        }
        (response, compression)
    }
}

/// Gives the response to a HEAD request a Content-Length if it comes from a script for errors,
/// which has answered GET, and is short. As in Apache, an empty page has none.
pub(super) async fn set_length_of_error_page(response: &mut Response) {
    let mut len = 0;
    match &mut response.body {
        Body::Empty => {}
        Body::Bytes(bytes) if bytes.len() as u64 > MAX_HELD_BYTES => return,
        Body::Bytes(bytes) => len = bytes.len() as u64,
        Body::Stream(stream) if stream.len().is_none() => {
            while let Some(bytes) = poll_fn(|cx| stream.poll_next(cx)).await {
                len += bytes.map_or(MAX_HELD_BYTES, |bytes| bytes.len() as u64);
                if len > MAX_HELD_BYTES {
                    return;
                }
            }
        }
        Body::Pieces(_) | Body::Stream(_) => return,
    }
    response.body = Body::unsent(Some(len).filter(|len| *len > 0));
    response.chunked = len == 0;
}

/// Maximum number of bytes that Apache holds back until a script has ended.
const MAX_HELD_BYTES: u64 = 8000;

/// Returns the answer to an error or a redirect, without its fields.
pub(super) fn error(record: &Record, page: &ErrorPage) -> Response {
    match &page.text {
        Some(text) => Response::new(record.status, Body::from(Bytes::from(text.clone()))),
        None => refuse(RequestError::Stated(record.status)),
    }
}
