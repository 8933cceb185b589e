//! The document: listeners with their hosts, and the settings of the whole server.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use crate::php_fpm::Pool;
use crate::{Report, Source, Status};

use super::hosts::{self, Host, Socket};
use super::repair::repaired;
use super::scope::mark;
use super::site::{Common, Output, Pools, Site};
use super::status;
use super::tls;
use super::tree::Node;

/// Facts about the configuration.
#[derive(Debug)]
pub struct Facts {
    pub server_root: String,
    pub has_mod_php: bool,
    pub has_includes: bool,
    /// The files are a main file and those that it includes.
    pub is_main: bool,
    /// The version of mod_php; empty if it is not known.
    pub php_version: String,
}

/// Writes the document of a configuration.
pub fn of<'n>(
    nodes: &'n [Node],
    facts: Facts,
    pools: &'n [Pool],
    source: &'n Source,
    report: &mut Report,
) -> Value {
    let (sections, server): (Vec<&Node>, Vec<&Node>) =
        nodes.iter().partition(|node| node.name == "<virtualhost");
    let mut found: Vec<Host<'_>> = sections.iter().map(|section| Host::new(section)).collect();
    let sockets = sockets(&server, &found, &facts, report);
    let main = Host {
        section: None,
        addresses: Vec::new(),
        names: hosts::names_of(server.iter().copied()),
        label: String::new(),
    };
    let has_main = found.is_empty() || sockets.iter().any(|socket| needs_main(socket, &found));
    if has_main {
        found.push(main);
    }
    let common = Common {
        server,
        server_root: facts.server_root,
        has_mod_php: facts.has_mod_php,
        has_includes: facts.has_includes,
        php_ini: php_ini(source, &facts.php_version),
        source,
    };
    let mut writer = Writer {
        common,
        report: &mut *report,
        output: Output::default(),
        settings: Map::new(),
        variables: BTreeSet::new(),
    };
    writer.settings();
    let mut labels = BTreeSet::new();
    for host in &mut found {
        host.label = label(host, &mut labels);
    }
    let mut pools = Pools { all: pools, used: BTreeSet::new() };
    for host in &found {
        writer.host(host, &sockets, &mut pools);
    }
    for (index, pool) in pools.all.iter().enumerate() {
        if !pools.used.contains(&index) {
            pool.report_unused(writer.report);
        }
    }
    let mut document = writer.document(&found, &sockets);
    for repair in repaired(&mut document) {
        let hosts = found.iter().filter(|host| repair.route.starts_with(&host.label));
        for id in hosts.filter_map(|host| host.section?.id) {
            let problem = &repair.problem;
            let reason = format!(
                "a part of the host is closed, because its document has an error: {problem}"
            );
            report.mark(id, Status::NotConverted, reason);
        }
    }
    for node in nodes {
        node.each(&mut |node| finish(node, report));
    }
    document
}

/// Gives a directive a status that nothing else has looked at.
fn finish(node: &Node, report: &mut Report) {
    let Some(id) = node.id.filter(|id| report.is_open(*id)) else { return };
    let words = node.words();
    let first = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    if let Some(reason) = status::not_needed(&node.name, &words) {
        report.mark(id, Status::NotNeeded, reason);
    } else if node.name.starts_with("proxy") && node.name != "proxyrequests"
        || node.name.starts_with("<proxy")
        || node.name.starts_with("sslproxy")
        || node.name == "balancermember"
    {
        report.mark(id, Status::NotNeeded, "no request is passed to such a server");
    } else if node.name == "sslengine" || first == "off" {
        report.mark(id, Status::NotNeeded, "it has no effect");
    } else {
        let (status, reason) = status::of_unknown(&node.name);
        report.mark(id, status, reason);
    }
}

