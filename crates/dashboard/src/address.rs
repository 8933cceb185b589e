//! Hosts and origins of the page.
//!
//! Any web page can make a browser send requests to this machine and, with DNS rebinding, read the
//! responses. The host of a request must therefore be a name of the loopback interface, or that of
//! the page behind a proxy; what changes something must come from this origin.

use howdah_control::is_this_machine;

/// Address of the page in browsers, such as `https://status.example.org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    is_https: bool,
    /// Host, and port unless it is the usual one; lower case.
    authority: String,
}

impl PageAddress {
    /// Reads an address. Error: the reason why it is none.
    pub fn parse(text: &str) -> Result<PageAddress, String> {
        let (is_https, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("write it as https://status.example.org".to_owned()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest).to_ascii_lowercase();
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(is_sound) {
            return Err("write the scheme and the host only, as https://status.example.org".into());
        }
        let usual = if is_https { ":443" } else { ":80" };
        let authority = authority.strip_suffix(usual).unwrap_or(&authority).to_owned();
        Ok(PageAddress { is_https, authority })
    }

    /// Returns the address as text, without a slash at its end.
    pub fn text(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Returns true if cookies are for HTTPS only.
    pub(crate) fn is_https(&self) -> bool {
        self.is_https
    }
}

/// Returns true if a request with this value of `Host` is for the page.
pub(crate) fn is_own_host(page: Option<&PageAddress>, host: &[u8]) -> bool {
    is_this_machine(host)
        || page.is_some_and(|page| host.eq_ignore_ascii_case(page.authority.as_bytes()))
}

/// Returns true if a request for this host with this value of `Origin` comes from the page.
pub(crate) fn is_own_origin(page: Option<&PageAddress>, host: &[u8], origin: &[u8]) -> bool {
    let is_local = is_this_machine(host)
        && origin.strip_prefix(b"http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host));
    is_local || page.is_some_and(|page| origin.eq_ignore_ascii_case(page.text().as_bytes()))
}

/// Returns the name of the cookie for requests with this value of `Host`. It ends with the port:
/// cookies know no ports, and two pages at one host, such as two servers through ssh, would
/// otherwise log each other out.
pub(crate) fn cookie_name(host: &[u8]) -> String {
    let name = "howdah_dashboard";
    let port = host.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    match std::str::from_utf8(port) {
        Ok(port) if port.len() < host.len() && port.parse::<u16>().is_ok() => {
            format!("{name}_{port}")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_on_two_ports_have_two_cookies() {
        for (host, name) in [
            ("localhost:9146", "howdah_dashboard_9146"),
            ("[::1]:9147", "howdah_dashboard_9147"),
            ("s.example", "howdah_dashboard"),
            ("127.0.0.1", "howdah_dashboard"),
            ("[::1]", "howdah_dashboard"),
            ("", "howdah_dashboard"),
        ] {
            assert_eq!(cookie_name(host.as_bytes()), name, "{host}");
        }
    }

    #[test]
    fn an_address_is_a_scheme_and_a_host() {
        for (text, expected) in [
            ("https://Status.example.org", Some("https://status.example.org")),
            ("https://a.example:443/", Some("https://a.example")),
            ("http://a.example:8080", Some("http://a.example:8080")),
            ("https://[2001:db8::1]:8443", Some("https://[2001:db8::1]:8443")),
            ("a.example", None),
            ("ftp://a.example", None),
            ("https://", None),
            ("https://a.example/page", None),
            ("https://me@a.example", None),
        ] {
            let address = PageAddress::parse(text).map(|address| address.text());
            assert_eq!(address.ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn hosts_and_origins_of_others_are_refused() {
        let page = PageAddress::parse("https://s.example").unwrap();
        for (host, origin, local, behind) in [
            ("127.0.0.1:9146", "http://127.0.0.1:9146", true, true),
            ("localhost:9", "http://localhost:9", true, true),
            ("s.example", "https://s.example", false, true),
            ("localhost:9", "http://localhost:10", false, false),
            ("localhost:9", "http://127.0.0.1:9", false, false),
            ("localhost:9", "null", false, false),
            ("s.example", "http://s.example", false, false),
            ("evil.example", "http://evil.example", false, false),
        ] {
            let is_own = |page: Option<&PageAddress>| {
                is_own_host(page, host.as_bytes())
                    && is_own_origin(page, host.as_bytes(), origin.as_bytes())
            };
            assert_eq!((is_own(None), is_own(Some(&page))), (local, behind), "{host} {origin}");
        }
    }
}
