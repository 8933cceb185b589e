//! Directives of a directory, sorted by what they become.

use std::collections::HashMap;

use howdah_htaccess::handler_name;
use howdah_htaccess::parse::Node;
use howdah_htaccess::parse::review::is_denial;

use crate::matching::Match;
use crate::notes::{Kind, Note};
use crate::script_names::{is_script, section_is_of_scripts};
use crate::{condition, fields};

/// Remarks on the directives of a file.
pub struct Log<'a> {
    /// Path of the file.
    pub file: &'a str,
    /// Remarks so far.
    pub notes: &'a mut Vec<Note>,
}

impl Log<'_> {
    /// Records a directive that was left out.
    pub fn left_out(&mut self, node: &Node, reason: &str) {
        self.add(node, Kind::LeftOut, reason);
    }

    /// Records a directive that became a refusal.
    pub fn refused(&mut self, node: &Node, reason: &str) {
        self.add(node, Kind::Refused, reason);
    }

    /// Records a difference.
    pub fn remark(&mut self, node: &Node, reason: &str) {
        self.add(node, Kind::Remark, reason);
    }

    fn add(&mut self, node: &Node, kind: Kind, reason: &str) {
        let arguments = String::from_utf8_lossy(&node.arguments);
        let directive = format!("{} {arguments}", node.name).trim().to_owned();
        let directive = directive.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let file = self.file.to_owned();
        let note = Note { file, line: node.line, directive, kind, reason: reason.to_owned() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Returns the words of a directive as text; bytes that are none are replaced.
pub fn words_of(node: &Node) -> Vec<String> {
    node.words().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Returns a path as patterns of routes have it: percent-encoded where a character has a meaning there.
pub fn encoded(path: &[u8]) -> String {
    let mut text = String::new();
    for &byte in path {
        match byte {
            b'%' | b'*' | 0..=b' ' | 0x7f.. => text.push_str(&format!("%{byte:02X}")),
            byte => text.push(char::from(byte)),
        }
    }
    text
}

/// A file of rules.
#[derive(Debug, Default)]
pub struct Folder<'a> {
    /// Path of the directory in URLs, with a slash at both ends.
    pub url: Vec<u8>,
    /// Path of the file.
    pub file: &'a str,
    /// Directives for everything below the directory.
    pub own: Scope<'a>,
    /// Sections by name.
    pub sections: Vec<Section<'a>>,
    /// Rules, if there is a directive of mod_rewrite.
    pub rules: Option<Rules<'a>>,
    /// Redirects of mod_alias.
    pub redirects: Vec<&'a Node>,
    /// `ErrorDocument`.
    pub error_documents: Vec<&'a Node>,
    /// `DirectoryIndex`.
    pub index: Option<Vec<String>>,
    /// Words of each `Options`.
    pub options: Vec<Vec<String>>,
    /// `AcceptPathInfo Off`.
    pub has_no_path_info: bool,
    /// `FallbackResource`.
    pub fallback: Option<&'a Node>,
    /// `AddType` of suffixes.
    pub types: Vec<(String, String)>,
    /// `php_value` and `php_flag`.
    pub php: Vec<(String, String)>,
    /// `SetEnv`.
    pub environment: Vec<(String, String)>,
    /// `LimitRequestBody` in bytes.
    pub max_body: Option<u64>,
    /// Variables of `SetEnvIf`: name, and when they are set; nothing if that is not known.
    pub variables: Vec<(String, Vec<Match>)>,
    /// Status of all requests below the directory, for a file that has an error.
    pub broken: Option<u16>,
}

/// Directives that can stand in a section.
#[derive(Debug, Default)]
pub struct Scope<'a> {
    /// Directives of mod_access_compat, with the methods that they are for.
    pub compat: Vec<(Methods, &'a Node)>,
    /// `Require`, likewise.
    pub require: Vec<(Methods, &'a Node)>,
    /// Authentication.
    pub auth: Auth,
    /// `Header`.
    pub fields: Vec<fields::Field>,
    /// `ExpiresActive`, `ExpiresByType`, `ExpiresDefault`.
    pub expires: fields::Expires,
    /// The section is for scripts of PHP alone.
    pub is_of_scripts: bool,
    /// Scripts do not run.
    pub has_no_php: bool,
    /// Something that may deny access was not understood: everything is refused.
    pub is_refused: bool,
}

/// Patterns of methods; empty for all.
pub type Methods = Vec<String>;

/// Directives of mod_authn.
#[derive(Debug, Default, Clone)]
pub struct Auth {
    /// `AuthType`.
    pub kind: Option<String>,
    /// `AuthName`.
    pub realm: Option<String>,
    /// `AuthUserFile`.
    pub users: Option<String>,
    /// A directive that routes do not have.
    pub is_unknown: bool,
}

/// `<Files>` or `<FilesMatch>`.
#[derive(Debug)]
pub struct Section<'a> {
    /// The section.
    pub node: &'a Node,
    /// What is inside.
    pub scope: Scope<'a>,
}

/// Directives of mod_rewrite.
#[derive(Debug, Default)]
pub struct Rules<'a> {
    /// `RewriteEngine On`, here or in a directory around.
    pub is_on: bool,
    /// There is a `RewriteEngine`.
    pub has_switch: bool,
    /// `RewriteOptions` that takes rules or their base over from directories around.
    pub inherits: Option<&'a Node>,
    /// `RewriteBase`, with a slash at its end.
    pub base: Option<String>,
    /// Rules in their order.
    pub rules: Vec<Rule<'a>>,
}

/// A rule with its conditions.
#[derive(Debug)]
pub struct Rule<'a> {
    /// Conditions.
    pub conditions: Vec<&'a Node>,
    /// The rule.
    pub rule: &'a Node,
}

