//! `mod_expires`: `Expires` and `Cache-Control: max-age` by content type.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place, is_on};
use crate::record::{FileKind, Record};
use crate::support::{atoi, has_prefix, lossy, merge, without_parameters, word};
use crate::table::Table;

/// Lifetimes by content type.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// True if the file has a directive of this module.
    is_set: bool,
    active: Option<bool>,
    default: Option<Lifetime>,
    by_type: Vec<(Vec<u8>, Lifetime)>,
    has_wildcards: bool,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Expires;

    fn merged(&self, child: &Config) -> Config {
        if !child.is_set {
            return self.clone();
        }
        let mut by_type = child.by_type.clone();
        let is_new =
            |name: &[u8]| !child.by_type.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        by_type.extend(self.by_type.iter().filter(|(name, _)| is_new(name)).cloned());
        Config {
            is_set: true,
            active: child.active.or(self.active),
            default: child.default.or(self.default),
            by_type,
            // Apache takes the child's: the parent's `type/*` is lost in a child with directives of
            // its own.
            has_wildcards: child.has_wildcards,
        }
    }

    fn is_constant(&self) -> bool {
        self.active != Some(true)
    }
}

impl Config {
    fn lifetime(&self, content_type: &[u8]) -> Option<Lifetime> {
        let of = |wanted: &[u8]| {
            let mut all = self.by_type.iter();
            all.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, lifetime)| *lifetime)
        };
        let by_wildcard = || {
            let slash = content_type
                .iter()
                .position(|&byte| byte == b'/')
                .filter(|_| self.has_wildcards)?;
            of(&[content_type.get(..slash)?, b"/*"].concat())
        };
        of(without_parameters(content_type)).or_else(by_wildcard).or(self.default)
    }
}

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "ExpiresActive",
        arguments: Arguments::Flag,
        class: Override::INDEXES,
        usage: "Limited to 'on' or 'off'",
        apply: active,
    },
    Directive {
        name: "ExpiresByType",
        arguments: Arguments::Two,
        class: Override::INDEXES,
        usage: "a MIME type followed by an expiry date code",
        apply: by_type,
    },
    Directive {
        name: "ExpiresDefault",
        arguments: Arguments::One,
        class: Override::INDEXES,
        usage: "an expiry date code",
        apply: default,
    },
];

/// Sets the header fields of a response that is no error; not for sub-requests. Comes before
/// [`headers::response`](crate::modules::headers::response).
pub fn response(record: &mut Record) {
    let config = record.config.clone();
    let config = config.of::<Config>();
    let is_error = (400..600).contains(&record.status);
    if config.active != Some(true) || is_error || record.is_sub_request {
        return;
    }
    if record.err_headers_out.get(b"Expires").is_some()
        || record.headers_out.get(b"Expires").is_some()
    {
        return;
    }
    let Some(lifetime) = config.lifetime(record.content_type.as_deref().unwrap_or_default()) else {
        return;
    };
    let (now, micros) = record.connection.time;
    let base = match lifetime.base {
        Base::Access => now,
        Base::Modification if record.file.kind == FileKind::None => return,
        Base::Modification => record.file.modified,
    };
    let expires = base.saturating_add(lifetime.seconds).max(now);
    let mut age = expires.saturating_sub(now);
    // The time from now to a full second; a time of access has the fraction of now itself.
    if lifetime.base == Base::Modification && micros > 0 {
        age = age.saturating_sub(1).max(0);
    }
    let table: &mut Table = &mut record.headers_out;
    merge(table, b"Cache-Control", format!("max-age={age}").as_bytes());
    table.set("Expires", howdah_text::date::http(expires));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lifetime {
    base: Base,
    seconds: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Access,
    Modification,
}

fn active(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    config.of_mut::<Config>().is_set = true;
    config.of_mut::<Config>().active = Some(is_on(arguments));
    Ok(())
}

fn by_type(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let [content_type, code] = arguments else { return Err(String::new()) };
    let Some(slash) = content_type.iter().rposition(|&byte| byte == b'/') else {
        return Err("Invalid mimetype: should contain a slash".into());
    };
    let config = config.of_mut::<Config>();
    config.is_set = true;
    config.has_wildcards |= content_type.get(slash + 1..) == Some(b"*");
    let lifetime = parse(code).map_err(|error| {
        format!("'ExpiresByType {} {}': {error}", lossy(content_type), lossy(code))
    })?;
    match config.by_type.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(content_type)) {
        Some((_, other)) => *other = lifetime,
        None => config.by_type.push((content_type.to_vec(), lifetime)),
    }
    Ok(())
}

fn default(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let [code] = arguments else { return Err(String::new()) };
    let lifetime =
        parse(code).map_err(|error| format!("'ExpiresDefault {}': {error}", lossy(code)))?;
    config.of_mut::<Config>().is_set = true;
    config.of_mut::<Config>().default = Some(lifetime);
    Ok(())
}

