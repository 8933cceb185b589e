//! The head of a response.

use howdah_text::base64;
use howdah_text::token::is_token;

use super::handler::{ALLOWED, REFUSED_METHOD};
use super::script_variables;
use super::server::Server;
use super::services::add_vary;
use crate::config::ModuleConfig;
use crate::modules::accept_list::{elements, join_vary};
use crate::modules::core;
use crate::modules::filter::{self, Compression};
use crate::modules::{expires, headers, mime};
use crate::outcome::Action;
use crate::record::Record;
use crate::table::Table;
use crate::work;
use crate::world::{Level, Reading};

impl Server<'_> {
    /// Applies directives to the head of a response and puts all of it into `headers_out`.
    pub(crate) fn finish(&self, record: &mut Record, action: &Action) -> Compression {
        let (compression, has_overrun) = work::checked(|| self.finish_head(record, action));
        if has_overrun && !record.is_head_invalid {
            self.world.log(
                Level::Error,
                "the work limit of patterns was exceeded, no fields can be sent",
            );
            refuse_head(record);
        }
        if record.is_head_invalid { Compression::None } else { compression }
    }

    fn finish_head(&self, record: &mut Record, action: &Action) -> Compression {
        let is_own = matches!(action, Action::Error(_));
        add_vary(record);
        if is_own {
            self.begin_error(record);
        }
        expires::response(record);
        let compression = self.compression(record, action);
        if compression == Compression::Gzip {
            record.headers_out.unset(b"Content-MD5");
        }
        // Conditions see the length of a file; the connection writes the field itself.
        let shows_length = matches!(action, Action::File)
            && compression != Compression::Gzip
            && !record.config.of::<headers::Config>().is_constant();
        if shows_length {
            record.headers_out.set("Content-Length", record.file.size.to_string());
        }
        if is_own {
            headers::error_response(record, self.world, self);
        } else {
            // A request without a handler is handled by its type, which `%{HANDLER}` shows only
            // now.
            if let Action::Script(script) = action
                && !record.config.of::<headers::Config>().is_constant()
            {
                script_variables::add(record, script);
            }
            let is_unhandled = record.handler.is_none();
            if is_unhandled {
                record.handler = Some(implied_handler(record));
            }
            headers::response(record, self.world, self);
            if is_unhandled {
                record.handler = None;
            }
        }
        add_vary(record);
        self.finish_type(record);
        if !record.err_headers_out.is_empty() {
            let mut all = std::mem::take(&mut record.err_headers_out);
            // The type is one value, whichever table it comes from.
            if record.content_type.is_some() && record.headers_out.get(b"Content-Type").is_some() {
                all.unset(b"Content-Type");
            }
            for (name, value) in record.headers_out.iter() {
                all.add(name, value);
            }
            record.headers_out = all;
        }
        self.finish_languages(record);
        if record.env.get(b"force-no-vary").is_some() {
            record.headers_out.unset(b"Vary");
        }
        join_vary(&mut record.headers_out);
        if !record.headers_out.iter().all(|(name, value)| is_field(name, value)) {
            self.world.log(
                Level::Error,
                "Response header value contains invalid characters, aborting request",
            );
            refuse_head(record);
        }
        compression
    }

    /// `ContentDigest`.
    pub(super) async fn add_digest(&self, record: &mut Record) {
        if record.config.of::<core::Config>().content_digest != Some(true) {
            return;
        }
        let sum = Reading::Digest(MAX_DIGEST_BYTES);
        if let Ok(sum) = self.world.read(&record.filename, sum).await {
            record.headers_out.set("Content-MD5", base64::encode(&sum));
        }
    }

    /// Decides about compression. Errors of the server pass no filters.
    fn compression(&self, record: &mut Record, action: &Action) -> Compression {
        let length = match action {
            Action::Error(_) | Action::Options => return Compression::None,
            Action::File => Some(record.file.size),
            Action::Page(text) => Some(text.len() as u64),
            Action::Script(_) if record.method == b"HEAD" => return Compression::None,
            Action::Script(_) => record.length,
        };
        let by_suffix = std::mem::take(&mut record.output_filters);
        filter::compression(record, self.world, self, &by_suffix, length)
    }

    /// Drops the state of the response that did not come about: of its header fields only those for
    /// all responses stay, and `Location`.
    fn begin_error(&self, record: &mut Record) {
        if matches!(record.status, 204 | 304) {
            record.content_type = None;
            return;
        }
        let location = record.headers_out.get(b"Location").map(<[u8]>::to_vec);
        record.headers_out = std::mem::take(&mut record.err_headers_out);
        record.err_headers_out = Table::default();
        match location {
            Some(location) if (300..400).contains(&record.status) || record.status == 201 => {
                record.headers_out.set("Location", location);
            }
            _ => {}
        }
        if matches!(record.status, 405 | 501) {
            let is_refused =
                record.notes.get(REFUSED_METHOD).is_some() && record.method != b"TRACE";
            record.headers_out.set("Allow", if is_refused { ALLOWED } else { "" });
        }
        record.content_languages.clear();
        record.content_encoding = None;
        let kind = match record.env.get(b"suppress-error-charset") {
            Some(_) => "text/html",
            None => "text/html; charset=iso-8859-1",
        };
        record.content_type = Some(kind.as_bytes().to_vec());
    }

    /// Puts type and encoding among the header fields.
    fn finish_type(&self, record: &mut Record) {
        if matches!(record.status, 204 | 304) {
            return;
        }
        if let Some(kind) = &record.content_type {
            let kind = mime::sent_type(record.config.of::<mime::Config>(), kind);
            record.headers_out.set("Content-Type", kind);
        }
        if let Some(encoding) = &record.content_encoding {
            record.headers_out.set("Content-Encoding", encoding.as_slice());
        }
    }

    /// Adds the languages that directives have set to those of the file.
    fn finish_languages(&self, record: &mut Record) {
        if matches!(record.status, 204 | 304) || record.content_languages.is_empty() {
            return;
        }
        let mut languages = record.content_languages.clone();
        for language in elements(record.headers_out.get(b"Content-Language").unwrap_or_default()) {
            if !languages.iter().any(|known| known.eq_ignore_ascii_case(&language)) {
                languages.push(language);
            }
        }
        record.headers_out.set("Content-Language", languages.join(&b','));
    }
}

/// Replaces a head that cannot be sent with that of an error.
fn refuse_head(record: &mut Record) {
    record.is_head_invalid = true;
    record.status = 500;
    record.headers_out = Table::default();
    record.headers_out.set("Content-Type", "text/html; charset=iso-8859-1");
}

/// Returns true for a name and value that a response can have.
fn is_field(name: &[u8], value: &[u8]) -> bool {
    let is_text = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
    is_token(name) && value.iter().all(is_text)
}

/// Largest file that `ContentDigest` reads, in bytes.
const MAX_DIGEST_BYTES: usize = 8 << 20;

/// Name of the handler of a request that has none: its type without parameters.
fn implied_handler(record: &Record) -> Vec<u8> {
    let Some(kind) = &record.content_type else { return b"default-handler".to_vec() };
    let end = memchr::memchr(b';', kind).unwrap_or(kind.len());
    kind[..end].to_vec()
}
