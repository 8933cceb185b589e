//! A host: its route, its application, and the directives for the engine of `.htaccess`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::php_fpm::Pool;
use crate::{Id, Report, Source, Status};

use super::debian;
use super::front::is_for_proxy;
use super::handlers::fastcgi_address;
use super::scope::{Facts, mark};
use super::sections::is_alias;
use super::tree::Node;

/// What all hosts share.
#[derive(Debug, Clone)]
pub struct Common<'n> {
    /// Directives outside of hosts.
    pub server: Vec<&'n Node>,
    pub server_root: String,
    /// mod_php is there.
    pub has_mod_php: bool,
    /// mod_include is there.
    pub has_includes: bool,
    /// The `php.ini` of mod_php.
    pub php_ini: Option<String>,
    pub source: &'n Source,
}

/// Sections of the document that hosts add to.
#[derive(Debug, Default)]
pub struct Output {
    pub routes: Map<String, Value>,
    pub applications: Map<String, Value>,
    pub upstreams: Map<String, Value>,
    pub variables: Map<String, Value>,
    pub error_logs: Map<String, Value>,
}

/// Pools of PHP-FPM.
#[derive(Debug)]
pub struct Pools<'p> {
    pub all: &'p [Pool],
    /// Those that run scripts.
    pub used: BTreeSet<usize>,
}

impl Pools<'_> {
    /// Returns the application of the pool at an address, and its name.
    pub(super) fn application(&mut self, address: &str) -> Option<(String, Map<String, Value>)> {
        let (index, pool) = self.all.iter().enumerate().find(|(_, pool)| pool.is_at(address))?;
        self.used.insert(index);
        Some((super::document::as_name(&pool.name), pool.application()))
    }
}

/// The host that is being written.
pub struct Site<'s, 'n> {
    pub common: &'s Common<'n>,
    pub label: &'s str,
    /// Directives of the host; empty for the server outside of all.
    pub own: Vec<&'n Node>,
    pub report: &'s mut Report,
    pub output: &'s mut Output,
    pub pools: &'s mut Pools<'n>,
    /// Members of all actions: access logs.
    pub members: Map<String, Value>,
    pub timeout: u64,
}

/// What differs for the files of a directory.
pub(super) const HIDDEN_FILES: &str = "files whose names begin with a dot, and sources of PHP, are not sent (404, 403); Apache sends them";

/// The directives for the engine.
#[derive(Debug, Default)]
pub struct Engine {
    pub directives: Vec<String>,
    pub sections: Vec<Value>,
    pub aliases: Vec<Value>,
    /// Maps of rules.
    pub maps: Map<String, Value>,
    /// What `.htaccess` files may have, if all sections that have them read say the same.
    pub allow: Option<Value>,
    pub admin: Vec<(String, String)>,
    /// Patterns of files that are not run.
    pub without_scripts: Vec<String>,
    /// Servers of FastCGI for all files of the host.
    pub servers: Vec<(String, Option<Id>)>,
    /// Servers of FastCGI for the files of a directory.
    pub directory_servers: Vec<(String, String, Option<Id>)>,
}

