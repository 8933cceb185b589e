//! Options of an action for the requests that it passes to other servers.

use std::sync::Arc;

use crate::error::Error;
use crate::key::{Key, Kind};
use crate::node::Object;
use crate::request_headers::{self, RequestHeaders};
use crate::retry::{RETRY, Retry};
use crate::timeouts::{ACTION_TIMEOUTS, TimeoutChanges};
use crate::upstream::ForwardedFields;

/// Keys of an action for requests to other servers.
pub(crate) static KEYS: &[Key] = &[
    Key::new(
        "request_headers",
        Kind::Named(&Kind::Either(&[Kind::Text, Kind::Null])),
        "Header fields that other servers get, with variables, or with `null` to remove",
    )
    .default("those of the upstream")
    .details(
        "An empty value removes a field of the client, too (nginx's `proxy_set_header` of a \
         location). `Host` may be among them, which a `proxy` without an upstream has no other \
         key for. Of two with one name, the later counts. Scripts have `environment` instead",
    )
    .adds_up(),
    Key::new(
        "forwarded",
        Kind::Texts,
        "Fields with the client's address and scheme for other servers: `\"x-forwarded\"`, \
         `\"forwarded\"`, or both",
    )
    .default("that of the upstream")
    .details("As [`forwarded`](upstreams.md#upstreams) of an upstream")
    .inherited(),
    Key::new(
        "pass_request_headers",
        Kind::Switch,
        "`false` keeps the client's header fields from other servers",
    )
    .default("true")
    .details(
        "HTTP servers get `Host`, the fields of `request_headers`, `headers` and `forwarded`, and a \
         `Content-Length` if there is a body (nginx's `proxy_pass_request_headers off`, \
         `fastcgi_pass_request_headers off`)",
    )
    .inherited(),
    Key::new("pass_request_body", Kind::Switch, "`false` keeps request bodies from other servers")
        .default("true")
        .details("nginx's `proxy_pass_request_body off`, `fastcgi_pass_request_body off`")
        .inherited(),
    Key::new("timeouts", Kind::Object(&ACTION_TIMEOUTS), "Timeouts of requests to other servers")
        .default("those of the upstream or application")
        .details(
            "nginx's `proxy_read_timeout` of a location: `{ \"first_byte\": 600 }` for a slow \
             report. Also for [FastCGI](upstreams.md#fastcgi)",
        )
        .inherited(),
    Key::new("retry", Kind::Object(&RETRY), "Requests that another server gets after a failure")
        .default("that of the upstream")
        .details("As [`retry`](upstreams.md#upstreams) of an upstream")
        .inherited(),
];

/// Changes to the settings of an upstream or a FastCGI application for some of its requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerOptions {
    /// Request header fields to set, or with `None` to remove. `Host` may be among them.
    pub headers: RequestHeaders,
    /// Fields with the client's address and scheme, if they are not those of the upstream.
    pub forwarded: Option<ForwardedFields>,
    /// False if the servers do not get the client's header fields.
    pub pass_headers: Option<bool>,
    /// False if the servers do not get the body.
    pub pass_body: Option<bool>,
    /// Timeouts that are not those of the servers.
    pub timeouts: TimeoutChanges,
    /// Requests that another server gets, if they are not those of the upstream.
    pub retry: Option<Retry>,
    /// Path of the action in the document, without its first slash.
    place: Option<Arc<str>>,
    /// Paths of the actions whose timeouts are in `timeouts`, the last action first.
    timeout_places: Vec<(Arc<str>, TimeoutChanges)>,
}

impl ServerOptions {
    /// Reads the options among the keys of an action. Returns `None` if it has none, and names no
    /// server itself.
    pub(crate) fn read(object: &Object<'_>) -> Result<Option<Arc<ServerOptions>>, Error> {
        let timeouts = object.read("timeouts", TimeoutChanges::read)?;
        let mut options = ServerOptions {
            headers: object
                .read("request_headers", request_headers::read_of_action)?
                .unwrap_or_default(),
            forwarded: object.read("forwarded", ForwardedFields::read)?,
            pass_headers: object.boolean("pass_request_headers")?,
            pass_body: object.boolean("pass_request_body")?,
            timeouts: timeouts.unwrap_or_default(),
            retry: object.read("retry", Retry::read)?,
            place: None,
            timeout_places: Vec::new(),
        };
        if options == ServerOptions::default() && !object.has("proxy") {
            return Ok(None);
        }
        let place: Arc<str> = object.place().trim_start_matches('/').into();
        options.timeout_places.extend(timeouts.map(|timeouts| (Arc::clone(&place), timeouts)));
        options.place = Some(place);
        Ok(Some(Arc::new(options)))
    }

    /// Returns true if the servers get the client's header fields.
    pub fn passes_headers(&self) -> bool {
        self.pass_headers != Some(false)
    }

    /// Returns true if the servers get the body.
    pub fn passes_body(&self) -> bool {
        self.pass_body != Some(false)
    }

    /// Returns the path of the key in the document, without its first slash, that has this timeout
    /// or would have it. `owner` is the path of the upstream or application, if it has a name.
    pub fn timeout_key(&self, timeout: &str, owner: Option<&str>) -> Option<String> {
        let mut places = self.timeout_places.iter();
        let changed = places.find(|(_, changes)| changes.has(timeout)).map(|(place, _)| &**place);
        let place = changed.or(owner).or(self.place.as_deref())?;
        Some(format!("{place}/timeouts/{timeout}"))
    }

    /// Returns these options with those of an earlier action on the way of the request. Fields add
    /// up; of two with one name, the later counts.
    pub fn after(&self, earlier: &ServerOptions) -> ServerOptions {
        let is_replaced =
            |name: &str| self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let kept = earlier.headers.iter().filter(|(name, _)| !is_replaced(name));
        ServerOptions {
            headers: kept.chain(&self.headers).cloned().collect(),
            forwarded: self.forwarded.or(earlier.forwarded),
            pass_headers: self.pass_headers.or(earlier.pass_headers),
            pass_body: self.pass_body.or(earlier.pass_body),
            timeouts: self.timeouts.or(earlier.timeouts),
            retry: self.retry.as_ref().or(earlier.retry.as_ref()).cloned(),
            place: self.place.clone(),
            timeout_places: [&*self.timeout_places, &earlier.timeout_places].concat(),
        }
    }
}
