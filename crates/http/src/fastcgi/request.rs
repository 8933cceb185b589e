//! Makes a request of the parameters of a web server. Scripts get the parameters themselves; what
//! is read here is for the server: its log, its limits and its status.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use howdah_template::Captures;
use howdah_wire::fastcgi::{Pairs, RequestHead, Role};

use crate::authority;
use crate::handling::Handling;
use crate::message::{Additions, ConnectionInfo, Fields, Request, Version};
use crate::target::Target;

/// The parameters of a request, in the order in which their names came first. Of several with one
/// name, the last one counts, as in PHP-FPM.
pub(super) struct Parameters(Vec<(Bytes, Bytes)>);

impl Parameters {
    /// Reads a complete stream. Parameters without a name are left out.
    pub fn read(head: RequestHead) -> Parameters {
        let stream = Bytes::from(head.params);
        let role: &[u8] = match head.role {
            Role::Authorizer => b"AUTHORIZER",
            Role::Responder | Role::Filter => b"RESPONDER",
        };
        let mut all = vec![(Bytes::from_static(b"FCGI_ROLE"), Bytes::copy_from_slice(role))];
        let mut places: HashMap<&[u8], usize> = HashMap::from([(&b"FCGI_ROLE"[..], 0)]);
        let pairs = Pairs::new(&stream).map_while(Result::ok).filter(|(name, _)| !name.is_empty());
        for (name, value) in pairs {
            let value = stream.slice_ref(value);
            match places.get(name) {
                Some(place) => all[*place].1 = value,
                None => {
                    places.insert(name, all.len());
                    all.push((stream.slice_ref(name), value));
                }
            }
        }
        Parameters(all)
    }

    fn get(&self, name: &str) -> Option<&Bytes> {
        self.0.iter().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    fn value(&self, name: &str) -> Bytes {
        self.get(name).cloned().unwrap_or_default()
    }

    /// Returns the length of the body in bytes; `None` if the web server does not tell it.
    pub fn body_len(&self) -> Option<u64> {
        match self.get("CONTENT_LENGTH") {
            Some(value) if !value.is_empty() => {
                let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                Some(length.unwrap_or(0))
            }
            _ => None,
        }
    }

    /// Makes the request. `connection` is that of the web server.
    pub fn into_request(self, connection: &Arc<ConnectionInfo>, id: u64) -> Request {
        let mut handling = Handling::new(connection.next_request());
        handling.collect_messages();
        let target = match self.get("REQUEST_URI") {
            Some(target) if !target.is_empty() => target.clone(),
            _ => match (self.value("SCRIPT_NAME"), self.value("QUERY_STRING")) {
                (name, query) if query.is_empty() => name,
                (name, query) => [&name[..], b"?", &query].concat().into(),
            },
        };
        let path = Target::parse(&target).map(|parsed| parsed.path(&target).to_vec());
        let host = self.value("HTTP_HOST");
        let host =
            authority::host(&host, false).and_then(|range| host.get(range).map(<[u8]>::to_vec));
        Request {
            method: self.value("REQUEST_METHOD"),
            path: path.unwrap_or_else(|_| b"/".to_vec()).into(),
            target,
            fragment: Bytes::new(),
            query: self.value("QUERY_STRING"),
            version: match self.text("SERVER_PROTOCOL") {
                Some("HTTP/1.0") => Version::Http10,
                Some("HTTP/2.0" | "HTTP/2") => Version::Http2,
                Some("HTTP/3.0" | "HTTP/3") => Version::Http3,
                _ => Version::Http11,
            },
            host: host.unwrap_or_default().to_ascii_lowercase().into(),
            fields: self.fields(),
            connection: self.client(connection),
            user: self.get("REMOTE_USER").filter(|user| !user.is_empty()).cloned(),
            id,
            error: None,
            captures: Captures::default(),
            additions: Some(Box::new(Additions {
                parameters: Some(self.0),
                ..Additions::default()
            })),
            handling,
        }
    }

    /// Returns the client of the web server, as the parameters tell it.
    fn client(&self, connection: &Arc<ConnectionInfo>) -> Arc<ConnectionInfo> {
        let address = |ip: &str, port: &str, otherwise| {
            let Some(ip) = self.text(ip).and_then(|ip| ip.parse::<IpAddr>().ok()) else {
                return otherwise;
            };
            let port = self.text(port).and_then(|port| port.parse().ok()).unwrap_or(0);
            Some(SocketAddr::new(ip, port))
        };
        let https = self.text("HTTPS").unwrap_or_default();
        Arc::new(ConnectionInfo {
            peer: address("REMOTE_ADDR", "REMOTE_PORT", connection.peer),
            local: address("SERVER_ADDR", "SERVER_PORT", connection.local),
            tls: !https.is_empty() && !https.eq_ignore_ascii_case("off"),
            ..(**connection).clone()
        })
    }

    /// Returns the header fields that the parameters stand for. Their names are in lower case.
    fn fields(&self) -> Fields {
        let fields: Vec<(Vec<u8>, &[u8])> = self
            .0
            .iter()
            .filter_map(|(name, value)| {
                let name = match &name[..] {
                    b"CONTENT_TYPE" | b"CONTENT_LENGTH" if !value.is_empty() => &name[..],
                    name => name.strip_prefix(b"HTTP_")?,
                };
                let lower = |byte: &u8| match byte {
                    b'_' => b'-',
                    byte => byte.to_ascii_lowercase(),
                };
                Some((name.iter().map(lower).collect(), &value[..]))
            })
            .collect();
        Fields::from_pairs(fields.iter().map(|(name, value)| (&name[..], *value)))
    }
}
