//! Access control of the whole site, in front of rules and files.

use serde_json::{Map, Value, json};

use crate::access::{self, Access};
use crate::folder::{Auth, Folder, Log, Methods, Scope, Section, encoded};
use crate::matching::Match;
use crate::notes::Note;
use crate::pcre::escape;
use crate::site::Site;
use crate::tree::Tree;
use crate::variants::{exact_name, finds, may_find, pattern_of};

/// Access control, translated.
pub struct Entry {
    /// What is refused whatever else holds, with its status.
    refusals: Vec<(Match, u16)>,
    /// mod_access_compat; the first rule that matches decides.
    compat: Vec<Rule>,
    /// `Require`, likewise.
    require: Vec<Rule>,
}

struct Rule {
    target: Match,
    access: Access,
    auth: Option<Value>,
}

/// Which directives decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum System {
    Compat,
    Require,
}

impl Entry {
    /// Translates the directives of all folders.
    pub fn new(tree: &Tree<'_, '_>, site: &Site<'_>, notes: &mut Vec<Note>) -> Entry {
        let mut entry = Entry { refusals: Vec::new(), compat: Vec::new(), require: Vec::new() };
        for folder in tree.folders.iter().rev() {
            let chain = tree.chain(folder);
            let index = index_of(&chain);
            if let Some(status) = folder.broken {
                entry.refusals.push((below(folder), status));
            }
            // Apache rewrites nothing where links are not followed, and refuses.
            let rules = chain.iter().rev().find_map(|folder| folder.rules.as_ref());
            if rules.is_some_and(|rules| rules.is_on) && !follows_links(&chain) {
                entry.refusals.push((below(folder), 403));
            }
            if folder.own.is_refused {
                entry.refusals.push((below(folder), 403));
            }
            if folder.has_no_path_info {
                let uri = vec![format!("{}*.php/*", encoded(&folder.url))];
                entry.refusals.push((Match::uri(uri), 404));
            }
            for section in &folder.sections {
                if section.scope.is_refused || section.scope.has_no_php {
                    entry.refusals.push((named(section, folder, &index), 403));
                }
            }
        }
        entry.compat = rules(System::Compat, tree, site, notes);
        entry.require = rules(System::Require, tree, site, notes);
        entry
    }

    /// Returns true if nothing but the files of rules themselves is refused.
    pub fn is_empty(&self) -> bool {
        self.refusals.is_empty() && self.compat.is_empty() && self.require.is_empty()
    }

    /// Returns true if everybody may have a path, whatever the request.
    pub fn is_open(&self, path: &str) -> bool {
        let may_match =
            |target: &Match| target.uri.is_empty() || target.uri.iter().any(|p| accepts(p, path));
        let is_granted = |rules: &[Rule]| {
            rules
                .iter()
                .find(|rule| may_match(&rule.target))
                .is_none_or(|rule| rule.access.is_granted())
        };
        !self.refusals.iter().any(|(target, _)| may_match(target))
            && is_granted(&self.compat)
            && is_granted(&self.require)
    }

    /// Returns the routes of access control with what comes behind them.
    pub fn routes(
        &self,
        rest: Vec<Value>,
        answers: &Map<String, Value>,
    ) -> Vec<(String, Vec<Value>)> {
        let mut routes = Vec::new();
        let mut current = rest;
        for (rules, next, own) in
            [(&self.require, "rules", "require"), (&self.compat, "require", "main")]
        {
            if rules.is_empty() {
                continue;
            }
            let next = if own == "main" && self.require.is_empty() { "rules" } else { next };
            let pass = json!({ "pass": format!("routes/{next}") });
            let refuse = with_fields(json!({ "return": 403 }), answers);
            let mut steps = Vec::new();
            for rule in rules {
                rule.access.steps(&rule.target, rule.auth.as_ref(), &pass, &refuse, &mut steps);
            }
            let passes = steps.iter().any(|step| step["action"].get("pass").is_some());
            match passes {
                true => {
                    routes.push((next.to_owned(), current));
                    steps.push(json!({ "action": pass }));
                    current = steps;
                }
                false => {
                    steps.extend(current);
                    current = steps;
                }
            }
        }
        let mut main: Vec<Value> =
            vec![json!({ "match": { "uri": "*/.ht*" }, "action": { "return": 403 } })];
        for (target, status) in &self.refusals {
            main.push(target.step(with_fields(json!({ "return": status }), answers)));
        }
        main.extend(current);
        routes.push(("main".to_owned(), main));
        routes.reverse();
        routes
    }
}

