//! Answers requests of the page.
//!
//! 1. A host that is not the page's own is refused.
//! 2. The files of the page are for everybody who can connect.
//! 3. All else is refused over connections that others could read.
//! 4. It needs a session: its cookie and its key. A request that changes something must also
//!    come from this origin; one of a button needs the button's code.

mod parts;
mod site;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_control::ConnectionSlot;
use howdah_http::body::Body;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response};
use howdah_http::query;
use howdah_questions::Status;
use howdah_text::percent;
use howdah_watch::Range;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::actions::{Action, TIMEOUT};
use crate::address::{Place, Visitor, cookie_name};
use crate::answers::Answers;
use crate::assets;
use crate::attempts::Source;
use crate::secret::Secret;
use crate::sessions::{Refused, Session, Sessions};
use crate::state::{Events, MAX_ASKED, State};
use crate::{Control, Problem};

/// Name of the field with the key of a session.
const KEY: &str = "x-howdah-key";

/// Maximum time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Maximum length of a body that is read: `server` limits it as well.
const MAX_BODY: usize = 16 << 10;

/// Said by a page behind a listener that has no token.
const NO_TOKEN: &str = "nobody can log in: the server was started without --dashboard-token-file";

/// Maximum number of buttons whose work is not done.
const MAX_ACTIONS: usize = 4;

/// Nothing but the files of the page, no code and no style in documents, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// The page.
pub(crate) struct Api {
    place: Place,
    is_read_only: bool,
    control: Arc<dyn Control>,
    answers: Answers,
    state: Rc<State>,
    sessions: RefCell<Sessions>,
    actions: Semaphore,
    begun: Instant,
    first_code: Option<Secret>,
}

/// A response of the API.
type Reply = Result<Value, (u16, String)>;

impl Api {
    /// Creates the page at a place. Without buttons if it is read-only. `code` begins the first
    /// session.
    pub(crate) fn new(
        place: Place,
        is_read_only: bool,
        control: Arc<dyn Control>,
        begun: Instant,
        code: Option<Secret>,
    ) -> Api {
        Api {
            place,
            is_read_only,
            answers: Answers::new(Arc::clone(&control)),
            control,
            state: Rc::default(),
            sessions: RefCell::new(Sessions::new(code.clone())),
            actions: Semaphore::new(MAX_ACTIONS),
            begun,
            first_code: code,
        }
    }

    /// Prints where the page is.
    pub(crate) fn announce(&self) {
        println!("The page of the server at {}: open", self.control.address());
        match &self.first_code {
            Some(code) => self.print_link(code),
            None => println!("  {}/", self.url()),
        }
        match self.control.token() {
            Some(_) => println!("It also takes the token of the control API. Ctrl-C ends it."),
            None => println!("This link works once, then the next one is printed. Ctrl-C ends it."),
        }
    }

    fn url(&self) -> String {
        match &self.place {
            Place::Local { page: Some(page), .. } => page.text(),
            Place::Local { listen, page: None } => format!("http://{listen}"),
            Place::Listener => String::new(),
        }
    }

    fn print_link(&self, code: &Secret) {
        // Browsers send no fragment to servers and to other pages.
        println!("  {}/#log-in={}", self.url(), code.expose());
    }

    /// Takes a sample. Pages that are open keep their sessions until their maximum length.
    pub(crate) fn on_sample(&self, sample: Result<Status, Problem>, at: Duration) {
        self.state.on_sample(sample, at);
        let (now, mut sessions) = (self.begun.elapsed(), self.sessions.borrow_mut());
        for number in self.state.open_sessions() {
            sessions.use_at(number, now);
        }
        self.state.close_unless(|number| sessions.is_open(number));
    }

