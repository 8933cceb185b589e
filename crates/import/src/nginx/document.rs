//! The whole document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};

use super::context::{Kind, Place};
use super::convert::{Converter, directory_of};
use super::grammar::{self, Context};
use super::listen::Listen;
use super::reader::{Directive, is_part_of_http};
use super::scope::Scope;
use super::server::Server;
use super::steps::{object, step};
use super::undefined;
use super::variables::Object;
use crate::php_fpm::Pool;
use crate::{Error, Import, Report, Status};

/// Converts a tree of directives.
pub fn convert(
    tree: &[Directive],
    file: &Path,
    root: Option<&Path>,
    pools: Vec<Pool>,
    mut report: Report,
) -> Result<Import, Error> {
    let is_part = is_part_of_http(tree);
    grammar::check(tree, if is_part { Context::Http } else { Context::Main }, &mut report)?;
    undefined::check(tree, &mut report);
    let mut directory = directory_of(file, root);
    let empty = [];
    let (main, http): (&[Directive], &[Directive]) = if is_part {
        directory = directory.parent().map(Path::to_owned).unwrap_or_default();
        (&empty, tree)
    } else {
        let blocks: Vec<_> = tree.iter().filter(|directive| directive.name == "http").collect();
        if let [_, second, ..] = blocks.as_slice() {
            return Err(second.error("there is another \"http\""));
        }
        (tree, blocks.first().map(|block| block.children()).unwrap_or_default())
    };
    let mut converter = Converter::new(&mut report, pools, directory);
    converter.is_part = is_part;
    converter.of_main(main);
    let mut document = converter.document(http)?;
    converter.add_sessions(main, &mut document)?;
    converter.finish_report(tree);
    drop(converter);
    Ok(Import { document, report })
}

