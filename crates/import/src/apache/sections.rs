//! Directives of a host for the engine of `.htaccess`: those of the host itself, its sections and its
//! aliases.

use std::path::Path;

use serde_json::{Value, json};

use crate::Status;

use super::check;
use super::scope::{self, Facts, Place, Scope, argument, mark};
use super::site::{Engine, HIDDEN_FILES, Site, is_elsewhere};
use super::tree::Node;

impl<'n> Site<'_, 'n> {
    /// Collects the directives for the engine.
    pub(super) fn engine(&mut self, facts: &Facts, root: &str) -> Engine {
        let mut engine = Engine::default();
        // Apache reads no `.htaccess` files unless a section says so.
        engine.sections.push(json!({"directory": "/", "files": false}));
        let is_main = self.own.is_empty();
        let inherits = self.own.iter().any(|node| {
            node.name == "rewriteoptions" && node.arguments.to_ascii_lowercase().contains("inherit")
        });
        let has_index = self.own.iter().any(|node| node.name == "directoryindex");
        let server = self.common.server.clone();
        let own = self.own.clone();
        let mut plain = Vec::new();
        let mut late = Vec::new();
        for node in &server {
            let is_rule = node.name.starts_with("rewrite");
            if is_rule && !is_main && !inherits {
                let reason = "virtual hosts do not inherit rules";
                mark(self.report, node, Status::NotNeeded, reason);
            } else if check::is_of_base(node) {
                self.converted(node);
            } else if node.name == "directoryindex" && has_index {
                // That of the host takes its place.
                mark(self.report, node, Status::NotNeeded, "virtual hosts have their own");
            } else if node.name.starts_with("redirect") && node.name != "redirectrelative"
                || is_rule && !is_main
            {
                late.push(*node);
            } else {
                plain.push(*node);
            }
        }
        plain.extend(&own);
        plain.extend(late);
        plain.retain(|node| !is_elsewhere(&node.name));
        let (sections, plain): (Vec<&Node>, Vec<&Node>) =
            plain.into_iter().partition(|node| is_place(&node.name));
        let mut scope = Scope::default();
        scope::add(&plain, Place::Server, facts, &mut scope, self.report);
        engine.servers.append(&mut scope.servers);
        engine.admin.append(&mut scope.admin);
        engine.directives = scope.into_lines();
        for section in sections {
            self.add_section(section, facts, root, &mut engine);
        }
        share_allowed(&mut engine);
        engine
    }

    pub(super) fn add_section(
        &mut self,
        node: &Node,
        facts: &Facts,
        root: &str,
        engine: &mut Engine,
    ) {
        let words = node.words();
        let is_regex =
            words.first().is_some_and(|word| word == "~") || node.name.ends_with("match");
        let pattern = match words.as_slice() {
            [tilde, expression, ..] if tilde == "~" => expression.clone(),
            _ => argument(node),
        };
        let is_directory = node.name.starts_with("<directory");
        let slashed = format!("{}/", pattern.trim_end_matches('/'));
        let covers_root = is_directory && !is_regex && format!("{root}/").starts_with(&slashed);
        let place = if is_directory { Place::Directory(covers_root) } else { Place::Location };
        let mut scope = Scope::default();
        let children: Vec<&Node> =
            node.children.iter().filter(|child| !is_elsewhere(&child.name)).collect();
        scope::add(&children, place, facts, &mut scope, self.report);
        if pattern.is_empty() {
            mark(self.report, node, Status::NotConverted, "it needs a path");
            return;
        }
        let kind = match (is_directory, is_regex) {
            (true, false) => "directory",
            (true, true) => "directory_match",
            (false, false) => "location",
            (false, true) => "location_match",
        };
        if is_regex
            && howdah_htaccess::modules::pattern::Pattern::new(pattern.as_bytes(), false).is_err()
        {
            mark(self.report, node, Status::NotConverted, "the expression is not valid");
            return;
        }
        self.converted(node);
        for (address, id) in std::mem::take(&mut scope.servers) {
            if covers_root || !is_directory && pattern == "/" {
                engine.servers.push((address, id));
            } else if is_directory && !is_regex {
                engine.directory_servers.push((pattern.clone(), address, id));
            } else if let Some(id) = id {
                engine.servers.push((address, None));
                self.report.mark(
                    id,
                    Status::Changed,
                    "one application runs all scripts of the host",
                );
            }
        }
        engine.admin.append(&mut scope.admin);
        let allowed = scope.allowed();
        let lines = scope.into_lines();
        let mut section = json!({ kind: pattern, "directives": lines });
        match allowed {
            // Apache adds these sections when it has read the files.
            Some(_) if is_regex => self.mark_without_effect(&children),
            Some((reads_files, words)) => {
                section["files"] = reads_files.into();
                if reads_files {
                    section["allow"] = json!(words);
                }
            }
            None => {}
        }
        engine.sections.push(section);
    }

    /// Marks the directives that say what `.htaccess` files may have.
    fn mark_without_effect(&mut self, nodes: &[&Node]) {
        for node in nodes.iter().filter(|node| node.name.starts_with("allowoverride")) {
            if let Some(id) = node.id {
                let reason = "it has no effect in a section with an expression";
                self.report.replace(id, Status::NotNeeded, reason);
            }
        }
    }

    /// Adds aliases: those of the host come before those outside.
    pub(super) fn add_aliases(&mut self, engine: &mut Engine) {
        let nodes: Vec<&Node> = self.own.iter().chain(&self.common.server).copied().collect();
        let mut found: Vec<(&Node, Option<String>)> =
            nodes.iter().filter(|node| is_alias(&node.name)).map(|node| (*node, None)).collect();
        for section in nodes.iter().filter(|node| node.name.starts_with("<location")) {
            for node in section.children.iter().filter(|node| is_alias(&node.name)) {
                found.push((node, Some(argument(section))));
            }
        }
        for (node, location) in found {
            self.add_alias(node, location, engine);
        }
        for node in nodes.iter().filter(|node| node.name == "rewriterule") {
            // The target of a rule may be a file outside of the root: Apache asks whether there is
            // something of the first name in the root directory. No path of a URL leads there.
            let target = node.words().get(1).cloned().unwrap_or_default();
            let fixed = target.split(['$', '%', '?']).next().unwrap_or_default();
            let directory = if fixed.len() == target.len() {
                fixed
            } else {
                &fixed[..fixed.rfind('/').unwrap_or(0)]
            };
            let mut names = directory.split('/');
            let (Some(""), Some(first), Some(_)) = (names.next(), names.next(), names.next())
            else {
                continue;
            };
            let top = self.common.source.locate(Path::new(&format!("/{first}")), Path::new("/"));
            if !first.is_empty() && self.common.source.exists(&top) {
                engine.aliases.push(json!({ "match": "^[^/]", "target": directory }));
            }
        }
    }

    pub(super) fn add_alias(&mut self, node: &Node, location: Option<String>, engine: &mut Engine) {
        let mut words = node.words();
        if let Some(location) = location {
            words.insert(0, location);
        }
        let [path, target] = words.as_slice() else {
            mark(self.report, node, Status::NotConverted, "it takes a path and a path of files");
            return;
        };
        let is_regex = node.name.ends_with("match");
        if is_regex
            && howdah_htaccess::modules::pattern::Pattern::new(path.as_bytes(), false).is_err()
        {
            mark(self.report, node, Status::NotConverted, "the expression is not valid");
            return;
        }
        if node.name.starts_with("script") {
            let reason = "programs are not run; their paths are refused";
            mark(self.report, node, Status::NotConverted, reason);
            let kind = if is_regex { "location_match" } else { "location" };
            engine.sections.push(
                json!({ kind: path.trim_end_matches('/'), "directives": "Require all denied" }),
            );
            return;
        }
        let key = if is_regex { "match" } else { "path" };
        let target = self.absolute(target);
        engine.aliases.push(json!({ key: path, "target": target }));
        mark(self.report, node, Status::Changed, HIDDEN_FILES);
    }

    pub(super) fn add_user_directories(&mut self, engine: &mut Engine) {
        let mut is_on = false;
        for node in self.all().filter(|node| node.name == "userdir").collect::<Vec<_>>() {
            if node.first().eq_ignore_ascii_case("disabled") {
                mark(self.report, node, Status::NotNeeded, "users have no paths of their own");
            } else {
                is_on = true;
                let reason =
                    "the directories of users have no paths; those that begin with /~ are refused";
                mark(self.report, node, Status::NotConverted, reason);
            }
        }
        if is_on {
            engine
                .sections
                .push(json!({ "location_match": "^/~", "directives": "Require all denied" }));
        }
    }
}

/// Moves what `.htaccess` files may have from the sections to the site, if all of them say the same.
fn share_allowed(engine: &mut Engine) {
    let mut all = engine.sections.iter().filter_map(|section| section.get("allow"));
    let Some(first) = all.next().cloned() else { return };
    if all.any(|other| *other != first) {
        return;
    }
    for section in engine.sections.iter_mut().filter_map(Value::as_object_mut) {
        section.remove("allow");
    }
    engine.allow = Some(first);
}

/// Returns true for a section of directories or paths.
pub(super) fn is_place(name: &str) -> bool {
    matches!(name, "<directory" | "<directorymatch" | "<location" | "<locationmatch")
}

pub(super) fn is_alias(name: &str) -> bool {
    matches!(name, "alias" | "aliasmatch" | "scriptalias" | "scriptaliasmatch")
}
