//! Values of the codes of PHP-FPM's access log.

use std::io::Write;

use howdah_config::{FpmLog, FpmPart, FpmTime};
use howdah_http::exchange::RequestRecord;
use howdah_http::message::{Request, ShownAddress};
use howdah_sys::clock;
use howdah_text::base64;

/// Returns true if a request has no line, as its path is one of `suppress_paths`.
pub fn is_suppressed(log: &FpmLog, record: &RequestRecord<'_>) -> bool {
    let Some(request) = record.request.filter(|_| !log.suppressed.is_empty()) else {
        return false;
    };
    let path = path(request);
    request.query.is_empty()
        && matches!(&request.method[..], b"GET" | b"HEAD")
        && (200..300).contains(&record.status)
        && body_length(request) == 0
        && log.suppressed.iter().any(|one| one.as_bytes() == path)
}

/// Appends the value of a code. Returns false if there is none, and PHP-FPM writes `-`.
pub fn write(part: &FpmPart, record: &RequestRecord<'_>, line: &mut Vec<u8>) -> bool {
    let request = record.request;
    let script = || request?.handling.script_facts();
    // The connection has waited for a process in PHP-FPM's backlog, before the time that it counts.
    let ran = || script().map_or(record.elapsed.as_micros() as u64, |script| script.ran_us);
    match part {
        FpmPart::BodyLength => number(line, request.map_or(0, body_length)),
        FpmPart::Duration(FpmTime::Seconds) => thousandths(line, ran() / 1000),
        FpmPart::Duration(FpmTime::Milliseconds) => thousandths(line, ran()),
        FpmPart::Duration(FpmTime::Microseconds) => number(line, ran()),
        FpmPart::Ended(format) => time(line, clock::wall_seconds(), format.as_deref()),
        FpmPart::Literal(text) => put(line, text.as_bytes()),
        FpmPart::Memory(unit) => {
            number(line, script().map_or(0, |script| script.peak_memory) / (*unit).max(1))
        }
        FpmPart::Method => present(line, request.map_or(b"", |request| &request.method[..])),
        FpmPart::Parameter(name) => {
            present(line, request.and_then(|one| parameter(one, name)).unwrap_or_default())
        }
        // The supervisor: this is the router.
        FpmPart::Parent => {
            let parent = rustix::process::getppid();
            parent.is_some_and(|id| number(line, id.as_raw_nonzero().get().unsigned_abs().into()))
        }
        FpmPart::Path => put(line, request.map_or(b"", path)),
        FpmPart::Peer => match record.connection.peer {
            Some(peer) => write!(line, "{}", ShownAddress(Some(peer.ip()))).is_ok(),
            None => false,
        },
        FpmPart::Pool => {
            let name = request.and_then(|request| request.handling.site());
            present(line, name.as_deref().unwrap_or_default().as_bytes())
        }
        FpmPart::Process => match request.and_then(|request| request.handling.process()) {
            Some(process) => number(line, process.into()),
            None => false,
        },
        FpmPart::Processor => {
            let used = script().map_or(0, |script| script.cpu_us);
            let percent = used as f64 / ran().max(1) as f64 * 100.0;
            write!(line, "{percent:.2}").is_ok()
        }
        FpmPart::Query => put(line, request.map_or(b"", |request| &request.query[..])),
        FpmPart::QueryMark => {
            put(line, if request.is_some_and(|one| !one.query.is_empty()) { b"?" } else { b"" })
        }
        FpmPart::ResponseField(name) => {
            let of_name = |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name.as_bytes());
            present(line, record.fields.iter().find(of_name).map_or(b"", |(_, value)| value))
        }
        FpmPart::Script => {
            let file = request.and_then(|request| parameter(request, "SCRIPT_FILENAME"));
            present(line, file.unwrap_or_default())
        }
        FpmPart::Started(format) => {
            let began = clock::wall_seconds().saturating_sub(record.elapsed.as_secs());
            time(line, began, format.as_deref())
        }
        FpmPart::Status => number(line, record.status.into()),
        FpmPart::User => put(line, &request.map(user).unwrap_or_default()),
    }
}

/// Returns a parameter of the web server.
fn parameter<'a>(request: &'a Request, name: &str) -> Option<&'a [u8]> {
    let all = request.additions.as_ref()?.parameters.as_ref()?;
    all.iter().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| &value[..])
}

fn path(request: &Request) -> &[u8] {
    parameter(request, "SCRIPT_NAME").unwrap_or(&request.path)
}

fn body_length(request: &Request) -> u64 {
    let text = request.fields.get("content-length").and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the user of `Authorization: Basic`, whose password nobody has checked, as PHP has it.
fn user(request: &Request) -> Vec<u8> {
    let credentials = request.fields.get("authorization").and_then(|text| {
        let (scheme, rest) = text.split_at_checked(6)?;
        scheme.eq_ignore_ascii_case(b"basic ").then(|| base64::decode_prefix(rest))
    });
    let mut credentials = credentials.unwrap_or_default();
    match credentials.iter().position(|byte| *byte == b':') {
        Some(end) => credentials.truncate(end),
        None => credentials.clear(),
    }
    credentials
}

fn time(line: &mut Vec<u8>, seconds: u64, format: Option<&str>) -> bool {
    match format {
        Some(format) => clock::formatted(seconds, format, line),
        None => {
            let mut text = String::new();
            clock::log_date(seconds, &mut text);
            line.extend_from_slice(text.as_bytes());
        }
    }
    true
}

fn thousandths(line: &mut Vec<u8>, number: u64) -> bool {
    write!(line, "{}.{:03}", number / 1000, number % 1000).is_ok()
}

fn number(line: &mut Vec<u8>, number: u64) -> bool {
    write!(line, "{number}").is_ok()
}

fn put(line: &mut Vec<u8>, value: &[u8]) -> bool {
    line.extend_from_slice(value);
    true
}

/// Appends a text. Returns false if it is empty.
fn present(line: &mut Vec<u8>, value: &[u8]) -> bool {
    !value.is_empty() && put(line, value)
}
