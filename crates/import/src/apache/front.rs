//! Requests of a host that are passed to other servers, and rules in front of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Status;

use super::access;
use super::proxy;
use super::rules::{self, Effect, Group};
use super::scope::{self, argument, mark};
use super::site::Site;
use super::targets::{self, Rule, Source};
use super::tree::Node;

impl<'n> Site<'_, 'n> {
    /// Returns the rules of mod_rewrite of the host.
    pub(super) fn rewrite_groups(&self) -> Vec<Group<'n>> {
        let inherits = self.own.iter().any(|node| {
            node.name == "rewriteoptions" && node.arguments.to_ascii_lowercase().contains("inherit")
        });
        let mut nodes = self.own.clone();
        if self.own.is_empty() || inherits {
            nodes.extend(&self.common.server);
        }
        rules::groups(&nodes)
    }

    /// Returns the steps of rules in front of requests to other servers, and adds rules that pass
    /// requests on.
    pub(super) fn rewrite_steps(
        &mut self,
        groups: &[Group<'n>],
        behind: &str,
        proxied: &mut Vec<Rule<'n>>,
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        let mut passed = Vec::new();
        for group in groups {
            match rules::effect(group, &format!("routes/{behind}")) {
                Effect::Steps(found) => steps.extend(found),
                Effect::None => {}
                Effect::Proxy(expression, url, conditions) => {
                    let is_negated = expression.starts_with('!');
                    let target = targets::target(&url);
                    if is_negated || matches!(target, targets::Target::Unknown(_)) {
                        // The engine refuses the paths.
                        continue;
                    }
                    for node in group.conditions.iter().chain([&group.rule]) {
                        if let Some(id) = node.id {
                            self.report.replace(id, Status::Converted, "");
                        }
                    }
                    passed.push(Rule {
                        source: Source::Regex(expression),
                        target,
                        parameters: BTreeMap::new(),
                        node: group.rule,
                        conditions,
                    });
                }
                Effect::Unknown(found, reason) => {
                    steps.extend(found);
                    for node in group.conditions.iter().chain([&group.rule]) {
                        let reason =
                            format!("{reason}, so requests to other servers do not have the rule");
                        mark(self.report, node, Status::NotConverted, reason);
                    }
                }
            }
        }
        passed.append(proxied);
        *proxied = passed;
        steps
    }

    pub(super) fn locations(&self) -> Vec<(Source, &'n Node)> {
        let nodes = self.all().filter(|node| node.name.starts_with("<location"));
        nodes.map(|node| (targets::source_of(node), node)).collect()
    }

    pub(super) fn proxy_rules(&mut self, locations: &[(Source, &'n Node)]) -> Vec<Rule<'n>> {
        let is_rule = |node: &&Node| matches!(node.name.as_str(), "proxypass" | "proxypassmatch");
        let mut found: Vec<(&'n Node, Option<&Source>)> =
            self.own.iter().copied().filter(is_rule).map(|node| (node, None)).collect();
        for (source, location) in locations {
            found.extend(location.children.iter().filter(is_rule).map(|node| (node, Some(source))));
        }
        found.extend(self.common.server.iter().copied().filter(is_rule).map(|node| (node, None)));
        let mut rules = Vec::new();
        for (node, location) in found {
            match targets::rule(node, location) {
                Some(rule) => rules.push(rule),
                None => mark(self.report, node, Status::NotConverted, "it takes a path and a URL"),
            }
        }
        rules
    }

    /// Returns the directives of `<Proxy>` for all requests to other servers: those of `<Proxy *>`.
    /// Other sections that refuse requests close all of them.
    pub(super) fn proxy_section(&mut self, node: &'n Node) -> Option<Vec<&'n Node>> {
        let url = argument(node);
        let is_all = url == "*" && node.name == "<proxy";
        let children: Vec<&Node> = node.children.iter().collect();
        let access = access::of(std::slice::from_ref(&children));
        let is_restricted =
            access.is_denied || !access.members.is_empty() || !access.refused.is_empty();
        if is_all || is_restricted {
            if is_all {
                for child in children.iter().chain([&node]) {
                    self.converted(child);
                }
            } else {
                node.each(&mut |inside| {
                    let reason =
                        "a section of URLs of other servers is not known; it holds for all of them";
                    mark(self.report, inside, Status::NotConverted, reason);
                });
            }
            return Some(children);
        }
        None
    }

    /// Adds variables for the fields that Apache adds to those of the client.
    fn add_forwarded(&mut self) {
        for (name, field, own) in [
            ("forwarded_for", "$header_x_forwarded_for", "$remote_addr"),
            ("forwarded_host", "$header_x_forwarded_host", "$header_host"),
        ] {
            let values = json!({ "~.": format!("{field}, {own}") });
            let variable = json!({ "map": field, "values": values, "default": own });
            self.output.variables.insert(name.to_owned(), variable);
        }
    }

    /// Writes the steps for requests to other servers.
    pub(super) fn proxied(
        &mut self,
        rules: &[Rule<'n>],
        locations: &[(Source, &'n Node)],
        files: &str,
        root: &str,
    ) -> Vec<Value> {
        let all: Vec<&Node> = self.all().collect();
        let settings = proxy::Settings::read(&all, locations, self.timeout, self.report);
        let mut balancers = BTreeMap::new();
        for node in all.iter().filter(|node| node.name == "<proxy") {
            let url = argument(node).to_ascii_lowercase();
            if let Some(name) = url.strip_prefix("balancer://") {
                balancers.insert(name.trim_end_matches('/').to_owned(), *node);
            }
        }
        let plain: Vec<&Node> = all
            .iter()
            .copied()
            .filter(|node| {
                matches!(node.name.as_str(), "header" | "requestheader" | "limitrequestbody")
                    || access::depends_on_request(node)
            })
            .collect();
        let mut sections_of_all = vec![plain];
        for node in all.iter().filter(|node| node.name.starts_with("<proxy")) {
            if let Some(children) = self.proxy_section(node) {
                sections_of_all.push(children);
            }
        }
        let children = |node: &'n Node| node.children.iter().collect::<Vec<&Node>>();
        let covering = |inner: Option<&Source>| -> Vec<Vec<&Node>> {
            let is_meant = |source: &Source| match inner {
                None => *source == Source::Path("/".into()),
                Some(inner) => targets::covers(source, inner),
            };
            locations
                .iter()
                .filter(|(source, _)| is_meant(source))
                .map(|(_, node)| children(node))
                .collect()
        };
        let label = self.label.to_owned();
        let server_name = self.last("servername").map(super::hosts::name_of).unwrap_or_default();
        let mut routes = Vec::new();
        let mut upstreams = std::mem::take(&mut self.output.upstreams);
        let mut report = std::mem::take(self.report);
        let mut fastcgi =
            |address: &str, root: &str| Value::from(self.fastcgi(address, root, false));
        let mut writer = proxy::Writer {
            label: &label,
            files,
            settings: &settings,
            balancers: &balancers,
            upstreams: &mut upstreams,
            server_name,
            adds_fields: false,
            error_pages: proxy::error_pages(&all, rules, files, settings.intercepts_errors),
            root,
            report: &mut report,
            fastcgi: &mut fastcgi,
        };
        let mut steps = Vec::new();
        if !settings.takes_slashes {
            steps.push(json!({"match": {"if": "$encoded_slash"}, "action": {"return": 404}}));
        }
        for (number, (source, node)) in locations.iter().enumerate().rev() {
            if *source == Source::Path("/".into()) || !has_effect(node) {
                continue;
            }
            let mut sections = sections_of_all.clone();
            sections.extend(covering(Some(source)));
            let mut inner = writer.steps(rules, &sections);
            inner.push(json!({"action": {"pass": files}}));
            let name = format!("{label} location {number}");
            let (uri, _) = targets::uri(source, None);
            steps
                .push(json!({"match": {"uri": uri}, "action": {"pass": format!("routes/{name}")}}));
            routes.push((name, Value::from(inner)));
        }
        let mut sections = sections_of_all;
        sections.extend(covering(None));
        steps.extend(writer.steps(rules, &sections));
        steps.push(json!({"action": {"pass": files}}));
        let adds_fields = writer.adds_fields;
        self.output.upstreams = upstreams;
        *self.report = report;
        if adds_fields {
            self.add_forwarded();
        }
        if !settings.takes_slashes {
            let values = json!({ "~(?i)^[^?]*%2f": "1" });
            let variable = json!({ "map": "$request_uri", "values": values });
            self.output.variables.insert("encoded_slash".into(), variable);
        }
        let members = self.members.clone();
        let with_members = |steps: &mut Vec<Value>| {
            for step in steps {
                if let Some(action) = step["action"].as_object_mut() {
                    action.extend(members.clone());
                }
            }
        };
        for (name, inner) in routes {
            let mut inner: Vec<Value> = inner.as_array().cloned().unwrap_or_default();
            with_members(&mut inner);
            self.output.routes.insert(name, inner.into());
        }
        with_members(&mut steps);
        steps
    }
}

/// Returns true for a rule that passes requests to another server.
pub(super) fn is_for_proxy(group: &Group<'_>) -> bool {
    let flags = scope::rule_flags(&group.rule.words());
    flags.iter().any(|flag| matches!(flag.as_str(), "p" | "proxy"))
}

/// Returns true if a location has directives with an effect on requests to other servers.
pub(super) fn has_effect(node: &Node) -> bool {
    node.children.iter().any(|child| {
        scope::is_access(&child.name)
            || child.name.starts_with("auth")
            || access::depends_on_request(child)
            || matches!(child.name.as_str(), "header" | "requestheader" | "limitrequestbody")
    })
}