/// Sorts the directives of a file.
pub fn sort<'a>(nodes: &'a [Node], folder: &mut Folder<'a>, log: &mut Log<'_>) {
    let mut own = std::mem::take(&mut folder.own);
    let mut sorter = Sorter { folder, log, conditions: Vec::new() };
    for node in nodes {
        sorter.node(node, &mut own, &Vec::new(), false);
    }
    folder.own = own;
}

struct Sorter<'s, 'a, 'l> {
    folder: &'s mut Folder<'a>,
    log: &'s mut Log<'l>,
    /// Conditions for the next rule.
    conditions: Vec<&'a Node>,
}

impl<'a> Sorter<'_, 'a, '_> {
    fn node(&mut self, node: &'a Node, scope: &mut Scope<'a>, methods: &Methods, inside: bool) {
        let name = node.name.to_ascii_lowercase();
        let words = words_of(node);
        let word = |index: usize| words.get(index).map(String::as_str).unwrap_or_default();
        match name.as_str() {
            "<files" | "<filesmatch" if !inside => self.section(node),
            "<limit" | "<limitexcept" => self.limit(node, scope, inside),
            "require" | "<requireall" | "<requireany" | "<requirenone" => {
                scope.require.push((methods.clone(), node));
            }
            "order" | "allow" | "deny" | "satisfy" => scope.compat.push((methods.clone(), node)),
            "authtype" => scope.auth.kind = Some(word(0).to_owned()),
            "authname" => scope.auth.realm = Some(word(0).to_owned()),
            "authuserfile" => scope.auth.users = Some(word(0).to_owned()),
            "authbasicprovider" if word(0).eq_ignore_ascii_case("file") && words.len() == 1 => {}
            "authmerging" if word(0).eq_ignore_ascii_case("off") => {}
            "authbasicauthoritative" | "authzsendforbiddenonfailure" => {}
            "authmerging" => {
                scope.is_refused = true;
                self.log
                    .refused(node, "routes do not combine access control of several directories");
            }
            _ if name.starts_with("auth") => {
                scope.auth.is_unknown = true;
                self.log.left_out(node, "routes have no equivalent");
            }
            "header" => match fields::header(&words) {
                Ok(field) => scope.fields.push(field),
                Err(reason) => self.log.left_out(node, &reason),
            },
            "requestheader" if word(0) == "unset" && word(1).eq_ignore_ascii_case("proxy") => {}
            "fileetag" if word(0).eq_ignore_ascii_case("none") => {
                scope.fields.push(fields::Field::removed("ETag"));
            }
            "expiresactive" | "expiresdefault" | "expiresbytype" => {
                if let Err(reason) = scope.expires.add(&name, &words) {
                    self.log.left_out(node, &reason);
                }
            }
            "php_flag" if word(0) == "engine" => {
                if !is_on(word(1)) {
                    scope.has_no_php = true;
                    self.log.remark(node, "scripts are refused; Apache sends their source");
                }
            }
            "addtype" | "addhandler" | "sethandler" | "forcetype" => {
                self.handler(node, &name, &words, scope, inside);
            }
            _ if is_without_effect(&name, &words) => {}
            _ if (inside || !methods.is_empty()) && leads_away(node) => self.refuse(node, scope),
            _ if inside || !methods.is_empty() => self.unknown(node, scope),
            _ => self.plain(node, &name, &words, scope),
        }
    }

