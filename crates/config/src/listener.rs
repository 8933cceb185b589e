//! `listeners`: the sockets that accept connections.

use crate::access_log::{AccessLog, LOGS};
use crate::address::Address;
use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::fastcgi_listener::{FASTCGI_KEYS, FastCgiListener};
use crate::forwarded::{CLIENT_IP, FORWARDED, Forwarded};
use crate::http3::{HTTP3, Http3};
use crate::key::{COUNT, Key, Kind, Shape};
use crate::limit::{LIMIT, LimitRule};
use crate::listener_socket::{ListenerSocket, SOCKET};
use crate::node::{Node, Shown};
use crate::stream::Session;
use crate::target::{Pass, Target};
use crate::tls::{Acme, Alpn, TLS, Tls};

/// A member of `listeners`.
pub(crate) static LISTENER: Shape = Shape {
    name: "listener",
    parts: &[&[
        Key::new(
            "pass",
            Kind::Text,
            "Destination of requests, such as `\"routes\"` or `\"applications/NAME\"`",
        )
        .default("required")
        .details("See [Passing](#passing)")
        .unit(),
        Key::new(
            "backlog",
            Kind::Integer(-1, COUNT),
            "Maximum number of connections that wait to be accepted; -1 is the system's maximum",
        )
        .default("-1")
        .unit(),
        Key::new("socket", Kind::Object(&SOCKET), "Who may connect to a unix socket")
            .default("all; for FastCGI the web server")
            .details("See below"),
        Key::new("tls", Kind::Object(&TLS), "TLS settings")
            .default("none")
            .details("See [TLS](../tls.md) and below")
            .unit(),
        Key::new(
            "http2",
            Kind::Either(&[Kind::Switch, Kind::Word(&["only"])]),
            "Enables HTTP/2, which without TLS may be the `\"only\"` protocol",
        )
        .default("with TLS `true`, without it `false`")
        .details("See below"),
        Key::new(
            "http3",
            Kind::Either(&[Kind::Switch, Kind::Object(&HTTP3)]),
            "Serves HTTP/3, over UDP on the same address and port, beside HTTP/1.1 and HTTP/2",
        )
        .default("false")
        .details("Needs `tls`. See [HTTP/3](../tls.md#http3) and below"),
        Key::new(
            "redirect_to_https",
            Kind::Either(&[Kind::Switch, Kind::Integer(1, 65_535)]),
            "Redirects requests without TLS to the same URL with https, on port 443 or this port",
        )
        .default("false")
        .details("Requests that a trusted proxy received over TLS are not redirected"),
        Key::new(
            "forwarded",
            Kind::Object(&FORWARDED),
            "Trusted proxies that report the client's address and scheme in header fields",
        )
        .default("none")
        .details("See below")
        .unit(),
        Key::new("client_ip", Kind::Object(&CLIENT_IP), "Unit's older form of `forwarded`")
            .default("none")
            .unit(),
        Key::new(
            "proxy_protocol",
            Kind::Object(&PROXY_PROTOCOL),
            "Load balancers whose connections begin with a PROXY protocol header",
        )
        .default("none")
        .details("See below"),
        Key::new("access_log", LOGS, "Access logs in place of those of the document")
            .default("that of the document")
            .details("See [Access log](access-log.md); `false` for none"),
        Key::new(
            "limit",
            Kind::OneOrMany(&Kind::Object(&LIMIT)),
            "Limits of all requests of the listener",
        )
        .default("none")
        .details("See [Limit](actions.md#limit)"),
        Key::new(
            "application",
            Kind::Text,
            "Unit's older form of `pass`: the name of an application",
        )
        .unit(),
    ], FASTCGI_KEYS],
};

/// `proxy_protocol` of a listener.
static PROXY_PROTOCOL: Shape = Shape {
    name: "proxy_protocol",
    parts: &[&[Key::new("source", Kind::Texts, "Addresses of the load balancers")
        .details(
            "[Address pattern](routes.md#address-patterns) or array of them; `\"unix\"` means \
             unix sockets",
        )
        .required()]],
};

/// Begins the keys and names of listeners for datagrams.
const UDP: &str = "udp:";

