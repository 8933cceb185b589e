//! The files of a host, and the application that runs its scripts.

use howdah_config::{Pattern, Subject};
use serde_json::{Map, Value, json};

use crate::Status;

use super::debian;
use super::handlers::{BESIDE_MOD_PHP, ONLY_SCRIPTS};
use super::proxy;
use super::scope::{Facts, argument, mark};
use super::site::{Engine, Site};
use super::targets::{self, Rule, Target};

impl<'n> Site<'_, 'n> {
    /// Returns the name of the application that runs the scripts of the host.
    pub(super) fn application(
        &mut self,
        engine: &mut Engine,
        facts: &Facts,
        rules: &[Rule<'n>],
        root: &str,
    ) -> Option<String> {
        if engine.servers.is_empty()
            && let Some(address) = self.server_of_scripts(engine, rules)
        {
            return Some(self.fastcgi(&address, root, true));
        }
        let Some((address, handler)) = engine.servers.last() else {
            // Rules of proxies pass scripts to PHP-FPM.
            let is_needed =
                self.common.has_mod_php && (!facts.has_fpm || engine.directory_servers.is_empty());
            return is_needed.then(|| self.mod_php(engine, root));
        };
        for (other, id) in &engine.servers {
            if other != address
                && let Some(id) = id
            {
                let reason =
                    "one application runs all scripts of the host: that of the last handler";
                self.report.mark(*id, Status::Changed, reason);
            }
        }
        if self.common.has_mod_php
            && let Some(id) = *handler
        {
            let former = self.report.entry(id).reason().unwrap_or_default();
            let reason = format!("{former}; {BESIDE_MOD_PHP}").trim_start_matches("; ").to_owned();
            self.report.replace(id, Status::Changed, reason);
        }
        Some(self.fastcgi(address, root, true))
    }

    /// Returns the server of FastCGI that rules pass scripts to. Apache asks for index files, and for
    /// files that rules of a directory lead to, by their paths, so that these go there, too. No others
    /// may run: of directories for uploads the rules may have none.
    fn server_of_scripts(&mut self, engine: &mut Engine, rules: &[Rule<'n>]) -> Option<String> {
        let rule = rules.iter().find(|rule| rule.source.matches("/index.php"))?;
        let Target::FastCgi { address, .. } = &rule.target else { return None };
        if self.common.has_mod_php {
            // It runs scripts whose paths no rule has.
            if !rule.source.matches("/any/other.php") {
                return None;
            }
            let reason = format!("{ONLY_SCRIPTS}; {BESIDE_MOD_PHP}");
            mark(self.report, rule.node, Status::Changed, reason);
            return Some(address.clone());
        }
        for rule in rules {
            let Target::FastCgi { address: other, .. } = &rule.target else { continue };
            let (Value::String(pattern), _) = targets::uri(&rule.source, None) else { return None };
            let pattern = format!("!{pattern}");
            if other != address || Pattern::parse(&pattern, Subject::Uri).is_err() {
                return None;
            }
            engine.without_scripts.push(pattern);
        }
        Some(address.clone())
    }

    pub(super) fn mod_php(&mut self, engine: &Engine, root: &str) -> String {
        let mut application = Map::new();
        application.insert("type".into(), "php".into());
        application.insert("root".into(), plain(root).into());
        let id =
            self.last("assignuserid").or(self.last("suexecusergroup")).map(|node| node.words());
        let word = |name: &str, index: usize| match &id {
            Some(words) => words.get(index).cloned(),
            None => self.last(name).map(|node| node.first()),
        };
        if let Some(user) = word("user", 0).filter(|user| !user.starts_with('#')) {
            application.insert("user".into(), user.into());
        }
        if let Some(group) = word("group", 1).filter(|group| !group.starts_with('#')) {
            application.insert("group".into(), group.into());
        }
        application.insert("limit_extensions".into(), json!(self.extensions()));
        let mut options = Map::new();
        if let Some(file) = &self.common.php_ini {
            options.insert("file".into(), file.clone().into());
        }
        if !engine.admin.is_empty() {
            let settings = engine.admin.iter();
            let admin: Map<String, Value> =
                settings.map(|(name, value)| (name.clone(), value.clone().into())).collect();
            options.insert("admin".into(), admin.into());
        }
        if !options.is_empty() {
            application.insert("options".into(), options.into());
        }
        let label = self.label.to_owned();
        self.add_application(&label, application)
    }

    /// Returns the endings of the names that handlers of PHP are set for.
    fn extensions(&self) -> Vec<String> {
        let mut endings: Vec<String> = [".php", ".phtml", ".phar"].map(str::to_owned).to_vec();
        let mut add = |name: &str| {
            let name = name.trim_start_matches('.').to_ascii_lowercase();
            let ending = format!(".{name}");
            let is_valid =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if is_valid && !endings.contains(&ending) {
                endings.push(ending);
            }
        };
        let is_php = |handler: &str| {
            howdah_htaccess::handler_name::names_php(handler.to_ascii_lowercase().as_bytes())
        };
        for node in self.all() {
            node.each(&mut |node| match node.name.as_str() {
                "addtype" | "addhandler" if is_php(&node.first()) => {
                    node.words().iter().skip(1).for_each(|suffix| add(suffix));
                }
                "<files" | "<filesmatch"
                    if node
                        .children
                        .iter()
                        .any(|child| child.name == "sethandler" && is_php(&child.first())) =>
                {
                    let pattern = argument(node).replace("?:", "");
                    let names = pattern.split(|c: char| !c.is_ascii_alphanumeric());
                    names.filter(|name| (2..=8).contains(&name.len())).for_each(&mut add);
                }
                _ => {}
            });
        }
        endings
    }

    /// Returns the name of the application for a server of FastCGI.
    pub(super) fn fastcgi(&mut self, address: &str, root: &str, is_shared: bool) -> String {
        let (name, mut application) = match self.pools.application(address) {
            Some(found) => found,
            None => {
                let members = [
                    ("type".to_owned(), Value::from("fastcgi")),
                    ("server".to_owned(), Value::from(address)),
                    (
                        "timeouts".to_owned(),
                        json!({"first_byte": self.timeout, "read": self.timeout}),
                    ),
                ];
                (self.label.to_owned(), Map::from_iter(members))
            }
        };
        // Under the engine, the root is that of the share: one application runs the scripts of all.
        let is_same = |known: &Value| {
            let mut known = known.as_object().cloned().unwrap_or_default();
            known.remove("root");
            known == application
        };
        let known = self.output.applications.iter().find(|(_, known)| is_same(known));
        if let Some((known, _)) = known.filter(|_| is_shared) {
            return known.clone();
        }
        application.insert("root".into(), plain(root).into());
        self.add_application(&name, application)
    }

    /// Adds an application, unless there is the same one.
    pub(super) fn add_application(
        &mut self,
        name: &str,
        application: Map<String, Value>,
    ) -> String {
        let value = Value::from(application);
        let same = self.output.applications.iter().find(|(_, known)| **known == value);
        if let Some((known, _)) = same {
            return known.clone();
        }
        let mut unique = name.to_owned();
        let mut number = 2;
        while self.output.applications.contains_key(&unique) {
            unique = format!("{name} {number}");
            number += 1;
        }
        self.output.applications.insert(unique.clone(), value);
        unique
    }

    /// Returns the action for files.
    pub(super) fn files(
        &mut self,
        engine: &Engine,
        root: &str,
        application: Option<&str>,
    ) -> Value {
        let mut htaccess = Map::new();
        if let Some(words) = &engine.allow {
            htaccess.insert("allow".into(), words.clone());
        }
        let mut names = Vec::new();
        for node in self.all().filter(|node| node.name == "accessfilename").collect::<Vec<_>>() {
            names = node.words();
            let (status, reason) = match names.len() {
                1 => (Status::Converted, ""),
                _ => (Status::Changed, "the files have one name, the first one"),
            };
            match node.id {
                Some(id) if status == Status::Converted => self.report.converted(id),
                _ => mark(self.report, node, status, reason),
            }
        }
        if let Some(name) = names.first().filter(|name| *name != ".htaccess" && !name.contains('/'))
        {
            htaccess.insert("file".into(), json!(name));
        }
        let index = self.last("directoryindex").is_none();
        if index {
            htaccess.insert("index".into(), "index.html".into());
        }
        htaccess.insert("options".into(), "FollowSymLinks".into());
        if application.is_some() {
            htaccess.insert("scripts".into(), debian::SCRIPTS.into());
        }
        for (key, list) in [("sections", &engine.sections), ("aliases", &engine.aliases)] {
            if !list.is_empty() {
                htaccess.insert(key.into(), list.clone().into());
            }
        }
        if !engine.without_scripts.is_empty() {
            htaccess.insert("without_scripts".into(), json!(engine.without_scripts));
        }
        if !engine.maps.is_empty() {
            htaccess.insert("maps".into(), engine.maps.clone().into());
        }
        if !engine.directives.is_empty() {
            htaccess.insert("directives".into(), json!(engine.directives));
        }
        let mut action = Map::new();
        action.insert("share".into(), format!("{root}$uri").into());
        if let Some(application) = application {
            action.insert("scripts".into(), format!("applications/{application}").into());
        }
        action.insert("htaccess".into(), htaccess.into());
        action.insert("max_body_size".into(), self.body_limit().into());
        action.extend(self.members.clone());
        action.into()
    }

    /// Returns the largest limit of a body in any place of the host; the engine has the others.
    pub(super) fn body_limit(&self) -> u64 {
        let mut limit = proxy::body_limit(None);
        for node in self.all() {
            node.each(&mut |node| {
                if node.name == "limitrequestbody"
                    && let Ok(own) = node.first().parse::<u64>()
                {
                    limit = limit.max(proxy::body_limit(Some(own)));
                }
            });
        }
        limit
    }

    /// Returns steps for directories whose scripts another server runs.
    pub(super) fn steps_of_directories(
        &mut self,
        engine: &Engine,
        root: &str,
        files: &Value,
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        for (directory, address, id) in engine.directory_servers.iter().rev() {
            let slashed = format!("{}/", directory.trim_end_matches('/'));
            let mut paths: Vec<String> = Vec::new();
            if let Some(below) = slashed.strip_prefix(&format!("{root}/")) {
                paths.push(format!("/{below}"));
            }
            for alias in &engine.aliases {
                let (Some(path), Some(target)) = (alias["path"].as_str(), alias["target"].as_str())
                else {
                    continue;
                };
                let target = format!("{}/", target.trim_end_matches('/'));
                let path = path.trim_end_matches('/');
                if let Some(below) = slashed.strip_prefix(&target) {
                    paths.push(format!("{path}/{below}"));
                } else if target.starts_with(&slashed) {
                    paths.push(format!("{path}/"));
                }
            }
            if paths.is_empty() || directory.contains(['*', '?', '[']) {
                if let Some(id) = id {
                    let reason = "one application runs all scripts of the host";
                    self.report.mark(*id, Status::Changed, reason);
                }
                continue;
            }
            let application = self.fastcgi(address, directory.trim_end_matches('/'), true);
            let mut action = files.clone();
            action["scripts"] = format!("applications/{application}").into();
            action["htaccess"]["scripts"] = debian::SCRIPTS.into();
            let patterns: Vec<String> = paths
                .iter()
                .flat_map(|path| [path.trim_end_matches('/').to_owned(), format!("{path}*")])
                .filter(|pattern| !pattern.is_empty())
                .collect();
            steps.push(json!({"match": {"uri": patterns}, "action": action}));
        }
        steps
    }
}

/// Returns a root without variables, as applications have it.
pub(super) fn plain(root: &str) -> String {
    let root = root.replace("${dollar}", "$");
    match root.find("/$host") {
        Some(end) => root[..end.max(1)].to_owned(),
        None => root,
    }
}
