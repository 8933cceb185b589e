//! `fastcgi_pass`: applications of type `php` for pools that are imported, and of type `fastcgi`.

use howdah_config::Address;
use serde_json::{Value, json};

use super::context::Place;
use super::convert::{Application, Converter, Origin};
use super::options::{Answer, merge};
use super::reader::Directive;
use super::rewrite::rewrite_text;
use super::state::State;
use super::steps::{object, step};
use super::template::{Piece, Template};
use super::variables::{Object, Reason};
use crate::Status;

/// Parameters that applications get by themselves, with the values that nginx's files give them.
const STANDARD: [(&str, &[&str]); 22] = [
    ("QUERY_STRING", &["$query_string", "$args"]),
    ("REQUEST_METHOD", &["$request_method"]),
    ("CONTENT_TYPE", &["$content_type", "$http_content_type"]),
    ("CONTENT_LENGTH", &["$content_length", "$http_content_length"]),
    ("SCRIPT_NAME", &["$fastcgi_script_name"]),
    ("REQUEST_URI", &["$request_uri"]),
    ("DOCUMENT_URI", &["$document_uri", "$uri"]),
    ("DOCUMENT_ROOT", &["$document_root", "$realpath_root"]),
    ("SERVER_PROTOCOL", &["$server_protocol"]),
    ("REQUEST_SCHEME", &["$scheme"]),
    ("HTTPS", &["$https"]),
    ("GATEWAY_INTERFACE", &["CGI/1.1"]),
    ("REMOTE_ADDR", &["$remote_addr"]),
    ("REMOTE_PORT", &["$remote_port"]),
    ("REMOTE_USER", &["$remote_user"]),
    ("SERVER_ADDR", &["$server_addr"]),
    ("SERVER_PORT", &["$server_port"]),
    ("SERVER_NAME", &["$host"]),
    ("REDIRECT_STATUS", &["200"]),
    ("PATH_INFO", &["$fastcgi_path_info"]),
    ("PATH_TRANSLATED", &["$document_root$fastcgi_path_info", "$realpath_root$fastcgi_path_info"]),
    ("HTTP_PROXY", &[""]),
];

/// Value of `SERVER_SOFTWARE`: WordPress offers pretty permalinks if it contains `nginx`.
const SERVER_SOFTWARE: &str = "Howdah (nginx compatible)";

/// How the name of the script is made.
enum Script {
    /// By a target of the application.
    Target(Object),
    /// A name with variables, for a share.
    Share(Template),
}

impl<'t> Converter<'_> {
    /// Returns the steps for requests that are passed to a FastCGI server.
    pub fn fastcgi_pass(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
        path: Option<&Template>,
    ) -> Vec<Value> {
        let made = self.application_of(directive, place, state).and_then(|application| {
            let script = self.script(place, state, path)?;
            Ok((application, script))
        });
        let (application, script) = match made {
            Ok(made) => made,
            Err(reason) => {
                let reason = format!("{reason}; requests of the location are refused (403)");
                self.report.mark(directive.id, Status::NotConverted, reason);
                self.skip_family(place, "fastcgi_", "requests are not passed to a FastCGI server");
                return vec![step(Object::new(), self.closed(place, state, 403))];
            }
        };
        self.report.converted(directive.id);
        let is_php = matches!(self.applications[application].origin, Origin::Pool(_));
        self.note_site(application, place);
        let conditions = Object::new();
        let mut action = match script {
            Script::Target(target) => {
                let hint = place.site.as_ref().map_or("site", |site| &site.name).to_owned();
                let pass = self.target(application, target, &hint);
                object([("pass", pass.into())])
            }
            Script::Share(name) if !is_php => self.variable_script(&name, application, place),
            Script::Share(name) => {
                let hint = place.site.as_ref().map_or("site", |site| &site.name).to_owned();
                let root = name.beginning().rsplit_once('/').map_or("/", |(root, _)| root);
                let root = if root.is_empty() { "/" } else { root };
                let pass = self.target(application, object([("root", root.into())]), &hint);
                object([
                    ("share", name.render().into()),
                    ("scripts", pass.into()),
                    ("types", json!(["!*"])),
                    ("index", "".into()),
                    ("follow_symlinks", true.into()),
                ])
            }
        };
        let mut environment = self.parameters(place, state, &mut action);
        if !is_php
            && let Some(rewrite) = action.get("rewrite").and_then(Value::as_str)
            && let Some(info) = environment.get("PATH_INFO").and_then(Value::as_str)
            && info.contains('$')
            && !rewrite.contains('?')
        {
            // Behind the rewrite, the path has nothing behind the script any more.
            let whole = format!("{rewrite}{info}");
            action.insert("rewrite".to_owned(), whole.into());
            environment.shift_remove("PATH_INFO");
        }
        if !environment.is_empty() {
            merge(&mut action, "environment", environment);
        }
        self.origin_options(&mut action, place, state, "fastcgi", is_php);
        self.add_options(&mut action, place, state, Answer::Passed);
        if !place.scope.is_on("fastcgi_intercept_errors")
            && let Some(pages) = action.get_mut("error_pages").and_then(Value::as_object_mut)
        {
            // PHP-FPM itself answers for a script that does not exist.
            pages.remove("404");
            if pages.is_empty() {
                action.remove("error_pages");
            }
        }
        for name in ["fastcgi_split_path_info", "fastcgi_index"] {
            if let Some(directive) = place.scope.one(name) {
                self.report.converted(directive.id);
            }
        }
        let mut steps = Vec::new();
        if let Origin::Pool(pool) = self.applications[application].origin {
            let name = format!("applications/{}", self.applications[application].name);
            let pages = self.pools[pool].pages(&name);
            if !pages.is_empty() {
                self.pools[pool].report_pages(self.report);
                steps.extend(pages);
            }
        }
        steps.push(step(conditions, action));
        steps
    }

