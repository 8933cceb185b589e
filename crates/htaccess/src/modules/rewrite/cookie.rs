//! The flag `CO`: sets a cookie.

use howdah_text::date::Date;

use crate::expr::number;
use crate::record::Record;

/// Adds the cookie that a text such as `name:value:domain:minutes:path:secure:httponly:samesite`
/// describes, once a request. A semicolon at the start makes semicolons the separators.
pub(super) fn add(record: &mut Record, text: &[u8]) {
    let (separator, text) = match text {
        [b';', text @ ..] => (b';', text),
        text => (b':', text),
    };
    let mut parts = text.split(|byte| *byte == separator).filter(|part| !part.is_empty());
    let (Some(name), Some(value), Some(domain)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let note = [name, b"_rewrite"].concat();
    if super::has_note(record, &note) {
        return;
    }
    let [minutes, path, secure, http_only, same_site] = std::array::from_fn(|_| parts.next());
    let mut cookie =
        [name, b"=", value, b"; path=", path.unwrap_or(b"/"), b"; domain=", domain].concat();
    let minutes = minutes.map_or(0, number);
    if minutes != 0 {
        let time = minutes.saturating_mul(60).saturating_add(record.connection.time.0);
        cookie.extend_from_slice(b"; expires=");
        cookie.extend_from_slice(date(time).as_bytes());
    }
    // Apache's text ends at the first attribute that is missing.
    if is_set(secure, b"secure") {
        cookie.extend_from_slice(b"; secure");
        if is_set(http_only, b"httponly") {
            cookie.extend_from_slice(b"; HttpOnly");
        }
    }
    if let Some(site) =
        same_site.filter(|site| *site != b"0" && !site.eq_ignore_ascii_case(b"false"))
    {
        cookie.extend_from_slice(b"; SameSite=");
        cookie.extend_from_slice(site);
    }
    record.err_headers_out.add("Set-Cookie", cookie);
    record.notes.set(note, "set");
}

/// Takes cookies over that rules have set in a sub-request: they are those of the request itself.
pub(crate) fn adopt(record: &mut Record, sub: &Record) {
    for cookie in sub.err_headers_out.all(b"Set-Cookie") {
        let name = cookie.split(|byte| *byte == b'=').next().unwrap_or_default();
        let note = [name, b"_rewrite"].concat();
        if sub.notes.get(&note).is_some() && !super::has_note(record, &note) {
            record.err_headers_out.add("Set-Cookie", cookie);
            record.notes.set(note, "set");
        }
    }
}

fn is_set(value: Option<&[u8]>, name: &[u8]) -> bool {
    value.is_some_and(|value| {
        value == b"1" || value.eq_ignore_ascii_case(b"true") || value.eq_ignore_ascii_case(name)
    })
}

/// Formats a time in seconds since 1970 as `Tue, 24-Nov-2026 04:47:31 GMT`.
fn date(seconds: i64) -> String {
    let date = Date::of(seconds);
    let (day_name, month) = (date.day_name(), date.month_name());
    let Date { year, day, hour, minute, second, .. } = date;
    format!("{day_name}, {day:02}-{month}-{year:04} {hour:02}:{minute:02}:{second:02} GMT")
}
