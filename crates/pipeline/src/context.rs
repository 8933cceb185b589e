//! State of a request that the steps of the pipeline share.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

use howdah_cgi::params as cgi_params;
use howdah_files::RequestTime;
use howdah_http::message::{Request, ShownRequestId, shown_target};
use howdah_limits::rules::Admission;
use howdah_routing::route::{Routing, site_of};
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;

use crate::thread::RouterThread;

/// The thread that handles a request, and the routes of the request's snapshot.
pub struct Context<'s> {
    /// The thread.
    pub thread: &'s Rc<RouterThread>,
    /// The routes.
    pub routing: Routing<'s>,
    /// Result of the limits that have admitted the request.
    pub admission: RefCell<Admission>,
    /// Header fields for the response, from actions that have checked the request.
    pub added_fields: RefCell<Vec<(String, Vec<u8>)>>,
}

impl<'s> Context<'s> {
    /// Creates the context of a request whose first byte arrived at `started_at`.
    pub fn new(thread: &'s Rc<RouterThread>, snapshot: &'s Snapshot, started_at: Instant) -> Self {
        let routing = Routing {
            snapshot,
            files: &thread.files,
            scratch: &thread.scratch,
            log: &thread.shared.request_log,
            now: RequestTime { monotonic: Instant::now(), wall: SystemTime::now() },
            started_at,
        };
        Context { thread, routing, admission: RefCell::default(), added_fields: RefCell::default() }
    }
}

impl Context<'_> {
    /// Logs a problem with the response to a request.
    pub fn log_error(&self, request: &Request, problem: fmt::Arguments<'_>) {
        let (target, id) = (shown_target(&request.target), ShownRequestId(request.id));
        let line = format_args!("request {id}: {target}: {problem}");
        self.routing.log_error(&site_of(request), line);
    }

    /// Logs an action of the client of a request, or its result.
    pub fn log_client(&self, level: Level, request: &Request, problem: fmt::Arguments<'_>) {
        let (target, id) = (shown_target(&request.target), ShownRequestId(request.id));
        let (site, client) = (site_of(request), request.connection.peer.map(|peer| peer.ip()));
        let line = format_args!("request {id}: {target}: {problem}");
        self.routing.log.write_of_client(&site, client, level, line);
    }

    /// Returns the `SERVER_SOFTWARE` that directives of a `.htaccess` see, for this application.
    pub fn software(&self, application: Option<&str>) -> String {
        let application = application.and_then(|name| self.routing.snapshot.applications.get(name));
        let own = application.and_then(|application| application.config.server_software.clone());
        own.unwrap_or_else(|| cgi_params::APACHE_SOFTWARE.to_owned())
    }
}
