//! The directives of a server or location that nginx carries out in their order: `set`, `if`,
//! `rewrite`, `return` and `break`.
//!
//! Each becomes a step. A `set` becomes a value that is put in where the variable is used. The body
//! of an `if` is a route of its own, which goes on with the directives behind the `if`.

use serde_json::{Value, json};

use super::conditions::Condition;
use super::context::Place;
use super::convert::Converter;
use super::pcre::{self, NO_EQUIVALENT};
use super::reader::Directive;
use super::state::{Captures, State};
use super::steps::{object, step, uri};
use super::template::{Piece, Template};
use super::variables::{Object, Reason};
use crate::Status;

/// Where the directives stand.
#[derive(Debug, Clone)]
pub struct Flow<'t> {
    /// True in a location, false in a server.
    is_location: bool,
    /// The request is an internal one.
    is_internal: bool,
    /// The place without the blocks of `if`.
    place: Place<'t>,
}

const DIRECTIVES: [&str; 5] = ["set", "if", "rewrite", "return", "break"];

/// Maximum depth of branches within branches.
const MAX_DEPTH: usize = 120;

const UNKNOWN_CONDITION: &str = "whether the condition holds cannot be said";

impl<'t> Converter<'_> {
    /// Returns the steps of a server in front of the choice of a location.
    pub fn rewrites_of_server(
        &mut self,
        place: &Place<'t>,
        state: &State,
        is_internal: bool,
    ) -> Vec<Value> {
        let flow = Flow { is_location: false, is_internal, place: place.clone() };
        let directives = rewrites(place.scope.directives());
        self.run(&flow, place, &directives, state.clone())
    }

    /// Returns the steps of a location: its rewrites and then its content.
    pub fn rewrites_of_location(&mut self, place: &Place<'t>, state: &State) -> Vec<Value> {
        let flow = Flow { is_location: true, is_internal: true, place: place.clone() };
        let directives = rewrites(place.scope.directives());
        let steps = self.run(&flow, place, &directives, state.clone());
        let Some(except) = place.scope.own("limit_except").filter(|_| !directives.is_empty())
        else {
            return steps;
        };
        // nginx carries out none of them for other methods.
        let methods = object([("method", methods_of(except).into())]);
        let hint = format!("{}-rewrites", self.hint(&flow));
        let mut all = vec![step(methods, self.pass_to(&hint, steps))];
        all.extend(self.content(place, state));
        all
    }