impl<'n> Site<'_, 'n> {
    /// Writes the routes of the host.
    pub fn write(&mut self) {
        let root = self.document_root();
        let mut facts = self.facts();
        facts.maps = self.maps();
        let mut engine = self.engine(&facts, &root);
        self.add_aliases(&mut engine);
        self.add_user_directories(&mut engine);
        let locations = self.locations();
        let mut rules = self.proxy_rules(&locations);
        let application = self.application(&mut engine, &facts, &rules, &root);
        engine.maps = facts.maps.clone();
        let files = self.files(&engine, &root, application.as_deref());
        let groups = self.rewrite_groups();
        let behind = format!("{} behind rules", self.label);
        let is_proxy = !rules.is_empty() || groups.iter().any(is_for_proxy);
        let mut first =
            if is_proxy { self.rewrite_steps(&groups, &behind, &mut rules) } else { Vec::new() };
        let has_others = !engine.directory_servers.is_empty();
        if !is_proxy && !has_others {
            self.output.routes.insert(self.label.to_owned(), json!([{ "action": files }]));
            return;
        }
        let files_route = format!("{} files", self.label);
        let mut steps = self.steps_of_directories(&engine, &root, &files);
        steps.push(json!({ "action": files }));
        self.output.routes.insert(files_route.clone(), steps.into());
        let mut steps = self.proxied(&rules, &locations, &format!("routes/{files_route}"), &root);
        if first.iter().any(|step| step["action"]["pass"] == format!("routes/{behind}")) {
            self.output.routes.insert(behind.clone(), steps.into());
            steps = vec![json!({"action": {"pass": format!("routes/{behind}")}})];
        }
        for step in &mut first {
            if let Some(action) = step["action"].as_object_mut() {
                action.extend(self.members.clone());
            }
        }
        first.append(&mut steps);
        self.output.routes.insert(self.label.to_owned(), first.into());
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &'n Node> + use<'_, 'n> {
        self.common.server.iter().chain(&self.own).copied()
    }

    /// Returns the last directive of a name.
    pub(super) fn last(&self, name: &str) -> Option<&'n Node> {
        self.all().rev().find(|node| node.name == name)
    }

    pub(super) fn converted(&mut self, node: &Node) {
        if let Some(id) = node.id {
            self.report.converted(id);
        }
    }

    pub(super) fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{}/{path}", self.common.server_root)
        }
    }

    /// Returns the root, with `$host` in it for `VirtualDocumentRoot`.
    pub(super) fn document_root(&mut self) -> String {
        let mut root = debian::NO_ROOT.to_owned();
        for node in self.all().filter(|node| node.name == "documentroot").collect::<Vec<_>>() {
            let path = self.absolute(&node.first());
            root = path.trim_end_matches('/').replace('$', "${dollar}");
            if path.len() > 1 && path.ends_with('/') {
                let reason = "scripts see the root in DOCUMENT_ROOT without the slash at its end";
                mark(self.report, node, Status::Changed, reason);
            }
            mark(self.report, node, Status::Changed, HIDDEN_FILES);
        }
        if let Some(node) = self.last("virtualdocumentroot") {
            let path = self.absolute(&node.first());
            let is_known = path.replace("%0", "").find('%').is_none();
            if is_known {
                root = path.trim_end_matches('/').replace('$', "${dollar}").replace("%0", "$host");
                mark(self.report, node, Status::Changed, HIDDEN_FILES);
            } else {
                let reason = "parts of the host's name are not known; only %0 is. No file is found";
                mark(self.report, node, Status::NotConverted, reason);
                root = debian::NO_ROOT.to_owned();
            }
        }
        root
    }

    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts {
            server_root: self.common.server_root.clone(),
            has_programs: self.common.has_includes,
            ..Facts::default()
        };
        for node in self.all() {
            node.each(&mut |node| match node.name.as_str() {
                "sethandler" | "addhandler" => {
                    let first = node.first();
                    facts.has_fpm |= fastcgi_address(&first).is_some();
                    facts.has_programs |= first.eq_ignore_ascii_case("cgi-script");
                }
                "scriptalias" | "scriptaliasmatch" => facts.has_programs = true,
                "action" => facts.actions.push(node.first().to_ascii_lowercase()),
                "proxypassmatch" => facts.has_fpm |= node.arguments.contains("fcgi://"),
                _ => {}
            });
        }
        facts
    }
}

/// Returns true for directives that are not for the engine of `.htaccess`.
pub fn is_elsewhere(name: &str) -> bool {
    let ssl_of_places =
        ["sslrequiressl", "sslrequire", "ssloptions", "sslverifyclient", "sslverifydepth"];
    name.starts_with("proxy")
        || name.starts_with("<proxy")
        || name.starts_with("ssl") && !ssl_of_places.contains(&name)
        || is_alias(name)
        || matches!(
            name,
            "balancermember"
                | "servername"
                | "serveralias"
                | "documentroot"
                | "listen"
                | "user"
                | "group"
                | "assignuserid"
                | "suexecusergroup"
                | "customlog"
                | "transferlog"
                | "globallog"
                | "logformat"
                | "errorlog"
                | "errorlogformat"
                | "accessfilename"
                | "servertokens"
                | "timeout"
                | "userdir"
                | "virtualdocumentroot"
                | "loadmodule"
                | "protocols"
                | "protocol"
                | "limitrequestfields"
                | "limitrequestfieldsize"
                | "limitrequestline"
                | "typesconfig"
                | "remoteipheader"
                | "remoteiptrustedproxy"
                | "remoteipinternalproxy"
                | "remoteipproxyprotocol"
                | "remoteiptrustedproxylist"
                | "remoteipinternalproxylist"
                | "<virtualhost"
                | "serverroot"
                | "httpprotocoloptions"
        )
}
