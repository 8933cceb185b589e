//! `proxy_pass` and `upstream`: upstreams of a document.

use serde_json::{Value, json};

use super::context::{Kind, Place};
use super::convert::Converter;
use super::fastcgi::server_address;
use super::options::Answer;
use super::reader::Directive;
use super::rewrite::rewrite_text;
use super::state::State;
use super::steps::{object, step, uri};
use super::template::Template;
use super::units;
use super::variables::{Object, Reason};
use crate::Status;

/// A server that requests are passed to.
pub struct Destination {
    /// Without TLS or with it.
    pub is_tls: bool,
    /// The name in the directive, with its port.
    pub authority: String,
    /// The path and query behind it.
    pub path: Option<Template>,
    /// The directive has variables.
    pub has_variables: bool,
}

impl<'t> Converter<'_> {
    /// Returns the steps for requests that are passed to an HTTP server.
    pub fn proxy_pass(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Vec<Value> {
        match self.try_proxy(directive, place, state) {
            Ok(steps) => {
                self.report.converted(directive.id);
                steps
            }
            Err(reason) => {
                let reason = format!("{reason}; requests of the location are refused (403)");
                self.report.mark(directive.id, Status::NotConverted, reason);
                self.skip_family(place, "proxy_", "requests are not passed to a server");
                vec![step(Object::new(), self.closed(place, state, 403))]
            }
        }
    }

    fn try_proxy(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Result<Vec<Value>, Reason> {
        let target = self.value(directive.arg(0), place, state)?;
        let has_variables = directive.arg(0).contains('$');
        let mut destination = destination(&target, has_variables)?;
        if let Some(path) = &destination.path {
            // A path of a document is without percent signs, and is encoded behind a rewrite.
            destination.path = Some(decoded(path)?);
        }
        let upstream = self.upstream_of(&destination, place, state)?;
        let mut action = object([("pass", format!("upstreams/{upstream}").into())]);
        let fields = self.request_fields(&destination, place, state);
        action.insert("request_headers".to_owned(), fields.into());
        self.origin_options(&mut action, place, state, "proxy", false);
        self.add_options(&mut action, place, state, Answer::Passed);
        if let Some(site) = &place.site {
            self.upstream_sites.entry(upstream).or_default().push(site.internal_entry());
        }
        let prefix = place.prefix().to_owned();
        let is_exact = place.location.as_ref().is_some_and(|location| location.kind == Kind::Exact);
        let mut steps = Vec::new();
        match &destination.path {
            Some(path) if !state.is_rewritten => {
                if destination.has_variables || is_exact || prefix.is_empty() {
                    action.insert("rewrite".to_owned(), rewrite_text(path, false).into());
                    steps.push(step(Object::new(), action));
                } else {
                    let front = path.constant().unwrap_or_default().to_owned();
                    if front == prefix {
                        steps.push(step(Object::new(), action));
                    } else {
                        let expression = format!("(?s)^{}(.*)$", super::pcre::escape(&prefix));
                        let text = format!(
                            "{}$1",
                            Template::text(&super::steps::path_text(&front)).render()
                        );
                        action.insert("rewrite".to_owned(), text.into());
                        steps.push(step(uri(format!("~{expression}"), &[]), action.clone()));
                        // Rewrites may have led here from another path.
                        steps.push(step(Object::new(), self.returned(place, state, 404)));
                    }
                }
            }
            _ => steps.push(step(Object::new(), action)),
        }
        Ok(steps)
    }

    /// Returns the upstream of a destination.
    fn upstream_of(
        &mut self,
        destination: &Destination,
        place: &Place<'t>,
        state: &State,
    ) -> Result<String, Reason> {
        let mut options = Object::new();
        if destination.is_tls {
            options.insert("tls".to_owned(), self.upstream_tls(destination, place, state)?);
        }
        self.redirects(destination, place, state, &mut options);
        self.cookies(place, state, &mut options);
        if let Some(block) = self.upstream_block(&destination.authority) {
            return self.upstream(&block, &options);
        }
        let port = if destination.is_tls { 443 } else { 80 };
        let address =
            server_address(&destination.authority, port).ok_or("this is no address of a server")?;
        let mut upstream = object([("servers", json!({ address.clone(): {} }))]);
        upstream.insert("keepalive".to_owned(), 0.into());
        upstream.extend(options);
        Ok(self.add_upstream(&address, upstream))
    }

    fn upstream_tls(
        &mut self,
        destination: &Destination,
        place: &Place<'t>,
        state: &State,
    ) -> Result<Value, Reason> {
        let scope = &place.scope;
        let mut tls = Object::new();
        let verifies = scope.is_on("proxy_ssl_verify");
        for name in [
            "proxy_ssl_verify",
            "proxy_ssl_server_name",
            "proxy_ssl_name",
            "proxy_ssl_trusted_certificate",
            "proxy_ssl_certificate",
            "proxy_ssl_certificate_key",
        ] {
            if let Some(directive) = scope.one(name) {
                self.report.converted(directive.id);
            }
        }
        tls.insert("verify".to_owned(), verifies.into());
        if let Some(file) = scope.one("proxy_ssl_trusted_certificate").filter(|_| verifies) {
            tls.insert("authorities".to_owned(), self.whole_path(file.arg(0)).into());
        }
        let host = destination
            .authority
            .rsplit_once(':')
            .map_or(destination.authority.as_str(), |(host, _)| host)
            .to_owned();
        let name = match scope.one("proxy_ssl_name") {
            Some(directive) => {
                let value = self.value(directive.arg(0), place, state)?;
                value
                    .constant()
                    .map(str::to_owned)
                    .ok_or("the name of the server in TLS has variables")?
            }
            None => host,
        };
        let is_name = !name.starts_with("unix:") && name.parse::<std::net::IpAddr>().is_err();
        if is_name && !name.is_empty() {
            tls.insert("server_name".to_owned(), name.into());
        }
        if let (Some(chain), Some(key)) =
            (scope.one("proxy_ssl_certificate"), scope.one("proxy_ssl_certificate_key"))
        {
            let certificate = json!({ "chain": self.whole_path(chain.arg(0)), "key": self.whole_path(key.arg(0)) });
            tls.insert("certificate".to_owned(), certificate);
        }
        Ok(tls.into())
    }

    /// Returns the header fields that the server gets.
    fn request_fields(
        &mut self,
        destination: &Destination,
        place: &Place<'t>,
        state: &State,
    ) -> Object {
        let mut fields = Object::new();
        let host = if destination.authority.starts_with("unix:") {
            "localhost".to_owned()
        } else {
            destination.authority.clone()
        };
        fields.insert("Host".to_owned(), Template::text(&host).render().into());
        for directive in place.scope.all("proxy_set_header") {
            let (name, text) = (directive.arg(0), directive.arg(1));
            let lower = name.to_ascii_lowercase();
            if matches!(
                lower.as_str(),
                "connection"
                    | "upgrade"
                    | "keep-alive"
                    | "te"
                    | "transfer-encoding"
                    | "content-length"
            ) {
                self.report.mark(
                    directive.id,
                    Status::NotNeeded,
                    "the server writes the fields of its own connections, and passes WebSockets on",
                );
                continue;
            }
            let text = text.replace("$proxy_host", &host);
            match self.value(&text, place, state) {
                Ok(value) => {
                    self.report.converted(directive.id);
                    fields.retain(|key, _| !key.eq_ignore_ascii_case(name));
                    let value = if value.constant() == Some("") {
                        Value::Null
                    } else {
                        value.render().into()
                    };
                    fields.insert(name.to_owned(), value);
                }
                Err(reason) => self.report.mark(directive.id, Status::NotConverted, reason),
            }
        }
        fields
    }

    /// Adds the options of requests to other servers: timeouts, buffers, errors, removed fields.
    pub fn origin_options(
        &mut self,
        action: &mut Object,
        place: &Place<'t>,
        state: &State,
        family: &str,
        is_php: bool,
    ) {
        let scope = &place.scope;
        let mut timeouts = Object::new();
        for (name, keys) in [
            ("connect_timeout", &["connect"][..]),
            ("send_timeout", &["send"]),
            ("read_timeout", &["first_byte", "read", "tunnel"]),
        ] {
            let Some(directive) = scope.one(&format!("{family}_{name}")) else { continue };
            if is_php {
                self.report.mark(directive.id, Status::Changed, "PHP runs in the server itself; request_terminate_timeout of the pool limits requests");
                continue;
            }
            self.report.converted(directive.id);
            if let Some(seconds) = units::seconds(directive.arg(0)) {
                for key in keys.iter().filter(|key| family == "proxy" || **key != "tunnel") {
                    timeouts.insert((*key).to_owned(), seconds.max(1).into());
                }
            }
        }
        if !timeouts.is_empty() {
            action.insert("timeouts".to_owned(), timeouts.into());
        }
        for (name, key) in [("buffering", "buffering"), ("request_buffering", "request_buffering")]
        {
            let Some(directive) = scope.one(&format!("{family}_{name}")) else { continue };
            if is_php {
                self.report.mark(directive.id, Status::NotNeeded, "PHP runs in the server itself");
                continue;
            }
            self.report.converted(directive.id);
            if directive.arg(0).eq_ignore_ascii_case("off") {
                action.insert(key.to_owned(), false.into());
            }
        }
        for key in ["pass_request_headers", "pass_request_body"] {
            let Some(directive) = scope.one(&format!("{family}_{key}")) else { continue };
            let is_off = directive.arg(0).eq_ignore_ascii_case("off");
            if is_php && is_off {
                let reason = "PHP runs in the server itself, and gets the whole request";
                self.report.mark(directive.id, Status::NotConverted, reason);
                continue;
            }
            self.report.converted(directive.id);
            if is_off {
                action.insert(key.to_owned(), false.into());
            }
        }
        if let Some(directive) = scope.one(&format!("{family}_intercept_errors")) {
            self.report.converted(directive.id);
            if directive.arg(0).eq_ignore_ascii_case("on") {
                action.insert("intercept_errors".to_owned(), true.into());
            }
        }
        let mut removed = Object::new();
        for directive in scope.all(&format!("{family}_hide_header")) {
            self.report.converted(directive.id);
            removed.insert(directive.arg(0).to_owned(), json!({ "value": null, "always": true }));
        }
        self.add_fields(action, removed);
        self.retries(action, place, family, is_php);
        self.ignored_fields(place, family);
        self.cache(action, place, state, family);
        if is_php && let Some(directive) = scope.one(&format!("{family}_keep_conn")) {
            self.report.mark(directive.id, Status::NotNeeded, "PHP runs in the server itself");
        }
        if let Some(directive) = scope.one(&format!("{family}_http_version")) {
            self.report.mark(
                directive.id,
                Status::NotNeeded,
                "requests to other servers are of HTTP/1.1",
            );
        }
    }

    fn retries(&mut self, action: &mut Object, place: &Place<'t>, family: &str, is_php: bool) {
        let scope = &place.scope;
        let directive = scope.one(&format!("{family}_next_upstream"));
        let others =
            ["tries", "timeout"].map(|name| scope.one(&format!("{family}_next_upstream_{name}")));
        if is_php {
            for directive in directive.into_iter().chain(others.into_iter().flatten()) {
                self.report.mark(directive.id, Status::NotNeeded, "PHP runs in the server itself");
            }
            return;
        }
        let mut retry = Object::new();
        if let Some(directive) = directive {
            self.report.converted(directive.id);
            let mut on: Vec<Value> = Vec::new();
            for arg in &directive.args {
                match arg.as_str() {
                    "error" => on.push("error".into()),
                    "timeout" => on.push("timeout".into()),
                    "invalid_header" => on.push("invalid_response".into()),
                    "non_idempotent" => {
                        retry.insert(
                            "methods".to_owned(),
                            json!(["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]),
                        );
                    }
                    "off" => on.clear(),
                    code => {
                        match code.strip_prefix("http_").and_then(|code| code.parse::<u16>().ok()) {
                            Some(code) => on.push(code.into()),
                            None => self.report.mark(
                                directive.id,
                                Status::Changed,
                                format!("\"{code}\" has no equivalent"),
                            ),
                        }
                    }
                }
            }
            retry.insert("on".to_owned(), on.into());
        }
        match others {
            [tries, timeout] => {
                if let Some(timeout) = timeout {
                    self.report.converted(timeout.id);
                    if let Some(seconds) =
                        units::seconds(timeout.arg(0)).filter(|seconds| *seconds > 0)
                    {
                        retry.insert("timeout".to_owned(), seconds.into());
                    }
                }
                if let Some(tries) = tries {
                    self.report.mark(
                        tries.id,
                        Status::Changed,
                        "as many servers are tried as the upstream has",
                    );
                }
            }
        }
        if !retry.is_empty() {
            action.insert("retry".to_owned(), retry.into());
        }
    }

    fn ignored_fields(&mut self, place: &Place<'t>, family: &str) {
        let has_cache = place.scope.one(&format!("{family}_cache")).is_some();
        if let Some(directive) = place.scope.one(&format!("{family}_ignore_headers")) {
            if has_cache {
                self.report.converted(directive.id);
            } else if directive.args.iter().any(|arg| arg.eq_ignore_ascii_case("X-Accel-Redirect"))
            {
                self.report.mark(
                    directive.id,
                    Status::NotConverted,
                    "an application may name another path in X-Accel-Redirect",
                );
            } else {
                self.report.mark(
                    directive.id,
                    Status::NotNeeded,
                    "these fields have no effect without a cache",
                );
            }
        }
    }
}

/// Decodes the path of a URL up to its query.
fn decoded(path: &Template) -> Result<Template, Reason> {
    let invalid = || "the path of the URL has bytes that no path of a document has".to_owned();
    let decode = |text: &str| -> Option<String> {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let byte = u8::from_str_radix(part.get(..2)?, 16).ok()?;
            // These would have another meaning.
            if matches!(byte, 0..=31 | b'/' | b'?' | b'%') {
                return None;
            }
            bytes.push(byte);
            bytes.extend_from_slice(part.get(2..)?.as_bytes());
        }
        String::from_utf8(bytes).ok()
    };
    let (front, query) = match path.split_once('?') {
        Some((front, query)) => (front, Some(query)),
        None => (path.clone(), None),
    };
    let has_all = front.pieces().iter().all(|piece| match piece {
        super::template::Piece::Text(text) => decode(text).is_some(),
        super::template::Piece::Variable(_) => true,
    });
    if !has_all {
        return Err(invalid());
    }
    let front = front.map_texts(|text| decode(text).unwrap_or_default());
    Ok(match query {
        Some(query) => front.with(&Template::text("?")).with(&query),
        None => front,
    })
}

/// Reads the URL of a `proxy_pass`.
fn destination(target: &Template, has_variables: bool) -> Result<Destination, Reason> {
    let front = target.beginning();
    let (is_tls, rest) = match (front.strip_prefix("http://"), front.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err("the address of the server has variables".to_owned()),
    };
    let scheme = front.len() - rest.len();
    let end = if rest.starts_with("unix:") {
        rest.strip_prefix("unix:")
            .and_then(|path| path.find(':'))
            .map_or(rest.len(), |at| at + "unix:".len())
    } else {
        rest.find(['/', '?']).unwrap_or(rest.len())
    };
    let authority = rest[..end].to_owned();
    if authority.is_empty()
        || (end == rest.len() && target.constant().is_none() && !rest.ends_with('/'))
    {
        // What follows is a variable: a path only if it begins with a slash.
        let is_path = matches!(target.pieces().get(1), Some(super::template::Piece::Variable(name)) if matches!(name.as_str(), "uri" | "request_uri"));
        if authority.is_empty() || !is_path {
            return Err("the address of the server has variables".to_owned());
        }
    }
    let skip = scheme + end + usize::from(rest.starts_with("unix:") && end < rest.len());
    let behind = front.get(skip..).unwrap_or_default();
    let mut path = Template::text(behind);
    let mut pieces = target.pieces().iter();
    pieces.next();
    for piece in pieces {
        match piece {
            super::template::Piece::Text(text) => path.push_text(text),
            super::template::Piece::Variable(name) => path.push(&Template::variable(name)),
        }
    }
    let path = (path != Template::default()).then_some(path);
    Ok(Destination { is_tls, authority, path, has_variables })
}
