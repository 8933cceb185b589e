//! Routing: from a request to the handler that answers it.
//!
//! 1. Fields of trusted proxies set the client address and scheme (`forwarded`).
//! 2. The listener passes the request to a target. In a route, the first step whose conditions hold
//!    ([`matching`]) selects the action. An index ([`crate::snapshot::index`]) leaves out steps of
//!    long routes that cannot hold. Captures of regular expressions are kept if the action names
//!    them.
//! 3. The action checks addresses and limits, asks for a password, rewrites the path (`rewrite`),
//!    and passes the request on or answers it: `return`, an application, an upstream, a status
//!    page, or a file (`share`), whose fallback is another action.
//! 4. The options of all actions on the way are merged ([`Effects`]).
//!
//! Routing never waits for I/O, except for file system calls that the cache of files does not save.

mod directory;
mod file_conditions;
mod forwarded;
pub mod matching;
mod rewrite;
mod share;
pub mod step;

use std::cell::RefCell;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use howdah_cgi::target::Targets;
use howdah_config::{Part, Prefix, Rewrite, Target, Variable};
use howdah_files::{Files, RequestTime};
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::message::{Request, Response};
use howdah_http::variables::VariableSource;
use howdah_http::{authority, respond};
use howdah_php_pool::status_page::{self, View};
use howdah_sys::log::{Level, OfApplication};

use crate::request_log::RequestLog;
use crate::snapshot::action::{Action, ActionKind, CompiledPass, Location, Return};
use crate::snapshot::effects::Effects;
use crate::snapshot::{RouteStep, Snapshot, location};

pub use self::matching::Scratch;
use self::step::Passed;
pub use self::step::{Check, Decision, Origin, Step};

/// Maximum number of actions and routes on the way of a request, as in Unit; ends loops.
const MAX_PASSES: usize = 256;

/// The state of a request in its routes.
#[derive(Debug, Default)]
pub struct Routed<'s> {
    /// Options of the actions on its way.
    pub effects: Effects<'s>,
    /// The action for paths that name no file, of a share with `.htaccess` files.
    pub fallback: Option<&'s Action>,
    /// The site whose host the request has: the route that a variable has chosen.
    host_site: Option<&'s Arc<str>>,
    /// The application, share or upstream of the last action that belongs to one.
    site: Option<&'s Arc<str>>,
    /// Number of times that the request was passed on.
    passes: usize,
    /// The request is an internal one: for an error page, or a redirect of a response.
    pub is_internal: bool,
    /// The request checks another one, so it passes no checks itself.
    pub is_check: bool,
    /// No cache answers the request or stores its response, whatever the actions state.
    pub is_uncached: bool,
}

impl Routed<'_> {
    /// Returns the site, application, share or upstream that the request is for, as far as it is
    /// known.
    pub fn site(&self, step: &Step<'_>) -> Option<Arc<str>> {
        if let Some(site) = self.host_site {
            return Some(Arc::clone(site));
        }
        match step {
            Step::Handle(Decision::Ask(Origin::Php(application, _))) => {
                Some(Arc::clone(&application.name))
            }
            Step::Handle(Decision::Ask(Origin::FastCgi(site, _))) => Some(Arc::clone(&site.name)),
            Step::Handle(Decision::Ask(Origin::Proxy(upstream)))
                if self.site.is_none() && !upstream.is_dashboard() =>
            {
                Some(Arc::clone(&upstream.name))
            }
            _ => self.site.cloned(),
        }
    }

    /// Returns the site of a request that is being routed.
    fn site_of(&self, request: &Request) -> Arc<str> {
        let site = self.host_site.or(self.site);
        site.cloned().unwrap_or_else(|| site_of(request))
    }
}

/// Returns the site of a request in the log; empty before its listener is known.
pub fn site_of(request: &Request) -> Arc<str> {
    request.handling.site().unwrap_or_default()
}

/// Takes requests through the routes of a snapshot, on one thread.
pub struct Routing<'s> {
    /// The configuration of the request.
    pub snapshot: &'s Snapshot,
    /// File cache of this thread.
    pub files: &'s Files,
    /// Buffers of this thread for conditions.
    pub scratch: &'s RefCell<Scratch>,
    /// Log for `log_route` and problems.
    pub log: &'s RequestLog,
    /// Current time, for the file cache.
    pub now: RequestTime,
    /// Time of the first byte of the request.
    pub started_at: Instant,
}

