//! Directives of a directory, a location or a host, as lines for the engine of `.htaccess`.
//!
//! Most lines stay as they are. Those that choose what runs a file, and those that only the
//! server's configuration may have, become others. If a directive that refuses requests has no
//! counterpart, the scope is closed.

use howdah_htaccess::allow::Allow;
use howdah_htaccess::modules::pattern::Pattern;
use serde_json::{Map, Value};

use crate::{Report, Status};

use super::check;
use super::handlers::{add_handler, filter, php_setting, set_handler};
use super::maps;
use super::status;
use super::tree::Node;
use super::words::{self, quoted};

/// Maximum number of conditions of a rule; the engine has no more.
const MAX_CONDITIONS: usize = 1000;

/// Maximum number of rules of a scope; the engine has no more.
const MAX_RULES: usize = 10_000;

/// Kind of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Directly in a virtual host or outside of all.
    Server,
    /// `<Directory>` or `<DirectoryMatch>`; true for a directory that has the root of the host in
    /// it, or is the root.
    Directory(bool),
    /// `<Location>` or `<LocationMatch>`.
    Location,
    /// A section inside of another one: `<Files>`, `<If>`, `<Limit>`.
    Inner(bool),
}

/// Facts about the whole configuration of a host.
#[derive(Debug, Default, Clone)]
pub struct Facts {
    /// Programs or server-side includes may run.
    pub has_programs: bool,
    /// Names of handlers that an `Action` runs, in lower case.
    pub actions: Vec<String>,
    /// PHP-FPM runs the scripts, so settings of mod_php have no effect.
    pub has_fpm: bool,
    /// Directory of relative paths.
    pub server_root: String,
    /// Maps that rules look values up in, by name.
    pub maps: Map<String, Value>,
}

/// The directives of a scope.
#[derive(Debug, Default)]
pub struct Scope {
    /// Lines, and whether they are about authorization.
    pub(super) lines: Vec<(bool, String)>,
    /// Requests are refused.
    pub(super) is_closed: bool,
    /// TLS is required.
    pub(super) needs_tls: bool,
    /// Words of `AllowOverride`.
    pub allow: Option<Vec<String>>,
    /// Words for the classes of the directives of `AllowOverrideList`.
    pub allow_list: Vec<String>,
    /// Addresses of FastCGI servers that run files.
    pub servers: Vec<(String, Option<crate::Id>)>,
    /// Settings of PHP for the application.
    pub admin: Vec<(String, String)>,
}

impl Scope {
    /// Returns the lines.
    pub fn into_lines(self) -> Vec<String> {
        let Scope { lines, is_closed, needs_tls, .. } = self;
        let kept =
            lines.into_iter().filter(|(is_about_access, _)| !(is_closed && *is_about_access));
        let mut lines: Vec<String> = kept.map(|(_, line)| line).collect();
        if is_closed {
            lines.push("Require all denied".to_owned());
        }
        if needs_tls {
            lines.push("<If \"%{HTTPS} != 'on'\">".to_owned());
            lines.push("Require all denied".to_owned());
            lines.push("</If>".to_owned());
        }
        lines
    }

    /// Returns whether `.htaccess` files are read, and words for what they may have; `None` if the
    /// scope does not say so. The two directives add to each other.
    pub(super) fn allowed(&self) -> Option<(bool, Vec<String>)> {
        if self.allow.is_none() && self.allow_list.is_empty() {
            return None;
        }
        // What stands in front of None is taken back.
        let words = self.allow.as_deref().unwrap_or_default();
        let is_none = |word: &String| word.eq_ignore_ascii_case("none");
        let words = &words[words.iter().rposition(is_none).map_or(0, |none| none + 1)..];
        let all = [words, &self.allow_list].concat();
        let reads_files = Allow::parse(&all).is_ok_and(|allow| !allow.is_none());
        Some((reads_files, all))
    }

    pub(super) fn push(&mut self, node: &Node) {
        let lines = node.lines();
        let is_about_access = is_access(&node.name);
        self.lines.extend(lines.into_iter().map(|line| (is_about_access, line)));
    }

