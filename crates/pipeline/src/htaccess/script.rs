//! Scripts that the engine has chosen: how they are run, and their lines in the log.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_cgi::target::{Directives, Script as PhpScript};
use howdah_htaccess::engine::{Action, Script};
use howdah_htaccess::handler_name;
use howdah_htaccess::modules::core;
use howdah_htaccess::record::Record;
use howdah_htaccess::world::{Level, World};
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Exchange, InterimFields};
use howdah_http::message::Request;
use howdah_routing::route::Origin;

use super::answer::SiteRequest;
use super::exchange;

/// A script to be run.
pub struct ScriptRun {
    /// The script, and the application that runs it.
    pub origin: Origin,
    /// The request as the script sees it.
    pub request: Request,
    /// Fields of interim responses.
    pub interim_fields: InterimFields,
    /// The body of the request has been read.
    pub is_body_read: bool,
    pub(super) record: Box<Record>,
    pub(super) action: Action,
}

impl SiteRequest<'_, '_> {
    /// Prepares the run of a script.
    pub(super) fn script(
        &mut self,
        record: Box<Record>,
        action: Action,
        exchange: &mut Exchange<'_>,
    ) -> Result<Box<ScriptRun>, (Box<Record>, RequestError)> {
        let (Action::Script(script), Some(name)) = (&action, &self.site.scripts) else {
            return Err((record, RequestError::Forbidden));
        };
        if script.shows_source {
            return Err((record, RequestError::Forbidden));
        }
        let path = |bytes: &[u8]| -> Arc<Path> { Path::new(OsStr::from_bytes(bytes)).into() };
        let script_to_run = PhpScript {
            name: Bytes::copy_from_slice(&script.name),
            path_info: Bytes::copy_from_slice(&script.path_info),
            file: path(&script.filename),
            root: path(self.root),
            directives: Some(Arc::new(Directives {
                variables: script.variables.clone(),
                settings: script.settings.clone(),
                passes_authorization: script.passes_auth,
                status: record.status,
                server_port: record.connection.server_port,
            })),
        };
        let limit = record.config.of::<core::Config>().limit_request_body;
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX);
        if let Err(error) = exchange.limit_body(limit.min(self.max_body_size)) {
            return Err((record, error.into()));
        }
        let snapshot = self.context.routing.snapshot;
        let origin = if let Some(application) = snapshot.applications.get(&**name) {
            Origin::Php(Arc::clone(application), script_to_run)
        } else if let Some(site) = snapshot.fastcgi.get(&**name) {
            Origin::FastCgi(Arc::clone(site), script_to_run)
        } else {
            return Err((record, RequestError::NotFound));
        };
        let (method, query) = (&script.method, &script.query);
        let request =
            exchange::request(self.world.request, &record, method, query, &script.request_uri);
        // `Header unset` is for the final response alone, and may depend on it.
        let interim_fields = InterimFields { only_link: true, ..exchange.interim_fields.clone() };
        // Of an error document, the body may have been read: by another script, or with the request
        // for a file.
        let is_body_read = std::mem::replace(&mut self.has_run, true) || has_read_body(&record);
        Ok(Box::new(ScriptRun { origin, request, interim_fields, is_body_read, record, action }))
    }

    /// Logs once that a directive of a former host has chosen PHP, and whether it meant another
    /// version.
    pub(super) fn note_handler(
        &self,
        application: &str,
        origin: &Origin,
        script: &Script,
        handler: &[u8],
    ) {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
        let has = match origin {
            Origin::Php(application, _) => application.queue.php_version(),
            Origin::FastCgi(..) | Origin::Proxy(_) => None,
        };
        let ran = match &has {
            Some(version) => format!("PHP {version}"),
            None => "the PHP".to_owned(),
        };
        let advice = match handler_name::php_version(handler).zip(has) {
            Some((wanted, has)) if !is_version(&has, &wanted) => {
                format!(
                    "; it means PHP {wanted}: set \"type\": \"php {wanted}\" if the site needs that"
                )
            }
            _ => String::new(),
        };
        let text = format!(
            "handler \"{}\" of another server for {}: {ran} of the application \"{application}\" \
             runs such files{advice}",
            shown(handler),
            shown(&script.filename),
        );
        self.world.log(Level::Notice, &text);
    }
}

/// Returns true if a version is `wanted`, of which the last parts may be left out.
fn is_version(version: &str, wanted: &str) -> bool {
    version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns true if the body of the request was read before it was redirected to this record.
fn has_read_body(record: &Record) -> bool {
    let mut previous = record.previous.as_deref();
    while let Some(before) = previous {
        if before.is_body_read {
            return true;
        }
        previous = before.previous.as_deref();
    }
    false
}