/// Reads `A3600`, `M3600` or `access plus 1 month 2 days`. Only the first letters of words count.
fn parse(code: &[u8]) -> Result<Lifetime, String> {
    match code.split_first() {
        Some((b'A', seconds)) => {
            return Ok(Lifetime { base: Base::Access, seconds: atoi(seconds) });
        }
        Some((b'M', seconds)) => {
            return Ok(Lifetime { base: Base::Modification, seconds: atoi(seconds) });
        }
        _ => {}
    }
    let mut line = code;
    let first = word(&mut line);
    let base = match first.first().map(u8::to_ascii_lowercase) {
        Some(b'n' | b'a') => Base::Access,
        Some(b'm') => Base::Modification,
        _ => return Err(format!("bad expires code, unrecognised <base> '{}'", lossy(&first))),
    };
    let mut next = word(&mut line);
    if has_prefix(&next, b"p") {
        next = word(&mut line);
    }
    // Apache adds C integers of 32 bits.
    let mut seconds = 0i32;
    while !next.is_empty() {
        if !next.first().is_some_and(u8::is_ascii_digit) {
            let text = lossy(&next);
            return Err(format!("bad expires code, numeric value expected <num> '{text}'"));
        }
        let number = atoi(&next) as i32;
        let unit = word(&mut line);
        if unit.is_empty() {
            return Err("bad expires code, missing <type>".into());
        }
        let factor = match unit.to_ascii_lowercase().as_slice() {
            [b'y', ..] => 60 * 60 * 24 * 365,
            [b'm', b'o', ..] => 60 * 60 * 24 * 30,
            [b'w', ..] => 60 * 60 * 24 * 7,
            [b'd', ..] => 60 * 60 * 24,
            [b'h', ..] => 60 * 60,
            [b'm', b'i', ..] => 60,
            [b's', ..] => 1,
            _ => return Err(format!("bad expires code, unrecognised <type>'{}'", lossy(&unit))),
        };
        seconds = seconds.wrapping_add(number.wrapping_mul(factor));
        next = word(&mut line);
    }
    Ok(Lifetime { base, seconds: i64::from(seconds) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::{apply, record};

    #[test]
    fn codes_have_two_syntaxes() {
        for (code, expected) in [
            ("A3600", Ok((Base::Access, 3600))),
            ("M-5", Ok((Base::Modification, -5))),
            ("access plus 1 month", Ok((Base::Access, 2_592_000))),
            ("now", Ok((Base::Access, 0))),
            ("modification 1 year 2 hours", Ok((Base::Modification, 31_543_200))),
            ("access plus 5 minutes", Ok((Base::Access, 300))),
            ("never", Ok((Base::Access, 0))),
            ("soon", Err("bad expires code, unrecognised <base> 'soon'")),
            ("access plus x", Err("bad expires code, numeric value expected <num> 'x'")),
            ("access plus 1", Err("bad expires code, missing <type>")),
            ("access plus 1 m", Err("bad expires code, unrecognised <type>'m'")),
        ] {
            let expected = expected.map(|(base, seconds)| Lifetime { base, seconds });
            assert_eq!(parse(code.as_bytes()), expected.map_err(String::from), "{code}");
        }
    }

    fn sent(lines: &[&str], content_type: &str, status: u16) -> Option<Vec<u8>> {
        let mut record = record(apply(DIRECTIVES, lines).unwrap());
        record.content_type = Some(content_type.into());
        record.status = status;
        response(&mut record);
        record.headers_out.get(b"Cache-Control").map(<[u8]>::to_vec)
    }

    #[test]
    fn types_come_before_wildcards_and_the_default() {
        let lines = [
            "ExpiresActive On",
            "ExpiresDefault A1",
            "ExpiresByType text/css A2",
            "ExpiresByType image/* A3",
        ];
        for (content_type, status, expected) in [
            ("text/css; charset=utf-8", 200, Some("max-age=2")),
            ("image/png", 200, Some("max-age=3")),
            ("text/html", 200, Some("max-age=1")),
            ("text/html", 304, Some("max-age=1")),
            ("text/html", 404, None),
        ] {
            let expected = expected.map(|text| text.as_bytes().to_vec());
            assert_eq!(sent(&lines, content_type, status), expected, "{content_type}");
        }
        assert_eq!(sent(&["ExpiresDefault A1"], "text/html", 200), None);
    }

    #[test]
    fn a_child_without_wildcards_turns_those_of_the_parent_off() {
        let parent = apply(DIRECTIVES, &["ExpiresByType image/* A3", "ExpiresActive on"])
            .unwrap()
            .of::<Config>()
            .clone();
        let child = apply(DIRECTIVES, &["ExpiresDefault A1"]).unwrap().of::<Config>().clone();
        assert_eq!(parent.lifetime(b"image/png").unwrap().seconds, 3);
        assert_eq!(parent.merged(&child).lifetime(b"image/png").unwrap().seconds, 1);
        assert_eq!(parent.merged(&Config::default()).lifetime(b"image/png").unwrap().seconds, 3);
    }
}
