//! The content of a location: `try_files`, directories, files, and what it passes requests to.

use serde_json::{Value, json};

use super::context::{Kind, Place};
use super::convert::Converter;
use super::files::Base;
use super::options::Answer;
use super::reader::Directive;
use super::rewrite::rewrite_text;
use super::state::State;
use super::steps::{object, only_action, step};
use super::template::Template;
use super::variables::{Object, Reason};
use crate::Status;

/// Maximum number of named locations one behind the other that get other values of variables.
const MAX_NAMED_WITHIN: usize = 8;

/// Directives that answer requests by something that Howdah has not.
const FOREIGN: [&str; 20] = [
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "grpc_pass",
    "perl",
    "js_content",
    "dav_methods",
    "content_by_lua",
    "content_by_lua_block",
    "content_by_lua_file",
    "echo",
    "postgres_pass",
    "redis_pass",
    "drizzle_pass",
    "passenger_enabled",
    "empty_gif",
    "stub_status",
    "xslt_stylesheet",
    "image_filter",
    "random_index",
];

impl<'t> Converter<'_> {
    /// Returns the steps for requests that have come through the rewrites of a location.
    pub fn content(&mut self, place: &Place<'t>, state: &State) -> Vec<Value> {
        let inner = self.answer(place, state);
        let steps = self.guarded(place, state, inner);
        let Some(except) = place.scope.own("limit_except") else { return steps };
        self.report.converted(except.id);
        let methods = super::rewrite::methods_of(except);
        let others = place.with_scope(place.scope.inner(except.children()));
        let answer = self.answer(&others, state);
        let answer = self.guarded(&others, state, answer);
        let mut all = vec![step(
            object([("method", methods.into())]),
            self.pass_to(&self.place_hint(place, "methods"), steps),
        )];
        all.extend(answer);
        all
    }

    /// Returns the steps for requests that may be answered.
    fn answer(&mut self, place: &Place<'t>, state: &State) -> Vec<Value> {
        match place.scope.own("try_files") {
            Some(directive) => match self.try_files(directive, place, state) {
                Ok(steps) => {
                    self.report.converted(directive.id);
                    steps
                }
                Err(reason) => {
                    let reason = format!("{reason}; requests of the location are refused (403)");
                    self.report.mark(directive.id, Status::NotConverted, reason);
                    vec![step(Object::new(), self.closed(place, state, 403))]
                }
            },
            None => self.handler(place, state, None),
        }
    }

