//! mod_rewrite: `RewriteRule` with its conditions, as steps of a route.
//!
//! Steps decide about paths, before a file is looked for. Rules that hold for missing files only
//! (`RewriteCond %{REQUEST_FILENAME} !-f`) become steps of a second route, the fallback of the share.

use howdah_htaccess::parse::Node;

use crate::condition::Captures;
use crate::conditions::{Conditions, Missing};
use crate::folder::{Log, Rules, words_of};
use crate::matching::Match;
use crate::pcre::{Pattern, escape};
use crate::template::{self, HOST_GROUP, Names, Template};

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ends rewriting: the file of the request is served.
    Stop,
    /// Answers with an error.
    Refuse(u16),
    /// Answers with a redirect.
    Redirect {
        /// Status.
        status: u16,
        /// Template of `location`.
        location: String,
        /// The query of the request is added.
        keeps_query: bool,
    },
    /// Continues with another path.
    Rewrite {
        /// Template of `rewrite`.
        path: String,
        /// The path has no variable.
        is_literal: bool,
        /// The rules do not apply to it.
        is_end: bool,
    },
}

/// A rule, translated: one step for each alternative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Alternatives of conditions.
    pub matches: Vec<Match>,
    /// Action.
    pub action: Action,
}

/// Rules of a directory, translated.
#[derive(Debug, Default)]
pub struct Translated {
    /// Steps for all requests.
    pub steps: Vec<Step>,
    /// Steps for requests of missing files.
    pub missing: Vec<Step>,
    /// Paths that count as missing, if there are steps for them.
    pub kind: Option<Missing>,
}

/// Translates the rules of a directory; `directory` is its path in the URL, with a slash at both ends.
/// `index` has the index files of the site.
pub fn translate(
    rules: &Rules<'_>,
    directory: &[u8],
    index: &[String],
    log: &mut Log<'_>,
) -> Translated {
    let mut translation = Translation {
        index,
        done: Translated::default(),
        directory,
        rules,
        base: None,
        is_uncertain: false,
        is_stopped_for_missing: false,
        is_final: false,
        only_missing: None,
        leaves_directory: false,
    };
    if !rules.is_on {
        return translation.done;
    }
    for (index, rule) in rules.rules.iter().enumerate() {
        translation.is_final = index + 1 == rules.rules.len();
        translation.rule(&rule.conditions, rule.rule, log);
    }
    translation.done
}

struct Translation<'a> {
    index: &'a [String],
    done: Translated,
    directory: &'a [u8],
    rules: &'a Rules<'a>,
    /// Value of the variable BASE.
    base: Option<String>,
    /// A rule that was left out may skip those behind it.
    is_uncertain: bool,
    /// A rule for all missing files has come: the others do not see them.
    is_stopped_for_missing: bool,
    /// The rule is the last one.
    is_final: bool,
    /// A rule that ends rewriting for what exists has come: the others see what is missing only.
    only_missing: Option<Missing>,
    /// Its pattern is not found in the empty path of the directory itself, which the others see.
    leaves_directory: bool,
}

/// Words of a rule.
struct Rule<'a> {
    pattern: &'a str,
    target: &'a str,
    flags: Vec<(String, String)>,
}

impl Rule<'_> {
    fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    fn value(&self, names: &[&str]) -> Option<&str> {
        let flag = self.flags.iter().find(|(name, _)| names.contains(&name.as_str()));
        flag.map(|(_, value)| value.as_str())
    }

    /// Returns the status of an answer that is an error.
    fn refusal(&self) -> Option<u16> {
        if self.has(&["f", "forbidden"]) {
            return Some(403);
        }
        if self.has(&["g", "gone"]) {
            return Some(410);
        }
        self.redirect().filter(|status| !(300..400).contains(status))
    }

    /// Returns the status of a redirect.
    fn redirect(&self) -> Option<u16> {
        let is_url = ["http://", "https://"].iter().any(|scheme| self.target.starts_with(scheme));
        match self.value(&["r", "redirect"]) {
            Some("permanent") => Some(301),
            Some("seeother") => Some(303),
            Some("" | "temp") => Some(302),
            Some(number) => Some(number.parse().unwrap_or(302)),
            None => is_url.then_some(302),
        }
    }

    fn is_last(&self) -> bool {
        self.has(&["l", "last", "end"])
    }
}

