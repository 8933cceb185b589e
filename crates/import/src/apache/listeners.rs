//! Listeners: which host a connection is for, its TLS, and proxies in front of the server.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::Status;

use super::document::Writer;
use super::hosts::{self, Host, Socket};
use super::scope::mark;
use super::tls;
use super::tree::Node;

impl<'n> Writer<'_, 'n> {
    pub(super) fn listener(&mut self, socket: &Socket, hosts: &[Host<'n>]) -> Value {
        let candidates: Vec<&Host<'n>> = hosts
            .iter()
            .filter(|host| host.addresses.iter().any(|address| socket.may_be(address)))
            .collect();
        let main: Vec<&Host<'n>> = hosts.iter().filter(|host| host.section.is_none()).collect();
        let mut steps: Vec<Value> = Vec::new();
        // Hosts with this address come before those of all addresses.
        let mut addresses: Vec<std::net::IpAddr> = Vec::new();
        for address in candidates.iter().flat_map(|host| &host.addresses) {
            if let Some(ip) = address.ip.filter(|_| socket.may_be(address))
                && !addresses.contains(&ip)
                && socket.ip.is_none()
            {
                addresses.push(ip);
            }
        }
        for ip in addresses {
            steps.extend(choices(&ranked(&candidates, socket, Some(ip)), Some(ip)));
        }
        let exact = ranked(&candidates, socket, socket.ip.filter(|ip| !ip.is_unspecified()));
        let wild = ranked(&candidates, socket, None);
        let rest = match (exact.is_empty() || socket.ip.is_none(), wild.is_empty()) {
            (false, _) => exact,
            (true, false) => wild,
            (true, true) => main,
        };
        steps.extend(choices(&rest, None));
        let name = format!("hosts {}", socket.key());
        self.output.routes.insert(name.clone(), steps.into());
        let mut listener = json!({"pass": format!("routes/{}", name.replace('/', "%2F"))});
        self.add_tls(&rest, hosts, socket, &mut listener);
        self.add_proxies(&rest, &mut listener);
        listener
    }

    pub(super) fn add_tls(
        &mut self,
        rest: &[&Host<'n>],
        hosts: &[Host<'n>],
        socket: &Socket,
        listener: &mut Value,
    ) {
        let all: Vec<&Host<'n>> = hosts
            .iter()
            .filter(|host| {
                rest.iter().any(|other| std::ptr::eq(*other, *host))
                    || host.addresses.iter().any(|address| socket.may_be(address))
            })
            .collect();
        let mut members = Map::new();
        let mut certificates: Vec<Value> = Vec::new();
        let mut clients: Vec<Value> = Vec::new();
        let mut http2 = None;
        let mut without: Vec<&Node> = Vec::new();
        for host in all {
            let nodes: Vec<&Node> = self
                .common
                .server
                .iter()
                .copied()
                .chain(host.section.iter().flat_map(|section| &section.children))
                .collect();
            if let Some(node) = nodes.iter().rev().find(|node| node.name == "protocols") {
                let words: Vec<String> =
                    node.words().iter().map(|word| word.to_ascii_lowercase()).collect();
                http2 = Some(words.iter().any(|word| word == "h2" || word == "h2c"));
            }
            let found = tls::of_host(&nodes, &self.common.server_root.clone(), self.report);
            if !tls::is_on(&nodes) {
                continue;
            }
            if found.certificates.is_empty() {
                without.extend(nodes.iter().filter(|node| node.name == "sslengine"));
            }
            for certificate in found.certificates {
                if !certificates.contains(&certificate) {
                    certificates.push(certificate);
                }
            }
            if members.is_empty() && !found.commands.is_empty() {
                members.insert("conf_commands".into(), found.commands.into());
            }
            if found.is_closed {
                let closed = json!([{ "action": { "return": 403 } }]);
                self.output.routes.insert(host.label.clone(), closed);
                for node in nodes.iter().filter(|node| node.name == "sslverifyclient") {
                    mark(
                        self.report,
                        node,
                        Status::NotConverted,
                        "no file has the authorities (SSLCACertificateFile); the host is closed",
                    );
                }
            }
            if let Some(client) = found.client {
                clients.push(client_of(client, host));
            }
        }
        for node in without {
            mark(
                self.report,
                node,
                Status::NotConverted,
                "the host has no certificate, so its connections have no TLS",
            );
        }
        if certificates.is_empty() {
            if http2 == Some(true) {
                listener["http2"] = true.into();
            }
            return;
        }
        if let Some(is_on) = http2 {
            listener["http2"] = is_on.into();
        }
        members.insert(
            "certificate".into(),
            if certificates.len() == 1 { certificates.remove(0) } else { certificates.into() },
        );
        members.insert("session".into(), json!({"cache_size": 10000, "timeout": 300}));
        if !clients.is_empty() {
            members.insert("client_certificates".into(), clients.into());
        }
        listener["tls"] = members.into();
    }

    /// Adds trusted proxies of mod_remoteip.
    pub(super) fn add_proxies(&mut self, rest: &[&Host<'n>], listener: &mut Value) {
        let own = rest
            .first()
            .and_then(|host| host.section)
            .map(|section| section.children.iter().collect::<Vec<_>>());
        let nodes: Vec<&Node> =
            self.common.server.iter().copied().chain(own.into_iter().flatten()).collect();
        let mut field = None;
        let mut trusted: Vec<String> = Vec::new();
        for node in &nodes {
            match node.name.as_str() {
                "remoteipheader" => {
                    field = Some(node.first());
                    self.converted(node);
                }
                "remoteiptrustedproxy" | "remoteipinternalproxy" => {
                    trusted.extend(node.words());
                    self.converted(node);
                }
                "remoteipproxyprotocol" => {
                    if node.first().eq_ignore_ascii_case("on") {
                        listener["proxy_protocol"] = json!({"source": ["0.0.0.0/0", "::/0"]});
                    }
                    self.converted(node);
                }
                "remoteiptrustedproxylist" | "remoteipinternalproxylist" => {
                    mark(self.report, node, Status::NotConverted, "lists of proxies are not read");
                }
                _ => {}
            }
        }
        if let Some(field) = field {
            if trusted.is_empty() {
                trusted = vec!["0.0.0.0/0".into(), "::/0".into()];
            }
            listener["forwarded"] =
                json!({"source": trusted, "client_ip": field, "recursive": true});
        }
    }
}

/// Returns the hosts of an address: those of the port, or without any those of all ports.
pub(super) fn ranked<'h, 'n>(
    hosts: &[&'h Host<'n>],
    socket: &Socket,
    ip: Option<std::net::IpAddr>,
) -> Vec<&'h Host<'n>> {
    let of = |port: Option<u16>| -> Vec<&'h Host<'n>> {
        let is_one = |host: &&&Host<'n>| {
            host.addresses.iter().any(|address| address.ip == ip && address.port == port)
        };
        hosts.iter().filter(is_one).copied().collect()
    };
    let exact = of(Some(socket.port));
    if exact.is_empty() { of(None) } else { exact }
}

/// Returns a rule for certificates of clients, for the names of a host.
pub(super) fn client_of(mut client: Value, host: &Host<'_>) -> Value {
    let names: Vec<&String> = host.names.iter().filter(|name| !name.contains('?')).collect();
    if !names.is_empty() {
        client["names"] = json!(names);
    }
    client
}

/// Returns the steps that choose among hosts of an address by their names; the first one is for all
/// other names.
pub(super) fn choices(hosts: &[&Host<'_>], ip: Option<std::net::IpAddr>) -> Vec<Value> {
    let mut steps = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let pass = |host: &Host<'_>| json!({"pass": format!("routes/{}", host.label)});
    for host in hosts {
        let names: Vec<String> = host
            .names
            .iter()
            .filter(|name| known.insert((*name).clone()))
            .map(|name| hosts::pattern(name))
            .collect();
        if names.is_empty() {
            continue;
        }
        let mut conditions = json!({"host": names});
        if let Some(ip) = ip {
            conditions["destination"] = ip.to_string().into();
        }
        steps.push(json!({"match": conditions, "action": pass(host)}));
    }
    if let Some(first) = hosts.first() {
        let mut step = json!({"action": pass(first)});
        if let Some(ip) = ip {
            step["match"] = json!({"destination": ip.to_string()});
        }
        steps.push(step);
    }
    steps
}