    fn try_files(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Result<Vec<Value>, Reason> {
        let Some((last, tries)) = directive.args.split_last() else {
            return Err("it has no paths".to_owned());
        };
        for path in &directive.args {
            self.note_query(directive, path);
        }
        let base = self.base(place, state)?;
        let mut steps = Vec::new();
        let mut tries = tries.iter().peekable();
        while let Some(text) = tries.next() {
            if text == "$uri" && !self.is_passed(place) && tries.next_if_eq(&"$uri/").is_some() {
                steps.extend(self.file_or_directory(place, state, &base)?);
                continue;
            }
            let (text, is_directory) = match text.strip_suffix('/') {
                Some(text) => (text, true),
                None => (text.as_str(), false),
            };
            let path = self.value(text, place, state)?;
            let file = self.file_of(&base, &path)?;
            let key = if is_directory { "directory" } else { "file" };
            let conditions = object([(key, file.render().into())]);
            let is_own = path.only_variable() == Some("uri");
            let keeps_info = self.keeps_path_info(place, state, text);
            let target = (!is_own && !keeps_info).then_some(&path);
            let found = if is_directory && !self.is_passed(place) {
                let mut found = self.directory_steps(place, state);
                found.push(step(Object::new(), self.file_action(place, state, &base)));
                match target {
                    None => found,
                    Some(path) => vec![step(Object::new(), {
                        let mut action = self.pass_to(&self.place_hint(place, "directory"), found);
                        action.insert("rewrite".to_owned(), rewrite_text(path, false).into());
                        action
                    })],
                }
            } else if !is_directory && !self.is_passed(place) {
                let mut action = self.file_action(place, state, &base);
                if let Some(path) = target {
                    action.insert("rewrite".to_owned(), rewrite_text(path, false).into());
                }
                vec![step(Object::new(), action)]
            } else {
                self.handler(place, state, target)
            };
            match found.as_slice() {
                [only] => {
                    let empty = Object::new();
                    let inner = only.get("match").and_then(Value::as_object).unwrap_or(&empty);
                    if inner.is_empty()
                        && let Some(action) = only["action"].as_object()
                    {
                        steps.push(step(conditions, action.clone()));
                        continue;
                    }
                    let action = self.pass_to(&self.place_hint(place, "found"), found);
                    steps.push(step(conditions, action));
                }
                _ => {
                    let hint = if is_directory { "directory" } else { "found" };
                    let action = self.pass_to(&self.place_hint(place, hint), found);
                    steps.push(step(conditions, action));
                }
            }
        }
        let action = if let Some(code) = last.strip_prefix('=') {
            let status: u16 = code.parse().map_err(|_| format!("\"{last}\" is no status"))?;
            self.returned(place, state, status)
        } else if last.starts_with('@') {
            self.named(place, state, last)?
        } else {
            let path = self.value(last, place, state)?;
            self.internal_redirect(place, &path)
        };
        steps.push(step(Object::new(), action));
        Ok(steps)
    }

    /// Returns the steps for `$uri $uri/`: directories with their slash, and whatever else there is.
    fn file_or_directory(
        &mut self,
        place: &Place<'t>,
        state: &State,
        base: &Base,
    ) -> Result<Vec<Value>, Reason> {
        let name = self.file_of(base, &Template::variable("uri"))?.render();
        let mut steps = self.directory_steps(place, state);
        for conditions in steps.iter_mut().filter_map(|step| step.get_mut("match")) {
            if let Some(conditions) = conditions.as_object_mut()
                && !conditions.contains_key("file")
            {
                // An index with an absolute name is for directories alone.
                conditions.insert("directory".to_owned(), name.clone().into());
            }
        }
        let action = self.file_action(place, state, base);
        steps.push(step(object([("exists", name.into())]), action));
        Ok(steps)
    }

    /// Returns the action for an internal redirect to a path.
    pub fn internal_redirect(&self, place: &Place<'t>, path: &Template) -> Object {
        let entry = place.site.as_ref().map(|site| site.internal_entry()).unwrap_or_default();
        // nginx drops the query unless the path has one; that of $request_uri is the client's.
        if let Some(path) = without_query(path) {
            let route = format!("routes/{entry}");
            return object([
                ("rewrite", rewrite_text(&path, false).into()),
                ("pass", route.into()),
            ]);
        }
        let replaces = !path.variables().any(|name| name == "request_uri");
        object([
            ("rewrite", rewrite_text(path, replaces).into()),
            ("pass", format!("routes/{entry}").into()),
        ])
    }

    /// Returns the action for a named location.
    pub fn named(
        &mut self,
        place: &Place<'t>,
        state: &State,
        name: &str,
    ) -> Result<Object, Reason> {
        let site = place.site.as_ref().ok_or("there is no server")?;
        let location = site
            .locations
            .iter()
            .find(|location| location.kind == Kind::Named && location.name == name)
            .cloned()
            .ok_or_else(|| format!("the server has no location \"{name}\""))?;
        let uses_groups = state.captures.is_some() && uses_groups(location.directive.children());
        let variant = self.variant_of(place, state);
        if uses_groups || variant.is_none() {
            let captures = state.captures.clone().filter(|_| uses_groups);
            let state = State { captures, is_rewritten: false, ..state.clone() };
            let name = self.named_in_state(place, &state, &location)?;
            return Ok(object([("pass", format!("routes/{name}").into())]));
        }
        let route = self.named_route(&site.name, name, &variant.unwrap_or_default());
        Ok(object([("pass", format!("routes/{route}").into())]))
    }

    /// Returns the route of a named location with the groups and the values of variables with which
    /// a request comes to it.
    fn named_in_state(
        &mut self,
        place: &Place<'t>,
        state: &State,
        location: &std::rc::Rc<super::context::Location<'t>>,
    ) -> Result<String, Reason> {
        let address = std::ptr::from_ref(location.directive) as usize;
        let key = (address, place.variant.clone(), state.clone());
        if let Some(name) = self.named_routes.get(&key) {
            return Ok(name.clone());
        }
        if self.named_within >= MAX_NAMED_WITHIN || !self.has_room() {
            return Err("named locations lead to each other with other values each time".to_owned());
        }
        let site = place.site.as_ref().map_or("", |site| &site.name);
        let name = self.route_name(&self.named_route(site, &location.name, &place.variant));
        self.reserved.insert(name.clone());
        self.named_routes.insert(key, name.clone());
        self.named_within += 1;
        let steps = self.rewrites_of_location(&place.in_location(location), state);
        self.named_within -= 1;
        self.routes.insert(name.clone(), steps.into());
        Ok(name)
    }

    /// Returns the steps for the program or the files that answer; `path` replaces the request's.
    pub fn handler(
        &mut self,
        place: &Place<'t>,
        state: &State,
        path: Option<&Template>,
    ) -> Vec<Value> {
        let handler = self.handler_of(place);
        let mut steps = match handler {
            Some(directive) if directive.name == "proxy_pass" => {
                self.proxy_pass(directive, place, state)
            }
            Some(directive) if directive.name == "fastcgi_pass" => {
                self.fastcgi_pass(directive, place, state, path)
            }
            Some(directive) => {
                let reason = super::grammar::reason(&directive.name)
                    .unwrap_or("Howdah does not know this directive");
                self.report.mark(
                    directive.id,
                    Status::NotConverted,
                    format!("{reason}; requests of the location are refused (404)"),
                );
                vec![step(Object::new(), self.closed(place, state, 404))]
            }
            None => match self.base(place, state) {
                Ok(base) => {
                    let mut steps = if path.is_none() {
                        self.directory_steps(place, state)
                    } else {
                        Vec::new()
                    };
                    steps.push(step(Object::new(), self.file_action(place, state, &base)));
                    steps
                }
                Err(reason) => self.without_base(place, state, &reason),
            },
        };
        let Some(path) = path else { return steps };
        if let Some(action) = only_action(&steps).filter(|action| !action.contains_key("rewrite")) {
            let mut action = action.clone();
            action.insert("rewrite".to_owned(), rewrite_text(path, false).into());
            return vec![step(Object::new(), action)];
        }
        let hint = self.place_hint(place, "content");
        let name = self.add_route(&hint, std::mem::take(&mut steps));
        let action = object([
            ("rewrite", rewrite_text(path, false).into()),
            ("pass", format!("routes/{name}").into()),
        ]);
        vec![step(Object::new(), action)]
    }

    fn without_base(&mut self, place: &Place<'t>, state: &State, reason: &str) -> Vec<Value> {
        for directive in place.scope.any_of(&["root", "alias"]) {
            let reason = format!("{reason}; requests for its files are refused (403)");
            self.report.mark(directive.id, Status::NotConverted, reason);
        }
        vec![step(Object::new(), self.closed(place, state, 403))]
    }

    /// Returns the directive that answers the requests of a place, unless files do.
    fn handler_of(&self, place: &Place<'t>) -> Option<&'t Directive> {
        let of = |directives: &'t [Directive]| {
            directives.iter().find(|directive| {
                let name = directive.name.as_str();
                matches!(name, "proxy_pass" | "fastcgi_pass")
                    || FOREIGN.contains(&name)
                    || name.ends_with("_pass") && !super::grammar::is_converted(name)
            })
        };
        of(place.scope.directives()).or_else(|| {
            // `if` and `limit_except` inherit it from their location.
            let location = place.location.as_ref()?;
            of(location.scope.directives())
        })
    }

    fn is_passed(&self, place: &Place<'t>) -> bool {
        self.handler_of(place).is_some()
    }

    /// Returns the action that refuses the requests of a place that cannot be converted.
    pub fn closed(&mut self, place: &Place<'t>, state: &State, status: u16) -> Object {
        self.note_closed(place);
        self.returned(place, state, status)
    }

    /// Returns the action that answers with a status.
    pub fn returned(&mut self, place: &Place<'t>, state: &State, status: u16) -> Object {
        let mut action = object([("return", json!(status))]);
        self.add_options(&mut action, place, state, Answer::Own);
        action
    }

    pub fn place_hint(&self, place: &Place<'t>, kind: &str) -> String {
        let site = place.site.as_ref().map_or("", |site| &site.name);
        match &place.location {
            Some(location) => format!("{site}-{}-{kind}", super::locations::slug(&location.name)),
            None => format!("{site}-{kind}"),
        }
    }
}

/// Returns the path in front of a query that is the request's own.
fn without_query(path: &Template) -> Option<Template> {
    let args = ["args", "query_string"];
    if let Some((front, query)) = path.split_once('?') {
        return query.only_variable().filter(|name| args.contains(name)).map(|_| front);
    }
    let front = args.iter().find_map(|name| path.strip_variable(name))?;
    front.strip_variable("is_args")
}

/// Returns true if directives use a group of a regular expression by its number.
fn uses_groups(directives: &[Directive]) -> bool {
    directives.iter().any(|directive| {
        let is_number = |name: &String| name.parse::<u8>().is_ok();
        directive.args.iter().any(|arg| super::variables::names_of(arg).iter().any(is_number))
            || uses_groups(directive.children())
    })
}
