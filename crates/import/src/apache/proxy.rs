//! Requests that are passed to other servers: `ProxyPass`, `ProxyPassMatch`, balancers, and what
//! holds for them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{Report, Status};

use super::access;
use super::headers;
use super::scope::mark;
use super::status;
use super::targets::{Rule, Server, Source, Target, target, uri};
use super::tree::Node;

/// What holds for the proxied requests of a host.
#[derive(Debug, Default)]
pub struct Settings {
    pub preserves_host: bool,
    pub adds_fields: bool,
    /// Seconds.
    pub timeout: u64,
    /// Prefixes of redirects to replace.
    pub locations: Vec<(String, String)>,
    pub cookie_domains: Vec<(String, String)>,
    pub cookie_paths: Vec<(String, String)>,
    pub intercepts_errors: bool,
    /// Paths may have encoded slashes.
    pub takes_slashes: bool,
}

impl Settings {
    /// Reads the directives of a host, and marks them. Those in locations are at their paths.
    pub fn read(
        nodes: &[&Node],
        locations: &[(Source, &Node)],
        timeout: u64,
        report: &mut Report,
    ) -> Settings {
        let mut settings = Settings { adds_fields: true, timeout, ..Settings::default() };
        for node in nodes {
            settings.add(node, None, report);
        }
        for (source, location) in locations {
            for node in &location.children {
                settings.add(node, Some(source), report);
            }
        }
        settings
    }

    fn add(&mut self, node: &Node, location: Option<&Source>, report: &mut Report) {
        let words = node.words();
        let is_on = words.first().is_some_and(|word| word.eq_ignore_ascii_case("on"));
        let pair = || -> Option<(String, String)> {
            match (words.as_slice(), location) {
                ([url], Some(Source::Path(path))) => Some((path.clone(), url.clone())),
                ([path, url, ..], _) => Some((path.clone(), url.clone())),
                _ => None,
            }
        };
        let mut status = (Status::Converted, "");
        match node.name.as_str() {
            "proxypreservehost" => self.preserves_host = is_on,
            "proxyaddheaders" => self.adds_fields = is_on,
            "proxytimeout" => match words.first().and_then(|word| word.parse().ok()) {
                Some(seconds) if seconds > 0 => self.timeout = seconds,
                _ => status = (Status::NotConverted, "it takes a number of seconds"),
            },
            "proxypassreverse" => match pair() {
                Some(pair) => self.locations.push(pair),
                None => status = (Status::NotConverted, "an expression has no prefix to replace"),
            },
            "proxypassreversecookiedomain" => match words.as_slice() {
                [from, to, ..] => self.cookie_domains.push((from.clone(), to.clone())),
                _ => status = (Status::NotConverted, "it takes two domains"),
            },
            "proxypassreversecookiepath" => match words.as_slice() {
                [from, to, ..] => self.cookie_paths.push((from.clone(), to.clone())),
                _ => status = (Status::NotConverted, "it takes two paths"),
            },
            "proxyerroroverride" => {
                self.intercepts_errors = is_on;
                if is_on {
                    status = (
                        Status::Changed,
                        "errors of other servers are replaced if they have an ErrorDocument",
                    );
                }
            }
            "allowencodedslashes" => {
                let word = words.first().map(|word| word.to_ascii_lowercase());
                self.takes_slashes = is_on || word.as_deref() == Some("nodecode");
                if !self.takes_slashes {
                    return;
                }
                status = (
                    Status::Changed,
                    "a file whose path has an encoded slash is not found; other servers get the path",
                );
            }
            "proxypassinherit" => status = (Status::NotNeeded, "rules outside of hosts come last"),
            "proxypassinterpolateenv" => {
                if is_on {
                    status = (Status::NotConverted, "URLs of other servers have no variables");
                }
            }
            "proxyset" => {
                status = (Status::Changed, "connections to servers are chosen by the proxy itself")
            }
            "sslproxyengine" => {}
            "sslproxyverify"
            | "sslproxycheckpeercn"
            | "sslproxycheckpeername"
            | "sslproxycheckpeerexpire"
            | "sslproxycacertificatefile"
            | "sslproxyprotocol"
            | "sslproxyciphersuite"
            | "sslproxyverifydepth" => {
                status = (Status::Changed, "certificates of other servers are not verified");
            }
            "proxymaxforwards" | "proxysourceaddress" | "proxyremote" | "proxyremotematch"
            | "noproxy" | "proxyblock" => {
                status = (Status::NotConverted, "Howdah is no forward proxy");
            }
            _ => return,
        }
        match (node.id, status) {
            (Some(id), (Status::Converted, _)) => report.converted(id),
            (Some(id), (status, reason)) => report.mark(id, status, reason),
            (None, _) => {}
        }
    }
}