    /// Returns the action for a script of a FastCGI server whose directory has variables: the path
    /// becomes the whole name, below the root directory.
    fn variable_script(
        &mut self,
        name: &Template,
        application: usize,
        place: &Place<'t>,
    ) -> Object {
        let hint = place.site.as_ref().map_or("site", |site| &site.name).to_owned();
        // The root is the directory in front of the variables: all of the text in front of a value
        // that begins with a slash.
        let beginning = name.beginning();
        let is_whole = name.variables().next().is_some_and(|name| self.begins_with_slash(name));
        let cut = if is_whole && !beginning.ends_with('/') {
            beginning.len()
        } else {
            beginning.rfind('/').unwrap_or(0)
        };
        let (top, rest) = beginning.split_at(cut);
        let mut below = Template::text(rest);
        below.push(&name.without_beginning());
        let target = object([("root", if top.is_empty() { "/" } else { top }.into())]);
        let rewrite = rewrite_text(&below, false);
        let Some(front) = below.strip_variable("uri") else {
            let pass = self.target(application, target, &hint);
            return object([("rewrite", rewrite.into()), ("pass", pass.into())]);
        };
        let front: String = front
            .pieces()
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => super::pcre::escape(text),
                Piece::Variable(_) => "[^/]+".to_owned(),
            })
            .collect();
        let expression = format!("^({front})(/.*)$");
        let uri = Template::variable("uri");
        let directory = self.group_of(&uri, &expression, 1, None);
        let directory = Template::text(top).with(&directory);
        let path = self.group_of(&uri, &expression, 2, None);
        let script = format!("^{front}(/.*?\\.php)(?:/.*)?$");
        let script = self.group_of(&uri, &script, 1, None);
        // Only an application of its own can have another document root.
        let mut base = self.applications[application].base.clone();
        merge(&mut base, "params", object([("DOCUMENT_ROOT", directory.render().into())]));
        let name = self.applications[application].name.clone();
        let application = self.application_with(&name, base);
        self.note_site(application, place);
        let pass = self.target(application, target, &hint);
        let environment = object([
            ("SCRIPT_NAME", script.render().into()),
            ("DOCUMENT_URI", path.render().into()),
        ]);
        object([
            ("rewrite", rewrite.into()),
            ("pass", pass.into()),
            ("environment", environment.into()),
        ])
    }

    /// Returns the application for the address of a `fastcgi_pass`.
    fn application_of(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Result<usize, Reason> {
        let address = self.value(directive.arg(0), place, state)?;
        let Some(address) = address.constant().map(str::to_owned) else {
            return Err("the address of the server has variables".to_owned());
        };
        if let Some(pool) = self.pools.iter().position(|pool| pool.is_at(&address)) {
            return Ok(self.pool_application(pool));
        }
        if let Some(block) = self.upstream_block(&address) {
            let servers: Vec<_> =
                block.children().iter().filter(|inner| inner.name == "server").collect();
            if let [server] = servers.as_slice()
                && let Some(pool) = self.pools.iter().position(|pool| pool.is_at(server.arg(0)))
            {
                self.report.converted(block.id);
                self.report.converted(server.id);
                for inner in block.children() {
                    self.report.mark(inner.id, Status::NotNeeded, "PHP runs in the server itself");
                }
                return Ok(self.pool_application(pool));
            }
            let upstream = self.upstream(&block, &Object::new())?;
            let base = object([("type", "fastcgi".into()), ("upstream", upstream.into())]);
            return Ok(self.fastcgi_application(&address, base, place));
        }
        let has_port = address.starts_with("unix:")
            || address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !has_port {
            return Err(format!("\"{address}\" has no port, and nginx does not start"));
        }
        let server =
            server_address(&address, 9000).ok_or("this is no address of a FastCGI server")?;
        let base = object([("type", "fastcgi".into()), ("server", server.into())]);
        Ok(self.fastcgi_application(&address, base, place))
    }

    fn fastcgi_application(&mut self, address: &str, mut base: Object, place: &Place<'t>) -> usize {
        if let Some(directive) = place.scope.one("fastcgi_keep_conn") {
            self.report.converted(directive.id);
            if directive.arg(0).eq_ignore_ascii_case("on") {
                base.insert("keepalive".to_owned(), 4.into());
            }
        }
        base.insert("params".to_owned(), json!({ "SERVER_SOFTWARE": SERVER_SOFTWARE }));
        let hint = address.rsplit('/').next().unwrap_or(address).trim_end_matches(".sock");
        self.application_with(if hint.is_empty() { "fastcgi" } else { hint }, base)
    }

    /// Returns the application of a FastCGI server with these members.
    fn application_with(&mut self, hint: &str, base: Object) -> usize {
        let key = Value::from(base.clone()).to_string();
        let is_it = |application: &Application| matches!(&application.origin, Origin::Server(other) if *other == key);
        if let Some(found) = self.applications.iter().position(is_it) {
            return found;
        }
        let name = self.application_name(hint);
        self.applications.push(Application::new(name, Origin::Server(key), base));
        self.applications.len() - 1
    }

    fn pool_application(&mut self, pool: usize) -> usize {
        let is_it = |application: &Application| matches!(application.origin, Origin::Pool(other) if other == pool);
        if let Some(found) = self.applications.iter().position(is_it) {
            return found;
        }
        let mut base = object([("type", "php".into())]);
        base.insert("server_software".to_owned(), SERVER_SOFTWARE.into());
        base.extend(self.pools[pool].application());
        let name = self.application_name(&self.pools[pool].name.clone());
        self.applications.push(Application::new(name, Origin::Pool(pool), base));
        self.applications.len() - 1
    }

    /// Returns the script that `SCRIPT_FILENAME` names.
    fn script(
        &mut self,
        place: &Place<'t>,
        state: &State,
        path: Option<&Template>,
    ) -> Result<Script, Reason> {
        let params = place.scope.all("fastcgi_param");
        let name = params.iter().rfind(|param| param.arg(0) == "SCRIPT_FILENAME");
        let index = place.scope.one("fastcgi_index").map(|directive| directive.arg(0).to_owned());
        let mut target = Object::new();
        if let Some(index) = index.filter(|index| index != "index.php" && !index.contains('$')) {
            target.insert("index".to_owned(), index.into());
        }
        let uri = Template::variable("uri");
        let Some(name) = name else {
            let root = self.document_root(place, state)?;
            let Some(root) = root.constant() else { return Ok(Script::Share(root.with(&uri))) };
            if let Some(directive) = place.scope.own("fastcgi_pass") {
                let reason = "there is no SCRIPT_FILENAME here; scripts are those of the path below the root";
                self.report.mark(directive.id, Status::Changed, reason);
            }
            target.insert("root".to_owned(), root.into());
            return Ok(Script::Target(target));
        };
        let file = self.value(name.arg(1), place, state)?;
        self.report.converted(name.id);
        if let Some(file) = file.constant() {
            let root = self.document_root(place, state).ok();
            let root = root.as_ref().and_then(Template::constant).unwrap_or_default().to_owned();
            let inside =
                file.strip_prefix(&format!("{}/", root.trim_end_matches('/'))).map(str::to_owned);
            let (root, script) = match inside {
                Some(script) if !root.is_empty() => (root, script),
                _ => match file.rsplit_once('/') {
                    Some((root, script)) if !script.is_empty() => (
                        if root.is_empty() { "/".to_owned() } else { root.to_owned() },
                        script.to_owned(),
                    ),
                    _ => return Err(format!("\"{file}\" is no name of a script")),
                },
            };
            if !file.starts_with('/') {
                return Err(format!("\"{file}\" is no absolute name of a script"));
            }
            target.insert("root".to_owned(), root.into());
            target.insert("script".to_owned(), script.trim_start_matches('/').into());
            return Ok(Script::Target(target));
        }
        let script_name = self.variable("fastcgi_script_name", place, state)?;
        // `try_files` has made the path that of the script.
        for end in [&script_name, &uri].into_iter().chain(path) {
            let Some(name) = end.only_variable() else { continue };
            let Some(root) = file.strip_variable(name) else { continue };
            let Some(root) = root.constant() else { continue };
            if root.starts_with('/') {
                let root = root.trim_end_matches('/');
                target.insert("root".to_owned(), if root.is_empty() { "/" } else { root }.into());
                return Ok(Script::Target(target));
            }
        }
        if let Ok(super::files::Base::Alias(value, prefix)) = self.base(place, state)
            && let Some(value) = value.constant()
        {
            let whole = self
                .file_of(&super::files::Base::Alias(Template::text(value), prefix.clone()), &uri)?;
            // Both end with a slash, or none does.
            let ends = match (value.strip_suffix('/'), prefix.strip_suffix('/')) {
                (Some(directory), Some(root)) => Some((directory, root)),
                (None, None) => Some((value, prefix.as_str())),
                _ => None,
            };
            if let (true, Some((directory, root))) = (whole == file, ends) {
                target.insert("root".to_owned(), directory.into());
                target.insert("prefix".to_owned(), super::steps::path_text(root).into());
                return Ok(Script::Target(target));
            }
        }
        if let Some((root, prefix)) = below_prefix(&file, state) {
            target.insert("root".to_owned(), root.into());
            target.insert("prefix".to_owned(), super::steps::path_text(&prefix).into());
            return Ok(Script::Target(target));
        }
        if !file.beginning().starts_with('/') {
            return Err("a request would choose the whole name of the script".to_owned());
        }
        if matches!(self.base(place, state), Ok(super::files::Base::File(_)))
            && name.arg(1).contains("$document_root")
        {
            let reason = "$document_root is the name of the file, so the script is not found; PHP-FPM looks for one in front of it";
            self.report.mark(name.id, Status::Changed, reason);
        }
        // With the path itself at the end, so that a path behind the script is its PATH_INFO.
        let file = match script_name.only_variable().and_then(|name| file.strip_variable(name)) {
            Some(root) => root.with(&uri),
            None => file,
        };
        Ok(Script::Share(file))
    }

    /// Returns the parameters that are not standard, and adds settings of PHP to the action.
    fn parameters(&mut self, place: &Place<'t>, state: &State, action: &mut Object) -> Object {
        let mut environment = Object::new();
        for param in place.scope.all("fastcgi_param") {
            let (name, text) = (param.arg(0), param.arg(1));
            if name == "SCRIPT_FILENAME" {
                continue;
            }
            let is_standard =
                STANDARD.iter().any(|(other, values)| *other == name && values.contains(&text));
            if is_standard {
                environment.remove(name);
                self.report.converted(param.id);
                if name == "REMOTE_USER" {
                    self.note_unchecked_user(param, place);
                }
                continue;
            }
            if name == "SERVER_SOFTWARE" && text.starts_with("nginx") {
                self.report.mark(param.id, Status::Changed, "it is \"Howdah (nginx compatible)\"");
                continue;
            }
            let value = match self.value(text, place, state) {
                Ok(value) => value,
                Err(reason) => {
                    self.report.mark(param.id, Status::NotConverted, reason);
                    continue;
                }
            };
            if matches!(name, "PHP_VALUE" | "PHP_ADMIN_VALUE") {
                match value.constant().and_then(settings) {
                    Some(settings) => {
                        self.report.converted(param.id);
                        let kind = if name == "PHP_VALUE" { "user" } else { "admin" };
                        let mut options = action
                            .get("options")
                            .and_then(Value::as_object)
                            .cloned()
                            .unwrap_or_default();
                        merge(&mut options, kind, settings);
                        action.insert("options".to_owned(), options.into());
                    }
                    None => self.report.mark(
                        param.id,
                        Status::NotConverted,
                        "the settings of PHP have variables",
                    ),
                }
                continue;
            }
            if name == "SERVER_NAME" && text == "$server_name" {
                if place.server_name.is_empty() {
                    self.report.mark(
                        param.id,
                        Status::Changed,
                        "the server has no name, so it is the host of the request",
                    );
                } else {
                    self.report.converted(param.id);
                    environment.insert(name.to_owned(), value.render().into());
                }
                continue;
            }
            if name == "PATH_INFO" {
                // A variable that was set from $fastcgi_path_info.
                let native = self.variable("fastcgi_path_info", place, state).ok();
                if native.as_ref() == Some(&value) {
                    self.report.converted(param.id);
                    environment.remove(name);
                    continue;
                }
            }
            let is_native = STANDARD.iter().any(|(other, values)| {
                *other == name
                    && values
                        .iter()
                        .any(|text| self.value(text, place, state).ok().as_ref() == Some(&value))
            });
            if !is_native && matches!(name, "DOCUMENT_ROOT" | "CONTENT_LENGTH" | "FCGI_ROLE") {
                let reason = "scripts get the value that the server has for it";
                self.report.mark(param.id, Status::Changed, reason);
                continue;
            }
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                let reason = "names of parameters have letters, digits and underscores";
                self.report.mark(param.id, Status::NotConverted, reason);
                continue;
            }
            self.report.converted(param.id);
            if !is_native {
                environment.insert(name.to_owned(), value.render().into());
            }
        }
        environment
    }

    /// Marks the name of the user where nobody has checked a password.
    fn note_unchecked_user(&mut self, param: &Directive, place: &Place<'t>) {
        let realm = place.scope.one("auth_basic").map_or("off", |directive| directive.arg(0));
        if realm == "off" {
            let reason = "it is empty here, where no password is checked; nginx has the name of any that a client sends";
            self.report.mark(param.id, Status::Changed, reason);
        }
    }

    /// Returns true if a path of `try_files` is the name of the script alone, and the script gets
    /// the path behind it.
    pub fn keeps_path_info(&mut self, place: &Place<'t>, state: &State, text: &str) -> bool {
        if text != "$fastcgi_script_name" {
            return false;
        }
        let Some(param) =
            place.scope.all("fastcgi_param").into_iter().rfind(|param| param.arg(0) == "PATH_INFO")
        else {
            return false;
        };
        if param.arg(1) == "$fastcgi_path_info" {
            // Empty by then, because the path has become the name of the script.
            return false;
        }
        let native = self.variable("fastcgi_path_info", place, state);
        match (self.value(param.arg(1), place, state), native) {
            (Ok(value), Ok(native)) => value == native,
            _ => false,
        }
    }
}