/// Next move of routing.
enum Next<'s> {
    Pass(&'s CompiledPass),
    Action(&'s Action),
    Step(Step<'s>),
}

impl<'s> Routing<'s> {
    /// Routes a request of a listener. May change the request's client address, scheme and path.
    pub fn route(&self, listener: &str, request: &mut Request) -> (Routed<'s>, Step<'s>) {
        if self.logs() {
            let text = String::from_utf8_lossy;
            let (method, target) = (text(&request.method), text(&request.target));
            let (fragment, version) = (text(&request.fragment), request.version.as_str());
            let line = format_args!("http request line \"{method} {target}{fragment} {version}\"");
            self.log.log().write(Level::Notice, line);
        }
        let mut routed = Routed::default();
        let Some(listener) = self.snapshot.listeners.get(listener) else {
            // The listener has just been removed.
            return (routed, Step::Handle(Decision::Refuse(RequestError::NotFound)));
        };
        routed.effects.access_log = listener.access_log.as_ref();
        forwarded::apply(&listener.proxies, request);
        if let (Some(port), false) = (listener.redirect_to_https, request.connection.tls) {
            return (routed, Step::Handle(Decision::Respond(to_https(request, port))));
        }
        self.scratch.borrow_mut().clear();
        let step = if listener.limit.is_empty() {
            self.follow(Next::Pass(&listener.pass), &mut routed, request)
        } else {
            Step::Check(Check::Listener(listener))
        };
        (routed, step)
    }

    /// Routes an internal request, such as one for an error page, to an action.
    pub fn route_internally(
        &self,
        action: &'s Action,
        request: &mut Request,
    ) -> (Routed<'s>, Step<'s>) {
        let mut routed = Routed { is_internal: true, ..Routed::default() };
        let step = self.follow(Next::Action(action), &mut routed, request);
        (routed, step)
    }

    /// Continues with the fallback of a share with `.htaccess` files. As with every fallback, the
    /// options of the actions on the way of the request stay, and so does the number of passes.
    pub fn fall_back(
        &self,
        fallback: &'s Action,
        routed: &mut Routed<'s>,
        request: &mut Request,
    ) -> Step<'s> {
        self.follow(Next::Action(fallback), routed, request)
    }

    /// Routes the request of an internal redirect; `effects` are those of the first request.
    pub fn route_to_target(
        &self,
        target: &'s Target,
        effects: Effects<'s>,
        request: &mut Request,
    ) -> (Routed<'s>, Step<'s>) {
        // The path and the query differ from those of the first request.
        self.scratch.borrow_mut().clear();
        let mut routed = Routed { effects, is_internal: true, ..Routed::default() };
        let next = self.target(target, request);
        let step = self.follow(next, &mut routed, request);
        (routed, step)
    }

    /// Continues with a request that has passed a check.
    pub fn resume(
        &self,
        passed: Check<'s>,
        routed: &mut Routed<'s>,
        request: &mut Request,
    ) -> Step<'s> {
        let next = match passed {
            Check::Listener(listener) => Next::Pass(&listener.pass),
            Check::Limits(action) => self.action(action, Passed::Limits, routed, request),
            Check::Password(action, _) => self.action(action, Passed::Password, routed, request),
            Check::Request(action, _) => self.action(action, Passed::All, routed, request),
        };
        self.follow(next, routed, request)
    }

    fn follow(
        &self,
        mut next: Next<'s>,
        routed: &mut Routed<'s>,
        request: &mut Request,
    ) -> Step<'s> {
        while routed.passes < MAX_PASSES {
            routed.passes += 1;
            next = match next {
                Next::Pass(pass) => {
                    match pass.target(&VariableSource::of(request, self.started_at)) {
                        Some(target) => {
                            if let CompiledPass::Variable(_) = pass {
                                routed.host_site =
                                    routed.host_site.or_else(|| self.site_of_route(&target));
                            }
                            self.target(&target, request)
                        }
                        None => refuse(RequestError::NotFound),
                    }
                }
                Next::Action(action) => self.action(action, Passed::None, routed, request),
                Next::Step(Step::Check(check)) => return Step::Check(check),
                Next::Step(Step::Handle(decision)) => {
                    // Without its database, a country that is kept out would have the default, too.
                    return Step::Handle(match request.handling.unread_database() {
                        Some(_) => Decision::Refuse(RequestError::NotInUse),
                        None => decision,
                    });
                }
            };
        }
        self.log_error(&routed.site_of(request), format_args!("routes pass the request in a loop"));
        Step::Handle(Decision::Refuse(RequestError::Internal))
    }

    /// Logs a problem with a request to a site.
    pub fn log_error(&self, site: &Arc<str>, line: fmt::Arguments<'_>) {
        match self.snapshot.applications.get(&**site) {
            // Its queue logs some problems, too.
            Some(application) => {
                let limit = &application.queue.request_lines;
                let about = OfApplication(site);
                self.log.log().about(&about).write_shortened(limit, Level::Error, line);
            }
            None => self.log.write(site, Level::Error, line),
        }
    }

    /// Returns the name of the site that a route belongs to: its own, as in `routes/$site`.
    fn site_of_route(&self, target: &Target) -> Option<&'s Arc<str>> {
        match target {
            Target::Route(Some(name)) => self.snapshot.route(name)?.name.as_ref(),
            _ => None,
        }
    }

    fn logs(&self) -> bool {
        self.snapshot.config.settings.http.log_route
    }

    /// Continues with a target: of a route, with the action of the first step whose conditions
    /// hold.
    fn target(&self, target: &Target, request: &mut Request) -> Next<'s> {
        let name = match target {
            Target::Route(name) => name.as_deref().unwrap_or(""),
            Target::Application { name, target } => {
                return self.application(name, target.as_deref(), request);
            }
            Target::Metrics if &*request.path == b"/metrics" => return decided(Decision::Metrics),
            Target::Probes if &*request.path == b"/-/live" => return decided(Decision::Live),
            Target::Probes if &*request.path == b"/-/ready" => return decided(Decision::Ready),
            Target::Metrics | Target::Probes => return refuse(RequestError::NotFound),
            // A variable has led to steps that are not for requests.
            Target::Stream(_) | Target::Mail(_) => return refuse(self.undefined()),
            Target::Upstream(name) => {
                return match self.snapshot.upstreams.get(name) {
                    Some(upstream) => decided(Decision::Ask(Origin::Proxy(Arc::clone(upstream)))),
                    None => refuse(self.undefined()),
                };
            }
        };
        let Some(route) = self.snapshot.route(name) else { return refuse(self.undefined()) };
        let scratch = &mut *self.scratch.borrow_mut();
        let selected = match &route.index {
            // `log_route` logs every step, so all of them are compared.
            Some(index) if !self.logs() => {
                let mut candidates = std::mem::take(&mut scratch.steps);
                index.candidates(request, &mut candidates);
                let mut steps =
                    candidates.iter().filter_map(|index| route.steps.get(*index as usize));
                let selected = steps.find(|step| self.holds(step, request, scratch));
                scratch.steps = candidates;
                selected
            }
            _ => route.steps.iter().enumerate().find_map(|(index, step)| {
                let holds = self.holds(step, request, scratch);
                if self.logs() {
                    self.log_step(name, index, holds);
                }
                holds.then_some(step)
            }),
        };
        let Some(step) = selected else { return refuse(RequestError::NotFound) };
        if step.captures {
            request.captures = matching::captures(&step.conditions, request);
        }
        Next::Action(&step.action)
    }

    /// Decides which script of an application, or which directory with `.htaccess` files, answers.
    fn application(&self, name: &str, target: Option<&str>, request: &Request) -> Next<'s> {
        // A rewrite to an empty path names no script.
        if request.path.is_empty() {
            return refuse(RequestError::NotFound);
        }
        if let Some(site) = self.snapshot.htaccess.get(name)
            && let Some(application) = self.snapshot.applications.get(name)
        {
            return application.targets.get(target).map_or(
                refuse(RequestError::NotFound),
                |target| {
                    let root = Bytes::copy_from_slice(target.root().as_os_str().as_bytes());
                    decided(Decision::Htaccess(Arc::clone(site), root))
                },
            );
        }
        let script = |targets: &Targets| targets.get(target)?.script(&request.path);
        let origin = if let Some(application) = self.snapshot.applications.get(name) {
            script(&application.targets).map(|script| Origin::Php(Arc::clone(application), script))
        } else if let Some(site) = self.snapshot.fastcgi.get(name) {
            script(&site.targets).map(|script| Origin::FastCgi(Arc::clone(site), script))
        } else {
            return refuse(self.undefined());
        };
        origin.map_or(refuse(RequestError::NotFound), |origin| decided(Decision::Ask(origin)))
    }

    /// Returns the error for a name that the document does not define: a file that cannot be used
    /// may do so.
    fn undefined(&self) -> RequestError {
        if self.snapshot.config.left_out.is_empty() {
            RequestError::NotFound
        } else {
            RequestError::NotInUse
        }
    }

    /// Replaces the query of a request, if there is a new one.
    fn set_query(&self, query: Option<Bytes>, request: &mut Request) {
        if let Some(query) = query {
            request.query = query;
            self.scratch.borrow_mut().clear();
        }
    }

    fn holds(&self, step: &RouteStep, request: &Request, scratch: &mut Scratch) -> bool {
        matching::holds(&step.conditions, request, self.started_at, scratch)
            && self.files_hold(&step.conditions.files, request)
    }

    fn log_step(&self, name: &str, index: usize, selected: bool) {
        let slash = if name.is_empty() { "" } else { "/" };
        let (level, what) =
            if selected { (Level::Notice, "selected") } else { (Level::Info, "discarded") };
        self.log.log().write(level, format_args!("\"routes{slash}{name}/{index}\" {what}"));
    }

    /// Continues with an action: with its next check or, after the last one, with its handler.
    fn action(
        &self,
        action: &'s Action,
        passed: Passed,
        routed: &mut Routed<'s>,
        request: &mut Request,
    ) -> Next<'s> {
        if passed == Passed::None {
            routed.effects.apply(action);
            routed.site = action.site.as_ref().or(routed.site);
            if action.options.internal && !routed.is_internal {
                return refuse(RequestError::NotFound);
            }
            if is_denied(action, request) {
                return refuse(RequestError::Forbidden);
            }
            if action.options.cors.is_some() && request.is_preflight() {
                // A preflight has no credentials, so it is answered before the password is asked.
                return decided(Decision::Respond(Response::new(204, Body::Empty)));
            }
        }
        if let Some(check) = Check::next(action, passed) {
            return Next::Step(Step::Check(check));
        }
        routed.fallback = match &action.kind {
            ActionKind::Htaccess(share) => share.fallback.as_ref(),
            _ => None,
        };
        if let Some(rewrite) = &action.rewrite
            && let Err(error) = self.rewrite(rewrite, routed, request)
        {
            return refuse(error);
        }
        add_for_scripts(action, request, self.started_at);
        match &action.kind {
            ActionKind::Pass(pass) => Next::Pass(pass),
            ActionKind::Return(answer) => decided(self.returned(answer, request)),
            ActionKind::Proxy(upstream) => {
                decided(Decision::Ask(Origin::Proxy(Arc::clone(upstream))))
            }
            ActionKind::Status(name) => decided(match self.snapshot.applications.get(name) {
                Some(application) => {
                    Decision::Respond(status_page::page(application, &request.query, View::Howdah))
                }
                None => Decision::Refuse(RequestError::NotFound),
            }),
            ActionKind::Metrics => decided(Decision::Metrics),
            ActionKind::Ping(ping) => match self.snapshot.applications.get(&ping.application) {
                Some(application) if application.queue.takes_requests() => {
                    decided(Decision::Respond(status_page::pong(application, &ping.response)))
                }
                _ => decided(Decision::Refuse(RequestError::NotRunning)),
            },
            ActionKind::Htaccess(share) => {
                if let Some(prefix) = &share.site.prefix {
                    match (prefix.rest(&request.path), &share.fallback) {
                        (Some(b""), _) => return self.to_directory(prefix, request),
                        (None, Some(fallback)) => return Next::Action(fallback),
                        (None, None) => return refuse(RequestError::NotFound),
                        (Some(_), _) => {}
                    }
                }
                let name = VariableSource::of(request, self.started_at).expand(&share.root);
                let has_host = !request.host.is_empty()
                    || !share.root.parts().contains(&Part::Variable(Variable::Host));
                let is_usable = has_host && directory::is_below(&share.root, &name);
                decided(match name.strip_suffix(&*request.path) {
                    Some(root) if root.len() > 1 && is_usable => {
                        let root = root.strip_suffix(b"/").unwrap_or(root);
                        let root = Bytes::copy_from_slice(root);
                        Decision::Htaccess(Arc::clone(&share.site), root)
                    }
                    _ => Decision::Refuse(RequestError::NotFound),
                })
            }
            ActionKind::Share(share) => match self.share(share, request) {
                Ok(decision) => decided(decision),
                Err(reason) => match &share.fallback {
                    Some(fallback) if share.goes_on(reason) => {
                        if self.logs() {
                            self.log.log().write(Level::Notice, "\"fallback\" taken");
                        }
                        Next::Action(fallback)
                    }
                    _ => decided(Decision::Refuse(reason.into())),
                },
            },
        }
    }

    /// Redirects a request for a prefix itself to the directory at it.
    fn to_directory(&self, prefix: &Prefix, request: &mut Request) -> Next<'s> {
        let whole = std::mem::take(&mut request.path);
        let redirected = share::redirect(request, Some(prefix));
        request.path = whole;
        redirected.map_or_else(|reason| decided(Decision::Refuse(reason.into())), decided)
    }

    /// Replaces the path of a request.
    fn rewrite(
        &self,
        rewrite: &Rewrite,
        routed: &Routed<'s>,
        request: &mut Request,
    ) -> Result<(), RequestError> {
        let source = VariableSource::of(request, self.started_at);
        let (path, query) = rewrite::target(rewrite, &source).map_err(|error| {
            let (place, shown) = (&rewrite.place, rewrite::shown(rewrite, &source));
            let line = format_args!(
                "\"rewrite\" does not expand to a path: {place} gives {shown}: {error}"
            );
            self.log_error(&routed.site_of(request), line);
            RequestError::Internal
        })?;
        request.path = path;
        self.set_query(query, request);
        if self.logs() {
            let path = String::from_utf8_lossy(&request.path);
            self.log.log().write(Level::Notice, format_args!("URI rewritten to \"{path}\""));
        }
        Ok(())
    }

    /// Returns the response of `return`. As in Unit, errors have a page and no location, others no
    /// body; unless there is a text, as in nginx.
    fn returned(&self, answer: &Return, request: &Request) -> Decision {
        if answer.is_unsent {
            return Decision::Respond(Response::unsent(answer.status));
        }
        let is_error = (400..600).contains(&answer.status);
        if is_error && answer.body.is_none() {
            return Decision::Refuse(RequestError::Stated(answer.status));
        }
        let source = VariableSource::of(request, self.started_at);
        let mut response = match &answer.body {
            None => Response::new(answer.status, Body::Empty),
            Some(text) => {
                let body = Body::from(Bytes::from(source.expand(text)));
                Response::new(answer.status, body).with("Content-Type", "text/plain; charset=utf-8")
            }
        };
        // A client takes a status below 200 for an interim response and would wait for the final
        // one.
        response.close = answer.status < 200;
        let location = answer.location.as_ref().map(|location| match location {
            Location::Fixed(location) => location.clone(),
            Location::Variable(template) => Bytes::from(location::expand(template, &source)),
        });
        let location = location.map(|location| {
            if answer.keep_query {
                Bytes::from(location::with_query(&location, &request.query))
            } else {
                location
            }
        });
        if let Some(location) = location.filter(|_| !is_error) {
            response.fields.push("Location", location);
        }
        Decision::Respond(response)
    }
}