impl Translation<'_> {
    fn rule(&mut self, conditions: &[&Node], node: &Node, log: &mut Log<'_>) {
        let words = words_of(node);
        let [pattern, target, ..] = words.as_slice() else {
            return log.left_out(node, "it is no text in UTF-8");
        };
        let flags = flags(words.get(2).map(String::as_str).unwrap_or_default());
        let rule = Rule { pattern, target, flags };
        let conditions = Conditions::of(conditions);
        if conditions.is_never {
            return;
        }
        if let Some(status) = rule.refusal() {
            return self.refusal(&rule, status, &conditions, node, log);
        }
        if rule.target == "-" && rule.has(&["e", "env"]) && !rule.is_last() {
            return self.variable(&rule, &conditions, node, log);
        }
        match self.translated(&rule, &conditions) {
            Ok(step) => self.add(step, &rule, &conditions, node, log),
            Err(reason) => self.failed(&rule, &conditions, node, &reason, log),
        }
    }

    fn refusal(
        &mut self,
        rule: &Rule<'_>,
        status: u16,
        conditions: &Conditions,
        node: &Node,
        log: &mut Log<'_>,
    ) {
        let path = self.refused_path(rule);
        let mut reason = conditions.failure.clone();
        let matching = path.unwrap_or_else(|problem| {
            reason = Some(problem);
            Match::default()
        });
        let mut matches = with_path(&conditions.matches, &matching);
        if matches.is_none() {
            reason = Some("routes cannot combine its conditions".to_owned());
            matches = Some(vec![matching]);
        }
        if let Some(reason) = reason {
            log.refused(node, &reason);
        } else if conditions.asks_for_files()
            || self.only_missing.is_some()
            || !self.done.missing.is_empty()
        {
            log.remark(
                node,
                "it also holds where it asks for a file: routes refuse before a file is looked for",
            );
        }
        let matches = matches.unwrap_or_default();
        self.done.steps.push(Step { matches, action: Action::Refuse(status) });
    }

    fn variable(
        &mut self,
        rule: &Rule<'_>,
        conditions: &Conditions,
        node: &Node,
        log: &mut Log<'_>,
    ) {
        let assignments: Vec<&str> = { rule.flags.iter() }
            .filter(|(name, _)| name == "e" || name == "env")
            .map(|(_, value)| value.as_str())
            .collect();
        for assignment in assignments {
            let name = assignment.split(':').next().unwrap_or_default();
            match name {
                // Scripts have it anyway.
                "HTTP_AUTHORIZATION" | "REMOTE_USER" | "Authorization" => {}
                "BASE" if conditions.is_base => {
                    let path = String::from_utf8_lossy(self.directory);
                    self.base = Some(path.trim_end_matches('/').to_owned());
                }
                _ => log.left_out(node, "routes set no variables for scripts"),
            }
        }
    }

    fn failed(
        &mut self,
        rule: &Rule<'_>,
        conditions: &Conditions,
        node: &Node,
        reason: &str,
        log: &mut Log<'_>,
    ) {
        let skips = ["s", "skip", "n", "next", "c", "chain"];
        self.is_uncertain |= rule.has(&skips);
        // Directories are no files: with `!-f` alone, the rule may keep clients from those.
        let is_for_directories = conditions.missing == Some(Missing::Files);
        let is_guarded = conditions.missing.is_some() || conditions.asks_for_other_file;
        let is_internal = rule.redirect().is_none() && rule.target != "-";
        let handler = rule.value(&["h", "handler", "t", "type"]).unwrap_or_default();
        // The source of a script would be sent.
        let is_script = handler.contains("php") || handler.contains("cgi");
        // Apache may repeat a rule until it gives up.
        let is_repeated = rule.has(&["n", "next"]);
        let keeps_away = is_internal || conditions.asks_for_the_client;
        let keeps_from_files =
            is_script || is_repeated || keeps_away && !(is_internal && is_guarded);
        if keeps_from_files || keeps_away && is_for_directories {
            // The rule may keep clients from a file.
            let mut matching = self.refused_path(rule).unwrap_or_else(|_| Match::default());
            if !keeps_from_files {
                matching.uri.push("!~[^/]$".to_owned());
            }
            let matches =
                with_path(&conditions.matches, &matching).unwrap_or_else(|| vec![matching]);
            self.done.steps.push(Step { matches, action: Action::Refuse(403) });
            return log.refused(node, reason);
        }
        log.left_out(node, reason);
    }

    /// Translates a rule that is no refusal.
    fn translated(&self, rule: &Rule<'_>, conditions: &Conditions) -> Result<Step, String> {
        if let Some(reason) = &conditions.failure {
            return Err(reason.clone());
        }
        if self.is_uncertain {
            return Err("it stands behind a rule that may skip it".to_owned());
        }
        for (names, reason) in UNKNOWN_FLAGS {
            if rule.has(names) {
                return Err((*reason).to_owned());
            }
        }
        if conditions.asks_for_other_file {
            return Err("routes do not look for a file in another place".to_owned());
        }
        let pattern = rule.pattern_of().map_err(str::to_owned)?;
        // The directory itself exists, so a rule for what is missing does not see its empty path.
        let is_inside = conditions.missing.is_some() || self.only_missing.is_some();
        if rule.target == "-" {
            let matching = self.path(rule, &Ok(pattern), false, is_inside)?;
            let matches = self.matches(conditions, &matching)?;
            return Ok(Step { matches, action: Action::Stop });
        }
        let captures = conditions.captures.clone().unwrap_or(Captures::Unknown);
        let is_everything =
            (pattern.is_everything() || pattern.is_everything_inside()) && !rule.is_negated();
        let names = Names {
            first_is_whole: is_everything && pattern.groups == 1 && self.directory == b"/",
            groups: if rule.is_negated() { 0 } else { pattern.groups },
            captures: &captures,
            base: self.base.as_deref(),
        };
        let template = template::parse(rule.target, &names)?;
        let path_is_condition = matches!(captures, Captures::Path) && template.uses_groups;
        let uses_own_groups = template.uses_groups && !path_is_condition;
        let matching = self.path(rule, &Ok(pattern), uses_own_groups, is_inside)?;
        if path_is_condition && !matching.uri.is_empty() {
            return Err("routes cannot combine its pattern with that of its condition".to_owned());
        }
        let mut matches = self.matches(conditions, &matching)?;
        if template.uses_host_groups {
            let Captures::Host(pattern) = &captures else {
                return Err("it has no host".to_owned());
            };
            let (plain, named) = (pattern.search(), pattern.search_named(HOST_GROUP));
            let hosts = matches.iter_mut().flat_map(|matching| &mut matching.host);
            hosts.for_each(|host| {
                if *host == format!("~{plain}") {
                    *host = format!("~{named}");
                }
            });
        }
        let action = self.action(rule, template, path_is_condition)?;
        Ok(Step { matches, action })
    }

    /// `begins_with_path`: a group at the start of the target has the start of a path.
    fn action(
        &self,
        rule: &Rule<'_>,
        template: Template,
        begins_with_path: bool,
    ) -> Result<Action, String> {
        let begins_with = |start: &str| template.text.starts_with(start);
        let has_slash = begins_with("/")
            || begins_with("$uri")
            || begins_with("${uri}")
            || begins_with_path && begins_with("${1}");
        let is_url = template.text.contains("://");
        let relative = !has_slash && !is_url;
        let path = match (&self.rules.base, relative) {
            (Some(base), true) => format!("{}{}", template::literal(base), template.text),
            (None, true) if rule.redirect().is_some() => {
                return Err(
                    "a relative redirect without RewriteBase leads to a path of the file system"
                        .to_owned(),
                );
            }
            (None, true) => {
                let directory = String::from_utf8_lossy(self.directory);
                format!("{}{}", template::literal(&directory), template.text)
            }
            _ => template.text.clone(),
        };
        let Some(status) = rule.redirect() else {
            if template.query.is_some() {
                return Err("a rewrite of routes cannot change the query".to_owned());
            }
            let path = path.replace('%', "%25");
            let is_end = rule.has(&["end"]);
            if !rule.is_last() && !self.is_final {
                return Err(
                    "without the flag L, the rules behind it apply to its result".to_owned()
                );
            }
            return Ok(Action::Rewrite { path, is_literal: template.is_literal, is_end });
        };
        if !rule.is_last() && !self.is_final {
            return Err("without the flag L, the rules behind it apply to its result".to_owned());
        }
        let is_dropped = rule.has(&["qsd", "qsdiscard"]);
        let is_added = rule.has(&["qsa", "qsappend"]);
        let (location, keeps_query) = match template.query.as_deref() {
            None => (path, !is_dropped),
            Some("") => (path, is_added),
            Some(query) => (format!("{path}?{query}"), is_added),
        };
        Ok(Action::Redirect { status, location, keeps_query })
    }

    /// Returns the condition on the path of a rule; none if it holds for all paths below the directory, which are
    /// those of its route; with `is_inside`, for all but the directory itself.
    fn path(
        &self,
        rule: &Rule<'_>,
        pattern: &Result<Pattern, &'static str>,
        needs_groups: bool,
        is_inside: bool,
    ) -> Result<Match, String> {
        let pattern = pattern.as_ref().map_err(|reason| (*reason).to_owned())?;
        let is_everything = pattern.is_everything() || is_inside && pattern.is_everything_inside();
        if is_everything && !needs_groups {
            if rule.is_negated() {
                return Err("it never applies".to_owned());
            }
            return Ok(Match::default());
        }
        let path = pattern.on_path(&escape(self.directory))?;
        if needs_groups && !path.keeps_groups {
            return Err("routes cannot have the groups of its pattern".to_owned());
        }
        let sign = if rule.is_negated() { "!" } else { "" };
        Ok(Match::uri(vec![format!("{sign}~{}", path.text)]))
    }

    /// Returns the condition on the path of a refusal: a directory whose index file is refused is, too.
    fn refused_path(&self, rule: &Rule<'_>) -> Result<Match, String> {
        // The index file of the directory itself is inside.
        let is_inside = !rule.is_negated() && !self.index.is_empty();
        let mut matching = self.path(rule, &rule.pattern_of(), false, is_inside)?;
        let pattern = rule.pattern_of()?;
        if rule.is_negated() || matching.uri.is_empty() {
            return Ok(matching);
        }
        let directory = crate::folder::encoded(self.directory);
        if self.index.iter().any(|name| pattern.matches(name)) {
            matching.uri.push(directory.clone());
        }
        if self.index.iter().any(|name| pattern.matches(&format!("x/{name}"))) {
            matching.uri.push(format!("{directory}*/"));
        }
        for around in self.index.iter().filter_map(|name| pattern.around(name)) {
            matching.uri.push(format!("~{}", around.on_path(&escape(self.directory))?.text));
        }
        Ok(matching)
    }

    fn matches(&self, conditions: &Conditions, path: &Match) -> Result<Vec<Match>, String> {
        with_path(&conditions.matches, path)
            .ok_or_else(|| "routes cannot combine its conditions".to_owned())
    }

    fn add(
        &mut self,
        step: Step,
        rule: &Rule<'_>,
        conditions: &Conditions,
        node: &Node,
        log: &mut Log<'_>,
    ) {
        let pattern = rule.pattern_of().ok().filter(|_| !rule.is_negated());
        let is_inside = pattern.as_ref().is_some_and(Pattern::is_everything_inside);
        let is_all = (is_inside || pattern.as_ref().is_some_and(Pattern::is_everything))
            && conditions.matches.iter().any(Match::is_empty);
        if let Some(there) = conditions.is_there {
            if step.action == Action::Stop && is_all && self.done.missing.is_empty() {
                self.only_missing = Some(there);
                self.leaves_directory = is_inside && there == Missing::FilesAndDirectories;
                return;
            }
            return self.without(
                step,
                node,
                "routes have no condition for paths that name a file",
                log,
            );
        }
        let ends_with_slash = step.matches.iter().all(|matching| {
            matching.uri.iter().any(|uri| !uri.starts_with('!') && uri.ends_with("/$"))
        });
        let missing = match (conditions.missing, self.only_missing) {
            (Some(kind), _) | (None, Some(kind)) => Some(kind),
            // No file has a name with a slash at its end.
            (None, None) if conditions.is_no_directory && ends_with_slash => {
                Some(Missing::FilesAndDirectories)
            }
            (None, None) if conditions.is_no_directory => {
                return self.without(step, node, "routes cannot ask for a directory alone", log);
            }
            (None, None) => None,
        };
        if self.leaves_directory && conditions.missing.is_none() {
            self.for_directory(&step, rule, conditions, node, log);
        }
        let Some(missing) = missing else {
            if self.is_stopped_for_missing || !self.done.missing.is_empty() {
                let reason = "it stands behind a rule for missing files: place it in front";
                return self.without(step, node, reason, log);
            }
            return self.done.steps.push(step);
        };
        if self.is_stopped_for_missing {
            return;
        }
        if self.done.kind.is_some_and(|kind| kind != missing) {
            return log.left_out(node, "another rule counts other paths as missing");
        }
        self.done.kind = Some(missing);
        self.is_stopped_for_missing |= is_all && rule.is_last();
        self.done.missing.push(step);
    }
}