    /// Answers a request.
    pub(crate) async fn answer(
        &self,
        exchange: &mut Exchange<'_>,
        place: &ConnectionSlot,
    ) -> Response {
        let hosts: Vec<_> = exchange.request.fields.get_all("host").collect();
        let is_own = matches!(hosts[..], [host] if self.place.is_own_host(host));
        if !is_own {
            let advice = "this is not the host of the page; with a proxy in front of it, name the \
                          address with --url";
            return failure(403, advice);
        }
        let path = exchange.request.path.clone();
        let is_get = matches!(&*exchange.request.method, b"GET" | b"HEAD");
        if let Some(asset) = assets::at(&path) {
            return if is_get { file(asset, &exchange.request) } else { not_allowed("GET, HEAD") };
        }
        let Some(name) = path.strip_prefix(b"/api/") else {
            return failure(404, "there is no such page");
        };
        let visitor = self.place.visitor(&exchange.request);
        if !self.is_from_page(&exchange.request, visitor, !is_get) {
            return failure(403, "the request comes from another page");
        }
        // Said to the page before anybody types a secret into it.
        if !self.place.is_private(visitor) {
            let advice = "open this page over HTTPS: others could read here what you type; if a \
                          proxy in front of the server has TLS, name it in the listener's \
                          \"forwarded\"";
            return failure(403, advice);
        }
        if name == b"log-in" {
            return if is_get { not_allowed("POST") } else { self.log_in(exchange, visitor).await };
        }
        let Some(session) = self.session(&exchange.request, |session| session.number) else {
            return failure(401, self.log_in_advice());
        };
        place.trust();
        let is_post = matches!(name, b"log-out" | b"do");
        if is_post != (*exchange.request.method == *b"POST") {
            return not_allowed(if is_post { "POST" } else { "GET" });
        }
        let reply = match name {
            b"events" => return self.events(session),
            b"log-out" => self.log_out(session),
            b"do" => match read(exchange).await {
                Ok(body) => self.carry_out(&exchange.request, &body).await,
                Err(refused) => Err(refused),
            },
            b"session" => Ok(json!({
                "control": self.control.address(), "read_only": self.is_read_only,
            })),
            b"histories" => self.histories(&exchange.request),
            b"requests" => self.requests(&exchange.request).await,
            b"site" => self.site(&exchange.request).await,
            b"parts" => self.parts(&exchange.request).await,
            _ => Err((404, "there is no such question".to_owned())),
        };
        match reply {
            Ok(value) => json_response(200, &value),
            Err((status, problem)) => failure(status, &problem),
        }
    }

    /// Returns false if another page has made the browser send a request. Browsers say so for each
    /// request, and name the origin of those that can change something.
    fn is_from_page(&self, request: &Request, visitor: Visitor, changes: bool) -> bool {
        let mut sites = request.fields.get_all("sec-fetch-site");
        if !sites.all(|site| site == b"same-origin") {
            return false;
        }
        let host = request.fields.get("host").unwrap_or_default();
        let mut origins = request.fields.get_all("origin").peekable();
        if origins.peek().is_none() {
            return !changes;
        }
        origins.all(|origin| self.place.is_own_origin(visitor, host, origin))
    }

    /// Returns what is asked of the session of a request.
    fn session<T>(&self, request: &Request, ask: impl FnOnce(&Session) -> T) -> Option<T> {
        let key = request.fields.get(KEY)?;
        let fields = request.fields.get_all("cookie");
        let cookies = fields.flat_map(|field| query::cookies(field, false));
        let ours = cookie_name(request.fields.get("host").unwrap_or_default());
        let mut ours = cookies.filter(|(name, _)| *name == ours.as_bytes());
        let mut sessions = self.sessions.borrow_mut();
        // A site on another port may have set a cookie of this name.
        let number = ours.find_map(|(_, cookie)| {
            sessions.find(cookie, key, self.begun.elapsed()).map(|session| session.number)
        })?;
        sessions.get(number).map(ask)
    }