    /// Directives that count for a whole directory only.
    fn plain(&mut self, node: &'a Node, name: &str, words: &[String], scope: &mut Scope<'a>) {
        let word = |index: usize| words.get(index).map(String::as_str).unwrap_or_default();
        let is_root = self.folder.url == b"/";
        let folder = &mut *self.folder;
        match name {
            "rewriteengine" => {
                let rules = self.rules();
                (rules.is_on, rules.has_switch) = (is_on(word(0)), true);
            }
            "rewriteoptions" => {
                let takes_over = |word: &String| {
                    let word = word.to_ascii_lowercase();
                    word.contains("inherit") || word.contains("mergebase")
                };
                let rules = self.rules();
                if words.iter().any(takes_over) {
                    rules.inherits = Some(node);
                }
            }
            "rewritebase" => {
                let slash = if word(0).ends_with('/') { "" } else { "/" };
                self.rules().base = Some(format!("{}{slash}", word(0)));
            }
            "rewritecond" => {
                self.rules();
                self.conditions.push(node);
            }
            "rewriterule" => {
                let conditions = std::mem::take(&mut self.conditions);
                self.rules().rules.push(Rule { conditions, rule: node });
            }
            "redirect" | "redirectmatch" | "redirecttemp" | "redirectpermanent" => {
                folder.redirects.push(node);
            }
            "errordocument" => folder.error_documents.push(node),
            "directoryindex" => {
                let index = folder.index.get_or_insert_default();
                match words {
                    [only] if only.eq_ignore_ascii_case("disabled") => index.clear(),
                    words => index.extend(words.iter().cloned()),
                }
            }
            "options" => {
                folder.options.push(words.to_vec());
                let is_extra = |word: &String| {
                    let option = word.trim_start_matches('+').to_ascii_lowercase();
                    matches!(option.as_str(), "indexes" | "multiviews" | "includes" | "execcgi")
                };
                let is_owner = |word: &String| word.to_ascii_lowercase().ends_with("ifownermatch");
                if words.iter().any(|word| is_owner(word) && !word.starts_with('-')) {
                    self.log.remark(node, "links inside the root are followed whoever owns them");
                }
                if words.iter().any(is_extra) {
                    self.unknown(node, scope);
                }
            }
            "acceptpathinfo" => folder.has_no_path_info = word(0).eq_ignore_ascii_case("off"),
            "fallbackresource" => folder.fallback = Some(node),
            "adddefaultcharset" if is_root => {
                let charset = word(0);
                for (kind, suffixes) in
                    [("text/html", ["html", "htm"]), ("text/plain", ["txt", "text"])]
                {
                    let kind = format!("{kind}; charset={charset}");
                    let types = suffixes.map(|suffix| (kind.clone(), suffix.to_owned()));
                    folder.types.extend(types);
                }
            }
            "limitrequestbody" if is_root => folder.max_body = word(0).parse().ok(),
            "php_value" | "php_flag" if is_root => {
                folder.php.push((word(0).to_owned(), word(1).to_owned()));
            }
            "setenv" if is_root && !is_special(word(0)) && !word(0).contains('=') => {
                folder.environment.push((word(0).to_owned(), word(1).to_owned()));
            }
            "setenvif" | "setenvifnocase" | "browsermatch" | "browsermatchnocase" => {
                self.variable(node, name, words);
            }
            _ => self.unknown(node, scope),
        }
    }

