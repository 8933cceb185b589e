//! Requests of web servers over FastCGI: a page of the application's status, or the script that the
//! web server has chosen. Routes, files, `.htaccess` files, caches, error pages and filters are the
//! web server's, and do not apply.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_cgi::target::Script;
use howdah_config::FastCgiListener;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response};
use howdah_http::respond::refuse;
use howdah_php_pool::dispatch;
use howdah_php_pool::status_page::{self, View};

use super::origin;
use crate::context::Context;

/// Answers a request of a web server.
pub async fn answer(
    context: &Context<'_>,
    listener: &FastCgiListener,
    exchange: &mut Exchange<'_>,
) -> Response {
    let Some(application) = context.routing.snapshot.applications.get(&listener.application) else {
        return refuse(RequestError::NotInUse);
    };
    exchange.request.handling.set_site(Arc::clone(&application.name));
    let name = parameter(&exchange.request, b"SCRIPT_NAME");
    let is = |path: &Option<String>| path.as_ref().is_some_and(|path| *path.as_bytes() == *name);
    if is(&listener.status_path) {
        let is_apart = listener.is_status_apart;
        return status_page::page(application, &exchange.request.query, View::PhpFpm { is_apart });
    }
    if is(&listener.ping_path) {
        return if application.queue.takes_requests() {
            status_page::pong(application, &listener.ping_response)
        } else {
            refuse(RequestError::NotRunning)
        };
    }
    let Some(target) = application.targets.get(listener.target.as_deref()) else {
        return refuse(RequestError::NotInUse);
    };
    let file = parameter(&exchange.request, b"SCRIPT_FILENAME");
    let script = Script {
        path_info: parameter(&exchange.request, b"PATH_INFO"),
        name,
        file: Path::new(OsStr::from_bytes(&file)).into(),
        root: Arc::clone(target.root()),
        directives: None,
    };
    let bodies = origin::body_buffer(context);
    let flow = origin::flow(context, &application.config.limits.fair, exchange);
    // Boxed: the future is large.
    let run =
        dispatch::run(&context.thread.php, bodies, application, &script, flow, None, exchange);
    Box::pin(run).await
}

/// Returns a parameter of the web server; empty if there is none of the name.
fn parameter(request: &Request, name: &[u8]) -> Bytes {
    let all = request.additions.as_ref().and_then(|additions| additions.parameters.as_ref());
    let found = all.and_then(|all| all.iter().find(|(other, _)| *other == name));
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}
