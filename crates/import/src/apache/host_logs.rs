//! The logs of a host.

use serde_json::{Map, Value, json};

use crate::Status;

use super::document::Writer;
use super::hosts::Host;
use super::logs::{self, Formats};
use super::scope::mark;
use super::tree::Node;

impl<'n> Writer<'_, 'n> {
    /// Returns the access logs of a host as a member of its actions, and adds its error log.
    pub(super) fn logs(&mut self, host: &Host<'n>, own: &[&'n Node]) -> Map<String, Value> {
        let is_access = |node: &&&Node| matches!(node.name.as_str(), "customlog" | "transferlog");
        let mut formats = Formats::default();
        let server = self.common.server.clone();
        let mut members = Map::new();
        let mut written: Vec<Value> = Vec::new();
        let has_own = own.iter().any(|node| is_access(&node));
        for (nodes, counts) in [(&server, !has_own), (&own.to_vec(), true)] {
            for node in nodes {
                match node.name.as_str() {
                    "logformat" => {
                        if formats.add(&node.words()) {
                            self.converted(node);
                        } else {
                            mark(
                                self.report,
                                node,
                                Status::NotConverted,
                                "it takes a format and a name",
                            );
                        }
                    }
                    "customlog" | "transferlog" if counts => {
                        written.extend(self.access_log(node, host, &formats, own));
                    }
                    "customlog" | "transferlog" => {
                        mark(
                            self.report,
                            node,
                            Status::NotNeeded,
                            "the hosts have logs of their own",
                        );
                    }
                    "globallog" => written.extend(self.access_log(node, host, &formats, own)),
                    "errorlog" => self.error_log(node, host),
                    _ => {}
                }
            }
        }
        let value = match written.len() {
            0 => Value::Bool(false),
            1 => written.remove(0),
            _ => written.into(),
        };
        members.insert("access_log".into(), value);
        members
    }

    pub(super) fn access_log(
        &mut self,
        node: &Node,
        host: &Host<'_>,
        formats: &Formats,
        own: &[&'n Node],
    ) -> Option<Value> {
        let words = node.words();
        let Some(target) = words.first() else {
            mark(self.report, node, Status::NotConverted, "it takes a file and a format");
            return None;
        };
        let (destination, mut difference) = logs::destination(target, &self.common.server_root);
        let Some(mut log) = destination else {
            let reason = difference.unwrap_or_default();
            mark(self.report, node, Status::NotConverted, reason);
            return None;
        };
        let is_condition = |word: &&String| {
            let word = word.to_ascii_lowercase();
            word.starts_with("env=") || word.starts_with("expr=")
        };
        let format = words.get(1).filter(|word| !is_condition(word) && node.name != "transferlog");
        let text = formats.get(format.map(String::as_str));
        let name = host.names.first().cloned().unwrap_or_default();
        let format = logs::translated(&text, &name);
        log["format"] = format.template.into();
        difference = difference.or(format.difference);
        if let Some(condition) = words.iter().skip(1).find(is_condition) {
            match self.condition(condition, own) {
                Some(condition) => log["if"] = condition.into(),
                None => {
                    difference = difference
                        .or(Some("all requests are logged: the condition is not known".into()))
                }
            }
        }
        match difference {
            Some(reason) => mark(self.report, node, Status::Changed, reason),
            None => self.converted(node),
        }
        Some(log)
    }

    /// Returns the condition of a log: a variable that the directives of mod_setenvif set.
    pub(super) fn condition(&mut self, text: &str, own: &[&'n Node]) -> Option<String> {
        let name = text.strip_prefix("env=")?;
        let (sign, name) = match name.strip_prefix('!') {
            Some(name) => ("!", name),
            None => ("", name),
        };
        let nodes: Vec<&Node> = self.common.server.iter().chain(own).copied().collect();
        let mut last: Option<String> = None;
        for node in nodes {
            let words = node.words();
            let (attribute, expression, assignments, ignores_case) =
                match (node.name.as_str(), words.as_slice()) {
                    ("setenvif", [attribute, expression, rest @ ..]) => {
                        (attribute.as_str(), expression, rest, false)
                    }
                    ("setenvifnocase", [attribute, expression, rest @ ..]) => {
                        (attribute.as_str(), expression, rest, true)
                    }
                    ("browsermatch", [expression, rest @ ..]) => {
                        ("User-Agent", expression, rest, false)
                    }
                    ("browsermatchnocase", [expression, rest @ ..]) => {
                        ("User-Agent", expression, rest, true)
                    }
                    ("setenv", [own, ..]) if own == name => return None,
                    _ => continue,
                };
            let mut value = None;
            for assignment in assignments {
                let (variable, text) = assignment.split_once('=').unwrap_or((assignment, "1"));
                match variable.strip_prefix('!') {
                    Some(variable) if variable == name => value = Some(""),
                    None if variable == name => {
                        value = Some(if text.is_empty() { "" } else { "1" })
                    }
                    _ => {}
                }
            }
            let Some(value) = value else { continue };
            let source = match attribute.to_ascii_lowercase().as_str() {
                "request_uri" => "$uri".to_owned(),
                "remote_addr" => "$remote_addr".to_owned(),
                "remote_host" => return None,
                "request_method" => "$method".to_owned(),
                "request_protocol" => "$server_protocol".to_owned(),
                "server_addr" => "$server_addr".to_owned(),
                field if field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
                    format!("$header_{}", field.replace('-', "_"))
                }
                _ => return None,
            };
            let flag = if ignores_case { "(?i)" } else { "" };
            let pattern = format!("~{flag}{expression}");
            if howdah_config::Pattern::parse(&pattern, howdah_config::Subject::Uri).is_err() {
                return None;
            }
            let base: String = name
                .chars()
                .map(|c| if c.is_ascii_alphabetic() { c.to_ascii_lowercase() } else { '_' })
                .collect();
            let mut variable = format!("log_{base}");
            while !self.variables.insert(variable.clone()) {
                variable.push_str("_x");
            }
            let mut map = json!({"map": source, "values": { pattern: value }});
            if let Some(last) = &last {
                map["default"] = format!("${{{last}}}").into();
            }
            self.output.variables.insert(variable.clone(), map);
            last = Some(variable);
        }
        match last {
            Some(last) => Some(format!("{sign}${{{last}}}")),
            // Nobody sets the variable.
            None => Some(if sign.is_empty() { String::new() } else { "1".to_owned() }),
        }
    }

    pub(super) fn error_log(&mut self, node: &Node, host: &Host<'_>) {
        let target = node.first();
        if target.starts_with('|') || target.starts_with("syslog") || target.starts_with("journald")
        {
            mark(
                self.report,
                node,
                Status::Changed,
                "the records are in the log of the server (--log)",
            );
            return;
        }
        let path = if target.starts_with('/') {
            target
        } else {
            format!("{}/{target}", self.common.server_root)
        };
        self.output.error_logs.insert(host.label.clone(), path.into());
        self.converted(node);
    }
}
