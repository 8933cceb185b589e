//! Requests of access logs and of lists.

use std::collections::BTreeSet;

use serde_json::Value;

/// A request that is asked of both servers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// True for HEAD, false for GET.
    pub is_head: bool,
    /// The host, if it is known.
    pub host: Option<String>,
    /// Path and query, as the client has sent them.
    pub target: String,
}

impl Request {
    /// A GET request for a path.
    pub fn get(target: &str) -> Self {
        Self { is_head: false, host: None, target: target.to_owned() }
    }

    /// The method.
    pub fn method(&self) -> &'static str {
        if self.is_head { "HEAD" } else { "GET" }
    }
}

/// Returns the requests of an access log in their order, each once, and the number of lines that
/// have another method or no request. `max` is the maximum number of requests.
///
/// The formats are the common one and those that continue it, `vhost_combined` of Apache with the
/// host in front, and lines of JSON.
pub fn of_log(text: &str, max: usize) -> (Vec<Request>, usize) {
    distinct(text.lines().filter(|line| !line.trim().is_empty()).map(of_line), max)
}

/// Returns the requests of a list: a URL or a path in each line; a `#` begins a comment.
pub fn of_list(text: &str, max: usize) -> (Vec<Request>, usize) {
    let lines = text.lines().map(str::trim);
    distinct(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(of_url), max)
}

fn distinct(found: impl Iterator<Item = Option<Request>>, max: usize) -> (Vec<Request>, usize) {
    let (mut requests, mut known, mut others) = (Vec::new(), BTreeSet::new(), 0);
    for request in found {
        match request {
            Some(request) if requests.len() < max && known.insert(request.clone()) => {
                requests.push(request);
            }
            Some(_) => {}
            None => others += 1,
        }
    }
    (requests, others)
}

/// Returns the request of a line of a log; `None` for other methods than GET and HEAD.
fn of_line(line: &str) -> Option<Request> {
    if line.starts_with('{') {
        return of_json(&serde_json::from_str(line).ok()?);
    }
    let (before, quoted) = line.split_once('"')?;
    let request = request_line(quoted.split('"').next()?)?;
    // `vhost_combined`: the host with its port is in front of the client's address.
    let mut words = before.split(' ');
    let first = words.next()?;
    let is_vhost = words.next().is_some_and(|second| second.parse::<std::net::IpAddr>().is_ok());
    let host = first
        .rsplit_once(':')
        .map_or(first, |(host, port)| if port.parse::<u16>().is_ok() { host } else { first });
    let own = is_vhost.then(|| host.to_owned()).filter(|host| is_host(host));
    Some(Request { host: own.or(request.host.clone()), ..request })
}

/// Returns the request of `GET /path HTTP/1.1`.
fn request_line(line: &str) -> Option<Request> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/") {
        return None;
    }
    with_method(method, of_url(target)?)
}

fn with_method(method: &str, request: Request) -> Option<Request> {
    match method {
        "GET" => Some(request),
        "HEAD" => Some(Request { is_head: true, ..request }),
        _ => None,
    }
}

fn of_json(line: &Value) -> Option<Request> {
    let text = |names: &[&str]| names.iter().find_map(|name| line[*name].as_str());
    let host = text(&["host", "http_host", "server_name", "vhost"]).map(str::to_owned);
    let request = match text(&["request_line", "request"]) {
        Some(line) if line.contains(' ') => request_line(line)?,
        _ => {
            let target = text(&["request_uri", "uri", "url", "path", "target"])?;
            with_method(text(&["method", "request_method"])?, of_url(target)?)?
        }
    };
    Some(Request { host: host.filter(|host| is_host(host)).or(request.host.clone()), ..request })
}

/// Returns the request for a URL or a path.
pub(crate) fn of_url(url: &str) -> Option<Request> {
    let (host, target) = match url.strip_prefix("http://").or(url.strip_prefix("https://")) {
        Some(rest) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, target) = rest.split_at(end);
            let host = authority.rsplit('@').next()?;
            (Some(host.to_owned()).filter(|host| is_host(host)), target)
        }
        None => (None, url),
    };
    let target = target.split('#').next()?;
    let target = if target.starts_with('/') {
        target.to_owned()
    } else if host.is_some() {
        format!("/{target}")
    } else {
        return None;
    };
    // What a log has escaped, such as \x00, was another byte in the request.
    let is_safe = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    is_safe.then_some(Request { is_head: false, host, target })
}

fn is_host(host: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(is_valid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(requests: &[Request]) -> Vec<String> {
        let told = |one: &Request| {
            format!("{} {} {}", one.method(), one.host.as_deref().unwrap_or("-"), one.target)
        };
        requests.iter().map(told).collect()
    }

    #[test]
    fn requests_are_read_from_usual_logs() {
        let log = r#"
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 12 "-" "curl"
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 12 "-" "curl"
shop.example:80 10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "HEAD /b HTTP/2.0" 200 12
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "POST /c HTTP/1.1" 200 12
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "\x16\x03" 400 12
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /\x00 HTTP/1.1" 400 12
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET http://other.example/d HTTP/1.1" 400 12
{"host": "a.example", "method": "GET", "request_uri": "/e"}
{"http_host": "a.example", "request": "HEAD /f HTTP/1.1"}
"#;
        let (requests, others) = of_log(log, 100);
        let expected = [
            "GET - /a?b=1",
            "HEAD shop.example /b",
            "GET other.example /d",
            "GET a.example /e",
            "HEAD a.example /f",
        ];
        assert_eq!(told(&requests), expected);
        assert_eq!(others, 3);
        assert_eq!(of_log(log, 2).0.len(), 2);
    }

    #[test]
    fn lists_have_urls_and_paths() {
        let list = "# all\n/a\nhttps://a.example\n\nhttp://user@b.example:8080/c?d#e\nftp://x\n";
        let (requests, others) = of_list(list, 100);
        assert_eq!(told(&requests), ["GET - /a", "GET a.example /", "GET b.example:8080 /c?d"]);
        assert_eq!(others, 1);
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in ".{0,80}") {
            of_line(&line);
            of_url(&line);
        }
    }
}
