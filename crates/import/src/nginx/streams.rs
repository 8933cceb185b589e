//! `stream`: connections and datagrams that are passed on without being read.
//!
//! Directives that nginx inherits from `stream` are looked up from the server outwards. Those that
//! neither this file nor [`session_parts`](super::session_parts) reads are not converted.

use serde_json::{Value, json};

use super::access::network;
use super::convert::{Converter, unique};
use super::fastcgi::server_address;
use super::locations::slug;
use super::reader::Directive;
use super::scope::Scope;
use super::session_parts::SessionListen;
use super::steps::{object, step};
use super::units;
use super::variables::Object;
use crate::{Error, Status};

/// Silence that ends a session in nginx, in seconds.
const PROXY_TIMEOUT: u64 = 600;

/// Time to connect in nginx, in seconds.
const CONNECT_TIMEOUT: u64 = 60;

/// Directives that need no conversion, and why.
const NOT_NEEDED: [(&str, &str); 13] = [
    ("error_log", "the server's log is chosen on the command line (--log, --log-level)"),
    ("log_format", "no access log uses it"),
    ("map_hash_bucket_size", "tables have any size"),
    ("map_hash_max_size", "tables have any size"),
    ("preread_buffer_size", "a handshake may have 16 KiB"),
    ("proxy_buffer_size", "buffers grow with what waits"),
    ("proxy_socket_keepalive", "connections of clients are asked whether they are there"),
    ("tcp_nodelay", "the option is always on"),
    ("variables_hash_bucket_size", "tables have any size"),
    ("variables_hash_max_size", "tables have any size"),
    ("limit_conn_log_level", "refusals are lines of the level info"),
    ("zone", "the state of servers is that of all threads"),
    ("resolver_timeout", "names are looked up beside the connections"),
];

impl<'t> Converter<'_> {
    /// Converts the block `stream`. Returns its listeners and steps.
    pub fn streams(&mut self, block: &'t Directive) -> Result<(Object, Object), Error> {
        self.report.converted(block.id);
        let scope = Scope::outermost(block.children());
        self.upstream_blocks = scope
            .own_all("upstream")
            .into_iter()
            .map(|block| std::rc::Rc::new(block.clone()))
            .collect();
        let (mut listeners, mut streams) = (Object::new(), Object::new());
        for server in scope.own_all("server") {
            let inner = scope.inner(server.children());
            self.report.converted(server.id);
            self.stream_server(server, &inner, &scope, &mut listeners, &mut streams)?;
        }
        self.mark_session_rest(block, &NOT_NEEDED);
        Ok((listeners, streams))
    }

    fn stream_server(
        &mut self,
        server: &'t Directive,
        scope: &Scope<'t>,
        outer: &Scope<'t>,
        listeners: &mut Object,
        streams: &mut Object,
    ) -> Result<(), Error> {
        let listens = self.session_listens(scope)?;
        for (listen, directive) in &listens {
            let pass = match self.stream_pass(scope, outer, listen, streams) {
                Ok(pass) => self.guarded_stream(scope, pass, streams),
                Err(reason) => {
                    self.report.mark(server.id, Status::NotConverted, reason.clone());
                    self.report.mark(
                        directive.id,
                        Status::NotConverted,
                        "nothing listens there, because the server is not converted",
                    );
                    continue;
                }
            };
            let protocol = if listen.is_udp { "udp" } else { "tcp" };
            let mut listener = object([("protocol", protocol.into()), ("pass", pass.into())]);
            if !self.session_listener(scope, listen, directive, &mut listener) {
                continue;
            }
            self.stream_limit(scope, outer, &mut listener);
            self.stream_log(scope, &mut listener);
            if !listen.insert(listener, listeners) {
                return Err(directive.error("there is another server at this address"));
            }
        }
        Ok(())
    }