impl Converter<'_> {
    fn of_main(&mut self, main: &[Directive]) {
        for directive in main {
            match directive.name.as_str() {
                "http" | "events" => self.report.converted(directive.id),
                "user" => self.report.mark(directive.id, Status::NotNeeded, "the server's processes run as the user of the service; PHP runs as the user of its pool"),
                "error_log" => self.report.mark(directive.id, Status::NotNeeded, "the server's log is chosen on the command line (--log, --log-level)"),
                "worker_shutdown_timeout" => {
                    self.report.converted(directive.id);
                    if let Some(seconds) = super::units::seconds(directive.arg(0)) {
                        self.settings.insert("shutdown_timeout".to_owned(), seconds.into());
                    }
                }
                _ => {}
            }
        }
    }

    fn document(&mut self, http: &[Directive]) -> Result<Value, Error> {
        let scope = Scope::outermost(http);
        let place = Place {
            scope: scope.clone(),
            site: None,
            location: None,
            server_name: String::new(),
            variant: String::new(),
        };
        self.upstream_blocks = http
            .iter()
            .filter(|directive| directive.name == "upstream")
            .cloned()
            .map(Rc::new)
            .collect();
        let blocks: Vec<&Directive> =
            http.iter().filter(|directive| directive.name == "server").collect();
        self.read_tables(&place);
        self.read_log_formats(&place);
        self.read_zones(&place);
        self.read_stores(&place);
        self.read_body_size(&place);
        let settings = self.settings(&place, &blocks);
        let mut servers = Vec::new();
        for block in &blocks {
            servers.push(self.read_server(block, &scope)?);
        }
        check_listens(&servers)?;
        for server in &mut servers {
            self.site(server);
        }
        let listeners = self.listeners(&servers);
        self.internal_redirects(&servers);
        let (applications, renamed) = self.application_values();
        let mut document = Object::new();
        document.insert("settings".to_owned(), {
            let mut all = settings;
            all.extend(std::mem::take(&mut self.settings));
            all.into()
        });
        let variables: Object = self.variables.iter().cloned().collect();
        if !variables.is_empty() {
            document.insert("variables".to_owned(), variables.into());
        }
        document.insert("listeners".to_owned(), listeners.into());
        document.insert("routes".to_owned(), std::mem::take(&mut self.routes).into());
        if !applications.is_empty() {
            document.insert("applications".to_owned(), applications.into());
        }
        if !self.upstreams.is_empty() {
            document.insert("upstreams".to_owned(), std::mem::take(&mut self.upstreams).into());
        }
        let logs = scope.own_all("access_log");
        if !logs.is_empty() {
            let logs = self.access_logs(&logs, &place);
            document.insert("access_log".to_owned(), logs);
        }
        if !self.error_logs.is_empty() {
            document.insert("error_logs".to_owned(), std::mem::take(&mut self.error_logs).into());
        }
        let mut document = Value::from(document);
        for (from, to) in renamed {
            replace(&mut document, &from, &to);
        }
        keep_used_routes(&mut document);
        keep_used_variables(&mut document);
        Ok(document)
    }

    /// Returns the listeners, and adds the routes that choose a server.
    fn listeners(&mut self, servers: &[Server<'_>]) -> Object {
        let mut by_key: BTreeMap<String, Vec<(usize, Listen)>> = BTreeMap::new();
        let mut order: Vec<String> = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            for listen in &server.listens {
                let key = listen.key();
                if !order.contains(&key) {
                    order.push(key.clone());
                }
                by_key.entry(key).or_default().push((number, listen.clone()));
            }
        }
        self.begin_site();
        let mut listeners = Object::new();
        let mut steps_of: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for key in &order {
            let Some(all) = by_key.get(key) else { continue };
            let default = all.iter().position(|(_, listen)| listen.is_default).unwrap_or(0);
            let of_address: Vec<&Server<'_>> =
                all.iter().filter_map(|(number, _)| servers.get(*number)).collect();
            steps_of.insert(key.clone(), self.hosts(&of_address, default, false));
        }
        for key in &order {
            let Some(all) = by_key.get(key) else { continue };
            let Some((_, first)) = all.first() else { continue };
            // nginx listens at the address of all, and looks which address a connection came to.
            let is_covered = |other: &String| {
                by_key.get(other).and_then(|all| all.first()).is_some_and(|(_, other)| {
                    other.is_wildcard()
                        && other.port == first.port
                        && other.host.starts_with('[') == first.host.starts_with('[')
                })
            };
            if !first.is_wildcard() && !key.starts_with("unix:") && order.iter().any(is_covered) {
                continue;
            }
            let mut steps = Vec::new();
            if first.is_wildcard() {
                for (other, inner) in &steps_of {
                    let Some((_, listen)) = by_key.get(other).and_then(|all| all.first()) else {
                        continue;
                    };
                    let is_below = other != key
                        && !other.starts_with("unix:")
                        && listen.port == first.port
                        && listen.host.starts_with('[') == first.host.starts_with('[');
                    if is_below {
                        let name = self.add_route("hosts", inner.clone());
                        steps.push(step(
                            object([("destination", other.clone().into())]),
                            object([("pass", format!("routes/{name}").into())]),
                        ));
                    }
                }
            }
            steps.extend(steps_of.get(key).cloned().unwrap_or_default());
            let pass = match super::steps::only_action(&steps) {
                Some(action) if action.len() == 1 => {
                    action.get("pass").and_then(Value::as_str).unwrap_or_default().to_owned()
                }
                _ => format!("routes/{}", self.add_route("hosts", steps)),
            };
            let mut listener = object([("pass", pass.into())]);
            let default = all.iter().position(|(_, listen)| listen.is_default).unwrap_or(0);
            let mut of_address: Vec<&Server<'_>> = Vec::new();
            of_address.extend(all.get(default).and_then(|(number, _)| servers.get(*number)));
            of_address.extend(
                all.iter()
                    .enumerate()
                    .filter(|(place, _)| *place != default)
                    .filter_map(|(_, (number, _))| servers.get(*number)),
            );
            if all.iter().any(|(_, listen)| listen.is_tls) {
                match self.tls(&of_address) {
                    Some(tls) => {
                        let is_http2 = all.iter().any(|(_, listen)| listen.is_http2)
                            || of_address.iter().any(|server| server.site.scope.is_on("http2"));
                        if !is_http2 {
                            listener.insert("http2".to_owned(), false.into());
                        }
                        listener.insert("tls".to_owned(), tls.into());
                    }
                    None => {
                        // Without a certificate nginx refuses every handshake.
                        for server in &of_address {
                            for directive in server.site.scope.own_all("listen") {
                                self.report.mark(directive.id, Status::NotConverted, "there is no certificate, so nothing listens at this address with TLS");
                            }
                        }
                        continue;
                    }
                }
            } else if all.iter().any(|(_, listen)| listen.is_http2) {
                listener.insert("http2".to_owned(), true.into());
            }
            for server in &of_address {
                if let Some(directive) = server.site.scope.one("http2") {
                    self.report.converted(directive.id);
                }
            }
            if let Some(backlog) = all.iter().find_map(|(_, listen)| listen.backlog) {
                listener.insert("backlog".to_owned(), backlog.into());
            }
            self.trusted(
                &of_address,
                all.iter().any(|(_, listen)| listen.is_proxied),
                &mut listener,
            );
            if first.is_dual && !order.contains(&format!("*:{}", first.port)) {
                listeners.insert(format!("*:{}", first.port), listener.clone().into());
            }
            listeners.insert(key.clone(), listener.into());
        }
        listeners
    }

    /// Adds the proxies whose fields name clients.
    fn trusted(&mut self, servers: &[&Server<'_>], is_proxied: bool, listener: &mut Object) {
        let Some(first) = servers.first() else { return };
        let scope = &first.site.scope;
        let sources = scope.all("set_real_ip_from");
        let mut addresses: Vec<String> = Vec::new();
        for source in &sources {
            let text = source.arg(0);
            if text == "unix:" {
                addresses.push("unix".to_owned());
            } else if text
                .split('/')
                .next()
                .is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok())
            {
                addresses.push(super::access::network(text));
            } else {
                self.report.mark(
                    source.id,
                    Status::NotConverted,
                    "the address has a name, and no name is looked up",
                );
                continue;
            }
            self.report.converted(source.id);
        }
        let field = scope.one("real_ip_header");
        let recursive = scope.one("real_ip_recursive");
        for directive in [field, recursive].into_iter().flatten() {
            self.report.converted(directive.id);
        }
        for other in servers.iter().skip(1) {
            for name in ["set_real_ip_from", "real_ip_header", "real_ip_recursive"] {
                for directive in other.site.scope.own_all(name) {
                    self.report.mark(
                        directive.id,
                        Status::Changed,
                        "the trusted proxies are those of the first server of the address",
                    );
                }
            }
        }
        let name = field.map_or("X-Real-IP", |directive| directive.arg(0));
        if is_proxied {
            let source = if name == "proxy_protocol" && !addresses.is_empty() {
                json!(addresses)
            } else {
                json!(["0.0.0.0/0", "::/0"])
            };
            listener.insert("proxy_protocol".to_owned(), json!({ "source": source }));
        }
        if addresses.is_empty() || name == "proxy_protocol" {
            return;
        }
        let mut forwarded = object([("source", json!(addresses)), ("client_ip", name.into())]);
        if scope.is_on("real_ip_recursive") {
            forwarded.insert("recursive".to_owned(), true.into());
        }
        listener.insert("forwarded".to_owned(), forwarded.into());
    }

    /// Gives applications and upstreams the routes of their internal redirects.
    fn internal_redirects(&mut self, servers: &[Server<'_>]) {
        let mut wanted: Vec<(Option<usize>, String, Vec<String>)> = Vec::new();
        for (number, application) in self.applications.iter().enumerate() {
            wanted.push((Some(number), application.name.clone(), application.sites.clone()));
        }
        for (name, sites) in &self.upstream_sites {
            wanted.push((None, name.clone(), sites.clone()));
        }
        for (application, name, mut sites) in wanted {
            sites.dedup();
            let Some(first) = sites.first() else { continue };
            let of_sites: Vec<&Server<'_>> = servers
                .iter()
                .filter(|server| sites.contains(&server.site.internal_entry()))
                .collect();
            let route = if sites.iter().all(|site| site == first) {
                format!("routes/{first}")
            } else {
                // The host tells which server the request is for.
                let steps = self.hosts(&of_sites, 0, true);
                format!("routes/{}", self.add_route("internal-redirects", steps))
            };
            let named = self.named_redirects(&of_sites);
            let members = match application {
                Some(number) => Some(&mut self.applications[number].base),
                None => self.upstreams.get_mut(&name).and_then(Value::as_object_mut),
            };
            if let Some(members) = members {
                members.insert("internal_redirect".to_owned(), route.into());
                if !named.is_empty() {
                    members.insert("named_redirects".to_owned(), named.into());
                }
            }
        }
    }

    /// Returns the routes of the named locations of servers that use one application or upstream.
    fn named_redirects(&mut self, servers: &[&Server<'_>]) -> Object {
        let mut routes: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for server in servers {
            let site = &server.site;
            for location in site.locations.iter().filter(|other| other.kind == Kind::Named) {
                let route = self.named_route(&site.name, &location.name, "");
                if self.routes.contains_key(&route) {
                    let of_name = routes.entry(location.name.clone()).or_default();
                    of_name.insert(site.internal_entry(), route);
                }
            }
        }
        let mut redirects = Object::new();
        for (name, of_sites) in routes {
            let route = match (servers, of_sites.first_key_value()) {
                ([_], Some((_, route))) => route.clone(),
                _ => {
                    let mut steps = self.hosts(servers, 0, true);
                    for action in steps.iter_mut().filter_map(|step| step.get_mut("action")) {
                        let entry =
                            action["pass"].as_str().and_then(|pass| pass.strip_prefix("routes/"));
                        *action = match entry.and_then(|entry| of_sites.get(entry)) {
                            Some(route) => json!({ "pass": format!("routes/{route}") }),
                            // The server has no location of this name.
                            None => json!({ "return": 500 }),
                        };
                    }
                    self.add_route("named-redirects", steps)
                }
            };
            redirects.insert(name, format!("routes/{route}").into());
        }
        redirects
    }

    /// Gives directives that no conversion has looked at their status.
    fn finish_report(&mut self, tree: &[Directive]) {
        let pools = std::mem::take(&mut self.pools);
        for (number, pool) in pools.iter().enumerate() {
            let is_used = self
                .applications
                .iter()
                .any(|application| application.origin == super::convert::Origin::Pool(number));
            if !is_used {
                pool.report_unused(self.report);
            }
        }
        self.sweep(tree, false);
        self.mark_reevaluated(tree);
    }

    /// Marks tables of paths that several directives use: nginx looks a value up once in a request,
    /// even if the path changes later.
    fn mark_reevaluated(&mut self, tree: &[Directive]) {
        fn names<'t>(
            directives: &'t [Directive],
            tables: &mut Vec<&'t Directive>,
            found: &mut Vec<String>,
        ) {
            for directive in directives {
                if directive.name == "map" {
                    tables.push(directive);
                    found.extend(super::variables::names_of(directive.arg(0)));
                } else {
                    let args = directive.args.iter();
                    found.extend(args.flat_map(|arg| super::variables::names_of(arg)));
                }
                names(directive.children(), tables, found);
            }
        }
        let (mut tables, mut used) = (Vec::new(), Vec::new());
        names(tree, &mut tables, &mut used);
        for table in tables {
            let depends = super::variables::names_of(table.arg(0)).iter().any(|name| {
                matches!(name.as_str(), "uri" | "document_uri" | "args" | "query_string")
                    || name.starts_with("arg_")
            });
            let variable = table.arg(1).trim_start_matches('$').to_ascii_lowercase();
            if depends && used.iter().filter(|name| **name == variable).count() > 1 {
                let reason = "the value is looked up wherever it is used; nginx keeps the first one of a request, even if the path or query changes";
                self.report.mark(table.id, Status::Changed, reason);
            }
        }
    }

    /// `is_closed` is true in a block whose requests are refused because something in it cannot be
    /// converted.
    fn sweep(&mut self, directives: &[Directive], is_closed: bool) {
        for directive in directives {
            let is_closed = is_closed || self.closed_blocks.contains(&directive.id);
            if is_closed && self.report.entry(directive.id).is_open() {
                let reason =
                    "requests are refused here, because another directive is not converted";
                self.report.mark(directive.id, Status::NotConverted, reason);
            }
            if self.report.entry(directive.id).is_open() && grammar::is_converted(&directive.name) {
                let (status, reason) = match directive.name.as_str() {
                    "upstream" | "server" | "hash" | "ip_hash" | "least_conn" | "random"
                    | "keepalive" => (Status::NotNeeded, "no request is passed to this upstream"),
                    "error_log" => (
                        Status::Changed,
                        "the file has messages of PHP for this site alone; others are in the log of the server (--log)",
                    ),
                    "limit_req_zone" | "limit_conn_zone" | "log_format" | "map" | "geo"
                    | "split_clients" => (Status::NotNeeded, "no directive uses it"),
                    "valid_referers" => (Status::NotNeeded, "nothing uses $invalid_referer"),
                    "set_real_ip_from" | "real_ip_header" | "real_ip_recursive" => (
                        Status::NotConverted,
                        "the trusted proxies are those of a listener, not of one location",
                    ),
                    name if OF_SERVER.contains(&name) => (
                        Status::Changed,
                        "this is a setting of the whole server; the value of a location has no effect",
                    ),
                    "mirror" | "mirror_request_body" => {
                        (Status::NotConverted, "requests are not copied")
                    }
                    "auth_request_set" => (Status::NotNeeded, "no auth_request holds here"),
                    "chunked_transfer_encoding" => {
                        (Status::NotNeeded, "HTTP/1.0 clients never get chunks")
                    }
                    _ => (
                        Status::NotNeeded,
                        "no request depends on it here: nothing uses it, or directives further in replace it",
                    ),
                };
                self.report.mark(directive.id, status, reason);
            }
            self.sweep(directive.children(), is_closed);
        }
    }
}

