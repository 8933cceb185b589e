//! Options of an action that affect the responses of every kind.

use std::sync::Arc;

use howdah_template::Template;
use howdah_text::token::is_token;

use crate::access_log::AccessLog;
use crate::buffering::Buffering;
use crate::cache::CacheOption;
use crate::cors::Cors;
use crate::error::Error;
use crate::expires::BrowserCaching;
use crate::limit::LimitBandwidth;
use crate::node::{Node, Object};
use crate::php::read_settings;
use crate::response_headers::ResponseHeader;
use crate::script_variables;
use crate::server_options::ServerOptions;

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
        Ok(ActionOptions {
            response_headers: object
                .read("response_headers", ResponseHeader::read_all)?
                .unwrap_or_default(),
            compress: object.boolean("compress")?.unwrap_or(true),
            security_headers: object.boolean("security_headers")?.unwrap_or(false),
            cors: object.read("cors", Cors::read)?,
            buffering: Buffering::read(object)?,
            cache: object.read("cache", CacheOption::read)?,
            caching: BrowserCaching::read(object)?,
            charset: object.read("charset", read_charset)?,
            max_body_size: object.read("max_body_size", BodyLimit::read)?,
            rate: object.read("rate", LimitBandwidth::read)?,
            intercept_errors: object.boolean("intercept_errors")?,
            internal: object.boolean("internal")?.unwrap_or(false),
            environment: object
                .read("environment", script_variables::read_of_action)?
                .unwrap_or_default(),
            php_settings: object.read("options", read_options)?.unwrap_or_default(),
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

/// Reads `options`: settings of PHP for the requests of an action.
fn read_options(node: &Node<'_>) -> Result<Vec<(String, String)>, Error> {
    let object = node.object()?;
    let settings = object.read("user", |user| {
        let settings = read_settings(user)?;
        for (name, setting) in user.members()? {
            let text = settings.iter().find(|(other, _)| other == name);
            let is_control = |(name, value): &(String, String)| {
                name.chars().chain(value.chars()).any(char::is_control)
            };
            if text.is_some_and(is_control) {
                return Err(setting.invalid("must not contain control characters"));
            }
        }
        Ok(settings)
    })?;
    object.end()?;
    let settings = settings.unwrap_or_default();
    Ok(settings)
}
