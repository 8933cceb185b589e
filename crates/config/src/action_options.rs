//! Options of an action that affect the responses of every kind.

use std::sync::Arc;

use howdah_template::Template;
use howdah_text::token::is_token;

use crate::access_log::{AccessLog, LOGS};
use crate::buffering::{BUFFERING, Buffering, REQUEST_BUFFERING};
use crate::cache::{CACHE, CacheOption};
use crate::cors::{CORS, Cors};
use crate::error::Error;
use crate::expires::{BrowserCaching, CACHE_CONTROL, EXPIRES, FINGERPRINTED};
use crate::key::{Key, Kind, Shape};
use crate::limit::{BANDWIDTH, LimitBandwidth};
use crate::node::{Node, Object};
use crate::php::read_settings;
use crate::response_headers::{self, ResponseHeader};
use crate::script_variables;
use crate::server_options::ServerOptions;

/// Options of all actions.
pub(crate) static KEYS: &[Key] = &[
    Key::new(
        "response_headers",
        Kind::Named(&response_headers::MEMBER),
        "Response header fields to set, with variables, or with `null` to remove; for a status \
         from 200 to 399, and for 416 of a file",
    )
    .default("{}")
    .details(
        "Fields of these names that the response has are replaced. **Howdah:** an array of strings \
         sets several fields of the name. **Howdah:** a value whose \
         variables are empty has no effect, and the response keeps its own fields (Unit sends an \
         empty field). **Howdah:** an object, see below, adds to the fields of the response or \
         edits them; with `\"always\": true` it also applies to errors (nginx's `add_header … \
         always`, `proxy_hide_header`); an array of objects makes several changes one after \
         another. Of several actions on the \
         way of a request, those of the last one count: write them in the steps of a route, not \
         beside the `pass` to it, and in the `fallback` of a share, too. `Content-Length`, \
         `Transfer-Encoding` and `Connection` cannot be set",
    )
    .unit(),
    Key::switch("compress", true, "Allows responses to be compressed").details(
        "`false` exempts them from [compression](settings.md), also if the request is passed on",
    ),
    Key::switch("security_headers", false, "Adds security header fields to responses")
        .details(
            "`X-Content-Type-Options: nosniff`, `X-Frame-Options: SAMEORIGIN`, `Referrer-Policy: \
             strict-origin-when-cross-origin` and, over TLS, `Strict-Transport-Security` for a \
             year, each unless the response has the field",
        )
        .inherited(),
    Key::new("cors", Kind::Object(&CORS), "Other origins whose scripts may read responses")
        .default("none")
        .details("See below")
        .inherited(),
    BUFFERING.default("that of the upstream or application").inherited(),
    REQUEST_BUFFERING.default("that of the upstream or application").inherited(),
    Key::new(
        "cache",
        Kind::Either(&[Kind::Switch, Kind::Object(&CACHE)]),
        "Stores responses of applications and other servers; `false` turns off an earlier \
         action's `cache`",
    )
    .default("none")
    .details("See [below](#cache)")
    .inherited(),
    EXPIRES,
    CACHE_CONTROL,
    FINGERPRINTED,
    Key::new(
        "charset",
        Kind::Text,
        "Encoding that text types get in `Content-Type` if they have none, such as `\"utf-8\"`; \
         or `\"off\"`",
    )
    .default("none")
    .details(
        "For `text/*`, JavaScript and XML types (nginx's `charset`, Apache's `AddDefaultCharset`)",
    )
    .inherited(),
    Key::new(
        "page_script",
        Kind::Text,
        "Path of a script that HTML pages get when a browser opens them, such as `\"/reload.js\"`",
    )
    .default("none")
    .details(
        "For development: [`howdah serve --watch`](../serve-a-site.md#for-development) reloads pages \
         with it. A page is a response of type `text/html` to a request with `Sec-Fetch-Dest: \
         document`, which browsers send to this machine and over TLS. One that is encoded, a part, or \
         an attachment stays as it is. The element is behind the page, with the nonce of its \
         `Content-Security-Policy` if that has one; a page that got it has no validators",
    )
    .inherited(),
    Key::new(
        "max_body_size",
        Kind::Bytes(0),
        "Maximum size of a request body in bytes; larger bodies get 413",
    )
    .default("that of the settings")
    .details("nginx's `client_max_body_size` of a location")
    .inherited(),
    Key::new(
        "rate",
        Kind::Either(&[Kind::Bytes(1), Kind::Object(&BANDWIDTH)]),
        "Bytes a second that each response is sent with",
    )
    .default("no limit")
    .details(
        "nginx's `limit_rate` and `limit_rate_after`. A client with several connections gets as \
         many times the rate; [`bandwidth`](#limit) of a limit is for all responses of a client",
    )
    .inherited(),
    Key::new(
        "intercept_errors",
        Kind::Switch,
        "Lets `error_pages` also replace responses of applications and other servers",
    )
    .default("false")
    .details("`fastcgi_intercept_errors`, `proxy_intercept_errors`")
    .inherited(),
    Key::switch(
        "internal",
        false,
        "Answers clients with 404; only internal requests reach the action",
    )
    .details(
        "These are error pages and [internal redirects](#internal-redirects) (nginx's \
         `internal`). A `rewrite`, `pass` or `fallback` does not make a request internal",
    ),
    Key::new(
        "environment",
        Kind::Named(&Kind::Text),
        "Variables for scripts in addition to those of CGI, or in place of them, with variables \
         of the request",
    )
    .default("none")
    .details(
        "They are in `$_SERVER`, with [variables](variables.md) as values; an empty value removes \
         one (nginx's `fastcgi_param`, Apache's `SetEnv`). Of two with one name, the later counts",
    )
    .adds_up(),
    Key::new("options", Kind::Object(&ACTION_PHP_OPTIONS), "Settings of PHP for the requests")
        .default("none")
        .details(
            "`fastcgi_param PHP_VALUE` and `PHP_ADMIN_VALUE`, `php_value` of Apache. As with \
             `php_value`, only settings that PHP lets a directory change have an effect, and those \
             in `options.admin` of the application stay. Not in [worker mode](../worker-mode.md). \
             PHP-FPM, of an application of type `fastcgi`, applies all of them, and keeps them for \
             later requests of the same process",
        )
        .adds_up(),
    Key::new("access_log", LOGS, "Access logs in place of those of the listener")
        .default("that of the listener")
        .details(
            "See [Access log](access-log.md); `false` for none (nginx's `access_log` of a \
             location)",
        )
        .inherited(),
];