    /// Returns how to log in.
    fn log_in_advice(&self) -> &'static str {
        match (&self.place, self.control.token(), &self.first_code) {
            (Place::Listener, Some(_), _) => {
                "type the token of --dashboard-token-file, and no other secret"
            }
            (Place::Listener, None, _) => NO_TOKEN,
            (Place::Local { .. }, Some(_), Some(_)) => {
                "open the link that \"howdah dashboard\" prints, or type its code or the token of \
                 the control API"
            }
            (Place::Local { .. }, Some(_), None) => "type the token of the control API",
            (Place::Local { .. }, None, _) => {
                "open the link that \"howdah dashboard\" prints, or type its code"
            }
        }
    }

    async fn log_in(&self, exchange: &mut Exchange<'_>, visitor: Visitor) -> Response {
        let body = match read(exchange).await {
            Ok(body) => body,
            Err((status, problem)) => return failure(status, &problem),
        };
        let code = body.get("code").and_then(Value::as_str).unwrap_or_default().trim();
        let now = self.begun.elapsed();
        let mut sessions = self.sessions.borrow_mut();
        let source = Source::of(visitor.address);
        match sessions.log_in(code.as_bytes(), self.control.token(), source, now) {
            Ok((session, next)) => {
                let host = exchange.request.fields.get("host").unwrap_or_default();
                let secure = if visitor.is_https { "; Secure" } else { "" };
                let (name, cookie) = (cookie_name(host), session.cookie.expose());
                let cookie = format!("{name}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}");
                let answer = json_response(200, &json!({"key": session.key.expose()}));
                if let Some(next) = next {
                    println!("Somebody has logged in. The next link:");
                    self.print_link(&next);
                }
                answer.with("Set-Cookie", cookie)
            }
            Err(Refused::Wrong) => {
                let advice = match self.control.token() {
                    Some(_) if matches!(self.place, Place::Listener) => "this is not the token",
                    None if matches!(self.place, Place::Listener) => NO_TOKEN,
                    Some(_) => "neither a code that is printed in the terminal nor the token",
                    None => "this code was used, or is wrong; the terminal has the next one",
                };
                failure(403, advice)
            }
            Err(Refused::TooMany(seconds)) => {
                let problem = format!("too many wrong tokens; wait {seconds} s");
                failure(429, &problem).with("Retry-After", seconds.to_string())
            }
            Err(Refused::NoRandom) => failure(500, "the kernel gives no random bytes"),
        }
    }

    fn log_out(&self, session: u64) -> Reply {
        let mut sessions = self.sessions.borrow_mut();
        sessions.end(session);
        self.state.close_unless(|number| sessions.is_open(number));
        Ok(json!({"done": true}))
    }

    fn events(&self, session: u64) -> Response {
        let subscriber = self.state.open(session);
        let events = Events { subscriber, state: Rc::clone(&self.state) };
        let response = Response::new(200, Body::Stream(Box::new(events)))
            .with("Content-Type", "text/event-stream")
            .with("Cache-Control", "no-store")
            // Proxies of nginx's kind send each message at once.
            .with("X-Accel-Buffering", "no");
        secured(response)
    }

    fn histories(&self, request: &Request) -> Reply {
        let range = argument(request, "range");
        let range = range.as_deref().and_then(Range::named);
        let ids = argument(request, "ids").unwrap_or_default();
        let ids: Result<Vec<u32>, _> = ids.split(',').map(str::parse).collect();
        match (range, ids) {
            (Some(range), Ok(ids)) if ids.len() <= MAX_ASKED => {
                Ok(self.state.histories(&ids, range))
            }
            _ => Err((400, "ids and range are needed".to_owned())),
        }
    }

    async fn requests(&self, request: &Request) -> Reply {
        let mut target = "/requests?limit=200".to_owned();
        for name in ["site", "status", "slow", "after"] {
            if let Some(value) = argument(request, name).filter(|value| !value.is_empty()) {
                target.push_str(&format!("&{name}={}", crate::actions::encode(&value)));
            }
        }
        Ok((*self.ask(target).await?).clone())
    }

    /// Asks the control API.
    async fn ask(&self, target: String) -> Result<Arc<Value>, (u16, String)> {
        self.answers.get(target).await.map_err(refusal)
    }

    /// Does the work of a button.
    async fn carry_out(&self, request: &Request, body: &Value) -> Reply {
        if self.is_read_only {
            return Err((403, "this page has no buttons".to_owned()));
        }
        let Some(action) = Action::read(body) else {
            return Err((400, "no button sends this".to_owned()));
        };
        let code = body.get("code").and_then(Value::as_str).unwrap_or_default();
        let is_permitted = |session: &Session| session.permits(&action.subject(), code.as_bytes());
        if self.session(request, is_permitted) != Some(true) {
            return Err((403, "the code of the button is wrong; load the page again".to_owned()));
        }
        let Ok(_turn) = self.actions.try_acquire() else {
            return Err((503, "other buttons are still at work; try again".to_owned()));
        };
        let order = action.order();
        let answer = self.answers.send(order.method, order.target, order.body, TIMEOUT).await;
        answer.map_err(refusal)
    }

    /// Returns the codes of buttons, by names of the page's choice; null if there are no buttons.
    fn buttons(&self, request: &Request, actions: &[(String, Action)]) -> Value {
        if self.is_read_only {
            return Value::Null;
        }
        let code = |session: &Session| -> Value {
            let of = |(name, action): &(String, Action)| {
                (name.clone(), json!(session.button(&action.subject())))
            };
            Value::Object(actions.iter().map(of).collect())
        };
        self.session(request, code).unwrap_or_default()
    }
}

