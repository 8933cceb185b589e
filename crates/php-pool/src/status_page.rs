//! Status pages in the formats of PHP-FPM, for its monitoring tools: text, HTML, XML, JSON and
//! OpenMetrics, with PHP-FPM's fields in its order, then Howdah's.
//!
//! The router answers from its own counters, even if every worker is busy.

use howdah_text::html;

mod fields;
mod metrics;
mod pool;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use bytes::Bytes;
use howdah_http::body::Body;
use howdah_http::message::Response;
use serde_json::{Map, Value as Json};

use self::fields::{Field, Value};
use crate::application::Application;
use crate::status::ProcessStatus;

pub use self::pool::Pool;

/// Whose page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// With Howdah's fields behind PHP-FPM's.
    Howdah,
    /// PHP-FPM's page, for a web server that passes requests to it.
    PhpFpm {
        /// It is at an address of its own (`pm.status_listen`). Otherwise, a process of the pool
        /// answers the request in PHP-FPM, and one more is active.
        is_apart: bool,
    },
}

/// Format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Html,
    Xml,
    Json,
    OpenMetrics,
    Text,
}

impl Pool {
    /// Returns the value of PHP's `fpm_get_status()`. `additions`: with Howdah's fields behind
    /// PHP-FPM's.
    pub fn to_value(&self, additions: bool) -> Json {
        let members = |mut fields: Vec<Field<'_>>| {
            if !additions {
                fields.truncate(fields::PHP_FPM);
            }
            members(fields)
        };
        let mut pool = members(fields::of_pool(self));
        let processes = self.status.processes.iter();
        let processes = processes.map(|process| Json::Object(members(fields::for_php(process))));
        pool.insert("procs".to_owned(), processes.collect());
        Json::Object(pool)
    }
}

/// Returns the page of an application in the format that the query requests.
pub fn page(application: &Application, query: &[u8], view: View) -> Response {
    let asks = |name: &str| {
        let mut names =
            query.split(|b| *b == b'&').filter_map(|part| part.split(|b| *b == b'=').next());
        names.any(|found| found == name.as_bytes())
    };
    let formats = [
        ("html", Format::Html),
        ("xml", Format::Xml),
        ("json", Format::Json),
        ("openmetrics", Format::OpenMetrics),
    ];
    let format = formats.into_iter().find(|(name, _)| asks(name)).map_or(Format::Text, |(_, f)| f);
    let mut pool = Pool::of(application, asks("full"));
    if view == (View::PhpFpm { is_apart: false }) {
        pool.status.count_one_more();
    }
    let php = application.queue.exposed_php_version();
    let (name, value) = format.media_type();
    let page = begin(php.as_deref(), format.write(&pool, asks("full"), view));
    unsniffed(uncached(page).with(name, value))
}

/// Returns the ping page of an application that accepts requests.
pub fn pong(application: &Application, text: &str) -> Response {
    let php = application.queue.exposed_php_version();
    let (name, value) = Format::Text.media_type();
    unsniffed(uncached(begin(php.as_deref(), text.to_owned()).with(name, value)))
}

/// Returns a page. Monitors of PHP-FPM read its fields, so names, values and their order are those of
/// PHP-FPM. `php` is the version of PHP, unless it is hidden.
fn begin(php: Option<&str>, text: String) -> Response {
    let response = Response::new(200, Body::from(Bytes::from(text)));
    match php {
        Some(version) => response.with("X-Powered-By", format!("PHP/{version}")),
        None => response,
    }
}

fn uncached(page: Response) -> Response {
    page.with("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")
        .with("Cache-Control", "no-cache, no-store, must-revalidate, max-age=0")
}

/// Adds a field that PHP-FPM has not: visitors have chosen parts of the page.
fn unsniffed(page: Response) -> Response {
    page.with("X-Content-Type-Options", "nosniff")
}

impl Format {
    /// Returns the field with the media type. PHP writes it anew if the type begins with `text`, and
    /// adds the character set.
    fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Format::Html => ("Content-type", "text/html;charset=UTF-8"),
            Format::Xml => ("Content-type", "text/xml;charset=UTF-8"),
            Format::Json => ("Content-Type", "application/json"),
            Format::OpenMetrics => {
                ("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
            }
            Format::Text => ("Content-type", "text/plain;charset=UTF-8"),
        }
    }

    fn write(self, pool: &Pool, full: bool, view: View) -> String {
        let mut head = fields::of_pool(pool);
        let none = ProcessStatus::default();
        let mut names = fields::of_process(&none);
        let processes = pool.status.processes.iter().map(fields::of_process);
        let mut rows: Option<Vec<_>> = full.then(|| processes.collect());
        if view != View::Howdah {
            head.truncate(fields::PHP_FPM);
            let all = rows.iter_mut().flatten().chain([&mut names]);
            all.for_each(|row| row.truncate(fields::PHP_FPM_PROCESS));
        }
        match self {
            Format::Html => html(&head, &names, rows, view),
            Format::Xml => xml(&head, rows),
            Format::Json => json(&head, rows),
            Format::OpenMetrics => metrics::write(pool, view),
            Format::Text => text(&head, rows),
        }
    }
}

