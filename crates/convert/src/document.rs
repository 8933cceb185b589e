//! The document: all steps in Apache's order.
//!
//! 1. Access (`main`, and `require` if both kinds of directives occur): what is refused, and who gets through.
//! 2. Rules (`rules`): directories with rules of their own first, then those of the root; redirects of mod_alias
//!    come before the first rewrite.
//! 3. Files (`files`): fields by name, then the share. Its fallback has the rules for missing files (`missing`).
//!
//! A rewrite goes back to `main`, as Apache starts again after one.

use howdah_htaccess::base::Base;
use howdah_htaccess::parse;
use howdah_htaccess::parse::Node;
use serde_json::{Map, Value, json};

use crate::conditions::Missing;
use crate::entry::{self, Entry};
use crate::folder::{Folder, Log, encoded, inherit, sort, words_of};
use crate::index;
use crate::matching::Match;
use crate::notes::{Kind, Note};
use crate::redirects;
use crate::rounds;
use crate::rules::{self, Action, Step};
use crate::site::{Conversion, Site};
use crate::template::literal;
use crate::tree::Tree;
use crate::variants::Chain;

/// Name of the application.
const APPLICATION: &str = "site";

/// Converts a site.
pub fn convert(site: &Site<'_>) -> Conversion {
    let mut notes = Vec::new();
    let mut files: Vec<_> = site.files.iter().collect();
    files.sort_by(|a, b| a.directory.cmp(&b.directory));
    let base = Base::default();
    let read: Vec<Result<Vec<Node>, (u16, String)>> = { files.iter() }
        .map(|file| {
            let bytes = file.content.as_ref().map_err(|error| (403, error.clone()))?;
            let mut directory = [site.root.as_bytes(), b"/", &file.directory].concat();
            if !file.directory.is_empty() {
                directory.push(b'/');
            }
            parse::directives(bytes, file.path.as_bytes(), &directory, &base, site.exists)
                .map_err(|broken| (500, broken.message))
        })
        .collect();
    let mut folders = vec![Folder { url: b"/".to_vec(), ..Folder::default() }];
    for (file, nodes) in files.iter().zip(&read) {
        let is_root = file.directory.is_empty();
        let mut folder = match is_root {
            true => std::mem::take(&mut folders[0]),
            false => Folder::default(),
        };
        folder.url = match is_root {
            true => b"/".to_vec(),
            false => [b"/", file.directory.as_slice(), b"/"].concat(),
        };
        folder.file = &file.path;
        match nodes {
            Ok(nodes) => sort(nodes, &mut folder, &mut Log { file: &file.path, notes: &mut notes }),
            Err((status, reason)) => {
                folder.broken = Some(*status);
                let reason = match status {
                    403 => format!(
                        "it cannot be read, and all below its directory is refused: {reason}"
                    ),
                    _ => format!(
                        "it has an error, and all below its directory is answered with 500: {reason}"
                    ),
                };
                let (line, directive) = (0, String::new());
                let file = file.path.clone();
                notes.push(Note { file, line, directive, kind: Kind::Refused, reason });
            }
        }
        match is_root {
            true => folders[0] = folder,
            false => folders.push(folder),
        }
    }
    inherit(&mut folders, &mut notes);
    let mut builder = Builder {
        site,
        tree: Tree::new(&folders),
        notes,
        routes: Map::new(),
        directories: 0,
        fronts: Vec::new(),
    };
    let document = builder.document();
    Conversion { document, notes: builder.notes }
}

struct Builder<'b, 'a> {
    site: &'b Site<'b>,
    tree: Tree<'b, 'a>,
    notes: Vec<Note>,
    routes: Map<String, Value>,
    /// Number of directories with routes of their own.
    directories: usize,
    /// Scripts of targets for all requests.
    fronts: Vec<String>,
}

/// What stands in front of a rule.
struct Before<'s, 'b, 'a> {
    /// Folders from the root to that of the rule.
    chain: &'s [&'b Folder<'a>],
    /// Rules.
    rules: &'s [Step],
    /// The same as steps, without those for the path that was asked for alone.
    steps: &'s [Value],
}