    /// Returns what connections are passed to.
    fn stream_pass(
        &mut self,
        scope: &Scope<'t>,
        outer: &Scope<'t>,
        listen: &SessionListen,
        streams: &mut Object,
    ) -> Result<String, String> {
        let Some(pass) = scope.own("proxy_pass") else {
            let other = ["return", "pass"].into_iter().find_map(|name| scope.own(name));
            return Err(match other {
                Some(directive) => {
                    let reason = "connections are only passed to other servers";
                    self.report.mark(directive.id, Status::NotConverted, reason);
                    format!("\"{}\" has no equivalent", directive.name)
                }
                None => "it has no proxy_pass".to_owned(),
            });
        };
        let options = self.stream_options(scope, listen);
        let converted = match pass.arg(0).strip_prefix('$') {
            None => self.stream_upstream(pass.arg(0), &options),
            Some(variable) => self.stream_map(variable, scope, outer, &options, streams),
        };
        match &converted {
            Ok(_) => self.report.converted(pass.id),
            Err(reason) => self.report.mark(pass.id, Status::NotConverted, reason.clone()),
        }
        converted
    }

    /// Returns the upstream of a name or an address.
    fn stream_upstream(&mut self, text: &str, options: &Object) -> Result<String, String> {
        if let Some(block) = self.upstream_block(text) {
            let mut options = options.clone();
            options.insert("keepalive".to_owned(), Value::Null);
            let name = self.upstream(&block, &options)?;
            let Some(Value::Object(mut upstream)) = self.upstreams.remove(&name) else {
                return Err("the upstream has no servers".to_owned());
            };
            // It is a key of HTTP.
            upstream.remove("keepalive");
            return Ok(format!("upstreams/{}", self.add_upstream(block.arg(0), upstream)));
        }
        let has_port = text.starts_with("unix:")
            || text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = server_address(text, 0).filter(|_| has_port);
        let address = address.ok_or("this is no address of a server")?;
        let mut upstream = object([("servers", json!({ address.clone(): {} }))]);
        upstream.extend(options.clone());
        Ok(format!("upstreams/{}", self.add_upstream(&address, upstream)))
    }

    /// Returns steps for a `map` of the name or the protocols of a TLS handshake.
    fn stream_map(
        &mut self,
        variable: &str,
        scope: &Scope<'t>,
        outer: &Scope<'t>,
        options: &Object,
        streams: &mut Object,
    ) -> Result<String, String> {
        let name = format!("${variable}");
        let table = outer.own_all("map").into_iter().find(|map| map.arg(1) == name);
        let table = table.ok_or(
            "the destination has variables that only a \"map\" of the requested name can have",
        )?;
        let key = match table.arg(0) {
            "$ssl_preread_server_name" => "server_name",
            "$ssl_preread_alpn_protocols" => "alpn",
            other => {
                let reason = format!(
                    "steps choose by the name and the protocols of a handshake, not by {other}"
                );
                self.report.mark(table.id, Status::NotConverted, reason.clone());
                return Err(reason);
            }
        };
        match scope.one("ssl_preread") {
            Some(directive) if scope.is_on("ssl_preread") => self.report.converted(directive.id),
            _ => return Err("without ssl_preread, nginx knows no name".to_owned()),
        }
        let has_names =
            table.children().iter().any(|entry| entry.name == "hostnames" && entry.args.is_empty());
        // nginx prefers whole names, then the longest with a star, then expressions.
        let mut ranked: Vec<(u8, usize, Value)> = Vec::new();
        let mut last = json!({ "action": { "close": true } });
        for (place, entry) in table.children().iter().enumerate() {
            let [target] = entry.args.as_slice() else { continue };
            let (patterns, rank) = match entry.name.as_str() {
                "default" | "volatile" => (None, 0),
                text if text.starts_with('~') => {
                    return Err(format!(
                        "line {}: names are compared without expressions",
                        entry.line
                    ));
                }
                text if key == "server_name" && has_names && text.starts_with('.') => {
                    let rest = &text[1..];
                    (Some(json!([rest, format!("*.{rest}")])), 1)
                }
                text if text.contains('*') && !(key == "server_name" && has_names) => {
                    return Err(format!(
                        "line {}: the star is a character without \"hostnames\"",
                        entry.line
                    ));
                }
                text => (Some(text.to_ascii_lowercase().into()), u8::from(text.contains('*'))),
            };
            let pass = self
                .stream_upstream(target, options)
                .map_err(|reason| format!("line {}: {reason}", entry.line))?;
            let action = object([("pass", pass.into())]);
            match patterns {
                None => last = step(Object::new(), action),
                Some(patterns) if patterns == json!("") => {
                    return Err(format!(
                        "line {}: connections without a name cannot be chosen",
                        entry.line
                    ));
                }
                Some(patterns) => {
                    ranked.push((rank, place, step(object([(key, patterns)]), action)));
                }
            }
        }
        // The longest pattern with a star comes first; the order of others does not matter.
        ranked.sort_by_key(|(rank, place, step)| {
            let length = step.to_string().len();
            (*rank, if *rank == 0 { *place } else { usize::MAX - length })
        });
        self.report.converted(table.id);
        let steps: Vec<Value> = ranked.into_iter().map(|(_, _, step)| step).chain([last]).collect();
        Ok(format!("streams/{}", add_stream(streams, variable, steps)))
    }