type Rows<'a> = Option<Vec<Vec<Field<'a>>>>;

fn text(head: &[Field<'_>], rows: Rows<'_>) -> String {
    let mut out = String::new();
    let lines = |fields: &[Field<'_>], out: &mut String| {
        for Field(name, value) in fields {
            // PHP-FPM spells only this name differently here.
            let name = if *name == "request uri" { "request URI" } else { name };
            let _ = writeln!(out, "{:<22}{}", format!("{name}:"), printable(&value.for_people()));
        }
    };
    lines(head, &mut out);
    for row in rows.unwrap_or_default() {
        out.push_str("\n************************\n");
        lines(&row, &mut out);
    }
    out
}

fn json(head: &[Field<'_>], rows: Rows<'_>) -> String {
    let object = |fields: &[Field<'_>]| {
        let member = |Field(name, value): &Field<'_>| {
            let value = match value {
                Value::Text(text) => Json::from(&**text).to_string(),
                value => value.for_programs(),
            };
            format!("\"{name}\":{value}")
        };
        fields.iter().map(member).collect::<Vec<_>>().join(",")
    };
    let mut out = format!("{{{}", object(head));
    if let Some(rows) = rows {
        let rows: Vec<_> = rows.iter().map(|row| format!("{{{}}}", object(row))).collect();
        let _ = write!(out, ", \"processes\":[{}]", rows.join(","));
    }
    out.push('}');
    out
}

fn xml(head: &[Field<'_>], rows: Rows<'_>) -> String {
    let element = |Field(name, value): &Field<'_>| {
        let (name, value) = (dashed(name), escaped(&value.for_programs()));
        format!("<{name}>{value}</{name}>")
    };
    let mut out = "<?xml version=\"1.0\" ?>\n<status>\n".to_owned();
    for field in head {
        let _ = writeln!(out, "{}", element(field));
    }
    if let Some(rows) = rows {
        out.push_str("<processes>\n");
        for row in rows {
            let elements: String = row.iter().map(element).collect();
            let _ = writeln!(out, "<process>{elements}</process>");
        }
        out.push_str("</processes>\n");
    }
    out.push_str("</status>\n");
    out
}

fn html(head: &[Field<'_>], names: &[Field<'_>], rows: Rows<'_>, view: View) -> String {
    let begin = match view {
        View::Howdah => {
            "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
             <title>Status</title></head>\n"
        }
        View::PhpFpm { .. } => {
            "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\" \
             \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd\">\n\
             <html xmlns=\"http://www.w3.org/1999/xhtml\" xml:lang=\"en\" lang=\"en\">\n\
             <head><title>PHP-FPM Status Page</title></head>\n"
        }
    };
    let mut out = format!("{begin}<body>\n<table>\n");
    for Field(name, value) in head {
        let value = escaped(&value.for_people());
        let _ = writeln!(out, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    out.push_str("</table>\n");
    if let Some(rows) = rows {
        let row = |cells: String| format!("<tr>{cells}</tr>\n");
        out.push_str("<table border=\"1\">\n");
        out.push_str(&row(names.iter().map(|Field(name, _)| format!("<th>{name}</th>")).collect()));
        for fields in rows {
            let cell =
                |Field(_, value): &Field<'_>| format!("<td>{}</td>", escaped(&value.for_people()));
            out.push_str(&row(fields.iter().map(cell).collect()));
        }
        out.push_str("</table>\n");
    }
    out.push_str("</body></html>\n");
    out
}

/// Returns a name in the spelling of XML and PHP.
fn dashed(name: &str) -> String {
    name.replace(' ', "-")
}

fn members(fields: Vec<Field<'_>>) -> Map<String, Json> {
    let member = |Field(name, value): Field<'_>| (dashed(name), value.into_json());
    fields.into_iter().map(member).collect()
}

/// Replaces control characters in text from clients, so that it cannot add a line or control a
/// terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Escapes text from clients for HTML and XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    html::escape(&printable(text), &mut out);
    out
}
