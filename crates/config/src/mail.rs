//! `mail`: proxies of IMAP, POP3 and SMTP, which read the protocol up to the login.

mod method;

use std::time::Duration;

use howdah_text::percent;

use crate::address::Address;
use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, path};
use crate::stream::check_upstream;
use crate::target::{Pass, Target};
use crate::upstream_tls::{UPSTREAM_TLS, UpstreamTls};

pub use self::method::MailMethod;

/// A member of `mail`.
pub(crate) static MAIL: Shape = Shape {
    name: "mail",
    parts: &[&[
        Key::new(
            "protocol",
            Kind::Word(&["imap", "pop3", "smtp"]),
            "Protocol of the clients and of the servers behind",
        )
        .required(),
        Key::new(
            "authentication",
            Kind::Object(&AUTHENTICATION),
            "Server that is asked about each login, and names the server behind",
        )
        .default("required without `backend`")
        .details("nginx's `auth_http`, see [Authentication server](#authentication-server)"),
        Key::new(
            "backend",
            Kind::Text,
            "Upstream whose servers check names and passwords themselves, such as \
             `\"upstreams/dovecot\"`; in place of `authentication`",
        )
        .default("none"),
        Key::new(
            "methods",
            Kind::Array(&Kind::Word(&[
                "plain",
                "login",
                "cram-md5",
                "apop",
                "external",
                "xoauth2",
                "oauthbearer",
                "none",
            ])),
            "Methods of the login that are offered; IMAP's `LOGIN` and POP3's `USER` always are",
        )
        .default("`[\"plain\"]`, for SMTP `[\"plain\", \"login\"]`")
        .details(
            "`\"none\"`, alone and for SMTP: no login, for servers that receive mail (`imap_auth`, \
             `pop3_auth`, `smtp_auth`)",
        ),
        Key::new(
            "capabilities",
            Kind::Either(&[Kind::Array(&Kind::Text), Kind::Word(&["backend"])]),
            "Capabilities that clients are told, beside those about the login and TLS; with \
             `\"backend\"` those that its servers name, for a minute",
        )
        .default("IMAP `IMAP4rev1 UIDPLUS`, POP3 `TOP USER UIDL`, SMTP none"),
        Key::new("server_name", Kind::Text, "Name of this server in greetings and challenges")
            .default("the host name"),
        Key::switch(
            "error_messages",
            false,
            "Passes on why a server behind has refused the login (`proxy_pass_error_message`)",
        ),
        Key::new("max_errors", Kind::Integer(1, COUNT), "Number of mistakes that end a session")
            .default("5"),
        Key::new("timeouts", Kind::Object(&MAIL_TIMEOUTS), "Timeouts of a session"),
        Key::new(
            "xclient",
            Kind::Switch,
            "SMTP: tells the server behind the client's address and name by Postfix's `XCLIENT`",
        )
        .default("if the server announces it"),
        Key::switch(
            "backend_authentication",
            false,
            "SMTP: logs in at the server behind (`proxy_smtp_auth`); with `backend` always",
        ),
        Key::switch(
            "client_id",
            false,
            "IMAP: tells the server behind the client's address by `ID`, as Dovecot reads it",
        ),
        Key::switch(
            "client_names",
            false,
            "SMTP: looks up the name of the client's address, for `Client-Host` and `XCLIENT`",
        )
        .details(
            "A name counts if it leads to the address again, as in nginx; its servers of DNS are \
             those of `settings.resolver` (`resolver`)",
        ),
        Key::new(
            "proxy_protocol",
            Kind::Integer(1, 2),
            "Version of the PROXY protocol header with the client's address that each connection \
             to a server behind begins with",
        )
        .default("none")
        .details("With `backend`, write it in the upstream"),
        Key::new(
            "tls",
            Kind::Either(&[Kind::Switch, Kind::Object(&UPSTREAM_TLS)]),
            "TLS to the servers behind",
        )
        .default("false")
        .details(
            "As [`tls` of an upstream](configuration/upstreams.md#upstreams). With `backend`, write \
             it in the upstream, unless it has `starttls`",
        ),
    ]],
};

/// `authentication` of a member of `mail`.
static AUTHENTICATION: Shape = Shape {
    name: "mail_authentication",
    parts: &[&[
        Key::new(
            "url",
            Kind::Texts,
            "URL of the server, such as `\"http://127.0.0.1:9000/auth\"`; of several, the next is \
             asked if one gives no answer",
        )
        .details(
            "`http://` or `https://`, or `http://unix:/run/auth.sock:/auth` for a unix socket. The \
             password passes there, so `http://` is for this machine and trusted networks",
        )
        .default("required without `script`"),
        Key::new(
            "script",
            Kind::Text,
            "Application of PHP that decides, such as `\"applications/mail\"`, in place of `url`",
        )
        .default("none")
        .details(
            "It is asked without a network in between, by a request for `/` with the same fields; \
             `\"applications/mail/auth\"` names one of its targets",
        ),
        Key::new("headers", Kind::Named(&Kind::Text), "Further header fields (`auth_http_header`)")
            .default("none"),
        Key::new("timeout", Kind::Seconds(1), "Maximum seconds for the answer of a server")
            .default("60"),
    ]],
};