    pub(super) fn line(&mut self, line: impl Into<String>) {
        self.lines.push((false, line.into()));
    }
}

/// Returns true for directives that grant or refuse access.
pub fn is_access(name: &str) -> bool {
    matches!(
        name,
        "require"
            | "satisfy"
            | "order"
            | "allow"
            | "deny"
            | "<requireall"
            | "<requireany"
            | "<requirenone"
            | "<limit"
            | "<limitexcept"
            | "authmerging"
    )
}

/// Marks a directive.
pub fn mark(report: &mut Report, node: &Node, status: Status, reason: impl Into<String>) {
    if let Some(id) = node.id {
        report.mark(id, status, reason);
    }
}

pub(super) fn converted(report: &mut Report, node: &Node) {
    if let Some(id) = node.id {
        report.converted(id);
    }
}

/// Adds directives to a scope.
pub fn add(nodes: &[&Node], place: Place, facts: &Facts, scope: &mut Scope, report: &mut Report) {
    let mut rest = nodes;
    let mut rules = 0;
    while let Some((node, behind)) = rest.split_first() {
        // A rule with its conditions, once: a file may have thousands of conditions in a row.
        let conditions = rest.iter().take_while(|node| node.name == "rewritecond").count();
        let is_rule = rest.get(conditions).is_some_and(|node| node.name == "rewriterule");
        let (group, behind) = match conditions + usize::from(is_rule) {
            0 => (std::slice::from_ref(node), behind),
            length => rest.split_at(length),
        };
        let is_rewrite = conditions > 0 || is_rule;
        rules += usize::from(is_rule);
        let has_maps = |node: &&Node| maps::are_known(&node.arguments, &facts.maps);
        if is_rewrite && !group.iter().all(has_maps) {
            leave_out_rule(group, "a map is not known", scope, report);
        } else if conditions > MAX_CONDITIONS {
            let reason = format!("a rule has at most {MAX_CONDITIONS} conditions");
            leave_out_rule(group, &reason, scope, report);
        } else if rules > MAX_RULES {
            scope.is_closed = true;
            let reason = format!("there are at most {MAX_RULES} rules; the place is closed");
            for node in group {
                mark(report, node, Status::NotConverted, reason.clone());
            }
        } else {
            group.iter().for_each(|node| add_one(node, place, facts, scope, report));
        }
        rest = behind;
    }
}

/// Leaves out a rule with its conditions. One that refuses requests refuses all that its pattern
/// matches.
fn leave_out_rule(group: &[&Node], problem: &str, scope: &mut Scope, report: &mut Report) {
    let all = group.last().map(|rule| rule.words()).unwrap_or_default();
    let refuses = refuses(&all);
    let end = if refuses { "; all requests that its pattern matches are refused" } else { "" };
    for node in group {
        let reason = format!("{problem}, so the rule is left out{end}");
        mark(report, node, Status::NotConverted, reason);
    }
    if refuses {
        let pattern = all.first().map(String::as_str).unwrap_or("^");
        scope.line(format!("RewriteRule {} - [F]", quoted(pattern)));
    }
}

/// Returns true if a rule with these words refuses requests.
pub fn refuses(rule: &[String]) -> bool {
    let text = rule.get(2).map(|flags| flags.to_ascii_lowercase()).unwrap_or_default();
    rule_flags(rule).iter().any(|flag| matches!(flag.as_str(), "f" | "forbidden" | "g" | "gone"))
        || text.contains("r=4")
        || text.contains("redirect=4")
}

