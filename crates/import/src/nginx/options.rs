//! Directives that change responses: header fields, error pages, caching by browsers, sizes, rates.

use howdah_config::{Pattern, Subject};
use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::state::State;
use super::steps::object;
use super::template::Template;
use super::units;
use super::variables::Object;
use crate::Status;

/// What answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A file.
    File,
    /// The server itself: `return`.
    Own,
    /// A script or another server.
    Passed,
}

/// Media types that scripts often have, beside those of nginx's list.
const FURTHER_TYPES: [&str; 8] = [
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/octet-stream",
    "application/xml",
    "text/html",
    "text/plain",
    "text/xml",
];

impl<'t> Converter<'_> {
    /// Adds the options of a place to an action that answers requests.
    pub fn add_options(
        &mut self,
        action: &mut Object,
        place: &Place<'t>,
        state: &State,
        answer: Answer,
    ) {
        self.response_headers(place, state, answer, action);
        let pages = self.error_pages(place, state);
        if !pages.is_empty() {
            action.insert("error_pages".to_owned(), pages.into());
        }
        self.expires(action, place, state, answer);
        self.charset(action, place);
        self.body_size(action, place);
        self.rate(action, place, state);
        self.compression_of(action, place);
        if let Some(log) = self.access_log_of(place, state) {
            action.insert("access_log".to_owned(), log);
        }
        if answer != Answer::Own {
            self.mirror(action, place, state);
        }
        if answer == Answer::File {
            self.type_of_files(action, place);
            self.links(action, place);
        }
    }

    fn expires(&mut self, action: &mut Object, place: &Place<'t>, state: &State, answer: Answer) {
        let Some(directive) = place.scope.one("expires") else { return };
        let text = directive.args.join(" ");
        if text == "off" {
            self.report.converted(directive.id);
            return;
        }
        let value = if text.contains('$') {
            let map = self.value(&text, place, state).ok();
            match map.and_then(|value| self.expires_by_type(&value)) {
                // The page of a redirect is HTML in nginx, and there is none here.
                Some(mut times)
                    if matches!(
                        action.get("return").and_then(Value::as_u64),
                        Some(301..=303 | 307 | 308)
                    ) =>
                {
                    let of_html = times["text/html"].take();
                    if of_html.is_null() { times["*"].take() } else { of_html }
                }
                Some(value) => {
                    let reason = "media types beyond nginx's list, and redirects of directories, have the default of the map";
                    self.report.mark(directive.id, Status::Changed, reason);
                    value
                }
                None => {
                    self.report.mark(
                        directive.id,
                        Status::NotConverted,
                        "the time is a variable that is no map of media types",
                    );
                    return;
                }
            }
        } else {
            match expires_text(&directive.args) {
                Some(past) if past == "-1" && text != "-1" => {
                    let reason = "Expires is the time of a second ago";
                    self.report.mark(directive.id, Status::Changed, reason);
                    past.into()
                }
                Some(text) => text.into(),
                None => {
                    self.report.mark(
                        directive.id,
                        Status::NotConverted,
                        "the time is none of nginx's",
                    );
                    return;
                }
            }
        };
        action.insert("expires".to_owned(), value);
        if answer == Answer::Passed {
            let reason = "an application's own Expires and Cache-Control stay; nginx replaces them";
            self.report.mark(directive.id, Status::Changed, reason);
        } else {
            self.report.converted(directive.id);
        }
        keep_cache_control(action);
    }