/// Writes the steps of a host's rules.
pub struct Writer<'w> {
    /// Name of the host's route.
    pub label: &'w str,
    /// Route of its files.
    pub files: &'w str,
    pub settings: &'w Settings,
    /// Balancers by name.
    pub balancers: &'w BTreeMap<String, &'w Node>,
    pub upstreams: &'w mut Map<String, Value>,
    /// Pages of errors of the proxy itself.
    pub error_pages: Map<String, Value>,
    /// Name of the host.
    pub server_name: String,
    /// The fields of proxies have been added somewhere.
    pub adds_fields: bool,
    /// Root of the host.
    pub root: &'w str,
    pub report: &'w mut Report,
    /// Creates the application of a FastCGI server.
    pub fastcgi: &'w mut dyn FnMut(&str, &str) -> Value,
}

impl Writer<'_> {
    /// Returns the steps of the rules under these sections, the outermost first.
    pub fn steps(&mut self, rules: &[Rule<'_>], sections: &[Vec<&Node>]) -> Vec<Value> {
        let mut steps = Vec::new();
        let access = access::of(sections);
        access::report(sections, &access, self.report);
        if access.members.contains_key("basic_auth") {
            for node in sections.iter().flatten().filter(|node| node.name == "authname") {
                let reason =
                    "the field WWW-Authenticate also names UTF-8, for requests to other servers";
                mark(self.report, node, Status::Changed, reason);
            }
        }
        for rule in rules {
            if let Some(closed) = self.closed(rule) {
                steps.push(closed);
                continue;
            }
            for mut step in self.step(rule, sections, &access) {
                if let Some(members) = step["match"].as_object_mut() {
                    for (key, value) in &rule.conditions {
                        let excluded = value.as_array().filter(|_| key == "uri").cloned();
                        let value = match (excluded, members.remove(key)) {
                            (Some(mut list), Some(own)) => {
                                list.insert(0, own);
                                list.into()
                            }
                            _ => value.clone(),
                        };
                        members.insert(key.clone(), value);
                    }
                }
                steps.push(step);
            }
        }
        steps
    }

    fn step(
        &mut self,
        rule: &Rule<'_>,
        sections: &[Vec<&Node>],
        access: &access::Access,
    ) -> Vec<Value> {
        let mut action = match &rule.target {
            Target::None => {
                self.converted(rule);
                let (uri, _) = uri(&rule.source, None);
                return vec![json!({"match": {"uri": uri}, "action": {"pass": self.files}})];
            }
            Target::Unknown(url) => {
                let reason =
                    format!("{url} is no URL of a server of HTTP or FastCGI; its paths get 503");
                mark(self.report, rule.node, Status::NotConverted, reason);
                let (uri, _) = uri(&rule.source, None);
                return vec![json!({"match": {"uri": uri}, "action": {"return": 503}})];
            }
            Target::FastCgi { address, root } => {
                mark(self.report, rule.node, Status::Changed, super::handlers::ONLY_SCRIPTS);
                let root = if root.is_empty() { self.root } else { root };
                let name = (self.fastcgi)(address, root);
                let (uri, _) = uri(&rule.source, None);
                let action =
                    json!({"pass": format!("applications/{}", name.as_str().unwrap_or_default())});
                return self.finished(uri, action, sections, access);
            }
            Target::Http { server, is_tls, authority, .. } => {
                let upstream = self.upstream(rule, server, *is_tls, authority);
                json!({"pass": format!("upstreams/{upstream}")})
            }
        };
        let Target::Http { path, .. } = &rule.target else { return Vec::new() };
        let (uri, rewrite) = uri(&rule.source, Some(path));
        if let Some(rewrite) = rewrite {
            action["rewrite"] = rewrite.into();
        }
        if self.settings.intercepts_errors {
            action["intercept_errors"] = true.into();
        }
        mark(
            self.report,
            rule.node,
            Status::Changed,
            "a server that cannot be reached is a 502, and one that is too slow a 504; Apache says 503 and 502. A path that stays the same is sent as the client has written it",
        );
        self.finished(uri, action, sections, access)
    }

    /// Returns the step of a rule whose expression or URL is not known: all paths are closed.
    fn closed(&mut self, rule: &Rule<'_>) -> Option<Value> {
        let Source::Regex(_) = &rule.source else { return None };
        let path = match &rule.target {
            Target::Http { path, .. } => Some(path.as_str()),
            _ => None,
        };
        let (uri, rewrite) = uri(&rule.source, path);
        let mut step = json!({"match": {"uri": uri}, "action": {"return": 404}});
        if let Some(rewrite) = rewrite {
            step["action"]["rewrite"] = rewrite.into();
        }
        let problem = howdah_config::Config::from_value(json!({"routes": [step]})).err()?;
        let reason = format!(
            "all paths of the host are closed, because the expression is not known: {problem}"
        );
        mark(self.report, rule.node, Status::NotConverted, reason);
        Some(json!({"action": {"return": 403}}))
    }

    fn converted(&mut self, rule: &Rule<'_>) {
        if let Some(id) = rule.node.id {
            self.report.converted(id);
        }
    }

    /// Returns the step with what holds for it.
    fn finished(
        &mut self,
        uri: Value,
        mut action: Value,
        sections: &[Vec<&Node>],
        access: &access::Access,
    ) -> Vec<Value> {
        if access.is_denied {
            return vec![self.refused(json!({"uri": uri}), sections)];
        }
        let mut steps = Vec::new();
        for source in &access.refused {
            steps.push(self.refused(json!({"uri": uri, "source": source}), sections));
        }
        let nodes: Vec<&Node> = sections.iter().flatten().copied().collect();
        if let Some(members) = action.as_object_mut() {
            members.extend(access.members.clone());
            if !self.error_pages.is_empty() {
                members.insert("error_pages".into(), self.error_pages.clone().into());
            }
            headers::of_proxied(&nodes, members, self.report);
            let limit = nodes.iter().rev().find(|node| node.name == "limitrequestbody");
            let limit = limit.and_then(|node| node.first().parse::<u64>().ok());
            members.insert("max_body_size".into(), body_limit(limit).into());
        }
        steps.push(json!({"match": {"uri": uri}, "action": action}));
        steps
    }

    /// Returns the step for requests that are refused, with the fields that errors have.
    fn refused(&mut self, conditions: Value, sections: &[Vec<&Node>]) -> Value {
        let always =
            |node: &&&Node| node.name == "header" && node.first().eq_ignore_ascii_case("always");
        let nodes: Vec<&Node> = sections.iter().flatten().filter(always).copied().collect();
        let mut action = Map::from_iter([("return".to_owned(), Value::from(403))]);
        headers::of_proxied(&nodes, &mut action, self.report);
        json!({"match": conditions, "action": action})
    }

    /// Returns the name of the upstream of a rule.
    fn upstream(
        &mut self,
        rule: &Rule<'_>,
        server: &Server,
        is_tls: bool,
        authority: &str,
    ) -> String {
        let mut upstream = Map::new();
        let mut timeout = self.settings.timeout;
        let mut parameters = rule.parameters.clone();
        let mut servers = Map::new();
        let mut is_tls = is_tls;
        match server {
            Server::Address(address) => {
                servers.insert(address.clone(), json!({}));
            }
            Server::Balancer(name) => {
                let section = self.balancers.get(name).copied();
                for node in section.iter().flat_map(|section| &section.children) {
                    self.member(node, &mut servers, &mut is_tls, &mut parameters);
                }
                if let Some(section) = section {
                    self.mark_converted(section);
                }
                if servers.is_empty() {
                    mark(
                        self.report,
                        rule.node,
                        Status::NotConverted,
                        "the balancer has no members",
                    );
                    servers.insert("127.0.0.1:1".into(), json!({}));
                }
                upstream.insert("tries".into(), servers.len().clamp(1, 100).into());
                upstream.insert("failures".into(), json!({"time": 60}));
            }
        }
        if let Some(seconds) = parameters.get("timeout").and_then(|text| text.parse().ok()) {
            timeout = seconds;
        }
        let timeout = timeout.clamp(1, 2_000_000);
        upstream.insert("servers".into(), servers.into());
        let mut timeouts = json!({"first_byte": timeout, "read": timeout, "send": timeout});
        if let Some(seconds) =
            parameters.get("connectiontimeout").and_then(|text| text.parse::<u64>().ok())
        {
            timeouts["connect"] = seconds.max(1).into();
        }
        upstream.insert("timeouts".into(), timeouts);
        match parameters.get("lbmethod").map(String::as_str) {
            Some("bybusyness") => {
                upstream.insert("balance".into(), "least_connections".into());
            }
            Some("byrequests") | None => {}
            Some(_) => {
                mark(self.report, rule.node, Status::Changed, "requests are shared by their number")
            }
        }
        if let Some(cookie) = parameters.get("stickysession") {
            let cookie = cookie.split('|').next().unwrap_or_default();
            upstream.insert("sticky".into(), json!({"cookie": cookie}));
            mark(
                self.report,
                rule.node,
                Status::Changed,
                "the cookie of a session is one of the proxy itself",
            );
        }
        if let Some(statuses) = parameters.get("failonstatus") {
            let on: Vec<u16> = statuses.split(',').filter_map(|text| text.parse().ok()).collect();
            upstream.insert("retry".into(), json!({"on": on}));
            mark(self.report, rule.node, Status::Changed, "another server is asked at once");
        }
        if parameters.get("disablereuse").is_some_and(|value| value.eq_ignore_ascii_case("on")) {
            upstream.insert("keepalive".into(), 0.into());
        }
        if !self.settings.preserves_host {
            upstream.insert("host".into(), authority.replace('$', "${dollar}").into());
        }
        if self.settings.adds_fields {
            let fields = json!({
                "X-Forwarded-For": "${forwarded_for}",
                "X-Forwarded-Host": "${forwarded_host}",
                "X-Forwarded-Server": self.server_name.replace('$', "${dollar}"),
            });
            upstream.insert("headers".into(), fields);
            self.adds_fields = true;
        }
        if is_tls {
            upstream.insert("tls".into(), json!({"verify": false}));
            mark(
                self.report,
                rule.node,
                Status::Changed,
                "the certificate of the server is not verified",
            );
        }
        self.add_replacements(rule, authority, &mut upstream);
        let value = Value::from(upstream);
        let base = format!("{} proxy", self.label);
        let mut name = base.clone();
        let mut number = 2;
        while self.upstreams.get(&name).is_some_and(|known| *known != value) {
            name = format!("{base} {number}");
            number += 1;
        }
        self.upstreams.insert(name.clone(), value);
        name
    }

    fn mark_converted(&mut self, node: &Node) {
        if let Some(id) = node.id {
            self.report.converted(id);
        }
    }

    /// Adds a member of a balancer.
    fn member(
        &mut self,
        node: &Node,
        servers: &mut Map<String, Value>,
        is_tls: &mut bool,
        parameters: &mut BTreeMap<String, String>,
    ) {
        let words = node.words();
        let pairs = |words: &[String]| -> Vec<(String, String)> {
            words
                .iter()
                .filter_map(|word| word.split_once('='))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect()
        };
        match node.name.as_str() {
            "balancermember" => {
                let Some((url, rest)) = words.split_first() else { return };
                let Target::Http { server: Server::Address(address), is_tls: with_tls, .. } =
                    target(url)
                else {
                    mark(
                        self.report,
                        node,
                        Status::NotConverted,
                        "this is no URL of a server of HTTP",
                    );
                    return;
                };
                *is_tls |= with_tls;
                let mut server = Map::new();
                for (name, value) in pairs(rest) {
                    match name.as_str() {
                        "loadfactor" => {
                            if let Ok(weight) = value.parse::<f64>() {
                                server.insert("weight".into(), json!(weight));
                            }
                        }
                        "max" => {
                            if let Ok(max) = value.parse::<u32>() {
                                server.insert("max_connections".into(), max.max(1).into());
                            }
                        }
                        "status" => {
                            match value.trim_start_matches('+').to_ascii_uppercase().as_str() {
                                "H" | "R" => {
                                    server.insert("backup".into(), true.into());
                                }
                                "N" | "D" | "S" => {
                                    server.insert("drain".into(), true.into());
                                }
                                _ => {}
                            }
                        }
                        _ => {}
                    }
                }
                servers.insert(address, server.into());
                self.mark_converted(node);
            }
            "proxyset" => {
                for (name, value) in pairs(&words) {
                    parameters.entry(name).or_insert(value);
                }
                self.mark_converted(node);
            }
            "require" | "order" | "allow" | "deny" => {}
            name => {
                let reason = status::not_needed(name, &words);
                match reason {
                    Some(reason) => mark(self.report, node, Status::NotNeeded, reason),
                    None => mark(
                        self.report,
                        node,
                        Status::NotConverted,
                        "a section of servers has members and their parameters alone",
                    ),
                }
            }
        }
    }

    /// Adds the replacements in responses.
    fn add_replacements(
        &mut self,
        rule: &Rule<'_>,
        authority: &str,
        upstream: &mut Map<String, Value>,
    ) {
        let settings = self.settings;
        let mut replacements = Map::new();
        for (path, url) in &settings.locations {
            let place = format!("${{scheme}}://${{header_host}}{}", path.replace('$', "${dollar}"));
            replacements.insert(url.replace('$', "${dollar}"), place.into());
        }
        if replacements.is_empty() {
            upstream.insert("rewrite_location".into(), false.into());
        } else {
            upstream.insert("rewrite_location".into(), replacements.into());
        }
        let _ = (rule, authority);
        let pairs = |list: &[(String, String)]| -> Value {
            list.iter()
                .map(|(from, to)| (from.clone(), Value::from(to.clone())))
                .collect::<Map<_, _>>()
                .into()
        };
        if !settings.cookie_domains.is_empty() {
            upstream.insert("cookie_domain".into(), pairs(&settings.cookie_domains));
        }
        if !settings.cookie_paths.is_empty() {
            upstream.insert("cookie_path".into(), pairs(&settings.cookie_paths));
        }
    }
}