impl Translation<'_> {
    /// Adds a step for the directory itself, if the rule finds its empty path.
    fn for_directory(
        &mut self,
        step: &Step,
        rule: &Rule<'_>,
        conditions: &Conditions,
        node: &Node,
        log: &mut Log<'_>,
    ) {
        let finds = rule.pattern_of().is_ok_and(|pattern| pattern.matches(""));
        if finds == rule.is_negated() {
            return;
        }
        let path = Match::uri(vec![crate::folder::encoded(self.directory)]);
        match self.matches(conditions, &path) {
            Ok(matches) => self.done.steps.push(Step { matches, action: step.action.clone() }),
            Err(reason) => {
                self.done.steps.push(Step { matches: vec![path], action: Action::Refuse(403) });
                log.refused(node, &reason);
            }
        }
    }

    /// Leaves a step out; one that leads away from a file refuses it.
    fn without(&mut self, step: Step, node: &Node, reason: &str, log: &mut Log<'_>) {
        if !matches!(step.action, Action::Rewrite { .. }) {
            return log.left_out(node, reason);
        }
        self.done.steps.push(Step { matches: step.matches, action: Action::Refuse(403) });
        log.refused(node, reason);
    }
}

impl Rule<'_> {
    fn is_negated(&self) -> bool {
        self.pattern.starts_with('!')
    }

    fn pattern_of(&self) -> Result<Pattern, &'static str> {
        let text = self.pattern.strip_prefix('!').unwrap_or(self.pattern);
        let pattern = Pattern::parse(text)?;
        Ok(if self.has(&["nc", "nocase"]) { pattern.without_case() } else { pattern })
    }
}

/// Flags without an equivalent.
const UNKNOWN_FLAGS: &[(&[&str], &str)] = &[
    (&["c", "chain"], "routes have no chains of rules"),
    (&["s", "skip"], "routes do not skip rules"),
    (&["n", "next"], "routes do not repeat rules"),
    (&["co", "cookie"], "routes set no cookies"),
    (&["t", "type", "h", "handler"], "routes set no types or handlers for a path"),
    (&["p", "proxy"], "it is a proxy: use an upstream"),
];

fn flags(text: &str) -> Vec<(String, String)> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let flags = text.split(',').map(str::trim).filter(|flag| !flag.is_empty());
    let flag = |flag: &str| match flag.split_once('=') {
        Some((name, value)) => (name.to_ascii_lowercase(), value.to_owned()),
        None => (flag.to_ascii_lowercase(), String::new()),
    };
    flags.map(flag).collect()
}

fn with_path(matches: &[Match], path: &Match) -> Option<Vec<Match>> {
    matches.iter().map(|matching| path.and(matching)).collect()
}