/// Returns the `php.ini` of mod_php, which is that of the newest version if none is known.
fn php_ini(source: &Source, version: &str) -> Option<String> {
    let version = if version.is_empty() { "*" } else { version };
    let root = Path::new("/");
    let mut versions: Vec<(u32, u32)> = source
        .glob(&format!("/etc/php/{version}/apache2/php.ini"), root)
        .iter()
        .filter_map(|path| {
            let name = path.parent()?.parent()?.file_name()?.to_str()?;
            let (major, minor) = name.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
        .collect();
    versions.sort_unstable();
    let (major, minor) = versions.last()?;
    Some(format!("/etc/php/{major}.{minor}/apache2/php.ini"))
}

/// Returns a text as the name of a route or an application. In a `pass`, `/`, `%` and `$` have a
/// meaning.
pub(super) fn as_name(text: &str) -> String {
    let plain = |c: char| if matches!(c, '/' | '%' | '$') || c.is_control() { '_' } else { c };
    text.chars().map(plain).collect()
}

/// Returns a name for the route of a host that no other one has.
fn label(host: &Host<'_>, known: &mut BTreeSet<String>) -> String {
    let name = host.server_name().or_else(|| host.names.first().cloned());
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned());
    let name = as_name(&name);
    let is_tls = host
        .section
        .is_some_and(|section| tls::is_on(&section.children.iter().collect::<Vec<_>>()));
    let base = if is_tls { format!("{name} tls") } else { name };
    let mut label = base.clone();
    let mut number = 2;
    while !known.insert(label.clone()) {
        label = format!("{base} {number}");
        number += 1;
    }
    label
}

/// Returns true if connections of a socket may be for no virtual host.
fn needs_main(socket: &Socket, hosts: &[Host<'_>]) -> bool {
    let mut addresses = hosts.iter().flat_map(|host| &host.addresses);
    !addresses.any(|address| {
        let is_port = address.port.is_none_or(|port| port == socket.port);
        is_port && (address.ip.is_none() || address.ip == socket.ip)
    })
}

/// Returns the sockets that Apache listens on.
fn sockets(
    server: &[&Node],
    hosts: &[Host<'_>],
    facts: &Facts,
    report: &mut Report,
) -> Vec<Socket> {
    let mut sockets: Vec<Socket> = Vec::new();
    let add = |sockets: &mut Vec<Socket>, socket: Socket| {
        if !sockets.contains(&socket) {
            sockets.push(socket);
        }
    };
    for node in server.iter().filter(|node| node.name == "listen") {
        match hosts::socket(&node.first()) {
            Some(socket) => {
                match node.id {
                    Some(id) if socket.ip.is_some() => report.converted(id),
                    _ => mark(
                        report,
                        node,
                        Status::Changed,
                        "all addresses are those of IPv4; IPv6 needs a listener \"[::]:PORT\" with the same pass",
                    ),
                }
                add(&mut sockets, socket);
            }
            None => mark(
                report,
                node,
                Status::NotConverted,
                "it takes an address with a port, or a port",
            ),
        }
    }
    if !facts.is_main {
        // Debian listens on 80 and 443 of all addresses. A host with another port has a socket for
        // it somewhere: on its own address, since nothing says that others are open.
        let said: Vec<u16> = sockets.iter().map(|socket| socket.port).collect();
        for address in hosts.iter().flat_map(|host| &host.addresses) {
            let port = address.port.unwrap_or(80);
            let ip = address.ip.filter(|_| !matches!(port, 80 | 443));
            if !said.contains(&port) {
                add(&mut sockets, Socket { ip, port });
            }
        }
    }
    if sockets.is_empty() {
        sockets.push(Socket { ip: None, port: 80 });
    }
    // One for all addresses has those of others.
    let wide: Vec<u16> =
        sockets.iter().filter(|socket| socket.ip.is_none()).map(|socket| socket.port).collect();
    sockets.retain(|socket| socket.ip.is_none() || !wide.contains(&socket.port));
    sockets
}

pub struct Writer<'w, 'n> {
    pub common: Common<'n>,
    pub report: &'w mut Report,
    pub output: Output,
    pub settings: Map<String, Value>,
    pub variables: BTreeSet<String>,
}

impl<'n> Writer<'_, 'n> {
    pub(super) fn converted(&mut self, node: &Node) {
        if let Some(id) = node.id {
            self.report.converted(id);
        }
    }

    /// Writes a host that a socket has; marks another one.
    fn host(&mut self, host: &Host<'n>, sockets: &[Socket], pools: &mut Pools<'n>) {
        if let Some(section) = host.section {
            let is_reached = sockets
                .iter()
                .any(|socket| host.addresses.iter().any(|address| socket.may_be(address)));
            if !is_reached {
                section.each(&mut |node| {
                    mark(
                        self.report,
                        node,
                        Status::NotNeeded,
                        "Apache does not listen on the address of the host",
                    );
                });
                return;
            }
            if host.addresses.is_empty() {
                mark(self.report, section, Status::NotConverted, "it needs an address");
            }
            if host.addresses.iter().any(|address| address.name.is_some()) {
                mark(
                    self.report,
                    section,
                    Status::Changed,
                    "names are not resolved: the host is one for all addresses",
                );
            } else {
                self.converted(section);
            }
        }
        let own: Vec<&Node> =
            host.section.map(|section| section.children.iter().collect()).unwrap_or_default();
        for node in own.iter().chain(&self.common.server).copied().collect::<Vec<_>>() {
            match node.name.as_str() {
                "servername" | "serveralias" => self.converted(node),
                "protocols" | "protocol" => self.converted(node),
                "errorlogformat" => {}
                "timeout"
                    if host.section.is_some() && own.iter().any(|own| std::ptr::eq(*own, node)) =>
                {
                    mark(
                        self.report,
                        node,
                        Status::Changed,
                        "timeouts are those of the whole server",
                    );
                }
                "assignuserid" | "suexecusergroup" => self.converted(node),
                _ => {}
            }
        }
        let members = self.logs(host, &own);
        let common = self.common.clone();
        let timeout = own
            .iter()
            .chain(&common.server)
            .find(|node| node.name == "timeout")
            .and_then(|node| node.first().parse().ok())
            .filter(|seconds| *seconds > 0)
            .unwrap_or(60);
        let mut site = Site {
            common: &common,
            label: &host.label,
            own,
            report: self.report,
            output: &mut self.output,
            pools,
            members,
            timeout,
        };
        site.write();
    }

    /// Returns the document.
    fn document(mut self, hosts: &[Host<'n>], sockets: &[Socket]) -> Value {
        let mut listeners = Map::new();
        for socket in sockets {
            let members = self.listener(socket, hosts);
            listeners.insert(socket.key(), members);
        }
        let Output { routes, applications, upstreams, variables, error_logs } = self.output;
        let mut document = Map::new();
        for (name, members) in [
            ("settings", self.settings),
            ("variables", variables),
            ("listeners", listeners),
            ("routes", routes),
            ("applications", applications),
            ("upstreams", upstreams),
            ("error_logs", error_logs),
        ] {
            if !members.is_empty() {
                document.insert(name.into(), members.into());
            }
        }
        document.into()
    }
}
