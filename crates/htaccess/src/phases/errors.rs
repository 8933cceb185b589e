//! Answers to errors, error documents, internal redirects.

use super::handler::is_body_too_large;
use super::server::{MAX_REDIRECTS, Server};
use crate::modules::core;
use crate::modules::core::{ErrorDocument, is_known, is_url};
use crate::modules::services::Services;
use crate::outcome::{Action, ErrorPage, Outcome};
use crate::record::Record;
use crate::support::lossy;
use crate::table::Table;
use crate::uri;
use crate::world::Level;

/// The step after an error or an internal redirect.
pub(super) enum Next {
    Answer(Box<Outcome>),
    /// The request continues under another path.
    Request(Box<Record>),
}

impl Server<'_> {
    /// Answers a request with a status: the text of its error document, a redirect, or the server's
    /// own text.
    ///
    /// An error of a request that is the answer to another error has no error document: the first
    /// one is answered.
    pub(super) fn die(&self, mut record: Box<Record>, status: u16) -> Next {
        let status = if is_known(status) { status } else { 500 };
        let is_second = record.status != 200
            && record.previous.as_ref().is_some_and(|first| first.status != 200);
        if is_second {
            return Next::Answer(Box::new(first_error(record, status)));
        }
        let is_too_large = !WITHOUT_BODY.contains(&status) && is_body_too_large(&record);
        record.status = status;
        let mut document = self.error_document(&record, status);
        if document.is_some() {
            self.world.explain(&|| format!("ErrorDocument for {status}"));
        }
        let mut page = ErrorPage::default();
        let is_local =
            matches!(&document, Some(Document::Target(target)) if target.starts_with(b"/"));
        if is_too_large && !is_local {
            // Apache reads the body before it answers, and fails.
            (record.status, page.also) = (413, Some(status));
            document = self.error_document(&record, 413);
            document = document.filter(|document| matches!(document, Document::Text(_)));
        }
        if record.status == 413 {
            // The fields were those of the first answer.
            record.err_headers_out = Table::default();
        }
        match document {
            None => {}
            Some(Document::Text(text)) => page.text = Some(text),
            Some(Document::Target(target)) if target.starts_with(b"/") => {
                let method = std::mem::replace(&mut record.method, b"GET".to_vec());
                record.env.set("REQUEST_METHOD", method);
                if let Some(notes) = record.notes.get(b"error-notes").map(<[u8]>::to_vec) {
                    record.env.set("ERROR_NOTES", notes);
                }
                return self.redirect(record, &target);
            }
            Some(Document::Target(target)) if is_url(&target) => {
                record.status = 302;
                record.headers_out.set("Location", target);
            }
            Some(Document::Target(target)) => {
                let target = String::from_utf8_lossy(&target);
                self.world
                    .log(Level::Error, &format!("Invalid error redirection directive: {target}"));
                page.also = Some(500);
            }
        }
        Next::Answer(Box::new(Outcome {
            record,
            action: Action::Error(page),
            is_unprepared: false,
        }))
    }

    fn error_document(&self, record: &Record, status: u16) -> Option<Document> {
        let document = record.config.of::<core::Config>().error_document(status)?;
        let value = |text| {
            self.text(record, text).unwrap_or_else(|error| {
                let text = format!("Can't evaluate error document: {error}");
                self.world.log(Level::Error, &text);
                Vec::new()
            })
        };
        match document {
            ErrorDocument::Default => None,
            ErrorDocument::Message(text) => Some(Document::Text(value(text))),
            ErrorDocument::Target(text) => Some(Document::Target(value(text))),
        }
    }

    /// Redirects a request to another path inside the server.
    pub(super) fn redirect(&self, mut record: Box<Record>, target: &[u8]) -> Next {
        if record.redirects >= MAX_REDIRECTS {
            let text = format!(
                "Request exceeded the limit of {MAX_REDIRECTS} internal redirects due to probable \
                 configuration error."
            );
            self.world.log(Level::Error, &text);
            return if record.status == 200 {
                self.die(record, 500)
            } else {
                Next::Answer(Box::new(first_error(record, 500)))
            };
        }
        self.world.explain(&|| format!("the request goes on as {}", lossy(target)));
        let (path, args) = uri::split(target);
        let mut headers_out = Table::default();
        let location = record.headers_out.get(b"Location");
        if let Some(location) = location.filter(|_| (300..400).contains(&record.status)) {
            headers_out.set("Location", location);
        }
        if record.notes.get(b"redirect-keeps-vary").is_some()
            && let Some(vary) = record.headers_out.get(b"Vary")
        {
            headers_out.set("Vary", vary);
        }
        let mut env = Table::default();
        for (name, value) in record.env.iter() {
            env.add([b"REDIRECT_", name].concat(), value);
        }
        env.set("REDIRECT_STATUS", record.status.to_string());
        let next = Record {
            connection: record.connection.clone(),
            request_line: record.request_line.clone(),
            method: record.method.clone(),
            protocol: record.protocol.clone(),
            unparsed_uri: target.to_vec(),
            uri: path.to_vec(),
            args: args.map(<[u8]>::to_vec),
            headers_in: std::mem::take(&mut record.headers_in),
            headers_out,
            err_headers_out: std::mem::take(&mut record.err_headers_out),
            env,
            status: record.status,
            config: self.site.config.clone(),
            is_sub_request: record.is_sub_request,
            main: record.main.clone(),
            redirects: record.redirects + 1,
            previous: Some(record),
            ..Record::default()
        };
        Next::Request(Box::new(next))
    }
}

/// Statuses for which Apache does not read the body: it closes the connection.
const WITHOUT_BODY: &[u16] = &[400, 408, 411, 413, 414, 500, 501, 503];

enum Document {
    Text(Vec<u8>),
    Target(Vec<u8>),
}

/// Returns the answer to the first error of a chain of requests; `status` is that of the last.
fn first_error(mut record: Box<Record>, status: u16) -> Outcome {
    while let Some(mut previous) = record.previous.take_if(|previous| previous.status != 200) {
        previous.headers_in = std::mem::take(&mut record.headers_in);
        previous.err_headers_out = std::mem::take(&mut record.err_headers_out);
        record = previous;
    }
    let action = Action::Error(ErrorPage { text: None, also: Some(status) });
    Outcome { record, action, is_unprepared: false }
}