impl<'b, 'a> Builder<'b, 'a> {
    fn document(&mut self) -> Value {
        let root = &self.tree.folders[0];
        let entry = Entry::new(&self.tree, self.site, &mut self.notes);
        let mut rest = self.dispatch(&entry);
        rest.extend(self.route(&self.tree.chain(root), &entry, "files", "missing"));
        for (name, steps) in entry.routes(rest, &Chain(&[root]).of_answers()) {
            self.routes.insert(name, Value::Array(steps));
        }
        let mut options = self.error_pages(root, &entry);
        if let Some(max) = root.max_body.filter(|max| *max > 0) {
            options.insert("max_body_size".to_owned(), json!(max));
        }
        let mut start = "routes/main";
        if !options.is_empty() {
            options.insert("pass".to_owned(), json!("routes/main"));
            self.routes.insert("start".to_owned(), json!([{ "action": options }]));
            start = "routes/start";
        }
        let mut document = json!({
            "listeners": { (self.site.listener): { "pass": start } },
            "routes": std::mem::take(&mut self.routes),
        });
        if self.has_application() {
            document["applications"] = json!({ APPLICATION: self.application() });
        }
        let mut types: Map<String, Value> = Map::new();
        for (kind, suffix) in self.tree.folders.iter().flat_map(|folder| &folder.types) {
            let list = types.entry(kind.clone()).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(json!(format!(".{suffix}")));
            }
        }
        if !types.is_empty() {
            document["settings"] = json!({ "http": { "static": { "mime_types": types } } });
        }
        document
    }

    fn has_application(&self) -> bool {
        (self.site.has_php || !self.fronts.is_empty()) && !self.tree.folders[0].own.has_no_php
    }

    fn application(&self) -> Value {
        let root = &self.tree.folders[0];
        let mut application = json!({ "type": "php" });
        let mut targets = json!({ "files": { "root": self.site.root } });
        for (index, script) in self.fronts.iter().enumerate() {
            targets[front_name(index)] = json!({ "root": self.site.root, "script": script });
        }
        application["targets"] = targets;
        if !root.php.is_empty() {
            let settings: Map<_, _> = { root.php.iter() }
                .map(|(name, value)| {
                    let value = match value.to_ascii_lowercase().as_str() {
                        "on" => "1".to_owned(),
                        "off" => "0".to_owned(),
                        _ => value.clone(),
                    };
                    (name.clone(), json!(value))
                })
                .collect();
            application["options"] = json!({ "user": settings });
        }
        if !root.environment.is_empty() {
            let pairs = root.environment.iter().map(|(name, value)| (name.clone(), json!(value)));
            application["environment"] = Value::Object(pairs.collect());
        }
        let closed = self.tree.folders.iter().filter(|folder| folder.own.has_no_php);
        let mut directories: Vec<String> = closed
            .map(|folder| {
                let url = String::from_utf8_lossy(&folder.url);
                format!("!{}{}", self.site.root, url.trim_end_matches('/'))
            })
            .collect();
        if !directories.is_empty() {
            directories.insert(0, self.site.root.to_owned());
            application["script_directories"] = json!(directories);
        }
        application
    }

    /// Steps to the routes of directories that have rules or fields of their own.
    fn dispatch(&mut self, entry: &Entry) -> Vec<Value> {
        let mut steps = Vec::new();
        for folder in self.tree.folders.iter().skip(1).rev() {
            if folder.broken.is_some() || !has_route(folder) {
                continue;
            }
            let name: String = String::from_utf8_lossy(&folder.url)
                .trim_matches('/')
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
                .collect();
            let name = format!("in-{name}-{}", self.directories);
            self.directories += 1;
            let (files, missing) = (format!("{name}-files"), format!("{name}-missing"));
            let route = self.route(&self.tree.chain(folder), entry, &files, &missing);
            self.routes.insert(name.clone(), Value::Array(route));
            let mut action = self.error_pages(folder, entry);
            action.insert("pass".to_owned(), json!(format!("routes/{name}")));
            let uri = format!("{}*", encoded(&folder.url));
            steps.push(Match::uri(vec![uri]).step(Value::Object(action)));
        }
        steps
    }

    /// Steps of a directory: rules, then files.
    fn route(
        &mut self,
        chain: &[&'b Folder<'a>],
        entry: &Entry,
        files: &str,
        missing: &str,
    ) -> Vec<Value> {
        let owner = chain.iter().rev().find(|folder| folder.rules.is_some());
        let mut translated =
            match owner.and_then(|folder| folder.rules.as_ref().map(|r| (folder, r))) {
                Some((folder, rules)) => {
                    let mut log = Log { file: folder.file, notes: &mut self.notes };
                    rules::translate(rules, &folder.url, &entry::index_of(chain), &mut log)
                }
                None => rules::Translated::default(),
            };
        let mut moved = Vec::new();
        for folder in chain.iter().rev() {
            let mut log = Log { file: folder.file, notes: &mut self.notes };
            moved.extend(redirects::translate(&folder.redirects, &mut log));
        }
        // A redirect of mod_alias comes before a rewrite inside the server and behind other answers of rules.
        let inside = |step: &Step| matches!(step.action, Action::Rewrite { .. } | Action::Stop);
        let at = translated.steps.iter().position(inside).unwrap_or(translated.steps.len());
        translated.steps.splice(at..at, moved);
        let answers = Chain(chain).of_answers();
        let (mut steps, mut repeated) = (Vec::new(), Vec::new());
        for (number, step) in translated.steps.iter().enumerate() {
            let name = format!("{files}-again-{number}");
            let before = Before { chain, rules: &translated.steps[..number], steps: &repeated };
            let action = self.action(step, entry, files, &answers, (&before, &name));
            for matching in &step.matches {
                let step = matching.step(action.clone());
                repeated.extend((!matching.is_first_round).then(|| step.clone()));
                steps.push(step);
            }
        }
        let before = Before { chain, rules: &translated.steps, steps: &repeated };
        let (fallback, extra) =
            self.fallback(&before, &translated, entry, (files, missing), &answers);
        let mut served = self.files(chain, fallback.as_ref(), translated.kind);
        served.splice(0..0, extra);
        // Without index files, directories are those of the rules for missing files.
        if translated.kind != Some(Missing::Files) {
            let names = entry::index_of(chain);
            let lists = index::steps(&translated.steps, &names, files, &answers);
            if !lists.is_empty() {
                self.routes.insert(format!("{files}-found"), Value::Array(served));
                let first = json!({ "pass": format!("routes/{files}-index-0") });
                let other = json!({ "pass": format!("routes/{files}-found") });
                let directories = Match::uri(vec!["*/".to_owned()]);
                served = vec![directories.step(first), Match::default().step(other)];
            }
            for (number, steps) in lists.into_iter().enumerate() {
                self.routes.insert(format!("{files}-index-{number}"), Value::Array(steps));
            }
        }
        let is_shared = translated.steps.iter().any(|step| step.action == Action::Stop);
        match is_shared {
            true => {
                self.routes.insert(files.to_owned(), Value::Array(served));
                steps.push(json!({ "action": { "pass": format!("routes/{files}") } }));
            }
            false => steps.extend(served),
        }
        steps
    }

    fn action(
        &mut self,
        step: &Step,
        entry: &Entry,
        files: &str,
        answers: &Map<String, Value>,
        (before, again): (&Before<'_, 'b, 'a>, &str),
    ) -> Value {
        match &step.action {
            Action::Stop => json!({ "pass": format!("routes/{files}") }),
            Action::Refuse(status) => entry::with_fields(json!({ "return": status }), answers),
            Action::Redirect { status, location, keeps_query } => {
                let mut action = json!({ "return": status, "location": location });
                if *keeps_query {
                    action["keep_query"] = json!(true);
                }
                entry::with_fields(action, answers)
            }
            Action::Rewrite { path, is_literal, is_end } => {
                // Apache does not start again if the path stays as it is.
                let stays = *is_literal
                    && step.matches.iter().any(|matching| rounds::accepts(matching, path));
                let route = match *is_end || stays {
                    true => self.last_route(path, *is_literal, entry),
                    false => "routes/main",
                };
                let action = json!({ "rewrite": path, "pass": route });
                match stays && !*is_end {
                    true => self.again(before, path, action, again),
                    false => action,
                }
            }
        }
    }

    /// Returns the action for a path that a rule leads to and leaves as it is: the steps in front of the rule are
    /// asked again, in a route of this name, before the action `last`.
    fn again(&mut self, before: &Before<'_, 'b, 'a>, path: &str, last: Value, name: &str) -> Value {
        let is_here = |folder: &Folder<'_>| {
            before.chain.last().is_some_and(|innermost| innermost.url == folder.url)
        };
        let folder = rounds::folder_of(self.tree.folders, path, has_route);
        if !folder.is_some_and(is_here) {
            return json!({ "rewrite": path, "pass": "routes/main" });
        }
        if !before.rules.iter().any(|step| rounds::decides(step, path)) {
            return last;
        }
        let mut steps = before.steps.to_vec();
        steps.push(json!({ "action": last }));
        self.routes.insert(name.to_owned(), Value::Array(steps));
        json!({ "rewrite": path, "pass": format!("routes/{name}") })
    }

    /// Returns the route of a path that no rule changes again.
    fn last_route(&mut self, path: &str, is_literal: bool, entry: &Entry) -> &'static str {
        if !(entry.is_empty() || is_literal && entry.is_open(path)) {
            return "routes/main";
        }
        if !self.routes.contains_key("found") {
            // The name is taken before the steps are made.
            self.routes.insert("found".to_owned(), Value::Null);
            let root = &self.tree.folders[0];
            let steps = self.files(&[root], None, None);
            self.routes.insert("found".to_owned(), Value::Array(steps));
        }
        "routes/found"
    }

    /// Returns the fallback of a share, and steps in front of it.
    fn fallback(
        &mut self,
        before: &Before<'_, 'b, 'a>,
        translated: &rules::Translated,
        entry: &Entry,
        (files, missing): (&str, &str),
        answers: &Map<String, Value>,
    ) -> (Option<Value>, Vec<Value>) {
        if translated.missing.is_empty() {
            return self.fallback_resource(before.chain, entry);
        }
        let mut steps = Vec::new();
        for (number, step) in translated.missing.iter().enumerate() {
            let again = format!("{missing}-again-{number}");
            let action = match &step.action {
                Action::Rewrite { path, is_literal, is_end } => {
                    let front = self.front(before.chain, path, *is_literal, entry);
                    match *is_literal && !*is_end {
                        true => self.again(before, path, front, &again),
                        false => front,
                    }
                }
                Action::Stop => json!({ "return": 404 }),
                _ => self.action(step, entry, files, answers, (before, &again)),
            };
            steps.extend(step.matches.iter().map(|matching| matching.step(action.clone())));
        }
        match steps.as_slice() {
            [only] if only.get("match").is_none() => (Some(only["action"].clone()), Vec::new()),
            _ => {
                self.routes.insert(missing.to_owned(), Value::Array(steps));
                (Some(json!({ "pass": format!("routes/{missing}") })), Vec::new())
            }
        }
    }

    /// `FallbackResource`, which does not count for missing scripts.
    fn fallback_resource(
        &mut self,
        chain: &[&'b Folder<'a>],
        entry: &Entry,
    ) -> (Option<Value>, Vec<Value>) {
        let Some((folder, node)) =
            chain.iter().rev().find_map(|folder| folder.fallback.map(|node| (folder, node)))
        else {
            return (None, Vec::new());
        };
        let words = words_of(node);
        let target = words.first().map(String::as_str).unwrap_or_default();
        if target == "disabled" {
            return (None, Vec::new());
        }
        if !target.starts_with('/') || target.contains('?') {
            let mut log = Log { file: folder.file, notes: &mut self.notes };
            log.left_out(node, "routes need a path without a query");
            return (None, Vec::new());
        }
        let action = self.front(chain, &literal(target), true, entry);
        let scripts = Match::uri(vec!["*.php".to_owned(), "*.php/*".to_owned()]);
        let steps = self.files(chain, None, None);
        let steps = steps.last().map(|step| scripts.step(step["action"].clone()));
        (Some(action), steps.into_iter().collect())
    }

    /// Returns the action that hands requests of missing files on to a path.
    fn front(
        &mut self,
        chain: &[&'b Folder<'a>],
        path: &str,
        is_literal: bool,
        entry: &Entry,
    ) -> Value {
        let script = path.strip_prefix('/').filter(|path| is_literal && path.ends_with(".php"));
        let Some(script) =
            script.filter(|_| entry.is_open(path) && !self.tree.folders[0].own.has_no_php)
        else {
            let route = self.last_route(path, is_literal, entry);
            return json!({ "rewrite": path, "pass": route });
        };
        if !(self.site.exists)(format!("{}{path}", self.site.root).as_bytes()) {
            return json!({ "return": 404 });
        }
        let index = match self.fronts.iter().position(|known| known == script) {
            Some(index) => index,
            None => {
                self.fronts.push(script.to_owned());
                self.fronts.len() - 1
            }
        };
        let name = script.rsplit('/').next().unwrap_or_default();
        let action = json!({ "pass": format!("applications/{APPLICATION}/{}", front_name(index)) });
        entry::with_fields(action, &Chain(chain).of_name(Some(name)))
    }

    /// Steps that serve files.
    fn files(
        &mut self,
        chain: &[&'b Folder<'a>],
        fallback: Option<&Value>,
        missing: Option<Missing>,
    ) -> Vec<Value> {
        let index = entry::index_of(chain);
        let mut share = json!({ "share": format!("{}$uri", literal(self.site.root)) });
        if missing == Some(Missing::Files) {
            share["try"] = json!("$uri");
        } else {
            share["index"] = match index.as_slice() {
                [] => json!(""),
                [only] => json!(only),
                list => json!(list),
            };
        }
        if !entry::follows_links(chain) {
            share["follow_symlinks"] = json!(false);
        }
        let has_fronts = !self.fronts.is_empty();
        if (self.site.has_php || has_fronts) && !self.tree.folders[0].own.has_no_php {
            share["scripts"] = json!(format!("applications/{APPLICATION}/files"));
        }
        let directory = chain.last().map(|folder| folder.url.as_slice()).unwrap_or_default();
        let is_there = |name: &&String| {
            let path = [self.site.root.as_bytes(), directory, name.as_bytes()].concat();
            (self.site.exists)(&path)
        };
        let found = index.iter().find(is_there).map(String::as_str);
        let fields = Chain(chain).fields(found);
        let action = |fields: &Map<String, Value>| {
            let mut action = entry::with_fields(share.clone(), fields);
            if let Some(fallback) = fallback {
                action["fallback"] = fallback.clone();
            }
            action
        };
        let mut steps: Vec<Value> = { fields.by_name.iter() }
            .map(|(patterns, fields)| Match::uri(patterns.clone()).step(action(fields)))
            .collect();
        steps.push(json!({ "action": action(&fields.others) }));
        steps
    }

    /// `ErrorDocument` of a directory.
    fn error_pages(&mut self, folder: &'b Folder<'a>, entry: &Entry) -> Map<String, Value> {
        let mut pages = Map::new();
        for node in &folder.error_documents {
            let words = words_of(node);
            let [status, target, ..] = words.as_slice() else { continue };
            let is_status = status.parse().is_ok_and(|status: u16| (400..600).contains(&status));
            let page = match target.as_str() {
                _ if !is_status => Err("routes have no page of this status"),
                "default" => continue,
                url if url.starts_with("http://") || url.starts_with("https://") => Ok(json!({
                    "action": { "return": 302, "location": literal(url) },
                    "keep_status": false,
                })),
                path if path.starts_with('/') && path.contains('?') => {
                    Err("an error page of routes has no query")
                }
                path if path.starts_with('/') && entry.is_open(path) => {
                    let path = literal(path).replace('%', "%25");
                    let route = self.last_route(&path, true, entry);
                    Ok(json!({ "action": { "rewrite": path, "pass": route } }))
                }
                path if path.starts_with('/') => Err("its page is not open to everybody"),
                _ => Err("an error page of routes is a file or a script"),
            };
            match page {
                Ok(page) => {
                    pages.insert(status.clone(), page);
                }
                Err(reason) => {
                    Log { file: folder.file, notes: &mut self.notes }.left_out(node, reason);
                }
            }
        }
        match pages.is_empty() {
            true => Map::new(),
            false => Map::from_iter([("error_pages".to_owned(), Value::Object(pages))]),
        }
    }
}

fn front_name(index: usize) -> String {
    match index {
        0 => "front".to_owned(),
        index => format!("front-{}", index + 1),
    }
}

/// Returns true if a directory needs a route of its own.
fn has_route(folder: &Folder<'_>) -> bool {
    let has_fields =
        |scope: &crate::folder::Scope<'_>| !scope.fields.is_empty() || !scope.expires.is_empty();
    folder.rules.is_some()
        || folder.index.is_some()
        || folder.fallback.is_some()
        || !folder.options.is_empty()
        || !folder.redirects.is_empty()
        || !folder.error_documents.is_empty()
        || has_fields(&folder.own)
        || folder.sections.iter().any(|section| has_fields(&section.scope))
}