/// `timeouts` of a member of `mail`.
static MAIL_TIMEOUTS: Shape = Shape {
    name: "mail_timeouts",
    parts: &[&[
        Key::new(
            "client",
            Kind::Seconds(1),
            "Maximum seconds of silence of a client before its login",
        )
        .default("60")
        .details("All of that may take five times as long"),
        Key::new("connect", Kind::Seconds(1), "Maximum seconds to connect to a server behind")
            .default("10"),
        Key::new(
            "session",
            Kind::Seconds(1),
            "Seconds of silence of both ends after the login that end the session",
        )
        .default("86400"),
    ]],
};

/// A protocol of mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailProtocol {
    /// IMAP.
    Imap,
    /// POP3.
    Pop3,
    /// SMTP.
    Smtp,
}

/// A member of `mail`.
#[derive(Debug, Clone)]
pub struct Mail {
    /// The name in `mail`.
    pub name: String,
    /// The protocol.
    pub protocol: MailProtocol,
    /// The servers that decide about logins, in the order in which they are asked; empty with
    /// `backend` and a script.
    pub authentication: Vec<MailAuthentication>,
    /// The application whose script decides about logins.
    pub script: Option<Target>,
    /// Header fields for these servers.
    pub headers: Vec<(String, String)>,
    /// Maximum time for their answer.
    pub authentication_timeout: Duration,
    /// Name of the upstream whose servers decide themselves.
    pub backend: Option<String>,
    /// Methods that are offered.
    pub methods: Vec<MailMethod>,
    /// Capabilities that are told.
    pub capabilities: Vec<String>,
    /// A server behind is asked for them.
    pub asks_capabilities: bool,
    /// Name of this server; that of the machine if `None`.
    pub server_name: Option<String>,
    /// Reasons of servers behind are passed on.
    pub error_messages: bool,
    /// Number of mistakes that end a session.
    pub max_errors: u32,
    /// Maximum silence before the login.
    pub client_timeout: Duration,
    /// Maximum time to connect to a server behind.
    pub connect_timeout: Duration,
    /// Maximum silence after the login.
    pub session_timeout: Duration,
    /// Servers of SMTP are told about the client; `None`: if they announce that they can be.
    pub xclient: Option<bool>,
    /// Servers of SMTP check the password.
    pub backend_authentication: bool,
    /// Servers of IMAP are told the client's address.
    pub client_id: bool,
    /// Names of clients of SMTP are looked up.
    pub client_names: bool,
    /// Version of the PROXY protocol to servers behind.
    pub proxy_protocol: Option<u8>,
    /// TLS to servers behind. With `backend`, its upstream may have it instead.
    pub tls: Option<UpstreamTls>,
}

/// A server that decides about logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailAuthentication {
    /// Its address.
    pub address: Address,
    /// It speaks TLS.
    pub is_https: bool,
    /// The field `Host`.
    pub host: String,
    /// Path and query.
    pub target: String,
}

impl MailProtocol {
    /// Returns the name in the document.
    pub fn name(self) -> &'static str {
        match self {
            MailProtocol::Imap => "imap",
            MailProtocol::Pop3 => "pop3",
            MailProtocol::Smtp => "smtp",
        }
    }

    fn read(node: &Node<'_>) -> Result<MailProtocol, Error> {
        let all = [MailProtocol::Imap, MailProtocol::Pop3, MailProtocol::Smtp];
        let name = node.string()?;
        let found = all.into_iter().find(|protocol| protocol.name() == name);
        found.ok_or_else(|| node.invalid("must be \"imap\", \"pop3\" or \"smtp\""))
    }
}

