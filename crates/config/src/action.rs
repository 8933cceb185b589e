//! `action`: what happens to a request.

use crate::access::Access;
use crate::address::Address;
use crate::cors::Cors;
use crate::error::Error;
use crate::error_pages::ErrorPage;
use crate::node::{Node, Object, Shown, quoted};
use crate::share::Share;
use crate::target::{Pass, Target};
use crate::template::Template;
use crate::token;
use crate::upstream_tls::UpstreamTls;

/// What to do with a request.
#[derive(Debug, Clone)]
pub struct Action {
    /// What takes the request.
    pub kind: ActionKind,
    /// The path, and maybe query, that takes the place of the request's beforehand.
    pub rewrite: Option<Template>,
    /// Fields that are set in, or taken out of, the response.
    pub response_headers: Vec<ResponseHeader>,
    /// Whether responses may be compressed.
    pub compress: bool,
    /// Who may come here.
    pub access: Access,
    /// Pages for errors of the server's own.
    pub error_pages: Vec<ErrorPage>,
    /// Whether responses get the fields that protect browsers.
    pub security_headers: bool,
    /// Which other sites may read responses.
    pub cors: Option<Cors>,
    /// What waits here on its way to other servers and back.
    pub buffering: Buffering,
    /// Bytes that a request's body may have; what holds for all requests if `None`.
    pub max_body_size: Option<u64>,
}

/// What waits here on its way to other servers and back; their own settings count where there is
/// `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffering {
    /// `buffering`: answers are taken as fast as they come.
    pub responses: Option<bool>,
    /// `request_buffering`: a server hears of a request only when all of its body is there.
    pub requests: Option<bool>,
}

impl Buffering {
    /// What is said here, and otherwise there.
    pub fn or(self, other: Buffering) -> Buffering {
        Buffering {
            responses: self.responses.or(other.responses),
            requests: self.requests.or(other.requests),
        }
    }
}

/// What takes a request.
#[derive(Debug, Clone)]
pub enum ActionKind {
    /// `pass`: another part of the document decides.
    Pass(Pass),
    /// `return`: the server answers by itself.
    Return(Return),
    /// `share`: a file is the answer.
    Share(Box<Share>),
    /// `status`: what the application of this name does is the answer.
    Status(String),
    /// `ping`: the answer tells that an application takes requests.
    Ping(Ping),
    /// `proxy`: another HTTP server answers.
    Proxy(Proxy),
}

/// Another HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Where it listens.
    pub address: Address,
    /// How TLS is spoken with it; `None` for plain HTTP.
    pub tls: Option<UpstreamTls>,
}

/// The answer of an application that takes requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// The application.
    pub application: String,
    /// What the answer says.
    pub response: String,
}

/// An answer without content, or with an error page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    /// The status code, from 0 to 999 as in Unit.
    pub status: u16,
    /// The `Location` field.
    pub location: Option<Template>,
    /// Whether the query of the request is added to the location.
    pub keep_query: bool,
}

/// A field of the response, replaced or taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The name, a token.
    pub name: String,
    /// The value; `None` takes the field out. Its literal parts have no control characters.
    pub value: Option<Template>,
    /// Whether that concerns responses of every status, and not only those from 200 to 399.
    pub always: bool,
}

/// The keys of which an action has exactly one.
const KINDS: [&str; 6] = ["pass", "return", "share", "status", "ping", "proxy"];

impl Action {
    pub(crate) fn read(node: &Node<'_>) -> Result<Action, Error> {
        let object = node.object()?;
        let kind = which_kind(node)?;
        let kind = match kind {
            "pass" => ActionKind::Pass(Pass::read(&object.required("pass")?)?),
            "return" => ActionKind::Return(Return::read(&object)?),
            "share" => ActionKind::Share(Box::new(Share::read(&object)?)),
            "status" => ActionKind::Status(Target::read_application(&object.required("status")?)?),
            "ping" => ActionKind::Ping(Ping::read(&object)?),
            _ => ActionKind::Proxy(read_proxy(&object.required("proxy")?)?),
        };
        let action = Action {
            kind,
            rewrite: object.read("rewrite", Template::read)?,
            response_headers: object
                .read("response_headers", ResponseHeader::read_all)?
                .unwrap_or_default(),
            compress: object.boolean("compress")?.unwrap_or(true),
            access: Access::read(&object)?,
            error_pages: object.read("error_pages", ErrorPage::read_all)?.unwrap_or_default(),
            cors: object.read("cors", Cors::read)?,
            security_headers: object.boolean("security_headers")?.unwrap_or(false),
            buffering: Buffering {
                responses: object.boolean("buffering")?,
                requests: object.boolean("request_buffering")?,
            },
            max_body_size: object.read("max_body_size", |node| node.size(0))?,
        };
        object.end()?;
        Ok(action)
    }
}

impl Action {
    /// The most that the action, or one that may come in its place, allows the body of a request.
    pub fn most_body(&self) -> u64 {
        let fallback = match &self.kind {
            ActionKind::Share(share) => share.fallback.as_ref().map_or(0, Action::most_body),
            _ => 0,
        };
        self.max_body_size.unwrap_or(0).max(fallback)
    }
}

