//! Choice of the handler that answers a request after all phases have let it pass.

use super::index::{DIRECTORY, REWRITTEN, with_query};
use super::server::Server;
use crate::handler_name;
use crate::method;
use crate::modules::autoindex::{self, Directory, Insert};
use crate::modules::core;
use crate::modules::core::Signature;
use crate::modules::negotiation::{MAP_TYPE, Map, handle_map};
use crate::modules::php;
use crate::options::Options;
use crate::outcome::{Action, PHP_HANDLER, Script};
use crate::record::PathInfo;
use crate::record::{FileKind, Record};
use crate::support::{escape_html, lossy};
use crate::uri;
use crate::world::{FileRule, Later, Level, Reading};

/// Result of a handler.
pub(super) enum Handled {
    Answer(Action),
    /// The request continues under another path.
    Redirect(Vec<u8>),
}

type Handling = Result<Handled, u16>;

/// Treatment of a script.
#[derive(Clone, Copy)]
enum Runs<'h> {
    /// The file runs.
    Script,
    /// The file runs, chosen by a handler of another server.
    Foreign(&'h [u8]),
    /// The response shows the source of the file.
    Source,
}

/// Handler of type maps.
const MAP_HANDLER: &[u8] = b"type-map";

impl Server<'_> {
    /// Runs the handler of a request. A name that no module knows means the default handler, as in
    /// Apache.
    pub(super) async fn invoke(&self, record: &mut Record) -> Handling {
        // A request that continues under another path has the limit of that one.
        let is_rewritten = record.handler.as_deref() == Some(REWRITTEN);
        if !is_rewritten && is_body_too_large(record) {
            return Err(413);
        }
        let handler = match (&record.handler, &record.content_type) {
            (Some(handler), _) => handler.clone(),
            (None, Some(kind)) if record.is_type_trusted => {
                let end = memchr::memchr(b';', kind).unwrap_or(kind.len());
                kind[..end].trim_ascii_end().to_vec()
            }
            _ => Vec::new(),
        };
        let rule = if is_rewritten { FileRule::Open } else { self.rule(record) };
        match rule {
            FileRule::Open | FileRule::NotRun => {}
            FileRule::Closed => return Err(403),
            FileRule::Hidden => return Err(404),
        }
        let is_source = self.is_source(&record.filename);
        let handled = match handler.as_slice() {
            REWRITTEN => return self.rewritten(record),
            DIRECTORY => self.list(record).await?,
            // A map may have the text of a variant in it.
            MAP_HANDLER | MAP_TYPE if is_source => None,
            MAP_HANDLER | MAP_TYPE => match handle_map(record, self.world, self).await? {
                Map::Redirect(target) => return Ok(Handled::Redirect(target)),
                Map::Body(text) => Some(Action::Page(text)),
            },
            name if rule == FileRule::NotRun && is_php(record, name, is_source) => {
                let text = format!(
                    "{} is not run: the configuration of the server closes its directory to \
                     scripts",
                    lossy(&record.filename)
                );
                self.world.log(Level::Error, &text);
                return Err(403);
            }
            b"application/x-httpd-php-source" => self.script(record, Runs::Source)?,
            b"php-script" => self.script(record, Runs::Script)?,
            name if name == PHP_HANDLER.as_bytes() => self.script(record, Runs::Script)?,
            name if is_foreign_php(record, name, is_source) => {
                self.script(record, Runs::Foreign(name))?
            }
            _ => None,
        };
        match handled {
            Some(action) => Ok(Handled::Answer(action)),
            None => {
                let is_program = handler_name::names_program(&handler.to_ascii_lowercase());
                let action = self.file(record, is_source, is_program)?;
                if matches!(action, Action::File) {
                    self.add_digest(record).await;
                }
                Ok(Handled::Answer(action))
            }
        }
    }

    /// Returns true if a file is source of scripts by its name: it runs, or it is refused. A site
    /// that runs none leaves that to the server.
    fn is_source(&self, filename: &[u8]) -> bool {
        let Some(scripts) = &self.site.scripts else { return false };
        let name = filename.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        scripts.matches(name) || self.world.is_source(filename)
    }

    /// Returns the rule of the server's configuration for the file of a request.
    fn rule(&self, record: &Record) -> FileRule {
        let is_bare = record.file.kind == FileKind::Directory && !record.filename.ends_with(b"/");
        if is_bare {
            self.world.rule(&[&record.filename[..], b"/"].concat())
        } else {
            self.world.rule(&record.filename)
        }
    }

    /// Continues under the path that mod_rewrite has found.
    fn rewritten(&self, record: &Record) -> Handling {
        match record.filename.strip_prefix(b"redirect:") {
            Some(path) => Ok(Handled::Redirect(with_query(path, record.args.as_deref()))),
            None => Err(500),
        }
    }

    /// Lists a directory; `None` for a method that asks for no list.
    async fn list(&self, record: &mut Record) -> Result<Option<Action>, u16> {
        if !matches!(record.method.as_slice(), b"GET" | b"HEAD") {
            return Ok(None);
        }
        let is_enabled =
            record.config.of::<core::Config>().options.get().contains(Options::INDEXES);
        let page = autoindex::handle(record, self.world, self, is_enabled).await?;
        Ok(Some(Action::Page(page)))
    }

    /// Prepares a script; `None` if scripts are turned off.
    fn script(&self, record: &mut Record, runs: Runs<'_>) -> Result<Option<Action>, u16> {
        record.headers_in.keep_last();
        let config = &record.config;
        if record.accepts_path_info == PathInfo::Reject && !record.path_info.is_empty() {
            return Err(404);
        }
        if !config.of::<php::Config>().runs_scripts() {
            return Ok(None);
        }
        let name = String::from_utf8_lossy(&record.filename);
        match record.file.kind {
            FileKind::None => {
                let text = format!("script '{name}' not found or unable to stat");
                self.world.log(Level::Error, &text);
                return Err(404);
            }
            FileKind::Directory => {
                let text = format!("attempt to invoke directory '{name}' as script");
                self.world.log(Level::Error, &text);
                return Err(403);
            }
            // A rule with the flag `H` has replaced the handler that would continue under another
            // path.
            _ if !record.filename.starts_with(b"/") => return Err(500),
            FileKind::File | FileKind::Other => {}
        }
        let length = if record.path_info.is_empty() {
            record.uri.len()
        } else {
            uri::script_length(&record.uri, &record.path_info)
        };
        let script = Script {
            filename: record.filename.clone(),
            name: record.uri[..length].to_vec(),
            path_info: record.path_info.clone(),
            request_uri: request_uri(record),
            method: record.method.clone(),
            query: record.args.clone().unwrap_or_default(),
            variables: variables(record),
            settings: config.of::<php::Config>().settings.clone(),
            passes_auth: config.of::<core::Config>().pass_auth == Some(true),
            shows_source: matches!(runs, Runs::Source),
            foreign_handler: match runs {
                Runs::Foreign(name) => Some(name.to_vec()),
                Runs::Script | Runs::Source => None,
            },
        };
        Ok(Some(Action::Script(script)))
    }

    /// Sends a file, or says why not. Source of scripts is never sent: where directives turn PHP
    /// off, or have another program run the file, it is refused.
    fn file(&self, record: &mut Record, is_source: bool, is_program: bool) -> Result<Action, u16> {
        record.is_body_read = true;
        match record.method.as_slice() {
            b"GET" | b"HEAD" | b"POST" => {}
            b"OPTIONS" => {
                record.headers_out.set("Allow", ALLOWED);
                return Ok(Action::Options);
            }
            method => {
                let status = if method::is_known(method) { 405 } else { 501 };
                record.notes.set(REFUSED_METHOD, "");
                return Err(status);
            }
        }
        let has_path_info = !record.path_info.is_empty();
        let is_rejected = has_path_info && record.accepts_path_info != PathInfo::Accept;
        if record.file.kind != FileKind::File || is_rejected {
            return Err(404);
        }
        if is_source {
            let text = format!(
                "{} is a script, and no directive has PHP run it: its source is not sent",
                lossy(&record.filename)
            );
            self.world.log(Level::Error, &text);
            return Err(403);
        }
        if is_program {
            let text = format!(
                "{} is a program by its handler, and PHP alone is run: its source is not sent",
                lossy(&record.filename)
            );
            self.world.log(Level::Error, &text);
            return Err(403);
        }
        record.modified = record.file.modified;
        Ok(Action::File)
    }
}

