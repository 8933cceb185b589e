//! Files: `root` and `alias`, index files, listings.

use serde_json::{Value, json};

use super::context::{Kind, Place};
use super::convert::Converter;
use super::options::Answer;
use super::reader::Directive;
use super::rewrite::rewrite_text;
use super::state::State;
use super::steps::{object, step};
use super::template::Template;
use super::variables::{Object, Reason};
use crate::Status;

/// The directory of files.
#[derive(Debug, Clone)]
pub enum Base {
    /// `root`, without a slash at its end.
    Root(Template),
    /// `alias` of a location whose name stands in front of the paths.
    Alias(Template, String),
    /// `alias` that is the whole name of a file.
    File(Template),
}

impl<'t> Converter<'_> {
    /// Returns the directory of the files of a place.
    pub fn base(&mut self, place: &Place<'t>, state: &State) -> Result<Base, Reason> {
        let Some(directive) = place.scope.any_of(&["root", "alias"]).into_iter().next() else {
            return Ok(Base::Root(Template::text("/usr/share/nginx/html")));
        };
        let is_own = |name: &&str| directive.arg(0).contains(*name);
        if ["document_root", "realpath_root", "request_filename"].iter().any(is_own) {
            return Err("the root would contain itself".to_owned());
        }
        let value = self.value(directive.arg(0), place, state)?;
        let value = if value.beginning().starts_with('/') {
            value
        } else if value.beginning().is_empty() {
            return Err("a request would choose the whole name of a file".to_owned());
        } else {
            Template::text("/usr/share/nginx/").with(&value)
        };
        self.report.converted(directive.id);
        if directive.name == "root" {
            return Ok(Base::Root(value.strip_suffix("/").unwrap_or(value)));
        }
        let Some(location) = &place.location else {
            return Err("\"alias\" stands outside of a location".to_owned());
        };
        // The location that has the directive, which may be one around this.
        let has_it = |scope: &super::scope::Scope<'_>| {
            scope.own("alias").is_some_and(|other| std::ptr::eq(other, directive))
        };
        let is_own = has_it(&location.scope) || has_it(&place.scope);
        match (&location.kind, is_own) {
            (Kind::Prefix | Kind::Forced, true) => Ok(Base::Alias(value, location.name.clone())),
            (Kind::Exact | Kind::Regex { .. } | Kind::Named, true) => Ok(Base::File(value)),
            (_, false) => {
                let around = self.owner_of_alias(place, directive);
                around
                    .map(|name| Base::Alias(value, name))
                    .ok_or_else(|| "the location around it has no prefix".to_owned())
            }
        }
    }

    /// Returns the name of the location around a place that has this `alias`.
    fn owner_of_alias(&self, place: &Place<'t>, directive: &Directive) -> Option<String> {
        fn find(
            locations: &[std::rc::Rc<super::context::Location<'_>>],
            directive: &Directive,
        ) -> Option<String> {
            locations.iter().find_map(|location| {
                let has_it =
                    location.scope.own("alias").is_some_and(|other| std::ptr::eq(other, directive));
                let is_prefix = matches!(location.kind, Kind::Prefix | Kind::Forced);
                if has_it && is_prefix {
                    Some(location.name.clone())
                } else {
                    find(&location.inner, directive)
                }
            })
        }
        find(&place.site.as_ref()?.locations, directive)
    }

    /// Returns the name of the file of a path.
    pub fn file_of(&mut self, base: &Base, path: &Template) -> Result<Template, Reason> {
        match base {
            Base::Root(root) => Ok(root.clone().with(path)),
            Base::File(file) if path.only_variable() == Some("uri") => Ok(file.clone()),
            Base::File(_) => Err("the location has the name of one file".to_owned()),
            Base::Alias(value, prefix) => {
                let expression = format!("^{}(.*)$", super::pcre::escape(prefix));
                let rest = self.group_of(&Template::variable("uri"), &expression, 1, None);
                let mut pieces = path.pieces().iter();
                match pieces.next() {
                    Some(super::template::Piece::Variable(name)) if name == "uri" => {
                        let behind = path.render();
                        let behind = behind.trim_start_matches("${uri}").trim_start_matches("$uri");
                        if behind.contains('$') {
                            return Err("the path has several variables below an alias".to_owned());
                        }
                        Ok(value.clone().with(&rest).with(&Template::text(behind)))
                    }
                    _ => Ok(value.clone().with(path)),
                }
            }
        }
    }

    /// Returns the value of `$document_root`.
    pub fn document_root(&mut self, place: &Place<'_>, state: &State) -> Result<Template, Reason> {
        let Some(directive) = place.scope.any_of(&["root", "alias"]).into_iter().next() else {
            return Ok(Template::text("/usr/share/nginx/html"));
        };
        let is_own = |name: &&str| directive.arg(0).contains(*name);
        if ["document_root", "realpath_root", "request_filename"].iter().any(is_own) {
            return Err("the root would contain itself".to_owned());
        }
        let value = self.value(directive.arg(0), place, state)?;
        let value = if value.beginning().starts_with('/') {
            value
        } else {
            Template::text("/usr/share/nginx/").with(&value)
        };
        Ok(if directive.name == "root" { value.strip_suffix("/").unwrap_or(value) } else { value })
    }

    /// Returns the value of `$request_filename`.
    pub fn request_filename(
        &mut self,
        place: &Place<'_>,
        state: &State,
    ) -> Result<Template, Reason> {
        let uri = Template::variable("uri");
        let Some(directive) = place.scope.any_of(&["root", "alias"]).into_iter().next() else {
            return Ok(Template::text("/usr/share/nginx/html").with(&uri));
        };
        if directive.name == "root" {
            return Ok(self.document_root(place, state)?.with(&uri));
        }
        let base = self.base(place, state)?;
        self.file_of(&base, &uri)
    }

    /// Returns the steps for directories: their index files, their listing, or a refusal.
    pub fn directory_steps(&mut self, place: &Place<'t>, state: &State) -> Vec<Value> {
        if !may_end_with_slash(place) {
            return Vec::new();
        }
        let Ok(base) = self.base(place, state) else { return Vec::new() };
        if matches!(base, Base::File(_)) {
            return Vec::new();
        }
        let uri = Template::variable("uri");
        let mut steps = Vec::new();
        let directives = place.scope.all("index");
        let names: Vec<&str> = if directives.is_empty() {
            vec!["index.html"]
        } else {
            directives
                .iter()
                .flat_map(|directive| directive.args.iter().map(String::as_str))
                .collect()
        };
        let slash = || object([("uri", "*/".into())]);
        for name in names {
            let made = self.value(name, place, state).and_then(|value| {
                if name.starts_with('/') {
                    return Ok((slash(), value));
                }
                let path = uri.clone().with(&value);
                let file = self.file_of(&base, &path)?;
                let mut conditions = slash();
                conditions.insert("file".to_owned(), file.render().into());
                Ok((conditions, path))
            });
            match made {
                Ok((conditions, path)) => {
                    let mut action = self.internal_redirect(place, &path);
                    // The query stays, unlike with other internal redirects.
                    action.insert("rewrite".to_owned(), rewrite_text(&path, false).into());
                    steps.push(step(conditions, action));
                }
                Err(reason) => directives.iter().for_each(|directive| {
                    self.report.mark(directive.id, Status::NotConverted, reason.clone());
                }),
            }
        }
        for directive in directives {
            self.report.converted(directive.id);
        }
        let Ok(name) = self.file_of(&base, &uri) else { return steps };
        let mut conditions = slash();
        conditions.insert("directory".to_owned(), name.render().into());
        let action = match self.listing(place) {
            Some(listing) => {
                let mut action = self.file_action(place, state, &base);
                // The type is that of the page, not of a file.
                if let Some(fields) =
                    action.get_mut("response_headers").and_then(Value::as_object_mut)
                {
                    fields.remove("Content-Type");
                }
                action.insert("index".to_owned(), "".into());
                action.insert("listing".to_owned(), listing);
                action
            }
            None => self.returned(place, state, 403),
        };
        steps.push(step(conditions, action));
        steps
    }

    /// Returns the form of listings; `None` without them.
    fn listing(&mut self, place: &Place<'t>) -> Option<Value> {
        let directive = place.scope.one("autoindex")?;
        if !place.scope.is_on("autoindex") {
            self.report.converted(directive.id);
            return None;
        }
        self.report.mark(directive.id, Status::Changed, "the page of a directory looks different, and does not list names that begin with a dot and sources of PHP");
        match place.scope.one("autoindex_format") {
            None => Some(true.into()),
            Some(format) => match format.arg(0) {
                "html" => {
                    self.report.converted(format.id);
                    Some(true.into())
                }
                "json" => {
                    self.report.converted(format.id);
                    Some("json".into())
                }
                _ => {
                    self.report.mark(
                        format.id,
                        Status::NotConverted,
                        "directories are listed as a page",
                    );
                    Some(true.into())
                }
            },
        }
    }

    /// Marks an `alias` whose names of files have variables.
    fn note_directories(&mut self, place: &Place<'t>) {
        for directive in place.scope.any_of(&["alias"]) {
            let reason = "a directory is a 404; nginx redirects to its path with a slash, or refuses it (403)";
            self.report.mark(directive.id, Status::Changed, reason);
        }
    }

    /// Returns the action that sends the file of the request.
    pub fn file_action(&mut self, place: &Place<'t>, state: &State, base: &Base) -> Object {
        let uri = Template::variable("uri");
        let mut action = match base {
            Base::Root(root) => object([("share", root.clone().with(&uri).render().into())]),
            Base::File(file) => {
                let mut action = object([("share", file.render().into())]);
                if file.variables().next().is_some() {
                    self.note_directories(place);
                }
                // The ending of the path decides about the media type, not that of the file.
                let text = file.render();
                let ending = |text: &str| {
                    text.rsplit('/')
                        .next()
                        .and_then(|name| name.rsplit_once('.'))
                        .map(|(_, ending)| ending.to_owned())
                };
                if ending(&text) != ending(place.prefix()) && !place.prefix().is_empty() {
                    let content_type = self.type_of_path(place);
                    action.insert(
                        "response_headers".to_owned(),
                        json!({ "Content-Type": content_type }),
                    );
                }
                action
            }
            Base::Alias(value, prefix) => {
                let directory = value.strip_suffix("/");
                match (directory, prefix.strip_suffix('/')) {
                    (Some(directory), Some("")) => {
                        object([("share", directory.with(&uri).render().into())])
                    }
                    (Some(directory), Some(name)) => object([
                        ("share", directory.with(&uri).render().into()),
                        ("prefix", super::steps::path_text(name).into()),
                    ]),
                    (directory, None) => {
                        let directory = directory.unwrap_or_else(|| value.clone());
                        object([
                            ("share", directory.with(&uri).render().into()),
                            ("prefix", super::steps::path_text(prefix).into()),
                        ])
                    }
                    (None, Some(_)) => match self.file_of(base, &uri) {
                        Ok(file) => object([("share", file.render().into())]),
                        Err(_) => return self.closed(place, state, 403),
                    },
                }
            }
        };
        self.add_options(&mut action, place, state, Answer::File);
        self.note_files(place);
        action
    }
}

/// Returns false if no path of the location ends with a slash.
fn may_end_with_slash(place: &Place<'_>) -> bool {
    match place.location.as_ref().map(|location| (&location.kind, location.name.as_str())) {
        Some((Kind::Exact, name)) => name.ends_with('/'),
        Some((Kind::Regex { .. }, name)) => {
            let Some(front) = name.strip_suffix('$') else { return true };
            let last = front.chars().next_back().unwrap_or('/');
            let group = front.rfind('(').map(|at| &front[at..]).unwrap_or("/");
            let is_plain_group = last == ')' && !group.contains(['/', '*', '?', '+', '.', '[']);
            !(last.is_ascii_alphanumeric() || is_plain_group)
        }
        _ => true,
    }
}