/// `options` of an action.
static ACTION_PHP_OPTIONS: Shape = Shape {
    name: "action_php_options",
    parts: &[&[
        Key::new("admin", Kind::Named(&Kind::Text), "Settings that scripts cannot change")
            .default("{}"),
        Key::new("user", Kind::Named(&Kind::Text), "Settings that scripts can change")
            .default("{}"),
    ]],
};

/// Options of an action. The server merges those of all actions on the way of a request
/// (`howdah-routing`, `Effects::apply`).
#[derive(Debug, Clone)]
pub struct ActionOptions {
    /// Response header fields that are set or removed.
    pub response_headers: Vec<ResponseHeader>,
    /// True if responses may be compressed.
    pub compress: bool,
    /// True if responses get the security header fields (`security_headers`).
    pub security_headers: bool,
    /// Other origins whose scripts may read responses.
    pub cors: Option<Cors>,
    /// Buffering of messages of other servers.
    pub buffering: Buffering,
    /// Cache for responses of applications and other servers.
    pub cache: Option<CacheOption>,
    /// Fields about the time for which browsers may keep responses.
    pub caching: BrowserCaching,
    /// `charset` that text types get, if they have none; empty for none.
    pub charset: Option<String>,
    /// Path of a script that HTML pages get.
    pub page_script: Option<String>,
    /// Maximum size of a request body; if `None`, that of the settings.
    pub max_body_size: Option<BodyLimit>,
    /// Bytes a second that each response is sent with.
    pub rate: Option<LimitBandwidth>,
    /// True if error pages also replace responses of applications and other servers.
    pub intercept_errors: Option<bool>,
    /// True if only internal requests may use the action.
    pub internal: bool,
    /// Variables that scripts get in addition, or in place of those of CGI.
    pub environment: Vec<(String, Template)>,
    /// Settings of PHP that scripts may change.
    pub php_settings: Vec<(String, String)>,
    /// Settings of PHP that scripts cannot change.
    pub locked_php_settings: Vec<(String, String)>,
    /// Options for requests that are passed to other servers.
    pub servers: Option<Arc<ServerOptions>>,
    /// Access logs of the requests; if `None`, those of the listener.
    pub access_log: Option<Vec<AccessLog>>,
}