/// Returns true if a handler has PHP run a file, or show its source.
fn is_php(record: &Record, name: &[u8], is_source: bool) -> bool {
    let own: [&[u8]; 3] =
        [PHP_HANDLER.as_bytes(), b"php-script", b"application/x-httpd-php-source"];
    own.contains(&name) || is_foreign_php(record, name, is_source)
}

/// Returns true if a handler of another server names PHP for a file. A name that may also stand for
/// other programs counts for source of PHP only.
fn is_foreign_php(record: &Record, name: &[u8], is_source: bool) -> bool {
    let is_directory = record.file.kind == FileKind::Directory;
    let is_php = match record.handler {
        Some(_) => handler_name::names_php(name) || is_source && handler_name::may_name_php(name),
        None => handler_name::is_php_type(&name.to_ascii_lowercase()),
    };
    is_php && !is_directory
}

impl Directory for Server<'_> {
    /// Reads the text of a file. The output of a script is not inserted.
    fn insert<'a>(&'a self, record: &'a Record, uri: &'a [u8]) -> Later<'a, Insert> {
        Box::pin(async move {
            let sub = self.lookup_path(record, uri).await;
            let is_file = sub.status == 200 && sub.file.kind == FileKind::File;
            let (true, None, Some(kind)) = (is_file, &sub.handler, &sub.content_type) else {
                return Insert::None;
            };
            let is_closed = matches!(self.rule(&sub), FileRule::Closed | FileRule::Hidden);
            if is_closed || self.world.is_source(&sub.filename) || self.is_source(&sub.filename) {
                return Insert::None;
            }
            let reading = Reading::All(MAX_INSERT_BYTES);
            let Ok(text) = self.world.read(&sub.filename, reading).await else {
                return Insert::None;
            };
            if kind.starts_with(b"text/html") {
                Insert::Html(text.to_vec())
            } else if kind.starts_with(b"text/") {
                Insert::Plain(text.to_vec())
            } else {
                Insert::None
            }
        })
    }

    fn signature(&self, record: &Record) -> Vec<u8> {
        let signature = record.config.of::<core::Config>().signature.unwrap_or(Signature::Off);
        if signature == Signature::Off {
            return Vec::new();
        }
        let connection = &record.connection;
        let text = |bytes: &[u8]| String::from_utf8_lossy(&escape_html(bytes)).into_owned();
        let name = text(&connection.server_name);
        let name = match signature {
            Signature::Email => {
                format!("<a href=\"mailto:{}\">{name}</a>", text(&connection.server_admin))
            }
            _ => name,
        };
        let software = text(&connection.server_software);
        let port = connection.server_port;
        format!("<address>{software} Server at {name} Port {port}</address>\n").into_bytes()
    }
}