/// A listening socket and the target of its requests.
#[derive(Debug, Clone)]
pub struct Listener {
    /// The key as written.
    pub key: String,
    /// Its name in logs, in the control API and among sockets: the key, for datagrams with `udp:` in
    /// front.
    pub name: String,
    /// The address to bind.
    pub address: Address,
    /// The target of requests.
    pub pass: Pass,
    /// Maximum length of the queue of pending connections; `None` for the system's maximum.
    pub backlog: Option<u32>,
    /// Owner, group and permissions of its file, if it is a unix socket that has one.
    pub socket: ListenerSocket,
    /// Settings for web servers that speak FastCGI; `None` for other protocols.
    pub fastcgi: Option<FastCgiListener>,
    /// Its protocol, if connections are not requests; `None` for HTTP and FastCGI.
    pub session: Option<Session>,
    /// TLS settings; `None` for plain HTTP.
    pub tls: Option<Tls>,
    /// Support of HTTP/2 without TLS.
    pub http2: CleartextHttp2,
    /// HTTP/3 beside the others; `None` without.
    pub http3: Option<Http3>,
    /// The https port that requests without TLS are redirected to; `None` serves them.
    pub redirect_to_https: Option<u16>,
    /// Trusted proxies for the client's address and scheme.
    pub forwarded: Option<Forwarded>,
    /// Trusted proxies for the client's address (Unit's older form).
    pub client_ip: Option<Forwarded>,
    /// Load balancers whose connections begin with a PROXY protocol header.
    pub proxy_protocol: Option<AddressPatterns>,
    /// Access logs of its requests; `None` for those of the document.
    pub access_log: Option<Vec<AccessLog>>,
    /// Limits of requests.
    pub limit: Vec<LimitRule>,
}

/// Support of HTTP/2 without TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CleartextHttp2 {
    /// HTTP/1.1 only.
    #[default]
    Never,
    /// HTTP/2 for clients that begin with its preface, HTTP/1.1 for others.
    Offered,
    /// HTTP/2 only.
    Only,
}

impl Listener {
    /// Reads the members of `listeners`.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Listener>, Error> {
        let mut listeners: Vec<Listener> = Vec::new();
        if let Some(text) = node.value.as_str() {
            let error = node.wrong_type("an object whose keys are addresses");
            let text = if Address::parse(text).is_ok() { text } else { "127.0.0.1:8080" };
            let hint = format!("write {{\"{text}\": {{\"pass\": \"routes\"}}}}");
            return Err(error.with_hint(hint));
        }
        let mut taken = std::collections::HashMap::new();
        for (name, member) in node.members()? {
            let Some(listener) = node.part(Listener::read(name, &member))? else { continue };
            let http3 = listener.http3.as_ref().map(|_| (listener.address.clone(), true));
            let place = (listener.address.clone(), listener.is_udp());
            let others = [Some(place), http3].into_iter().flatten();
            if let Some(other) = others.filter_map(|place| taken.insert(place, name)).next() {
                let message = format!("is the same address as \"{}\"", Shown(other));
                node.part::<()>(Err(member.invalid(message)))?;
                continue;
            }
            let checked = check_acme(&listeners, &listener, &member).map(|()| listener);
            listeners.extend(node.part(checked)?);
        }
        Ok(listeners)
    }

    /// Returns the listener at an address that serves only an answer of the server itself, without
    /// an access log.
    pub(crate) fn of_server(
        name: &str,
        target: Target,
        node: &Node<'_>,
    ) -> Result<Listener, Error> {
        Ok(Listener {
            key: name.to_owned(),
            name: name.to_owned(),
            address: read_address(name, node)?,
            pass: Pass::Fixed(target),
            backlog: None,
            socket: ListenerSocket::new(false),
            fastcgi: None,
            session: None,
            tls: None,
            http2: CleartextHttp2::Never,
            http3: None,
            redirect_to_https: None,
            forwarded: None,
            client_ip: None,
            proxy_protocol: None,
            access_log: Some(Vec::new()),
            limit: Vec::new(),
        })
    }

    /// Returns true if datagrams come to its socket.
    pub fn is_udp(&self) -> bool {
        self.session == Some(Session::Udp)
    }

    fn read(key: &str, node: &Node<'_>) -> Result<Listener, Error> {
        let datagrams = key.strip_prefix(UDP);
        let address = read_address(datagrams.unwrap_or(key), node)?;
        let object = node.object(&LISTENER).map_err(|error| match node.value.as_str() {
            Some(target) => error.with_hint(format!("write {{\"pass\": \"{}\"}}", Shown(target))),
            None => error,
        })?;
        let mut tls = object.read("tls", Tls::read)?;
        let http2 = object.read("http2", read_http2)?;
        let redirect_to_https = object.read("redirect_to_https", read_redirect)?.flatten();
        if let Some(tls) = &mut tls {
            tls.alpn = Alpn::Http { http2: http2 != Some(CleartextHttp2::Never) };
            if let (Some(CleartextHttp2::Only), Some(node)) = (http2, object.optional("http2")) {
                return Err(node.invalid("must be true or false with \"tls\""));
            }
        }
        let http2 = http2.filter(|_| tls.is_none()).unwrap_or_default();
        let pass = match object.read("application", read_application)? {
            None => Pass::read_of_listener(&object.required("pass")?)?,
            Some(_) if object.optional("pass").is_some() => {
                return Err(node.invalid("must have \"pass\" or \"application\", not both"));
            }
            Some(target) => Pass::Fixed(target),
        };
        let fastcgi = FastCgiListener::read(&object, &address, &pass)?;
        let session = Session::read(&object, &pass, datagrams.is_some())?;
        if session == Some(Session::Udp) && !matches!(address, Address::Inet(_)) {
            return Err(node.invalid("has no address of UDP").with_hint("write \"*:53\""));
        }
        if let (Some(tls), Some(session)) = (&mut tls, &session) {
            tls.alpn = session.alpn(node);
        }
        if let (Some(Tls { starttls: Some(_), .. }), Some(tls)) = (&tls, object.optional("tls"))
            && !matches!(session, Some(Session::Mail(_)))
        {
            let error = tls.invalid("has \"starttls\", which only protocols of mail have");
            return Err(error.with_hint("pass to \"mail/NAME\", or leave it out"));
        }
        let http3 = Http3::read(&object, &address, tls.as_ref())?;
        let socket = ListenerSocket::read(&object, &address, fastcgi.is_some())?;
        let backlog = object.read("backlog", |backlog| {
            let length = backlog.integer(-1..=i64::from(i32::MAX))?;
            // As in Unit, -1 means the system's default.
            Ok(u32::try_from(length).ok())
        })?;
        let forwarded = object.read("forwarded", Forwarded::read)?;
        let client_ip = object.read("client_ip", Forwarded::read_client_ip)?;
        let proxy_protocol = object.read("proxy_protocol", read_proxy_protocol)?;
        let access_log = object.read("access_log", AccessLog::read_all)?;
        let limit = object.read("limit", LimitRule::read_of_listener)?.unwrap_or_default();
        if let Some(session) = &session {
            session.check_limit(&object)?;
        }
        object.end()?;
        let name = match session {
            Some(Session::Udp) => format!("{UDP}{}", datagrams.unwrap_or(key)),
            _ => key.to_owned(),
        };
        let (key, backlog) = (key.to_owned(), backlog.flatten());
        Ok(Listener {
            key,
            name,
            address,
            pass,
            backlog,
            socket,
            fastcgi,
            session,
            tls,
            http2,
            http3,
            redirect_to_https,
            forwarded,
            client_ip,
            proxy_protocol,
            access_log,
            limit,
        })
    }
}