    /// Returns the steps of directives and of what follows them. Many ways lead to the same
    /// directives in the same state, whose steps are made once.
    fn run(
        &mut self,
        flow: &Flow<'t>,
        place: &Place<'t>,
        directives: &[&'t Directive],
        state: State,
    ) -> Vec<Value> {
        let first = directives.first().map_or(0, |first| std::ptr::from_ref(*first) as usize);
        let scopes = (flow.place.scope.address(), place.scope.address());
        let kind = (flow.is_location, flow.is_internal, place.variant.clone());
        let key = (first, scopes, kind, state.clone());
        if let Some(steps) = self.known_runs.get(&key) {
            return steps.clone();
        }
        self.depth += 1;
        let steps = if self.depth > MAX_DEPTH || !self.has_room() {
            let reason = "the server has too many rewrites; some requests are refused (403)";
            if let Some(directive) = directives.first() {
                self.report.mark(directive.id, Status::NotConverted, reason);
            }
            self.note_closed(&flow.place);
            vec![step(Object::new(), object([("return", 403.into())]))]
        } else {
            self.run_once(flow, place, directives, state)
        };
        self.depth -= 1;
        self.known_runs.insert(key, steps.clone());
        steps
    }

    fn run_once(
        &mut self,
        flow: &Flow<'t>,
        place: &Place<'t>,
        directives: &[&'t Directive],
        mut state: State,
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        for (at, directive) in directives.iter().enumerate() {
            let rest = &directives[at + 1..];
            match directive.name.as_str() {
                "set" => self.set(directive, place, &mut state),
                "break" => {
                    self.report.converted(directive.id);
                    steps.extend(self.finish(flow, place, &state, true));
                    return steps;
                }
                "return" => {
                    steps
                        .push(step(Object::new(), self.return_directive(directive, place, &state)));
                    return steps;
                }
                "rewrite" => match self.rewrite(flow, place, directive, rest, &state) {
                    Ok(Some(made)) if made.get("match").is_none() => {
                        steps.push(made);
                        return steps;
                    }
                    Ok(made) => steps.extend(made),
                    Err(reason) => {
                        let closed = self.unknown_rewrite(directive, &reason);
                        let is_last = closed.get("match").is_none();
                        steps.push(closed);
                        if is_last {
                            self.note_closed(&flow.place);
                            return steps;
                        }
                    }
                },
                _ => match self.condition(directive, place, &state) {
                    Ok(condition) => {
                        self.report.converted(directive.id);
                        steps.extend(
                            self.branch(flow, place, directive, rest, &condition, &mut state),
                        );
                    }
                    Err(reason) => {
                        let closes = closes(directive);
                        let closed = if closes {
                            "; all requests that come here are refused (403)"
                        } else {
                            ""
                        };
                        let text = format!("{UNKNOWN_CONDITION}: {reason}{closed}");
                        self.report.mark(directive.id, Status::NotConverted, text);
                        self.skip_all(
                            directive.children(),
                            "the condition around it is not converted",
                        );
                        for set in directive.children().iter().filter(|set| set.name == "set") {
                            state.variables.insert(name_of(set), None);
                        }
                        if closes {
                            self.note_closed(&flow.place);
                            steps.push(step(Object::new(), self.closed(place, &state, 403)));
                            return steps;
                        }
                    }
                },
            }
        }
        steps.extend(self.finish(flow, place, &state, false));
        steps
    }

    fn set(&mut self, directive: &'t Directive, place: &Place<'t>, state: &mut State) {
        let value = match self.value(directive.arg(1), place, state) {
            Ok(value) => {
                self.report.converted(directive.id);
                Some(value)
            }
            Err(reason) => {
                self.report.mark(directive.id, Status::NotConverted, reason);
                None
            }
        };
        state.variables.insert(name_of(directive), value);
    }

    /// What follows the directives of a server or location.
    fn finish(
        &mut self,
        flow: &Flow<'t>,
        place: &Place<'t>,
        state: &State,
        broke: bool,
    ) -> Vec<Value> {
        if flow.is_location && (broke || !state.is_rewritten) {
            return self.content(place, state);
        }
        let is_internal = flow.is_internal || state.is_rewritten;
        let name = if flow.is_location {
            self.selection_again(&flow.place, state)
        } else {
            self.selection_route(&flow.place, state, is_internal)
        };
        vec![step(Object::new(), object([("pass", format!("routes/{name}").into())]))]
    }

    /// Returns the step of an `if`, or none if its body only sets variables.
    fn branch(
        &mut self,
        flow: &Flow<'t>,
        place: &Place<'t>,
        directive: &'t Directive,
        rest: &[&'t Directive],
        condition: &Condition,
        state: &mut State,
    ) -> Vec<Value> {
        let body = directive.children();
        let sets_only = body.iter().all(|inner| matches!(inner.name.as_str(), "set" | "include"));
        let keeps_content = !flow.is_location || flow.place.scope.own("try_files").is_none();
        let mut inner_state = state.clone();
        if let Some(captures) = &condition.captures {
            self.set_captures(&mut inner_state, captures.clone());
        }
        if let (true, true, Some(test)) = (sets_only, keeps_content, &condition.test) {
            let before = state.clone();
            for inner in rewrites(body) {
                self.set(inner, place, &mut inner_state);
            }
            for inner in rewrites(body) {
                let name = name_of(inner);
                let yes = inner_state.variables.get(&name).cloned().flatten();
                let no = match before.variables.get(&name) {
                    Some(no) => no.clone(),
                    None => Some(Template::default()),
                };
                let value = match (yes, no) {
                    (Some(yes), Some(no)) if yes == no => Some(yes),
                    (Some(yes), Some(no)) => {
                        let definition = test.definition(&yes, &no);
                        Some(Template::variable(&self.define(&name, definition)))
                    }
                    _ => None,
                };
                state.variables.insert(name, value);
            }
            return Vec::new();
        }
        let inner_place = if flow.is_location {
            place.with_scope(flow.place.scope.inner(body))
        } else {
            place.clone()
        };
        let mut directives = rewrites(body);
        directives.extend_from_slice(rest);
        let steps = self.run(flow, &inner_place, &directives, inner_state);
        let hint = format!("{}-if", self.hint(flow));
        vec![step(condition.matches.clone(), self.pass_to(&hint, steps))]
    }

    /// Returns the step of a `rewrite`.
    fn rewrite(
        &mut self,
        flow: &Flow<'t>,
        place: &Place<'t>,
        directive: &'t Directive,
        rest: &[&'t Directive],
        state: &State,
    ) -> Result<Option<Value>, Reason> {
        let (regex, replacement, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
        let expression = pcre::convert(regex, false).ok_or(NO_EQUIVALENT)?;
        let is_always = matches!(regex, "^" | ".*" | "^.*$" | "^.*" | "^/" | "/" | ".")
            && expression.excluded.is_empty()
            && expression.groups == 0;
        let conditions = if is_always {
            Object::new()
        } else {
            uri(format!("~{}", expression.text), &expression.excluded)
        };
        let mut inner = state.clone();
        self.set_captures(
            &mut inner,
            Captures { subject: Template::variable("uri"), expression, is_direct: true },
        );
        let is_url = replacement.starts_with("http://")
            || replacement.starts_with("https://")
            || replacement.starts_with("$scheme");
        let text = replacement.strip_suffix('?');
        let template = self.value(text.unwrap_or(replacement), place, &inner)?;
        if is_url || matches!(flag, "redirect" | "permanent") {
            let status = if flag == "permanent" { 301 } else { 302 };
            let mut action =
                object([("return", status.into()), ("location", location_text(&template).into())]);
            if text.is_none() {
                action.insert("keep_query".to_owned(), true.into());
            }
            self.add_options(&mut action, place, state, super::options::Answer::Own);
            self.report.converted(directive.id);
            return Ok(Some(step(conditions, action)));
        }
        if !matches!(flag, "" | "last" | "break") {
            return Err(format!("\"{flag}\" is no flag of a rewrite"));
        }
        self.note_query(directive, replacement);
        let template = if text.is_none() { self.with_query_behind(&template) } else { template };
        let target = rewrite_text(&template, text.is_some());
        if !target.starts_with('/') && !target.starts_with('$') {
            return Err("the new path does not begin with a slash".to_owned());
        }
        inner.is_rewritten = true;
        inner.captures = None;
        self.forget_path(&mut inner);
        let steps = match flag {
            "last" => self.finish(flow, place, &inner, !flow.is_location),
            "break" => self.finish(flow, place, &inner, true),
            _ => self.run(flow, place, rest, inner),
        };
        self.report.converted(directive.id);
        let hint = format!("{}-rewritten", self.hint(flow));
        let mut action = object([("rewrite", target.into())]);
        match super::steps::only_action(&steps) {
            Some(only) if !only.contains_key("rewrite") => action.extend(only.clone()),
            _ => {
                let name = self.add_route(&hint, steps);
                action.insert("pass".to_owned(), format!("routes/{name}").into());
            }
        }
        Ok(Some(step(conditions, action)))
    }

    /// Returns a path to which nginx adds the query of the request, even if the path has it already.
    /// Howdah adds none to a path with `$args`, so that has another name.
    fn with_query_behind(&mut self, template: &Template) -> Template {
        let Some((path, query)) = template.split_once('?') else { return template.clone() };
        let mut whole = path.with(&Template::text("?"));
        for piece in query.pieces() {
            match piece {
                Piece::Variable(name) if matches!(name.as_str(), "args" | "query_string") => {
                    let definition = json!({ "map": "$args", "values": {}, "default": "$args" });
                    whole.push(&Template::variable(&self.define("query", definition)));
                }
                Piece::Variable(name) => whole.push(&Template::variable(name)),
                Piece::Text(text) => whole.push_text(text),
            }
        }
        whole
    }

    /// Marks a path with variables in its query that nginx puts in as they are. Groups of a
    /// `rewrite` are encoded there, too.
    pub fn note_query(&mut self, directive: &Directive, path: &str) {
        const ENCODED: [&str; 4] = ["args", "query_string", "is_args", "request_uri"];
        let Some((_, query)) = path.split_once('?') else { return };
        let is_group = |name: &str| directive.name == "rewrite" && name.parse::<u8>().is_ok();
        let differs = |name: &String| !ENCODED.contains(&name.as_str()) && !is_group(name);
        if super::variables::names_of(query).iter().any(differs) {
            let reason = "values of variables in the query are percent-encoded; nginx puts them in as they are";
            self.report.mark(directive.id, Status::Changed, reason);
        }
    }

    /// Closes the paths that a `rewrite` may be about.
    fn unknown_rewrite(&mut self, directive: &'t Directive, reason: &str) -> Value {
        self.report.mark(
            directive.id,
            Status::NotConverted,
            format!("{reason}; the paths that it may match are refused (404)"),
        );
        let conditions = match pcre::superset(directive.arg(0), false) {
            Some(superset) => uri(format!("~{}", superset.text), &superset.excluded),
            None => Object::new(),
        };
        step(conditions, object([("return", 404.into())]))
    }

    /// Gives the groups of an expression to what follows.
    pub fn set_captures(&mut self, state: &mut State, captures: Captures) {
        state.captures = Some(captures.clone());
        for (name, number) in &captures.expression.names {
            let value = if captures.is_direct {
                (*number <= 9).then(|| Template::variable(&number.to_string()))
            } else {
                (*number <= 9).then(|| {
                    self.group_of(&captures.subject, &captures.expression.text, *number, None)
                })
            };
            state.variables.insert(name.to_ascii_lowercase(), value);
        }
    }

    /// Forgets values that a change of the path would change.
    fn forget_path(&self, state: &mut State) {
        let depends = |template: &Template| {
            self.depends_on_path(template)
                || template.variables().any(|name| name.parse::<u8>().is_ok())
        };
        for value in state.variables.values_mut() {
            if value.as_ref().is_some_and(depends) {
                *value = None;
            }
        }
    }

    fn hint(&self, flow: &Flow<'t>) -> String {
        let site = flow.place.site.as_ref().map_or("", |site| &site.name);
        match &flow.place.location {
            Some(location) if flow.is_location => {
                format!("{site}-{}", super::locations::slug(&location.name))
            }
            _ => site.to_owned(),
        }
    }
}

/// Returns the methods that a `limit_except` names.
pub fn methods_of(except: &Directive) -> Vec<String> {
    let mut methods: Vec<String> =
        except.args.iter().map(|method| method.to_ascii_uppercase()).collect();
    if methods.iter().any(|method| method == "GET") {
        methods.push("HEAD".to_owned());
    }
    methods
}

/// Returns the directives that are carried out in their order.
fn rewrites(directives: &[Directive]) -> Vec<&Directive> {
    directives.iter().filter(|directive| DIRECTIVES.contains(&directive.name.as_str())).collect()
}

fn name_of(set: &Directive) -> String {
    set.arg(0).trim_start_matches('$').to_ascii_lowercase()
}

/// Returns true if the body of an `if` refuses requests, or sends them to a place that may.
fn closes(directive: &Directive) -> bool {
    directive.children().iter().any(|inner| match inner.name.as_str() {
        "return" => !matches!(inner.arg(0).as_bytes().first(), Some(b'1'..=b'3' | b'h' | b'$')),
        "rewrite" | "deny" | "auth_basic" => true,
        _ => false,
    })
}

/// Writes a template as a `location`.
pub fn location_text(template: &Template) -> String {
    template.render()
}

/// Writes a template as a `rewrite`; `replaces` drops the query of the request.
pub fn rewrite_text(template: &Template, replaces: bool) -> String {
    let text = match template.split_once('?') {
        Some((path, query)) => {
            format!("{}?{}", path.map_texts(super::steps::path_text).render(), query.render())
        }
        None => template.map_texts(super::steps::path_text).render(),
    };
    if replaces { format!("{text}?") } else { text }
}