/// Returns the directory and the prefix for the name of a script that is the end of the path, as a
/// group of the location's expression has it.
fn below_prefix(file: &Template, state: &State) -> Option<(String, String)> {
    let expression = &state.captures.as_ref()?.expression;
    let [Piece::Text(directory), Piece::Variable(_)] = file.pieces() else { return None };
    let at = expression.text.find('(')?;
    let prefix = super::pcre::literal(expression.text[..at].strip_prefix('^')?)?;
    let group = expression.text[at..].strip_prefix('(')?.strip_suffix(")$")?;
    let is_whole =
        expression.groups == 1 && expression.excluded.is_empty() && !group.contains(['(', ')']);
    let root = directory.strip_suffix('/')?;
    let prefix = prefix.strip_suffix('/')?;
    (is_whole && !root.is_empty()).then(|| (root.to_owned(), prefix.to_owned()))
}

/// Reads lines of settings of PHP.
fn settings(text: &str) -> Option<Object> {
    let mut found = Object::new();
    for line in text.split('\n').map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=')?;
        let value = value.trim();
        let plain =
            value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        found.insert(name.trim().to_owned(), plain.into());
    }
    Some(found)
}

/// Writes an address with a port.
pub fn server_address(text: &str, port: u16) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with(['/', '@']).then(|| text.trim_end_matches(':').to_owned());
    }
    if text.is_empty() || text.contains(['/', ' ', '$']) {
        return None;
    }
    let has_port = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.1.starts_with(':'),
        None => text.contains(':'),
    };
    let address = if has_port { text.to_owned() } else { format!("{text}:{port}") };
    Address::parse_server(&address).is_ok().then_some(address)
}