    /// Returns times by media type for a map of the type of the response.
    fn expires_by_type(&self, value: &Template) -> Option<Value> {
        let name = value.only_variable()?;
        let (_, definition) = self.variables.iter().find(|(other, _)| other == name)?;
        let subject = definition.get("map")?.as_str()?.trim_start_matches('$');
        let is_sent_type = || {
            let mut all = self.variables.iter();
            all.any(|(name, own)| name == subject && *own == super::variables::sent_type())
        };
        if subject != "response_header_content_type" && !is_sent_type() {
            return None;
        }
        let values = definition.get("values")?.as_object()?;
        let time = |value: &Value| expires_text(&[value.as_str()?.to_owned()]);
        let mut times = Object::new();
        // Each type that nginx's list has, and each kind of types that a pattern is about.
        for name in self.types.values().map(String::as_str).chain(FURTHER_TYPES) {
            let exact = values.get(name);
            let matches = |pattern: &str| {
                Pattern::parse(pattern, Subject::Header)
                    .is_ok_and(|pattern| pattern.matches(name.as_bytes()))
            };
            let by_pattern = || values.iter().find(|(key, _)| key.starts_with('~') && matches(key));
            if let Some(value) = exact.or_else(|| by_pattern().map(|(_, value)| value)) {
                times.insert(name.to_owned(), time(value)?.into());
            }
        }
        for (pattern, value) in values {
            let kind = pattern.strip_prefix('~').map(|text| text.trim_start_matches("(?i)"));
            if let Some(kind) = kind.and_then(|text| text.trim_start_matches('^').strip_suffix('/'))
            {
                times.entry(format!("{kind}/*")).or_insert(time(value)?.into());
            } else if !pattern.starts_with('~') && pattern.contains('/') {
                times.entry(pattern.clone()).or_insert(time(value)?.into());
            }
        }
        let default = definition.get("default").and_then(Value::as_str).unwrap_or("off");
        let default = if default.is_empty() { "off" } else { default };
        times.insert("*".to_owned(), expires_text(&[default.to_owned()])?.into());
        Some(times.into())
    }

    fn charset(&mut self, action: &mut Object, place: &Place<'t>) {
        let Some(directive) = place.scope.one("charset") else { return };
        let name = directive.arg(0);
        if name == "off" {
            self.report.converted(directive.id);
            return;
        }
        if name.contains('$') {
            self.report.mark(directive.id, Status::NotConverted, "the charset is a variable");
            return;
        }
        action.insert("charset".to_owned(), name.into());
        self.report.mark(directive.id, Status::Changed, "all text types have the charset, text/css as well; nginx adds it to text/html, text/xml, text/plain, JavaScript and RSS");
    }

    fn body_size(&mut self, action: &mut Object, place: &Place<'t>) {
        let size = match place.scope.one("client_max_body_size") {
            Some(directive) => {
                self.report.converted(directive.id);
                body_size(directive.arg(0))
            }
            None => DEFAULT_BODY_SIZE,
        };
        if size != self.body_size {
            action.insert("max_body_size".to_owned(), size.into());
        }
    }

    fn rate(&mut self, action: &mut Object, place: &Place<'t>, _state: &State) {
        let after = place.scope.one("limit_rate_after");
        let Some(directive) = place.scope.one("limit_rate") else {
            if let Some(after) = after {
                self.report.mark(after.id, Status::NotNeeded, "there is no limit_rate");
            }
            return;
        };
        match units::size(directive.arg(0)) {
            Some(0) => self.report.converted(directive.id),
            Some(rate) => {
                self.report.converted(directive.id);
                let value = match after.map(|after| (after, units::size(after.arg(0)))) {
                    Some((after, Some(size))) => {
                        self.report.converted(after.id);
                        json!({ "rate": rate, "after": size })
                    }
                    Some((after, None)) => {
                        self.report.mark(after.id, Status::NotConverted, "the size is a variable");
                        rate.into()
                    }
                    None => rate.into(),
                };
                action.insert("rate".to_owned(), value);
            }
            None => self.report.mark(directive.id, Status::NotConverted, "the rate is a variable"),
        }
    }

    /// A place in which responses are not compressed, beside others in which they are.
    fn compression_of(&mut self, action: &mut Object, place: &Place<'t>) {
        if self.compresses && !place.scope.is_on("gzip") && !action.contains_key("return") {
            action.insert("compress".to_owned(), false.into());
        }
    }

    fn mirror(&mut self, action: &mut Object, place: &Place<'t>, state: &State) {
        let directives = place.scope.all("mirror");
        if let [off] = directives.as_slice()
            && off.arg(0) == "off"
        {
            self.report.converted(off.id);
            return;
        }
        let body = place.scope.one("mirror_request_body");
        let mut mirrors = Vec::new();
        for directive in directives {
            match self.value(directive.arg(0), place, state) {
                Ok(path) if path.beginning().starts_with('/') => {
                    self.report.converted(directive.id);
                    let mut mirror =
                        object([("action", self.internal_redirect(place, &path).into())]);
                    if body.is_some_and(|body| body.arg(0).eq_ignore_ascii_case("off")) {
                        mirror.insert("max_body_size".to_owned(), 0.into());
                    }
                    mirrors.push(Value::from(mirror));
                }
                _ => self.report.mark(
                    directive.id,
                    Status::NotConverted,
                    "the path of the copy cannot be said",
                ),
            }
        }
        if let Some(body) = body {
            self.report.mark(
                body.id,
                Status::Changed,
                "without bodies, requests that have one are not copied",
            );
        }
        if !mirrors.is_empty() {
            action.insert("mirror".to_owned(), mirrors.into());
        }
    }