/// Returns the pages of `ErrorDocument` for errors of a proxy itself, and for those of other servers
/// if they are replaced.
pub fn error_pages(
    nodes: &[&Node],
    rules: &[Rule<'_>],
    files: &str,
    intercepts: bool,
) -> Map<String, Value> {
    let mut pages = Map::new();
    for node in nodes.iter().filter(|node| node.name == "errordocument") {
        let words = node.words();
        let [status, target, ..] = words.as_slice() else { continue };
        let Ok(code) = status.parse::<u16>() else { continue };
        if !(502..=504).contains(&code) && !intercepts || !(400..600).contains(&code) {
            continue;
        }
        let page = if target.starts_with('/') {
            let rule = rules.iter().find(|rule| rule.source.matches(target));
            if rule.is_some_and(|rule| rule.target != Target::None) {
                continue;
            }
            let mark = if target.contains('?') { "" } else { "?" };
            let path = target.replace('$', "${dollar}");
            json!({"action": {"rewrite": format!("{path}{mark}"), "pass": files}})
        } else if target.contains("://") {
            let location = target.replace('$', "${dollar}");
            json!({"action": {"return": 302, "location": location}, "keep_status": false})
        } else if target.eq_ignore_ascii_case("default") {
            pages.remove(status);
            continue;
        } else {
            json!({"action": {"return": code, "body": target.replace('$', "${dollar}")}})
        };
        pages.insert(status.clone(), page);
    }
    // A server that cannot be reached is a 503 of Apache.
    if let Some(page) = pages.get("503").cloned() {
        pages.entry("502").or_insert(page);
    }
    pages
}

/// Returns the limit of a request body; Apache's default without a directive.
pub fn body_limit(limit: Option<u64>) -> u64 {
    match limit {
        None => 1 << 30,
        Some(0) => 1 << 50,
        Some(limit) => limit,
    }
}