impl Mail {
    /// Reads the members of `mail`.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Mail>, Error> {
        let mut all = Vec::new();
        for (name, mail) in node.members()? {
            all.extend(node.part(Mail::read(name, &mail))?);
        }
        Ok(all)
    }

    fn read(name: &str, node: &Node<'_>) -> Result<Mail, Error> {
        let object = node.object(&MAIL)?;
        let protocol = MailProtocol::read(&object.required("protocol")?)?;
        let (authentication, script, headers, authentication_timeout) =
            object.read("authentication", read_authentication)?.unwrap_or_default();
        let backend = object.read("backend", read_backend)?;
        match (object.optional("authentication"), object.optional("backend")) {
            (Some(_), Some(node)) => {
                return Err(node.invalid("cannot go with \"authentication\", which names servers"));
            }
            (None, None) => return Err(object.missing(&["authentication", "backend"])),
            _ => {}
        }
        let has_backend = object.has("backend");
        let methods = object.read("methods", |node| read_methods(node, protocol, has_backend))?;
        let asks_capabilities =
            object.optional("capabilities").filter(|node| *node.value == "backend");
        if let Some(node) = asks_capabilities.as_ref().filter(|_| !has_backend) {
            return Err(node.invalid("needs \"backend\", whose servers are asked"));
        }
        let asks_capabilities = asks_capabilities.is_some();
        let capabilities = object.read("capabilities", |node| {
            if asks_capabilities {
                return Ok(usual_capabilities(protocol));
            }
            node.elements()?.map(|one| read_word(&one)).collect::<Result<Vec<_>, _>>()
        })?;
        let timeouts = object.read("timeouts", read_timeouts)?;
        let [client_timeout, connect_timeout, session_timeout] =
            timeouts.unwrap_or_else(|| [60, 10, 86_400].map(Duration::from_secs));
        for (key, wanted) in [
            ("xclient", MailProtocol::Smtp),
            ("backend_authentication", MailProtocol::Smtp),
            ("client_id", MailProtocol::Imap),
            ("client_names", MailProtocol::Smtp),
        ] {
            if let Some(node) = object.optional(key).filter(|_| protocol != wanted) {
                return Err(node.invalid(format_args!("is for \"{}\" only", wanted.name())));
            }
        }
        let tls = object.read("tls", UpstreamTls::read_of_mail)?.flatten();
        let starttls = tls.as_ref().is_some_and(|tls| tls.starttls);
        for (key, is_allowed) in [("tls", starttls), ("proxy_protocol", false)] {
            if let Some(node) = object.optional(key).filter(|_| has_backend && !is_allowed) {
                return Err(node.invalid("cannot go with \"backend\"; write it in the upstream"));
            }
        }
        let upstreams = node.scope.definitions.named("upstreams");
        let upstream = backend.as_ref().zip(upstreams).and_then(|(name, all)| all.get(name));
        let has_tls = upstream.and_then(|one| one.get("tls")).is_some_and(|tls| *tls != false);
        if let (true, Some(node)) = (starttls && has_tls, object.optional("tls")) {
            let problem = "has \"starttls\", but its upstream has \"tls\" from the first byte on";
            return Err(node.invalid(problem));
        }
        let mail = Mail {
            name: name.to_owned(),
            protocol,
            authentication,
            script,
            headers,
            authentication_timeout,
            backend,
            methods: methods.unwrap_or_else(|| match protocol {
                MailProtocol::Smtp => vec![MailMethod::Plain, MailMethod::Login],
                _ => vec![MailMethod::Plain],
            }),
            capabilities: capabilities.unwrap_or_else(|| usual_capabilities(protocol)),
            asks_capabilities,
            server_name: object.read("server_name", read_word)?,
            error_messages: object.switch("error_messages")?,
            max_errors: object.integer_or_default("max_errors")?,
            client_timeout,
            connect_timeout,
            session_timeout,
            xclient: object.boolean("xclient")?,
            backend_authentication: object.switch("backend_authentication")? || has_backend,
            client_id: object.switch("client_id")?,
            client_names: object.switch("client_names")?,
            proxy_protocol: object.integer("proxy_protocol")?,
            tls,
        };
        object.end()?;
        Ok(mail)
    }

    /// Returns the TLS settings for connections to other servers, each with its path.
    pub(crate) fn upstream_tls(&self) -> Vec<(String, UpstreamTls)> {
        let place = |key: &str| path(["mail", self.name.as_str(), key]);
        let is_https = self.authentication.iter().any(|server| server.is_https);
        let asked = is_https.then(|| (place("authentication"), UpstreamTls::default()));
        let behind = self.tls.clone().map(|tls| (place("tls"), tls));
        asked.into_iter().chain(behind).collect()
    }

    /// Returns true if clients do not log in.
    pub fn is_open(&self) -> bool {
        self.methods.contains(&MailMethod::None)
    }
}