    fn rules(&mut self) -> &mut Rules<'a> {
        self.folder.rules.get_or_insert_default()
    }

    fn section(&mut self, node: &'a Node) {
        let mut section = Section { node, scope: Scope::default() };
        section.scope.is_of_scripts = section_is_of_scripts(&node.name, &words_of(node));
        for inner in &node.children {
            self.node(inner, &mut section.scope, &Vec::new(), true);
        }
        self.folder.sections.push(section);
    }

    fn limit(&mut self, node: &'a Node, scope: &mut Scope<'a>, inside: bool) {
        let sign = if node.name.eq_ignore_ascii_case("<limitexcept") { "!" } else { "" };
        let mut methods: Vec<String> = Vec::new();
        for word in words_of(node) {
            methods.push(format!("{sign}{word}"));
            if word == "GET" || word == "HEAD" {
                let other = if word == "GET" { "HEAD" } else { "GET" };
                methods.push(format!("{sign}{other}"));
            }
        }
        methods.dedup();
        for inner in &node.children {
            self.node(inner, scope, &methods, inside);
        }
    }

    /// A directive without an equivalent: one that may deny access refuses everything around it.
    fn unknown(&mut self, node: &'a Node, scope: &mut Scope<'a>) {
        self.unknown_variables(node);
        if may_deny(node) || node.children.iter().any(leads_away) {
            self.refuse(node, scope);
        } else if node.children.is_empty() {
            self.log.left_out(node, "routes have no equivalent");
        } else {
            self.log.left_out(node, "routes have no equivalent for the section");
        }
    }

    /// Nothing can be said about who has a variable that is set in a section.
    fn unknown_variables(&mut self, node: &Node) {
        let name = node.name.to_ascii_lowercase();
        if name.starts_with("setenvif") || name.starts_with("browsermatch") {
            for word in words_of(node).iter().skip(1) {
                let plain = word.trim_start_matches('!').split('=').next().unwrap_or_default();
                self.folder.variables.push((plain.to_owned(), Vec::new()));
            }
        }
        node.children.iter().for_each(|inner| self.unknown_variables(inner));
    }

    fn refuse(&mut self, node: &Node, scope: &mut Scope<'a>) {
        scope.is_refused = true;
        self.log.refused(node, "routes have no equivalent");
    }

    fn handler(
        &mut self,
        node: &'a Node,
        name: &str,
        words: &[String],
        scope: &mut Scope<'a>,
        inside: bool,
    ) {
        let kind = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        let suffixes = words.iter().skip(1).map(|word| word.trim_start_matches('.').to_owned());
        let suffixes: Vec<String> = suffixes.collect();
        let runs = kind.contains("php") || kind.contains("cgi") || kind.contains("server-parsed");
        let by_suffix = name.starts_with("add");
        let is_php =
            handler_name::names_php(kind.as_bytes()) || handler_name::may_name_php(kind.as_bytes());
        // Routes run *.php, and no share sends other source of PHP. Scripts with other names would be sent as they are.
        let is_of_scripts = match by_suffix {
            true => suffixes.iter().all(|suffix| is_script(suffix)),
            false => scope.is_of_scripts,
        };
        if is_php && is_of_scripts {
            return;
        }
        if runs {
            scope.is_refused = true;
            let reason = match by_suffix {
                true => {
                    "routes run files of other names than *.php in no place, and would send their source"
                }
                false => "routes cannot choose what runs a file, and would send its source",
            };
            return self.log.refused(node, reason);
        }
        match (name, kind.as_str()) {
            ("addtype", kind) if !inside && self.folder.url == b"/" => {
                let types = suffixes.into_iter().map(|suffix| (kind.to_owned(), suffix));
                self.folder.types.extend(types);
            }
            ("sethandler" | "forcetype", "none" | "default-handler") | ("sethandler", _) => {
                scope.has_no_php = true;
                self.log.remark(node, "scripts are refused");
            }
            _ => self.log.left_out(node, "routes have types for the whole server only"),
        }
    }

    fn variable(&mut self, node: &'a Node, name: &str, words: &[String]) {
        let is_browser = name.starts_with("browser");
        let (subject, rest) = match (is_browser, words) {
            (true, rest) => ("User-Agent", rest),
            (false, [subject, rest @ ..]) => (subject.as_str(), rest),
            (false, []) => return,
        };
        let Some((pattern, names)) = rest.split_first() else { return };
        let subject = match subject.to_ascii_lowercase().as_str() {
            "remote_addr" => "%{REMOTE_ADDR}".to_owned(),
            "request_uri" => "%{REQUEST_URI}".to_owned(),
            "request_method" => "%{REQUEST_METHOD}".to_owned(),
            "server_addr" | "remote_host" | "request_protocol" => "%{UNKNOWN}".to_owned(),
            _ => format!("%{{HTTP:{subject}}}"),
        };
        let flags = if name.ends_with("nocase") { "[NC]" } else { "[OR]" };
        let test = [subject, pattern.clone(), flags.to_owned()];
        let parsed = condition::parse(&test).map(|parsed| parsed.condition);
        for name in names {
            let plain = name.split('=').next().unwrap_or_default();
            match &parsed {
                _ if is_special(plain) => {}
                Ok(condition::Condition::Matches(matches)) if !plain.starts_with('!') => {
                    self.folder.variables.push((plain.to_owned(), matches.clone()));
                }
                _ => {
                    // Nothing can be said about who has it.
                    let plain = plain.trim_start_matches('!').to_owned();
                    self.folder.variables.push((plain, Vec::new()));
                    self.log.left_out(node, "routes have no variables");
                }
            }
        }
    }
}

fn is_on(word: &str) -> bool {
    ["on", "1", "yes", "true"].iter().any(|on| word.eq_ignore_ascii_case(on))
}

