//! A visitor of a site: requests pages, keeps cookies, finds links.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Maximum time for an answer. A page that sends a byte now and then holds up nobody for longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of an answer in bytes; the rest of a longer one is not read.
pub(crate) const MAX_ANSWER: usize = 16 << 20;

/// The URL of a site.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) is_https: bool,
    /// Name and, unless it is the scheme's, port.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query.
    pub(crate) target: String,
}

impl Url {
    /// Reads a URL; `None` if it is none of `http` or `https`, or names a user.
    pub(crate) fn parse(text: &str) -> Option<Url> {
        let (is_https, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return None,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (host, target) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let target = if target.starts_with('?') { format!("/{target}") } else { target.to_owned() };
        let default = if is_https { 443 } else { 80 };
        let port = match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => port.parse().ok()?,
            _ => default,
        };
        let is_sound = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let sound = !host.is_empty() && !host.contains('@') && is_sound(host) && is_sound(&target);
        sound.then(|| Url { is_https, host: host.to_owned(), port, target })
    }

    /// Returns the name or address of the server, without port and brackets.
    pub(crate) fn name(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) status: u16,
    /// Names in lower case, and values.
    pub(crate) header: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A visitor with cookies of its own.
pub(crate) struct Visitor<'a> {
    server: SocketAddr,
    /// Name and port of the site, as in its URLs.
    host: &'a str,
    is_https: bool,
    cookies: BTreeMap<String, String>,
}

impl<'a> Visitor<'a> {
    /// Creates a visitor without cookies.
    pub(crate) fn new(server: SocketAddr, host: &'a str, is_https: bool) -> Self {
        Visitor { server, host, is_https, cookies: BTreeMap::new() }
    }

    /// Requests a page.
    pub(crate) fn get(&mut self, target: &str) -> io::Result<Page> {
        let cookies: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let scheme = if self.is_https { "https" } else { "http" };
        let mut fields = format!("X-Forwarded-Proto: {scheme}\r\n");
        if !cookies.is_empty() {
            fields += &format!("Cookie: {}\r\n", cookies.join("; "));
        }
        let begun = Instant::now();
        let mut stream = TcpStream::connect_timeout(&self.server, TIMEOUT)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(request(self.host, target, &fields).as_bytes())?;
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        while answer.len() < MAX_ANSWER {
            let left = TIMEOUT.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut buffer)? {
                0 => break,
                length => answer.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            }
        }
        let page = parse(&answer)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is malformed"))?;
        self.keep_cookies(&page);
        Ok(page)
    }

    fn keep_cookies(&mut self, page: &Page) {
        for (_, value) in page.header.iter().filter(|(name, _)| name == "set-cookie") {
            let pair = value.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                self.cookies.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
    }

    /// Returns the targets on the same site that a page links to.
    pub(crate) fn links(&self, target: &str, page: &Page) -> Vec<String> {
        let mut links = Vec::new();
        let location = page.header.iter().find(|(name, _)| name == "location");
        let location = location.map(|(_, value)| value.as_str());
        for link in location.into_iter().chain(references(&page.body)) {
            let link = link.split('#').next().unwrap_or_default().replace("&amp;", "&");
            links.extend(self.resolve(target, &link));
        }
        links
    }

    /// Returns the target of a reference; `None` if it leads elsewhere.
    fn resolve(&self, base: &str, link: &str) -> Option<String> {
        let own = [format!("http://{}", self.host), format!("https://{}", self.host)];
        let link = own.iter().find_map(|site| link.strip_prefix(site.as_str())).unwrap_or(link);
        let is_printable = link.bytes().all(|byte| byte.is_ascii_graphic());
        if link.is_empty() || !is_printable || link.starts_with("//") {
            return None;
        }
        let before_query = link.split(['/', '?']).next().unwrap_or_default();
        if before_query.contains(':') {
            return None;
        }
        let path = base.split('?').next().unwrap_or_default();
        Some(match link.chars().next()? {
            '/' => link.to_owned(),
            '?' => format!("{path}{link}"),
            _ => {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                format!("{directory}/{}", link.strip_prefix("./").unwrap_or(link))
            }
        })
    }
}