fn usual_capabilities(protocol: MailProtocol) -> Vec<String> {
    let names: &[&str] = match protocol {
        MailProtocol::Imap => &["IMAP4rev1", "UIDPLUS"],
        MailProtocol::Pop3 => &["TOP", "USER", "UIDL"],
        MailProtocol::Smtp => &[],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn read_timeouts(node: &Node<'_>) -> Result<[Duration; 3], Error> {
    let object = node.object(&MAIL_TIMEOUTS)?;
    let seconds = |key| object.seconds_or_default(key);
    let timeouts = [seconds("client")?, seconds("connect")?, seconds("session")?];
    object.end()?;
    Ok(timeouts)
}

fn read_methods(
    node: &Node<'_>,
    protocol: MailProtocol,
    has_backend: bool,
) -> Result<Vec<MailMethod>, Error> {
    let mut methods = Vec::new();
    for one in node.elements()? {
        let method = MailMethod::read(&one)?;
        if method == MailMethod::None && protocol != MailProtocol::Smtp {
            return Err(one.invalid("is for \"smtp\" only"));
        }
        if method == MailMethod::Apop && protocol != MailProtocol::Pop3 {
            return Err(one.invalid("is for \"pop3\" only"));
        }
        if has_backend && !method.is_checked_behind() {
            let error = one.invalid("cannot go with \"backend\", to which it does not pass");
            return Err(error.with_hint("write \"authentication\" in place of \"backend\""));
        }
        methods.push(method);
    }
    match methods.len() {
        0 => Err(node.invalid("must have at least one method")),
        2.. if methods.contains(&MailMethod::None) => {
            Err(node.invalid("must have \"none\" alone: clients either log in or do not"))
        }
        _ => Ok(methods),
    }
}

/// Reads visible characters of ASCII, with single spaces between words.
fn read_word(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    let is_valid = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(node.invalid("must be visible ASCII characters"))
    }
}

fn read_backend(node: &Node<'_>) -> Result<String, Error> {
    match Pass::read_of_stream(node)? {
        Pass::Fixed(Target::Upstream(name)) => {
            check_upstream(node, &name)?;
            Ok(name)
        }
        _ => Err(node.invalid("must name an upstream").with_hint("write \"upstreams/NAME\"")),
    }
}

type Authentication = (Vec<MailAuthentication>, Option<Target>, Vec<(String, String)>, Duration);

fn read_authentication(node: &Node<'_>) -> Result<Authentication, Error> {
    let object = node.object(&AUTHENTICATION)?;
    let urls = object.read("url", |url| {
        let urls = url.strings()?.map(|one| MailAuthentication::read(&one));
        let urls = urls.collect::<Result<Vec<_>, _>>()?;
        if urls.is_empty() {
            return Err(url.invalid("must name at least one server"));
        }
        Ok(urls)
    })?;
    let script = object.read("script", read_script)?;
    match (&urls, object.optional("script")) {
        (Some(_), Some(node)) => return Err(node.invalid("cannot go with \"url\"")),
        (None, None) => return Err(object.missing(&["url", "script"])),
        _ => {}
    }
    let headers = object.read("headers", read_headers)?.unwrap_or_default();
    let timeout = object.seconds_or_default("timeout")?;
    object.end()?;
    Ok((urls.unwrap_or_default(), script, headers, timeout))
}

fn read_script(node: &Node<'_>) -> Result<Target, Error> {
    match Pass::read(node)? {
        Pass::Fixed(target @ Target::Application { .. }) => Ok(target),
        _ => {
            let error = node.invalid("must name an application");
            Err(error.with_hint("write \"applications/NAME\" or \"applications/NAME/TARGET\""))
        }
    }
}

fn read_headers(node: &Node<'_>) -> Result<Vec<(String, String)>, Error> {
    let mut headers = Vec::new();
    for (name, value) in node.members()? {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(value.invalid("is no name of a header field"));
        }
        let text = value.string()?;
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(value.invalid("must not have control characters"));
        }
        headers.push((name.to_owned(), text.to_owned()));
    }
    Ok(headers)
}

impl MailAuthentication {
    fn read(node: &Node<'_>) -> Result<MailAuthentication, Error> {
        let text = node.text()?;
        let wrong = || {
            let error = node.invalid("must be a URL of HTTP");
            error.with_hint("write \"http://127.0.0.1:9000/auth\"")
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let is_https = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
        if let Some(rest) = rest.strip_prefix("unix:") {
            let (path, target) = rest.split_once(':').unwrap_or((rest, "/"));
            if is_https || !path.starts_with('/') || !target.starts_with('/') {
                return Err(wrong());
            }
            let path =
                percent::decode(path.as_bytes()).and_then(|path| String::from_utf8(path).ok());
            let address = Address::parse_server(&format!("unix:{}", path.ok_or_else(wrong)?));
            let address = address.map_err(|error| node.invalid(error))?;
            let (host, target) = ("localhost".to_owned(), target.to_owned());
            return Ok(MailAuthentication { address, is_https, host, target });
        }
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(at);
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let with_port = if has_port {
            host.to_owned()
        } else {
            format!("{host}:{}", if is_https { 443 } else { 80 })
        };
        let address = Address::parse_server(&with_port).map_err(|error| node.invalid(error))?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(MailAuthentication {
            address,
            is_https,
            host: host.to_owned(),
            target: format!("{slash}{target}"),
        })
    }
}

#[cfg(test)]
mod tests;