    /// Puts `allow` and `deny` in front of a destination.
    fn guarded_stream(&mut self, scope: &Scope<'t>, pass: String, streams: &mut Object) -> String {
        let rules = scope.any_of(&["allow", "deny"]);
        let mut steps = Vec::new();
        for rule in &rules {
            self.report.converted(rule.id);
            let conditions = match rule.arg(0) {
                "all" => Object::new(),
                "unix:" => object([("source", "unix".into())]),
                text => object([("source", network(text).into())]),
            };
            let action = match rule.name.as_str() {
                "allow" => object([("pass", pass.clone().into())]),
                _ => object([("close", true.into())]),
            };
            steps.push(step(conditions, action));
        }
        if steps.is_empty() {
            return pass;
        }
        steps.push(step(Object::new(), object([("pass", pass.into())])));
        format!("streams/{}", add_stream(streams, "allowed", steps))
    }

    /// Returns the keys of the upstream of a server.
    fn stream_options(&mut self, scope: &Scope<'t>, listen: &SessionListen) -> Object {
        let mut seconds = |name: &str, usual: u64| match scope.one(name) {
            None => usual,
            Some(directive) => {
                self.report.converted(directive.id);
                units::seconds(directive.arg(0)).unwrap_or(usual).max(1)
            }
        };
        let timeouts = json!({
            "connect": seconds("proxy_connect_timeout", CONNECT_TIMEOUT),
            "tunnel": seconds("proxy_timeout", PROXY_TIMEOUT),
        });
        let mut options = object([("timeouts", timeouts)]);
        if let Some(directive) = scope.one("proxy_next_upstream") {
            self.report.converted(directive.id);
            if !scope.is_on("proxy_next_upstream") {
                options.insert("tries".to_owned(), 1.into());
            }
        }
        if let Some(directive) = scope.one("proxy_next_upstream_tries") {
            self.report.converted(directive.id);
            if let Ok(tries @ 1..=100) = directive.arg(0).parse::<u32>() {
                options.entry("tries").or_insert_with(|| tries.into());
            }
        }
        if let Some(directive) = scope.one("proxy_next_upstream_timeout") {
            let reason = "the time of all attempts is that of one times \"tries\"";
            self.report.mark(directive.id, Status::Changed, reason);
        }
        if let Some(directive) = scope.one("proxy_protocol")
            && directive.arg(0) != "off"
        {
            let is_second = listen.is_udp || directive.arg(0) == "v2";
            options.insert("proxy_protocol".to_owned(), if is_second { 2 } else { 1 }.into());
            if listen.is_udp {
                let reason = "each datagram begins with a header of version 2; nginx sends one of version 1 with the first";
                self.report.mark(directive.id, Status::Changed, reason);
            } else {
                self.report.converted(directive.id);
            }
        }
        self.stream_bandwidth(scope, listen, &mut options);
        let mut udp = Object::new();
        for (name, key) in [("proxy_requests", "requests"), ("proxy_responses", "responses")] {
            let Some(directive) = scope.one(name) else { continue };
            if !listen.is_udp {
                self.report.mark(directive.id, Status::NotNeeded, "it is about datagrams");
                continue;
            }
            self.report.converted(directive.id);
            let number = directive.arg(0).parse::<u32>().ok();
            if let Some(number) = number.filter(|number| key != "requests" || *number > 0) {
                udp.insert(key.to_owned(), number.into());
            }
        }
        if !udp.is_empty() {
            options.insert("udp".to_owned(), udp.into());
        }
        if let Some(directive) = scope.one("proxy_half_close") {
            if scope.is_on("proxy_half_close") {
                self.report.converted(directive.id);
            } else {
                let reason = "if one end finishes sending, the other one may go on";
                self.report.mark(directive.id, Status::Changed, reason);
            }
        }
        if let Some(directive) = scope.one("preread_timeout") {
            self.report.mark(directive.id, Status::Changed, "a handshake may take 10 seconds");
        }
        if let Some(tls) = self.session_tls_behind(scope, "proxy_ssl") {
            options.insert("tls".to_owned(), tls);
        }
        options
    }