/// Returns the values of `href` and `src` attributes.
fn references(html: &str) -> impl Iterator<Item = &str> {
    ["href=", "src="].into_iter().flat_map(move |attribute| {
        html.split(attribute).skip(1).filter_map(|rest| {
            let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            rest[1..].split(quote).next()
        })
    })
}

/// Returns a request for a target. `fields` end with a line end each. With HTTP/1.0 the answer has no
/// chunks, and ends with the connection.
pub(crate) fn request(host: &str, target: &str, fields: &str) -> String {
    format!(
        "GET {target} HTTP/1.0\r\nHost: {host}\r\nAccept: text/html, */*\r\nUser-Agent: \
         howdah\r\n{fields}\r\n"
    )
}

/// Reads an answer; `None` if it is malformed.
pub(crate) fn parse(answer: &[u8]) -> Option<Page> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let (head, body) = answer.split_at_checked(end + 4)?;
    let head = String::from_utf8_lossy(head);
    let (first, fields) = head.split_once("\r\n")?;
    let status = first.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let header = fields.lines().filter_map(field).collect();
    Some(Page { status, header, body: String::from_utf8_lossy(body).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor() -> Visitor<'static> {
        Visitor::new("127.0.0.1:1".parse().unwrap(), "shop.example:8080", false)
    }

    #[test]
    fn links_of_the_same_site_are_followed_and_no_others() {
        let body = r##"<a href="/a?b=1&amp;c=2#top"><a href='next'><a href="?page=2"><a href="./d/">
            <a href="http://shop.example:8080/own"><a href="http://other.example/x"><a href="//cdn/x">
            <a href="mailto:a@b"><a href="#here"><a href="javascript:void(0)"><img src="/logo.png">
            <a href=unquoted><a href="a b">"##;
        let header = vec![("location".to_owned(), "/moved".to_owned())];
        let page = Page { status: 302, header, body: body.to_owned() };
        let mut links = visitor().links("/shop/list?page=1", &page);
        links.sort();
        let expected = [
            "/a?b=1&c=2",
            "/logo.png",
            "/moved",
            "/own",
            "/shop/d/",
            "/shop/list?page=2",
            "/shop/next",
        ];
        assert_eq!(links, expected);
    }

    #[test]
    fn urls_have_a_scheme_a_host_and_a_target() {
        let url = |is_https, host: &str, port, target: &str| {
            Some(Url { is_https, host: host.to_owned(), port, target: target.to_owned() })
        };
        assert_eq!(Url::parse("http://a"), url(false, "a", 80, "/"));
        assert_eq!(Url::parse("https://a.b/c?d"), url(true, "a.b", 443, "/c?d"));
        assert_eq!(Url::parse("http://[::1]:8080/"), url(false, "[::1]:8080", 8080, "/"));
        assert_eq!(Url::parse("http://a?b#c"), url(false, "a", 80, "/?b"));
        assert_eq!(Url::parse("http://[::1]/"), url(false, "[::1]", 80, "/"));
        for bad in
            ["", "a", "ftp://a/", "http:///", "http://a:x/", "http://u@a/", "http://a/\r\nX: y"]
        {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_answer_is_read_with_its_cookies() {
        let page =
            parse(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nX-A: b\r\n\r\nbody").unwrap();
        assert_eq!((page.status, page.body.as_str()), (200, "body"));
        let mut visitor = visitor();
        visitor.keep_cookies(&page);
        assert_eq!(visitor.cookies.get("a").map(String::as_str), Some("1"));
        for malformed in
            [&b""[..], b"HTTP/1.1 200 OK\r\n", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 x\r\n\r\n"]
        {
            assert_eq!(parse(malformed), None);
        }
    }
}
