//! Names of handlers that stand for PHP.
//!
//! Each host has its own: `application/x-httpd-ea-php82` (cPanel), `application/x-lsphp84`
//! (LiteSpeed), `x-httpd-php81`, `fcgid-script`,
//! `proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost` (PHP-FPM). A site that has moved keeps
//! the lines of its former host.

/// Returns true if a handler, in lower case, names PHP and does not show its source.
pub fn names_php(handler: &[u8]) -> bool {
    has(handler, b"php") && !handler.ends_with(b"-source")
}

/// Returns true if a handler, in lower case, names a way to run PHP that may also stand for other
/// programs.
pub(crate) fn may_name_php(handler: &[u8]) -> bool {
    handler == b"fcgid-script" || handler.starts_with(b"proxy:") && has(handler, b"fcgi://")
}

/// Returns true if a media type, in lower case, is a name of PHP's handler: Apache takes a type for
/// a handler if there is no other.
pub(crate) fn is_php_type(media_type: &[u8]) -> bool {
    media_type.starts_with(b"application/x-") && names_php(media_type)
}

/// Returns true if a handler, in lower case, has another program than PHP run a file, as a CGI
/// program or in another language: its source is not meant to be seen.
pub fn names_program(handler: &[u8]) -> bool {
    PROGRAMS.contains(&handler)
}

/// Returns the version of PHP in the name of a handler: `8.4` for `application/x-lsphp84`, `7` for
/// `php7-script`.
pub fn php_version(handler: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(handler).ok()?.to_ascii_lowercase();
    text.match_indices("php").find_map(|(at, _)| {
        let rest = text.get(at + 3..)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = rest.get(..end)?.trim_end_matches('.');
        let (major, minor) = match number.split_once('.') {
            Some((major, minor)) => (major, minor.split('.').next().unwrap_or_default()),
            None => number.split_at_checked(1)?,
        };
        (major.len() == 1 && minor.len() <= 2).then(|| match minor {
            "" => major.to_owned(),
            _ => format!("{major}.{minor}"),
        })
    })
}

/// Handlers of mod_cgi, mod_fcgid, mod_fastcgi, mod_wsgi, mod_perl, mod_python and mod_lua.
const PROGRAMS: [&[u8]; 8] = [
    b"cgi-script",
    b"application/x-httpd-cgi",
    b"fcgid-script",
    b"fastcgi-script",
    b"wsgi-script",
    b"perl-script",
    b"mod_python",
    b"lua-script",
];

fn has(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handlers_of_other_hosts_name_php() {
        for (name, version) in [
            ("application/x-lsphp84", Some("8.4")),
            ("application/x-httpd-ea-php82", Some("8.2")),
            ("application/x-httpd-alt-php83___lsphp", Some("8.3")),
            ("application/x-httpd-php5", Some("5")),
            ("x-httpd-php82", Some("8.2")),
            ("php7-fcgi", Some("7")),
            ("php-fcgid", None),
            ("application/x-httpd-suphp", None),
            ("proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost", Some("8.2")),
        ] {
            assert!(names_php(name.as_bytes()), "{name}");
            assert_eq!(php_version(name.as_bytes()).as_deref(), version, "{name}");
        }
        for name in
            ["fcgid-script", "proxy:fcgi://127.0.0.1:9000", "proxy:unix:/run/a.sock|fcgi://x"]
        {
            assert!(may_name_php(name.as_bytes()) && !names_php(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn other_handlers_do_not() {
        for name in [
            "none",
            "default-handler",
            "text/plain",
            "cgi-script",
            "server-parsed",
            "proxy:http://127.0.0.1:9000",
            "application/x-httpd-php-source",
        ] {
            assert!(!names_php(name.as_bytes()) && !may_name_php(name.as_bytes()), "{name}");
        }
        assert!(is_php_type(b"application/x-httpd-php5") && !is_php_type(b"text/x-php"));
        assert_eq!(php_version(b"php12345"), None);
    }
}