fn add_one(node: &Node, place: Place, facts: &Facts, scope: &mut Scope, report: &mut Report) {
    let all = node.words();
    let first = all.first().cloned().unwrap_or_default();
    let lower = first.to_ascii_lowercase();
    match node.name.as_str() {
        "allowoverride" => allow_override(node, &all, place, scope, report),
        "allowoverridelist" => allow_override_list(node, &all, scope, report),
        "options" => {
            let runs = [
                "execcgi",
                "+execcgi",
                "includes",
                "+includes",
                "includesnoexec",
                "+includesnoexec",
                "all",
            ];
            let names: Vec<String> = all.iter().map(|word| word.to_ascii_lowercase()).collect();
            if facts.has_programs && names.iter().any(|name| runs.contains(&name.as_str())) {
                let reason =
                    "programs and server-side includes are not run; the other options hold";
                mark(report, node, Status::Changed, reason);
            }
            generic(node, scope, report);
        }
        "sethandler" => set_handler(node, &lower, &first, place, facts, scope, report),
        "addhandler" => add_handler(node, &all, place, facts, scope, report),
        "action" | "script" => {
            let reason = "CGI programs are not run; files of this handler are refused";
            mark(report, node, Status::NotConverted, reason);
        }
        "setoutputfilter"
        | "addoutputfilter"
        | "setinputfilter"
        | "addinputfilter"
        | "addoutputfilterbytype" => filter(node, &all, scope, report),
        "php_admin_value" | "php_admin_flag" | "php_value" | "php_flag" => {
            php_setting(node, &all, place, facts, scope, report);
        }
        "sslrequiressl" => {
            scope.needs_tls = true;
            converted(report, node);
        }
        "sslrequire" => close(node, "SSLRequire is not known; its place is closed", scope, report),
        "sslverifyclient" if lower != "none" => {
            let reason = "certificates of clients are asked for by a listener, not for a path; the \
                          place is closed";
            close(node, reason, scope, report);
        }
        "sslverifyclient" | "sslverifydepth" if !matches!(place, Place::Server) => {
            mark(report, node, Status::NotNeeded, "no certificate is asked for here");
        }
        "ssloptions" => {
            let names: Vec<String> = all.iter().map(|word| word.to_ascii_lowercase()).collect();
            let reason = if names.iter().any(|name| name.contains("fakebasicauth")) {
                return close(
                    node,
                    "names of certificates are no passwords here; the place is closed",
                    scope,
                    report,
                );
            } else {
                "scripts have HTTPS, and of the variables SSL_… those of $_SERVER that Howdah sets"
            };
            mark(report, node, Status::Changed, reason);
        }
        "authtype" if !matches!(lower.as_str(), "basic" | "none") => {
            close(
                node,
                "passwords are asked for by Basic alone; the place is closed",
                scope,
                report,
            );
        }
        "authbasicprovider" if all.iter().any(|word| !word.eq_ignore_ascii_case("file")) => {
            close(node, "passwords come from files alone; the place is closed", scope, report);
        }
        "authuserfile" | "authgroupfile" if !first.is_empty() && !first.starts_with('/') => {
            let path = format!("{}/{first}", facts.server_root);
            scope.line(format!("{} {}", node.written, quoted(&path)));
            converted(report, node);
        }
        "passenv" => {
            let reason = "scripts do not have the environment of the server; environment of the \
                          application has variables";
            mark(report, node, Status::Changed, reason);
        }
        "errordocument" | "limitrequestbody" | "directoryindex" => generic(node, scope, report),
        "rewritemap" if place == Place::Server => {}
        "rewritemap" => {
            let reason = "Apache has it in a virtual host, or outside of all, alone";
            mark(report, node, Status::NotConverted, reason);
        }
        "rewriterule"
            if rule_flags(&all).iter().any(|flag| matches!(flag.as_str(), "p" | "proxy")) =>
        {
            let reason =
                "a rule cannot pass requests to another server; those that it is about get 403";
            mark(report, node, Status::NotConverted, reason);
            scope.push(node);
        }
        "redirectmatch" | "redirect" | "redirectpermanent" | "redirecttemp" => {
            generic(node, scope, report)
        }
        "usecanonicalname" => {
            let (status, reason) = if lower == "off" {
                (Status::NotNeeded, "redirects have the host of the request")
            } else {
                (Status::Changed, "redirects of the server have the host of the request")
            };
            mark(report, node, status, reason);
        }
        name if name.starts_with("<files")
            || name.starts_with("<if")
            || name.starts_with("<else")
            || name.starts_with("<limit") =>
        {
            section(node, place, facts, scope, report);
        }
        name if name.starts_with("<require") => requirements(node, scope, report),
        name => {
            if let Some(reason) = status::not_needed(name, &all) {
                mark(report, node, Status::NotNeeded, reason);
            } else if check::knows(&node.written) {
                generic(node, scope, report);
            } else {
                let (status, reason) = status::of_unknown(name);
                unknown(node, status, &reason, report);
            }
        }
    }
}