/// `max_body_size` of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyLimit {
    /// Maximum size in bytes.
    pub bytes: u64,
    /// Path of the key in the document, without its first slash.
    pub key: Arc<str>,
}

impl BodyLimit {
    fn read(node: &Node<'_>) -> Result<BodyLimit, Error> {
        Ok(BodyLimit { bytes: node.size(0)?, key: node.place().trim_start_matches('/').into() })
    }
}

impl ActionOptions {
    /// Reads the options among the keys of an action.
    pub(crate) fn read(object: &Object<'_>) -> Result<ActionOptions, Error> {
        let settings = object.read("options", read_options)?.unwrap_or_default();
        Ok(ActionOptions {
            response_headers: object
                .read("response_headers", ResponseHeader::read_all)?
                .unwrap_or_default(),
            compress: object.switch("compress")?,
            security_headers: object.switch("security_headers")?,
            cors: object.read("cors", Cors::read)?,
            buffering: Buffering::read(object)?,
            cache: object.read("cache", CacheOption::read)?,
            caching: BrowserCaching::read(object)?,
            charset: object.read("charset", read_charset)?,
            page_script: object.read("page_script", read_page_script)?,
            max_body_size: object.read("max_body_size", BodyLimit::read)?,
            rate: object.read("rate", LimitBandwidth::read)?,
            intercept_errors: object.boolean("intercept_errors")?,
            internal: object.switch("internal")?,
            environment: object
                .read("environment", script_variables::read_of_action)?
                .unwrap_or_default(),
            php_settings: settings.user,
            locked_php_settings: settings.admin,
            servers: ServerOptions::read(object)?,
            access_log: object.read("access_log", AccessLog::read_all)?,
        })
    }
}

/// Reads the name of a character encoding. `off` is an empty name.
fn read_charset(node: &Node<'_>) -> Result<String, Error> {
    match node.text()? {
        "off" => Ok(String::new()),
        name if is_token(name) => Ok(name.to_owned()),
        _ => Err(node.invalid("must be the name of an encoding such as \"utf-8\", or \"off\"")),
    }
}

/// Reads the path of a script, which becomes an attribute of HTML.
fn read_page_script(node: &Node<'_>) -> Result<String, Error> {
    let path = node.text()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    // Behind two slashes, a browser expects the name of a host.
    if path.starts_with('/') && !path.starts_with("//") && path.bytes().all(is_plain) {
        return Ok(path.to_owned());
    }
    Err(node.invalid(
        "must be a path that starts with \"/\" and has only letters, digits and \"/-._~\"",
    ))
}

/// Settings of PHP for the requests of an action.
#[derive(Default)]
struct ActionSettings {
    user: Vec<(String, String)>,
    admin: Vec<(String, String)>,
}

/// Reads `options`: settings of PHP for the requests of an action.
fn read_options(node: &Node<'_>) -> Result<ActionSettings, Error> {
    let object = node.object(&ACTION_PHP_OPTIONS)?;
    let read = |node: &Node<'_>| {
        let settings = read_settings(node)?;
        for (name, setting) in node.members()? {
            let text = settings.iter().find(|(other, _)| other == name);
            let is_control = |(name, value): &(String, String)| {
                name.chars().chain(value.chars()).any(char::is_control)
            };
            if text.is_some_and(is_control) {
                return Err(setting.invalid("must not contain control characters"));
            }
        }
        Ok(settings)
    };
    let user = object.read("user", read)?.unwrap_or_default();
    let admin = object.read("admin", read)?.unwrap_or_default();
    object.end()?;
    Ok(ActionSettings { user, admin })
}