/// Adds fields of responses to an action.
pub fn with_fields(mut action: Value, fields: &Map<String, Value>) -> Value {
    if !fields.is_empty() {
        action["response_headers"] = Value::Object(fields.clone());
    }
    action
}

/// Returns the index files of a directory.
pub fn index_of(chain: &[&Folder<'_>]) -> Vec<String> {
    let own = chain.iter().rev().find_map(|folder| folder.index.clone());
    let index = own.unwrap_or_else(|| vec!["index.html".to_owned(), "index.php".to_owned()]);
    index.into_iter().filter(|name| !name.contains(['/', '$'])).collect()
}

/// Returns true if symbolic links are followed in a directory.
pub fn follows_links(chain: &[&Folder<'_>]) -> bool {
    let (mut all, mut own) = (true, false);
    for words in chain.iter().flat_map(|folder| &folder.options) {
        if words.iter().any(|word| !word.starts_with(['+', '-'])) {
            (all, own) = (false, false);
        }
        for word in words {
            let is_on = !word.starts_with('-');
            match word.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
                "followsymlinks" | "all" => all = is_on,
                "symlinksifownermatch" => own = is_on,
                _ => {}
            }
        }
    }
    all || own
}

/// Rules in the order in which they decide: sections before directories, what is deeper or comes later before the
/// rest. Those that grant at the end are left out.
fn rules(system: System, tree: &Tree<'_, '_>, site: &Site<'_>, notes: &mut Vec<Note>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let with_index: Vec<_> =
        { tree.folders.iter() }.filter(|folder| folder.index.is_some()).collect();
    for folder in tree.folders.iter().rev() {
        let chain = tree.chain(folder);
        let mut index = index_of(&chain);
        // A section also holds for the index files of the directories below.
        let below_it = with_index.iter().filter(|other| other.url.starts_with(&folder.url));
        let of_others = below_it.flat_map(|other| index_of(&[*other]));
        if !folder.sections.is_empty() {
            index.extend(of_others);
            index.sort();
            index.dedup();
        }
        for section in folder.sections.iter().rev() {
            let own = Some(&section.scope.auth);
            let mut found = Vec::new();
            let below = below(folder);
            scope(system, &section.scope, own, &chain, below, site, notes, &mut found);
            let log = &mut Log { file: folder.file, notes };
            found.into_iter().for_each(|rule| {
                let methods = Match { method: rule.target.method.clone(), ..Match::default() };
                rules.extend(by_name(rule, section, folder, &index, &methods, log));
            });
        }
    }
    for folder in tree.folders.iter().rev() {
        let chain = tree.chain(folder);
        scope(system, &folder.own, None, &chain, below(folder), site, notes, &mut rules);
    }
    while rules.last().is_some_and(|rule| rule.access.is_granted()) {
        rules.pop();
    }
    rules
}

#[allow(clippy::too_many_arguments)]
fn scope(
    system: System,
    scope: &Scope<'_>,
    own_auth: Option<&Auth>,
    chain: &[&Folder<'_>],
    target: Match,
    site: &Site<'_>,
    notes: &mut Vec<Note>,
    rules: &mut Vec<Rule>,
) {
    let nodes = match system {
        System::Compat => &scope.compat,
        System::Require => &scope.require,
    };
    let mut kinds: Vec<&Methods> = nodes.iter().map(|(methods, _)| methods).collect();
    // Directives for some methods come before those for all.
    kinds.sort_by_key(|methods| methods.is_empty());
    kinds.dedup();
    let variables: Vec<_> = chain.iter().flat_map(|folder| folder.variables.clone()).collect();
    let file = chain.last().map(|folder| folder.file).unwrap_or_default();
    for methods in kinds {
        // `Allow` and `Deny` for all methods hold beside those for some.
        let holds = |other: &Methods| {
            other == methods || matches!(system, System::Compat) && other.is_empty()
        };
        let own: Vec<_> =
            { nodes.iter() }.filter(|(other, _)| holds(other)).map(|(_, node)| *node).collect();
        let mut log = Log { file, notes };
        let result = match system {
            System::Compat => access::compat(&own, &variables, &mut log),
            System::Require => access::require(&own, &variables, &mut log),
        };
        let mut auth = None;
        let access = match result {
            Ok(access) if access.grants.iter().any(|grant| grant.needs_user) => {
                match basic_auth(chain, own_auth, site) {
                    Ok(value) => {
                        auth = Some(value);
                        access
                    }
                    Err(reason) => {
                        log.refused(own[0], &reason);
                        Access::denied()
                    }
                }
            }
            Ok(access) => access,
            Err((node, reason)) => {
                log.refused(node, &reason);
                Access::denied()
            }
        };
        let methods = Match { method: methods.clone(), ..Match::default() };
        let Some(target) = target.and(&methods) else { continue };
        let (refuse, pass) = (json!({ "return": 403 }), json!({ "pass": "routes/rules" }));
        if !access.steps(&target, auth.as_ref(), &pass, &refuse, &mut Vec::new()) {
            log.refused(own[0], "routes cannot combine its conditions");
        }
        if own_auth.is_none() && !access.is_granted() && may_ask_for_get(&methods.method, &access) {
            // Apache asks for the index file of a directory with GET, whatever the method of the request.
            let mut others = directories(&target);
            others.method = vec!["!GET".to_owned(), "!HEAD".to_owned()];
            log.remark(own[0], "of directories, other methods than GET are refused");
            rules.push(Rule { target: others, access: Access::denied(), auth: None });
        }
        rules.push(Rule { target, access, auth });
    }
}

/// Returns true if access depends on the method, and may be refused for GET.
fn may_ask_for_get(methods: &Methods, access: &Access) -> bool {
    let accepts = methods.iter().any(|method| !method.starts_with('!'));
    let is_named = |method: &str| methods.iter().any(|known| known == method);
    let by_limit = !methods.is_empty() && if accepts { is_named("GET") } else { !is_named("!GET") };
    let asks = |matching: &Match| !matching.method.is_empty();
    by_limit
        || access.refusals.iter().any(asks)
        || access.grants.iter().any(|grant| grant.when.iter().any(asks))
}

/// Matches the directories among the paths of a directory.
fn directories(below: &Match) -> Match {
    let urls = below.uri.iter().filter_map(|uri| uri.strip_suffix('*'));
    let mut uri: Vec<String> = urls.flat_map(|url| [url.to_owned(), format!("{url}*/")]).collect();
    if uri.is_empty() {
        uri.push("*/".to_owned());
    }
    Match::uri(uri)
}

/// Returns the rules of a section. A pattern of paths may find more than the names that the section is for: such a
/// pattern must open nothing.
fn by_name(
    rule: Rule,
    section: &Section<'_>,
    folder: &Folder<'_>,
    index: &[String],
    methods: &Match,
    log: &mut Log<'_>,
) -> Vec<Rule> {
    let refuse = |target: Match| {
        target.and(methods).map(|target| Rule { target, access: Access::denied(), auth: None })
    };
    let wide = named(section, folder, index);
    if rule.access.grants.is_empty() {
        if pattern_of(section).is_none() {
            log.refused(section.node, "routes cannot have its pattern");
        }
        return refuse(wide).into_iter().collect();
    }
    let is_granted = rule.access.is_granted();
    let mut rules = Vec::new();
    match narrow(section, folder).and_then(|target| target.and(methods)) {
        Some(target) => rules.push(Rule { target, ..rule }),
        None if is_granted => {
            log.left_out(
                section.node,
                "its pattern may find more in a path than it does in a name, and opens something",
            );
        }
        None => {
            log.refused(section.node, "its pattern may find more in a path than it does in a name")
        }
    }
    if !is_granted {
        rules.extend(refuse(wide));
    }
    rules
}

/// Returns the value of `basic_auth`.
fn basic_auth(chain: &[&Folder<'_>], own: Option<&Auth>, site: &Site<'_>) -> Result<Value, String> {
    let mut auth = Auth::default();
    for other in chain.iter().map(|folder| &folder.own.auth).chain(own) {
        auth.kind = other.kind.clone().or(auth.kind);
        auth.realm = other.realm.clone().or(auth.realm);
        auth.users = other.users.clone().or(auth.users);
        auth.is_unknown |= other.is_unknown;
    }
    let is_basic = auth.kind.is_some_and(|kind| kind.eq_ignore_ascii_case("basic"));
    if !is_basic || auth.is_unknown {
        return Err("routes have passwords of the Basic scheme from one file only".to_owned());
    }
    let users = auth.users.ok_or("there is no AuthUserFile")?;
    if !users.starts_with('/') || !(site.exists)(users.as_bytes()) {
        return Err(format!("there is no file {users}; write its absolute path"));
    }
    let realm = auth.realm.ok_or("there is no AuthName")?;
    let mut value = json!({ "users_file": users });
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
    if realm.bytes().all(is_plain) {
        value["realm"] = json!(realm);
    }
    Ok(value)
}

/// Matches a directory, with and without the slash at its end, and everything below it.
fn below(folder: &Folder<'_>) -> Match {
    match folder.url.as_slice() {
        b"/" => Match::default(),
        url => {
            let url = encoded(url);
            Match::uri(vec![url.trim_end_matches('/').to_owned(), format!("{url}*")])
        }
    }
}

/// Matches the paths whose file a section may be for: their last segment, or a script in front of it.
fn named(section: &Section<'_>, folder: &Folder<'_>, index: &[String]) -> Match {
    let Some(pattern) = pattern_of(section) else { return below(folder) };
    let is_root = folder.url == b"/";
    let url = encoded(&folder.url);
    let mut uri = Vec::new();
    if let Some(name) = exact_name(section) {
        let encoded_name = encoded(name.as_bytes());
        let mut add = |tail: &str| match is_root {
            true => uri.push(format!("*/{encoded_name}{tail}")),
            false => {
                uri.push(format!("{url}{encoded_name}{tail}"));
                uri.push(format!("{url}*/{encoded_name}{tail}"));
            }
        };
        add("");
        if name.ends_with(".php") {
            add("/*");
        }
    } else {
        let directory = escape(&folder.url);
        uri.push(format!("~{}", pattern.on_name(&directory, false)));
        // A path can go on behind the name of a script.
        let may_be_script = match pattern.suffixes() {
            Some(suffixes) => suffixes.iter().any(|suffix| suffix.eq_ignore_ascii_case("php")),
            None => true,
        };
        if may_be_script {
            uri.push(format!("~{}", pattern.on_name(&directory, true)));
        }
    }
    if index.iter().any(|name| pattern.matches(name)) {
        // The file is what requests for the directory get.
        match is_root {
            true => uri.push("*/".to_owned()),
            false => uri.extend([url.clone(), format!("{url}*/")]),
        }
    }
    Match::uri(uri)
}

/// Matches the paths whose last segment is a name that a section is for; `None` if no pattern finds these alone.
fn narrow(section: &Section<'_>, folder: &Folder<'_>) -> Option<Match> {
    let url = encoded(&folder.url);
    let uri = match exact_name(section) {
        Some(name) => {
            let name = encoded(name.as_bytes());
            match folder.url == b"/" {
                true => vec![format!("*/{name}")],
                false => vec![format!("{url}{name}"), format!("{url}*/{name}")],
            }
        }
        None => {
            let pattern = pattern_of(section)?;
            pattern.suffixes()?;
            vec![format!("~{}", pattern.on_name(&escape(&folder.url), false))]
        }
    };
    Some(Match::uri(uri))
}

/// Returns true if a pattern of paths accepts one, or may do so.
pub fn accepts(pattern: &str, path: &str) -> bool {
    if let Some(text) = pattern.strip_prefix('~') {
        // Most patterns are those of other directories; to compile each of them would take minutes.
        return may_find(text, path) && finds(text, path);
    }
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == path };
    let Some(mut path) = path.strip_prefix(start) else { return false };
    let mut parts = rest.rsplitn(2, '*');
    let end = parts.next().unwrap_or_default();
    for part in parts.next().into_iter().flat_map(|middle| middle.split('*')) {
        let Some(at) = path.find(part) else { return false };
        path = &path[at + part.len()..];
    }
    path.ends_with(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wildcards_accept_what_their_expressions_find(pattern in "[ab*]{0,7}", path in "[ab]{0,7}") {
            let parts: Vec<_> = pattern.split('*').collect();
            let expression = format!("^{}$", parts.join(".*"));
            prop_assert_eq!(accepts(&pattern, &path), finds(&expression, &path));
        }
    }
}