/// Marks a directive that has no counterpart, and those inside of it.
fn unknown(node: &Node, status: Status, reason: &str, report: &mut Report) {
    mark(report, node, status, reason);
    for child in &node.children {
        child.each(&mut |inside| {
            mark(report, inside, status, format!("{}> is left out: {reason}", node.written));
        });
    }
}

/// Refuses all requests of the scope.
pub(super) fn close(node: &Node, reason: &str, scope: &mut Scope, report: &mut Report) {
    mark(report, node, Status::NotConverted, reason);
    scope.is_closed = true;
}

/// Adds a directive as it is, if the engine takes it.
pub(super) fn generic(node: &Node, scope: &mut Scope, report: &mut Report) {
    match check::problem(&node.lines()) {
        None => {
            converted(report, node);
            scope.push(node);
        }
        Some(problem) => {
            let guards = is_access(&node.name) || node.name.starts_with("auth");
            let end = if guards { "; the place is closed" } else { "" };
            mark(report, node, Status::NotConverted, format!("{problem}{end}"));
            scope.is_closed |= guards;
        }
    }
}

/// Adds a section of requirements as a whole.
fn requirements(node: &Node, scope: &mut Scope, report: &mut Report) {
    match check::problem(&node.lines()) {
        None => {
            node.each(&mut |inside| converted(report, inside));
            scope.push(node);
        }
        Some(_) => {
            node.each(&mut |inside| {
                let problem =
                    if inside.is_section() { None } else { check::problem(&inside.lines()) };
                let reason =
                    problem.unwrap_or_else(|| "a requirement of the section is not known".into());
                mark(
                    report,
                    inside,
                    Status::NotConverted,
                    format!("{reason}; the place is closed"),
                );
            });
            scope.is_closed = true;
        }
    }
}

/// Adds a section for some files or requests.
fn section(node: &Node, place: Place, facts: &Facts, scope: &mut Scope, report: &mut Report) {
    let is_about_root =
        matches!(place, Place::Server | Place::Directory(true) | Place::Inner(true));
    let mut inner = Scope::default();
    let children: Vec<&Node> = node.children.iter().collect();
    add(&children, Place::Inner(is_about_root), facts, &mut inner, report);
    scope.servers.append(&mut inner.servers);
    // Settings of the application hold for all files.
    for (name, value) in std::mem::take(&mut inner.admin) {
        inner.line(format!("php_admin_value {} {}", quoted(&name), quoted(&value)));
    }
    let is_method = node.name.starts_with("<limit");
    let blank = if node.arguments.is_empty() { "" } else { " " };
    let open = format!("{}{blank}{}>", node.written, node.arguments);
    let end = format!("</{}>", &node.written[1..]);
    let empty = match node.name.as_str() {
        // The conditions of these need the section in front.
        "<elseif" | "<else" => None,
        _ => check::problem(&[open.clone(), end.clone()]),
    };
    if let Some(problem) = empty {
        let refuses = is_method || node.children.iter().any(|child| is_access(&child.name));
        let suffix = if refuses { "; the place is closed" } else { "" };
        node.each(&mut |inside| {
            mark(report, inside, Status::NotConverted, format!("{problem}{suffix}"));
        });
        scope.is_closed |= refuses;
        return;
    }
    converted(report, node);
    if opens_hidden_files(node) {
        for inside in node.children.iter().chain([node]).filter(|inside| !is_denial(inside)) {
            let reason = "files whose names begin with a dot are not sent (404)";
            mark(report, inside, Status::Changed, reason);
        }
    }
    scope.lines.push((is_method, open));
    scope.lines.extend(inner.into_lines().into_iter().map(|line| (is_method, line)));
    scope.lines.push((is_method, end));
}