/// Settings of the whole server, which nginx has for locations too.
const OF_SERVER: [&str; 10] = [
    "client_body_buffer_size",
    "client_body_temp_path",
    "client_body_timeout",
    "gzip_comp_level",
    "gzip_min_length",
    "gzip_types",
    "keepalive_timeout",
    "resolver",
    "send_timeout",
    "server_tokens",
];

/// Replaces a text in all places of a document.
fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, from, to)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(_, value)| replace(value, from, to))
        }
        _ => {}
    }
}

/// Checks that no server names an address twice, and that no address has two default servers.
fn check_listens(servers: &[Server<'_>]) -> Result<(), Error> {
    let mut defaults = BTreeSet::new();
    for server in servers {
        let mut own = BTreeSet::new();
        for listen in &server.listens {
            let key = listen.key();
            let error = |what: &str| Err(server.site.directive.error(format!("{what} {key}")));
            if !own.insert(key.clone()) {
                return error("the server listens twice at");
            }
            if listen.is_default && !defaults.insert(key.clone()) {
                return error("this is another default server of");
            }
        }
    }
    Ok(())
}

/// Removes routes that no request can come to.
fn keep_used_routes(document: &mut Value) {
    fn names(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.extend(text.strip_prefix("routes/").map(str::to_owned)),
            Value::Array(values) => values.iter().for_each(|value| names(value, found)),
            Value::Object(members) => members.iter().for_each(|(_, value)| names(value, found)),
            _ => {}
        }
    }
    let mut open = Vec::new();
    for section in ["listeners", "applications", "upstreams"] {
        names(&document[section], &mut open);
    }
    let mut used = BTreeSet::new();
    while let Some(name) = open.pop() {
        if used.insert(name.clone()) {
            names(&document["routes"][name.as_str()], &mut open);
        }
    }
    if let Some(routes) = document.get_mut("routes").and_then(Value::as_object_mut) {
        routes.retain(|name, _| used.contains(name));
    }
}

/// Removes variables that nothing uses.
fn keep_used_variables(document: &mut Value) {
    loop {
        let text = document.to_string();
        let Some(variables) = document.get_mut("variables").and_then(Value::as_object_mut) else {
            return;
        };
        let before = variables.len();
        let is_used = |name: &str| {
            let is_end =
                |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            [format!("${name}"), format!("${{{name}}}")].iter().any(|use_of| {
                text.match_indices(use_of.as_str())
                    .any(|(at, found)| found.ends_with('}') || is_end(&text[at + found.len()..]))
            })
        };
        variables.retain(|name, _| is_used(name));
        let after = variables.len();
        if after == 0
            && let Some(document) = document.as_object_mut()
        {
            document.remove("variables");
            return;
        }
        if after == before {
            return;
        }
    }
}