/// Variables that Apache itself reads, and that change nothing here.
fn is_special(name: &str) -> bool {
    [
        "no-gzip",
        "gzip-only-text/html",
        "dont-vary",
        "force-no-vary",
        "nokeepalive",
        "downgrade-1.0",
        "force-response-1.0",
        "redirect-carefully",
        "ssl-unclean-shutdown",
        "http_authorization",
        "authorization",
        "!no-gzip",
        "!gzip-only-text/html",
    ]
    .iter()
    .any(|special| name.eq_ignore_ascii_case(special))
}

/// Directives that need no equivalent: routes behave so anyway, or they change nothing a client sees.
fn is_without_effect(name: &str, words: &[String]) -> bool {
    let word = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    match name {
        "serversignature"
        | "enablemmap"
        | "enablesendfile"
        | "limitxmlrequestbody"
        | "removehandler"
        | "removetype"
        | "cgipassauth" => true,
        "addoutputfilterbytype" | "setoutputfilter" | "addoutputfilter" => {
            word.split(';').all(|filter| filter == "deflate" || filter == "brotli_compress")
        }
        "setenv" => is_special(&word),
        "directoryslash" => is_on(&word),
        "adddefaultcharset" => word == "off",
        "indexoptions" | "indexignore" | "indexorderdefault" | "indexstylesheet" | "addicon"
        | "adddescription" | "readmename" | "headername" | "defaulticon" => true,
        _ => false,
    }
}

/// Returns true if a directive inside of a section may change which file is sent, or whether one is.
fn leads_away(node: &Node) -> bool {
    let name = node.name.to_ascii_lowercase();
    let words = words_of(node);
    let is_off = words.first().is_some_and(|word| word.eq_ignore_ascii_case("off"));
    let changes_links = |word: &String| {
        let option = word.trim_start_matches(['+', '-']).to_ascii_lowercase();
        !word.starts_with(['+', '-'])
            || matches!(option.as_str(), "all" | "followsymlinks" | "symlinksifownermatch")
    };
    match name.as_str() {
        "rewriteengine" => !is_off,
        "acceptpathinfo" => is_off,
        "options" => words.iter().any(changes_links),
        "sethandler" | "addhandler" | "directoryindex" => true,
        name => {
            ["rewrite", "redirect", "auth"].iter().any(|start| name.starts_with(start))
                || node.children.iter().any(leads_away)
        }
    }
}

/// Returns the URLs of the directories around one, which ends with a slash, and its own, from the root on.
pub fn around(url: &[u8]) -> impl Iterator<Item = &[u8]> {
    url.iter().zip(1..).filter(|(byte, _)| **byte == b'/').map(|(_, end)| &url[..end])
}

/// Takes over what directories around say about rules.
pub fn inherit(folders: &mut [Folder<'_>], notes: &mut Vec<Note>) {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for index in 0..folders.len() {
        let (before, rest) = folders.split_at_mut(index);
        let Some(folder) = rest.first_mut() else { continue };
        let Some(rules) = &mut folder.rules else { continue };
        places.insert(folder.url.clone(), index);
        let around: Vec<(&str, &Rules<'_>)> = around(&folder.url)
            .filter_map(|url| before.get(*places.get(url)?))
            .filter_map(|other| other.rules.as_ref().map(|rules| (other.file, rules)))
            .collect();
        if let (false, Some((_, parent))) = (rules.has_switch, around.last()) {
            rules.is_on = parent.is_on;
        }
        let own = rules.inherits.map(|node| (folder.file, node));
        let other = || {
            around.iter().rev().find_map(|(file, rules)| rules.inherits.map(|node| (*file, node)))
        };
        let has_more = around.iter().any(|(_, r)| !r.rules.is_empty() || r.base.is_some());
        if let (true, true, Some((file, node))) = (rules.is_on, has_more, own.or_else(other)) {
            folder.own.is_refused = true;
            let reason = "routes do not take rules over from directories around";
            Log { file, notes }.refused(node, reason);
        }
    }
}

/// Returns true if a directive or section may deny access to somebody.
fn may_deny(node: &Node) -> bool {
    let name = node.name.to_ascii_lowercase();
    let is_refusal = name.starts_with("redirect")
        && words_of(node).first().is_some_and(|status| {
            status.eq_ignore_ascii_case("gone") || status.starts_with(['4', '5'])
        });
    is_denial(node)
        || is_refusal
        || matches!(
            name.as_str(),
            "satisfy" | "order" | "authtype" | "<requireall" | "<requirenone"
        )
        || name == "php_flag"
        || node.children.iter().any(may_deny)
}