/// The one kind that the action has.
fn which_kind(node: &Node<'_>) -> Result<&'static str, Error> {
    // An object of its own: the keys that it is asked for must not count as known for every kind.
    let object = node.object()?;
    let mut present = KINDS.iter().copied().filter(|kind| object.optional(kind).is_some());
    let kind = present.next().ok_or_else(|| object.missing(&KINDS))?;
    match present.next() {
        None => Ok(kind),
        Some(other) => Err(node.invalid(format_args!(
            "has \"{kind}\" and \"{other}\"; it must have just one of {}",
            quoted(&KINDS)
        ))),
    }
}

impl Return {
    fn read(object: &Object<'_>) -> Result<Return, Error> {
        let status = object.required("return")?.integer(0..=999)?;
        let location = object.read("location", Template::read)?;
        // In range by the line above.
        let status = u16::try_from(status).unwrap_or(500);
        let keep_query = object.boolean("keep_query")?.unwrap_or(false);
        if let (true, None, Some(node)) = (keep_query, &location, object.optional("keep_query")) {
            return Err(node.invalid("means nothing without \"location\""));
        }
        Ok(Return { status, location, keep_query })
    }
}

impl Ping {
    fn read(object: &Object<'_>) -> Result<Ping, Error> {
        let application = Target::read_application(&object.required("ping")?)?;
        let response = object.text("response")?.unwrap_or_else(|| "pong".to_owned());
        Ok(Ping { application, response })
    }
}

impl ResponseHeader {
    fn read_all(node: &Node<'_>) -> Result<Vec<ResponseHeader>, Error> {
        node.members()?.map(|(name, value)| ResponseHeader::read(name, &value)).collect()
    }

    fn read(name: &str, node: &Node<'_>) -> Result<ResponseHeader, Error> {
        /// They say where a response ends, so only the server can know them.
        const FRAMING: [&str; 3] = ["connection", "content-length", "transfer-encoding"];
        if !token::is_token(name) {
            return Err(node.invalid("must be the name of a header field"));
        }
        if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(node.invalid("must not be set, as only the server knows it"));
        }
        let name = name.to_owned();
        if !node.value.is_object() {
            return Ok(ResponseHeader { name, value: Self::read_value(node)?, always: false });
        }
        let object = node.object()?;
        let value = Self::read_value(&object.required("value")?)?;
        let always = object.boolean("always")?.unwrap_or(false);
        object.end()?;
        Ok(ResponseHeader { name, value, always })
    }

    fn read_value(node: &Node<'_>) -> Result<Option<Template>, Error> {
        match node.value {
            serde_json::Value::Null => Ok(None),
            serde_json::Value::String(text) if text.chars().any(char::is_control) => {
                Err(node.invalid("must not contain control characters"))
            }
            serde_json::Value::String(_) => Template::read(node).map(Some),
            _ => Err(node.wrong_type("a string, or null to take the field out")),
        }
    }
}

fn read_proxy(node: &Node<'_>) -> Result<Proxy, Error> {
    let text = node.string()?;
    let secure = text.strip_prefix("https://");
    let Some(address) = secure.or_else(|| text.strip_prefix("http://")) else {
        let message =
            format!("must start with \"http://\" or \"https://\", but is \"{}\"", Shown(text));
        let hint = "write \"http://127.0.0.1:8080\" or \"http://unix:/path\"";
        return Err(node.invalid(message).with_hint(hint));
    };
    let scheme = if secure.is_some() { "https" } else { "http" };
    let address =
        Address::parse_server(address).map_err(|error| match server_advice(scheme, address) {
            Some((problem, hint)) => node.invalid(problem).with_hint(hint),
            None => node.invalid(error),
        })?;
    if secure.is_some() && matches!(address, Address::Unix(_) | Address::Abstract(_)) {
        let error = node.invalid("names a unix socket, which no certificate is for");
        return Err(error.with_hint("pass to an upstream whose \"tls\" has a \"server_name\""));
    }
    Ok(Proxy { address, tls: secure.map(|_| UpstreamTls::default()) })
}

/// The problem with a URL that has more or less than an address, and what to write.
fn server_advice(scheme: &str, text: &str) -> Option<(&'static str, String)> {
    let usual_port = if scheme == "https" { 443 } else { 80 };
    if text.starts_with("unix:") {
        return None;
    }
    let (server, path) = match text.find(['/', '?', '#']) {
        Some(at) => text.split_at_checked(at)?,
        None => (text, ""),
    };
    let with_port = format!("{server}:{usual_port}");
    let server = match Address::parse_server(server) {
        Ok(_) => server,
        Err(_) => Address::parse_server(&with_port).map(|_| with_port.as_str()).ok()?,
    };
    let url = Shown(server);
    match path {
        "" => Some(("has no port", format!("write \"{scheme}://{url}\""))),
        "/" => Some(("must not have a path", format!("write \"{scheme}://{url}\""))),
        _ => {
            let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
            let path = Shown(path);
            Some((
                "must not have a path, as the server gets the path of the request",
                format!(
                    "write \"{scheme}://{url}\", and \"rewrite\": \"{path}$uri\" beside it to have \
                     \"{path}\" before each path"
                ),
            ))
        }
    }
}
