//! What blocks `stream` and `mail` have in common: addresses, TLS, and what becomes of directives
//! that nobody reads.

use serde_json::{Value, json};

use super::access::network;
use super::convert::Converter;
use super::listen::Listen;
use super::reader::{DATA_BLOCKS, Directive};
use super::scope::Scope;
use super::server::Server;
use super::variables::Object;
use crate::{Error, Status};

/// An address of a server.
#[derive(Debug, Clone)]
pub struct SessionListen {
    /// The address and its options.
    pub listen: Listen,
    /// Datagrams come to it.
    pub is_udp: bool,
}

impl SessionListen {
    /// Adds a listener at the address. False if there is one already.
    pub fn insert(&self, listener: Object, listeners: &mut Object) -> bool {
        let own = self.listen.key();
        let of_ipv4 = self.listen.is_dual.then(|| format!("*:{}", self.listen.port));
        [own].into_iter().chain(of_ipv4).all(|address| {
            let is_other = |other: &Value| (other["protocol"] == "udp") == self.is_udp;
            let key = match listeners.get(&address) {
                Some(other) if is_other(other) => return false,
                // The address has the other protocol too.
                Some(_) if self.is_udp => format!("udp:{address}"),
                Some(_) => match listeners.remove(&address) {
                    Some(datagrams) => {
                        listeners.insert(format!("udp:{address}"), datagrams);
                        address
                    }
                    None => address,
                },
                None if listeners.contains_key(&format!("udp:{address}")) && self.is_udp => {
                    return false;
                }
                None => address,
            };
            listeners.insert(key, listener.clone().into());
            true
        })
    }
}

impl<'t> Converter<'_> {
    /// Converts the blocks `stream` and `mail` into further parts of the document.
    pub fn add_sessions(
        &mut self,
        main: &'t [Directive],
        document: &mut Value,
    ) -> Result<(), Error> {
        // No upstream of HTTP loses its name.
        if let Some(Value::Object(upstreams)) = document.get_mut("upstreams").map(Value::take) {
            self.upstreams = upstreams;
        }
        for name in ["stream", "mail"] {
            let blocks: Vec<_> = main.iter().filter(|block| block.name == name).collect();
            if let [_, second, ..] = blocks.as_slice() {
                return Err(second.error(format!("there is another \"{name}\"")));
            }
            let Some(block) = blocks.first() else { continue };
            let (listeners, parts, section) = match name {
                "stream" => {
                    let (listeners, streams) = self.streams(block)?;
                    (listeners, streams, "streams")
                }
                _ => {
                    let (listeners, proxies) = self.mail(block)?;
                    (listeners, proxies, "mail")
                }
            };
            for (address, listener) in listeners {
                let all = &mut document["listeners"];
                if all.get(&address).is_some() {
                    return Err(block.error(format!("there is another server at {address}")));
                }
                all[&address] = listener;
            }
            if !parts.is_empty() {
                document[section] = parts.into();
            }
        }
        let upstreams = std::mem::take(&mut self.upstreams);
        if !upstreams.is_empty() {
            document["upstreams"] = upstreams.into();
        }
        Ok(())
    }

    /// Reads the addresses of a server.
    pub fn session_listens(
        &mut self,
        scope: &Scope<'t>,
    ) -> Result<Vec<(SessionListen, &'t Directive)>, Error> {
        let mut all = Vec::new();
        for directive in scope.own_all("listen") {
            let text = directive.arg(0);
            let is_port =
                |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let has_port = text.starts_with("unix:")
                || is_port(text)
                || text.rsplit_once(':').is_some_and(|(_, port)| is_port(port));
            if !has_port {
                return Err(directive.error(format!("\"{text}\" has no port")));
            }
            let mut plain = directive.clone();
            plain.args.retain(|arg| arg != "udp");
            let is_udp = plain.args.len() < directive.args.len();
            if let Some(listen) = Listen::read(&plain, self.report)? {
                all.push((SessionListen { listen, is_udp }, directive));
            }
        }
        Ok(all)
    }