/// Returns status and words of a problem of the control API.
fn refusal(problem: Problem) -> (u16, String) {
    match problem {
        Problem::Unreachable(text) => (502, text),
        Problem::Refused(text) => (409, text),
    }
}

/// Returns a decoded argument of the query.
fn argument(request: &Request, name: &str) -> Option<String> {
    let value = query::argument(&request.query, name.as_bytes())?;
    let decoded: Vec<u8> = percent::decoded_form(value).collect();
    String::from_utf8(decoded).ok()
}

/// Reads a body of JSON.
async fn read(exchange: &mut Exchange<'_>) -> Result<Value, (u16, String)> {
    // Forms of other pages cannot send this type.
    let kind = exchange.request.fields.get("content-type").unwrap_or_default();
    if kind != b"application/json" {
        return Err((415, "the body is not application/json".to_owned()));
    }
    let body = timeout(BODY_TIME, async {
        let mut body = Vec::new();
        while let Some(bytes) = exchange.read_body().await.ok()? {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_BODY {
                return None;
            }
        }
        Some(body)
    });
    let body = body.await.ok().flatten();
    let value = body.and_then(|body| serde_json::from_slice(&body).ok());
    value.ok_or_else(|| (400, "the body is no JSON".to_owned()))
}

fn file(asset: assets::Asset, request: &Request) -> Response {
    let etag = asset.etag();
    let is_known = request.fields.get("if-none-match") == Some(etag.as_bytes());
    let response = if is_known {
        Response::new(304, Body::Empty)
    } else {
        Response::new(200, Body::from(Bytes::from_static(asset.content)))
    };
    secured(response.with("Content-Type", asset.kind))
        .with("ETag", etag)
        .with("Cache-Control", "no-cache")
        .with("Content-Security-Policy", POLICY)
}

/// Adds the fields of all responses.
fn secured(response: Response) -> Response {
    response
        .with("X-Content-Type-Options", "nosniff")
        .with("X-Frame-Options", "DENY")
        .with("Referrer-Policy", "no-referrer")
        .with("Cross-Origin-Opener-Policy", "same-origin")
        .with("Cross-Origin-Resource-Policy", "same-origin")
}

fn json_response(status: u16, value: &Value) -> Response {
    let response = Response::new(status, Body::from(Bytes::from(value.to_string())));
    secured(response.with("Content-Type", "application/json")).with("Cache-Control", "no-store")
}

/// Returns a response with a problem.
pub(crate) fn failure(status: u16, problem: &str) -> Response {
    json_response(status, &json!({"problem": problem}))
}

fn not_allowed(methods: &str) -> Response {
    failure(405, "this method is not for this path").with("Allow", methods)
}