fn read_address(name: &str, node: &Node<'_>) -> Result<Address, Error> {
    Address::parse(name).map_err(|error| match Address::listen_advice(name) {
        Some(advice) => node.invalid("is not an address to listen on").with_hint(advice),
        None => node.invalid(error),
    })
}

/// Reads true, false or `only`.
fn read_http2(node: &Node<'_>) -> Result<CleartextHttp2, Error> {
    match (node.value.as_bool(), node.value.as_str()) {
        (Some(false), _) => Ok(CleartextHttp2::Never),
        (Some(true), _) => Ok(CleartextHttp2::Offered),
        (_, Some("only")) => Ok(CleartextHttp2::Only),
        (_, Some(_)) => Err(node.invalid("must be true, false or \"only\"")),
        _ => Err(node.wrong_type("true, false or \"only\"")),
    }
}

/// Checks that all settings of one certificate, which its first domain names, are the same.
fn check_acme(others: &[Listener], listener: &Listener, node: &Node<'_>) -> Result<(), Error> {
    let own = listener.tls.iter().flat_map(|tls| &tls.acme);
    let others = others.iter().filter_map(|listener| listener.tls.as_ref());
    let all: Vec<_> = others.flat_map(|tls| &tls.acme).chain(own).collect();
    for (index, one) in all.iter().enumerate() {
        let same = |other: &&&Acme| {
            !one.domains.is_empty() && other.domains.first() == one.domains.first()
        };
        if let Some(other) = all.iter().skip(index + 1).find(same)
            && other != one
        {
            let name = one.domains.first().map_or("", String::as_str);
            let message = format!(
                "has other settings for the certificate \"{name}\" (tls/acme) than were given \
                 before"
            );
            let error = node.invalid(message);
            return Err(error.with_hint("make them the same, or begin with another of the domains"));
        }
    }
    Ok(())
}

fn read_proxy_protocol(node: &Node<'_>) -> Result<AddressPatterns, Error> {
    let object = node.object(&PROXY_PROTOCOL)?;
    let source = AddressPatterns::read(&object.required("source")?)?;
    object.end()?;
    Ok(source)
}

/// Reads true (port 443), false or a port.
fn read_redirect(node: &Node<'_>) -> Result<Option<u16>, Error> {
    match node.value.as_bool() {
        Some(on) => Ok(on.then_some(443)),
        None if node.value.is_number() => Ok(u16::try_from(node.integer(1..=65535)?).ok()),
        None => Err(node.wrong_type("true, false or a port")),
    }
}

/// Reads `application`, Unit's older form of `pass`.
fn read_application(node: &Node<'_>) -> Result<Target, Error> {
    let target = Target::Application { name: node.string()?.to_owned(), target: None };
    target.check(node)?;
    Ok(target)
}