    /// Adds the keys of a listener. False if nothing can listen at the address.
    pub fn session_listener(
        &mut self,
        scope: &Scope<'t>,
        listen: &SessionListen,
        directive: &'t Directive,
        listener: &mut Object,
    ) -> bool {
        let is_tls = listen.listen.is_tls || scope.is_on("ssl");
        if let Some(switch) = scope.one("ssl") {
            self.report.converted(switch.id);
        }
        if is_tls {
            match self.session_tls(directive, scope) {
                Some(tls) => drop(listener.insert("tls".to_owned(), tls.into())),
                None => {
                    let reason =
                        "there is no certificate, so nothing listens at this address with TLS";
                    self.report.mark(directive.id, Status::NotConverted, reason);
                    return false;
                }
            }
        }
        if let Some(backlog) = listen.listen.backlog {
            listener.insert("backlog".to_owned(), backlog.into());
        }
        let sources = scope.all("set_real_ip_from");
        let addresses: Vec<String> = sources
            .iter()
            .map(|source| match source.arg(0) {
                "unix:" => "unix".to_owned(),
                text => network(text),
            })
            .collect();
        if listen.listen.is_proxied {
            sources.iter().for_each(|source| self.report.converted(source.id));
            let source = if addresses.is_empty() {
                let reason =
                    "the header names the client; nginx only passes it on without set_real_ip_from";
                self.report.mark(directive.id, Status::Changed, reason);
                json!(["0.0.0.0/0", "::/0", "unix"])
            } else {
                json!(addresses)
            };
            listener.insert("proxy_protocol".to_owned(), json!({ "source": source }));
        } else {
            for source in sources {
                let reason = "no header of the PROXY protocol comes to the addresses of the server";
                self.report.mark(source.id, Status::NotNeeded, reason);
            }
        }
        true
    }

    /// Returns `tls` of a listener.
    pub fn session_tls(&mut self, directive: &'t Directive, scope: &Scope<'t>) -> Option<Object> {
        let server = Server::without_locations(directive, scope);
        let mut tls = self.tls(&[&server])?;
        for name in [
            "ssl_handshake_timeout",
            "ssl_alpn",
            "ssl_dhparam",
            "ssl_verify_depth",
            "ssl_password_file",
        ] {
            if let Some(directive) = scope.one(name) {
                let reason = "there is no such setting";
                self.report.mark(directive.id, Status::NotConverted, reason);
            }
        }
        if tls.get("session").is_some_and(|session| *session == json!({ "tickets": true })) {
            tls.remove("session");
        }
        Some(tls)
    }

    /// Returns `tls` of an upstream; `None` if `proxy_ssl` is not on. The names of the directives
    /// begin with `prefix`.
    pub fn session_tls_behind(&mut self, scope: &Scope<'t>, prefix: &str) -> Option<Value> {
        let of = |name: &str| scope.one(&format!("{prefix}{name}"));
        let switch = of("")?;
        self.report.converted(switch.id);
        if !scope.is_on(prefix) {
            return None;
        }
        let verifies = of("_verify").is_some_and(|directive| directive.arg(0) == "on");
        let mut tls = Object::new();
        tls.insert("verify".to_owned(), verifies.into());
        for name in [
            "_verify",
            "_server_name",
            "_name",
            "_trusted_certificate",
            "_certificate",
            "_certificate_key",
        ] {
            if let Some(directive) = of(name) {
                self.report.converted(directive.id);
            }
        }
        for name in ["_protocols", "_ciphers", "_session_reuse", "_verify_depth"] {
            if let Some(directive) = of(name) {
                let reason = "the server chooses them";
                self.report.mark(directive.id, Status::NotNeeded, reason);
            }
        }
        if let Some(file) = of("_trusted_certificate").filter(|_| verifies) {
            tls.insert("authorities".to_owned(), self.whole_path(file.arg(0)).into());
        }
        if let Some(name) = of("_name") {
            if name.arg(0).contains('$') {
                let reason = "the name of the server in TLS has variables";
                self.report.mark(name.id, Status::NotConverted, reason);
            } else {
                tls.insert("server_name".to_owned(), name.arg(0).into());
            }
        }
        if let (Some(chain), Some(key)) = (of("_certificate"), of("_certificate_key")) {
            let (chain, key) = (self.whole_path(chain.arg(0)), self.whole_path(key.arg(0)));
            tls.insert("certificate".to_owned(), json!({ "chain": chain, "key": key }));
        }
        Some(tls.into())
    }

    /// Marks the directives of a block that nobody has read.
    pub fn mark_session_rest(&mut self, block: &Directive, not_needed: &[(&str, &str)]) {
        for directive in block.children() {
            if directive.name == "upstream" && self.report.is_open(directive.id) {
                for inner in directive.children() {
                    self.report.mark(inner.id, Status::NotNeeded, "nothing uses the upstream");
                }
            }
            if !DATA_BLOCKS.contains(&directive.name.as_str()) {
                self.mark_session_rest(directive, not_needed);
            }
            if !self.report.is_open(directive.id) || directive.name == "include" {
                continue;
            }
            let name = directive.name.as_str();
            match not_needed.iter().find(|(known, _)| *known == name) {
                Some((_, reason)) => self.report.mark(directive.id, Status::NotNeeded, *reason),
                None if matches!(name, "upstream" | "map" | "zone" | "limit_conn_zone") => {
                    self.report.mark(directive.id, Status::NotNeeded, "nothing uses it");
                }
                None => {
                    let reason = "there is no equivalent for it here";
                    self.report.mark(directive.id, Status::NotConverted, reason);
                }
            }
        }
    }
}