    fn links(&mut self, action: &mut Object, place: &Place<'t>) {
        let directive = place.scope.one("disable_symlinks");
        match directive.map(|directive| (directive, directive.arg(0))) {
            Some((directive, "on")) => {
                action.insert("follow_symlinks".to_owned(), false.into());
                self.report.mark(directive.id, Status::Changed, "links in the path of the document root are not followed either, and \"from\" does not count");
            }
            Some((directive, "if_not_owner")) => {
                self.report.mark(
                    directive.id,
                    Status::Changed,
                    "links that stay in the document root are followed, whatever their owners",
                );
            }
            Some((directive, _)) => {
                self.report.converted(directive.id);
                action.insert("follow_symlinks".to_owned(), true.into());
            }
            None => {
                // nginx follows all links.
                action.insert("follow_symlinks".to_owned(), true.into());
            }
        }
    }
}

/// The maximum size of a request's body in nginx without a directive.
pub const DEFAULT_BODY_SIZE: u64 = 1 << 20;

/// Reads a size of `client_max_body_size`; 0 is no limit.
pub fn body_size(text: &str) -> u64 {
    /// More than any request has.
    const UNLIMITED: u64 = 1 << 50;
    match units::size(text) {
        Some(0) => UNLIMITED,
        Some(size) => size.min(UNLIMITED),
        None => DEFAULT_BODY_SIZE,
    }
}

/// Lets a field `Cache-Control` of an action stand beside that of its `expires`, which it would
/// replace otherwise.
fn keep_cache_control(action: &mut Object) {
    const NAME: &str = "Cache-Control";
    let Some(fields) = action.get_mut("response_headers").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(key) = fields.keys().find(|key| key.eq_ignore_ascii_case(NAME)).cloned() else {
        return;
    };
    let Some(field) = fields.get_mut(&key) else { return };
    let text = field.get("value").unwrap_or(field).as_str().map(str::to_owned);
    match text.filter(|text| !text.contains('$')) {
        Some(text) => {
            fields.shift_remove(&key);
            if fields.is_empty() {
                action.remove("response_headers");
            }
            action.insert("cache_control".to_owned(), text.into());
        }
        None => match field {
            Value::Object(change) => {
                change.insert("mode".to_owned(), "add".into());
            }
            Value::Array(changes) if changes.iter().all(Value::is_object) => {
                for change in changes.iter_mut().filter_map(Value::as_object_mut) {
                    change.insert("mode".to_owned(), "add".into());
                }
            }
            value => *value = json!({ "value": value.take(), "mode": "add" }),
        },
    }
}

/// Adds members to an object in an action.
pub fn merge(action: &mut Object, key: &str, more: Object) {
    match action.get_mut(key).and_then(Value::as_object_mut) {
        Some(object) => object.extend(more),
        None => {
            action.insert(key.to_owned(), more.into());
        }
    }
}

/// Returns the text of a time in `expires` of an action.
fn expires_text(args: &[String]) -> Option<String> {
    match args {
        [word] if matches!(word.as_str(), "max" | "epoch" | "off") => Some(word.clone()),
        [word, time] if word == "modified" => {
            let (sign, digits) = signed(time);
            let seconds = units::milliseconds(digits)? / 1000;
            Some(format!("modified {sign}{seconds}s"))
        }
        [time] if time.starts_with('@') => Some(time.clone()),
        [time] => {
            let (sign, digits) = signed(time);
            let seconds = units::milliseconds(digits)? / 1000;
            Some(if sign == "-" { "-1".to_owned() } else { shortest(seconds) })
        }
        _ => None,
    }
}

fn signed(time: &str) -> (&str, &str) {
    match time.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("+", time.strip_prefix('+').unwrap_or(time)),
    }
}

fn shortest(seconds: u64) -> String {
    for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60)] {
        if seconds >= length && seconds.is_multiple_of(length) {
            return format!("{}{unit}", seconds / length);
        }
    }
    format!("{seconds}s")
}