/// Adds an action's variables for scripts, with the values of this moment, and its settings of PHP.
fn add_for_scripts(action: &Action, request: &mut Request, started_at: Instant) {
    let options = &action.options;
    let (variables, settings) = (&options.environment, &options.php_settings);
    let locked = &options.locked_php_settings;
    if variables.is_empty() && settings.is_empty() && locked.is_empty() {
        return;
    }
    let source = VariableSource::of(request, started_at);
    let unread = request.handling.unread_database();
    let values: Vec<_> =
        variables.iter().map(|(name, value)| (name, value, source.expand(value))).collect();
    // Variables of a script have no effect here.
    request.handling.set_unread_database(unread);
    let additions = request.additions.get_or_insert_default();
    // A decoded argument may have a NUL, which would end the value for PHP.
    for (name, template, value) in values.into_iter().filter(|(.., value)| !value.contains(&0)) {
        if template.constant().is_some() {
            additions.set_constant(name, value);
        } else {
            additions.set_variable(name, value);
        }
    }
    settings.iter().for_each(|(name, value)| additions.set_setting(name, value, false));
    locked.iter().for_each(|(name, value)| additions.set_setting(name, value, true));
}

/// Returns true if `allow` or `deny` excludes the client's address.
fn is_denied(action: &Action, request: &Request) -> bool {
    let peer = request.connection.peer;
    action.deny.as_ref().is_some_and(|deny| deny.matches(peer))
        || action.allow.as_ref().is_some_and(|allow| !allow.matches(peer))
}

fn decided<'s>(decision: Decision) -> Next<'s> {
    Next::Step(Step::Handle(decision))
}

fn refuse<'s>(error: RequestError) -> Next<'s> {
    decided(Decision::Refuse(error))
}

/// Redirects a request to https. Methods other than GET and HEAD keep theirs (308).
fn to_https(request: &Request, port: u16) -> Response {
    if request.host.is_empty() {
        return respond::refuse(RequestError::NoHost);
    }
    let status = if matches!(&*request.method, b"GET" | b"HEAD") { 301 } else { 308 };
    let mut location = [b"https://", &*authority::encoded(&request.host)].concat();
    if port != 443 {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    location.extend_from_slice(if &*request.target == b"*" { b"/" } else { &request.target });
    Response::new(status, Body::Empty).with("Location", location)
}

#[cfg(test)]
mod tests;