/// Largest header or readme of a listing, in bytes.
const MAX_INSERT_BYTES: usize = 1 << 20;

/// Note of a request whose method is not one of files.
pub(super) const REFUSED_METHOD: &[u8] = b"refused-method";

/// Methods of files.
pub(super) const ALLOWED: &str = "GET,POST,OPTIONS,HEAD";

/// Returns true if the request announces a longer body than `LimitRequestBody` allows. An error
/// document does not read the body.
pub(super) fn is_body_too_large(record: &Record) -> bool {
    let limit = record.config.of::<core::Config>().limit_request_body.filter(|limit| *limit > 0);
    let Some(limit) = limit.filter(|_| record.status == 200) else { return false };
    let length =
        record.headers_in.get(b"Content-Length").and_then(|text| std::str::from_utf8(text).ok());
    length.and_then(|text| text.trim().parse::<u64>().ok()).is_some_and(|length| length > limit)
}

/// Path and query as the client sent them, from the first line of its request.
fn request_uri(record: &Record) -> Vec<u8> {
    if record.config.of::<core::Config>().has_current_uri == Some(true) {
        return uri::escaped(&record.uri);
    }
    let mut words = record.request_line.splitn(3, |&byte| byte == b' ');
    let target = words.nth(1).unwrap_or(&record.unparsed_uri);
    if target.starts_with(b"/") {
        return target.to_vec();
    }
    match memchr::memmem::find(target, b"://") {
        Some(at) => {
            let rest = &target[at + 3..];
            memchr::memchr(b'/', rest).map_or(b"/".to_vec(), |slash| rest[slash..].to_vec())
        }
        None => target.to_vec(),
    }
}

/// Environment of a script beside the usual variables.
fn variables(record: &Record) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut variables: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut set =
        |name: &[u8], value: &[u8]| match variables.iter_mut().find(|(known, _)| known == name) {
            Some(_) => {}
            None => variables.push((name.to_vec(), value.to_vec())),
        };
    if let Some(user) = &record.user {
        set(b"REMOTE_USER", user);
    } else {
        let mut previous = record.previous.as_deref();
        while let Some(before) = previous {
            if let Some(user) = before.user.as_ref().filter(|_| before.client_fields.is_none()) {
                set(b"REDIRECT_REMOTE_USER", user);
                break;
            }
            previous = before.previous.as_deref();
        }
    }
    if let Some(kind) = &record.auth_type {
        set(b"AUTH_TYPE", kind);
    }
    if let Some(previous) = &record.previous {
        if record.config.of::<core::Config>().qualify_redirect_url == Some(true) {
            set(b"REDIRECT_URL", &uri::construct_url(record, &previous.uri));
        } else if !previous.uri.is_empty() {
            set(b"REDIRECT_URL", &previous.uri);
        }
        if let Some(args) = previous.args.as_deref() {
            set(b"REDIRECT_QUERY_STRING", args);
        }
    }
    let own = variables.len();
    for (name, value) in record.env.iter() {
        // The last one counts: `SetEnv` comes after the others.
        match variables.iter().position(|(known, _)| known == name) {
            Some(index) if index < own => {}
            Some(index) => variables[index].1 = value.to_vec(),
            None => variables.push((name.to_vec(), value.to_vec())),
        }
    }
    variables
}