/// Returns true for a section that grants access to files that Howdah never sends, such as
/// `<FilesMatch "^\.ht">`.
fn opens_hidden_files(node: &Node) -> bool {
    let words = node.words();
    let (is_regex, pattern) = match words.as_slice() {
        [tilde, expression, ..] if tilde == "~" => (true, expression.clone()),
        _ => (node.name == "<filesmatch", argument(node)),
    };
    let is_hidden = match node.name.as_str() {
        "<files" if !is_regex => pattern.starts_with('.'),
        "<files" | "<filesmatch" => {
            Pattern::new(pattern.as_bytes(), false).is_ok_and(|expression| {
                let matches = |name: &str| expression.is_match(name.as_bytes()).unwrap_or(false);
                (matches(".htaccess") || matches(".htpasswd") || matches(".env"))
                    && !matches("index.html")
            })
        }
        _ => false,
    };
    let grants = |child: &Node| is_access(&child.name) && !is_denial(child);
    is_hidden && node.children.iter().any(grants)
}

/// Returns true for a directive that refuses all requests, or says in which order those are read.
fn is_denial(node: &Node) -> bool {
    let words = node.arguments.to_ascii_lowercase();
    match node.name.as_str() {
        "require" => words == "all denied",
        "deny" | "order" => true,
        _ => false,
    }
}

fn allow_override(
    node: &Node,
    all: &[String],
    place: Place,
    scope: &mut Scope,
    report: &mut Report,
) {
    if !matches!(place, Place::Directory(_)) {
        let reason = "it has no effect outside of a <Directory>";
        return mark(report, node, Status::NotNeeded, reason);
    }
    if let Err(problem) = Allow::parse(all) {
        // Files are not read: those that close a directory would not hold.
        return close(node, &format!("{problem}; the place is closed"), scope, report);
    }
    scope.allow = Some(all.to_vec());
    let names_passwords = all
        .iter()
        .any(|word| word.eq_ignore_ascii_case("all") || word.eq_ignore_ascii_case("authconfig"));
    if names_passwords {
        let reason = "password files of .htaccess files are below the root of the site; \
                      others cannot be used (500)";
        return mark(report, node, Status::Changed, reason);
    }
    converted(report, node);
}

fn allow_override_list(node: &Node, all: &[String], scope: &mut Scope, report: &mut Report) {
    if all.iter().any(|word| word.eq_ignore_ascii_case("none")) {
        return converted(report, node);
    }
    let mut classes = Vec::new();
    for name in all {
        let class = howdah_htaccess::registry::find(name).first().map(|found| found.class.0);
        classes.push(
            match class {
                Some(class) if class & 1 != 0 => "AuthConfig",
                Some(class) if class & 2 != 0 => "FileInfo",
                Some(class) if class & 4 != 0 => "Indexes",
                Some(class) if class & 8 != 0 => "Limit",
                Some(_) => "Options",
                None => continue,
            }
            .to_owned(),
        );
    }
    classes.sort_unstable();
    classes.dedup();
    scope.allow_list = classes;
    let reason = "all directives of the same class are allowed, too";
    mark(report, node, Status::Changed, reason);
}

/// Escapes the characters with a meaning in expressions.
pub fn escaped(text: &str) -> String {
    let mut result = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '/' | '-' | '_' | '~' | '%' | '\'' | '"') {
            result.push('\\');
        }
        result.push(c);
    }
    result
}

/// Returns the flags of a `RewriteRule`, in lower case and without values.
pub fn rule_flags(all: &[String]) -> Vec<String> {
    let text = all.get(2).map(String::as_str).unwrap_or_default();
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let flags = text.split(',').map(|flag| flag.split('=').next().unwrap_or_default());
    flags.map(|flag| flag.trim().to_ascii_lowercase()).collect()
}

/// Returns the path of a section's argument: without quotation marks.
pub fn argument(node: &Node) -> String {
    words::take(&node.arguments).0
}