    /// Adds the speed of sessions.
    fn stream_bandwidth(
        &mut self,
        scope: &Scope<'t>,
        listen: &SessionListen,
        options: &mut Object,
    ) {
        let mut bandwidth = Object::new();
        for (name, key) in [("proxy_upload_rate", "upload"), ("proxy_download_rate", "download")] {
            let Some(directive) = scope.one(name) else { continue };
            match units::size(directive.arg(0)) {
                Some(0) => self.report.converted(directive.id),
                Some(_) if listen.is_udp => {
                    let reason = "datagrams have no limit of their speed";
                    self.report.mark(directive.id, Status::NotConverted, reason);
                }
                Some(rate) => {
                    self.report.converted(directive.id);
                    bandwidth.insert(key.to_owned(), rate.into());
                }
                None => {
                    let reason = "the speed of a session is a number";
                    self.report.mark(directive.id, Status::NotConverted, reason);
                }
            }
        }
        if !bandwidth.is_empty() {
            options.insert("bandwidth".to_owned(), bandwidth.into());
        }
    }

    /// Adds `limit_conn` of clients.
    fn stream_limit(&mut self, scope: &Scope<'t>, outer: &Scope<'t>, listener: &mut Object) {
        let mut limits = Vec::new();
        for directive in scope.all("limit_conn") {
            let zones = outer.own_all("limit_conn_zone");
            let zone = zones.into_iter().find(|zone| {
                zone.arg(1).strip_prefix("zone=").and_then(|text| text.split(':').next())
                    == Some(directive.arg(0))
            });
            let number = directive.arg(1).parse::<u32>().ok().filter(|number| *number > 0);
            match (zone, number) {
                (Some(zone), Some(number))
                    if matches!(zone.arg(0), "$binary_remote_addr" | "$remote_addr") =>
                {
                    self.report.converted(zone.id);
                    self.report.converted(directive.id);
                    limits.push(json!({ "connections": number }));
                }
                _ => {
                    let reason = "connections are counted by the client's address";
                    self.report.mark(directive.id, Status::NotConverted, reason);
                }
            }
        }
        if !limits.is_empty() {
            let limit = if limits.len() == 1 { limits.remove(0) } else { limits.into() };
            listener.insert("limit".to_owned(), limit);
        }
    }

    /// Adds the access logs, of which nginx has none by default.
    fn stream_log(&mut self, scope: &Scope<'t>, listener: &mut Object) {
        for directive in scope.all("access_log") {
            if directive.arg(0) == "off" {
                self.report.converted(directive.id);
            } else {
                let reason =
                    "variables of stream have other names; write \"access_log\" of the listener";
                self.report.mark(directive.id, Status::NotConverted, reason);
            }
        }
        listener.insert("access_log".to_owned(), false.into());
    }
}

/// Adds steps under a free name, which is returned; the same steps have one name.
fn add_stream(streams: &mut Object, hint: &str, steps: Vec<Value>) -> String {
    let steps = Value::from(steps);
    if let Some((name, _)) = streams.iter().find(|(_, other)| **other == steps) {
        return name.clone();
    }
    let name = unique(&slug(hint), |name| !streams.contains_key(name));
    streams.insert(name.clone(), steps);
    name
}
